//! What stands between a client and the server in a test: nothing, PgBouncer (to see what the tests themselves are worth), or the
//! proxy under test. `CORUN_TEST_TARGET` (`direct`, `pgbouncer`, `corun`) chooses; the proxy runs in the test program, with one event
//! loop unless `CORUN_TEST_EVENT_LOOPS` says more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_pooler::config::Config;
use corun_pooler::{ConfigFiles, Pooler};
use corun_resctrl::partition::Partitioner;

use super::child::{Folder, Running, command, free_port, give};
use super::postgres::Postgres;
use super::raw::{Login, Raw};

/// When a client lets its server go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
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
#[derive(Clone, Debug)]
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
            settings: Vec::new(),
            ours: String::new(),
            corun: String::new(),
            files: Vec::new(),
            partitioner: None,
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

/// A target in front of the shared server, and a database that only this test uses.
pub struct Scene {
    pub target: Target,
    pub database: String,
}

impl Scene {
    /// Starts a target with these settings.
    pub fn start(pooling: &Pooling) -> Scene {
        let server = super::postgres::shared();
        Scene {
            database: super::postgres::new_database(),
            target: Target::start(server, pooling),
        }
    }

    /// Transaction mode with so many servers.
    pub fn transactions(pool_size: usize) -> Scene {
        Scene::start(&Pooling::new(Mode::Transaction, pool_size))
    }

    /// How user `app` logs in to the database through the target.
    pub fn login(&self) -> Login {
        self.target.login("app").database(&self.database)
    }

    /// A client of user `app`.
    pub fn client(&self) -> Raw {
        self.target.client_as(&self.login())
    }

    /// Two of them.
    pub fn two(&self) -> (Raw, Raw) {
        (self.client(), self.client())
    }

    /// The console of the target, for its administrator.
    pub fn console(&self) -> Raw {
        self.target
            .client_as(&self.target.login("postgres").database("pgbouncer"))
    }

    /// Waits until the console says that so many clients of the database wait for a server.
    pub fn wait_for_waiting(&self, count: usize) {
        wait_for_waiting(&mut self.console(), &self.database, count);
    }

    /// Statements of the superuser, past the target.
    pub fn sql(&self, text: &str) -> Vec<Vec<Option<String>>> {
        super::postgres::shared().sql_in(&self.database, text)
    }

    /// Waits until a query of the superuser answers `t`; panics after 20 seconds.
    pub fn wait_until(&self, query: &str) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.sql(query).pop() != Some(vec![Some("t".to_owned())]) {
            assert!(
                Instant::now() < until,
                "still not true: {query}\nservers: {:#?}",
                self.sql("select pid, usename, state, wait_event, query from pg_stat_activity where datname = current_database()")
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Waits until the console says that so many clients of a database wait for a server; panics after 20 seconds.
pub fn wait_for_waiting(console: &mut Raw, database: &str, count: usize) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let pools = console.table("show pools");
        let of = pools.iter().filter(|pool| pool["database"] == database);
        let waiting: usize = of
            .map(|pool| pool["cl_waiting"].parse::<usize>().expect("a number"))
            .sum();
        if waiting == count {
            return;
        }
        assert!(Instant::now() < until, "{waiting} wait, not {count}: {pools:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A target that runs.
pub struct Target {
    kind: Kind,
    port: u16,
    process: Option<Running>,
    proxy: Option<(Pooler, String)>,
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
                proxy: None,
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
        match &self.proxy {
            Some((proxy, text)) => {
                proxy.reload(files(text));
            }
            None => {
                let database = if self.kind == Kind::Direct {
                    "app"
                } else {
                    "pgbouncer"
                };
                let mut console = self.client_as(&self.login("postgres").database(database));
                console.lines(if self.kind == Kind::Direct {
                    "select pg_reload_conf()"
                } else {
                    "reload"
                });
            }
        }
    }

    /// Takes over another configuration: ours, with these texts in place of those.
    pub fn reload_with(&self, changes: &[(&str, &str)]) {
        let Some((proxy, text)) = &self.proxy else {
            panic!("only our own configuration can be changed");
        };
        let mut text = text.clone();
        for (old, new) in changes {
            assert!(text.contains(old), "there is no `{old}` in {text}");
            text = text.replace(old, new);
        }
        proxy.reload(files(&text));
    }

    fn wait_until_it_listens(&self) {
        let until = Instant::now() + Duration::from_secs(10);
        while let Err(error) = std::net::TcpStream::connect(("127.0.0.1", self.port)) {
            assert!(
                Instant::now() < until,
                "the target does not start: {error}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
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
            eprintln!(
                "log of the target:\n{}",
                lines[lines.len().saturating_sub(60)..].join("\n")
            );
        }
        if let Some((proxy, _)) = self.proxy.take() {
            proxy.stop(true);
            let until = Instant::now() + Duration::from_secs(10);
            while !proxy.has_ended() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(2));
            }
            let ended = proxy.has_ended();
            if ended {
                proxy.join();
            }
            assert!(
                ended || std::thread::panicking(),
                "the proxy was told to stop at once and did not"
            );
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

fn files(text: &str) -> ConfigFiles {
    let loaded = Config::parse(text, "corun.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    ConfigFiles::of(loaded.config).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn corun(server_port: u16, pooling: &Pooling) -> Target {
    super::log::keep();
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
    let started = match &pooling.partitioner {
        Some(partitioner) => Pooler::start_partitioned(files(&text), Arc::clone(partitioner)),
        None => Pooler::start(files(&text)),
    };
    let proxy = started.unwrap_or_else(|error| panic!("{error}\n{text}"));
    Target {
        kind: Kind::Corun,
        port,
        process: None,
        proxy: Some((proxy, text)),
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
        proxy: None,
        folder: Some(folder),
    };
    target.wait_until_it_listens();
    target
}
