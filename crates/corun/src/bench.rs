//! `corun bench SUITE`: arguments, rows on stdout, records on disk; the suites are `bench::suites`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use bench::BenchError;
use bench::record::Record;
use bench::row::Row;
use bench::suites::{self, Suite, SuiteArgs};
use clap::Args;
use clap::builder::PossibleValuesParser;
use model::placement::Placement;
use model::units::Bytes;

use crate::cli::{byte_size, positive, positive_number};
use crate::failure::Failed;
use crate::progress::Bars;
use crate::report_file::ReportFile;
use crate::{facts, out};

/// Arguments of `corun bench`.
#[derive(Debug, Args)]
#[command(after_help = "Suites:
  floor  what the machine gives at random access to memory, by size and threads
  join   single joins over sizes, key kinds and hit rates, against DataFusion and DuckDB
  ssb    the 13 queries of the Star Schema Benchmark, against DataFusion
  tpch   the 22 queries of TPC-H, against DataFusion
  smt    every figure of the paper on multithreaded operators, in every mode, against serial code
  llc    the experiments of the paper on the shared last-level cache: queries beside each other
  oltp   TPC-C and YCSB on the transactional store, against SQLite, redb and RocksDB
  steps  the experiments of the paper on instruction misses: transactions in teams, against one after the other
  proxy  PostgreSQL asked directly, through PgBouncer and through corun: throughput, latency, CPU time, memory
  caric  the experiments of the paper on private caches: PostgreSQL behind corun, queries sent by range, split, to copies
  mcc    the experiments of the paper on the shared last-level cache, on PostgreSQL behind corun's lane

Examples:
  corun bench join --quick                                small and fast: checks answers, claims nothing about time
  corun bench join --case sparse_16m_x_16m --threads 1,2
  corun bench ssb --scale 1 --json > ssb.jsonl
  corun bench floor --record bench/records                keeps rows, machine and commit in DATE-HOST/
  corun bench smt --report smt.html                       figures beside the paper's numbers
  corun bench smt --case fig6 --placement siblings        the second thread on the same core
  corun bench llc --llc 24MiB --report llc.html           tables sized for 24 MiB of effective last-level cache
  corun bench oltp --case tpcc --scale 4 --folder /data   four warehouses, files on the disk of /data
  corun bench oltp --case _durable_t2 --report oltp.html  every workload with durable commits on two cores
  corun bench steps --case index_fetch --report steps.html  teams against serial execution: misses simulated, time measured
  corun bench proxy --case simple_tcp_c50                 fifty clients; --case _unix_ takes Unix sockets instead of TCP
  corun bench caric --case best_seller                    TPC-W's complex query, whole and in 2, 3 and 4 parts
  corun bench caric --case replicas_half                  two copies whose memory holds half of the data each
  corun bench mcc --case ceiling                          what choosing who runs beside whom can gain here, with PostgreSQL alone
  corun bench mcc --case sim_                             the same paper's figures on a simulated cache, from PostgreSQL's own accesses

Every answer is checked; a wrong one ends with exit code 1. Ratios above 1 mean that corun (in smt: the mode) was faster; slow-downs above 1
mean that a query was slower beside others.")]
pub struct BenchArgs {
    /// The suite.
    #[arg(value_name = "SUITE", value_parser = PossibleValuesParser::new(Suite::names()))]
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

    /// Rounds of every side instead of the suite's own number.
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    repetitions: Option<usize>,

    /// Thread counts (oltp: workers) of the suites but smt, llc, steps, proxy, caric and mcc, such as 1,2 [default: 1 and all cores].
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = positive, allow_negative_numbers = true)]
    threads: Vec<usize>,

    /// Scale factor of ssb and tpch [default: 1]; warehouses of oltp [default: 2]; hundreds of thousands of
    /// accounts of proxy [default: 10]; warehouses [default: 4] and hundreds of thousands of items [default: 1; with --full 10] of caric; millions of orders of mcc
    /// [default: 3].
    #[arg(long, value_name = "SCALE", value_parser = positive_number, allow_negative_numbers = true)]
    scale: Option<f64>,

    /// Rows of the larger side of join [default: 16 million].
    #[arg(long, value_name = "ROWS", value_parser = positive, allow_negative_numbers = true)]
    probe_rows: Option<usize>,

    /// Where the second thread of smt runs: siblings (the same core), cores (another one) or auto (a sibling if there is one)
    /// [default: auto].
    #[arg(long, value_name = "WHERE", value_parser = PossibleValuesParser::new(Placement::NAMES))]
    placement: Option<String>,

    /// Use the paper's sizes in smt instead of sizes made for this machine's caches.
    #[arg(long, conflicts_with = "quick")]
    paper_sizes: bool,

    /// The effective last-level cache that llc and mcc size their tables by, such as 24MiB [default: what the machine is taken to have].
    #[arg(long, value_name = "SIZE", value_parser = byte_size, allow_negative_numbers = true)]
    llc: Option<usize>,

    /// Records of the YCSB cases of oltp [default: 1 million].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    records: Option<usize>,

    /// A folder on the disk to measure durable commits of oltp on [default: the system's temporary folder].
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Write the figures of smt, llc, oltp, steps or mcc to this HTML file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

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
        })
    }

    /// Refuses a flag that the suite has no use for: ignoring it would let numbers look like what was asked for.
    fn check_flags(&self, suite: Suite) -> Result<()> {
        let smt_only: &[Suite] = &[Suite::Smt];
        let others: &[Suite] = &[Suite::Floor, Suite::Join, Suite::Ssb, Suite::Tpch, Suite::Oltp];
        let oltp_only: &[Suite] = &[Suite::Oltp];
        let given = [
            ("--placement", self.placement.is_some(), smt_only),
            ("--paper-sizes", self.paper_sizes, smt_only),
            (
                "--report",
                self.report.is_some(),
                &[Suite::Smt, Suite::Llc, Suite::Oltp, Suite::Steps, Suite::Mcc],
            ),
            ("--llc", self.llc.is_some(), &[Suite::Llc, Suite::Mcc]),
            ("--threads", !self.threads.is_empty(), others),
            (
                "--scale",
                self.scale.is_some(),
                &[
                    Suite::Ssb,
                    Suite::Tpch,
                    Suite::Oltp,
                    Suite::Proxy,
                    Suite::Caric,
                    Suite::Mcc,
                ],
            ),
            ("--records", self.records.is_some(), oltp_only),
            ("--folder", self.folder.is_some(), oltp_only),
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

/// Runs `corun bench`.
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
    let outcome = suites::run(
        &suite_args,
        &mut |row| {
            bars.suspend(|| printer.print(&row));
            rows.push(row);
        },
        &bars,
    )?;
    drop(bars);
    if let Some(error) = printer.closed {
        return Err(error).context("cannot print rows");
    }
    if let (Some(report), Some(path)) = (report, &args.report) {
        let mut facts = facts::facts("measured, simulated or unavailable, as each figure says");
        facts.push(("command".to_owned(), arguments().join(" ")));
        let page = match suite_args.suite {
            Suite::Llc => bench::llc::report::page(&rows, &facts, args.quick),
            Suite::Oltp => bench::oltp::report::page(&rows, &facts, args.quick),
            Suite::Mcc => bench::mcc::report::page(&rows, &facts, args.quick),
            Suite::Steps => bench::steps::report::page(&rows, &facts, args.quick),
            _ => bench::smt::report::page(&rows, &facts, args.quick),
        };
        report.finish(&page.render())?;
        out::note(&format!("report: {}", path.display()));
    }
    if let Some(folder) = &args.record {
        let record = Record {
            suite: args.suite.clone(),
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

/// What `corun topology --json` prints here.
fn topology_lines() -> Result<Vec<String>> {
    let program = std::env::current_exe().context("cannot find this program to ask it for the machine")?;
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
