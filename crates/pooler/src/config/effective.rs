//! What holds for one database and one user, after wildcard, overrides and defaults.

use std::path::PathBuf;
use std::time::Duration;

use super::choices::{AutoPrepare, Dispatch, LoadBalance, PoolMode, ReplicaDispatch, Switch};
use super::host::{Endpoint, Host};
use super::values::{Bytes, Secret};
use super::{CONSOLES, Config, User, WILDCARD};

/// Everything about the clients of one user of one database, and about the pool they share.
///
/// Two users meet here where a database has a `user`: who logged in (limits and times of clients) and who the servers see
/// (size, mode and limits of the pool).
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// Name the client asked for.
    pub database: String,
    /// Whether it comes from `[databases."*"]`.
    pub wildcard: bool,
    /// Database on the server.
    pub dbname: String,
    /// User on the server.
    pub user: String,
    /// Whether that is the database's `user` and not the client's own.
    pub forced_user: bool,
    /// Password of the server's user, where a table has one; otherwise `auth_file` knows.
    pub password: Option<Secret>,
    /// Servers; at least one.
    pub hosts: Vec<Endpoint>,
    /// Servers with a copy.
    pub replicas: Vec<Endpoint>,
    /// How `hosts` are chosen.
    pub load_balance_hosts: LoadBalance,

    /// Who asks for secrets.
    pub auth_user: Option<String>,
    /// How.
    pub auth_query: String,
    /// Where; `None` for this database itself.
    pub auth_dbname: Option<String>,

    /// When a server goes back.
    pub pool_mode: PoolMode,
    /// Server connections of the pool.
    pub pool_size: u32,
    /// Of these kept open, never more than `pool_size`.
    pub min_pool_size: u32,
    /// Additional ones for clients that waited.
    pub reserve_pool_size: u32,
    /// Server connections of the database; 0: no limit.
    pub max_db_connections: u32,
    /// Client connections of the database; 0: no limit.
    pub max_db_client_connections: u32,
    /// Server connections of the server's user; 0: no limit.
    pub max_user_connections: u32,
    /// Client connections of the client's user; 0: no limit.
    pub max_user_client_connections: u32,

    /// Age of a server connection; zero: one use.
    pub server_lifetime: Duration,
    /// Zero: never.
    pub query_timeout: Duration,
    /// Zero: for ever.
    pub query_wait_timeout: Duration,
    /// Zero: never.
    pub client_idle_timeout: Duration,
    /// Zero: never.
    pub idle_transaction_timeout: Duration,
    /// Zero: never.
    pub transaction_timeout: Duration,

    /// Runs on each new server connection.
    pub connect_query: Option<String>,
    /// Application name of clients without one.
    pub application_name: Option<String>,
    /// Parameters that servers are asked for when they start, by name.
    pub parameters: Vec<(&'static str, String)>,

    /// Cohorts of statements.
    pub cohorts: Switch,
    /// Simple texts as prepared statements.
    pub auto_prepare: AutoPrepare,
    /// Statements with keys to cores.
    pub dispatch: Dispatch,
    /// Reads with keys to copies.
    pub replica_dispatch: ReplicaDispatch,
    /// Queries in parts.
    pub split: Switch,
    /// Heavy queries in a queue.
    pub heavy_queue: Switch,
    /// Reads to copies.
    pub read_write_split: bool,
    /// Only to copies with the client's last write.
    pub read_your_writes: bool,
    /// Copies further behind answer nothing; zero: no limit.
    pub lag_max: Duration,
    /// The same in bytes of log; 0: no limit.
    pub lag_bytes_max: Bytes,
}

impl Effective {
    /// Whether server connections made for `other` are no longer right: they go elsewhere, as somebody else, or began
    /// otherwise.
    pub fn moves(&self, other: &Effective) -> bool {
        self.hosts != other.hosts
            || self.replicas != other.replicas
            || self.dbname != other.dbname
            || self.user != other.user
            || self.password != other.password
            || self.connect_query != other.connect_query
            || self.parameters != other.parameters
    }
}

impl Config {
    /// What holds when `user` logs in to `database`; `None` when there is no such database (the console is none).
    pub fn effective_database(&self, database: &str, user: &str) -> Option<Effective> {
        if CONSOLES.contains(&database) || database == WILDCARD {
            return None;
        }
        let own = self.databases.get(database);
        let wildcard = own.is_none();
        let settings = own.or_else(|| self.databases.get(WILDCARD))?;
        let (proxy, corun) = (&self.proxy, &self.corun);

        let server_user = settings.user.clone().unwrap_or_else(|| user.to_owned());
        // A user without a table has nothing of its own.
        let nothing = User::default();
        let of_pool = self.users.get(&server_user).unwrap_or(&nothing);
        let of_client = self.users.get(user).unwrap_or(&nothing);

        let port = settings.port;
        let socket_folder = [Host::Directory(PathBuf::from(&proxy.unix_socket_dir))];
        let hosts = match &settings.host[..] {
            [] => &socket_folder[..],
            hosts => hosts,
        };
        let endpoint = |host: &Host| Endpoint {
            host: host.clone(),
            port,
        };
        let pool_size = of_pool
            .pool_size
            .or(settings.pool_size)
            .unwrap_or(proxy.default_pool_size);
        let parameters = [
            ("client_encoding", &settings.client_encoding),
            ("datestyle", &settings.datestyle),
            ("timezone", &settings.timezone),
        ];
        let own_password = settings.password.as_ref().filter(|_| settings.user.is_some());

        Some(Effective {
            database: database.to_owned(),
            wildcard,
            dbname: settings.dbname.clone().unwrap_or_else(|| database.to_owned()),
            forced_user: settings.user.is_some(),
            password: own_password.or(of_pool.password.as_ref()).cloned(),
            user: server_user,
            hosts: hosts.iter().map(endpoint).collect(),
            replicas: settings
                .replicas
                .iter()
                .map(|replica| replica.endpoint(port))
                .collect(),
            load_balance_hosts: settings.load_balance_hosts,

            auth_user: settings.auth_user.as_ref().or(proxy.auth_user.as_ref()).cloned(),
            auth_query: settings.auth_query.as_ref().unwrap_or(&proxy.auth_query).clone(),
            auth_dbname: settings
                .auth_dbname
                .as_ref()
                .or(proxy.auth_dbname.as_ref())
                .cloned(),

            pool_mode: of_pool
                .pool_mode
                .or(settings.pool_mode)
                .unwrap_or(proxy.pool_mode),
            pool_size,
            min_pool_size: settings
                .min_pool_size
                .unwrap_or(proxy.min_pool_size)
                .min(pool_size),
            reserve_pool_size: of_pool
                .reserve_pool_size
                .or(settings.reserve_pool_size)
                .unwrap_or(proxy.reserve_pool_size),
            max_db_connections: settings.max_db_connections.unwrap_or(proxy.max_db_connections),
            max_db_client_connections: settings
                .max_db_client_connections
                .unwrap_or(proxy.max_db_client_connections),
            max_user_connections: of_pool.max_user_connections.unwrap_or(proxy.max_user_connections),
            max_user_client_connections: of_client
                .max_user_client_connections
                .unwrap_or(proxy.max_user_client_connections),

            server_lifetime: settings.server_lifetime.unwrap_or(proxy.server_lifetime),
            query_timeout: of_client.query_timeout.unwrap_or(proxy.query_timeout),
            query_wait_timeout: of_client
                .query_wait_timeout
                .or(settings.query_wait_timeout)
                .unwrap_or(proxy.query_wait_timeout),
            client_idle_timeout: of_client.client_idle_timeout.unwrap_or(proxy.client_idle_timeout),
            idle_transaction_timeout: of_client
                .idle_transaction_timeout
                .unwrap_or(proxy.idle_transaction_timeout),
            transaction_timeout: of_client.transaction_timeout.unwrap_or(proxy.transaction_timeout),

            connect_query: settings.connect_query.clone(),
            application_name: settings.application_name.clone(),
            parameters: parameters
                .into_iter()
                .filter_map(|(name, value)| value.clone().map(|value| (name, value)))
                .collect(),

            cohorts: settings.cohorts.unwrap_or(corun.cohorts),
            auto_prepare: settings.auto_prepare.unwrap_or(corun.auto_prepare),
            dispatch: settings.dispatch.unwrap_or(corun.dispatch),
            replica_dispatch: settings.replica_dispatch.unwrap_or(corun.replica_dispatch),
            split: settings.split.unwrap_or(corun.split),
            heavy_queue: of_pool
                .heavy_queue
                .or(settings.heavy_queue)
                .unwrap_or(corun.heavy_queue),
            read_write_split: settings.read_write_split.unwrap_or(corun.read_write_split),
            read_your_writes: settings.read_your_writes.unwrap_or(corun.read_your_writes),
            lag_max: settings.lag_max.unwrap_or(corun.lag_max),
            lag_bytes_max: settings.lag_bytes_max.unwrap_or(corun.lag_bytes_max),
        })
    }
}
