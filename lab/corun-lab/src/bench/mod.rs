//! `corun-lab bench SUITE`: which suites there are, each with its own arguments. The suites are the lab crates'.
//!
//! ```text
//!   this file ──► run ──► suite ──► rows ──► printer (stdout), report file, record (in `rows`)
//!            ├──► list: suites and cases        └──► diff: two records held against each other
//! ```

mod diff;
mod list;
mod printer;
mod report;
mod rows;
mod run;

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use corun_cli::out;
use lab_core::BenchError;
use lab_core::row::{Row, file};
#[cfg(feature = "cpu")]
use lab_cpu::suites::{
    floor::FloorArgs, instruction_cache::InstructionCacheArgs, memory_latency::MemoryLatencyArgs,
};
#[cfg(feature = "engine")]
use lab_engine::suites::{
    aggregate::AggregateArgs, h2o::H2oArgs, join::JoinArgs, shared_cache::LlcArgs, ssb::SsbArgs,
    tpcds::TpcdsArgs, tpch::TpchArgs, transactions::OltpArgs,
};
#[cfg(feature = "postgres")]
use lab_postgres::suites::{
    heavy_queue::HeavyQueueArgs, key_ranges::KeyRangesArgs, pooler::ProxyArgs, serve::ServeArgs,
};

use run::RunArgs;

/// Arguments of `corun-lab bench`.
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  corun-lab bench list                   the suites, how many cases they have and how long they take
  corun-lab bench join --quick           small and fast: checks answers, claims nothing about time
  corun-lab bench join --list            the cases that `corun-lab bench join` runs
  corun-lab bench floor --out records    keeps rows, machine and commit in records/DATE-HOST/
  corun-lab bench oltp --out records --resume
                                         goes on where such a run was ended
  corun-lab bench diff records/2026-11-21-vm records/2026-11-26-vm
                                         what changed between two records beyond the noise
  corun-lab bench report records/2026-11-21-vm/smt.jsonl
                                         what recorded rows say, beside the paper

Every answer is checked; a wrong one ends with exit code 1. Ratios above 1 mean that corun (in memory-latency: the mode) was faster; slow-downs above 1
mean that a query was slower beside others."
)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Bench,
}

/// A suite, or what is said of suites.
#[derive(Debug, Subcommand)]
enum Bench {
    /// The suites, or the cases of one.
    List(list::ListArgs),
    /// What changed between two records beyond their noise.
    Diff(diff::DiffArgs),
    /// The figures of rows that were recorded, beside the papers' numbers.
    Report(report::ReportArgs),
    /// What the machine gives at random access to memory, by size and threads.
    #[cfg(feature = "cpu")]
    #[command(after_help = "Examples:
  corun-lab bench floor --threads 1,2 --out records")]
    Floor(RunArgs<FloorArgs>),
    /// Single joins over sizes, key kinds and hit rates, against DataFusion and DuckDB.
    #[cfg(feature = "engine")]
    #[command(after_help = "Examples:
  corun-lab bench join --case sparse_16m_x_16m --threads 1,2
  corun-lab bench join --full --list         every case there is")]
    Join(RunArgs<JoinArgs>),
    /// Groupings by keys of every kind, ten groups to many millions, against DataFusion.
    #[cfg(feature = "engine")]
    #[command(after_help = "Examples:
  corun-lab bench aggregate --case 1m_       a million groups of every kind of key
  corun-lab bench aggregate --full           from memory and from Parquet files")]
    Aggregate(RunArgs<AggregateArgs>),
    /// The 13 queries of the Star Schema Benchmark, against DataFusion.
    #[cfg(feature = "engine")]
    #[command(after_help = "Examples:
  corun-lab bench ssb --scale 1 --json > ssb.jsonl")]
    Ssb(RunArgs<SsbArgs>),
    /// The 22 queries of TPC-H, against DataFusion.
    #[cfg(feature = "engine")]
    #[command(after_help = "Examples:
  corun-lab bench tpch --full                from memory and from Parquet files")]
    Tpch(RunArgs<TpchArgs>),
    /// The 99 queries of TPC-DS from Parquet files, against DataFusion and DuckDB.
    #[cfg(feature = "engine")]
    #[command(after_help = "Examples:
  corun-lab bench tpcds --case q72           its tables are made once, beside what scripts/bootstrap --peers installs")]
    Tpcds(RunArgs<TpcdsArgs>),
    /// The groupings and joins of H2O.ai's db-benchmark, against DataFusion.
    #[cfg(feature = "engine")]
    #[command(after_help = "Examples:
  corun-lab bench h2o --case q10_            the grouping by six columns
  corun-lab bench h2o --full --scale 0.1     from memory and from Parquet files, a million rows")]
    H2o(RunArgs<H2oArgs>),
    /// Every figure of the paper on multithreaded operators, in every mode, against serial code.
    #[cfg(feature = "cpu")]
    #[command(
        alias = "smt",
        after_help = "Examples:
  corun-lab bench memory-latency --report latency.html           figures beside the paper's numbers
  corun-lab bench memory-latency --case fig6 --placement siblings
                                                             the second thread on the same core"
    )]
    MemoryLatency(RunArgs<MemoryLatencyArgs>),
    /// The experiments of the paper on the shared last-level cache: queries beside each other.
    #[cfg(feature = "engine")]
    #[command(after_help = "Examples:
  corun-lab bench llc --llc 24MiB --report llc.html              tables made for 24 MiB of effective last-level cache")]
    Llc(RunArgs<LlcArgs>),
    /// TPC-C and YCSB on the transactional store, against SQLite, Turso, redb, fjall and RocksDB.
    #[cfg(feature = "engine")]
    #[command(after_help = "Examples:
  corun-lab bench oltp --case tpcc --scale 4 --folder /data      four warehouses, files on the disk of /data
  corun-lab bench oltp --case _durable_t2 --report oltp.html     every workload with durable commits on two cores")]
    Oltp(RunArgs<OltpArgs>),
    /// The experiments of the paper on instruction misses: transactions in teams, against one after the other.
    #[cfg(feature = "cpu")]
    #[command(
        alias = "steps",
        after_help = "Examples:
  corun-lab bench instruction-cache --case fig5 --report teams.html
                                                             misses by size of the team, simulated"
    )]
    InstructionCache(RunArgs<InstructionCacheArgs>),
    /// PostgreSQL asked directly, through PgBouncer and through corun: throughput, latency, CPU time, memory.
    #[cfg(feature = "postgres")]
    #[command(after_help = "Examples:
  corun-lab bench proxy --case simple_tcp_c50      fifty clients; --case _unix_ takes Unix sockets instead of TCP
  corun-lab bench proxy --case attack_             one client that asks for too much, beside eight others")]
    Proxy(RunArgs<ProxyArgs>),
    /// The experiments of the paper on private caches: PostgreSQL behind corun, queries sent by range, split, to copies.
    #[cfg(feature = "postgres")]
    #[command(
        alias = "caric",
        after_help = "Examples:
  corun-lab bench key-ranges --case best_seller    TPC-W's complex query, whole and in 2, 3 and 4 parts
  corun-lab bench key-ranges --case replicas_half  two copies whose memory holds half of the data each"
    )]
    KeyRanges(RunArgs<KeyRangesArgs>),
    /// The experiments of the paper on the shared last-level cache, on PostgreSQL behind corun's heavy queue.
    #[cfg(feature = "postgres")]
    #[command(
        alias = "mcc",
        after_help = "Examples:
  corun-lab bench heavy-queue --case ceiling       what choosing who runs beside whom can gain here, with PostgreSQL alone
  corun-lab bench heavy-queue --case sim_          the same paper's figures on a simulated cache, from PostgreSQL's own accesses"
    )]
    HeavyQueue(RunArgs<HeavyQueueArgs>),
    /// The SQL server beside DataFusion as it comes, DuckDB and PostgreSQL: streams of queries, its own cost, many rows, idle sessions.
    #[cfg(feature = "postgres")]
    #[command(after_help = "Examples:
  corun-lab bench serve --case tpch_streams_s4     four clients at once, each with TPC-H's queries in an order of its own
  corun-lab bench serve --case constant_           `select 1`: what the front itself costs, beside PostgreSQL and the pooler")]
    Serve(RunArgs<ServeArgs>),
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// Runs `corun-lab bench`.
///
/// # Errors
/// Impossible arguments, a suite that cannot run, a wrong answer, or a record that cannot be written.
pub fn run(args: BenchArgs) -> Result<()> {
    match args.what {
        Bench::List(args) => list::run(&args),
        Bench::Diff(args) => diff::run(&args),
        Bench::Report(args) => report::run(&args),
        #[cfg(feature = "cpu")]
        Bench::Floor(args) => run::run(&args),
        #[cfg(feature = "engine")]
        Bench::Join(args) => run::run(&args),
        #[cfg(feature = "engine")]
        Bench::Aggregate(args) => run::run(&args),
        #[cfg(feature = "engine")]
        Bench::Ssb(args) => run::run(&args),
        #[cfg(feature = "engine")]
        Bench::Tpch(args) => run::run(&args),
        #[cfg(feature = "engine")]
        Bench::Tpcds(args) => run::run(&args),
        #[cfg(feature = "engine")]
        Bench::H2o(args) => run::run(&args),
        #[cfg(feature = "cpu")]
        Bench::MemoryLatency(args) => run::run(&args),
        #[cfg(feature = "engine")]
        Bench::Llc(args) => run::run(&args),
        #[cfg(feature = "engine")]
        Bench::Oltp(args) => run::run(&args),
        #[cfg(feature = "cpu")]
        Bench::InstructionCache(args) => run::run(&args),
        #[cfg(feature = "postgres")]
        Bench::Proxy(args) => run::run(&args),
        #[cfg(feature = "postgres")]
        Bench::KeyRanges(args) => run::run(&args),
        #[cfg(feature = "postgres")]
        Bench::HeavyQueue(args) => run::run(&args),
        #[cfg(feature = "postgres")]
        Bench::Serve(args) => run::run(&args),
        Bench::Other(words) => bail!(no_such_suite(&words)),
    }
}

/// The rows of a file; a line that was cut off is told.
fn read(path: &Path) -> Result<Vec<Row>, BenchError> {
    let found = file::read(path)?;
    if let Some(sentence) = found.cut_off_text() {
        out::note(&format!("{}: {sentence}", path.display()));
    }
    Ok(found.rows)
}

/// Why a suite does not run: there is none of that name, or it is not in this program.
fn no_such_suite(words: &[OsString]) -> BenchError {
    let name = words.first().map(|word| word.to_string_lossy().into_owned());
    match name.unwrap_or_default().parse::<lab_core::suite::Suite>() {
        Err(error) => error,
        Ok(suite) => BenchError::BadArgument(format!(
            "the suite {} is not in this program, which was built without the feature it needs (`make build` builds all of them)",
            suite.name()
        )),
    }
}
