//! What stands between a client and the server in a test: nothing, PgBouncer (to see what the tests themselves are worth), or the
//! proxy under test. `CORUN_TEST_TARGET` (`direct`, `pgbouncer`, `corun`) chooses; the proxy runs in the test program, with one event
//! loop unless `CORUN_TEST_EVENT_LOOPS` says more.

use std::sync::Arc;

use corun_resctrl::partition::Partitioner;

use super::child::{Folder, Running, command, free_port, give};
use super::pooler::TestPooler;
use super::postgres::Postgres;
use super::raw::{Login, Raw};
use super::wait::wait;

/// When a client lets its server go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Session,
    Transaction,
    Statement,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Session => "session",
            Mode::Transaction => "transaction",
            Mode::Statement => "statement",
        }
    }
}

/// The settings of a test, by PgBouncer's names.
#[derive(Clone, Debug, Default)]
pub struct Pooling {
    pub mode: Mode,
    /// Servers a database and user may have.
    pub pool_size: usize,
    /// More settings, `name = value`.
    pub settings: Vec<(String, String)>,
    /// Settings of every database that only ours has, as lines of its file.
    pub ours: String,
    /// Settings of the process that only ours has, as lines of its file.
    pub corun: String,
    /// Files beside the configuration, by name; `{folder}` in a setting is where they are.
    pub files: Vec<(String, String)>,
    /// What keeps weak queries out of the cache, in place of the machine's.
    pub partitioner: Option<Arc<dyn Partitioner>>,
}

impl Pooling {
    /// This mode with so many servers.
    pub fn new(mode: Mode, pool_size: usize) -> Pooling {
        Pooling {
            mode,
            pool_size,
            ..Pooling::default()
        }
    }

    /// The same with one more setting.
    pub fn set(mut self, name: &str, value: &str) -> Pooling {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same with a setting of every database that only ours has: `name = value` as in its file.
    pub fn ours(mut self, line: &str) -> Pooling {
        self.ours.push_str(line);
        self.ours.push('\n');
        self
    }

    /// The same with a setting of the process that only ours has.
    pub fn corun(mut self, line: &str) -> Pooling {
        self.corun.push_str(line);
        self.corun.push('\n');
        self
    }

    /// The same with a partitioner of the test's.
    pub fn partitioner(mut self, partitioner: Arc<dyn Partitioner>) -> Pooling {
        self.partitioner = Some(partitioner);
        self
    }

    /// The same with one more file.
    pub fn file(mut self, name: &str, content: &str) -> Pooling {
        self.files.push((name.to_owned(), content.to_owned()));
        self
    }

    /// The same with `{database}` in what only ours has replaced by this name.
    pub fn in_database(&self, database: &str) -> Pooling {
        Pooling {
            ours: self.ours.replace("{database}", database),
            corun: self.corun.replace("{database}", database),
            ..self.clone()
        }
    }

    /// Makes the folder: the files, and the one of users and passwords.
    fn folder(&self) -> Folder {
        let folder = Folder::new("b");
        let write = |name: &str, content: &str| {
            std::fs::write(folder.path().join(name), content).expect("a file of the target")
        };
        write("users.txt", USERS);
        for (name, content) in &self.files {
            write(name, content);
        }
        folder
    }
}

/// Users in PgBouncer's format. Those without a password are trusted by the server and cannot log in here by password.
const USERS: &str = "\"app\" \"\"\n\"postgres\" \"\"\n\"other\" \"\"\n\"app_scram\" \"secret\"\n\"app_md5\" \"secret\"\n\
                     \"app_plain\" \"secret\"\n\"od'd \"\"name\" \"secret\"\n";

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Direct,
    PgBouncer,
    Corun,
}

/// What the environment chooses.
pub fn kind() -> Kind {
    match std::env::var("CORUN_TEST_TARGET").as_deref() {
        Ok("pgbouncer") => Kind::PgBouncer,
        Ok("direct") => Kind::Direct,
        Ok("corun") | Err(_) => Kind::Corun,
        Ok(other) => panic!("CORUN_TEST_TARGET must be corun, direct or pgbouncer, not `{other}`"),
    }
}

/// A target that runs.
pub struct Target {
    kind: Kind,
    port: u16,
    process: Option<Running>,
    pooler: Option<TestPooler>,
    folder: Option<Folder>,
}

impl Target {
    /// Starts what the environment chooses in front of a server. Users `app` and `postgres` are trusted.
    pub fn start(server: &Postgres, pooling: &Pooling) -> Target {
        match kind() {
            Kind::Direct => Target {
                kind: Kind::Direct,
                port: server.port(),
                process: None,
                pooler: None,
                folder: None,
            },
            Kind::PgBouncer => pgbouncer(server, pooling),
            Kind::Corun => corun(server.port(), pooling),
        }
    }

    /// Ours in front of another target.
    pub fn start_before(target: &Target, pooling: &Pooling) -> Target {
        corun(target.port, pooling)
    }

    /// Whether several clients share a server in transaction mode.
    pub fn shares_servers(&self) -> bool {
        self.kind != Kind::Direct
    }

    /// How to log in there.
    pub fn login(&self, user: &str) -> Login {
        Login::new("127.0.0.1", self.port, user)
    }

    /// A client of user `app`.
    pub fn client(&self) -> Raw {
        self.client_as(&self.login("app"))
    }

    /// A client with this login.
    pub fn client_as(&self, login: &Login) -> Raw {
        Raw::connect(login).unwrap_or_else(|error| panic!("login as {}: {error}\n{}", login.user, self.log()))
    }

    /// Memory of the process that is the target; nothing where there is none.
    pub fn resident_bytes(&self) -> u64 {
        let process = match (self.kind, &self.process) {
            (Kind::PgBouncer, Some(running)) => running.pid().to_string(),
            (Kind::Corun, _) => "self".to_owned(),
            _ => return 0,
        };
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the target runs");
        let kilobytes = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|number| number.parse::<u64>().ok());
        kilobytes.expect("VmRSS") << 10
    }

    /// Reads the configuration again.
    pub fn reload(&self) {
        match &self.pooler {
            Some(pooler) => pooler.reload(&pooler.text),
            None => {
                let (database, reload) = match self.kind {
                    Kind::Direct => ("app", "select pg_reload_conf()"),
                    _ => ("pgbouncer", "reload"),
                };
                let mut console = self.client_as(&self.login("postgres").database(database));
                console.lines(reload);
            }
        }
    }

    /// Takes over another configuration: ours, with these texts in place of those.
    pub fn reload_with(&self, changes: &[(&str, &str)]) {
        let Some(pooler) = &self.pooler else {
            panic!("only our own configuration can be changed");
        };
        let mut text = pooler.text.clone();
        for (old, new) in changes {
            assert!(text.contains(old), "there is no `{old}` in {text}");
            text = text.replace(old, new);
        }
        pooler.reload(&text);
    }

    fn wait_until_it_listens(&self) {
        wait(|| {
            std::net::TcpStream::connect(("127.0.0.1", self.port))
                .map_err(|error| format!("the target does not start: {error}\n{}", self.log()))
        });
    }

    /// What the target has logged.
    pub fn log(&self) -> String {
        match (&self.folder, self.kind) {
            (_, Kind::Corun) => super::log::all(),
            (Some(folder), _) => std::fs::read_to_string(folder.path().join("log")).unwrap_or_default(),
            (None, _) => String::new(),
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(60)..];
            eprintln!("log of the target:\n{}", last.join("\n"));
        }
    }
}

/// The settings of every test, by PgBouncer's names, then the test's own.
fn settings(pooling: &Pooling, folder: &Folder, port: u16) -> Vec<(String, String)> {
    let mut settings: Vec<(String, String)> = [
        ("listen_addr", "127.0.0.1"),
        ("listen_port", &port.to_string()),
        ("unix_socket_dir", ""),
        ("auth_type", "trust"),
        ("auth_file", "{folder}/users.txt"),
        ("pool_mode", pooling.mode.name()),
        ("default_pool_size", &pooling.pool_size.to_string()),
        ("admin_users", "postgres"),
        ("max_client_conn", "2000"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    for (name, value) in &pooling.settings {
        settings.retain(|(old, _)| old != name);
        settings.push((name.clone(), value.clone()));
    }
    for (_, value) in &mut settings {
        *value = value.replace("{folder}", &folder.path().display().to_string());
    }
    settings
}

fn corun(server_port: u16, pooling: &Pooling) -> Target {
    let folder = pooling.folder();
    let port = free_port();
    let mut text = "[proxy]\n".to_owned();
    for (name, value) in settings(pooling, &folder, port) {
        let bare = value.parse::<i64>().is_ok() || value == "true" || value == "false";
        let quoted = format!("{value:?}");
        let value = match name.as_str() {
            "listen_addr" | "admin_users" => format!("[{quoted}]"),
            _ if bare => value,
            _ => quoted,
        };
        text.push_str(&format!("{name} = {value}\n"));
    }
    let loops = super::number_from_environment("CORUN_TEST_EVENT_LOOPS", 1);
    let mut corun = pooling.corun.clone();
    if !corun.contains("event_loops") {
        corun.push_str(&format!("event_loops = {loops}\n"));
    }
    text.push_str(&format!(
        "[corun]\n{corun}[databases.\"*\"]\nhost = \"127.0.0.1\"\nport = {server_port}\n{}",
        pooling.ours
    ));
    Target {
        kind: Kind::Corun,
        port,
        process: None,
        pooler: Some(TestPooler::start_partitioned(
            port,
            text,
            pooling.partitioner.clone(),
        )),
        folder: Some(folder),
    }
}

fn pgbouncer(server: &Postgres, pooling: &Pooling) -> Target {
    let folder = pooling.folder();
    let port = free_port();
    let mut ini = format!(
        "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nignore_startup_parameters = extra_float_digits,options\n",
        server.port()
    );
    for (name, value) in settings(pooling, &folder, port) {
        ini.push_str(&format!("{name} = {value}\n"));
    }
    let file = folder.path().join("pgbouncer.ini");
    std::fs::write(&file, ini).expect("settings");
    give(folder.path());
    let mut start = command("/usr/sbin/pgbouncer", "KILL");
    start.arg(&file);
    let running = Running::start(start, &folder.path().join("log"), "KILL");
    let target = Target {
        kind: Kind::PgBouncer,
        port,
        process: Some(running),
        pooler: None,
        folder: Some(folder),
    };
    target.wait_until_it_listens();
    target
}
