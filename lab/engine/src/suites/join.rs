//! The `join` suite: one join per case, run by corun, by DataFusion as it comes, by DataFusion made to hash, and by DuckDB.
//!
//! Every engine joins the same rows, already in its memory, with the same number of threads, building on `b`; each answer
//! is compared with the generator's. corun does so twice, with the processor's instructions and with the portable ones. DataFusion's perfect-hash `ArrayMap` replaces its hash table for dense keys, so
//! `datafusion_forced_hash` forbids it: the difference of the two says how much is the array's. `plan_floor` cases take the
//! join out of the plan, so that what remains is the floor in SQL; `probe_only` cases take the
//! plan away: corun's table on slices, beside the machine's floor of random lines. `indexed` cases put an index on `b`, the
//! larger side, and join through it, or hash all the same.

use std::cell::RefCell;
use std::time::Duration;

use arrow::array::{Array, Int64Array};
use clap::Args;
use corun_cli::arguments::positive;
use corun_datafusion::{Engine, EngineOptions, Joins, QueryOutput};
use corun_exec::InstructionSet;
use corun_model::units::Bytes;
use corun_topology::measure::FloorBuffer;

use crate::join::case::{Case, Entry, Extent, Measure, Tables, matrix, select};
use crate::join::data::{JoinData, sql};
use crate::join::probe::{Found, TableAlone};
use crate::peers::sql::{DUCKDB, SqlPeer};
use lab_core::error::BenchError;
use lab_core::row::{Row, Value};
use lab_core::run::{Comparison, Runner, Sample, Side};
use lab_core::suite::{Common, Rounds, Suite, Threads};

use crate::query::{runtime, side};
use lab_core::stats::Spread;

/// The side whose ratios are published.
pub const CORUN: &str = "corun";
/// DataFusion as it comes; the baseline of the A/A control.
pub const DATAFUSION: &str = "datafusion";
/// DataFusion without its perfect-hash array.
pub const FORCED_HASH: &str = "datafusion_forced_hash";
/// corun through an index, whatever it is estimated to cost.
pub const CORUN_INDEX: &str = "corun_index";
/// corun without the index.
pub const CORUN_HASH: &str = "corun_hash";
/// The join's plan without its join.
pub const PLAN_FLOOR: &str = "plan_floor";
/// corun, its keys looked up with instructions that every processor has.
pub const CORUN_PORTABLE: &str = "corun_portable";
/// The table without a plan around it.
const PROBE_ONLY: &str = "probe_only";
/// The same with narrower instructions.
const NARROWER_INSTRUCTIONS: [(&str, InstructionSet); 2] = [
    ("probe_avx2", InstructionSet::Avx2),
    ("probe_portable", InstructionSet::Portable),
];
/// Per-side metric.
pub const METRIC: &str = "ns_per_probe_row";
/// Seed of every data set, so that runs compare.
const SEED: u64 = 0x636f_7275_6e00;

/// Settings that keep DataFusion from its perfect-hash `ArrayMap`: no key range is below 0 rows, no density above 1.1
/// without duplicates (and duplicated keys of this suite are sparse).
const FORCE_HASH: [(&str, &str); 2] = [
    (
        "datafusion.execution.perfect_hash_join_small_build_threshold",
        "0",
    ),
    ("datafusion.execution.perfect_hash_join_min_key_density", "1.1"),
];

/// Arguments of `corun-lab bench join`.
#[derive(Clone, Debug, Default, Args)]
pub struct JoinArgs {
    /// What every suite is told.
    #[command(flatten)]
    pub common: Common,

    /// How often sides take turns.
    #[command(flatten)]
    pub rounds: Rounds,

    /// With how many threads.
    #[command(flatten)]
    pub threads: Threads,

    /// Every case instead of the representative ones.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,

    /// Rows of the larger side [default: 16 million].
    #[arg(long, value_name = "ROWS", value_parser = positive, allow_negative_numbers = true)]
    pub probe_rows: Option<usize>,

    /// Leave DuckDB out.
    #[arg(long)]
    pub no_peers: bool,
}

lab_core::suite_args!(JoinArgs, Join);

/// Runs the selected cases.
fn run(args: &JoinArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let entries = entries(args)?;
    let mut peer = match args.no_peers {
        true => None,
        false => DUCKDB.start_or_say("join", METRIC, "ns", runner),
    };
    for entry in &entries {
        run_entry(entry, &mut peer, runner)?;
        runner.cases_are_finished();
    }
    Ok(())
}

/// The cases of the run: the extent's, or those `--case` names, looked for in the full matrix when the extent has none.
fn entries(args: &JoinArgs) -> Result<Vec<Entry>, BenchError> {
    let threads = args.threads.counts();
    let extent = match (args.common.quick, args.full) {
        (true, _) => Extent::Quick,
        (false, true) => Extent::Full,
        (false, false) => Extent::Representative,
    };
    let all = matrix(extent, &threads, args.probe_rows);
    let mut chosen = select(all.clone(), |name| args.common.selects(name));
    if chosen.is_empty() && extent == Extent::Representative {
        chosen = select(matrix(Extent::Full, &threads, args.probe_rows), |name| {
            args.common.selects(name)
        });
    }
    if chosen.is_empty() {
        let names = all.iter().flat_map(Entry::names);
        return Err(args.common.no_such_case(Suite::Join, names));
    }
    Ok(chosen)
}

fn run_entry(entry: &Entry, peer: &mut Option<SqlPeer>, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let tables = &entry.tables;
    let data = JoinData::generate(tables, SEED, runner.progress())?;
    if let Some(peer) = peer {
        runner.progress().begin("tables into DuckDB", 2);
        for (name, table) in [("b", &data.build), ("p", &data.probe)] {
            peer.load(name, &table.schema, &table.batches)?;
            runner.progress().advance(1);
        }
        runner.progress().end();
    }
    for case in &entry.cases {
        match case.measure {
            Measure::Join | Measure::Indexed => compare(tables, &data, case, peer.as_mut(), runner)?,
            Measure::PlanFloor => plan_floor(tables, &data, case, runner)?,
            Measure::ProbeOnly => probe_only(tables, &data, case, runner)?,
        }
    }
    if let Some(peer) = peer {
        peer.drop_table("b")?;
        peer.drop_table("p")?;
    }
    Ok(())
}

/// The engine of one side over the data, shared with the other sides.
///
/// # Errors
/// When the engine refuses a setting or a table.
pub fn engine(data: &JoinData, joins: Joins, force_hash: bool, threads: usize) -> Result<Engine, BenchError> {
    let settings = if force_hash { FORCE_HASH.as_slice() } else { &[] };
    engine_with(data, joins, settings, threads)
}

fn engine_with(
    data: &JoinData,
    joins: Joins,
    settings: &[(&str, &str)],
    threads: usize,
) -> Result<Engine, BenchError> {
    let options = EngineOptions {
        partitions: threads,
        joins,
        settings: settings
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
        share_work: false,
        ..EngineOptions::default()
    };
    let engine = Engine::new(&options)?;
    for (name, table) in [("b", &data.build), ("p", &data.probe)] {
        engine.register_batches(name, table.schema.clone(), table.partitions(threads))?;
    }
    Ok(engine)
}

/// Parameters of every row of a case, beside `engine`.
pub fn parameters(tables: &Tables, threads: usize) -> Vec<(String, Value)> {
    vec![
        ("threads".to_string(), Value::from(threads)),
        ("build_rows".to_string(), Value::from(tables.build_rows)),
        ("probe_rows".to_string(), Value::from(tables.probe_rows)),
        ("keys".to_string(), Value::from(tables.keys.name())),
        ("hit_rate".to_string(), Value::from(tables.hit_rate)),
    ]
}

/// The comparison of a case's sides, without parameters of its own.
fn comparison<'s>(
    tables: &Tables,
    case: &Case,
    name: &'s str,
    expected: String,
    sides: Vec<Side<'s>>,
) -> Comparison<'s> {
    Comparison {
        suite: "join",
        case: name,
        parameters: parameters(tables, case.threads),
        metric: METRIC,
        unit: "ns",
        units_per_second: 1e9 / tables.probe_rows as f64,
        subject: CORUN,
        baseline: DATAFUSION,
        expected,
        sides,
    }
}

/// The join by every engine. With an index on `b.k`, `corun` chooses, `corun_index` always goes through it, `corun_hash` never does.
fn compare(
    tables: &Tables,
    data: &JoinData,
    case: &Case,
    peer: Option<&mut SqlPeer>,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let threads = case.threads;
    let runtime = runtime(threads)?;
    let plain = |joins, force_hash| engine(data, joins, force_hash, threads);
    let indexed = |choice: &str| {
        let engine = engine_with(data, Joins::Corun, &[("corun.index_join", choice)], threads)?;
        runtime.block_on(engine.create_index("b", "k"))?;
        Ok::<Engine, BenchError>(engine)
    };
    let engines = match case.measure {
        Measure::Indexed => vec![
            (CORUN, indexed("auto")?),
            (CORUN_INDEX, indexed("on")?),
            (CORUN_HASH, indexed("off")?),
            (DATAFUSION, plain(Joins::Stock, false)?),
        ],
        _ => vec![
            (CORUN, plain(Joins::Corun, false)?),
            (
                CORUN_PORTABLE,
                engine_with(
                    data,
                    Joins::Corun,
                    &[("corun.join_instructions", "portable")],
                    threads,
                )?,
            ),
            (DATAFUSION, plain(Joins::Stock, false)?),
            (FORCED_HASH, plain(Joins::Stock, true)?),
        ],
    };
    let query = sql(tables.keys, false);
    let peer_query = sql(tables.keys, true);
    let mut sides: Vec<Side<'_>> = engines
        .iter()
        .map(|(name, engine)| side(name, &runtime, engine, &query, sum_text))
        .collect();
    let mut version = None;
    if let Some(peer) = peer {
        peer.set_threads(threads)?;
        version = Some((DUCKDB.version_parameter.to_string(), Value::from(peer.version())));
        let peer = RefCell::new(peer);
        sides.push(Side::new(DUCKDB.name, move || peer.borrow_mut().sample(&peer_query)).optional());
    }
    let name = case.name(tables);
    let mut comparison = comparison(tables, case, &name, data.expected.clone(), sides);
    comparison.parameters.extend(version);
    runner.compare(comparison);
    Ok(())
}

/// The join's plan without its join: scans, buffering, and the sum over as many rows as probe rows. It joins nothing, so
/// only the number of rows can be checked.
fn plan_floor(
    tables: &Tables,
    data: &JoinData,
    case: &Case,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let runtime = runtime(case.threads)?;
    let stock = engine(data, Joins::Stock, false, case.threads)?;
    let query = sql(tables.keys, false).replacen("select sum", "select count(*), sum", 1);
    let side = Side::timed(
        PLAN_FLOOR,
        || {
            let (engine, query) = (stock.clone(), query.clone());
            let task = runtime
                .spawn(async move { corun_datafusion::diagnostics::plan_floor(&engine, &query).await });
            match runtime.block_on(task) {
                Ok(output) => Ok(output?),
                Err(panic) => Err(BenchError::Data(format!("the query did not finish: {panic}"))),
            }
        },
        sum_text,
    );
    let (name, expected) = (case.name(tables), tables.probe_rows.to_string());
    runner.compare(Comparison {
        subject: PLAN_FLOOR,
        baseline: PLAN_FLOOR,
        ..comparison(tables, case, &name, expected, vec![side])
    });
    Ok(())
}

/// The table alone beside the floor: as many random lines as probe rows, in a buffer of the table's size.
fn probe_only(
    tables: &Tables,
    data: &JoinData,
    case: &Case,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let name = case.name(tables);
    let table = |instructions| TableAlone::build(data, case.threads, instructions);
    let build_times = (0..runner.plan().repetitions)
        .map(|_| table(InstructionSet::default()).map(|(_, elapsed)| elapsed.as_secs_f64()))
        .collect::<Result<Vec<f64>, BenchError>>()?;
    let (alone, _) = table(InstructionSet::default())?;
    let joined = alone.join_sum(data)?;
    let parameters = parameters(tables, case.threads);
    if let Some(spread) = Spread::of(&build_times) {
        let spread = spread.scaled(1e9 / tables.build_rows as f64);
        let row = Row::measured(
            "join",
            &name,
            "ns_per_build_row",
            "ns",
            spread,
            joined == data.expected,
        );
        runner.emit(row.with("engine", "build_only").with_all(&parameters));
    }
    let floor = FloorBuffer::new(Bytes(alone.bytes() as u64)).map_err(BenchError::machine)?;
    let lines = tables.probe_rows as u64;
    // The pairs and the sum of their build rows of the join just checked; the timed probes must find the same.
    let expected = alone.probe(case.threads).text();
    let floor_side = Side::new("floor", || {
        let sample = floor.sample(case.threads, lines).map_err(BenchError::machine)?;
        let answer = if sample.checksum_ok {
            expected.clone()
        } else {
            "a wrong checksum".to_string()
        };
        let elapsed = Duration::from_secs_f64(sample.ns_per_line * lines as f64 / 1e9);
        Ok(Sample {
            elapsed,
            answer,
            peak_bytes: None,
        })
    });
    let narrower = NARROWER_INSTRUCTIONS
        .map(|(name, instructions)| table(instructions).map(|(alone, _)| (name, alone)))
        .into_iter()
        .collect::<Result<Vec<_>, BenchError>>()?;
    let tables_alone = [(PROBE_ONLY, &alone)];
    let tables_alone = tables_alone
        .into_iter()
        .chain(narrower.iter().map(|(name, alone)| (*name, alone)));
    let mut sides: Vec<Side<'_>> = tables_alone
        .map(|(name, alone)| Side::timed(name, || Ok(alone.probe(case.threads)), Found::text))
        .collect();
    sides.push(floor_side);
    let mut comparison = comparison(tables, case, &name, expected.clone(), sides);
    comparison
        .parameters
        .push(("bytes".to_string(), Value::from(alone.bytes())));
    runner.compare(Comparison {
        subject: PROBE_ONLY,
        baseline: "floor",
        ..comparison
    });
    Ok(())
}

/// The first column of the answer as the oracle writes it.
pub fn sum_text(output: &QueryOutput) -> String {
    let cells: Vec<String> = output
        .batches
        .iter()
        .filter(|batch| batch.num_columns() > 0)
        .filter_map(|batch| batch.column(0).as_any().downcast_ref::<Int64Array>())
        .flat_map(|sums| sums.iter())
        .map(|sum| sum.map_or_else(|| "NULL".to_string(), |sum| sum.to_string()))
        .collect();
    cells.join(",")
}

#[cfg(test)]
mod tests;
