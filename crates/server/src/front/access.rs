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
use corun_wire::startup::Startup;
use corun_wire::tls::{TlsError, TlsFiles, TlsMode, TlsServer};
use parking_lot::RwLock;
use ring::rand::SystemRandom;

use crate::data::DataError;
use crate::users::{LiveUsers, UserTable};

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

/// Who gets in, and what they may read. Sessions ask its [`LiveUsers`] for rights, so that those of [`Access::reload`] hold for them from their
/// next statement on; a session whose user is gone goes on, and may read nothing.
pub struct Access {
    files: AccessFiles,
    listen: Vec<SocketAddr>,
    random: SystemRandom,
    users: Arc<LiveUsers>,
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
struct AccessState {
    rules: Rules,
    maps: IdentMaps,
    mock: Mock,
    tls: Option<TlsServer>,
}

/// What a login is held against, from its beginning to its end.
pub(super) struct LoginAccess {
    state: Arc<AccessState>,
    users: Arc<UserTable>,
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
        let (state, users) = AccessState::load(files, listen, &random)?;
        let is_toml = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "toml");
        let path = files.users.as_ref().filter(is_toml).cloned();
        Ok(Self {
            files: files.clone(),
            listen: listen.to_vec(),
            random,
            users: Arc::new(LiveUsers::new(users, path)),
            now: RwLock::new(Arc::new(state)),
        })
    }

    /// Reads the files again: logins that begin from now on, and rights of all sessions, are by them.
    ///
    /// # Errors
    /// As [`Access::load`]; then everything stays as it was.
    pub fn reload(&self) -> Result<(), AccessError> {
        let (state, users) = AccessState::load(&self.files, &self.listen, &self.random)?;
        *self.now.write() = Arc::new(state);
        self.users.replace(users);
        Ok(())
    }

    /// Whether everyone who reaches the server gets in as whoever they say.
    pub fn is_open(&self) -> bool {
        self.users.now().is_everyone()
    }

    /// Who there is; sessions ask it for rights.
    pub fn users(&self) -> &Arc<LiveUsers> {
        &self.users
    }

    /// What is not wrong but should be looked at.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.users.now().warnings().to_vec();
        let state = Arc::clone(&self.now.read());
        warnings.extend(state.tls.iter().flat_map(TlsServer::warnings).cloned());
        warnings
    }

    /// What a login that begins now is held against.
    pub(super) fn now(&self) -> LoginAccess {
        LoginAccess {
            state: Arc::clone(&self.now.read()),
            users: self.users.now(),
        }
    }

    /// Random numbers.
    pub(super) fn random(&self) -> &SystemRandom {
        &self.random
    }
}

impl AccessState {
    fn load(
        files: &AccessFiles,
        listen: &[SocketAddr],
        random: &SystemRandom,
    ) -> Result<(Self, UserTable), AccessError> {
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
        let state = Self {
            rules,
            maps: IdentMaps::default(),
            mock,
            tls,
        };
        Ok((state, users))
    }
}

impl LoginAccess {
    /// Sessions of TLS, where there is a certificate.
    pub(super) fn tls(&self) -> Option<&TlsServer> {
        self.state.tls.as_ref()
    }

    /// What logins are held against, by the database that each of them gets.
    pub(super) fn policy<'a>(
        &'a self,
        random: &'a SystemRandom,
        database: &'a dyn Fn(&Startup) -> String,
    ) -> Policy<'a> {
        Policy {
            rules: &self.state.rules,
            maps: &self.state.maps,
            users: &*self.users,
            database,
            mock: &self.state.mock,
            random,
            offers_tls: self.state.tls.is_some(),
            // Rules say so (`hostssl`).
            requires_tls: false,
        }
    }
}

fn default_rules(files: &AccessFiles) -> String {
    match (&files.users, files.allow_plaintext) {
        (None, _) => RULES_WITHOUT_USERS.to_owned(),
        (Some(_), false) => RULES_WITH_USERS.to_owned(),
        (Some(_), true) => [RULES_WITH_USERS, RULES_IN_PLAINTEXT].concat(),
    }
}
