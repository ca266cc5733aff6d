//! A server over a store in a folder of its own, its clients, and what they are answered as texts.
//!
//! Order of calls: [`Server::start`], [`Server::client`] for each client (a client is `Send`: threads take one each), then
//! [`Client::execute`], [`Client::rows`], [`Client::error`]; [`Server::restart`] opens the same folder again. Everything blocks; the
//! sockets of clients are driven by threads of their own. What it is not: a client that sees tags ([`wire_client`] does).

#![allow(dead_code, reason = "each of the test programs uses a part of it")]

#[path = "wire_client.rs"]
pub mod wire_client;

use corun_datafusion::CoordinatorOptions;
use corun_server::data::DataConfig;
use corun_server::front::{Access, AccessFiles, Front, FrontConfig};
use corun_server::session::{Engine, EngineConfig};
use corun_store::{Options, Store};
use futures::SinkExt as _;
use std::io::Cursor;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{CancelToken, NoTls, SimpleQueryMessage};
use wire_client::WireClient;

/// How long something may take that always happens, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Fields of a row as texts; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// SQLSTATE and message.
pub type Failure = (String, String);

/// A server that writes to the store in its folder.
pub struct Server {
    running: Option<Running>,
    folder: PathBuf,
    /// Where the server made the folder itself.
    _made: Option<tempfile::TempDir>,
}

struct Running {
    front: Front,
    engine: Engine,
}

/// The runtime that drives the sockets of all clients.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let made = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        made.expect("a runtime")
    })
}

impl Server {
    /// Over a new store in a temporary folder.
    pub fn start() -> Server {
        Server::with(|_| {})
    }

    /// The same with another configuration.
    pub fn with(change: impl FnOnce(&mut EngineConfig)) -> Server {
        let made = tempfile::tempdir().expect("a folder");
        drop(Store::open(made.path(), Options::default()).expect("a store"));
        let mut server = Server::open(made.path(), change);
        server._made = Some(made);
        server
    }

    /// Over the store that is in a folder; one is made where there is none.
    pub fn open(folder: &Path, change: impl FnOnce(&mut EngineConfig)) -> Server {
        if !Store::is_in(folder) {
            drop(Store::open(folder, Options::default()).expect("a store"));
        }
        Server {
            running: Some(running(folder, change)),
            folder: folder.to_owned(),
            _made: None,
        }
    }

    /// Stops the server, opens its folder again. Clients from before are cut off.
    pub fn restart(&mut self) {
        self.stop();
        self.running = Some(running(&self.folder, |_| {}));
    }

    /// Stops the server and waits until its store is closed. Whoever has an [`Engine`] of it must have dropped that.
    pub fn stop(&mut self) {
        let Some(Running { front, engine }) = self.running.take() else {
            return;
        };
        drop(front);
        drop(engine);
        // Sessions end on threads of their own; the last one closes the store.
        wait("the store is not closed", || {
            Store::open(&self.folder, Options::default()).is_ok()
        });
    }

    /// The folder with the store.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.running().front.addresses()[0].port()
    }

    /// What its sessions share.
    pub fn engine(&self) -> &Engine {
        &self.running().engine
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the server runs")
    }

    /// A client that is logged in as `ada`, who may do everything.
    pub fn client(&self) -> Client {
        Client::connect(&format!(
            "host=127.0.0.1 port={} user=ada dbname=shop",
            self.port()
        ))
    }

    /// A client that speaks the protocol itself, and so sees tags.
    pub fn wire_client(&self) -> WireClient {
        WireClient::connect(self.port(), "ada", "shop").expect("let in")
    }

    /// Runs psql without a startup file, as `psql ARGUMENTS`.
    pub fn psql(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("psql");
        command.arg("-X").args(arguments);
        self.program(command)
    }

    /// Runs a program of PostgreSQL that takes its server from the environment.
    pub fn program(&self, mut command: Command) -> Output {
        command
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", self.port().to_string())
            .env("PGUSER", "ada")
            .env("PGDATABASE", "shop")
            .env("PGCONNECT_TIMEOUT", "60");
        let output = command
            .output()
            .unwrap_or_else(|error| panic!("{command:?}: {error}; scripts/bootstrap installs it"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Output {
            success: output.status.success(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(Running { front, engine }) = self.running.take() {
            drop(front);
            drop(engine);
        }
    }
}

/// What a program has written.
#[derive(Debug)]
pub struct Output {
    pub success: bool,
    pub out: String,
    pub err: String,
}

impl Output {
    /// Its standard output; it must have succeeded.
    #[track_caller]
    pub fn expect(self) -> String {
        assert!(self.success, "{}\n{}", self.out, self.err);
        self.out
    }
}

fn running(folder: &Path, change: impl FnOnce(&mut EngineConfig)) -> Running {
    let mut config = EngineConfig::new(DataConfig {
        catalogs: vec![("shop".to_owned(), folder.to_owned())],
        allow_write: vec![folder.to_owned()],
        ..DataConfig::default()
    });
    let topology = corun_topology::discover();
    config.coordinator = Some(CoordinatorOptions::for_machine(&topology, None).expect("a cache"));
    change(&mut config);
    let engine = Engine::start(config).expect("an engine");
    let config = FrontConfig {
        listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        ..FrontConfig::default()
    };
    let access = Access::load(&AccessFiles::default(), &config.listen).expect("no files");
    let front = Front::start(config, access, engine.clone()).expect("a front");
    Running { front, engine }
}

/// A client; dropping it closes its connection.
pub struct Client {
    /// The driver, for what this type has no method for; see [`runtime`].
    pub driver: tokio_postgres::Client,
}

impl Client {
    /// Logs in.
    pub fn connect(target: &str) -> Client {
        let connected = runtime().block_on(tokio_postgres::connect(target, NoTls));
        let (driver, connection) = connected.unwrap_or_else(|error| panic!("{target}: {error:?}"));
        runtime().spawn(async { drop(connection.await) });
        Client { driver }
    }

    /// Runs a text of one or more statements; returns the rows of the last tag that counts any.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn execute(&self, sql: &str) -> u64 {
        self.try_execute(sql)
            .unwrap_or_else(|(code, message)| panic!("{sql}: {code} {message}"))
    }

    /// The same; it may fail.
    pub fn try_execute(&self, sql: &str) -> Result<u64, Failure> {
        let messages = self.messages(sql)?;
        let counts = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
            _ => None,
        });
        Ok(counts.last().unwrap_or(0))
    }

    /// All rows of a text.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn rows(&self, sql: &str) -> Vec<Row> {
        self.try_rows(sql)
            .unwrap_or_else(|(code, message)| panic!("{sql}: {code} {message}"))
    }

    /// The same; it may fail.
    pub fn try_rows(&self, sql: &str) -> Result<Vec<Row>, Failure> {
        let messages = self.messages(sql)?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        });
        Ok(rows.collect())
    }

    /// Rows as lines, `|` between fields, NULL as `NULL`.
    #[track_caller]
    pub fn lines(&self, sql: &str) -> Vec<String> {
        self.rows(sql).iter().map(line).collect()
    }

    /// The only field of the only row.
    #[track_caller]
    pub fn one(&self, sql: &str) -> String {
        let lines = self.lines(sql);
        assert_eq!(lines.len(), 1, "{sql}: {lines:?}");
        lines[0].clone()
    }

    /// SQLSTATE and message of a text that must fail.
    #[track_caller]
    pub fn error(&self, sql: &str) -> Failure {
        match self.try_rows(sql) {
            Ok(rows) => panic!("{sql}: it does not fail: {rows:?}"),
            Err(failure) => failure,
        }
    }

    fn messages(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Failure> {
        runtime().block_on(self.driver.simple_query(sql)).map_err(failure)
    }

    /// Runs a statement with parameters by the extended protocol: prepared, bound, executed, with results in binary.
    pub fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, Failure> {
        runtime()
            .block_on(self.driver.query(sql, parameters))
            .map_err(failure)
    }

    /// The same for its number of rows.
    pub fn execute_with(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<u64, Failure> {
        runtime()
            .block_on(self.driver.execute(sql, parameters))
            .map_err(failure)
    }

    /// `COPY ... FROM STDIN` with this data.
    pub fn copy_in(&self, sql: &str, data: &[u8]) -> Result<u64, Failure> {
        runtime().block_on(async {
            let sink = self
                .driver
                .copy_in::<_, Cursor<Vec<u8>>>(sql)
                .await
                .map_err(failure)?;
            let mut sink = std::pin::pin!(sink);
            // A server that has failed meanwhile says so at the end.
            _ = sink.send(Cursor::new(data.to_vec())).await;
            sink.finish().await.map_err(failure)
        })
    }

    /// Cancels what the client runs.
    pub fn cancel_token(&self) -> CancelToken {
        self.driver.cancel_token()
    }

    /// Whether its connection is at an end.
    pub fn is_closed(&self) -> bool {
        self.driver.is_closed()
    }
}

/// A row as a line.
pub fn line(row: &Row) -> String {
    let fields: Vec<&str> = row
        .iter()
        .map(|field| field.as_deref().unwrap_or("NULL"))
        .collect();
    fields.join("|")
}

/// What the server has said; `closed` where there was no answer.
pub fn failure(error: tokio_postgres::Error) -> Failure {
    match error.as_db_error() {
        Some(said) => (said.code().code().to_owned(), said.message().to_owned()),
        None => ("closed".to_owned(), format!("{error:?}")),
    }
}

/// Waits for something that happens soon.
#[track_caller]
pub fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A number of the environment, which makes runs longer.
pub fn number_from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}"))
    })
}

/// The newest PostgreSQL of this machine: the folder of its programs.
pub fn postgres_programs() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("CORUN_PG_BIN") {
        return Some(PathBuf::from(folder));
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            let folder = entry.path().join("bin");
            let version = entry.file_name().to_str()?.parse().ok()?;
            folder.join("initdb").exists().then_some((version, folder))
        })
        .collect();
    found.sort();
    found.pop().map(|(_, folder)| folder)
}
