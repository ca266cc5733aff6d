//! [`ConfigFiles`]: the configuration with all that is read beside it. Event loops take over a new one as a whole.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use corun_net::reactor::{KeepAlive, TcpOptions};

use crate::config::{
    AuthType, AutoCount, Config, ConfigError, Dispatch, Effective, Finding, PoolMode, Switch, WILDCARD,
};
use crate::core::pool::PoolKey;
use crate::core::route::fleet::REPLICATION;
use crate::core::route::resolve::Kept;
use corun_wire::auth::ident::IdentMaps;
use corun_wire::auth::scram::ClientKeys;
use corun_wire::auth::userlist::Userlist;
use corun_wire::auth::{Credentials, Lookup, Method, Secret, hba};
use corun_wire::tls::{TlsClient, TlsError, TlsFiles, TlsMode, TlsServer};

/// Configuration, users, rules, certificates.
#[derive(Debug)]
pub struct ConfigFiles {
    /// The file.
    pub config: Config,
    /// `auth_file`.
    pub users: Userlist,
    /// Secrets of `[users]`.
    own: std::collections::HashMap<String, Secret>,
    /// `auth_hba_file`, where it is used.
    pub rules: Option<hba::Rules>,
    /// `auth_ident_file`.
    pub maps: IdentMaps,
    /// TLS with clients, unless it is disabled.
    pub tls_server: Option<TlsServer>,
    /// TLS with servers, unless it is disabled.
    pub tls_client: Option<TlsClient>,
    /// The file that was read, for `RELOAD`.
    pub file: Option<std::path::PathBuf>,
    /// What is not wrong but should be looked at.
    pub warnings: Vec<String>,
}

/// Why there is no files.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFilesError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file of users or rules is wrong.
    #[error(transparent)]
    File(#[from] hba::FileError),
    /// Certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// What was read, or what was there before.
fn loaded_or<T>(loaded: Result<T, TlsError>, before: Option<T>) -> Result<Option<T>, TlsError> {
    match (loaded, before) {
        (Err(error), Some(before)) => {
            tracing::warn!(%error, "TLS stays as it was until certificate, key and authority fit each other");
            Ok(Some(before))
        }
        (loaded, _) => loaded.map(Some),
    }
}

impl ConfigFiles {
    /// Reads the configuration file and what it names.
    ///
    /// # Errors
    /// What is wrong, with file and line.
    pub fn load(file: &Path) -> Result<(Self, Vec<Finding>), ConfigFilesError> {
        let loaded = Config::load(file)?;
        let mut files = Self::of(loaded.config)?;
        files.file = Some(file.to_owned());
        Ok((files, loaded.warnings))
    }

    /// Reads what a configuration names.
    ///
    /// # Errors
    /// What is wrong, with file and line.
    pub fn of(config: Config) -> Result<Self, ConfigFilesError> {
        Self::read(config, None)
    }

    /// The same after `SET` of a certificate, key or authority: as long as it does not fit the others, the TLS of `before` stays.
    ///
    /// # Errors
    /// What else is wrong.
    pub fn of_set(config: Config, before: &Self) -> Result<Self, ConfigFilesError> {
        Self::read(config, Some(before))
    }

    fn read(config: Config, before: Option<&Self>) -> Result<Self, ConfigFilesError> {
        let proxy = &config.proxy;
        let users = match &proxy.auth_file {
            Some(file) => Userlist::load(file)?,
            None => Userlist::default(),
        };
        let mut own = std::collections::HashMap::new();
        for (name, user) in &config.users {
            if let Some(password) = &user.password
                && let Some(secret) = Secret::parse(password.reveal().as_bytes())
            {
                own.insert(name.clone(), secret);
            }
        }
        let rules = match (&proxy.auth_hba_file, proxy.auth_type) {
            (Some(file), AuthType::Hba) => Some(hba::Rules::load(file)?),
            _ => None,
        };
        let maps = match &proxy.auth_ident_file {
            Some(file) => IdentMaps::load(file)?,
            None => IdentMaps::default(),
        };
        let tls_server = match proxy.client_tls_sslmode {
            TlsMode::Disable => None,
            mode => {
                let loaded = TlsServer::load(&TlsFiles {
                    mode,
                    ca: proxy.client_tls_ca_file.clone(),
                    cert: proxy.client_tls_cert_file.clone(),
                    key: proxy.client_tls_key_file.clone(),
                    protocols: proxy.client_tls_protocols,
                    prefix: "client_tls_",
                });
                loaded_or(loaded, before.and_then(|before| before.tls_server.clone()))?
            }
        };
        let tls_client = match proxy.server_tls_sslmode {
            TlsMode::Disable => None,
            mode => {
                let loaded = TlsClient::load(&TlsFiles {
                    mode,
                    ca: proxy.server_tls_ca_file.clone(),
                    cert: proxy.server_tls_cert_file.clone(),
                    key: proxy.server_tls_key_file.clone(),
                    protocols: proxy.server_tls_protocols,
                    prefix: "server_tls_",
                });
                loaded_or(loaded, before.and_then(|before| before.tls_client.clone()))?
            }
        };
        let mut warnings = users.warnings().to_vec();
        warnings.extend(tls_server.iter().flat_map(|tls| tls.warnings().to_vec()));
        warnings.extend(tls_client.iter().flat_map(|tls| tls.warnings().to_vec()));
        Ok(Self {
            users,
            own,
            rules,
            maps,
            tls_server,
            tls_client,
            warnings,
            file: None,
            config,
        })
    }

    /// What holds for a database and user.
    pub fn effective(&self, database: &str, user: &str) -> Option<Arc<Effective>> {
        self.config.effective_database(database, user).map(Arc::new)
    }

    /// The secret of a user, if a file has it.
    pub fn lookup(&self, user: &str) -> Lookup<'_> {
        match self.own.get(user) {
            Some(secret) => Lookup::Found(secret),
            None => self.users.lookup(user),
        }
    }

    /// What the proxy has to log in at a server as the user of a pool: the password of the configuration, or the secret of a file,
    /// otherwise `kept`, which `auth_query` found, and what was `learnt` from a client or an earlier login.
    pub fn credentials(
        &self,
        effective: &Effective,
        kept: Option<&Secret>,
        learnt: Option<ClientKeys>,
    ) -> Credentials {
        match &effective.password {
            // A verifier or a hash may stand there as well, which is not the password.
            Some(password) => {
                let secret = Secret::parse(password.reveal().as_bytes());
                Credentials::new(secret.as_ref(), learnt)
            }
            None => {
                let secret = match self.lookup(&effective.user) {
                    Lookup::Found(secret) => Some(secret),
                    _ => kept,
                };
                Credentials::new(secret, learnt)
            }
        }
    }

    /// The method of all clients, where no rules decide.
    pub fn method(&self) -> Method {
        match self.config.proxy.auth_type {
            AuthType::Any => Method::Any,
            AuthType::Trust => Method::Trust,
            AuthType::Plain => Method::Password,
            AuthType::Md5 => Method::Md5,
            AuthType::Scram => Method::ScramSha256,
            AuthType::Cert => Method::Cert,
            AuthType::Hba => Method::Reject,
        }
    }

    /// How long addresses of hosts are used.
    pub(super) fn names_kept(&self) -> Kept {
        Kept {
            found: self.config.proxy.dns_max_ttl,
            failed: self.config.proxy.dns_nxdomain_ttl,
        }
    }

    /// Options of all TCP connections.
    pub fn tcp_options(&self) -> TcpOptions {
        let proxy = &self.config.proxy;
        let some = |time: Duration| (!time.is_zero()).then_some(time);
        TcpOptions {
            keep_alive: proxy.tcp_keepalive.then(|| KeepAlive {
                idle: some(proxy.tcp_keepidle),
                interval: some(proxy.tcp_keepintvl),
                count: (proxy.tcp_keepcnt > 0).then_some(proxy.tcp_keepcnt),
            }),
            user_timeout: some(Duration::from_millis(u64::from(proxy.tcp_user_timeout))),
        }
    }

    /// Size of the kernel's buffers of a TCP connection; `None`: the system's.
    pub fn tcp_buffer(&self) -> Option<usize> {
        let bytes = self.config.proxy.tcp_socket_buffer.0;
        (bytes > 0).then_some(bytes as usize)
    }

    /// A pool's size and reserve, for all event loops together.
    pub fn sizes(&self, effective: &Effective, loops: usize) -> (usize, usize) {
        let size = match self.config.corun.backends_per_core {
            AutoCount::Auto => effective.pool_size as usize,
            AutoCount::Count(count) => count as usize * loops,
        };
        (size, effective.reserve_pool_size as usize)
    }

    /// What holds for the servers of a pool, whether the user they are logged in to as is the forced one or `auth_user`.
    pub(in crate::core) fn effective_of(&self, key: &PoolKey) -> Option<Arc<Effective>> {
        let user = &*key.user;
        let mut effective = self.config.effective_database(&key.database, user)?;
        if effective.user != user {
            let settings = self.config.users.get(user);
            effective.password = settings.and_then(|settings| settings.password.clone());
            effective.user = user.to_owned();
            effective.forced_user = false;
        }
        if key.host & REPLICATION != 0 {
            // What streams the log takes no other queries and no settings, for as long as its client stays.
            effective.pool_mode = PoolMode::Session;
            effective.server_lifetime = Duration::ZERO;
            effective.connect_query = None;
            effective.min_pool_size = 0;
            effective.query_timeout = Duration::ZERO;
            effective.client_idle_timeout = Duration::ZERO;
            effective.transaction_timeout = Duration::ZERO;
            effective.idle_transaction_timeout = Duration::ZERO;
            effective.dispatch = Dispatch::Off;
            effective.split = Switch::Off;
            effective.heavy_queue = Switch::Off;
        }
        Some(Arc::new(effective))
    }

    /// The user that servers of a database are logged in to as, for clients of this one.
    pub fn server_user(&self, database: &str, user: &Arc<str>) -> Arc<str> {
        let databases = &self.config.databases;
        let settings = databases.get(database).or_else(|| databases.get(WILDCARD));
        match settings.and_then(|settings| settings.user.as_deref()) {
            Some(forced) if *forced != **user => forced.into(),
            _ => Arc::clone(user),
        }
    }
}
