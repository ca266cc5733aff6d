//! `corun-lab characterize`: arguments, rows to a file as they come, the report at the end. The work is in `lab-postgres`.
//!
//! Whatever ends a run, the rows before that are kept, and the report is made of them.

mod folder;

use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use lab_core::row::Row;
use lab_postgres::characterize::dbmbench::{A2, Query, ROWS};
use lab_postgres::characterize::options::{Options, Own, Which};
use lab_postgres::characterize::rows::{fact, file_of, read};
use lab_postgres::characterize::run::Prepared;
use lab_postgres::characterize::smt::Choice;
use lab_postgres::characterize::{diff, report};

use crate::facts;
use crate::interrupt;
use corun_cli::arguments::positive;
use corun_cli::failure::Usage;
use corun_cli::out;
use corun_cli::progress::Bars;
use folder::Folder;

/// Most clients at once: PostgreSQL's own usual limit, less what it reserves.
const CLIENTS_MAX: usize = 97;
/// Rows of T1 at most: 12 GB.
const ROWS_MAX: usize = 100_000_000;
/// Rows of T1 of `--quick`.
const ROWS_QUICK: usize = 50_000;
/// Runs of the user's own workload of each client in a turn.
const OWN_TIMES: usize = 20;

/// Arguments of `corun-lab characterize`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  corun-lab characterize                            a server of its own with the paper's three queries: report.html in under ten minutes
  corun-lab characterize --quick                    small data, few turns: shows what there would be to see, claims nothing
  corun-lab characterize --paper                    the paper's repetitions; about an hour
  corun-lab characterize --dsn 'host=/run/postgresql dbname=shop' --pgbench checkout.sql
                                                your server, your workload, one to ten clients
  corun-lab characterize --dsn postgresql://me@localhost/shop --sql report.sql --times 3 --concurrency 1,2,4
  corun-lab characterize --attach 4711 --seconds 30 what a running server does by itself
  corun-lab characterize --workload uss --without simulation,interference
  corun-lab characterize diff before after          what changed beyond the spreads, between two runs' folders

Every figure says how it came about: counters, the clock, the kernel's own accounts, sampling, a cache polluter, or a simulation under
valgrind. What a machine cannot do is named once and left out. Stopped by Ctrl-C, a run keeps its rows and makes the report of them."
)]
pub struct CharacterizeArgs {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compares two runs.
    Diff(DiffArgs),
}

/// Arguments of `corun-lab characterize diff`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun-lab characterize diff before after
  corun-lab characterize diff before/rows.jsonl after/rows.jsonl")]
struct DiffArgs {
    /// The folder of the first run, or its file of rows.
    a: PathBuf,
    /// Of the second.
    b: PathBuf,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Queries of DBmbench to run: utpcc, uss, unj, or none [default: all, unless there is --sql or --pgbench].
    #[arg(long, value_name = "LIST")]
    workload: Option<Queries>,

    /// Run this file of SQL as well; one run of the file is a query.
    #[arg(long, value_name = "FILE")]
    sql: Option<PathBuf>,

    /// Run this script of pgbench as well.
    #[arg(long, value_name = "FILE")]
    pgbench: Option<PathBuf>,

    /// Runs of the file or script of each client in a turn.
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = OWN_TIMES, allow_negative_numbers = true)]
    times: usize,

    /// A running server, as libpq takes it, without a password [default: a server of its own on an empty data folder].
    #[arg(long, value_name = "CONNINFO")]
    dsn: Option<String>,

    /// Allow to make DBmbench's tables in that server, in a schema of their own that is dropped afterwards.
    #[arg(long, requires = "dsn")]
    load: bool,

    /// Look at this process, a running server's postmaster, and all below it, and ask it nothing.
    #[arg(long, value_name = "PID", value_parser = positive, conflicts_with_all = ["dsn", "workload", "sql", "pgbench", "concurrency", "repetitions", "rows", "paper", "quick"], allow_negative_numbers = true)]
    attach: Option<usize>,

    /// How long to look at it.
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = 10, requires = "attach", allow_negative_numbers = true)]
    seconds: usize,

    /// Clients at once [default: 1,2,4,6,8,10].
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = positive, allow_negative_numbers = true)]
    concurrency: Vec<usize>,

    /// Turns at each concurrency [default: 3; with --paper 10].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    repetitions: Option<usize>,

    /// Rows of DBmbench's T1 [default: 1000000].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    rows: Option<usize>,

    /// Run DBmbench's queries on the embedded engine as well.
    #[arg(long)]
    embedded: bool,

    /// The paper's repetitions.
    #[arg(long, conflicts_with = "quick")]
    paper: bool,

    /// Small tables and few turns.
    #[arg(long)]
    quick: bool,

    /// Hyperthreading: as-is, both (switched off and on through the kernel's control file, and back) or affinity (one thread a core
    /// against all, without switching).
    #[arg(long, value_name = "HOW", default_value = "as-is")]
    smt: Choice,

    /// Leave out stages: sampling, interference, simulation.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    without: Vec<Stage>,

    /// Where rows.jsonl and report.html go; an earlier run's rows there become rows.before.jsonl.
    #[arg(long, value_name = "FOLDER", default_value = "characterization")]
    out: PathBuf,

    /// Print rows as one JSON object a line, instead of tables.
    #[arg(long)]
    json: bool,
}

/// A list of queries as typed.
#[derive(Clone, Debug)]
struct Queries(Vec<Query>);

impl FromStr for Queries {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let mut queries = Vec::new();
        for name in text.split(',').map(str::trim).filter(|&name| name != "none") {
            let query = Query::named(name).ok_or_else(|| {
                format!("no workload is called '{name}'; there are utpcc, uss, unj and none")
            })?;
            if !queries.contains(&query) {
                queries.push(query);
            }
        }
        Ok(Queries(queries))
    }
}

/// What can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Sampling,
    Interference,
    Simulation,
}

impl FromStr for Stage {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "sampling" => Ok(Stage::Sampling),
            "interference" => Ok(Stage::Interference),
            "simulation" => Ok(Stage::Simulation),
            other => Err(format!(
                "no stage is called '{other}'; there are sampling, interference and simulation"
            )),
        }
    }
}

impl RunArgs {
    fn options(&self) -> Result<Options> {
        let own = [("sql", &self.sql), ("pgbench", &self.pgbench)];
        let own: Vec<Own> = own
            .into_iter()
            .filter_map(|(name, file)| {
                file.as_ref().map(|file| Own {
                    name: name.to_owned(),
                    file: file.clone(),
                    times: self.times,
                })
            })
            .collect();
        let queries = match &self.workload {
            Some(queries) => queries.0.clone(),
            None if own.is_empty() => Query::ALL.to_vec(),
            None => Vec::new(),
        };
        if queries.is_empty() && own.is_empty() {
            bail!(Usage(
                "there is no workload\nhint: name one with --workload, --sql or --pgbench".to_owned()
            ));
        }
        let usual = if self.quick { ROWS_QUICK } else { ROWS };
        let rows = self.rows.unwrap_or(usual);
        if !(A2..=ROWS_MAX).contains(&rows) {
            bail!(Usage(format!("--rows must be {A2} to {ROWS_MAX}, not {rows}")));
        }
        let mut concurrency = match (self.concurrency.as_slice(), self.quick) {
            ([], true) => vec![1, 2],
            ([], false) => vec![1, 2, 4, 6, 8, 10],
            (given, _) => given.to_vec(),
        };
        concurrency.sort_unstable();
        concurrency.dedup();
        if let Some(many) = concurrency.last().filter(|&&many| many > CLIENTS_MAX) {
            bail!(Usage(format!(
                "--concurrency must be at most {CLIENTS_MAX}, not {many}"
            )));
        }
        let with = |stage: Stage| !self.without.contains(&stage);
        Ok(Options {
            server: match (&self.dsn, self.attach) {
                (_, Some(process)) => Which::Attached {
                    process: u32::try_from(process).unwrap_or(u32::MAX),
                    seconds: self.seconds,
                },
                (None, None) => Which::Ours,
                (Some(conninfo), None) => Which::Given {
                    conninfo: conninfo.clone(),
                    load: self.load,
                },
            },
            queries,
            embedded: self.embedded,
            own,
            rows,
            concurrency,
            paper: self.paper,
            repetitions: self.repetitions.or(self.quick.then_some(2)),
            sampling: with(Stage::Sampling),
            interference: with(Stage::Interference) && !self.quick,
            simulation: with(Stage::Simulation) && !self.quick,
            smt: self.smt,
        })
    }
}

/// Runs `corun-lab characterize`.
///
/// # Errors
/// Wrong arguments; a server that cannot be had or fails, after the report of what there is was made.
pub fn run(args: CharacterizeArgs) -> Result<()> {
    match args.command {
        Some(Command::Diff(args)) => run_diff(&args),
        None => run_all(&args.run),
    }
}

fn run_all(args: &RunArgs) -> Result<()> {
    let options = args.options()?;
    let stop = interrupt::asked_to_stop()?;
    let bars = Bars::new();
    // Whatever is wrong with the input is said before an earlier run's report is overwritten.
    let prepared = Prepared::new(options, &bars)?;
    let mut folder = Folder::open(&args.out)?;
    let topology = corun_topology::discover();
    let mut rows: Vec<Row> = Vec::new();
    let mut lost = None;
    let mut take = |row: Row| {
        let kept = folder.keep(&row).and_then(|()| match args.json {
            true => {
                let mut printed = Ok(());
                bars.suspend(|| printed = out::line(&row.to_json()).context("cannot write"));
                printed
            }
            false => Ok(()),
        });
        if let Err(error) = kept {
            lost.get_or_insert(error);
        }
        rows.push(row);
    };
    for (name, value) in facts::facts("each row says how it came about") {
        take(fact(&name, &value));
    }
    let ended = prepared.run(&topology, &stop, &bars, &mut take);
    if let Some(error) = lost {
        return Err(error);
    }
    let page = folder.report(&report::page(&rows).render())?;
    if !args.json {
        let mut stdout = out::stdout();
        write!(stdout, "{}", report::text(&rows))?;
        stdout.flush()?;
    }
    out::note(&format!(
        "rows: {}, report: {}",
        folder.rows().display(),
        page.display()
    ));
    if ended.is_err() {
        out::note("the run broke off: rows and report have what was known until then");
    }
    Ok(ended?)
}

fn run_diff(args: &DiffArgs) -> Result<()> {
    let take = |path: &PathBuf| -> Result<Vec<Row>> {
        let found = read(path)?;
        if let Some(sentence) = found.cut_off_text() {
            out::note(&format!("{}: {sentence}", file_of(path).display()));
        }
        Ok(found.rows)
    };
    let (a, b) = (take(&args.a)?, take(&args.b)?);
    let mut stdout = out::stdout();
    let names = (args.a.display().to_string(), args.b.display().to_string());
    write!(stdout, "{}", diff::diff(&a, &b).text(&names.0, &names.1))?;
    stdout.flush()?;
    Ok(())
}
