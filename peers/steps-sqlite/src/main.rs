//! `steps-sqlite`: see the README beside it.

use std::path::PathBuf;

use anyhow::Context;
use corun_cachesim::instruction_cache::CodeCache;
use clap::{Args, Parser, Subcommand};
use corun_exec::teams::patch::Entries;
use corun_model::teams::{CtxProfile, Knee, L1i};
use steps_sqlite::bench::{self, Misses, Times, Way};
use steps_sqlite::choose;
use steps_sqlite::subject::{self, Mode, Subject};
use steps_sqlite::tenant::Kind;

/// Teams for SQLite: functions of an engine nobody changed as CTX points
#[derive(Parser)]
#[command(version)]
struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Trace each kind of request and choose the functions that become CTX points
    Choose(Choose),
    /// Count instruction misses of serial runs and of teams (simulated), and measure times
    Bench(Bench),
    /// What is traced: this program, run by itself
    #[command(hide = true)]
    Subject(Child),
}

#[derive(Args)]
struct Choose {
    /// Where the profile is written
    #[arg(long)]
    profile: PathBuf,
    /// The instruction cache: bytes, ways, bytes of a line
    #[arg(long, default_value = "32k/8/64")]
    l1i: L1i,
    /// Customers of each tenant
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    customers: i64,
}

#[derive(Args)]
struct Bench {
    /// The profile: which functions are CTX points
    #[arg(long)]
    profile: PathBuf,
    /// Tenants, all in one team; several runs
    #[arg(long, value_delimiter = ',', default_values_t = [2, 5, 10, 20], value_parser = clap::value_parser!(u32).range(1..=100))]
    tenants: Vec<u32>,
    /// Instruction caches that are simulated
    #[arg(long, value_delimiter = ',', default_values = ["32k/8/64"])]
    l1i: Vec<L1i>,
    /// Customers of each tenant in traced runs, and in the first timed ones
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    customers: i64,
    /// Customers of each tenant in the second timed runs; 0: none
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(i64).range(0..=1_000_000))]
    many_customers: i64,
    /// Timed rounds; 0: no times
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    /// Seconds instead of minutes: ten tenants, three short timed rounds
    #[arg(long)]
    quick: bool,
    /// Rows as JSON, one a line
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Child {
    #[arg(long)]
    map: PathBuf,
    #[arg(long, value_parser = kind)]
    kind: Kind,
    #[arg(long)]
    mode: Mode,
    #[arg(long)]
    tenants: u32,
    #[arg(long)]
    customers: i64,
    #[arg(long = "entry")]
    entries: Vec<String>,
}

fn kind(text: &str) -> Result<Kind, String> {
    let found = Kind::ALL.into_iter().find(|kind| kind.name() == text);
    found.ok_or_else(|| "it is not update, join or prepare-and-run".to_string())
}

fn main() -> anyhow::Result<()> {
    match Command::parse().action {
        Action::Choose(options) => choose_entries(&options),
        Action::Bench(options) => run_bench(&options),
        Action::Subject(child) => {
            let Child {
                map,
                kind,
                mode,
                tenants,
                customers,
                entries,
            } = child;
            Ok(subject::run(
                &Subject {
                    kind,
                    mode,
                    tenants,
                    customers,
                    entries,
                },
                &map,
            )?)
        }
    }
}

fn choose_entries(options: &Choose) -> anyhow::Result<()> {
    let cache = CodeCache::lru(options.l1i)?;
    let mut traces = Vec::new();
    for kind in Kind::ALL {
        let subject = Subject {
            kind,
            mode: Mode::Each,
            tenants: 4,
            customers: options.customers,
            entries: Vec::new(),
        };
        traces.push((kind, subject::trace(&subject)?));
    }
    let traces: Vec<_> = traces.iter().map(|(kind, traced)| (*kind, traced)).collect();
    // Any function that every request enters shows what runs between two members.
    let team = Subject {
        kind: Kind::Join,
        mode: Mode::Team,
        tenants: 3,
        customers: options.customers,
        entries: vec!["sqlite3_step".to_string()],
    };
    let choice = choose::choose(&traces, &subject::trace(&team)?, &cache)?;
    for outcome in &choice.outcomes {
        println!("{outcome:?}");
    }
    let profile = CtxProfile {
        l1i: options.l1i,
        knee: Knee::default(),
        sites: Vec::new(),
        entries: choice.entries,
    };
    std::fs::write(&options.profile, profile.to_string())
        .with_context(|| format!("cannot write {}", options.profile.display()))
}

fn run_bench(options: &Bench) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(&options.profile)
        .with_context(|| format!("cannot read {}", options.profile.display()))
        .context("make a profile with: steps-sqlite choose --profile FILE")?;
    let profile: CtxProfile = text
        .parse()
        .with_context(|| options.profile.display().to_string())?;
    // Here, so that a name that does not fit is not an error of a traced child.
    let known = Entries::of_this_process()?;
    for name in &profile.entries {
        known
            .find(name)
            .with_context(|| options.profile.display().to_string())?;
    }
    let caches: Result<Vec<CodeCache>, _> = options.l1i.iter().map(|&l1i| CodeCache::lru(l1i)).collect();
    let caches = caches?;
    let (tenants, rounds, requests) = match options.quick {
        true => (vec![10], options.rounds.min(3), 50),
        false => (options.tenants.clone(), options.rounds, 300),
    };
    for kind in Kind::ALL {
        for &tenants in &tenants {
            let rows = bench::misses(kind, tenants, options.customers, &profile.entries, &caches)?;
            for (l1i, row) in options.l1i.iter().zip(&rows) {
                print_misses(*l1i, row, options.json);
            }
        }
    }
    let sizes = [options.customers, options.many_customers];
    for customers in sizes
        .into_iter()
        .filter(|&customers| customers > 0 && rounds > 0 && !(options.quick && customers > 1000))
    {
        for kind in Kind::ALL {
            for &tenants in tenants
                .iter()
                .filter(|&&tenants| tenants >= 10 || options.tenants.len() == 1)
            {
                let row = bench::times(kind, tenants, customers, &profile.entries, rounds, requests)?;
                print_times(&row, options.json);
            }
        }
    }
    Ok(())
}

fn print_misses(l1i: L1i, row: &Misses, json: bool) {
    if json {
        let row = serde_json::json!({
            "figure": "sqlite-misses", "operation": row.kind.name(), "team_size": row.tenants, "l1i": l1i.to_string(),
            "source": "simulated", "instructions_per_op": row.instructions, "footprint_bytes": row.footprint_bytes,
            "l1i_misses_per_op_serial": row.serial, "l1i_misses_per_op_team": row.team, "ctx_calls_per_op": row.calls,
            "reduction_percent": row.reduction_percent(), "l1i_misses_additional": row.additional,
            "additional_reduction_percent": row.additional_reduction_percent(),
        });
        println!("{row}");
        return;
    }
    let additional = match (row.additional, row.additional_reduction_percent()) {
        (Some(misses), Some(percent)) => format!("{misses:7.1} ({percent:5.1} % fewer)"),
        _ => "-".to_string(),
    };
    println!(
        "misses {:16} team of {:3}  L1-I {l1i} (simulated)  {:6} instructions, {:4} KiB  serial {:7.1}  team {:7.1} ({:5.1} % fewer)  \
         each further member {additional}  CTX calls {:.1}",
        row.kind.name(),
        row.tenants,
        row.instructions,
        row.footprint_bytes / 1024,
        row.serial,
        row.team,
        row.reduction_percent(),
        row.calls,
    );
}

fn print_times(row: &Times, json: bool) {
    for (way, ns) in &row.ns {
        let ratio = row
            .ratio
            .iter()
            .find(|(one, _)| one == way)
            .map_or(f64::NAN, |(_, ratio)| *ratio);
        let (operation, mode) = (row.kind.name(), way.name());
        if json {
            let row = serde_json::json!({
                "figure": "sqlite-time", "operation": operation, "team_size": row.tenants, "customers": row.customers,
                "mode": mode, "source": "measured", "ns_per_op": ns, "ratio": ratio,
            });
            println!("{row}");
        } else {
            let note = if *way == Way::SerialAgain {
                "  (serial against serial: chance)"
            } else {
                ""
            };
            println!(
                "time   {operation:16} team of {:3}  {:6} customers  {mode:14} {ns:9.0} ns  serial/this {ratio:5.2}{note}",
                row.tenants, row.customers,
            );
        }
    }
}
