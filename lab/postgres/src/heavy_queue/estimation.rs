//! The case `estimation`, section 7.4: the sizes that the proxy reads from a plan against those that PostgreSQL really built, and SSB's
//! long queries beside each other.
//!
//! ```text
//!   statistics, explain (analyze) ──▶ corun_pooler::plans ─┬─▶ tables as estimated ──┐
//!                                                   ├─▶ tables as seen ───────┴─▶ error
//!                                                   └─▶ counts it may ask for ──▶ tables as estimated the next time ──▶ error when corrected
//! ```

use corun_model::units::CpuId;
use corun_pooler::plans::{Corrections, HashTable, Statistics, read};

use super::SUITE;
use super::backend::Backend;
use super::beside::measure;
use super::data::Oracle;
use super::keys::{ALONE, Keys};
use super::matrix::{self, Known};
use super::query::{Form, Query};
use super::sizes::Sizes;
use crate::fixture::address::Address;
use crate::fixture::failed;
use corun_workloads::ssb::PLQ_TERMS_MAX;
use lab_core::error::BenchError;
use lab_core::run::Runner;

/// The case.
pub const CASE: &str = "estimation";
/// The paper's largest error over its three queries, in percent.
pub const PAPER_PERCENT: f64 = 11.8;
/// The paper's first group, for which its optimizer preferred index joins.
const INDEX_GROUP: [&str; 4] = ["q1.1", "q2.1", "q3.2", "q4.3"];
/// Its second group, by hash joins.
const HASH_GROUP: [&str; 3] = ["q3.1", "q4.1", "q4.2"];

/// A query and its tables, estimated and seen.
struct Estimated {
    query: String,
    /// Bytes as estimated, as really built, and as estimated by what was counted, of each table.
    tables: Vec<[u64; 3]>,
}

/// How far a table's estimate is off, in percent of what was built.
fn off(estimated: u64, real: u64) -> f64 {
    100.0 * (estimated as f64 / real.max(1) as f64 - 1.0).abs()
}

fn estimated(backend: &mut Backend, query: &Query) -> Result<Estimated, BenchError> {
    backend.prefer(query.form)?;
    let asked = format!(
        "explain (analyze, timing off, format json, verbose, settings) {}",
        query.sql
    );
    let said = backend.client().run(&asked)?;
    let json: String = said.rows.into_iter().flatten().flatten().collect();
    let plan = read(&json).map_err(|error| failed("postgres", format!("{}: {error}", query.name)))?;
    let rows = backend
        .client()
        .run(&Statistics::question(&plan.relations()))?
        .rows;
    let statistics = Statistics::read(&rows).ok_or_else(|| {
        failed(
            "postgres",
            format!("{}: its statistics cannot be read", query.name),
        )
    })?;
    let memory = statistics.memory;
    let mut learnt = Corrections::default();
    learnt.set_tables(&statistics);
    let first = plan.tables(&memory, &learnt);
    for (key, question) in plan.questions() {
        let rows = backend.client().run(&question)?.rows;
        let count = rows.into_iter().flatten().flatten().next();
        if let Some(count) = count.and_then(|count| count.parse().ok()) {
            learnt.learn(key, count);
        }
    }
    let counted = |table: &HashTable| table.built.counted.0;
    let again = plan.tables(&memory, &learnt);
    let tables = first.iter().zip(&again);
    let tables =
        tables.filter_map(|(table, again)| Some([counted(table), table.seen?.peak.0, counted(again)]));
    Ok(Estimated {
        query: query.name.clone(),
        tables: tables.collect(),
    })
}

/// Runs the case on two CPUs that share a last-level cache.
pub fn run(
    server: &Address,
    cpus: [CpuId; 2],
    sizes: &Sizes,
    oracle: &Oracle,
    quick: bool,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let mut backends = Backend::pair(server, cpus)?;
    let group = |names: &[&str], form| {
        let with_form = |query| Query { form, ..query };
        let queries = names
            .iter()
            .filter_map(|name| Query::ssb(name, oracle).map(with_form));
        queries.collect::<Vec<_>>()
    };
    let (index, hash) = (group(&INDEX_GROUP, Form::Index), group(&HASH_GROUP, Form::Hash));
    let plqs = (1..=PLQ_TERMS_MAX).map(|k| Query::plq(k, Form::Hash, oracle));
    let all: Vec<Query> = plqs.chain(hash.iter().cloned()).collect();
    runner
        .progress()
        .begin(&format!("{SUITE} {CASE}: estimated sizes"), all.len() as u64);
    let mut found = Vec::new();
    for query in &all {
        found.push(estimated(&mut backends[0], query)?);
        runner.progress().advance(1);
    }
    runner.progress().end();
    for estimated in &found {
        error_rows(estimated, sizes, runner);
    }
    let queries: Vec<Query> = match quick {
        true => hash
            .into_iter()
            .take(1)
            .chain(index.into_iter().take(1))
            .collect(),
        false => hash.into_iter().chain(index).collect(),
    };
    let known = Known::ask(&mut backends[0], queries)?;
    let measured = measure(
        &mut backends,
        &known.queries,
        (runner.plan().repetitions, runner.plan().order_seed),
        1,
        runner.progress(),
    )?;
    matrix::emit(CASE, &|_| "s7.4", &known, &measured, sizes, runner);
    Ok(())
}

/// Two rows: how far off estimates are, over a query's tables, at first and when corrected.
fn error_rows(estimated: &Estimated, sizes: &Sizes, runner: &mut Runner<'_>) {
    let sum = |which: usize| estimated.tables.iter().map(|table| table[which]).sum::<u64>();
    for (metric, which) in [("error_percent", 0), ("error_corrected_percent", 2)] {
        let errors: Vec<f64> = estimated
            .tables
            .iter()
            .map(|table| off(table[which], table[1]))
            .collect();
        let keys = Keys {
            query: estimated.query.clone(),
            corunner: ALONE.to_owned(),
            ..Keys::new(CASE, "s7.4", sizes.cache)
        };
        if let Some(row) = keys.measured(metric, "percent", &errors, true) {
            let row = row.with("estimated_bytes", sum(which)).with("hash_bytes", sum(1));
            runner.emit_checked(row.with("paper_percent", PAPER_PERCENT));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_count_in_both_directions() {
        assert!((off(112, 100) - 12.0).abs() < 1e-9);
        assert!((off(88, 100) - 12.0).abs() < 1e-9);
        assert_eq!(off(0, 0), 100.0);
    }
}
