//! A workload with the right answers, and engines of each kind that run it.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use corun_datafusion::{Engine, EngineError, EngineOptions, Joins, QueryOutput};
use corun_model::progress::Silent;
use corun_workloads::answers::Recorded;
use corun_workloads::dataset::{Dataset, TableData};
use corun_workloads::ssb::{self, Sizes, Ssb};
use corun_workloads::tpch::{self, Tpch};

/// Stock joins, corun's where it thinks they pay, and corun's wherever they are possible.
pub const KINDS: [Kind; 3] = [Kind::Stock, Kind::Auto, Kind::Always];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Stock,
    Auto,
    Always,
}

impl Kind {
    /// An engine of this kind with default options.
    pub fn options(self, partitions: usize) -> EngineOptions {
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
            share_work: false,
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
pub struct Checked {
    pub data: Dataset,
    pub queries: Queries,
    order_by: OrderBy,
    pub answers: BTreeMap<&'static str, Recorded>,
}

impl Checked {
    /// SSB at SF 0.01 with its recorded answers.
    pub fn ssb() -> Checked {
        let data = Ssb::new(0.01).unwrap().dataset(2, 2, &Silent);
        Checked::against_recorded(data, ssb::QUERIES, ssb::order_by, ssb::recorded)
    }

    /// TPC-H at SF 0.01 with its recorded answers.
    pub fn tpch() -> Checked {
        let data = Tpch::new(0.01).unwrap().dataset(2, 2, &Silent);
        Checked::against_recorded(data, tpch::QUERIES, tpch::order_by, tpch::recorded)
    }

    fn against_recorded(
        data: Dataset,
        queries: Queries,
        order_by: OrderBy,
        recorded: fn(f64, &str) -> Option<Recorded>,
    ) -> Checked {
        let recorded = |name: &'static str| recorded(0.01, name).expect("a recorded answer");
        Checked {
            data,
            queries,
            order_by,
            answers: queries.iter().map(|(name, _)| (*name, recorded(name))).collect(),
        }
    }

    /// Other data with the answers stock DataFusion gives in one partition.
    pub async fn against_stock(data: Dataset, queries: Queries, order_by: OrderBy) -> Checked {
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
    pub async fn check(&self, options: &EngineOptions) -> usize {
        self.check_on(&engine(&self.data, options), options).await
    }

    pub async fn check_on(&self, engine: &Engine, options: &EngineOptions) -> usize {
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

pub fn engine(data: &Dataset, options: &EngineOptions) -> Engine {
    let engine = Engine::new(options).unwrap();
    lab_engine::tables::register(&data.repartitioned(options.partitions), &engine).unwrap();
    engine
}

pub async fn run(engine: &Engine, sql: &str) -> Result<QueryOutput, EngineError> {
    tokio::time::timeout(PATIENCE, engine.query(sql))
        .await
        .unwrap_or_else(|_| panic!("hangs: {sql}"))
}

pub fn recorded(output: &QueryOutput, order_by: &[&str]) -> Recorded {
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

pub async fn check_all(checked: &Checked, batch_sizes: &[usize]) {
    for options in combinations(batch_sizes) {
        checked.check(&options).await;
    }
}

/// An SSB of few orders beside dimensions large enough that no query is empty, Q3.4 by this seed.
pub fn tiny_ssb() -> Ssb {
    let sizes = Sizes {
        lineorder: 6_000,
        customer: 300,
        supplier: 200,
        part: 2_000,
    };
    Ssb::with_sizes(sizes).with_seed(TINY_SEED)
}

const TINY_SEED: u64 = 1;

/// TPC-H at SF 0.002 with the first 400 orders and their lines: small batches cost stock DataFusion time and memory out
/// of proportion (Q18 at SF 0.01 in batches of seven rows takes more than 20 GB).
pub fn few_orders() -> Dataset {
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
