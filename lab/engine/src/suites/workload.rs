//! What the suites `ssb` and `tpch` have in common: every query on corun and on DataFusion, interleaved, over the same
//! batches, with peak memory, ratios and the A/A control; at the end the geometric means.
//!
//! Order of calls: a suite fills a [`Workload`] and calls [`run`]. The expected answer is the recorded one at the scales
//! that have one (see `answers_*.txt` beside the queries), elsewhere the answer of stock DataFusion, run once before,
//! which says that the engines agree, not that both are right.

use std::path::Path;

use corun_datafusion::{Engine, EngineOptions, Joins, QueryOutput};

use corun_model::progress::Progress;
use corun_workloads::answers::Recorded;
use corun_workloads::dataset::{Dataset, DatasetError, table_folder};
use lab_core::error::BenchError;
use lab_core::row::{Row, Value};
use lab_core::run::{Comparison, Runner};
use lab_core::suite::{SuiteArgs, all_cores};

use crate::query::{run_query, runtime, side};
use lab_core::stats::{Spread, geometric_mean};

/// The side whose ratios are published.
const CORUN: &str = "corun";
/// Stock DataFusion, the baseline of the A/A control.
const DATAFUSION: &str = "datafusion";

/// Scale factor unless `--scale` says otherwise.
const SCALE_FACTOR: f64 = 1.0;
/// Scale factor of `--quick`: one with recorded answers.
const SCALE_FACTOR_QUICK: f64 = 0.01;

/// Writes a workload's tables as Parquet folders: folder, scale factor, files a table, threads.
type WriteParquet = fn(&Path, f64, usize, usize, &dyn Progress) -> Result<usize, DatasetError>;

/// One workload: how to make its data and what to ask.
pub(super) struct Workload {
    /// Name of the suite.
    pub(super) suite: &'static str,
    /// (name, SQL).
    pub(super) queries: &'static [(&'static str, &'static str)],
    /// Names of the queries whose time is mostly joins, chosen by a rule the suite states.
    pub(super) join_heavy: &'static [&'static str],
    /// Output columns a query is ordered by.
    pub(super) order_by: fn(&str) -> &'static [&'static str],
    /// The recorded answer of a query at a scale factor.
    pub(super) recorded: fn(f64, &str) -> Option<Recorded>,
    /// Generates the tables: scale factor, partitions, threads.
    pub(super) generate: fn(f64, usize, usize, &dyn Progress) -> Result<Dataset, DatasetError>,
    /// Writes the tables as Parquet files.
    pub(super) write: WriteParquet,
}

/// Where an engine reads the tables from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Memory,
    Parquet,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Source::Memory => "memory",
            Source::Parquet => "parquet",
        }
    }
}

/// What one pass over the queries needs.
struct Pass<'a> {
    workload: &'a Workload,
    scale_factor: f64,
    partitions: usize,
    source: Source,
    corun: &'a Engine,
    stock: &'a Engine,
}

impl Pass<'_> {
    /// Name of the case of `query`: `q2.1_sf1_p2`, with `_parquet` at the end when read from files.
    fn case(&self, query: &str) -> String {
        let suffix = if self.source == Source::Parquet {
            "_parquet"
        } else {
            ""
        };
        format!("{query}_sf{}_p{}{suffix}", self.scale_factor, self.partitions)
    }

    fn parameters(&self, query: &str) -> Vec<(String, Value)> {
        vec![
            ("query".to_owned(), Value::from(query)),
            ("scale_factor".to_owned(), Value::from(self.scale_factor)),
            ("partitions".to_owned(), Value::from(self.partitions)),
            ("source".to_owned(), Value::from(self.source.name())),
        ]
    }
}

/// Runs the cases `args` selects: in memory, and with `--full` from Parquet files too.
///
/// # Errors
/// An impossible scale factor, no case selected, or an engine that cannot be set up. Failing queries are failures of the
/// run, not errors.
pub(super) fn run(workload: &Workload, args: &SuiteArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let scale_factor = args.scale.unwrap_or(if args.quick {
        SCALE_FACTOR_QUICK
    } else {
        SCALE_FACTOR
    });
    // Unlike `join`, all cores only unless told otherwise: 22 queries at every thread count would take long.
    let counts = if args.threads.is_empty() {
        vec![all_cores()]
    } else {
        args.thread_counts()
    };
    let data = (workload.generate)(scale_factor, counts[0], all_cores(), runner.progress())?;
    let mut selected = 0;
    for &partitions in &counts {
        let data = data.repartitioned(partitions);
        let corun = engine(Joins::Corun, partitions)?;
        let stock = engine(Joins::Stock, partitions)?;
        crate::tables::register(&data, &corun)?;
        crate::tables::register(&data, &stock)?;
        let source = Source::Memory;
        let (corun, stock) = (&corun, &stock);
        selected += pass(
            Pass {
                workload,
                scale_factor,
                partitions,
                source,
                corun,
                stock,
            },
            args,
            runner,
        )?;
    }
    if args.full {
        let names: Vec<&str> = data.tables.iter().map(|table| table.name).collect();
        drop(data);
        let folder = tempfile::tempdir()
            .map_err(|source| BenchError::io("cannot make a folder for Parquet files", source))?;
        for &partitions in &counts {
            (workload.write)(
                folder.path(),
                scale_factor,
                partitions,
                all_cores(),
                runner.progress(),
            )?;
            let corun = engine(Joins::Corun, partitions)?;
            let stock = engine(Joins::Stock, partitions)?;
            let runtime = runtime(partitions)?;
            for name in &names {
                let path = table_folder(folder.path(), name);
                runtime.block_on(corun.register_path(name, &path))?;
                runtime.block_on(stock.register_path(name, &path))?;
            }
            let source = Source::Parquet;
            let (corun, stock) = (&corun, &stock);
            selected += pass(
                Pass {
                    workload,
                    scale_factor,
                    partitions,
                    source,
                    corun,
                    stock,
                },
                args,
                runner,
            )?;
        }
    }
    if selected == 0 {
        return Err(args.no_such_case(workload.queries.iter().map(|(name, _)| (*name).to_owned())));
    }
    Ok(())
}

fn engine(joins: Joins, partitions: usize) -> Result<Engine, BenchError> {
    Ok(Engine::new(&EngineOptions {
        partitions,
        joins,
        ..EngineOptions::default()
    })?)
}

/// Runs the selected queries of one pass, then emits their geometric means; returns how many were selected.
fn pass(pass: Pass<'_>, args: &SuiteArgs, runner: &mut Runner<'_>) -> Result<usize, BenchError> {
    let runtime = runtime(pass.partitions)?;
    let workload = pass.workload;
    let mut ratios: Vec<(&str, f64)> = Vec::new();
    let mut selected = 0;
    for (query, sql) in workload.queries {
        let case = pass.case(query);
        if !args.selects(&case) {
            continue;
        }
        selected += 1;
        let order_by = (workload.order_by)(query);
        let answer = move |output: &QueryOutput| fingerprint(output, order_by);
        let expected = match (workload.recorded)(pass.scale_factor, query) {
            Some(recorded) => recorded.to_string(),
            None => match reference(&pass, &runtime, sql, order_by) {
                Ok(answer) => answer,
                Err(error) => {
                    runner.fail(format!("{} {case}: no reference answer: {error}", workload.suite));
                    continue;
                }
            },
        };
        let sides = vec![
            side(CORUN, &runtime, pass.corun, sql, answer),
            side(DATAFUSION, &runtime, pass.stock, sql, answer),
        ];
        let ratio = runner.compare(Comparison {
            suite: workload.suite,
            case: &case,
            parameters: pass.parameters(query),
            metric: "ms",
            unit: "ms",
            units_per_second: 1e3,
            subject: CORUN,
            baseline: DATAFUSION,
            expected,
            sides,
        });
        ratios.extend(ratio.map(|ratio| (*query, ratio)));
    }
    emit_means(&pass, args, &ratios, runner);
    Ok(selected)
}

/// Rows `geomean_all` and `geomean_join_heavy`: smallest, geometric mean (as `median`) and largest ratio.
///
/// Only for complete passes: the mean of a selection says nothing about the workload.
fn emit_means(pass: &Pass<'_>, args: &SuiteArgs, ratios: &[(&str, f64)], runner: &mut Runner<'_>) {
    if args.case.is_some() || ratios.len() != pass.workload.queries.len() {
        return;
    }
    let all: Vec<f64> = ratios.iter().map(|(_, ratio)| *ratio).collect();
    let heavy = |query: &str| pass.workload.join_heavy.contains(&query);
    let joins: Vec<f64> = ratios
        .iter()
        .filter(|(query, _)| heavy(query))
        .map(|(_, ratio)| *ratio)
        .collect();
    for (name, values) in [("geomean_all", all), ("geomean_join_heavy", joins)] {
        let (Some(spread), Some(mean)) = (Spread::of(&values), geometric_mean(&values)) else {
            continue;
        };
        let spread = Spread {
            median: mean,
            ..spread
        };
        let row = Row::measured(pass.workload.suite, &pass.case(name), "ratio", "x", spread, true)
            .versus(DATAFUSION)
            .with("engine", CORUN)
            .with_all(&pass.parameters(name))
            .with("median_is", "geometric mean over queries");
        runner.emit(row);
    }
}

/// The answer of stock DataFusion, where none is recorded.
fn reference(
    pass: &Pass<'_>,
    runtime: &tokio::runtime::Runtime,
    sql: &str,
    order_by: &[&str],
) -> Result<String, BenchError> {
    let output = run_query(runtime, pass.stock, sql)?;
    Ok(fingerprint(&output, order_by))
}

fn fingerprint(output: &QueryOutput, order_by: &[&str]) -> String {
    Recorded::of(&output.schema, &output.batches, order_by).to_string()
}
