//! All SSB and TPC-H queries, stock and corun, against recorded answers, an oracle, and each other: over partitions,
//! batch sizes, memory limits and files. Answers only, no timing.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use corun_datafusion::{Engine, EngineError, EngineOptions, Joins, QueryOutput};
use corun_model::progress::Silent;
use corun_workloads::answers::{Recorded, fingerprint_of_rows, sorted_rows};
use corun_workloads::dataset::{Dataset, TableData, table_folder};
use corun_workloads::oracle::{Database, ssb_answer};
use corun_workloads::ssb::{self, Sizes, Ssb};
use corun_workloads::tpch::{self, Tpch};

/// Stock joins, corun's where it thinks they pay, and corun's wherever they are possible.
const KINDS: [Kind; 3] = [Kind::Stock, Kind::Auto, Kind::Always];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stock,
    Auto,
    Always,
}

impl Kind {
    /// An engine of this kind with default options.
    fn options(self, partitions: usize) -> EngineOptions {
        let setting = |value: &str| vec![("corun.join".to_owned(), value.to_owned())];
        let (joins, settings) = match self {
            Kind::Stock => (Joins::Stock, Vec::new()),
            Kind::Auto => (Joins::Corun, setting("auto")),
            Kind::Always => (Joins::Corun, setting("on")),
        };
        EngineOptions {
            partitions,
            joins,
            settings,
            ..EngineOptions::default()
        }
    }
}

const PARTITIONS: [usize; 4] = [1, 2, 3, 7];

/// No query at these scales may take longer, whatever the memory: a hang is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// TPC-H's Q18 in batches of one row: stock DataFusion 55.2 does not finish it even on 400 orders, its memory growing
/// without end, so there is nothing to compare with.
const NEVER_ENDS: (&str, usize) = ("q18", 1);

type Queries = &'static [(&'static str, &'static str)];
type OrderBy = fn(&str) -> &'static [&'static str];

/// A workload with its data and the right answers.
struct Checked {
    data: Dataset,
    queries: Queries,
    order_by: OrderBy,
    answers: BTreeMap<&'static str, Recorded>,
}

impl Checked {
    /// SSB at SF 0.01 with its recorded answers.
    fn ssb() -> Checked {
        let recorded = |name: &'static str| ssb::recorded(0.01, name).expect("a recorded answer");
        Checked {
            data: Ssb::new(0.01).unwrap().dataset(2, 2, &Silent),
            queries: ssb::QUERIES,
            order_by: ssb::order_by,
            answers: ssb::QUERIES
                .iter()
                .map(|(name, _)| (*name, recorded(name)))
                .collect(),
        }
    }

    /// TPC-H at SF 0.01 with its recorded answers.
    fn tpch() -> Checked {
        let recorded = |name: &'static str| tpch::recorded(0.01, name).expect("a recorded answer");
        Checked {
            data: Tpch::new(0.01).unwrap().dataset(2, 2, &Silent),
            queries: tpch::QUERIES,
            order_by: tpch::order_by,
            answers: tpch::QUERIES
                .iter()
                .map(|(name, _)| (*name, recorded(name)))
                .collect(),
        }
    }

    /// Other data with the answers stock DataFusion gives in one partition.
    async fn against_stock(data: Dataset, queries: Queries, order_by: OrderBy) -> Checked {
        let engine = engine(&data, &Kind::Stock.options(1));
        let mut answers = BTreeMap::new();
        for (name, sql) in queries {
            answers.insert(*name, recorded(&run(&engine, sql).await.unwrap(), order_by(name)));
        }
        Checked {
            data,
            queries,
            order_by,
            answers,
        }
    }

    /// Runs every query under `options` and compares; returns how many gave up for lack of memory.
    async fn check(&self, options: &EngineOptions) -> usize {
        self.check_on(&engine(&self.data, options), options).await
    }

    async fn check_on(&self, engine: &Engine, options: &EngineOptions) -> usize {
        let mut refused = 0;
        for (name, sql) in self.queries {
            if (*name, options.batch_size) == NEVER_ENDS {
                continue;
            }
            match run(engine, sql).await {
                Ok(output) => {
                    let answer = recorded(&output, (self.order_by)(name));
                    assert_eq!(answer, self.answers[name], "{name} with {options:?}");
                }
                Err(error) => {
                    let limited = options.memory_limit_bytes.is_some();
                    assert!(
                        limited && error.resources_exhausted,
                        "{name} with {options:?}: {error}"
                    );
                    refused += 1;
                }
            }
        }
        refused
    }
}

fn engine(data: &Dataset, options: &EngineOptions) -> Engine {
    let engine = Engine::new(options).unwrap();
    lab_engine::tables::register(&data.repartitioned(options.partitions), &engine).unwrap();
    engine
}

async fn run(engine: &Engine, sql: &str) -> Result<QueryOutput, EngineError> {
    tokio::time::timeout(PATIENCE, engine.query(sql))
        .await
        .unwrap_or_else(|_| panic!("hangs: {sql}"))
}

fn recorded(output: &QueryOutput, order_by: &[&str]) -> Recorded {
    Recorded::of(&output.schema, &output.batches, order_by)
}

/// Every combination of partitions, the given batch sizes, and all kinds of joins.
fn combinations(batch_sizes: &[usize]) -> Vec<EngineOptions> {
    let mut all = Vec::new();
    for partitions in PARTITIONS {
        for &batch_size in batch_sizes {
            for kind in KINDS {
                all.push(EngineOptions {
                    batch_size,
                    ..kind.options(partitions)
                });
            }
        }
    }
    all
}

async fn check_all(checked: &Checked, batch_sizes: &[usize]) {
    for options in combinations(batch_sizes) {
        checked.check(&options).await;
    }
}

/// An SSB of few orders beside dimensions large enough that no query is empty, Q3.4 by this seed.
fn tiny_ssb() -> Ssb {
    let sizes = Sizes {
        lineorder: 6_000,
        customer: 300,
        supplier: 200,
        part: 2_000,
    };
    Ssb::with_sizes(sizes).with_seed(TINY_SEED)
}

const TINY_SEED: u64 = 1;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ssb_answers_are_the_oracles() {
    let data = tiny_ssb().dataset(2, 2, &Silent);
    let database = Database::read(&data);
    for kind in KINDS {
        let engine = engine(&data, &kind.options(2));
        for (name, sql) in ssb::QUERIES {
            let output = run(&engine, sql).await.unwrap();
            let expected = ssb_answer(&database, name).unwrap();
            assert_eq!(sorted_rows(&output.batches), expected, "{name} with {kind:?}");
        }
    }
}

/// The recorded answers come from the engine; at the recorded scale too they are what the loops say.
#[test]
fn recorded_ssb_answers_are_the_oracles() {
    let database = Database::read(&Ssb::new(0.01).unwrap().dataset(1, 2, &Silent));
    for (name, _) in ssb::QUERIES {
        let rows = ssb_answer(&database, name).unwrap();
        let recorded = ssb::recorded(0.01, name).unwrap();
        assert_eq!(fingerprint_of_rows(&rows), recorded.answer, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ssb_over_partitions_and_batch_sizes() {
    check_all(&Checked::ssb(), &[7, 8192]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_over_partitions_and_batch_sizes() {
    // Batches of seven rows at this scale would be too much for stock DataFusion: see `few_orders`.
    check_all(&Checked::tpch(), &[8192]).await;
}

/// TPC-H at SF 0.002 with the first 400 orders and their lines: small batches cost stock DataFusion time and memory out
/// of proportion (Q18 at SF 0.01 in batches of seven rows takes more than 20 GB).
fn few_orders() -> Dataset {
    let mut data = Tpch::new(0.002).unwrap().dataset(1, 2, &Silent);
    let orders = truncated(data.table("orders").unwrap(), "o_orderkey", i64::MAX, 400);
    let last = orders
        .batches()
        .map(|batch| keys(batch, "o_orderkey").last().copied().unwrap())
        .max();
    let lines = truncated(
        data.table("lineitem").unwrap(),
        "l_orderkey",
        last.unwrap(),
        usize::MAX,
    );
    for table in &mut data.tables {
        match table.name {
            "orders" => *table = orders.clone(),
            "lineitem" => *table = lines.clone(),
            _ => {}
        }
    }
    data
}

fn keys<'a>(batch: &'a RecordBatch, column: &str) -> &'a [i64] {
    batch[column].as_primitive::<Int64Type>().values()
}

/// The first rows of a table sorted by `key`: those with keys up to `last`, at most `rows` of them.
fn truncated(table: &TableData, key: &str, last: i64, mut rows: usize) -> TableData {
    let mut kept = Vec::new();
    for batch in table.batches() {
        let count = keys(batch, key)
            .iter()
            .take_while(|key| **key <= last)
            .count()
            .min(rows);
        rows -= count;
        if count > 0 {
            kept.push(batch.slice(0, count));
        }
    }
    TableData::new(table.name, table.schema.clone(), kept, 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_one_row_and_of_seven() {
    let data = tiny_ssb().dataset(1, 2, &Silent);
    let ssb = Checked::against_stock(data, ssb::QUERIES, ssb::order_by).await;
    check_all(&ssb, &[1]).await;
    let tpch = Checked::against_stock(few_orders(), tpch::QUERIES, tpch::order_by).await;
    check_all(&tpch, &[1, 7]).await;
}

/// Little memory: the right answer or the resources error, never a wrong answer, an abort or a hang.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tight_memory() {
    for checked in [Checked::ssb(), Checked::tpch()] {
        for kind in KINDS {
            let mut refused_by_limit = Vec::new();
            for limit in [16 << 10, 256 << 10, 1 << 20, 4 << 20, 1 << 30] {
                for partitions in [1, 3] {
                    let memory_limit_bytes = Some(limit);
                    let options = EngineOptions {
                        memory_limit_bytes,
                        ..kind.options(partitions)
                    };
                    refused_by_limit.push(checked.check(&options).await);
                }
            }
            // The limits must matter: some queries give up at the smallest, none at the largest.
            let (first, last) = (refused_by_limit[0], refused_by_limit[refused_by_limit.len() - 1]);
            assert!(first > 0 && last == 0, "{kind:?}: {refused_by_limit:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parquet_files() {
    let folder = tempfile::tempdir().unwrap();
    let (ssb, tpch) = (Checked::ssb(), Checked::tpch());
    let (ssb_folder, tpch_folder) = (folder.path().join("ssb"), folder.path().join("tpch"));
    Ssb::new(0.01)
        .unwrap()
        .write_parquet(&ssb_folder, 3, 2, &Silent)
        .unwrap();
    Tpch::new(0.01)
        .unwrap()
        .write_parquet(&tpch_folder, 3, 2, &Silent)
        .unwrap();
    for (checked, folder) in [(ssb, ssb_folder), (tpch, tpch_folder)] {
        for kind in KINDS {
            let options = kind.options(2);
            let engine = Engine::new(&options).unwrap();
            for table in &checked.data.tables {
                engine
                    .register_path(table.name, &table_folder(&folder, table.name))
                    .await
                    .unwrap();
            }
            checked.check_on(&engine, &options).await;
        }
    }
}

/// Queries of all kinds of joins at once on shared tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_queries() {
    let checked = Checked::ssb();
    let mut running = Vec::new();
    for kind in KINDS {
        let engine = engine(&checked.data, &kind.options(2));
        for (name, sql) in ssb::QUERIES {
            let engine = engine.clone();
            running.push((name, kind, tokio::spawn(async move { run(&engine, sql).await })));
        }
    }
    for (name, kind, query) in running {
        let output = query.await.unwrap().unwrap();
        assert_eq!(
            recorded(&output, ssb::order_by(name)),
            checked.answers[name],
            "{name} with {kind:?}"
        );
    }
}

/// Answers are compared as text, which is safe only while floats are no sums of floats, whose last bits depend on the
/// order: Q14 and Q17 divide exact decimal sums by a literal, and no other query returns floats.
#[tokio::test]
async fn floats_come_from_exact_sums_only() {
    for checked in [Checked::ssb(), Checked::tpch()] {
        let engine = engine(&checked.data, &EngineOptions::default());
        for (name, sql) in checked.queries {
            let output = run(&engine, sql).await.unwrap();
            let floats = output
                .schema
                .fields()
                .iter()
                .filter(|field| field.data_type().is_floating());
            assert!(floats.count() == 0 || ["q14", "q17"].contains(name), "{name}");
        }
    }
}

#[tokio::test]
async fn plq_grows_with_k() {
    let checked = Checked::ssb();
    let engine = engine(&checked.data, &EngineOptions::default());
    let mut last = 0;
    for k in [1, 2, 3, 10, ssb::PLQ_TERMS_MAX] {
        let output = run(&engine, &ssb::plq(k)).await.unwrap();
        let sum: i64 = sorted_rows(&output.batches)[0].parse().unwrap();
        assert!(sum > last, "k = {k}");
        last = sum;
    }
    let all = run(&engine, "select sum(lo_revenue) from lineorder")
        .await
        .unwrap();
    assert_eq!(sorted_rows(&all.batches), [last.to_string()]);
}

/// Both names of the date table, with and without quotes.
#[tokio::test]
async fn the_date_table_has_two_names() {
    let checked = Checked::ssb();
    let engine = engine(&checked.data, &EngineOptions::default());
    for table in ["date", "\"date\"", "dates"] {
        let output = run(&engine, &format!("select count(*) from {table}"))
            .await
            .unwrap();
        assert_eq!(sorted_rows(&output.batches), ["2556"], "{table}");
    }
}

/// The kinds differ in what runs, so that the tests above compare what they say.
#[tokio::test]
async fn kinds_plan_different_joins() {
    let checked = Checked::ssb();
    for (kind, corun, stock) in [(Kind::Stock, false, true), (Kind::Always, true, false)] {
        let engine = engine(&checked.data, &kind.options(2));
        for (name, sql) in ssb::QUERIES {
            let plan = engine.explain(sql, false).await.unwrap();
            assert_eq!(
                plan.contains("CorunJoinExec"),
                corun,
                "{name} with {kind:?}: {plan}"
            );
            assert_eq!(
                plan.contains(" HashJoinExec"),
                stock,
                "{name} with {kind:?}: {plan}"
            );
        }
    }
}
