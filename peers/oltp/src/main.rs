//! `oltp-peers`: runs TPC-C or YCSB on one of the peers and prints JSON lines.
//!
//! Order of events: the data is loaded (`loaded`); for each line `go` on standard input a round is run (`outcome`), so that the parent
//! can take turns between engines; at the end of input the data is checked (`checked`). Failures are one line on standard error
//! and exit code 1; arguments that make no sense, exit code 2.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use corun_model::units::CpuId;
use corun_workloads::Naive;
use corun_workloads::driver::{
    Measure, Outcome, RunError, RunOptions, TpccWorkload, compare_tpcc, compare_ycsb, run_tpcc, run_ycsb,
    same_tpcc_rows, same_ycsb_records,
};
use corun_workloads::engine::{Durability, TpccEngine, YcsbEngine};
use corun_workloads::tpcc::{self, KvTpcc, Mix, Scale};
use corun_workloads::ycsb::{self, Database, KvYcsb, Workload};
use oltp_peers::engines::Engine;
use oltp_peers::report::{Line, rss_bytes};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// TPC-C and YCSB on SQLite, Turso, redb, fjall and RocksDB, for `corun-lab bench oltp`.
#[derive(Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    list: Option<List>,
    #[command(flatten)]
    run: Option<Run>,
}

#[derive(Subcommand)]
enum List {
    /// The engines built in and their versions.
    List,
}

#[derive(Args)]
struct Run {
    engine: Engine,
    workload: Suite,
    /// TPC-C: standard, no_delivery, new_order, payment, ...; YCSB: a to f.
    #[arg(long)]
    mix: Option<String>,
    /// TPC-C: its size.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i16).range(1..))]
    warehouses: i16,
    /// TPC-C: customers, orders and items are divided by it, 1 to 100.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=100))]
    divisor: i32,
    /// YCSB: its size.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// Clients at once [default: 10 a warehouse, or 10 a worker]
    #[arg(long)]
    clients: Option<usize>,
    /// Workers the clients belong to.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// The CPU of each worker; none: wherever the kernel puts them.
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<u32>,
    #[arg(long, value_enum, default_value_t = Promise::Async)]
    durability: Promise,
    /// A folder of its own for the database's files, emptied by nobody [default: one for this run, deleted at its end]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Seconds before a round counts.
    #[arg(long, default_value_t = 1.0)]
    warmup: f64,
    /// Seconds a round counts.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Instead of rounds: so many transactions, one after the other, on the engine and on the oracle of `corun-workloads` (`compared`).
    #[arg(long, conflicts_with = "rounds")]
    compare: Option<u64>,
    /// So many rounds at once, without waiting for lines `go`.
    #[arg(long)]
    rounds: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Suite {
    Tpcc,
    Ycsb,
}

/// What a commit promises.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Promise {
    /// No log at all.
    None,
    /// The log is on disk some time after the commit.
    Async,
    /// The log is on disk before the commit returns.
    Durable,
}

impl From<Promise> for Durability {
    fn from(promise: Promise) -> Self {
        match promise {
            Promise::None => Durability::None,
            Promise::Async => Durability::Asynchronous,
            Promise::Durable => Durability::Durable,
        }
    }
}

/// Turso has no locks to wait at: while a disk takes its time, all who want the row that is being committed run again. Minutes of it.
const RETRIES_MAX: u32 = 100_000;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match (cli.list, cli.run) {
        (None, Some(run)) => match work(&run) {
            Err(Stop::Usage(message)) => Cli::command().error(ErrorKind::ValueValidation, message).exit(),
            Err(Stop::Failed(failure)) => Err(failure),
            Ok(()) => Ok(()),
        },
        _ => list(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // One line, whatever a library puts into its messages.
            let text = failure.to_string().replace('\n', " ");
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> Result<(), Failure> {
    use std::io::Write;
    for engine in Engine::value_variants() {
        writeln!(std::io::stdout(), "{} {}", engine.as_str(), engine.version())?;
    }
    Ok(())
}

enum Stop {
    Usage(String),
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failed(error.into())
    }
}

/// Where the files go; a folder of this run's own is deleted with it.
enum Folder {
    Given(PathBuf),
    Own(tempfile::TempDir),
}

impl Folder {
    fn new(given: Option<&PathBuf>) -> Result<Self, Failure> {
        match given {
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
                Ok(Folder::Given(folder.clone()))
            }
            None => Ok(Folder::Own(tempfile::tempdir()?)),
        }
    }

    fn path(&self) -> &std::path::Path {
        match self {
            Folder::Given(path) => path,
            Folder::Own(folder) => folder.path(),
        }
    }
}

fn seconds(value: f64, name: &str) -> Result<Duration, Stop> {
    Duration::try_from_secs_f64(value).map_err(|error| Stop::Usage(format!("--{name} {value}: {error}")))
}

fn work(run: &Run) -> Result<(), Stop> {
    let (warmup, measured) = (seconds(run.warmup, "warmup")?, seconds(run.seconds, "seconds")?);
    let (clients, workers) = (run.clients, run.workers);
    if workers == 0 || clients == Some(0) {
        return Err(Stop::Usage("--clients and --workers are at least 1".to_string()));
    }
    let folder;
    let durability = Durability::from(run.durability);
    if let Some(count) = run.compare {
        folder = Folder::new(run.folder.as_ref())?;
        return compare(run, folder.path(), durability, count);
    }
    let options = |clients: usize| RunOptions {
        clients,
        workers,
        cpus: run.cpus.iter().copied().map(CpuId).collect(),
        warmup,
        measure: Measure::Time(measured),
        seed: run.seed,
        retries_max: RETRIES_MAX,
        ..RunOptions::default()
    };
    let loaded = |engine: String, workload: String, rows, started: Instant, memory_bytes, rss_before: u64| {
        let line = Line::Loaded {
            engine: &engine,
            version: run.engine.version(),
            workload: &workload,
            durability: &durability.to_string(),
            rows,
            load_s: started.elapsed().as_secs_f64(),
            memory_bytes,
            rss_bytes: rss_bytes().saturating_sub(rss_before),
        };
        line.print()
    };
    let failed: Vec<String> = match run.workload {
        Suite::Tpcc => {
            let mix: Mix = parse(run.mix.as_deref().unwrap_or("standard"))?;
            let scale = Scale {
                warehouses: run.warehouses,
                divisor: run.divisor,
            };
            folder = Folder::new(run.folder.as_ref())?;
            let (started, before) = (Instant::now(), rss_bytes());
            let engine: Box<dyn TpccEngine> = run.engine.tpcc(folder.path(), durability, mix)?;
            tpcc::load(&*engine, scale, run.seed, 1, &|_| ())?;
            loaded(
                engine.name(),
                format!("tpcc {mix}"),
                scale.rows(),
                started,
                engine.memory_bytes(),
                before,
            )?;
            let workload = TpccWorkload {
                scale,
                load_seed: run.seed,
                mix,
            };
            let options = options(clients.unwrap_or(10 * usize::from(run.warehouses.unsigned_abs())));
            rounds(run, options, &|options| run_tpcc(&*engine, &workload, options))?;
            tpcc::check(&*engine, scale)?
                .iter()
                .map(ToString::to_string)
                .collect()
        }
        Suite::Ycsb => {
            let workload: Workload = parse(run.mix.as_deref().unwrap_or("a"))?;
            let database = Database::new(run.records);
            folder = Folder::new(run.folder.as_ref())?;
            let (started, before) = (Instant::now(), rss_bytes());
            let engine: Box<dyn YcsbEngine> = run.engine.ycsb(folder.path(), durability, workload)?;
            ycsb::load(&*engine, &database, 1, &|_| ())?;
            loaded(
                engine.name(),
                format!("ycsb {workload}"),
                run.records,
                started,
                engine.memory_bytes(),
                before,
            )?;
            let options = options(clients.unwrap_or(10 * workers));
            rounds(run, options, &|options| {
                run_ycsb(&*engine, &database, workload, options)
            })?;
            ycsb::check(&*engine, &database)?
                .iter()
                .map(ToString::to_string)
                .collect()
        }
    };
    let first = failed.first().cloned();
    Line::Checked {
        ok: failed.is_empty(),
        failed,
    }
    .print()?;
    first.map_or(Ok(()), |failed| Err(Stop::Failed(failed.into())))
}

/// Gives the engine and the oracle the same data and the same transactions, and prints the first difference there is between their
/// answers or between the rows they end with.
fn compare(run: &Run, folder: &Path, durability: Durability, count: u64) -> Result<(), Stop> {
    let compared = match run.workload {
        Suite::Tpcc => {
            let mix: Mix = parse(run.mix.as_deref().unwrap_or("standard"))?;
            let scale = Scale {
                warehouses: run.warehouses,
                divisor: run.divisor,
            };
            let engine = run.engine.tpcc(folder, durability, mix)?;
            let oracle = KvTpcc::new(Naive::new(tpcc::KV_TABLES.len()));
            tpcc::load(&*engine, scale, run.seed, 1, &|_| ())?;
            tpcc::load(&oracle, scale, run.seed, 1, &|_| ())?;
            let workload = TpccWorkload {
                scale,
                load_seed: run.seed,
                mix,
            };
            compare_tpcc(&*engine, &oracle, &workload, run.seed, count)
                .and_then(|()| same_tpcc_rows(&*engine, &oracle))
        }
        Suite::Ycsb => {
            let workload: Workload = parse(run.mix.as_deref().unwrap_or("a"))?;
            let database = Database::new(run.records);
            let engine = run.engine.ycsb(folder, durability, workload)?;
            let oracle = KvYcsb::new(Naive::new(ycsb::KV_TABLES.len()));
            ycsb::load(&*engine, &database, 1, &|_| ())?;
            ycsb::load(&oracle, &database, 1, &|_| ())?;
            compare_ycsb(&*engine, &oracle, &database, workload, run.seed, count)
                .and_then(|()| same_ycsb_records(&*engine, &oracle))
        }
    };
    let difference = compared.err().map(|difference| difference.to_string());
    Line::Compared {
        ok: difference.is_none(),
        transactions: count,
        difference: difference.clone(),
    }
    .print()?;
    difference.map_or(Ok(()), |difference| Err(Stop::Failed(difference.into())))
}

fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(mix: &str) -> Result<T, Stop> {
    mix.parse()
        .map_err(|error: T::Err| Stop::Usage(error.to_string()))
}

/// Runs rounds, each with inputs of its own, as often as asked for.
fn rounds(
    run: &Run,
    mut options: RunOptions,
    round: &dyn Fn(&RunOptions) -> Result<Outcome, RunError>,
) -> Result<(), Failure> {
    let mut done = 0;
    let mut next = |done: &mut u64| -> Result<(), Failure> {
        *done += 1;
        options.seed = run.seed.wrapping_add(*done);
        let outcome = round(&options)?;
        Ok(Line::outcome(*done, &outcome).print()?)
    };
    if let Some(rounds) = run.rounds {
        while done < rounds {
            next(&mut done)?;
        }
        return Ok(());
    }
    for line in std::io::stdin().lock().lines() {
        match line?.trim() {
            "go" => next(&mut done)?,
            "" => {}
            other => return Err(format!("`{other}` on standard input: only `go` is understood").into()),
        }
    }
    Ok(())
}
