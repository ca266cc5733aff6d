//! `[proxy]`: what PgBouncer has in its section `[pgbouncer]`, under the same names.
//!
//! A default differs from PgBouncer's in one place: clients prove themselves by SCRAM unless told otherwise.

use std::path::PathBuf;
use std::time::Duration;

use super::choices::{AuthType, PoolMode};
use super::settings::settings;
use super::values::{Bytes, FileMode};
use corun_wire::tls::{TlsMode, TlsProtocols};

/// The query that finds a user's secret where `auth_query` is not set.
pub const AUTH_QUERY: &str = "SELECT rolname, CASE WHEN rolvaliduntil < pg_catalog.now() THEN NULL ELSE rolpassword END \
     FROM pg_catalog.pg_authid WHERE rolname = $1 AND rolcanlogin";

settings! {
    /// Settings of the proxy as a whole.
    Proxy at Proxy {
        listen_addr: Vec<String> = Vec::new(), Restart, "Addresses that accept TCP connections; `*` means all. Empty: Unix socket only.";
        listen_port: u16 = 6432, [1, 65535], Restart, "Port of the TCP addresses and of the Unix socket's name.";
        listen_backlog: u32 = 128, [1, 65535], Restart, "How many connections may wait to be accepted.";
        unix_socket_dir: String = "/tmp".to_owned(), Restart, "Folder of the Unix socket clients connect to, and of servers whose `host` is not set. Empty: no Unix socket. `@` in front: abstract namespace.";
        unix_socket_mode: FileMode = FileMode(0o777), Restart, "Who may connect to the Unix socket.";
        unix_socket_group: Option<String> = None, Restart, "Group of the Unix socket.";
        so_reuseport: bool = false, Restart, "Lets several processes listen on the same port; the kernel spreads connections over them. A new process takes over the Unix socket and shares the port of `prometheus_listen`.";
        peer_id: u16 = 0, [0, 16383], Restart, "Number of this process among those that forward cancel requests to each other, see `[peers.ID]`. 0: it forwards none.";

        pool_mode: PoolMode = PoolMode::Session, Reload, "When a server goes back to its pool: with the client, the transaction or the statement.";
        default_pool_size: u32 = 20, [1, 100000], Reload, "Server connections of one database and user.";
        min_pool_size: u32 = 0, [0, 100000], Reload, "Connections kept open even without work, where a client is connected or the database has a `user`. 0: none.";
        reserve_pool_size: u32 = 0, [0, 100000], Reload, "Additional connections of a pool whose clients have waited for `reserve_pool_timeout`.";
        reserve_pool_timeout: Duration = Duration::from_secs(5), Reload, "How long a client waits before the pool uses its reserve. 0: the pool never uses it.";
        max_client_conn: u32 = 100, [1, 1000000], Reload, "Client connections altogether; more are refused.";
        max_db_connections: u32 = 0, [0, 1000000], Reload, "Server connections of one database, whoever the user. 0: no limit.";
        max_db_client_connections: u32 = 0, [0, 1000000], Reload, "Client connections to one database. 0: no limit.";
        max_user_connections: u32 = 0, [0, 1000000], Reload, "Server connections of one user, whichever the database. 0: no limit.";
        max_user_client_connections: u32 = 0, [0, 1000000], Reload, "Client connections of one user. 0: no limit.";
        server_round_robin: bool = false, Reload, "Uses the servers of a pool in turn instead of the server that became free last.";
        max_prepared_statements: u32 = 200, [0, 100000], Reload, "Statements kept prepared on each server for clients in transaction and statement mode. 0: protocol-level prepared statements are not carried over.";
        track_extra_parameters: Vec<String> = vec!["IntervalStyle".to_owned()], Reload, "Accepted and without effect: every setting follows its client from server to server.";
        ignore_startup_parameters: Vec<String> = Vec::new(), Reload, "Parameters of a start-up packet that are accepted and dropped.";
        application_name_add_host: bool = false, Reload, "Adds the client's address and port to its application name, so that the server shows who it is.";
        disable_pqexec: bool = false, Reload, "Refuses the simple query protocol, which allows several statements in one text, and disconnects who uses it.";

        auth_type: AuthType = AuthType::Scram, Reload, "How clients prove who they are.";
        auth_file: Option<PathBuf> = None, Reload, "File of users and passwords, as PgBouncer's userlist.txt.";
        auth_hba_file: Option<PathBuf> = None, Reload, "Rules of `auth_type = \"hba\"`, in the format of pg_hba.conf.";
        auth_ident_file: Option<PathBuf> = None, Reload, "Maps of names that the rules use, in the format of pg_ident.conf.";
        auth_user: Option<String> = None, Reload, "User whose connection runs `auth_query` for users that are not in `auth_file`.";
        auth_query: String = AUTH_QUERY.to_owned(), Reload, "Query of one parameter, the user's name, that returns name and secret.";
        auth_dbname: Option<String> = None, Reload, "Database in which `auth_query` runs; otherwise the database the client asked for.";
        scram_iterations: u32 = 4096, [1, 10000000], Reload, "Iterations of SCRAM for passwords that `auth_file` or `[users.NAME]` has in clear text.";
        admin_users: Vec<String> = Vec::new(), Reload, "Users who may run every command of the console.";
        stats_users: Vec<String> = Vec::new(), Reload, "Users who may run the console's `SHOW` commands.";

        server_reset_query: String = "DISCARD ALL".to_owned(), Reload, "Cleans a server when a client of session mode has left it.";
        server_reset_query_always: bool = false, Reload, "Runs `server_reset_query` in every pool mode.";
        server_check_query: String = "<empty>".to_owned(), Reload, "Query that tells whether a server is alive. `<empty>`: the empty query. Empty: no check.";
        server_check_delay: Duration = Duration::from_secs(30), Reload, "How long a server that became free is used again without a check. 0: always checked.";
        server_fast_close: bool = false, Reload, "In session mode, closes servers that must go (`RECONNECT`, changed settings) after the transaction, and their client with them.";
        server_lifetime: Duration = Duration::from_secs(3600), Reload, "Age at which an unused server connection is closed. 0: after one use.";
        server_idle_timeout: Duration = Duration::from_secs(600), Reload, "How long a server connection may be unused. 0: for ever.";
        server_connect_timeout: Duration = Duration::from_secs(15), Reload, "How long connecting and logging in to a server may take. 0: for ever.";
        server_login_retry: Duration = Duration::from_secs(15), Reload, "How long after a failed login the server is left alone.";
        client_login_timeout: Duration = Duration::from_secs(60), Reload, "How long a client may take to log in. 0: for ever.";
        autodb_idle_timeout: Duration = Duration::from_secs(3600), Reload, "How long the pools and counters of a database made from `[databases.\"*\"]` are kept without clients and servers. 0: for ever.";
        dns_max_ttl: Duration = Duration::from_secs(15), Reload, "How long the address of a host name is used before it is looked up again.";
        dns_nxdomain_ttl: Duration = Duration::from_secs(15), Reload, "How long a failed look-up of a host name is remembered.";

        query_timeout: Duration = Duration::ZERO, Reload, "Queries that take longer are cancelled and their client is disconnected. 0: never.";
        query_wait_timeout: Duration = Duration::from_secs(120), Reload, "How long a client may wait for a server before it is disconnected. 0: for ever.";
        query_wait_notify: Duration = Duration::from_secs(5), Reload, "How long a client waits for a server before a notice tells the client so. 0: no notice.";
        cancel_wait_timeout: Duration = Duration::from_secs(10), Reload, "How long a cancel request may wait for its turn. 0: for ever.";
        client_idle_timeout: Duration = Duration::ZERO, Reload, "Clients that do nothing for longer are disconnected. 0: never.";
        idle_transaction_timeout: Duration = Duration::ZERO, Reload, "Clients that do nothing within a transaction for longer are disconnected. 0: never.";
        transaction_timeout: Duration = Duration::ZERO, Reload, "Clients whose transaction lasts longer are disconnected. 0: never.";

        max_packet_size: Bytes = Bytes(2_147_483_647), [1024, 2147483647], Reload, "Largest message that is let through.";
        tcp_defer_accept: bool = true, Restart, "Accepts a connection only when its first bytes are there.";
        tcp_socket_buffer: Bytes = Bytes(0), [0, 1073741824], Reload, "Size of the kernel's buffers of a TCP connection: of servers' from the next one on, of clients' from the next start on. 0: the system's.";
        tcp_keepalive: bool = true, Reload, "Probes silent connections, to see whether the other side is still there.";
        tcp_keepidle: Duration = Duration::ZERO, Reload, "Silence before the first question. 0: the system's.";
        tcp_keepintvl: Duration = Duration::ZERO, Reload, "Time between questions. 0: the system's.";
        tcp_keepcnt: u32 = 0, [0, 127], Reload, "Probes without a response before the connection is closed. 0: the system's number.";
        tcp_user_timeout: u32 = 0, [0, 2147483647], Reload, "How long sent bytes may stay unconfirmed, in milliseconds as in PgBouncer. 0: the system's.";

        client_tls_sslmode: TlsMode = TlsMode::Disable, Reload, "TLS with clients.";
        client_tls_key_file: Option<PathBuf> = None, Reload, "Private key shown to clients, PEM.";
        client_tls_cert_file: Option<PathBuf> = None, Reload, "Certificate of that key, PEM.";
        client_tls_ca_file: Option<PathBuf> = None, Reload, "Authorities of clients' certificates, PEM.";
        client_tls_protocols: TlsProtocols = TlsProtocols::Secure, Reload, "Versions of TLS that clients may speak.";
        server_tls_sslmode: TlsMode = TlsMode::Prefer, Reload, "TLS with servers.";
        server_tls_key_file: Option<PathBuf> = None, Reload, "Private key shown to servers, PEM.";
        server_tls_cert_file: Option<PathBuf> = None, Reload, "Certificate of that key, PEM.";
        server_tls_ca_file: Option<PathBuf> = None, Reload, "Authorities of servers' certificates, PEM.";
        server_tls_protocols: TlsProtocols = TlsProtocols::Secure, Reload, "Versions of TLS that servers may speak.";

        stats_period: Duration = Duration::from_secs(60), Reload, "Period of the averages of `SHOW STATS` and of the log lines of `log_stats`.";
        log_connections: bool = true, Reload, "Logs who logs in.";
        log_disconnections: bool = true, Reload, "Logs who leaves, and why.";
        log_pooler_errors: bool = true, Reload, "Logs the errors that the pooler itself sends to clients.";
        log_stats: bool = true, Reload, "Logs rates and mean times every `stats_period`.";
    }
}
