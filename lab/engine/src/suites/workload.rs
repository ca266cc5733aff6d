//! What the suites `ssb`, `tpch`, `tpcds` and `h2o` have in common: every query on corun and on DataFusion, interleaved, over the
//! same tables, with peak memory, ratios and the A/A control; from files on other systems, too; at the end the geometric means.
//!
//! Order of calls: a suite fills a [`Workload`] and calls [`run`]. The expected answer is the recorded one at the scales
//! that have one (see `answers_*.txt` beside the queries), elsewhere the answer of stock DataFusion, run once before,
//! which says that the engines agree, not that all are right.

mod arguments;
mod costs;
mod engines;
mod means;
mod offered;
mod pass;
mod planning;
mod scale_out;
pub(super) mod streams;
mod workers;

pub use arguments::WorkloadArgs;
pub(super) use arguments::workload_args;
pub(super) use engines::{Files, scratch_files};
pub(super) use offered::offer;
pub use offered::{Offered, Query};
pub(super) use pass::Source;

use corun_datafusion::QueryOutput;
use corun_model::progress::Progress;
use corun_workloads::answers::{Recorded, rows};
use corun_workloads::dataset::{Dataset, DatasetError};
use lab_core::error::BenchError;
use lab_core::row::Value;
use lab_core::run::{Comparison, Runner, Sample, Side};
use lab_core::suite::{Suite, all_cores};

use crate::peers::sql::{self, System};
use crate::query::{run_query, runtime, side};
use costs::Costs;
use engines::Engines;
use means::{emit_means, is_complete, of_query, recorded_ratios};
use pass::Pass;
use streams::{Dashboard, Streams};

/// The side whose ratios are published.
const CORUN: &str = "corun";
/// Stock DataFusion, the baseline of the A/A control.
const DATAFUSION: &str = "datafusion";
/// Stock DataFusion with sort-merge joins, the baseline where memory is limited: its hash joins need memory for a whole side.
const SORT_MERGE: &str = "datafusion_sort_merge";

/// Scale factor unless `--scale` says otherwise.
const SCALE_FACTOR: f64 = 1.0;
/// Scale factor of `--quick`: one with recorded answers.
const SCALE_FACTOR_QUICK: f64 = 0.01;

/// Makes tables in memory: scale factor, the queries that are to run, partitions, threads. Columns that none of them reads may be missing.
type Generate = fn(f64, &[&str], usize, usize, &dyn Progress) -> Result<Dataset, DatasetError>;

/// One workload: how to make its data and what to ask.
pub(super) struct Workload {
    /// The suite.
    pub(super) suite: Suite,
    /// Names of the queries.
    pub(super) queries: Vec<String>,
    /// The text of a query at a scale factor; asked once the tables are there.
    pub(super) sql: fn(f64, &str) -> Result<String, BenchError>,
    /// Queries with constants that users change; none: the workload has no streams of them.
    pub(super) dashboards: &'static [Dashboard],
    /// Names of the queries whose time is mostly joins, chosen by a rule the suite states; none: there is no mean of them.
    pub(super) join_heavy: &'static [&'static str],
    /// Output columns a query is ordered by.
    pub(super) order_by: fn(&str) -> &'static [&'static str],
    /// The recorded answer of a query at a scale factor.
    pub(super) recorded: fn(f64, &str) -> Option<Recorded>,
    /// Generates the tables in memory, where that is one of the sources.
    pub(super) generate: Option<Generate>,
    /// Other systems that run the queries from files.
    pub(super) peers: &'static [&'static System],
    /// Makes the tables as files: scale factor, files a table.
    pub(super) files: fn(f64, usize, &dyn Progress) -> Result<Files, BenchError>,
}

/// The text of a query that is part of the program.
pub(super) fn text_of(queries: &[(&str, &str)], name: &str) -> Result<String, BenchError> {
    let text = queries.iter().find(|(query, _)| *query == name);
    let text = text.map(|(_, sql)| (*sql).to_owned());
    text.ok_or_else(|| BenchError::Data(format!("there is no query {name}")))
}

/// Runs the cases that `args` selects, from each of `sources`.
///
/// # Errors
/// An impossible scale factor, no case selected, or an engine that cannot be set up. Failing queries are failures of the
/// run, not errors.
pub(super) fn run(
    workload: &Workload,
    sources: &[Source],
    args: &WorkloadArgs,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let scale_factor = args.scale.unwrap_or(match args.common.quick {
        true => SCALE_FACTOR_QUICK,
        false => SCALE_FACTOR,
    });
    // Unlike `join`, all cores only unless told otherwise: 22 queries at every thread count would take long.
    let counts = match args.threads.threads.is_empty() {
        true => vec![all_cores()],
        false => args.threads.counts(),
    };
    if !args.clients.is_empty() {
        return run_streams(workload, scale_factor, &counts, args, runner);
    }
    let kinds = args.kinds(sources);
    let passes = kinds.iter().flat_map(|&(source, memory, workers)| {
        let pass = move |&partitions| Pass {
            workload,
            scale_factor,
            partitions,
            source,
            memory,
            workers,
        };
        counts.iter().map(pass)
    });
    let (selected, others): (Vec<Pass<'_>>, Vec<Pass<'_>>) =
        passes.partition(|pass| pass.cases().any(|case| args.common.selects(&case)));
    if selected.is_empty() {
        let names = others.iter().flat_map(Pass::cases);
        return Err(args.common.no_such_case(workload.suite, names));
    }
    let is_in_memory = |query: &&String| {
        let mut passes = selected.iter().filter(|pass| pass.source == Source::Memory);
        passes.any(|pass| args.common.selects(&pass.case(query)))
    };
    let in_memory: Vec<&str> = workload
        .queries
        .iter()
        .filter(is_in_memory)
        .map(String::as_str)
        .collect();
    let mut data = None;
    let mut costs = Vec::new();
    for pass in selected {
        let engines = match pass.source {
            Source::Memory => {
                let all = match (data.take(), workload.generate) {
                    (Some(data), _) => data,
                    (None, Some(generate)) => generate(
                        scale_factor,
                        &in_memory,
                        counts[0],
                        all_cores(),
                        runner.progress(),
                    )?,
                    (None, None) => continue,
                };
                let engines = Engines::over(&all.repartitioned(pass.partitions), pass.partitions)?;
                data = Some(all);
                engines
            }
            Source::Parquet | Source::ParquetKept => {
                data = None;
                Engines::over_files(&pass, args, runner)?
            }
        };
        let all = run_pass(&pass, &engines, args, runner)?;
        if all && let Some(of_pass) = costs::emit(&pass, &engines, runner)? {
            costs.push((pass.partitions, of_pass));
        }
    }
    for partitions in counts {
        let of_these = costs.iter().filter(|(of, _)| *of == partitions);
        let of_these: Vec<Costs> = of_these.map(|(_, costs)| *costs).collect();
        scale_out::emit(workload, scale_factor, partitions, &of_these, runner);
    }
    Ok(())
}

/// Runs the cases with several clients at once.
fn run_streams(
    workload: &Workload,
    scale_factor: f64,
    counts: &[usize],
    args: &WorkloadArgs,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    if workload.dashboards.is_empty() {
        return Err(BenchError::BadArgument(format!(
            "{} has no queries for several clients; use ssb or tpcds",
            workload.suite.name()
        )));
    }
    let passes = counts.iter().map(|&partitions| Pass {
        workload,
        scale_factor,
        partitions,
        source: Source::Parquet,
        memory: None,
        workers: None,
    });
    let passes: Vec<Pass<'_>> = passes.collect();
    let cases = passes.iter().flat_map(|pass| {
        let of = move |&clients| streams::cases(pass, clients);
        args.clients.iter().flat_map(of)
    });
    let cases: Vec<String> = cases.collect();
    if !cases.iter().any(|case| args.common.selects(case)) {
        return Err(args.common.no_such_case(workload.suite, cases));
    }
    let files = (workload.files)(scale_factor, counts[0], runner.progress())?;
    for pass in &passes {
        let runtime = runtime(pass.partitions)?;
        let streams = Streams {
            pass,
            files: &files,
            runtime: &runtime,
        };
        streams.run(args, runner)?;
    }
    Ok(())
}

/// Runs the selected queries of one pass, then emits their geometric means. Whether all queries were run, and are right.
fn run_pass(
    pass: &Pass<'_>,
    engines: &Engines,
    args: &WorkloadArgs,
    runner: &mut Runner<'_>,
) -> Result<bool, BenchError> {
    let runtime = runtime(pass.partitions)?;
    let workload = pass.workload;
    let mut gains = Vec::new();
    for query in &workload.queries {
        let case = pass.case(query);
        if !args.common.selects(&case) {
            gains.extend(of_query(query, recorded_ratios(&args.common, &case)));
            continue;
        }
        let sql = (workload.sql)(pass.scale_factor, query)?;
        let order_by = (workload.order_by)(query);
        let answer = move |output: &QueryOutput| fingerprint(output, order_by);
        let reference = match run_query(
            &runtime,
            engines.reference.as_ref().unwrap_or(&engines.stock),
            &sql,
        ) {
            Ok(output) => output,
            Err(error) => {
                let suite = workload.suite.name();
                runner.fail(format!("{suite} {case}: no reference answer: {error}"));
                continue;
            }
        };
        let expected = match (workload.recorded)(pass.scale_factor, query) {
            Some(recorded) => recorded.to_string(),
            None => answer(&reference),
        };
        let mut parameters = pass.parameters(query);
        if pass.source == Source::ParquetKept {
            planning::emit_first(query, &sql, engines, pass, &runtime, runner)?;
        }
        let stock = side(DATAFUSION, &runtime, &engines.stock, &sql, answer);
        let mut sides = vec![
            side(CORUN, &runtime, &engines.corun, &sql, answer),
            match pass.memory {
                None => stock,
                // It may have too little.
                Some(_) => stock.optional(),
            },
        ];
        let sort_merge = engines.sort_merge.as_ref();
        sides.extend(sort_merge.map(|engine| side(SORT_MERGE, &runtime, engine, &sql, answer).optional()));
        for peer in &engines.peers {
            let system = peer.borrow().system();
            let version = Value::from(peer.borrow().version());
            parameters.push((system.version_parameter.to_owned(), version));
            let (reference, expected, sql) = (rows(&reference.batches), expected.clone(), sql.clone());
            sides.push(
                Side::new(system.name, move || {
                    let answer = peer.borrow_mut().run(&sql)?;
                    Ok(Sample {
                        elapsed: answer.elapsed,
                        answer: match sql::differs(&reference, &answer.rows) {
                            None => expected.clone(),
                            Some(difference) => difference,
                        },
                        peak_bytes: None,
                    })
                })
                .optional(),
            );
        }
        let ratios = runner.compare(Comparison {
            suite: workload.suite.name(),
            case: &case,
            parameters: parameters.clone(),
            metric: "ms",
            unit: "ms",
            units_per_second: 1e3,
            subject: CORUN,
            baseline: pass.baseline(),
            expected,
            sides,
        });
        gains.extend(of_query(query, ratios));
        if pass.memory.is_none() && pass.workers.is_none() {
            let suite = workload.suite.name();
            planning::emit(suite, &case, &sql, engines, &parameters, &runtime, runner)?;
        }
        runner.cases_are_finished();
    }
    emit_means(pass, &gains, runner);
    Ok(is_complete(pass, &gains, DATAFUSION))
}

fn fingerprint(output: &QueryOutput, order_by: &[&str]) -> String {
    Recorded::of(&output.schema, &output.batches, order_by).to_string()
}
