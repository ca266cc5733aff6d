//! `corun-lab demo`: the main job. Arguments, progress, the closing table and the report file; the work is in `lab-engine`.

use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail};
use clap::Args;
use corun_model::cache::coschedule::{PolicyError, PolicyName};
use corun_model::progress::Progress;
use lab_core::figures;
use lab_core::report::text;
use lab_core::row::Row;
use lab_engine::demo::live::{self, Live, LiveOptions};
use lab_engine::demo::part::Part;
use lab_engine::demo::rows::rows;
use lab_engine::demo::served::{self, Served, ServedOptions};
use lab_engine::demo::{Demo, DemoOptions};

use crate::facts;
use crate::report_file::ReportFile;
use corun_cli::arguments::{positive, positive_number};
use corun_cli::failure::Failed;
use corun_cli::out;
use corun_cli::progress::Bars;

/// Arguments of `corun-lab demo`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun-lab demo                                  about four minutes; writes report.html
  corun-lab demo --parts served --clients 8       eight clients over PostgreSQL's protocol only, about a minute
  corun-lab demo --parts analytic --policies none stock against corun only, about two minutes
  corun-lab demo --parts live --terminals 20      transactions beside analytic clients only, about a minute
  corun-lab demo --quick                          a few seconds, small data: checks answers, claims nothing about speed
  corun-lab demo --scale 5 --clients 8 --rounds 10
  corun-lab demo --json --report /tmp/demo.html   one JSON object a line on stdout

Part served: clients over PostgreSQL's protocol ask a server with stock DataFusion and one with corun's joins and coordinator, both in
this process. Every answer is checked.
Part analytic: all sides run in this process over the same data: stock DataFusion, DataFusion with corun's joins, and the same
behind a coordinator of each policy, round by round. Every answer is checked against one computed before.
Part live: terminals run TPC-C's standard mix on corun's store in memory, alone, beside clients that ask stock DataFusion about
the same tables, and beside the same clients with corun's joins. Every answer is checked against what holds at every moment of
such tables, and TPC-C's consistency conditions at the end of each turn.
A wrong answer ends with exit code 1.")]
pub struct DemoArgs {
    /// Which parts: served, analytic, live.
    #[arg(long, value_name = "LIST", default_value = "served,analytic,live")]
    parts: Parts,

    /// Scale factor of the Star Schema Benchmark data (1 is 6 million fact rows) [default: 1].
    #[arg(long, value_name = "SCALE", value_parser = positive_number, allow_negative_numbers = true)]
    scale: Option<f64>,

    /// Seconds of each side's turn in a round [default: 6; served and live: 3].
    #[arg(long, value_name = "SECONDS", value_parser = positive_number, allow_negative_numbers = true)]
    seconds: Option<f64>,

    /// Rounds; each is one turn of every side [default: 5; served and live: 3].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    rounds: Option<usize>,

    /// Clients that run analytic joins [default: one a core; served: 4; live: 2].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    clients: Option<usize>,

    /// Clients that run short statements; 0 for none [default: half as many as cores, at least 1].
    #[arg(long, value_name = "N")]
    short_clients: Option<usize>,

    /// Clients that run transactions, in part live [default: 10].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    terminals: Option<usize>,

    /// Warehouses of the transactions' data, 100 MB and more each, in part live [default: 2].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    warehouses: Option<usize>,

    /// CPUs the terminals are pinned to, in part live [default: all].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    workers: Option<usize>,

    /// Partitions of a plan: how many threads one query can use [default: all cores].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    partitions: Option<usize>,

    /// Policies of the coordinator, one side each: fifo, sls, mls, learned, auto; or none.
    #[arg(long, value_name = "LIST", default_value = "fifo,auto")]
    policies: Policies,

    /// Seed of data, constants and order.
    #[arg(long, value_name = "SEED", default_value_t = corun_workloads::ssb::SEED)]
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

/// The parts of the demo, as typed.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    served: bool,
    analytic: bool,
    live: bool,
}

impl FromStr for Parts {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let mut parts = Parts::default();
        for name in text.split(',') {
            match name.trim() {
                "served" => parts.served = true,
                "analytic" => parts.analytic = true,
                "live" => parts.live = true,
                other => {
                    return Err(format!(
                        "no part is called '{other}'; there are served, analytic and live"
                    ));
                }
            }
        }
        Ok(parts)
    }
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
        let cores = lab_core::suite::all_cores();
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

    fn served_options(&self) -> ServedOptions {
        let (scale, seconds, rounds) = if self.quick { (0.02, 0.2, 2) } else { (1.0, 3.0, 3) };
        ServedOptions {
            scale: self.scale.unwrap_or(scale),
            seconds: self.seconds.unwrap_or(seconds),
            rounds: self.rounds.unwrap_or(rounds),
            clients: self.clients.unwrap_or(4),
            seed: self.seed,
            partitions: self.partitions.unwrap_or(lab_core::suite::all_cores()),
        }
    }

    fn live_options(&self) -> LiveOptions {
        let cores = lab_core::suite::all_cores();
        let (divisor, seconds, warmup_seconds, rounds) = if self.quick {
            (100, 0.3, 0.05, 2)
        } else {
            (1, 3.0, 0.5, 3)
        };
        LiveOptions {
            warehouses: self.warehouses.unwrap_or(2),
            divisor,
            seconds: self.seconds.unwrap_or(seconds),
            warmup_seconds,
            rounds: self.rounds.unwrap_or(rounds),
            terminals: self.terminals.unwrap_or(10),
            workers: self.workers.unwrap_or(cores),
            clients: self.clients.unwrap_or(2),
            partitions: self.partitions.unwrap_or(cores),
            seed: self.seed,
        }
    }
}

/// Runs `corun-lab demo`.
///
/// # Errors
/// A report that cannot be written, an engine or a transaction that fails, or a wrong answer.
pub fn run(args: DemoArgs) -> Result<()> {
    let report = ReportFile::open(args.report.clone())?;
    let bars = Bars::new();
    let mut parts: Vec<Part> = Vec::new();
    // Options of the last part that make no sense are told before the first has run.
    let live = args
        .parts
        .live
        .then(|| Live::new(args.live_options()))
        .transpose()?;
    if args.parts.served {
        let served = Served::prepare(args.served_options(), &bars)?;
        parts.push(served::rows::rows(&served.play(&bars)?));
    }
    if args.parts.analytic {
        let demo = Demo::prepare(args.options(), &bars)?;
        if !args.json {
            bars.note(&plan_text(&args.options()));
        }
        parts.push(rows(&demo.play(&bars)?));
    }
    if let Some(live) = live {
        parts.push(live::rows::rows(&live.play(&bars)?));
    }
    drop(bars);
    let rows: Vec<Row> = parts.iter().flat_map(Part::figure_rows).collect();
    let drawn = |name, facts: &[_]| figures::page(name, &rows, facts, false).unwrap_or_default();
    let facts = facts::facts("measured; none simulated");
    report.finish(&drawn("demo", &facts).render())?;
    if args.json {
        for row in parts.iter().flat_map(|part| &part.rows) {
            out::json_line(row)?;
        }
        out::note(&format!("report: {}", args.report.display()));
    } else {
        let mut text = text::page(&drawn("demo-terminal", &[]), out::line_width());
        if args.quick {
            text += "--quick: the data is small and the rounds short; only the answers mean anything\n";
        }
        text += &format!("report: {}\n", args.report.display());
        let mut out = out::stdout();
        out.write_all(text.as_bytes())?;
        out.flush()?;
    }
    let wrong: Vec<&String> = parts.iter().flat_map(|part| &part.wrong).collect();
    if let Some(first) = wrong.first() {
        let answers: usize = parts.iter().map(|part| part.answers).sum();
        bail!(Failed(format!(
            "{} of {answers} answers were wrong\nhint: this is a bug in corun: please report it with the report file\ndetail: {first}",
            wrong.len()
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
