//! `corun-lab bench SUITE`: arguments, rows on stdout, records on disk; the suites are the lab crates'.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use corun_model::operators::placement::Placement;
use corun_model::units::Bytes;
use lab_core::BenchError;
use lab_core::figures;
use lab_core::record::Record;
use lab_core::report::page::Page;
use lab_core::row::Row;
use lab_core::suite::{RunSuite, Suite, SuiteArgs};

use crate::facts;
use crate::report_file::ReportFile;
use corun_cli::arguments::{byte_size, positive, positive_number};
use corun_cli::failure::Failed;
use corun_cli::progress::Bars;
use corun_cli::{out, siblings};

/// Arguments of `corun-lab bench`.
#[derive(Debug, Args)]
#[command(after_help = "Suites:
  floor              what the machine gives at random access to memory, by size and threads
  join               single joins over sizes, key kinds and hit rates, against DataFusion and DuckDB
  ssb                the 13 queries of the Star Schema Benchmark, against DataFusion
  tpch               the 22 queries of TPC-H, against DataFusion
  memory-latency     every figure of the paper on multithreaded operators, in every mode, against serial code
  llc                the experiments of the paper on the shared last-level cache: queries beside each other
  oltp               TPC-C and YCSB on the transactional store, against SQLite, redb and RocksDB
  instruction-cache  the experiments of the paper on instruction misses: transactions in teams, against one after the other
  proxy              PostgreSQL asked directly, through PgBouncer and through corun: throughput, latency, CPU time, memory
  key-ranges         the experiments of the paper on private caches: PostgreSQL behind corun, queries sent by range, split, to copies
  heavy-queue        the experiments of the paper on the shared last-level cache, on PostgreSQL behind corun's heavy queue

Examples:
  corun-lab bench join --quick                                small and fast: checks answers, claims nothing about time
  corun-lab bench join --case sparse_16m_x_16m --threads 1,2
  corun-lab bench ssb --scale 1 --json > ssb.jsonl
  corun-lab bench floor --record records                keeps rows, machine and commit in DATE-HOST/
  corun-lab bench memory-latency --report misses.html                     figures beside the paper's numbers
  corun-lab bench memory-latency --case fig6 --placement siblings        the second thread on the same core
  corun-lab bench llc --llc 24MiB --report llc.html           tables sized for 24 MiB of effective last-level cache
  corun-lab bench oltp --case tpcc --scale 4 --folder /data   four warehouses, files on the disk of /data
  corun-lab bench oltp --case _durable_t2 --report oltp.html  every workload with durable commits on two cores
  corun-lab bench instruction-cache --case index_fetch --report teams.html  teams against serial execution: misses simulated, time measured
  corun-lab bench proxy --case simple_tcp_c50                 fifty clients; --case _unix_ takes Unix sockets instead of TCP
  corun-lab bench proxy --case attack_                        one client that asks for too much, beside eight others
  corun-lab bench key-ranges --case best_seller                    TPC-W's complex query, whole and in 2, 3 and 4 parts
  corun-lab bench key-ranges --case replicas_half                  two copies whose memory holds half of the data each
  corun-lab bench heavy-queue --case ceiling                          what choosing who runs beside whom can gain here, with PostgreSQL alone
  corun-lab bench heavy-queue --case sim_                             the same paper's figures on a simulated cache, from PostgreSQL's own accesses

Every answer is checked; a wrong one ends with exit code 1. Ratios above 1 mean that corun (in memory-latency: the mode) was faster; slow-downs above 1
mean that a query was slower beside others.")]
pub struct BenchArgs {
    /// The suite.
    #[arg(value_name = "SUITE", value_parser = PossibleValuesParser::new(suite_names()))]
    suite: String,

    /// Only cases whose name contains this text.
    #[arg(long, value_name = "NAME")]
    case: Option<String>,

    /// Small data and two repetitions, for checking answers in seconds.
    #[arg(long)]
    quick: bool,

    /// Every case instead of the representative ones.
    #[arg(long, conflicts_with = "quick")]
    full: bool,

    /// What the order of sides in each round is shuffled from.
    #[arg(long, value_name = "SEED", default_value_t = lab_core::order::SEED)]
    order_seed: u64,

    /// Rounds of every side instead of the suite's own number.
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    repetitions: Option<usize>,

    /// Thread counts (oltp: workers) of the suites but memory-latency, llc, instruction-cache, proxy, key-ranges and heavy-queue, such as 1,2 [default: 1 and all cores].
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = positive, allow_negative_numbers = true)]
    threads: Vec<usize>,

    /// Scale factor of ssb and tpch [default: 1]; warehouses of oltp [default: 2]; hundreds of thousands of
    /// accounts of proxy [default: 10]; warehouses [default: 4] and hundreds of thousands of items [default: 1; with --full 10] of key-ranges; millions of orders of
    /// heavy-queue
    /// [default: 3].
    #[arg(long, value_name = "SCALE", value_parser = positive_number, allow_negative_numbers = true)]
    scale: Option<f64>,

    /// Rows of the larger side of join [default: 16 million].
    #[arg(long, value_name = "ROWS", value_parser = positive, allow_negative_numbers = true)]
    probe_rows: Option<usize>,

    /// Where the second thread of memory-latency runs: siblings (the same core), cores (another one) or auto (a sibling if there is one)
    /// [default: auto].
    #[arg(long, value_name = "WHERE", value_parser = PossibleValuesParser::new(Placement::NAMES))]
    placement: Option<String>,

    /// Use the paper's sizes in memory-latency instead of sizes made for this machine's caches.
    #[arg(long, conflicts_with = "quick")]
    paper_sizes: bool,

    /// The effective last-level cache that llc and heavy-queue size their tables by, such as 24MiB [default: what the machine is taken to have].
    #[arg(long, value_name = "SIZE", value_parser = byte_size, allow_negative_numbers = true)]
    llc: Option<usize>,

    /// Records of the YCSB cases of oltp [default: 1 million].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    records: Option<usize>,

    /// A folder on the disk to measure durable commits of oltp on [default: the system's temporary folder].
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Write the figures of memory-latency, llc, oltp, instruction-cache or heavy-queue to this HTML file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// An earlier program `corun` that proxy compares with the one of now, in the same run.
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,

    /// Leave out engines outside this program, such as DuckDB, SQLite or PgBouncer.
    #[arg(long)]
    no_peers: bool,

    /// Keep rows, machine, commit and arguments below this folder.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,

    /// Print rows as one JSON object a line.
    #[arg(long)]
    json: bool,
}

impl BenchArgs {
    fn suite_args(&self) -> Result<SuiteArgs> {
        let suite: Suite = self.suite.parse()?;
        self.check_flags(suite)?;
        Ok(SuiteArgs {
            suite,
            case: self.case.clone(),
            quick: self.quick,
            full: self.full,
            order_seed: self.order_seed,
            repetitions: self.repetitions,
            threads: self.threads.clone(),
            scale: self.scale,
            peers: !self.no_peers,
            probe_rows: self.probe_rows,
            placement: match &self.placement {
                Some(name) => name.parse::<Placement>().map_err(BenchError::from)?,
                None => Placement::Auto,
            },
            paper_sizes: self.paper_sizes,
            llc: self.llc.map(|bytes| Bytes(bytes as u64)),
            records: self.records,
            folder: self.folder.clone(),
            program: None,
            before: self.before.clone(),
        })
    }

    /// Refuses a flag that the suite has no use for: ignoring it would let numbers look like what was asked for.
    fn check_flags(&self, suite: Suite) -> Result<()> {
        let smt_only: &[Suite] = &[Suite::MemoryLatency];
        let others: &[Suite] = &[Suite::Floor, Suite::Join, Suite::Ssb, Suite::Tpch, Suite::Oltp];
        let oltp_only: &[Suite] = &[Suite::Oltp];
        let given = [
            ("--placement", self.placement.is_some(), smt_only),
            ("--paper-sizes", self.paper_sizes, smt_only),
            (
                "--report",
                self.report.is_some(),
                &[
                    Suite::MemoryLatency,
                    Suite::Llc,
                    Suite::Oltp,
                    Suite::InstructionCache,
                    Suite::HeavyQueue,
                ],
            ),
            ("--llc", self.llc.is_some(), &[Suite::Llc, Suite::HeavyQueue]),
            ("--threads", !self.threads.is_empty(), others),
            (
                "--scale",
                self.scale.is_some(),
                &[
                    Suite::Ssb,
                    Suite::Tpch,
                    Suite::Oltp,
                    Suite::Proxy,
                    Suite::KeyRanges,
                    Suite::HeavyQueue,
                ],
            ),
            ("--records", self.records.is_some(), oltp_only),
            ("--folder", self.folder.is_some(), oltp_only),
            ("--before", self.before.is_some(), &[Suite::Proxy]),
            ("--probe-rows", self.probe_rows.is_some(), &[Suite::Join]),
        ];
        for (flag, is_given, suites) in given {
            if is_given && !suites.contains(&suite) {
                let names: Vec<&str> = suites.iter().map(|suite| suite.name()).collect();
                bail!(BenchError::BadArgument(format!(
                    "{flag} is for {}, not for {}",
                    names.join(", "),
                    suite.name()
                )));
            }
        }
        Ok(())
    }
}

/// Runs `corun-lab bench`.
///
/// # Errors
/// Impossible arguments, a suite that cannot run, a wrong answer, or a record that cannot be written.
pub fn run(args: BenchArgs) -> Result<()> {
    let suite_args = args.suite_args()?;
    let report = args.report.clone().map(ReportFile::open).transpose()?;
    let bars = Bars::new();
    let mut printer = Printer {
        json: args.json,
        widths: Vec::new(),
        closed: None,
    };
    let mut rows: Vec<Row> = Vec::new();
    let outcome = lab_core::suite::run(
        run_of(suite_args.suite)?,
        &suite_args,
        &mut |row| {
            bars.suspend(|| printer.print(&row));
            rows.push(row);
        },
        &bars,
    )?;
    drop(bars);
    out::note(&format!(
        "order of sides: shuffled from seed {}",
        suite_args.order_seed
    ));
    if let Some(error) = printer.closed {
        return Err(error).context("cannot print rows");
    }
    if let (Some(report), Some(path)) = (report, &args.report) {
        let mut facts = facts::facts("measured, simulated or unavailable, as each figure says");
        facts.push(("command".to_owned(), arguments().join(" ")));
        let page = self::report(&suite_args, &rows, &facts).context("this suite draws no figures")?;
        report.finish(&page.render())?;
        out::note(&format!("report: {}", path.display()));
    }
    if let Some(folder) = &args.record {
        let record = Record {
            suite: suite_args.suite.row_name().to_owned(),
            date: facts::today(),
            host: facts::host(),
            commit: facts::COMMIT.to_owned(),
            arguments: arguments(),
            topology: topology_lines()?,
        };
        let written = record.write(folder, &rows)?;
        out::note(&format!("record: {}", written.display()));
    }
    if !outcome.is_ok() {
        bail!(Failed(format!(
            "{} of the suite's checks failed\ndetail: {}",
            outcome.failures.len(),
            outcome.failures.join("; ")
        )));
    }
    Ok(())
}

/// The suites' names, the older ones as aliases.
fn suite_names() -> Vec<PossibleValue> {
    let value = |suite: &Suite| match suite.row_name() {
        old if old == suite.name() => PossibleValue::new(suite.name()),
        old => PossibleValue::new(suite.name()).alias(old),
    };
    Suite::ALL.iter().map(value).collect()
}

/// The suite of this name, if this program was built with it.
///
/// # Errors
/// [`BenchError::BadArgument`] without it.
fn run_of(suite: Suite) -> Result<RunSuite, BenchError> {
    Ok(match suite {
        #[cfg(feature = "cpu")]
        Suite::Floor => lab_cpu::suites::floor::run,
        #[cfg(feature = "cpu")]
        Suite::MemoryLatency => lab_cpu::suites::memory_latency::run,
        #[cfg(feature = "cpu")]
        Suite::InstructionCache => lab_cpu::suites::instruction_cache::run,
        #[cfg(feature = "engine")]
        Suite::Join => lab_engine::suites::join::run,
        #[cfg(feature = "engine")]
        Suite::Ssb => lab_engine::suites::ssb::run,
        #[cfg(feature = "engine")]
        Suite::Tpch => lab_engine::suites::tpch::run,
        #[cfg(feature = "engine")]
        Suite::Llc => lab_engine::suites::shared_cache::run,
        #[cfg(feature = "engine")]
        Suite::Oltp => lab_engine::suites::transactions::run,
        #[cfg(feature = "postgres")]
        Suite::Proxy => lab_postgres::suites::pooler::run,
        #[cfg(feature = "postgres")]
        Suite::KeyRanges => lab_postgres::suites::key_ranges::run,
        #[cfg(feature = "postgres")]
        Suite::HeavyQueue => lab_postgres::suites::heavy_queue::run,
        #[cfg(not(all(feature = "cpu", feature = "engine", feature = "postgres")))]
        other => return Err(not_built(other)),
    })
}

/// Why a suite is not in this program.
#[cfg(not(all(feature = "cpu", feature = "engine", feature = "postgres")))]
fn not_built(suite: Suite) -> BenchError {
    let feature = match suite {
        Suite::Proxy | Suite::KeyRanges | Suite::HeavyQueue => "postgres",
        Suite::Floor | Suite::MemoryLatency | Suite::InstructionCache => "cpu",
        _ => "engine",
    };
    BenchError::BadArgument(format!(
        "the suite {} is not in this program: it was built without the feature `{feature}` (`make build` builds all of it)",
        suite.name()
    ))
}

/// The figures of a suite; none of one that draws none.
fn report(args: &SuiteArgs, rows: &[Row], facts: &[(String, String)]) -> Option<Page> {
    match args.suite {
        #[cfg(feature = "cpu")]
        Suite::InstructionCache => Some(lab_cpu::instruction_cache::report::page(rows, facts, args.quick)),
        other => figures::page(other, rows, facts, args.quick),
    }
}

/// Prints rows as they come; columns grow with their widest cell so far, because a suite runs for minutes.
struct Printer {
    json: bool,
    widths: Vec<usize>,
    closed: Option<std::io::Error>,
}

impl Printer {
    fn print(&mut self, row: &Row) {
        if self.closed.is_some() {
            return;
        }
        let printed = if self.json {
            out::line(&row.to_json())
        } else {
            self.print_cells(row)
        };
        self.closed = printed.err();
    }

    fn print_cells(&mut self, row: &Row) -> std::io::Result<()> {
        let mut out = out::stdout();
        if self.widths.is_empty() {
            // Wide enough for most names, so that few columns move while rows come in.
            self.widths = vec![28, 22, 16, 22, 3, 9, 9, 9, 6, 8];
            writeln!(out, "{}", self.line(&Row::CELL_HEADINGS.map(str::to_owned)))?;
        }
        let cells = row.cells();
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.chars().count());
        }
        let mut line = self.line(&cells);
        if let Some(reason) = row.parameter("reason") {
            line.push_str(&format!("  ({reason})"));
        }
        writeln!(out, "{line}")?;
        out.flush()
    }

    /// Cells side by side; the five numbers in the middle are aligned right.
    fn line(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            match (4..8).contains(&column) {
                true => line.push_str(&format!("{cell:>width$}  ")),
                false => line.push_str(&format!("{cell:<width$}  ")),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// The command line without the program.
fn arguments() -> Vec<String> {
    std::env::args().skip(1).collect()
}

/// What `corun topology --json` prints here; nothing where that program is not installed.
fn topology_lines() -> Result<Vec<String>> {
    let Some(program) = siblings::find("corun") else {
        out::note("the record has no topology: the program corun is neither beside this one nor on PATH");
        return Ok(Vec::new());
    };
    let output = std::process::Command::new(program)
        .args(["topology", "--json"])
        .output()
        .context("cannot run corun topology")?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_never_shrink_and_numbers_are_aligned_right() {
        let printer = Printer {
            json: false,
            widths: vec![6, 2, 2, 2, 5],
            closed: None,
        };
        let cells = ["case", "e", "m", "v", "7"].map(str::to_owned);
        assert_eq!(printer.line(&cells), "case    e   m   v       7");
    }
}
