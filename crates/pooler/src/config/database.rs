//! `[databases.NAME]`: where the connections of one database go, and what differs for it.

use std::time::Duration;

use super::choices::{AutoPrepare, Dispatch, LoadBalance, PoolMode, ReplicaDispatch, Switch};
use super::host::{Host, HostPort};
use super::settings::settings;
use super::values::{Bytes, Secret};

/// Name of the entry that stands for every database without one of its own.
pub const WILDCARD: &str = "*";

/// Name of the console, as PgBouncer's does.
pub const CONSOLE: &str = "pgbouncer";

/// Names of the console; no database can have one of them.
pub const CONSOLES: [&str; 2] = [CONSOLE, "corun"];

/// What to do about a database with one of these names.
pub(super) const CONSOLE_HINT: &str =
    "clients reach the console under this name; choose another and set `dbname`";

settings! {
    /// Settings of one database; what is `None` comes from the user, `[proxy]` or `[corun]`.
    Database at Database {
        host: Vec<Host> = Vec::new(), Reload, "Where the server is. Several are used as `load_balance_hosts` says. Not set: the Unix socket in `unix_socket_dir`.";
        port: u16 = 5432, [1, 65535], Reload, "Port of the server.";
        dbname: Option<String> = None, Reload, "Database on the server; otherwise the name the client asked for.";
        user: Option<String> = None, Reload, "User of all server connections; otherwise each client's own.";
        password: Option<Secret> = None, Reload, "Password of `user`; otherwise the password in `auth_file` or `[users.NAME]`.";
        replicas: Vec<HostPort> = Vec::new(), Reload, "Servers with a copy, for reads. The pooler finds out the roles, so a copy that became primary is used as the primary.";
        load_balance_hosts: LoadBalance = LoadBalance::RoundRobin, Reload, "Which of several `host`s a new connection goes to.";

        auth_user: Option<String> = None, Reload, "`auth_user` for this database.";
        auth_query: Option<String> = None, Reload, "`auth_query` for this database.";
        auth_dbname: Option<String> = None, Reload, "`auth_dbname` for this database.";

        pool_mode: Option<PoolMode> = None, Reload, "`pool_mode` for this database.";
        pool_size: Option<u32> = None, [1, 100000], Reload, "`default_pool_size` for this database.";
        min_pool_size: Option<u32> = None, [0, 100000], Reload, "`min_pool_size` for this database.";
        reserve_pool_size: Option<u32> = None, [0, 100000], Reload, "`reserve_pool_size` for this database.";
        max_db_connections: Option<u32> = None, [0, 1000000], Reload, "`max_db_connections` for this database.";
        max_db_client_connections: Option<u32> = None, [0, 1000000], Reload, "`max_db_client_connections` for this database.";
        query_wait_timeout: Option<Duration> = None, Reload, "`query_wait_timeout` for this database.";
        server_lifetime: Option<Duration> = None, Reload, "`server_lifetime` for this database.";

        connect_query: Option<String> = None, Reload, "Runs once on each new server connection before clients get it; errors are logged.";
        application_name: Option<String> = None, Reload, "Application name of server connections whose client has none.";
        client_encoding: Option<String> = None, Reload, "Asks servers for this `client_encoding`.";
        datestyle: Option<String> = None, Reload, "Asks servers for this `datestyle`.";
        timezone: Option<String> = None, Reload, "Asks servers for this `timezone`.";

        cohorts: Option<Switch> = None, Reload, "`cohorts` for this database.";
        auto_prepare: Option<AutoPrepare> = None, Reload, "`auto_prepare` for this database.";
        dispatch: Option<Dispatch> = None, Reload, "`dispatch` for this database.";
        replica_dispatch: Option<ReplicaDispatch> = None, Reload, "`replica_dispatch` for this database.";
        split: Option<Switch> = None, Reload, "`split` for this database.";
        heavy_queue: Option<Switch> = None, Reload, "`heavy_queue` for this database.";
        read_write_split: Option<bool> = None, Reload, "`read_write_split` for this database.";
        read_your_writes: Option<bool> = None, Reload, "`read_your_writes` for this database.";
        lag_max: Option<Duration> = None, Reload, "`lag_max` for this database.";
        lag_bytes_max: Option<Bytes> = None, Reload, "`lag_bytes_max` for this database.";
    }
}
