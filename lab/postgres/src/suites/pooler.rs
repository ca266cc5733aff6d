//! The `proxy` suite: PostgreSQL asked directly, through PgBouncer and through corun, by many clients at a time.
//!
//! Not here: what is run ([`crate::pooler::case`]), how sides take turns ([`crate::pooler::contest`]), the rows.

use std::path::PathBuf;

use clap::Args;
use corun_cli::arguments::positive_number;

use crate::fixture::address::Transport;
use crate::fixture::cluster::Programs;
use crate::fixture::pgbench::TPS;
use crate::pooler::case::{Case, Work, cases};
use crate::pooler::contest::{self, Compared};
use crate::pooler::fixture::Fixture;
use crate::pooler::sides::{Side, Spec, mixed, standard};
use crate::pooler::{SUITE, attacked, idle, rows};
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::{Plan, Runner};
use lab_core::suite::{Common, Rounds, Suite, SuiteArgs};

/// pgbench's scale where nothing is said: a million accounts, which fit into the server's memory.
const SCALE: usize = 10;
/// Sets of values that answers are compared with when a side starts.
const VALUES: usize = 3;

/// Arguments of `corun-lab bench proxy`.
#[derive(Clone, Debug, Default, Args)]
pub struct ProxyArgs {
    /// What every suite is told.
    #[command(flatten)]
    pub common: Common,

    /// How often sides take turns.
    #[command(flatten)]
    pub rounds: Rounds,

    /// Over Unix sockets, too.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,

    /// Hundreds of thousands of accounts [default: 10].
    #[arg(long, value_name = "SCALE", value_parser = positive_number, allow_negative_numbers = true)]
    pub scale: Option<f64>,

    /// An earlier program `corun` that is compared with the one of now, in the same run.
    #[arg(long, value_name = "PROGRAM")]
    pub before: Option<PathBuf>,

    /// Leave PgBouncer out.
    #[arg(long)]
    pub no_peers: bool,

    /// The program whose pooler is measured instead of the `corun` beside this one.
    #[arg(skip)]
    pub program: Option<PathBuf>,
}

impl SuiteArgs for ProxyArgs {
    const SUITE: Suite = Suite::Proxy;

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn plan(&self) -> Plan {
        self.rounds.plan(self.common.quick)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        run(self, runner)
    }
}

/// Runs the selected cases. Without `--full` and without `--case`, over TCP only. Without PostgreSQL there are rows that say so.
fn run(args: &ProxyArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let scale = scale(args)?;
    let transports = [Transport::Tcp, Transport::Unix];
    let all: Vec<Case> = transports
        .into_iter()
        .flat_map(|over| cases(args.common.quick, over))
        .collect();
    let selected = select(args, &all);
    if selected.is_empty() {
        return Err(args.common.no_such_case(Suite::Proxy, all.iter().map(Case::name)));
    }
    let programs = match Programs::find() {
        Ok(programs) => programs,
        Err(error) => {
            runner.progress().note(&error.to_string());
            for case in selected {
                let row = Row::unavailable(SUITE, &case.name(), TPS, "1/s", &error.to_string());
                runner.emit(row.with("target", "direct").with_all(&case.parameters()));
            }
            return Ok(());
        }
    };
    runner.progress().begin("proxy: filling PostgreSQL's tables", 1);
    let fixture = Fixture::new(
        programs,
        scale,
        args.program.as_deref(),
        args.before.as_deref(),
        !args.no_peers,
    );
    runner.progress().end();
    let fixture = fixture?;
    for found in [
        fixture.packaged.as_ref().err(),
        fixture.current.as_ref().err(),
        fixture.pg.corun.as_ref().err(),
    ] {
        if let Some(reason) = found.filter(|_| !args.no_peers) {
            runner.progress().note(reason);
        }
    }
    for transport in transports {
        let cases = |mixes: bool| {
            selected.iter().filter(move |case| {
                case.transport == transport
                    && !matches!(case.work, Work::Idle | Work::Attacked(_))
                    && mixes == matches!(case.work, Work::Mixed(_))
            })
        };
        for mixes in [false, true] {
            if cases(mixes).next().is_none() {
                continue;
            }
            let specs = if mixes {
                mixed(&fixture)
            } else {
                standard(&fixture)
            };
            let mut sides = start(&specs, &fixture, transport, args.common.quick);
            let compared = Compared::of(&specs);
            for case in cases(mixes) {
                let plan = plan(runner.plan());
                let progress = runner.progress();
                let result = contest::run(
                    case,
                    &fixture,
                    &mut sides,
                    &compared,
                    args.common.quick,
                    plan,
                    progress,
                )?;
                rows::emit(case, scale, &specs, &compared, &rows::METRICS, &result, runner);
                runner.cases_are_finished();
            }
        }
        for case in selected.iter().filter(|case| case.transport == transport) {
            match case.work {
                Work::Idle => idle::run(case, &fixture, args.common.quick, runner)?,
                Work::Attacked(attack) => attacked::run(case, attack, &fixture, args.common.quick, runner)?,
                _ => {}
            }
            runner.cases_are_finished();
        }
    }
    Ok(())
}

fn start(specs: &[Spec], fixture: &Fixture, transport: Transport, quick: bool) -> Vec<Side> {
    let values = if quick { 1 } else { VALUES };
    let start = |spec: &Spec| Side::start(spec.clone(), fixture, transport, values);
    specs.iter().map(start).collect()
}

/// Turns have no warm-up rounds: sides run from the start to the end, and the first answers compared have warmed them.
fn plan(plan: Plan) -> Plan {
    Plan { warmups: 0, ..plan }
}

fn select(args: &ProxyArgs, all: &[Case]) -> Vec<Case> {
    let every = args.full || !args.common.case.is_empty();
    all.iter()
        .filter(|case| args.common.selects(&case.name()) && (every || case.transport == Transport::Tcp))
        .copied()
        .collect()
}

fn scale(args: &ProxyArgs) -> Result<usize, BenchError> {
    match args.scale {
        None => Ok(if args.common.quick { 1 } else { SCALE }),
        Some(scale) if scale.fract() == 0.0 && (1.0..=1_000.0).contains(&scale) => Ok(scale as usize),
        Some(scale) => Err(BenchError::BadArgument(format!(
            "--scale {scale}: proxy takes a whole number, 1 to 1000, of 100,000 accounts each"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(case: Option<&str>) -> ProxyArgs {
        let mut args = ProxyArgs::default();
        args.common.case = case.map(str::to_owned).into_iter().collect();
        args
    }

    #[test]
    fn unix_sockets_are_for_those_who_ask() {
        let all: Vec<Case> = [Transport::Tcp, Transport::Unix]
            .into_iter()
            .flat_map(|over| cases(false, over))
            .collect();
        let over_unix = |args: &ProxyArgs| {
            let selected = select(args, &all);
            selected
                .iter()
                .filter(|case| case.transport == Transport::Unix)
                .count()
        };
        assert_eq!(over_unix(&args(None)), 0);
        assert_eq!(over_unix(&args(Some("simple_unix_c8"))), 1);
        let full = ProxyArgs {
            full: true,
            ..args(None)
        };
        assert_eq!(select(&full, &all).len(), all.len());
        assert!(select(&args(Some("nothing")), &all).is_empty());
    }

    #[test]
    fn impossible_scales_are_usage_errors() {
        for wrong in [0.5, 0.0, 2_000.0] {
            let args = ProxyArgs {
                scale: Some(wrong),
                ..args(None)
            };
            assert!(scale(&args).is_err_and(|error| error.is_usage()), "{wrong}");
        }
        assert_eq!(scale(&args(None)).ok(), Some(SCALE));
    }
}
