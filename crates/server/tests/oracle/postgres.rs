//! [`Postgres`]: a real server of this machine's newest PostgreSQL, in a folder of its own. It is killed when it is dropped, and with the
//! thread that has started it.

use super::harness::wire_client::WireClient;
use super::harness::{Output, postgres_programs, wait};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A PostgreSQL with sorted bytes as its collation, UTC, and no care for its disk.
pub struct Postgres {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

/// One of its programs; those of the server refuse to run as root.
fn command(programs: &Path, name: &str) -> Command {
    let root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|id| id.stdout == b"0\n");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if root {
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
    }
    command.arg("--").arg(programs.join(name));
    command
}

impl Postgres {
    /// `None`: there is no PostgreSQL on this machine, and the test counts as skipped.
    pub fn start() -> Option<Postgres> {
        let Some(programs) = postgres_programs() else {
            super::skipped::skipped("PostgreSQL's server programs are not installed");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), everybody).expect("the folder is everybody's");
        let data = folder.path().join("data");
        let made = command(&programs, "initdb")
            .current_dir(folder.path())
            .arg("-D")
            .arg(&data)
            .args(["--username=ada", "--auth=trust", "--no-sync"])
            .args(["--encoding=UTF8", "--locale=C"])
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        // Somebody else may take the port between the two.
        let port = TcpListener::bind(("127.0.0.1", 0))
            .and_then(|listener| listener.local_addr())
            .expect("a free port")
            .port();
        let mut server = command(&programs, "postgres");
        server.current_dir(folder.path()).arg("-D").arg(&data);
        server.arg("-k").arg(folder.path());
        for setting in [
            format!("port={port}"),
            "listen_addresses=127.0.0.1".to_owned(),
            "max_connections=40".to_owned(),
            "shared_buffers=32MB".to_owned(),
            "fsync=off".to_owned(),
            "autovacuum=off".to_owned(),
            "jit=off".to_owned(),
            "timezone=UTC".to_owned(),
        ] {
            server.arg("-c").arg(setting);
        }
        let child = server
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("PostgreSQL starts");
        let mut postgres = Postgres {
            child,
            port,
            _folder: folder,
        };
        wait("PostgreSQL does not start", || {
            let ended = postgres.child.try_wait().expect("its state");
            assert_eq!(ended, None, "PostgreSQL has ended");
            WireClient::connect(port, "ada", "postgres").is_ok()
        });
        Some(postgres)
    }

    /// A client of one of its databases.
    pub fn client(&self, database: &str) -> WireClient {
        WireClient::connect(self.port, "ada", database).expect("let in")
    }

    /// Makes a database.
    pub fn create(&self, database: &str) {
        let said = self
            .client("postgres")
            .query(&format!("create database {database}"))
            .expect("an answer");
        assert_eq!(said.error, None);
    }

    /// Runs one of PostgreSQL's programs that are clients.
    pub fn program(&self, name: &str, database: &str, arguments: &[&str]) -> Output {
        let programs = postgres_programs().expect("there are some: the server runs");
        let output = Command::new(programs.join(name))
            .args(arguments)
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", self.port.to_string())
            .env("PGUSER", "ada")
            .env("PGDATABASE", database)
            .output()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Output {
            success: output.status.success(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // At once, with all its processes.
        _ = Command::new("kill")
            .args(["-QUIT", &self.child.id().to_string()])
            .status();
        _ = self.child.wait();
    }
}
