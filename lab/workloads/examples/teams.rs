//! Clients in teams beside clients on threads, on one worker: how much faster, and which teams they form (paper 003, Table 4).
//!
//! ```text
//! cargo run --release -p corun-workloads --no-default-features --example teams                   what the record has ([`RECORD`])
//! cargo run --release -p corun-workloads --no-default-features --example teams -- \
//!     payment 10 2 5 off:1 off:100 serial:100 on:100 on:100:16:32:8:largest                      something else
//!     |       |  | | sides: teams:clients[:team size:transactions:repeats:next team]
//!     |       |  | rounds
//!     |       |  seconds of each round of each side
//!     |       warehouses, or thousands of records
//!     tpcc, payment, no_delivery, or ycsb_a to ycsb_f, or even: reads of records drawn evenly
//! ```
//!
//! All sides of a run do the same work on the same data: in TPC-C the clients of a side share out the same terminals, ten a warehouse. One
//! client that is alone (`off:1`) sends the transactions of all of them in turns. As one terminal it would have one home warehouse, a
//! fraction of the data, which would stay in the caches.
//!
//! Sides take turns, in an order shuffled anew each round. Each side prints a line of JSON: transactions a second of time and of CPU time
//! (which other processes disturb less), its ratio to the first side's of the same round by CPU time (median, smallest, largest), and the
//! teams of its last round. A side that is named twice is the control. What it is not: a benchmark with a verdict; `corun-lab bench oltp`
//! is.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to its user"
)]

use std::time::{Duration, Instant};

use corun_model::teams::NextTeam;
use corun_workloads::corun::{self, CorunTpcc, CorunYcsb};
use corun_workloads::driver::{
    Measure, Outcome, RunError, RunOptions, TeamOptions, Teams, TpccWorkload, run_tpcc, run_ycsb,
};
use corun_workloads::engine::Durability;
use corun_workloads::random::Random;
use corun_workloads::tpcc::{self, DISTRICTS, Kind, Mix, Scale};
use corun_workloads::ycsb::{self, Database, Workload};

/// The allocator the program ships with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error>;

const USAGE: &str =
    "usage: teams [WORKLOAD SIZE SECONDS ROUNDS TEAMS:CLIENTS[:SIZE[:TRANSACTIONS[:REPEATS[:NEXT]]]]...]";

/// The runs of `records/*/teams.jsonl`.
const RECORD: [&str; 4] = [
    "even 5000 0.4 7 off:1 off:1 off:16 serial:16 on:4:4:0:8 on:8:8:0:8 on:16:16:0:8",
    "tpcc 32 0.5 5 off:1 off:1 off:32 serial:32 off:320 on:32:8:8:8 on:32:16:16:8",
    "tpcc 32 0.7 5 off:320 off:320 serial:320 on:320:8:8:8 auto:320:8:8:8",
    "payment 32 0.5 5 off:320 off:320 serial:320 on:320:8:8:8 auto:320:8:8:8",
];

/// One way of running the workload.
struct Side {
    text: String,
    options: RunOptions,
    tps: Vec<f64>,
    cpu_tps: Vec<f64>,
    ratios: Vec<f64>,
    last: Option<Outcome>,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.is_empty() {
        return contest(&arguments.join(" "));
    }
    RECORD.into_iter().try_for_each(contest)
}

/// Loads the data, runs all sides on it, and prints a line for each.
fn contest(text: &str) -> Result<(), Failure> {
    let mut arguments = text.split_whitespace();
    let mut next = || arguments.next().ok_or(USAGE);
    let (workload, size) = (next()?, next()?.parse::<u64>()?);
    let (seconds, rounds) = (next()?.parse::<f64>()?, next()?.parse::<usize>()?);
    let cpus = corun_topology::affinity::allowed_cpus()?;
    let mut sides = Vec::new();
    for text in arguments {
        let mut options = side(text)?;
        options.cpus = cpus.iter().copied().take(1).collect();
        sides.push(Side {
            text: text.to_owned(),
            options,
            tps: Vec::new(),
            cpu_tps: Vec::new(),
            ratios: Vec::new(),
            last: None,
        });
    }
    if sides.is_empty() {
        return Err(USAGE.into());
    }
    let started = Instant::now();
    let loaded = || eprintln!("{text}: loaded in {:.1} s", started.elapsed().as_secs_f64());
    match workload {
        "tpcc" | "payment" | "no_delivery" => {
            let mix = match workload {
                "payment" => Mix::only(Kind::Payment),
                "no_delivery" => Mix::NO_DELIVERY,
                _ => Mix::STANDARD,
            };
            let scale = Scale::standard(i16::try_from(size)?);
            let terminals = usize::try_from(size)? * usize::from(DISTRICTS.unsigned_abs());
            for side in &mut sides {
                side.options.terminals = terminals;
            }
            let store = corun::open(Durability::None, std::path::Path::new(""), 1)?;
            let engine = CorunTpcc::new(store)?;
            tpcc::load(&engine, scale, 1, 2, &|_| ())?;
            let workload = TpccWorkload {
                scale,
                load_seed: 1,
                mix,
            };
            loaded();
            run(&mut sides, (seconds, rounds), |options| {
                run_tpcc(&engine, &workload, options)
            })?;
            if let Some(wrong) = tpcc::check(&engine, scale)?.first() {
                return Err(format!("{text}: {wrong}").into());
            }
        }
        _ => {
            let (workload, database) = match workload.strip_prefix("ycsb_") {
                Some(name) => (name.parse()?, Database::new(size * 1000)),
                None if workload == "even" => (Workload::C, Database::evenly(size * 1000)),
                None => return Err(USAGE.into()),
            };
            let store = corun::open(Durability::None, std::path::Path::new(""), 1)?;
            let engine = CorunYcsb::new(store)?;
            ycsb::load(&engine, &database, 2, &|_| ())?;
            loaded();
            run(&mut sides, (seconds, rounds), |options| {
                run_ycsb(&engine, &database, workload, options)
            })?;
            if let Some(wrong) = ycsb::check(&engine, &database)?.first() {
                return Err(format!("{text}: {wrong}").into());
            }
        }
    }
    for side in &sides {
        println!("{}", line(text, side));
    }
    eprintln!("{text}: done after {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Reads `on:320:16:64:0:oldest`.
fn side(text: &str) -> Result<RunOptions, Failure> {
    let mut parts = text.split(':');
    let teams: Teams = parts.next().unwrap_or_default().parse()?;
    let mut number = |usual: usize| parts.next().map_or(Ok(usual), str::parse);
    let usual = TeamOptions::default();
    let clients = number(1)?;
    let team = TeamOptions {
        size_max: number(usual.size_max)?,
        transactions_max: number(usual.transactions_max)?,
        repeats_max: u32::try_from(number(0)?)?,
        next: match parts.next() {
            None => usual.next,
            Some("last") => NextTeam::LastMember,
            Some("largest") => NextTeam::Largest,
            Some("oldest") => NextTeam::Oldest,
            Some(other) => return Err(format!("next team: last, largest or oldest, not {other}").into()),
        },
        ..usual
    };
    Ok(RunOptions {
        clients,
        teams,
        team,
        ..RunOptions::default()
    })
}

fn run(
    sides: &mut [Side],
    (seconds, rounds): (f64, usize),
    run: impl Fn(&RunOptions) -> Result<Outcome, RunError>,
) -> Result<(), RunError> {
    let mut order: Vec<usize> = (0..sides.len()).collect();
    let mut random = Random::new(1, 0);
    for round in 0..rounds {
        // Shuffled, so that no side always follows the same one.
        random.shuffle(&mut order);
        for &at in &order {
            let side = &mut sides[at];
            // As many transactions as take about so long, found out by a warm-up.
            side.options.seed = 2 * round as u64 + 1;
            side.options.measure = Measure::Time(Duration::from_secs_f64(seconds / 4.0));
            let tps = run(&side.options)?.tps;
            side.options.seed += 1;
            side.options.measure = Measure::Transactions((tps * seconds) as u64 + 1);
            let before = cpu_seconds();
            let outcome = run(&side.options)?;
            let cpu = cpu_seconds() - before;
            side.tps.push(outcome.tps);
            side.cpu_tps.push((tps * seconds) / cpu.max(0.01));
            side.last = Some(outcome);
        }
        let first = sides.first().and_then(|side| side.cpu_tps.last().copied());
        for side in sides.iter_mut() {
            if let (Some(first), Some(own)) = (first, side.cpu_tps.last()) {
                side.ratios.push(own / first);
            }
        }
    }
    Ok(())
}

/// CPU time of this process so far, in steps of ten milliseconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn line(arguments: &str, side: &Side) -> String {
    let mut line = format!(
        "{{\"example\": \"teams\", \"arguments\": \"{arguments}\", \"label\": \"measured\", \"side\": \"{}\", \"tps\": {:.0}, \
         \"cpu_tps\": {:.0}, \"ratio\": {:.3}, \"ratio_min\": {:.3}, \"ratio_max\": {:.3}",
        side.text,
        median(&side.tps),
        median(&side.cpu_tps),
        median(&side.ratios),
        side.ratios.iter().copied().fold(f64::INFINITY, f64::min),
        side.ratios.iter().copied().fold(0.0, f64::max),
    );
    let Some(outcome) = &side.last else {
        return line + "}";
    };
    let done = outcome.committed() + outcome.rolled_back();
    line += &format!(
        ", \"retries_per_1000\": {:.2}",
        outcome.retried() as f64 * 1000.0 / done as f64
    );
    if let Some(kind) = outcome.kinds.first() {
        line += &format!(
            ", \"{}\": {{\"p50_us\": {:.0}, \"p99_us\": {:.0}}}",
            kind.kind, kind.p50_us, kind.p99_us
        );
    }
    if let Some(teams) = &outcome.teams {
        let all = teams.all();
        line += &format!(
            ", \"ready\": {:.1}, \"in\": {:.1}, \"out\": {:.1}, \"stray\": {:.3}",
            teams.members_ready(),
            all.members_in(),
            all.members_out(),
            all.stray_rate()
        );
        for one in &teams.operations {
            line += &format!(
                ", \"{}\": {{\"teams\": {}, \"in\": {:.1}, \"out\": {:.1}, \"stray\": {:.3}}}",
                one.name,
                one.teams,
                one.members_in(),
                one.members_out(),
                one.stray_rate()
            );
        }
    }
    line + "}"
}
