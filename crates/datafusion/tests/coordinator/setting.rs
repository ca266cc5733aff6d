//! Sessions over small tables, coordinators around them, and functions that stop a query where a test wants it.

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use corun_datafusion::{
    Coordinator, CoordinatorOptions, CorunOptions, EngineError, JoinChoice, QueryOutput, State,
};
use corun_model::cache::coschedule::{LlcDomain, PolicyName, Priority};
use corun_model::cache::locality::Thresholds;
use corun_model::cache::partition::Class;
use corun_model::units::{Bytes, CpuId};
use corun_resctrl::partition::{Kind, PartitionError, Partitioner};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::prelude::{SessionConfig, SessionContext};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// No test waits longer for anything.
pub const LONGEST: Duration = Duration::from_secs(30);

/// Fails instead of hanging.
pub async fn within<T>(work: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(LONGEST, work).await;
    waited.expect("it should not take so long")
}

/// Waits until the coordinator looks so.
pub async fn until(coordinator: &Coordinator, what: &str, so: impl Fn(&State) -> bool) {
    let since = Instant::now();
    loop {
        let state = coordinator.state();
        if so(&state) {
            return;
        }
        assert!(since.elapsed() < LONGEST, "not {what}: {state:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub async fn until_idle(coordinator: &Coordinator) {
    until(coordinator, "idle", State::is_idle).await;
}

/// CPUs of this process.
pub fn cpus() -> Vec<CpuId> {
    corun_topology::affinity::allowed_cpus().expect("the kernel tells")
}

/// One cache above all CPUs; no query is short.
pub fn options(policy: PolicyName) -> CoordinatorOptions {
    CoordinatorOptions {
        policy,
        priority: Priority::default(),
        domains: vec![LlcDomain {
            cache: Bytes::mib(1),
            cpus: cpus(),
        }],
        thresholds: Thresholds::default(),
        plan_choice: true,
        widen: false,
        overtakes_max: 8,
        waiting_max: 1024,
        short_below_ns: 0.0,
        bypass_max: 64,
        partitioner: None,
    }
}

/// The same with a single CPU, so that one query at a time runs.
pub fn one_cpu(policy: PolicyName) -> CoordinatorOptions {
    let mut options = options(policy);
    options.domains[0].cpus.truncate(1);
    options
}

/// A session with corun's operators and a memory pool of so many bytes.
pub fn session(pool_bytes: usize) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(pool_bytes)))
        .build_arc()
        .unwrap();
    // What is kept for later statements would be held when all have ended.
    let mut corun = CorunOptions::default();
    corun.share_work = JoinChoice::Off;
    let config = SessionConfig::new()
        .with_target_partitions(2)
        .with_information_schema(true)
        .with_option_extension(corun);
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features();
    SessionContext::new_with_state(corun_datafusion::install(state).build())
}

/// Bytes its queries hold.
pub fn reserved(context: &SessionContext) -> usize {
    context.runtime_env().memory_pool.reserved()
}

/// Waits until no query of the session holds memory: tasks of operators end a little after their query.
pub async fn until_nothing_is_held(context: &SessionContext) {
    let since = Instant::now();
    while reserved(context) != 0 {
        assert!(
            since.elapsed() < LONGEST,
            "{} bytes are still held",
            reserved(context)
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Tables: `facts` (20 000 rows) and dimensions `a` (50), `b` (500) and `c` (5000).
pub const TABLES: [&str; 4] = [
    "CREATE TABLE facts AS SELECT value AS id, value % 50 AS a, value % 500 AS b, value % 5000 AS c, value % 7 AS v \
     FROM generate_series(1, 20000)",
    "CREATE TABLE a AS SELECT value AS id, value % 3 AS g FROM generate_series(0, 49)",
    "CREATE TABLE b AS SELECT value AS id, value % 11 AS g FROM generate_series(0, 499)",
    "CREATE TABLE c AS SELECT value AS id, value % 13 AS g FROM generate_series(0, 4999)",
];

/// Queries of every kind over them.
pub const QUERIES: [&str; 10] = [
    "SELECT 1",
    "SELECT count(*), sum(v) FROM facts",
    "SELECT sum(v) FROM facts JOIN a ON facts.a = a.id WHERE a.g = 1",
    "SELECT b.g, sum(v), count(*) FROM facts JOIN b ON facts.b = b.id GROUP BY b.g",
    "SELECT a.g, c.g, sum(v) FROM facts JOIN a ON facts.a = a.id JOIN c ON facts.c = c.id GROUP BY a.g, c.g",
    "SELECT facts.id, c.g FROM facts JOIN c ON facts.c = c.id WHERE c.g < 4",
    "SELECT id FROM facts ORDER BY v DESC, id LIMIT 10",
    "SELECT c FROM facts UNION SELECT id FROM b",
    "SELECT count(*) FROM facts WHERE b IN (SELECT id FROM b WHERE g = 3)",
    "SELECT v, count(DISTINCT b) FROM facts GROUP BY v",
];

pub async fn with_tables(context: &SessionContext) {
    for sql in TABLES {
        context.sql(sql).await.unwrap().collect().await.unwrap();
    }
}

pub async fn answer(coordinator: &Coordinator, sql: &str) -> Result<QueryOutput, EngineError> {
    within(coordinator.query(sql)).await.map(|(output, _)| output)
}

/// Holds queries at `gate(n)` until it is opened, and notes in which order they came. The thread is held, too.
#[derive(Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    open: bool,
    came: Vec<i64>,
}

impl Gate {
    pub fn open(&self) {
        self.state.lock().unwrap().open = true;
        self.changed.notify_all();
    }

    pub fn came(&self) -> Vec<i64> {
        self.state.lock().unwrap().came.clone()
    }

    pub async fn until_came(&self, n: usize) {
        let since = Instant::now();
        while self.came().len() < n {
            assert!(since.elapsed() < LONGEST, "only {:?} came", self.came());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn pass(&self, who: i64) {
        let mut state = self.state.lock().unwrap();
        state.came.push(who);
        while !state.open {
            let (next, waited) = self.changed.wait_timeout(state, LONGEST).unwrap();
            assert!(!waited.timed_out(), "nobody opened the gate");
            state = next;
        }
    }

    /// The function, which is not computed before the query runs.
    pub fn function(self: &Arc<Self>) -> ScalarUDF {
        self.named("gate", Volatility::Volatile)
    }

    /// The same under another name, and as one whose work may be shared.
    pub fn named(self: &Arc<Self>, name: &str, volatility: Volatility) -> ScalarUDF {
        let gate = Arc::clone(self);
        function(name, volatility, move |n| {
            gate.pass(n);
            n
        })
    }
}

/// A function of a whole number to another.
pub fn function(
    name: &str,
    volatility: Volatility,
    compute: impl Fn(i64) -> i64 + Send + Sync + 'static,
) -> ScalarUDF {
    let implementation = move |arguments: &[ColumnarValue]| {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let values = arrays[0].as_primitive::<Int64Type>().iter();
        let computed: Int64Array = values.map(|value| value.map(&compute)).collect();
        Ok(ColumnarValue::Array(Arc::new(computed) as ArrayRef))
    };
    create_udf(
        name,
        vec![DataType::Int64],
        DataType::Int64,
        volatility,
        Arc::new(implementation),
    )
}

/// Notes which thread was given which share of the cache, and protects as well as a test wants.
#[derive(Debug, Default)]
pub struct Noted {
    pub assigned: Mutex<BTreeMap<String, Vec<Class>>>,
}

impl Partitioner for Noted {
    fn kind(&self) -> Kind {
        Kind::Ways
    }

    fn protects(&self) -> bool {
        true
    }

    fn assign_current_thread(&self, class: Class) -> Result<(), PartitionError> {
        let thread = std::thread::current();
        let id: ThreadId = thread.id();
        let name = format!("{} {id:?}", thread.name().unwrap_or("?"));
        self.assigned.lock().unwrap().entry(name).or_default().push(class);
        Ok(())
    }

    fn describe(&self) -> String {
        "notes who was assigned".to_owned()
    }
}
