//! [`Offered`]: a workload's files, queries and answers, for suites that ask servers instead of engines in this process.

use super::engines::engine;
use super::{Workload, fingerprint};
use crate::query::{run_query, runtime};
use corun_datafusion::Joins;
use corun_model::progress::Progress;
use corun_workloads::answers::rows;
use lab_core::error::BenchError;
use lab_core::suite::all_cores;
use std::path::PathBuf;
use tempfile::TempDir;

/// A query with what it must answer.
#[derive(Clone, Debug)]
pub struct Query {
    /// Its name in the workload.
    pub name: String,
    /// Its text.
    pub sql: String,
    /// Its rows as texts, in any order; [`crate::peers::sql::differs`] compares others with them.
    pub expected: Vec<Vec<String>>,
}

/// A workload at a scale factor.
pub struct Offered {
    /// Its tables: a folder of Parquet files each.
    pub folder: PathBuf,
    /// Its tables by name, and their folders.
    pub tables: Vec<(String, PathBuf)>,
    /// Its queries.
    pub queries: Vec<Query>,
    _scratch: Option<TempDir>,
}

/// Makes the files, and answers each query once on stock DataFusion, which must agree with recorded answers where there are some.
pub(in crate::suites) fn offer(
    workload: &Workload,
    scale_factor: f64,
    progress: &dyn Progress,
) -> Result<Offered, BenchError> {
    let threads = all_cores();
    let files = (workload.files)(scale_factor, threads, progress)?;
    let runtime = runtime(threads)?;
    let stock = engine(Joins::Stock, threads, false)?;
    files.register(&runtime, &stock)?;
    let what = format!("{}: reference answers", workload.suite.name());
    progress.begin(&what, workload.queries.len() as u64);
    let mut queries = Vec::new();
    for name in &workload.queries {
        let sql = (workload.sql)(scale_factor, name)?;
        let output = run_query(&runtime, &stock, &sql)?;
        let found = fingerprint(&output, (workload.order_by)(name));
        if let Some(recorded) = (workload.recorded)(scale_factor, name)
            && recorded.to_string() != found
        {
            let suite = workload.suite.name();
            let what = format!("{suite} {name}: DataFusion answers {found}, recorded is {recorded}");
            return Err(BenchError::Data(what));
        }
        queries.push(Query {
            name: name.clone(),
            sql,
            expected: rows(&output.batches),
        });
        progress.advance(1);
    }
    progress.end();
    Ok(Offered {
        tables: files.tables()?,
        folder: files.tables,
        queries,
        _scratch: files.scratch,
    })
}
