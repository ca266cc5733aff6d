//! The front as clients see it, over an engine of a few texts: psql, tokio-postgres, and clients that mean no good.
//!
//! psql is part of what `scripts/bootstrap` installs.

#![allow(clippy::print_stdout, reason = "what was skipped, and what sessions take")]

mod clients;
mod drivers;
mod endings;
mod hostile;
mod logins;
mod stand_in;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_server::front::{Access, AccessFiles, Front, FrontConfig};
use stand_in::{Seen, StandIn};

/// A server on a free port.
pub struct Server {
    /// `None` once a test has stopped it.
    pub front: Option<Front>,
    /// What the engine has seen.
    pub seen: Arc<Seen>,
    /// Who gets in.
    pub access: Arc<Access>,
    address: SocketAddr,
    // Outlives the front.
    _runtime: tokio::runtime::Runtime,
    folder: tempfile::TempDir,
}

/// The file of users of servers with one: `ann` with password `secret`.
const USERS: &str = "\"ann\" \"secret\"\n\"bob\" \"other\"\n";

impl Server {
    /// Without users.
    pub fn open(config: FrontConfig) -> Self {
        Self::start(config, |_| AccessFiles::default())
    }

    /// With a file of users and a certificate.
    pub fn secured(config: FrontConfig) -> Self {
        Self::start(config, |folder| {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
            let made = made.expect("a certificate");
            let file = |name: &str, text: &str| {
                let path = folder.join(name);
                std::fs::write(&path, text).expect("written");
                Some(path)
            };
            AccessFiles {
                users: file("users.txt", USERS),
                tls_cert: file("server.crt", &made.cert.pem()),
                tls_key: file("server.key", &made.signing_key.serialize_pem()),
                ..AccessFiles::default()
            }
        })
    }

    fn start(config: FrontConfig, files: impl FnOnce(&std::path::Path) -> AccessFiles) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let files = files(folder.path());
        let config = FrontConfig {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            unix_socket_folder: Some(folder.path().to_owned()),
            ..config
        };
        let access = Arc::new(Access::load(&files, &config.listen).expect("files"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let seen = Arc::new(Seen::default());
        let engine = StandIn {
            seen: Arc::clone(&seen),
            runtime: runtime.handle().clone(),
        };
        let front = Front::start(config, Arc::clone(&access), engine).expect("a front");
        Self {
            access,
            address: front.addresses()[0],
            front: Some(front),
            seen,
            _runtime: runtime,
            folder,
        }
    }

    /// Its TCP port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The folder of the Unix socket.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}

/// Waits for something that happens soon.
pub fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
