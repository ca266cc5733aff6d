//! `steps-sqlite`: see the README beside it.

use std::path::PathBuf;

use anyhow::Context;
use cachesim::steps::CodeCache;
use clap::{Args, Parser, Subcommand};
use model::steps::{CtxProfile, Knee, L1i};
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
        Action::Subject(child) => {
            let Child { map, kind, mode, tenants, customers, entries } = child;
            Ok(subject::run(&Subject { kind, mode, tenants, customers, entries }, &map)?)
        }
    }
}

fn choose_entries(options: &Choose) -> anyhow::Result<()> {
    let cache = CodeCache::lru(options.l1i)?;
    let mut traces = Vec::new();
    for kind in Kind::ALL {
        let subject =
            Subject { kind, mode: Mode::Each, tenants: 4, customers: options.customers, entries: Vec::new() };
        traces.push((kind, subject::trace(&subject)?));
    }
    let traces: Vec<_> = traces.iter().map(|(kind, traced)| (*kind, traced)).collect();
    let choice = choose::choose(&traces, &cache)?;
    for outcome in &choice.outcomes {
        println!("{outcome:?}");
    }
    let profile = CtxProfile { l1i: options.l1i, knee: Knee::default(), sites: Vec::new(), entries: choice.entries };
    std::fs::write(&options.profile, profile.to_string())
        .with_context(|| format!("cannot write {}", options.profile.display()))
}
