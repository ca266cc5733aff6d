//! [`Status`]: a server at this moment, gathered from its engine, its front and its machine, and shown under four paths.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use corun_datafusion::{Coordinator, State};
use corun_model::cpulist;
use corun_model::server_status::{
    CacheStatus, MemoryUse, QueryState, QueueStatus, QueuedQuery, ServerStatus, SessionStatus, SharedUse,
    Slowdown,
};
use corun_model::topology::{CacheKind, Topology};
use corun_model::units::Bytes;
use corun_net::metrics::CONTENT_TYPE;

use super::web::Answer;
use super::{page, prometheus};
use crate::catalog::ActivityFact;
use crate::front::FrontView;
use crate::session::Engine;

/// See the module.
pub struct Status {
    engine: Engine,
    front: FrontView,
    began: Instant,
    caches: Vec<CacheStatus>,
}

impl Status {
    /// Of a server that has just started on a machine.
    pub fn new(engine: Engine, front: FrontView, topology: &Topology) -> Self {
        Self {
            caches: caches(topology, engine.coordinator()),
            engine,
            front,
            began: Instant::now(),
        }
    }

    /// The server at this moment.
    pub fn now(&self) -> ServerStatus {
        let statements = self.engine.statements();
        let sessions = self.engine.activity();
        let (pool_bytes, pool_bytes_max) = self.engine.memory();
        ServerStatus {
            program: "corun-sql".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: self.began.elapsed().as_secs_f64(),
            is_stopping: self.front.is_stopping(),
            connections: self.front.connections(),
            statements: statements.totals(),
            memory: MemoryUse {
                resident_bytes: corun_net::memory::resident_bytes().unwrap_or(0),
                pool_bytes: pool_bytes as u64,
                pool_bytes_max: pool_bytes_max.map(|bytes| bytes as u64),
            },
            queue: self
                .engine
                .coordinator()
                .map(|coordinator| queue(coordinator, &sessions)),
            sessions: sessions.into_iter().map(session).collect(),
            shared: self.shared(),
            caches: self.caches.clone(),
            slow: statements.slow(),
        }
    }

    fn shared(&self) -> SharedUse {
        let shared = self.engine.shared_work();
        SharedUse {
            parts: shared.parts as u64,
            results: shared.results as u64,
            result_bytes: shared.bytes as u64,
            columns: shared.columns as u64,
            column_bytes: shared.column_bytes as u64,
            parts_run: shared.parts_run,
            parts_joined: shared.parts_joined,
            results_reused: shared.results_reused,
            columns_asked: shared.columns_asked,
            columns_reused: shared.columns_reused,
        }
    }

    /// What is under a path; `None`: nothing.
    pub fn answer(&self, path: &str) -> Option<Answer> {
        match path {
            "/" => Some(page::answer(&self.now())),
            "/metrics" => {
                let statements = self.engine.statements();
                let text = prometheus::text(&self.now(), &statements.times(), &statements.errors());
                Some(Answer::new(CONTENT_TYPE, text))
            }
            "/status.json" => {
                let text = serde_json::to_string(&self.now()).ok()?;
                Some(Answer::new("application/json", text + "\n"))
            }
            "/health" => Some(match self.front.is_stopping() {
                false => Answer::new("text/plain", "ok\n".to_owned()),
                true => Answer {
                    status: "503 Service Unavailable",
                    ..Answer::new("text/plain", "stopping\n".to_owned())
                },
            }),
            _ => None,
        }
    }
}

fn session(fact: ActivityFact) -> SessionStatus {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = |then: i64| (now.as_secs_f64() - then as f64 / 1e6).max(0.0);
    SessionStatus {
        pid: fact.pid,
        user: fact.user,
        database: fact.database,
        application: fact.application,
        address: fact.client_address,
        state: fact.state,
        connected_s: fact.started.map(since).unwrap_or_default(),
        statement_s: fact.query_started.map(since),
        query: fact.query_id.and_then(|id| u64::try_from(id).ok()),
        statement: fact.query,
    }
}

fn queue(coordinator: &Coordinator, sessions: &[ActivityFact]) -> QueueStatus {
    let state: State = coordinator.state();
    let seconds = |ns: u64| Some(ns as f64 / 1e9);
    let of = |id: u64, state: QueryState| QueuedQuery {
        id,
        state,
        pid: sessions
            .iter()
            .find(|session| session.query_id == i64::try_from(id).ok())
            .map(|session| session.pid),
        ..QueuedQuery::default()
    };
    let running = state.running.iter().map(|query| QueuedQuery {
        class: Some(query.class),
        cpus: cpulist::format(&query.cpus),
        seconds: seconds(query.ran_ns),
        why: query.why.map(|why| why.to_string()).unwrap_or_default(),
        ..of(query.id.0, QueryState::Running)
    });
    let waiting = state.waiting.iter().map(|query| QueuedQuery {
        class: Some(query.class),
        seconds: seconds(query.waited_ns),
        overtaken: query.overtaken,
        ..of(query.id.0, QueryState::Waiting)
    });
    let lists = [
        (&state.bypassing, QueryState::Short),
        (&state.unread, QueryState::Unread),
        (&state.statements, QueryState::Statement),
    ];
    let others = lists
        .into_iter()
        .flat_map(|(ids, state)| ids.iter().map(move |id| (id.0, state)));
    let others = others.map(|(id, state)| of(id, state));
    let slowdowns = state.slowdowns.iter().map(|cell| Slowdown {
        victim: cell.victim,
        corunner: cell.corunner,
        factor: cell.factor,
    });
    QueueStatus {
        policy: format!("{:?}", state.policy).to_lowercase(),
        partition: coordinator.partition().unwrap_or_default(),
        slowdowns: slowdowns.collect(),
        queries: running.chain(waiting).chain(others).collect(),
    }
}

/// A row for each kind of cache, and one for memory.
fn caches(topology: &Topology, coordinator: Option<&Coordinator>) -> Vec<CacheStatus> {
    let last = topology.caches.iter().map(|cache| cache.level).max();
    let mut rows: Vec<CacheStatus> = Vec::new();
    for cache in &topology.caches {
        let name = cache.name();
        if let Some(row) = rows.iter_mut().find(|row| row.name == name) {
            row.count += 1;
            continue;
        }
        let mechanism = match (cache.kind, cache.level) {
            (CacheKind::Instruction, _) => "nothing here: what serves it runs transactions".to_owned(),
            (_, level) if Some(level) == last && level > 1 => last_level(coordinator),
            (_, 1) => "join tables and indexes in cache lines, many of them asked for ahead".to_owned(),
            _ => "tables of groups of half its size; join batches that fit".to_owned(),
        };
        rows.push(CacheStatus {
            name,
            bytes: Some(cache.size.0),
            count: 1,
            cpus: cache.shared_cpus.len(),
            mechanism,
        });
    }
    rows.push(CacheStatus {
        name: "memory".to_owned(),
        bytes: topology.memory.total.map(|bytes| bytes.0),
        count: topology.numa_nodes.len().max(1),
        cpus: topology.usable_cpus().len(),
        mechanism: "work that statements share: parts that run, results and columns that are kept".to_owned(),
    });
    rows
}

fn last_level(coordinator: Option<&Coordinator>) -> String {
    let Some(coordinator) = coordinator else {
        return "nothing: --policy is off, and each query runs at once".to_owned();
    };
    let sizes: Vec<Bytes> = coordinator.domains().iter().map(|domain| domain.cache).collect();
    let counted_on = sizes.iter().min().map(ToString::to_string).unwrap_or_default();
    let divided = match coordinator.partition() {
        Some(partition) => partition,
        None => "not divided".to_owned(),
    };
    format!(
        "the coordinator: queries run beside those that harm them least; {counted_on} counted on; {divided}"
    )
}
