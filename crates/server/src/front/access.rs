//! [`Access`]: who gets in, how they show who they are, and what they may read; as the files say now.
//!
//! ```text
//!  files ─► AccessState ◄── a login keeps the one it began with
//!  again ─► AccessState ◄── rights are those of the newest
//! ```

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use corun_wire::auth::Mock;
use corun_wire::auth::hba::{FileError, Rules};
use corun_wire::auth::ident::IdentMaps;
use corun_wire::server::Policy;
use corun_wire::tls::{TlsError, TlsFiles, TlsMode, TlsServer};
use parking_lot::RwLock;
use ring::rand::SystemRandom;

use crate::catalog::RoleFact;
use crate::data::{DataError, FileRights};
use crate::session::Rights;
use crate::users::UserTable;

/// Rules where there are no users: this machine's own, without a proof.
const RULES_WITHOUT_USERS: &str =
    "local all all trust\nhost all all 127.0.0.0/8 trust\nhost all all ::1/128 trust\n";
/// Rules where there are users.
const RULES_WITH_USERS: &str = "local all all scram-sha-256\nhostssl all all all scram-sha-256\n\
    host all all 127.0.0.0/8 scram-sha-256\nhost all all ::1/128 scram-sha-256\n";
/// And where passwords' proofs may go over any network without TLS.
const RULES_IN_PLAINTEXT: &str = "host all all all scram-sha-256\n";

/// What is wrong with who may get in.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The file of rules.
    #[error(transparent)]
    Rules(#[from] FileError),
    /// The file of users.
    #[error(transparent)]
    Users(#[from] DataError),
    /// Certificate and key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Others reach the address.
    #[error(
        "others reach {0}, and there is no file of users\nhint: give --users FILE; or listen at 127.0.0.1"
    )]
    NoUsers(SocketAddr),
    /// Others reach the address.
    #[error(
        "others reach {0}, and there is no TLS\n\
         hint: give --tls-cert and --tls-key; or --allow-plaintext, where nobody else is on the network"
    )]
    NoTls(SocketAddr),
    /// Only one of certificate and key.
    #[error("TLS needs a certificate and its key\nhint: give both --tls-cert and --tls-key")]
    HalfTls,
    /// No random numbers.
    #[error("the system has no random numbers")]
    Random,
}

/// Who gets in, and what they may read. Sessions ask it for rights, so that those of [`Access::reload`] hold for them from their next statement
/// on; a session whose user is gone goes on, and may read nothing.
pub struct Access {
    files: AccessFiles,
    listen: Vec<SocketAddr>,
    random: SystemRandom,
    now: RwLock<Arc<AccessState>>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// Who gets in, by the files as they were when they were read.
pub(super) struct AccessState {
    rules: Rules,
    maps: IdentMaps,
    users: UserTable,
    mock: Mock,
    tls: Option<TlsServer>,
}

/// Where the parts of an [`Access`] are read from.
#[derive(Clone, Debug, Default)]
pub struct AccessFiles {
    /// The file of users.
    pub users: Option<PathBuf>,
    /// The file of rules.
    pub hba: Option<PathBuf>,
    /// The certificate.
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    pub tls_key: Option<PathBuf>,
    /// Whether others may log in without TLS.
    pub allow_plaintext: bool,
}

impl Access {
    /// Reads the files, and checks that they are enough for these addresses.
    ///
    /// # Errors
    /// Files that cannot be read; an address that others reach without users, or without TLS.
    pub fn load(files: &AccessFiles, listen: &[SocketAddr]) -> Result<Self, AccessError> {
        let random = SystemRandom::new();
        let now = RwLock::new(Arc::new(AccessState::load(files, listen, &random)?));
        Ok(Self {
            files: files.clone(),
            listen: listen.to_vec(),
            random,
            now,
        })
    }

    /// Reads the files again: logins that begin from now on, and rights of all sessions, are by them.
    ///
    /// # Errors
    /// As [`Access::load`]; then everything stays as it was.
    pub fn reload(&self) -> Result<(), AccessError> {
        let read = AccessState::load(&self.files, &self.listen, &self.random)?;
        *self.now.write() = Arc::new(read);
        Ok(())
    }

    /// Whether everyone who reaches the server gets in as whoever they say.
    pub fn is_open(&self) -> bool {
        self.now().users.is_everyone()
    }

    /// What is not wrong but should be looked at.
    pub fn warnings(&self) -> Vec<String> {
        let now = self.now();
        let of_tls = now.tls.iter().flat_map(TlsServer::warnings);
        now.users.warnings().iter().chain(of_tls).cloned().collect()
    }

    /// What a login that begins now is held against.
    pub(super) fn now(&self) -> Arc<AccessState> {
        Arc::clone(&self.now.read())
    }

    /// Random numbers.
    pub(super) fn random(&self) -> &SystemRandom {
        &self.random
    }
}

impl AccessState {
    fn load(files: &AccessFiles, listen: &[SocketAddr], random: &SystemRandom) -> Result<Self, AccessError> {
        let tls = match (&files.tls_cert, &files.tls_key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(TlsServer::load(&TlsFiles {
                mode: TlsMode::Prefer,
                cert: Some(cert.clone()),
                key: Some(key.clone()),
                ..TlsFiles::default()
            })?),
            _ => return Err(AccessError::HalfTls),
        };
        if let Some(open) = listen.iter().find(|address| !address.ip().is_loopback()) {
            if files.users.is_none() {
                return Err(AccessError::NoUsers(*open));
            }
            if tls.is_none() && !files.allow_plaintext {
                return Err(AccessError::NoTls(*open));
            }
        }
        let users = match &files.users {
            Some(path) => UserTable::load(path)?,
            None => UserTable::everyone(),
        };
        let rules = match &files.hba {
            Some(path) => Rules::load(path)?,
            None => Rules::parse(&default_rules(files), Path::new("the rules without a file"))?,
        };
        let mock = users.mock(random).ok_or(AccessError::Random)?;
        Ok(Self {
            rules,
            maps: IdentMaps::default(),
            users,
            mock,
            tls,
        })
    }

    /// Sessions of TLS, where there is a certificate.
    pub(super) fn tls(&self) -> Option<&TlsServer> {
        self.tls.as_ref()
    }

    /// What logins are held against.
    pub(super) fn policy<'a>(&'a self, random: &'a SystemRandom) -> Policy<'a> {
        Policy {
            rules: &self.rules,
            maps: &self.maps,
            users: &self.users,
            mock: &self.mock,
            random,
            offers_tls: self.tls.is_some(),
            // Rules say so (`hostssl`).
            requires_tls: false,
        }
    }
}

impl Rights for Access {
    fn files(&self, user: &str) -> FileRights {
        self.now().users.files(user)
    }

    fn may_read(&self, user: &str, schema: &str, table: &str) -> bool {
        self.now().users.may_read(user, schema, table)
    }

    fn is_superuser(&self, user: &str) -> bool {
        self.now().users.is_superuser(user)
    }

    fn roles(&self) -> Vec<RoleFact> {
        self.now().users.roles()
    }
}

fn default_rules(files: &AccessFiles) -> String {
    match (&files.users, files.allow_plaintext) {
        (None, _) => RULES_WITHOUT_USERS.to_owned(),
        (Some(_), false) => RULES_WITH_USERS.to_owned(),
        (Some(_), true) => [RULES_WITH_USERS, RULES_IN_PLAINTEXT].concat(),
    }
}
