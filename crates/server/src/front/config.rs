//! [`FrontConfig`]: where the front listens, and what its clients may take.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use corun_wire::server::Limits;

/// How sockets are driven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// epoll, which serves everywhere.
    #[default]
    Epoll,
    /// io_uring; an error at the start where this kernel has none.
    IoUring,
}

/// Where the front listens, and its limits.
#[derive(Clone, Debug)]
pub struct FrontConfig {
    /// TCP addresses; port 0 is one that is free.
    pub listen: Vec<SocketAddr>,
    /// Folder of a Unix socket, named by the first address's port as PostgreSQL names it.
    pub unix_socket_folder: Option<PathBuf>,
    /// How sockets are driven.
    pub io: Io,
    /// Event loops, each a thread.
    pub loops: usize,
    /// Sessions in all.
    pub connections_max: usize,
    /// Sessions of one user; `None`: as many as there may be.
    pub user_connections_max: Option<usize>,
    /// Time from a connection's first byte to the end of its login, and of a long message from its beginning to its end.
    pub login_timeout: Duration,
    /// Time between two statements after which a client is sent away; `None`: never.
    pub idle_timeout: Option<Duration>,
    /// Time that statements under way have when the server stops, before they are cancelled.
    pub shutdown_grace: Duration,
    /// Bytes of all messages that are not whole yet, of all clients together; those of one user may be a quarter of it.
    pub inbox_bytes_max: usize,
    /// What one client may take.
    pub client: Limits,
    /// Whether connections and their ends are in the log; otherwise only in a detailed one.
    pub log_connections: bool,
}

impl Default for FrontConfig {
    /// 127.0.0.1:5432, no Unix socket, epoll, one loop, 1,000 sessions, a minute to log in, 30 s to stop, 256 MiB of messages that are not
    /// whole; unmeasured.
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 5432))],
            unix_socket_folder: None,
            io: Io::Epoll,
            loops: 1,
            connections_max: 1_000,
            user_connections_max: None,
            login_timeout: Duration::from_secs(60),
            idle_timeout: None,
            shutdown_grace: Duration::from_secs(30),
            inbox_bytes_max: 256 << 20,
            client: Limits::default(),
            log_connections: false,
        }
    }
}
