//! The `oltp` suite: TPC-C and YCSB on corun's store, beside SQLite, Turso, redb, fjall and RocksDB, and how fast the store is read back.
//!
//! Not here: what is run ([`crate::transactions::case`]), how sides take turns ([`crate::transactions::contest`]), the rows, and the report
//! ([`lab_core::figures`]).

use std::path::{Path, PathBuf};

use clap::Args;
use corun_cli::arguments::{positive, positive_number};
use corun_model::units::{Bytes, CpuId};
use corun_workloads::engine::Durability;
use corun_workloads::tpcc::Scale;

use crate::peers::oltp::ENGINES;
use crate::transactions::case::{Setup, Sizes, Work, setups};
use crate::transactions::contest::{self, Peers};
use crate::transactions::recovery::{self, Written};
use crate::transactions::rows;
use crate::transactions::{team_rows, teams};
use lab_core::error::BenchError;
use lab_core::run::Runner;
use lab_core::scratch::{Scratch, file_system, is_memory};
use lab_core::suite::{Common, Rounds, Suite, Threads};

/// Arguments of `corun-lab bench oltp`.
#[derive(Clone, Debug, Default, Args)]
pub struct OltpArgs {
    /// What every suite is told.
    #[command(flatten)]
    pub common: Common,

    /// How often sides take turns.
    #[command(flatten)]
    pub rounds: Rounds,

    /// Numbers of workers.
    #[command(flatten)]
    pub threads: Threads,

    /// Every workload with every durability instead of the representative ones.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,

    /// Warehouses of TPC-C [default: 2].
    #[arg(long, value_name = "SCALE", value_parser = positive_number, allow_negative_numbers = true)]
    pub scale: Option<f64>,

    /// Records of YCSB [default: 1 million].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    pub records: Option<usize>,

    /// A folder on the disk to measure durable commits on [default: the system's temporary folder].
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Leave SQLite, Turso, redb, fjall and RocksDB out.
    #[arg(long)]
    pub no_peers: bool,
}

lab_core::suite_args!(OltpArgs, Oltp);

/// Runs the selected cases.
fn run(args: &OltpArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let sizes = sizes(args)?;
    let cpus = corun_topology::affinity::allowed_cpus().map_err(BenchError::machine)?;
    let workers = worker_counts(args, &cpus)?;
    let all = setups(args.full, &workers, &cpus, sizes);
    let selected: Vec<&Setup> = all
        .iter()
        .filter(|setup| args.common.selects(&setup.name()))
        .collect();
    let in_teams = teams::setups(
        args.common.quick,
        args.scale.map(|_| sizes.scale),
        args.records.map(|_| sizes.records),
        &cpus,
    );
    let selected_teams: Vec<&Setup> = in_teams
        .iter()
        .filter(|setup| args.common.selects(&setup.name()))
        .collect();
    let recovers = args.common.selects(recovery::CASE);
    if selected.is_empty() && selected_teams.is_empty() && !recovers {
        let names = all
            .iter()
            .chain(&in_teams)
            .map(Setup::name)
            .chain([recovery::CASE.to_owned()]);
        return Err(args.common.no_such_case(Suite::Oltp, names));
    }
    let parent = args.folder.clone().unwrap_or_else(std::env::temp_dir);
    let disk = file_system(&parent);
    let waits = selected
        .iter()
        .any(|setup| setup.durability == Durability::Durable);
    refuse_memory(&parent, disk.as_deref(), waits, args.common.quick, runner)?;
    let peers = Peers::find(!args.no_peers);
    let sides = match &peers {
        Peers::Found(_) => 1 + ENGINES.len(),
        _ => 1,
    };
    let memory = corun_topology::discover().memory;
    let available = [memory.available, memory.limit].into_iter().flatten().min();
    refuse_too_large(&selected, sides, available)?;
    refuse_too_large(&selected_teams, 1, available)?;
    let scratch = Scratch::new(Some(&parent))?;
    if let Peers::Missing(reason) = &peers {
        runner.progress().note(reason);
    }
    let plan = runner.plan();
    for setup in selected {
        let results = contest::run(setup, &peers, &scratch, rows::plan(plan), runner.progress())?;
        let disk = disk.as_deref().filter(|_| setup.durability != Durability::None);
        rows::emit(setup, disk, &results, runner);
        runner.cases_are_finished();
    }
    for setup in selected_teams {
        let results = teams::run(setup, &scratch, rows::plan(plan), runner.progress())?;
        team_rows::emit(setup, &results, runner);
        runner.cases_are_finished();
    }
    if recovers {
        let written = Written::of(sizes.scale, args.common.quick);
        recovery::run(written, &workers, &cpus, &scratch, runner)?;
    }
    Ok(())
}

fn sizes(args: &OltpArgs) -> Result<Sizes, BenchError> {
    let mut sizes = if args.common.quick {
        Sizes::quick()
    } else {
        Sizes::standard()
    };
    if let Some(scale) = args.scale {
        if scale.fract() != 0.0 || !(1.0..=f64::from(i16::MAX)).contains(&scale) {
            return Err(BenchError::BadArgument(format!(
                "--scale {scale}: oltp takes a whole number of warehouses, 1 to {}",
                i16::MAX
            )));
        }
        sizes.scale = Scale {
            warehouses: scale as i16,
            ..sizes.scale
        };
    }
    if let Some(records) = args.records {
        sizes.records = records as u64;
    }
    Ok(sizes)
}

/// Each worker has a CPU of its own.
fn worker_counts(args: &OltpArgs, cpus: &[CpuId]) -> Result<Vec<usize>, BenchError> {
    let counts = args.threads.counts();
    match counts.last() {
        Some(&most) if most > cpus.len() => Err(BenchError::BadArgument(format!(
            "--threads {most}: oltp gives each worker a CPU of its own, and this process may use {}",
            cpus.len()
        ))),
        _ => Ok(counts),
    }
}

/// Waiting for a disk that is none costs nothing: what is measured then would not be what rows say. Quick runs claim nothing.
fn refuse_memory(
    folder: &Path,
    disk: Option<&str>,
    waits: bool,
    quick: bool,
    runner: &Runner<'_>,
) -> Result<(), BenchError> {
    let Some(disk) = disk.filter(|disk| waits && is_memory(disk)) else {
        return Ok(());
    };
    let what = format!(
        "{} is in memory ({disk}), so durable commits would wait for nothing",
        folder.display()
    );
    if quick {
        runner.progress().note(&what);
        return Ok(());
    }
    Err(BenchError::BadArgument(format!(
        "{what}; --folder names a folder on a disk, --case _none selects the cases without a log"
    )))
}

/// Memory a side takes for a row of TPC-C or a record of YCSB, with room for what is added while it runs. The largest measured was a bit
/// less, with the databases of the standard sizes.
const ROW_BYTES: u64 = 800;
const RECORD_BYTES: u64 = 2_500;

/// All sides hold their data at the same time; a kernel without memory would end somebody.
fn refuse_too_large(selected: &[&Setup], sides: usize, available: Option<Bytes>) -> Result<(), BenchError> {
    let bytes = |setup: &&Setup| match setup.case.work {
        Work::Tpcc(_) => setup.rows().saturating_mul(ROW_BYTES),
        Work::Ycsb(_) => setup.rows().saturating_mul(RECORD_BYTES),
    };
    let needed = selected.iter().map(bytes).max().unwrap_or(0);
    let needed = needed.saturating_mul(sides as u64);
    match available {
        Some(available) if needed > available.0 => Err(BenchError::BadArgument(format!(
            "{sides} sides take about {} MiB of memory, and {} MiB are available; --records and --scale make databases smaller, \
             --no-peers leaves the peers out",
            needed >> 20,
            available.0 >> 20
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::progress::Silent;
    use lab_core::run::Plan;

    fn args() -> OltpArgs {
        OltpArgs {
            common: Common::quick(None),
            ..OltpArgs::default()
        }
    }

    #[test]
    fn impossible_sizes_and_workers_are_usage_errors() {
        for scale in [0.5, 1e6] {
            let args = OltpArgs {
                scale: Some(scale),
                ..args()
            };
            assert!(sizes(&args).is_err_and(|error| error.is_usage()), "{scale}");
        }
        let more = OltpArgs {
            threads: Threads { threads: vec![1, 3] },
            ..args()
        };
        let error = worker_counts(&more, &[CpuId(0), CpuId(1)]).expect_err("two CPUs");
        assert!(
            error.is_usage() && error.to_string().contains("--threads 3"),
            "{error}"
        );
        assert_eq!(
            worker_counts(&more, &[CpuId(0), CpuId(1), CpuId(2)]).ok(),
            Some(vec![1, 3])
        );
    }

    #[test]
    fn durable_cases_refuse_a_folder_in_memory() {
        let mut none = |_| ();
        let runner = Runner::new(Plan::quick(), &mut none, &Silent);
        let refused = |disk: &str, waits, quick| {
            refuse_memory(Path::new("/dev/shm"), Some(disk), waits, quick, &runner).is_err()
        };
        assert!(refused("tmpfs", true, false));
        assert!(!refused("tmpfs", false, false) && !refused("tmpfs", true, true));
        assert!(!refused("ext4", true, false));
    }

    #[test]
    fn databases_larger_than_memory_are_refused() {
        let all = setups(false, &[1], &[CpuId(0)], Sizes::standard());
        let all: Vec<&Setup> = all.iter().collect();
        let fits = |sides, gib| refuse_too_large(&all, sides, Some(Bytes::gib(gib))).is_ok();
        assert!(fits(4, 16) && !fits(4, 4) && fits(1, 4));
        assert!(refuse_too_large(&all, 4, None).is_ok());
    }
}
