//! A PostgreSQL 15 of a test's own: a private folder, a private port on loopback, stopped when dropped.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const BIN: &str = "/usr/lib/postgresql/15/bin";

pub struct Cluster {
    folder: tempfile::TempDir,
    pub port: u16,
}

/// Whether PostgreSQL is there to test against.
pub fn installed() -> bool {
    Path::new(BIN).join("initdb").exists()
}

/// A command that does not run as root, which PostgreSQL's programs refuse.
fn command(program: &str) -> Command {
    let am_root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|out| out.stdout == b"0\n");
    if am_root {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program);
        return command;
    }
    Command::new(program)
}

fn run(command: &mut Command) -> Output {
    let output = command
        .stdin(Stdio::null())
        .output()
        .expect("a program that starts");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

impl Cluster {
    /// Starts one with these rules and settings; `files` are put where the settings may name them.
    pub fn start(hba: &str, settings: &str, files: &[(&str, String)]) -> Self {
        let folder = tempfile::Builder::new().prefix("corun-auth").tempdir().unwrap();
        run(Command::new("chmod").arg("755").arg(folder.path()));
        let data = folder.path().join("data");
        run(Command::new("mkdir").arg("-m").arg("777").arg(&data));
        let inner = data.join("d");
        run(command(&format!("{BIN}/initdb"))
            .args([
                "-A",
                "trust",
                "-U",
                "postgres",
                "-N",
                "-E",
                "UTF8",
                "--locale=C",
                "-D",
            ])
            .arg(&inner));
        let port = free_port();
        let cluster = Self { folder, port };
        cluster.put("pg_hba.conf", hba);
        files.iter().for_each(|(name, text)| cluster.put(name, text));
        let settings = format!(
            "port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{}'\nfsync = off\n{settings}\n",
            inner.display()
        );
        cluster.put("postgresql.conf", &settings);
        let log = cluster.data().join("log");
        let mut start = command(&format!("{BIN}/pg_ctl"));
        start
            .args(["-w", "-t", "60", "-D"])
            .arg(cluster.data())
            .arg("-l")
            .arg(log)
            .arg("start");
        let status = start
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{}", cluster.log());
        cluster
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data/d")
    }

    /// Puts a file into the data folder, where the server alone may read it.
    pub fn put(&self, name: &str, text: &str) {
        let staged = self.folder.path().join(name);
        std::fs::write(&staged, text).unwrap();
        run(Command::new("chmod").arg("644").arg(&staged));
        run(command("cp").arg(&staged).arg(self.data().join(name)));
        run(command("chmod").arg("600").arg(self.data().join(name)));
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(
            &command("cat")
                .arg(self.data().join("log"))
                .output()
                .unwrap()
                .stdout,
        )
        .into_owned()
    }

    /// Reads settings and certificates again. Returns once connections get them.
    pub fn reload(&self) {
        let loaded = || self.sql("select pg_conf_load_time()");
        let before = loaded();
        self.sql("select pg_reload_conf()");
        let until = Instant::now() + Duration::from_secs(60);
        while loaded() == before {
            assert!(Instant::now() < until, "the server does not load its settings");
        }
    }

    /// Runs SQL as the superuser; gives the rows as psql prints them without decoration.
    pub fn sql(&self, sql: &str) -> String {
        let script = self.folder.path().join("script.sql");
        std::fs::write(&script, sql).unwrap();
        let mut psql = command("psql");
        psql.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            "postgres",
            "-d",
            "postgres",
            "-h",
        ]);
        let output = run(psql
            .arg(self.data())
            .args(["-p", &self.port.to_string(), "-f"])
            .arg(&script));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut stop = command(&format!("{BIN}/pg_ctl"));
        let _ = stop
            .args(["-m", "immediate", "-w", "-D"])
            .arg(self.data())
            .arg("stop")
            .output();
        // The folder belongs to another user; the rest is removed with it.
        let _ = command("rm").arg("-rf").arg(self.data()).output();
    }
}
