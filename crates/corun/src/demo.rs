//! `corun demo`: the main job. Arguments, progress, the closing table and the report file; the work is `bench::demo`.

use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail};
use bench::demo::page::{Provenance, class_table, page, ratio_text, spread_text};
use bench::demo::rows::rows;
use bench::demo::summary::Summary;
use bench::demo::{Demo, DemoOptions, DemoResult};
use bench::progress::Progress;
use bench::report::number;
use clap::Args;
use model::coschedule::{PolicyError, PolicyName};

use crate::cli::{positive, positive_number};
use crate::failure::Failed;
use crate::progress::Bars;
use crate::report_file::ReportFile;
use crate::{facts, out};

/// Arguments of `corun demo`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun demo                                  about three minutes; writes report.html
  corun demo --policies none                  stock against corun only, about two minutes
  corun demo --quick                          a few seconds, small data: checks answers, claims nothing about speed
  corun demo --scale 5 --clients 8 --rounds 10
  corun demo --json --report /tmp/demo.html   one JSON object a line on stdout

All sides run in this process over the same data: stock DataFusion, DataFusion with corun's joins, and the same behind a
coordinator of each policy, round by round. Every answer is checked against one computed before; a wrong one ends with exit code 1.")]
pub struct DemoArgs {
    /// Scale factor of the Star Schema Benchmark data (1 is 6 million fact rows) [default: 1].
    #[arg(long, value_name = "SCALE", value_parser = positive_number, allow_negative_numbers = true)]
    scale: Option<f64>,

    /// Seconds of each side's turn in a round [default: 6].
    #[arg(long, value_name = "SECONDS", value_parser = positive_number, allow_negative_numbers = true)]
    seconds: Option<f64>,

    /// Rounds; each is one turn of every side [default: 5].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    rounds: Option<usize>,

    /// Clients that run analytic joins [default: one a core].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    clients: Option<usize>,

    /// Clients that run short statements; 0 for none [default: half as many as cores, at least 1].
    #[arg(long, value_name = "N")]
    short_clients: Option<usize>,

    /// Partitions of a plan: how many threads one query can use [default: all cores].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    partitions: Option<usize>,

    /// Policies of the coordinator, one side each: fifo, sls, mls, learned, auto; or none.
    #[arg(long, value_name = "LIST", default_value = "fifo,sls,learned,auto")]
    policies: Policies,

    /// Seed of data, constants and order.
    #[arg(long, value_name = "SEED", default_value_t = bench::ssb::SEED)]
    seed: u64,

    /// Where the report goes.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    report: PathBuf,

    /// Small data and short rounds, for checking answers in seconds.
    #[arg(long)]
    quick: bool,

    /// Print benchmark rows, one JSON object a line, instead of tables.
    #[arg(long)]
    json: bool,
}

/// A list of policies as typed; each once.
#[derive(Debug, Clone)]
struct Policies(Vec<PolicyName>);

impl FromStr for Policies {
    type Err = PolicyError;

    fn from_str(text: &str) -> std::result::Result<Self, PolicyError> {
        let mut policies = Vec::new();
        for name in text.split(',').filter(|_| text != "none") {
            let policy = name.trim().parse()?;
            if !policies.contains(&policy) {
                policies.push(policy);
            }
        }
        Ok(Policies(policies))
    }
}

impl DemoArgs {
    fn options(&self) -> DemoOptions {
        let cores = bench::suites::all_cores();
        let (scale, seconds, rounds) = if self.quick { (0.02, 0.4, 2) } else { (1.0, 6.0, 5) };
        DemoOptions {
            scale: self.scale.unwrap_or(scale),
            seconds: self.seconds.unwrap_or(seconds),
            rounds: self.rounds.unwrap_or(rounds),
            clients: self.clients.unwrap_or(cores),
            short_clients: self.short_clients.unwrap_or((cores / 2).max(1)),
            seed: self.seed,
            partitions: self.partitions.unwrap_or(cores),
            policies: self.policies.0.clone(),
        }
    }
}

/// Runs `corun demo`.
///
/// # Errors
/// A report that cannot be written, an engine that fails, or a wrong answer.
pub fn run(args: DemoArgs) -> Result<()> {
    let report = ReportFile::open(args.report.clone())?;
    let bars = Bars::new();
    let demo = Demo::prepare(args.options(), &bars)?;
    if !args.json {
        bars.note(&plan_text(&args.options()));
    }
    let result = demo.play(&bars)?;
    drop(bars);
    let summary = Summary::of(&result);
    let provenance = Provenance {
        facts: facts::facts("measured; none simulated"),
    };
    report.finish(&page(&result, &summary, &provenance).render())?;
    if args.json {
        for row in rows(&result, &summary) {
            out::json_line(&row)?;
        }
        out::note(&format!("report: {}", args.report.display()));
    } else {
        print_summary(&result, &summary, &args)?;
    }
    if summary.wrong > 0 {
        bail!(Failed(format!(
            "{} of {} answers were wrong\nhint: this is a bug in corun: please report it with the report file",
            summary.wrong, summary.executions
        )));
    }
    Ok(())
}

fn plan_text(options: &DemoOptions) -> String {
    format!(
        "SSB scale {}, {} analytic + {} short clients, {} rounds of {} s a side ({})",
        options.scale,
        options.clients,
        options.short_clients,
        options.rounds,
        options.seconds,
        options
            .sides()
            .iter()
            .map(|side| side.name())
            .collect::<Vec<_>>()
            .join(", ")
    )
}

fn print_summary(result: &DemoResult, summary: &Summary, args: &DemoArgs) -> Result<()> {
    let mut out = out::stdout();
    let table = class_table(summary);
    let headings: Vec<&str> = table.headings.iter().map(String::as_str).collect();
    out::table(&mut out, &headings, table.numeric_columns, &table.rows)?;
    writeln!(out)?;
    let peaks = summary
        .peak_bytes
        .iter()
        .map(|(side, peak)| format!("{} {}", side.name(), number::bytes(peak.median)));
    writeln!(
        out,
        "peak memory above the data (median turn): {}",
        peaks.collect::<Vec<_>>().join(", ")
    )?;
    writeln!(
        out,
        "analytic queries, geometric mean of speed-ups: {} (measured, median of {} rounds each)",
        ratio_text(summary.analytic_mean),
        result.options.rounds
    )?;
    let mut ranked: Vec<_> = summary
        .queries
        .iter()
        .filter_map(|query| Some((query.speed_up?, query)))
        .collect();
    ranked.sort_by(|a, b| b.0.median.total_cmp(&a.0.median));
    if let (Some((best, best_query)), Some((worst, worst_query))) = (ranked.first(), ranked.last()) {
        writeln!(
            out,
            "best {} {} ({}), worst {} {} ({})",
            best_query.name,
            ratio_text(Some(best.median)),
            spread_text(Some(*best)),
            worst_query.name,
            ratio_text(Some(worst.median)),
            spread_text(Some(*worst))
        )?;
    }
    let right = if summary.wrong == 0 {
        "all right".to_owned()
    } else {
        format!("{} WRONG", summary.wrong)
    };
    writeln!(out, "answers checked: {}, {right}", summary.executions)?;
    if args.quick {
        writeln!(
            out,
            "--quick: the data is small and the rounds short; only the answers mean anything"
        )?;
    }
    writeln!(out, "report: {}", args.report.display())?;
    Ok(out.flush()?)
}
