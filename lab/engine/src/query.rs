//! SQL queries as sides of a comparison, and the runtimes they run on.

use corun_datafusion::{Engine, QueryOutput};
use lab_core::BenchError;
use lab_core::run::Side;
use tokio::runtime::Runtime;

/// A side that runs one SQL query on a runtime whose threads do all the work.
pub fn side<'a>(
    name: &str,
    runtime: &'a Runtime,
    engine: &'a Engine,
    sql: &'a str,
    answer: impl Fn(&QueryOutput) -> String + 'a,
) -> Side<'a> {
    Side::timed(name, move || run_query(runtime, engine, sql), answer)
}

/// A runtime with exactly `threads` workers.
///
/// # Errors
/// When the operating system refuses threads.
pub fn runtime(threads: usize) -> Result<Runtime, BenchError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        .enable_all()
        .build()
        .map_err(|source| BenchError::io("could not start the worker threads", source))
}

/// Runs a query on the runtime's workers. The query is spawned: `block_on` alone would let the calling thread work too,
/// and one thread would be two.
///
/// # Errors
/// Those of the engine; a panic inside the query becomes an error as well.
pub fn run_query(runtime: &Runtime, engine: &Engine, sql: &str) -> Result<QueryOutput, BenchError> {
    let engine = engine.clone();
    let sql = sql.to_string();
    let task = runtime.spawn(async move { engine.query(&sql).await });
    match runtime.block_on(task) {
        Ok(output) => Ok(output?),
        Err(panic) => Err(BenchError::Data(format!("the query did not finish: {panic}"))),
    }
}
