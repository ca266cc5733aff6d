//! [`sweep`]: DBmbench's queries on the embedded engine, at growing concurrency: what the server's sweep is to PostgreSQL.
//!
//! One engine has both tables in memory as columns, with an index on T2's key; each client is a thread that asks one query after the other
//! and checks every answer. A query runs on one partition, so that concurrency alone adds threads. The queries only select: the engine's
//! tables take no `insert`.
//!
//! Not here: its plans, which are not the paper's: its operators are DataFusion's and corun's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arrow::array::{Array, ArrayRef, Float64Array, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use corun_datafusion::{Engine, EngineOptions};

use super::dbmbench::{Query, Summary, Tables};
use super::observe::Resources;
use super::rows::fact;
use super::sweep::{Level, Turn, Watch, emit_levels};
use super::workload::same;
use crate::fixture::joined;
use corun_model::progress::Progress;
use lab_core::error::BenchError;
use lab_core::row::Row;

/// How it is swept over.
pub struct Embedded<'s> {
    /// Which queries.
    pub queries: &'s [Query],
    /// Clients at once, growing.
    pub concurrency: &'s [usize],
    /// Turns at each.
    pub repetitions: usize,
    /// The paper's numbers of queries.
    pub paper: bool,
    /// `on`, `off` or `none`.
    pub smt: &'static str,
}

/// Fills an engine and sweeps over its clients.
///
/// # Errors
/// When the engine refuses, an answer is wrong, or somebody has asked to stop; the rows of the queries before are out.
pub fn sweep(
    how: &Embedded<'_>,
    tables: Tables,
    stop: &AtomicBool,
    progress: &dyn Progress,
    emit: &mut dyn FnMut(Row),
) -> Result<(), BenchError> {
    progress.begin("characterize: filling the embedded engine", 0);
    let engine = filled(tables);
    progress.end();
    let engine = engine?;
    let summary = tables.summary();
    emit(fact(
        "embedded engine",
        "T1 and T2 in memory, a partition a query, an index on t2.a1",
    ));
    for query in how.queries {
        progress.begin(
            &format!("characterize: embedded {} at growing concurrency", query.name()),
            (how.repetitions * how.concurrency.len()) as u64,
        );
        let mut levels = vec![Level::default(); how.concurrency.len()];
        let ended = rounds(&engine, *query, how, &summary, &mut levels, stop, progress);
        progress.end();
        let name = format!("embedded_{}", query.name());
        let right = Some(!matches!(ended, Err(BenchError::Data(_))));
        emit_levels(&name, how.smt, how.concurrency, &levels, right, emit);
        ended?;
    }
    Ok(())
}

fn filled(tables: Tables) -> Result<Engine, BenchError> {
    let engine = Engine::new(&EngineOptions {
        partitions: 1,
        share_work: false,
        ..EngineOptions::default()
    })?;
    let columns = |names: &[&str]| {
        let fields: Vec<Field> = names
            .iter()
            .map(|name| Field::new(*name, DataType::Int32, false))
            .collect();
        Arc::new(Schema::new(fields))
    };
    let batch = |schema: &Arc<Schema>, columns: Vec<Vec<i32>>| {
        let columns: Vec<ArrayRef> = columns
            .into_iter()
            .map(|column| Arc::new(Int32Array::from(column)) as ArrayRef)
            .collect();
        RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| BenchError::Data(error.to_string()))
    };
    let of_t1 = columns(&["a1", "a2", "a3"]);
    let part = |part| {
        let rows: Vec<_> = tables.part(part).collect();
        let of = |value: fn(&super::dbmbench::T1Row) -> i32| rows.iter().map(value).collect();
        batch(&of_t1, vec![of(|row| row.a1), of(|row| row.a2), of(|row| row.a3)])
    };
    let parts: Result<Vec<RecordBatch>, BenchError> = (0..tables.parts()).map(part).collect();
    engine.register_batches("t1", Arc::clone(&of_t1), vec![parts?])?;
    let of_t2 = columns(&["a1"]);
    let keys = batch(&of_t2, vec![tables.keys()])?;
    engine.register_batches("t2", of_t2, vec![vec![keys]])?;
    runtime()?.block_on(engine.create_index("t2", "a1"))?;
    Ok(engine)
}

fn rounds(
    engine: &Engine,
    query: Query,
    how: &Embedded<'_>,
    summary: &Summary,
    levels: &mut [Level],
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<(), BenchError> {
    let mut resources = Resources::new(std::process::id());
    let times = query.times(how.paper);
    // Warm-up.
    turn(engine, query, summary, 1, times.min(10), stop)?;
    for _ in 0..how.repetitions {
        for (level, &clients) in levels.iter_mut().zip(how.concurrency) {
            resources.begin()?;
            let turn = turn(engine, query, summary, clients, times, stop)?;
            level.seen.extend(resources.end(&turn)?);
            level.turns.push(turn);
            progress.advance(1);
        }
    }
    Ok(())
}

fn runtime() -> Result<tokio::runtime::Runtime, BenchError> {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|source| BenchError::io("could not start a client", source))
}

/// So many clients with so many queries each.
fn turn(
    engine: &Engine,
    query: Query,
    summary: &Summary,
    clients: usize,
    times: usize,
    stop: &AtomicBool,
) -> Result<Turn, BenchError> {
    let began = Instant::now();
    let all: Result<Vec<Vec<f64>>, BenchError> = std::thread::scope(|scope| {
        let client = |number: usize| scope.spawn(move || ask(engine, query, summary, number, times, stop));
        let clients: Vec<_> = (0..clients).map(client).collect();
        clients.into_iter().map(joined).collect()
    });
    let times_ms: Vec<f64> = all?.into_iter().flatten().collect();
    Ok(Turn {
        queries: times_ms.len() as u64,
        rate: times_ms.len() as f64 / began.elapsed().as_secs_f64(),
        times_ms,
    })
}

/// One client: milliseconds of each of its queries.
fn ask(
    engine: &Engine,
    query: Query,
    summary: &Summary,
    client: usize,
    times: usize,
    stop: &AtomicBool,
) -> Result<Vec<f64>, BenchError> {
    let runtime = runtime()?;
    let bounds = query.bounds();
    let mut took = Vec::with_capacity(times);
    for number in 0..times {
        // Relaxed: the flag says all there is to say.
        if stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        // Other rows each time where there are several to draw from, and no two clients in step.
        let (low, high) = bounds[(client * 37 + number * 101) % bounds.len()];
        let sql = query.select_between((low, high));
        let began = Instant::now();
        let output = runtime.block_on(engine.query(&sql))?;
        took.push(began.elapsed().as_secs_f64() * 1e3);
        let wanted = summary.answer(query, low, high);
        let found: Option<Vec<f64>> = output
            .batches
            .iter()
            .map(numbers)
            .collect::<Option<Vec<_>>>()
            .map(|all| all.concat());
        if found.as_ref().is_none_or(|found| !same(found, &wanted)) {
            return Err(BenchError::Data(format!(
                "wrong answer: {sql} gave {found:?} on the embedded engine, not {wanted:?}"
            )));
        }
    }
    Ok(took)
}

/// The first column as numbers; `None` if it is of another type, or has a null.
fn numbers(batch: &RecordBatch) -> Option<Vec<f64>> {
    let column = batch.column(0);
    if column.null_count() > 0 {
        return None;
    }
    let any = column.as_any();
    match any.downcast_ref::<Float64Array>() {
        Some(floats) => Some(floats.values().to_vec()),
        None => {
            let integers = any.downcast_ref::<Int32Array>()?;
            Some(integers.values().iter().map(|value| f64::from(*value)).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::progress::Silent;

    #[test]
    fn all_queries_answer_as_the_rows_say_at_any_concurrency() {
        let how = Embedded {
            queries: &Query::ALL,
            concurrency: &[1, 3],
            repetitions: 1,
            paper: false,
            smt: "none",
        };
        let mut rows = Vec::new();
        let never = AtomicBool::new(false);
        sweep(&how, Tables::new(20_000), &never, &Silent, &mut |row| {
            rows.push(row)
        })
        .expect("right answers");
        for query in Query::ALL {
            let name = format!("embedded_{}", query.name());
            let of = |metric: &str| {
                let is = |row: &&Row| row.metric == metric && row.text("workload") == name;
                rows.iter().filter(is).count()
            };
            assert_eq!((of("ms_per_query"), of("queries_per_s"), of("ratio")), (2, 2, 2));
            assert_eq!(of("cpu_us_per_query"), 2);
        }
        let asked = AtomicBool::new(true);
        let ended = sweep(&how, Tables::new(20_000), &asked, &Silent, &mut |_| {});
        assert!(matches!(ended, Err(BenchError::Interrupted)));
    }
}
