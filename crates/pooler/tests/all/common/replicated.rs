//! [`Replicated`]: a primary with two streaming replicas, and a pooler that splits reads and writes among them.

use super::child::free_port;
use super::pooler::TestPooler;
use super::postgres::Postgres;
use super::raw::{Login, Raw};

/// A view that says on which server it is read. What tells servers apart by its own means would run on the primary.
pub const PLACE: &str =
    "create view place as select setting::int as port from pg_settings where name = 'port'";

/// Rows enough that a replica which does not replay them is behind `lag_bytes_max = "64kB"`.
pub const FILL: &str = "insert into t select n, repeat('x', 200) from generate_series(1, 1000) n";

/// The servers and the pooler.
pub struct Replicated {
    /// Dropped first: it ends the connections to the servers.
    pub pooler: TestPooler,
    /// The primary, then its replicas.
    pub servers: Vec<Postgres>,
}

/// A primary and two replicas that have replayed these statements.
pub fn servers(tables: &[&str]) -> Vec<Postgres> {
    let primary = Postgres::start();
    for statement in tables {
        primary.sql(statement);
    }
    let replicas = [primary.replica(), primary.replica()];
    let servers: Vec<Postgres> = std::iter::once(primary).chain(replicas).collect();
    for replica in [1, 2] {
        servers[replica].wait_replayed(&servers[0]);
    }
    servers
}

impl Replicated {
    /// Starts all; `corun` are more lines of its section, `rest` follows the databases.
    pub fn start(tables: &[&str], corun: &str, rest: &str) -> Replicated {
        let servers = servers(tables);
        let port = free_port();
        let text = format!(
            r#"
            [proxy]
            listen_addr = "127.0.0.1"
            listen_port = {port}
            unix_socket_dir = ""
            auth_type = "any"
            admin_users = ["postgres"]
            pool_mode = "transaction"
            default_pool_size = 4
            server_login_retry = 1
            [corun]
            event_loops = 2
            health_check_interval = "100ms"
            ban_time = "500ms"
            read_write_split = true
            {corun}
            [databases.app]
            host = "127.0.0.1"
            port = {}
            user = "postgres"
            replicas = ["127.0.0.1:{}", "127.0.0.1:{}"]
            {rest}
            "#,
            servers[0].port(),
            servers[1].port(),
            servers[2].port(),
        );
        Replicated {
            pooler: TestPooler::start(port, text),
            servers,
        }
    }

    pub fn login(&self) -> Login {
        self.pooler.login("postgres")
    }

    pub fn client(&self) -> Raw {
        self.pooler.client_as(&self.login())
    }

    /// Which server has this port, if any.
    pub fn index_of(&self, port: &str) -> Option<usize> {
        self.servers
            .iter()
            .position(|server| server.port().to_string() == port)
    }
}
