//! A PostgreSQL server of a test: private folder, private port on loopback, private socket.
//!
//! `initdb` runs once a machine and version; its folder is copied for each server. The order of calls: [`Postgres::start`], then the
//! test, then the drop stops it. Users: `postgres` (superuser) and `app` are trusted; `app_scram` and `app_md5` have the password
//! `secret`, `app_plain` is asked for it in plain text.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::child::{Folder, Running, command, free_port, give, run, signal};
use super::raw::{Login, Raw, Rows};
use super::wait::{PATIENCE, wait};

/// Password of the users that have one.
pub const PASSWORD: &str = "secret";

/// Folder of PostgreSQL's programs.
pub fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        if let Some(folder) = std::env::var_os("CORUN_PG_BIN") {
            return PathBuf::from(folder);
        }
        let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let version = entry.file_name().to_str()?.parse().ok()?;
                let folder = entry.path().join("bin");
                folder.join("initdb").exists().then_some((version, folder))
            })
            .collect();
        found.sort();
        found.pop().map(|(_, folder)| folder).expect(
            "PostgreSQL's server programs were not found; install postgresql or name their folder in CORUN_PG_BIN",
        )
    })
}

/// What `postgres --version` says.
fn version_text() -> String {
    let mut version = std::process::Command::new(programs().join("postgres"));
    version.arg("--version");
    run(version)
}

/// The major version of the servers.
pub fn version() -> u32 {
    static VERSION: OnceLock<u32> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let text = version_text();
        let number = text
            .split(|c: char| !c.is_ascii_digit())
            .find(|part| !part.is_empty());
        number.and_then(|number| number.parse().ok()).expect("a version")
    })
}

/// The folder `initdb` made, kept between runs.
fn template() -> &'static Path {
    static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let version: String = version_text()
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '.' {
                    c
                } else {
                    '-'
                }
            })
            .collect();
        let user = if super::child::is_root() { "root" } else { "user" };
        let kept = std::env::temp_dir().join(format!("corun-template-{user}-{}", version.trim_matches('-')));
        if kept.join("data/PG_VERSION").exists() {
            return kept;
        }
        let folder = Folder::new("template");
        let data = folder.path().join("data");
        let mut initdb = command(programs().join("initdb"), "KILL");
        initdb.arg("-D").arg(&data).args([
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "--wal-segsize=4",
        ]);
        run(initdb);
        let mut made = Postgres::run(folder, free_port(), Options::default());
        for statement in [
            "create user app",
            "create user other",
            "create database app owner app",
            "create user app_scram password 'secret'",
            "create user app_plain password 'secret'",
            "create user \"od'd \"\"name\" password 'secret'",
            "grant other to app",
            // Both in one, so that the setting is there.
            "set password_encryption = 'md5'; create user app_md5 password 'secret'",
        ] {
            made.sql_in("postgres", statement);
        }
        made.sql("grant all on schema public to public");
        made.stop();
        // Another program may have been faster, which is as good.
        if std::fs::rename(made.folder.path(), &kept).is_err() {
            assert!(
                kept.join("data/PG_VERSION").exists(),
                "no template at {}",
                kept.display()
            );
        }
        kept
    })
}

/// How a server differs from the usual one.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Lines of `postgresql.conf`.
    pub settings: Vec<String>,
    /// Lines of `pg_hba.conf`, before the usual ones.
    pub hba: Vec<String>,
    /// A certificate chain and its key (PEM): TLS is on.
    pub certificate: Option<(String, String)>,
    /// Certificate authority of clients (PEM).
    pub client_authority: Option<String>,
}

/// A server.
pub struct Postgres {
    folder: Folder,
    port: u16,
    running: Option<Running>,
}

impl Postgres {
    /// Starts a usual server.
    pub fn start() -> Postgres {
        Postgres::start_with(Options::default())
    }

    /// Starts a server with differences.
    pub fn start_with(options: Options) -> Postgres {
        let folder = Folder::new("s");
        copy(&template().join("data"), folder.path());
        Postgres::run(folder, free_port(), options)
    }

    /// Starts a streaming replica of this server.
    pub fn replica(&self) -> Postgres {
        let folder = Folder::new("r");
        if !programs().join("pg_basebackup").exists() {
            self.back_up(folder.path());
            return Postgres::run(folder, free_port(), Options::default());
        }
        let mut backup = command(programs().join("pg_basebackup"), "KILL");
        backup
            .arg("-D")
            .arg(folder.path().join("data"))
            .args(["-R", "--no-sync", "-c", "fast", "-U", "postgres"])
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        run(backup);
        Postgres::run(folder, free_port(), Options::default())
    }

    /// What `pg_basebackup -R` does, for servers that come without it.
    fn back_up(&self, folder: &Path) {
        let mut session = self.client("postgres", "postgres");
        let (begin, end) = match version() < 15 {
            true => (
                "pg_start_backup('copy', true, false)",
                "pg_stop_backup(false, false)",
            ),
            false => ("pg_backup_start('copy', true)", "pg_backup_stop(false)"),
        };
        session.rows(&format!("select {begin}"));
        copy(&self.folder.path().join("data"), folder);
        let label = session.value(&format!("select labelfile from {end}"));
        let data = folder.join("data");
        std::fs::remove_file(data.join("postmaster.pid")).expect("the copied server ran");
        private_file(&data.join("backup_label"), &label);
        private_file(&data.join("standby.signal"), "");
        let primary = format!(
            "primary_conninfo = 'host=127.0.0.1 port={} user=postgres'\n",
            self.port
        );
        private_file(&data.join("postgresql.auto.conf"), &primary);
    }

    fn run(folder: Folder, port: u16, options: Options) -> Postgres {
        let data = folder.path().join("data");
        let mut settings = vec![
            "listen_addresses = '127.0.0.1'".to_owned(),
            format!("unix_socket_directories = '{}'", folder.path().display()),
            "fsync = off".to_owned(),
            "autovacuum = off".to_owned(),
            "max_connections = 60".to_owned(),
            "shared_buffers = 16MB".to_owned(),
            "jit = off".to_owned(),
            "logging_collector = off".to_owned(),
            // The default of version 13 is md5.
            "password_encryption = 'scram-sha-256'".to_owned(),
            "log_line_prefix = '%m [%p] '".to_owned(),
        ];
        if let Some((certificate, key)) = &options.certificate {
            private_file(&data.join("server.crt"), certificate);
            private_file(&data.join("server.key"), key);
            settings.push("ssl = on".to_owned());
        }
        if let Some(authority) = &options.client_authority {
            private_file(&data.join("clients.crt"), authority);
            settings.push("ssl_ca_file = 'clients.crt'".to_owned());
        }
        settings.extend(options.settings);
        let mut file = settings.join("\n");
        file.push('\n');
        private_file(&data.join("corun.conf"), &file);
        let main = std::fs::read_to_string(data.join("postgresql.conf")).expect("postgresql.conf");
        if !main.contains("corun.conf") {
            private_file(
                &data.join("postgresql.conf"),
                &format!("{main}\ninclude 'corun.conf'\n"),
            );
        }
        let mut rules = options.hba;
        rules.extend(
            [
                "local all all trust",
                "host all postgres,app,other 127.0.0.1/32 trust",
                "host all app_md5 127.0.0.1/32 md5",
                "host all app_plain 127.0.0.1/32 password",
                "host replication postgres 127.0.0.1/32 trust",
                "host all all 127.0.0.1/32 scram-sha-256",
            ]
            .map(str::to_owned),
        );
        private_file(&data.join("pg_hba.conf"), &(rules.join("\n") + "\n"));
        let mut server = Postgres {
            folder,
            port,
            running: None,
        };
        server.start_again();
        server
    }

    /// Starts it after [`Postgres::stop`] or [`Postgres::kill`], on the same port.
    pub fn start_again(&mut self) {
        let until = Instant::now() + PATIENCE;
        loop {
            self.running = None;
            let mut postgres = command(programs().join("postgres"), "QUIT");
            postgres
                .arg("-D")
                .arg(self.folder.path().join("data"))
                .args(["-p", &self.port.to_string()]);
            self.running = Some(Running::start(postgres, &self.log_file(), "QUIT"));
            match self.comes_up(until) {
                Ok(()) => return,
                // It ends at once while backends of one that was killed still hold its memory.
                Err(error) => self.give_up_after(until, &error),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until it takes connections, which after a crash of a backend takes a moment.
    pub fn wait_until_ready(&self) {
        if let Err(error) = self.comes_up(Instant::now() + PATIENCE) {
            self.give_up_after(Instant::now(), &error);
        }
    }

    fn give_up_after(&self, until: Instant, error: &std::io::Error) {
        assert!(
            Instant::now() < until,
            "PostgreSQL does not start: {error}\n{}",
            self.log_tail()
        );
    }

    /// Waits until it takes connections, or has ended.
    fn comes_up(&self, until: Instant) -> std::io::Result<()> {
        loop {
            match Raw::connect(&self.login("postgres").database("postgres")) {
                Ok(mut session) => {
                    let own = self.folder.path().join("data");
                    let found = session.value("show data_directory");
                    assert_eq!(Path::new(&found), own, "another server has port {}", self.port);
                    return Ok(());
                }
                Err(error) => {
                    let ended = self.running.as_ref().is_none_or(|running| !running.is_there());
                    if ended || Instant::now() >= until {
                        return Err(error);
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops it at once, connections are cut (`pg_ctl stop -m fast`).
    pub fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.stop("INT");
        }
    }

    /// Kills its main process and thereby all: a crash.
    pub fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            let children = format!("/proc/{0}/task/{0}/children", running.pid());
            let children = std::fs::read_to_string(children).unwrap_or_default();
            running.stop("KILL");
            // Those that wait for anything notice at once; one that computes goes on.
            let until = Instant::now() + Duration::from_secs(2);
            let is_there = |pid: &str| Path::new("/proc").join(pid).exists();
            while children.split_whitespace().any(is_there) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Its port on 127.0.0.1 and of its socket.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its main process.
    pub fn process(&self) -> u32 {
        self.running.as_ref().expect("it runs").pid()
    }

    /// Folder of its socket.
    pub fn socket_folder(&self) -> &Path {
        self.folder.path()
    }

    /// How to log in there directly: database `app`, over TCP.
    pub fn login(&self, user: &str) -> Login {
        Login::new("127.0.0.1", self.port, user)
    }

    /// A client of the server itself.
    pub fn client(&self, user: &str, database: &str) -> Raw {
        Raw::connect(&self.login(user).database(database))
            .unwrap_or_else(|error| panic!("{error}\n{}", self.log_tail()))
    }

    /// Runs statements as the superuser in database `app`; rows of all of them.
    pub fn sql(&self, text: &str) -> Rows {
        self.sql_in("app", text)
    }

    /// Runs statements as the superuser in a database.
    pub fn sql_in(&self, database: &str, text: &str) -> Rows {
        self.client("postgres", database).rows(text)
    }

    /// The first value of the last row, as text; panics if there is none.
    pub fn value(&self, text: &str) -> String {
        self.value_in("app", text)
    }

    /// The same in a database.
    pub fn value_in(&self, database: &str, text: &str) -> String {
        super::raw::last_value(self.sql_in(database, text)).unwrap_or_else(|| panic!("no value: {text}"))
    }

    /// Waits until a query returns `t`.
    pub fn wait_until(&self, query: &str) {
        self.wait_until_in("app", query);
    }

    /// The same in a database.
    pub fn wait_until_in(&self, database: &str, query: &str) {
        let activity = "select pid, usename, state, application_name, wait_event, query from pg_stat_activity \
                        where backend_type = 'client backend' and datname = current_database()";
        // What it asks about may not be there yet, or be NULL.
        let holds = || super::raw::last_value(self.sql_in(database, query)).as_deref() == Some("t");
        wait(|| match holds() {
            true => Ok(()),
            false => Err(format!(
                "still not true: {query}\nactivity: {:#?}",
                self.sql_in(database, activity)
            )),
        });
    }

    /// Waits until this replica has replayed all that its primary has written.
    pub fn wait_replayed(&self, primary: &Postgres) {
        let end = primary.value("select pg_current_wal_lsn()");
        self.wait_until(&format!("select pg_last_wal_replay_lsn() >= '{end}'"));
    }

    /// Puts a file that only the server may read into its data folder.
    pub fn put(&self, name: &str, text: &str) {
        private_file(&self.folder.path().join("data").join(name), text);
    }

    /// Reads settings and certificates again. Returns once connections get them.
    pub fn reload(&self) {
        let loaded = || self.value("select pg_conf_load_time()");
        let before = loaded();
        self.sql("select pg_reload_conf()");
        super::wait::wait_until("the server loads its settings", || loaded() != before);
    }

    /// Kills one backend the hard way; the whole server restarts by itself.
    pub fn kill_backend(&self, pid: u32) {
        signal(pid, "KILL");
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// What the server has written to its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the server at port {}:\n{}", self.port, self.log_tail());
        }
    }
}

/// The server that the tests of one program share, for those that do not harm it. Each test takes a database of its own.
pub fn shared() -> &'static Postgres {
    static SHARED: OnceLock<Postgres> = OnceLock::new();
    SHARED.get_or_init(|| {
        Postgres::start_with(Options {
            settings: vec!["max_connections = 300".to_owned()],
            ..Options::default()
        })
    })
}

/// A new database of the shared server, owned by `app`.
pub fn new_database() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("t{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    shared().sql_in("postgres", &format!("create database {name} owner app"));
    shared().sql_in(&name, "grant all on schema public to public");
    name
}

fn private_file(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).expect("file of a server");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("permissions");
    give(path);
}

fn copy(from: &Path, to: &Path) {
    let mut copy = std::process::Command::new("cp");
    copy.args(["-a", "--reflink=auto"]).arg(from).arg(to);
    run(copy);
}
