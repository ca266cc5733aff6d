//! The configuration of each pooler as text: one function for PgBouncer and one for corun, with the same limits in both.

use std::fmt::Write;
use std::path::PathBuf;

use super::USER;
use super::address::Address;

/// Clients a pooler lets in: those of the idle case and some.
pub const CLIENTS_MAX: usize = 12_000;

/// What every pooler is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pooler {
    /// Where it listens, over TCP and a Unix socket.
    pub listen: Address,
    /// The server behind it, and over what it is reached.
    pub server: Address,
    /// Most connections to the server, of all its processes together.
    pub pool: usize,
    /// The file of users.
    pub users: PathBuf,
}

/// What PgBouncer alone is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PgBouncer {
    /// How many processes share the port.
    pub processes: usize,
    /// Whether it takes `max_prepared_statements`, which versions below 1.21 do not know.
    pub prepares: bool,
}

/// What corun alone is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corun {
    /// `off`, `on` or `auto`.
    pub cohorts: &'static str,
    /// `off`, `exact` or `parameterize`.
    pub auto_prepare: &'static str,
}

impl Corun {
    /// What it does when nothing is said.
    pub const DEFAULT: Corun = Corun {
        cohorts: "auto",
        auto_prepare: "off",
    };
}

/// The file of users for both: the one user, without a password, because nobody is asked for one.
pub fn users() -> String {
    format!("\"{USER}\" \"\"\n")
}

/// `pgbouncer.ini`. Of several processes each gets its part of the pool, and no Unix socket, because that cannot be shared.
pub fn pgbouncer(pooler: &Pooler, own: PgBouncer) -> String {
    let Pooler {
        listen,
        server,
        pool,
        users,
    } = pooler;
    let mut text = String::new();
    let mut line = |key: &str, value: &str| writeln!(text, "{key} = {value}").expect("text grows");
    line(
        "[databases]\n*",
        &format!("host={} port={}", server.host(), server.port),
    );
    line("[pgbouncer]\nlisten_addr", "127.0.0.1");
    line("listen_port", &listen.port.to_string());
    if own.processes > 1 {
        line("so_reuseport", "1");
        line("unix_socket_dir", "");
    } else {
        line("unix_socket_dir", &listen.folder.display().to_string());
    }
    line("auth_type", "trust");
    line("auth_file", &users.display().to_string());
    line("pool_mode", "transaction");
    line("default_pool_size", &(pool / own.processes).max(1).to_string());
    line("max_client_conn", &CLIENTS_MAX.to_string());
    line("server_idle_timeout", "0");
    line("log_connections", "0");
    line("log_disconnections", "0");
    line("log_stats", "0");
    if own.prepares {
        line("max_prepared_statements", "200");
    }
    text
}

/// `corun.toml`.
pub fn corun(pooler: &Pooler, own: Corun) -> String {
    let Pooler {
        listen,
        server,
        pool,
        users,
    } = pooler;
    format!(
        r#"[proxy]
listen_addr = "127.0.0.1"
listen_port = {port}
unix_socket_dir = "{folder}"
auth_type = "trust"
auth_file = "{users}"
pool_mode = "transaction"
default_pool_size = {pool}
max_client_conn = {CLIENTS_MAX}
server_idle_timeout = 0
log_connections = false
log_disconnections = false
log_stats = false

[databases."*"]
host = "{server_host}"
port = {server_port}

[corun]
cohorts = "{cohorts}"
auto_prepare = "{auto_prepare}"
"#,
        port = listen.port,
        folder = listen.folder.display(),
        users = users.display(),
        server_host = server.host(),
        server_port = server.port,
        cohorts = own.cohorts,
        auto_prepare = own.auto_prepare,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pooler::address::Transport;

    fn pooler(transport: Transport) -> Pooler {
        let address = |folder: &str, port| Address {
            transport,
            folder: folder.into(),
            port,
        };
        Pooler {
            listen: address("/run/pool", 20_001),
            server: address("/run/server", 20_002),
            pool: 8,
            users: "/run/pool/users".into(),
        }
    }

    #[test]
    fn both_get_the_same_limits_and_server() {
        for (transport, host) in [(Transport::Tcp, "127.0.0.1"), (Transport::Unix, "/run/server")] {
            let pooler = pooler(transport);
            let one = PgBouncer {
                processes: 1,
                prepares: false,
            };
            let ini = pgbouncer(&pooler, one);
            let toml = corun(&pooler, Corun::DEFAULT);
            assert!(ini.contains(&format!("* = host={host} port=20002\n")), "{ini}");
            assert!(
                toml.contains(&format!("host = \"{host}\"\nport = 20002\n")),
                "{toml}"
            );
            for text in [&ini, &toml] {
                for setting in [
                    "listen_port = 20001\n",
                    "default_pool_size = 8\n",
                    "max_client_conn = 12000\n",
                ] {
                    assert!(text.contains(setting), "{setting} in {text}");
                }
            }
            assert!(!ini.contains("max_prepared_statements") && !ini.contains("so_reuseport"));
        }
    }

    #[test]
    fn several_processes_share_the_port_and_the_pool() {
        let two = PgBouncer {
            processes: 2,
            prepares: true,
        };
        let ini = pgbouncer(&pooler(Transport::Tcp), two);
        assert!(ini.contains("so_reuseport = 1\nunix_socket_dir = \n"), "{ini}");
        assert!(ini.contains("default_pool_size = 4\n") && ini.contains("max_prepared_statements = 200\n"));
    }
}
