//! What holds for one database and one user, after wildcard, overrides and defaults.

use std::path::PathBuf;
use std::time::Duration;

use super::choices::{AutoPrepare, Dispatch, LoadBalance, PoolMode, ReplicaDispatch, Switch};
use super::host::{Endpoint, Host};
use super::values::{Bytes, Secret};
use super::{CONSOLES, Config, Database, User, WILDCARD};

/// Makes the struct and what fills it out of one table: the field, its type, where its value comes from, and what it means.
macro_rules! effective {
    (
        $(#[$outer:meta])*
        $name:ident from ($($source:ident: $kind:ty),*) {
            $( $field:ident: $type:ty = $value:expr, $meaning:literal; )*
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( #[doc = $meaning] pub $field: $type, )*
        }

        impl $name {
            fn new($($source: $kind),*) -> Self {
                $name { $( $field: $value, )* }
            }
        }
    };
}

effective! {
    /// Everything about the clients of one user of one database, and about the pool they share.
    ///
    /// Two users meet here where a database has a `user`: who logged in (limits and times of clients) and who the servers see
    /// (size, mode and limits of the pool).
    Effective from (name: &str, config: &Config, own: &Database, of_client: &User, user: String, of_pool: &User) {
        database: String = name.to_owned(), "Name the client asked for.";
        wildcard: bool = !config.databases.contains_key(name), "Whether it comes from `[databases.\"*\"]`.";
        dbname: String = own.dbname.clone().unwrap_or_else(|| name.to_owned()), "Database on the server.";
        user: String = user, "User on the server.";
        forced_user: bool = own.user.is_some(), "Whether that is the database's `user` and not the client's own.";
        password: Option<Secret> = own.password.as_ref().filter(|_| own.user.is_some()).or(of_pool.password.as_ref()).cloned(),
            "Password of the server's user, where a table has one; otherwise `auth_file` knows.";
        hosts: Vec<Endpoint> = hosts(config, own), "Servers; at least one.";
        replicas: Vec<Endpoint> = replicas(own), "Servers with a copy.";
        load_balance_hosts: LoadBalance = own.load_balance_hosts, "How `hosts` are chosen.";

        auth_user: Option<String> = own.auth_user.as_ref().or(config.proxy.auth_user.as_ref()).cloned(), "Who asks for secrets.";
        auth_query: String = own.auth_query.as_ref().unwrap_or(&config.proxy.auth_query).clone(), "How.";
        auth_dbname: Option<String> = own.auth_dbname.as_ref().or(config.proxy.auth_dbname.as_ref()).cloned(),
            "Where; `None` for this database itself.";

        pool_mode: PoolMode = of_pool.pool_mode.or(own.pool_mode).unwrap_or(config.proxy.pool_mode), "When a server goes back.";
        pool_size: u32 = pool_size(config, own, of_pool), "Server connections of the pool.";
        min_pool_size: u32 = own.min_pool_size.unwrap_or(config.proxy.min_pool_size).min(pool_size(config, own, of_pool)),
            "Of these kept open, never more than `pool_size`.";
        reserve_pool_size: u32 = of_pool.reserve_pool_size.or(own.reserve_pool_size).unwrap_or(config.proxy.reserve_pool_size),
            "Additional ones for clients that waited.";
        max_db_connections: u32 = own.max_db_connections.unwrap_or(config.proxy.max_db_connections),
            "Server connections of the database; 0: no limit.";
        max_db_client_connections: u32 = own.max_db_client_connections.unwrap_or(config.proxy.max_db_client_connections),
            "Client connections of the database; 0: no limit.";
        max_user_connections: u32 = of_pool.max_user_connections.unwrap_or(config.proxy.max_user_connections),
            "Server connections of the server's user; 0: no limit.";
        max_user_client_connections: u32 = of_client.max_user_client_connections.unwrap_or(config.proxy.max_user_client_connections),
            "Client connections of the client's user; 0: no limit.";

        server_lifetime: Duration = own.server_lifetime.unwrap_or(config.proxy.server_lifetime),
            "Age of a server connection; zero: one use.";
        query_timeout: Duration = of_client.query_timeout.unwrap_or(config.proxy.query_timeout), "Zero: never.";
        query_wait_timeout: Duration = of_client.query_wait_timeout.or(own.query_wait_timeout).unwrap_or(config.proxy.query_wait_timeout),
            "Zero: for ever.";
        client_idle_timeout: Duration = of_client.client_idle_timeout.unwrap_or(config.proxy.client_idle_timeout), "Zero: never.";
        idle_transaction_timeout: Duration = of_client.idle_transaction_timeout.unwrap_or(config.proxy.idle_transaction_timeout),
            "Zero: never.";
        transaction_timeout: Duration = of_client.transaction_timeout.unwrap_or(config.proxy.transaction_timeout), "Zero: never.";

        connect_query: Option<String> = own.connect_query.clone(), "Runs on each new server connection.";
        application_name: Option<String> = own.application_name.clone(), "Application name of clients without one.";
        parameters: Vec<(&'static str, String)> = parameters(own), "Parameters that servers are asked for when they start, by name.";

        cohorts: Switch = own.cohorts.unwrap_or(config.corun.cohorts), "Cohorts of statements.";
        auto_prepare: AutoPrepare = own.auto_prepare.unwrap_or(config.corun.auto_prepare), "Simple texts as prepared statements.";
        dispatch: Dispatch = own.dispatch.unwrap_or(config.corun.dispatch), "Statements with keys to cores.";
        replica_dispatch: ReplicaDispatch = own.replica_dispatch.unwrap_or(config.corun.replica_dispatch), "Reads with keys to copies.";
        split: Switch = own.split.unwrap_or(config.corun.split), "Queries in parts.";
        heavy_queue: Switch = of_pool.heavy_queue.or(own.heavy_queue).unwrap_or(config.corun.heavy_queue), "Heavy queries in a queue.";
        read_write_split: bool = own.read_write_split.unwrap_or(config.corun.read_write_split), "Reads to copies.";
        read_your_writes: bool = own.read_your_writes.unwrap_or(config.corun.read_your_writes),
            "Only to copies with the client's last write.";
        lag_max: Duration = own.lag_max.unwrap_or(config.corun.lag_max), "Copies further behind answer nothing; zero: no limit.";
        lag_bytes_max: Bytes = own.lag_bytes_max.unwrap_or(config.corun.lag_bytes_max), "The same in bytes of log; 0: no limit.";
    }
}

fn hosts(config: &Config, own: &Database) -> Vec<Endpoint> {
    let socket_folder = [Host::Directory(PathBuf::from(&config.proxy.unix_socket_dir))];
    let hosts = match &own.host[..] {
        [] => &socket_folder[..],
        hosts => hosts,
    };
    let endpoint = |host: &Host| Endpoint {
        host: host.clone(),
        port: own.port,
    };
    hosts.iter().map(endpoint).collect()
}

fn replicas(own: &Database) -> Vec<Endpoint> {
    let endpoints = own.replicas.iter().map(|replica| replica.endpoint(own.port));
    endpoints.collect()
}

fn pool_size(config: &Config, own: &Database, of_pool: &User) -> u32 {
    let size = of_pool.pool_size.or(own.pool_size);
    size.unwrap_or(config.proxy.default_pool_size)
}

fn parameters(own: &Database) -> Vec<(&'static str, String)> {
    let known = [
        ("client_encoding", &own.client_encoding),
        ("datestyle", &own.datestyle),
        ("timezone", &own.timezone),
    ];
    let set = known.into_iter();
    set.filter_map(|(name, value)| Some((name, value.clone()?)))
        .collect()
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
    /// Servers of a database, and those with a copy of it; `*` has them, too. `None` when there is no such database.
    pub fn endpoints(&self, database: &str) -> Option<(Vec<Endpoint>, Vec<Endpoint>)> {
        let own = self.databases.get(database);
        let own = own.or_else(|| self.databases.get(WILDCARD))?;
        Some((hosts(self, own), replicas(own)))
    }

    /// What holds when `user` logs in to `database`; `None` when there is no such database (the console is none).
    pub fn effective_database(&self, database: &str, user: &str) -> Option<Effective> {
        if CONSOLES.contains(&database) || database == WILDCARD {
            return None;
        }
        let own = self.databases.get(database);
        let own = own.or_else(|| self.databases.get(WILDCARD))?;
        let server_user = own.user.clone().unwrap_or_else(|| user.to_owned());
        // A user without a table has nothing of its own.
        let nothing = User::default();
        let of_pool = self.users.get(&server_user).unwrap_or(&nothing);
        let of_client = self.users.get(user).unwrap_or(&nothing);
        Some(Effective::new(
            database,
            self,
            own,
            of_client,
            server_user,
            of_pool,
        ))
    }
}
