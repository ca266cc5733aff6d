//! [`fill`]: the Parquet tables of a workload as PostgreSQL's, with the keys and indexes a user would give them, and statistics.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use corun_datafusion::{Engine, EngineOptions, Joins};
use corun_model::progress::Progress;
use futures::StreamExt;
use lab_core::error::BenchError;
use lab_engine::query::runtime;
use lab_engine::suites::workload::Offered;

use super::PATIENCE;
use super::case::Workload;
use crate::fixture::address::Address;
use crate::fixture::client::Client;
use crate::fixture::joined;
use crate::fixture::load::settled;
use crate::heavy_queue::data::{self, create, lines};

/// Connections that load at once.
const LOADERS: usize = 2;
/// Batches between the reader and the loaders.
const BATCHES_MAX: usize = 8;

/// Keys and indexes of TPC-H's tables: primary keys, foreign keys, and the dates that queries choose by.
const TPCH: &[&str] = &[
    "alter table region add primary key (r_regionkey)",
    "alter table nation add primary key (n_nationkey)",
    "alter table part add primary key (p_partkey)",
    "alter table supplier add primary key (s_suppkey)",
    "alter table customer add primary key (c_custkey)",
    "alter table partsupp add primary key (ps_partkey, ps_suppkey)",
    "alter table orders add primary key (o_orderkey)",
    "alter table lineitem add primary key (l_orderkey, l_linenumber)",
    "create index on supplier (s_nationkey)",
    "create index on customer (c_nationkey)",
    "create index on partsupp (ps_suppkey)",
    "create index on orders (o_custkey)",
    "create index on orders (o_orderdate)",
    "create index on lineitem (l_partkey, l_suppkey)",
    "create index on lineitem (l_suppkey)",
    "create index on lineitem (l_shipdate)",
];

/// Makes a workload's tables in a database and fills them.
pub fn fill(
    address: &Address,
    workload: Workload,
    offered: &Offered,
    progress: &dyn Progress,
) -> Result<(), BenchError> {
    let runtime = runtime(1)?;
    let engine = Engine::new(&EngineOptions {
        partitions: 1,
        joins: Joins::Stock,
        ..EngineOptions::default()
    })?;
    let mut client = Client::connect(address, PATIENCE)?;
    let what = format!("serve: filling PostgreSQL's {}", workload.name());
    progress.begin(&what, offered.tables.len() as u64 + 1);
    for (table, path) in &offered.tables {
        runtime.block_on(engine.register_path(table, path))?;
        let schema = runtime.block_on(engine.table_schema(table))?;
        client.run(&create(table, &schema))?;
        let (_, mut rows) = runtime.block_on(engine.stream(&format!("select * from \"{table}\"")))?;
        copy(address, table, || {
            runtime.block_on(rows.next()).map(|batch| Ok(batch?))
        })?;
        progress.advance(1);
    }
    let keys = match workload {
        Workload::Tpch => TPCH,
        Workload::Ssb => &data::AFTER,
        Workload::Tpcds => &[],
    };
    client.run_all(keys)?;
    client.run_all(settled(offered.tables.iter().map(|(table, _)| table)))?;
    progress.end();
    Ok(())
}

/// Copies batches into a table, as long as there are some.
fn copy(
    address: &Address,
    table: &str,
    mut next: impl FnMut() -> Option<Result<RecordBatch, BenchError>>,
) -> Result<(), BenchError> {
    let (sender, receiver) = sync_channel(BATCHES_MAX);
    let receiver = Arc::new(Mutex::new(receiver));
    std::thread::scope(|scope| {
        let loader = |_| {
            let receiver = Arc::clone(&receiver);
            scope.spawn(move || load(address, table, &receiver))
        };
        let loaders: Vec<_> = (0..LOADERS).map(loader).collect();
        // So that nothing is sent once all loaders have failed.
        drop(receiver);
        let sent = send(sender, &mut next);
        // A loader that failed is the reason why nothing could be sent.
        loaders.into_iter().try_for_each(joined).and(sent)
    })
}

fn send(
    sender: SyncSender<RecordBatch>,
    next: &mut impl FnMut() -> Option<Result<RecordBatch, BenchError>>,
) -> Result<(), BenchError> {
    while let Some(batch) = next() {
        if sender.send(batch?).is_err() {
            break;
        }
    }
    Ok(())
}

fn load(address: &Address, table: &str, batches: &Mutex<Receiver<RecordBatch>>) -> Result<(), BenchError> {
    let mut client = Client::connect(address, PATIENCE)?;
    loop {
        let batch = match batches.lock() {
            Ok(batches) => batches.recv(),
            Err(_) => return Err(BenchError::Data("a loader panicked".to_owned())),
        };
        match batch {
            Ok(batch) => client.copy_in(&format!("copy {table} from stdin"), &lines(&batch))?,
            // All are sent.
            Err(_) => return Ok(()),
        }
    }
}
