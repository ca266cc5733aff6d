//! What operators see: counted statements, metrics that Prometheus reads, pages, and who may ask for them.

#[path = "../../../net/tests/exposition/mod.rs"]
#[allow(dead_code, reason = "it has more than these tests need")]
mod exposition;
mod numbers;
mod web;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_datafusion::CoordinatorOptions;
use corun_server::data::DataConfig;
use corun_server::front::{Access, AccessFiles, Front, FrontConfig};
use corun_server::operate::Status;
use corun_server::session::{Engine, EngineConfig};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

/// A server over a table `t` of ten rows.
pub struct Server {
    /// Its sockets.
    pub front: Front,
    /// What is shown of it.
    pub status: Arc<Status>,
    engine: Engine,
    _folder: tempfile::TempDir,
}

impl Server {
    /// With another configuration than the usual one.
    pub fn start(change: impl FnOnce(&mut EngineConfig)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let rows: Vec<String> = (0..10).map(|n| format!("{n},row {n}")).collect();
        let text = format!("n,word\n{}\n", rows.join("\n"));
        std::fs::write(folder.path().join("t.csv"), text).expect("written");
        let topology = corun_topology::discover();
        let mut config = EngineConfig::new(DataConfig {
            catalogs: vec![("shop".to_owned(), folder.path().to_owned())],
            ..DataConfig::default()
        });
        config.coordinator = Some(CoordinatorOptions::for_machine(&topology, None).expect("a cache"));
        change(&mut config);
        let engine = Engine::start(config).expect("an engine");
        let config = FrontConfig {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            ..FrontConfig::default()
        };
        let access = Access::load(&AccessFiles::default(), &config.listen).expect("no files");
        let front = Front::start(config, access, engine.clone()).expect("a front");
        let status = Status::new(engine.clone(), front.view(), &topology);
        Self {
            front,
            status: Arc::new(status),
            engine,
            _folder: folder,
        }
    }

    /// A client that is logged in; its connection is driven by the engine's runtime.
    pub fn connect(&self) -> Client {
        self.connect_until_aborted().0
    }

    /// The same, and the task that drives its connection.
    pub fn connect_until_aborted(&self) -> (Client, JoinHandle<()>) {
        let target = format!(
            "host=127.0.0.1 port={} user=ann dbname=shop application_name=test",
            self.front.addresses()[0].port()
        );
        let connected = self
            .engine
            .runtime()
            .block_on(tokio_postgres::connect(&target, NoTls));
        let (client, connection) = connected.expect("let in");
        let driven = async { drop(connection.await) };
        (client, self.engine.runtime().spawn(driven))
    }

    /// Runs something on the engine's runtime.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.engine.runtime().spawn(work)
    }

    /// Waits for something on the engine's runtime.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.engine.runtime().block_on(work)
    }

    /// The body of what is under a path.
    pub fn page(&self, path: &str) -> String {
        self.status.answer(path).expect("an answer").body
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
