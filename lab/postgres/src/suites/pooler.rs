//! The `proxy` suite: PostgreSQL asked directly, through PgBouncer and through corun, by many clients at a time.
//!
//! Not here: what is run ([`crate::pooler::case`]), how sides take turns ([`crate::pooler::contest`]), the rows.

use crate::pooler::address::Transport;
use crate::pooler::bed::Bed;
use crate::pooler::case::{Case, Work, cases};
use crate::pooler::contest::{self, Compared};
use crate::pooler::postgres::Programs;
use crate::pooler::sides::{Side, Spec, mixed, standard};
use crate::pooler::{SUITE, attacked, idle, rows};
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::{Plan, Runner};
use lab_core::suite::SuiteArgs;

/// pgbench's scale where nothing is said: a million accounts, which fit into the server's memory.
const SCALE: usize = 10;
/// Sets of values that answers are compared with when a side starts.
const VALUES: usize = 3;

/// Runs the cases `args` select. Without `--full` and without `--case`, over TCP only.
///
/// # Errors
/// When no case matches, an argument is impossible, or the test bed cannot be set up. Without PostgreSQL there are rows that say so.
pub fn run(args: &SuiteArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let scale = scale(args)?;
    let transports = [Transport::Tcp, Transport::Unix];
    let all: Vec<Case> = transports
        .into_iter()
        .flat_map(|over| cases(args.quick, over))
        .collect();
    let selected = select(args, &all);
    if selected.is_empty() {
        return Err(args.no_such_case(all.iter().map(Case::name)));
    }
    let programs = match Programs::find() {
        Ok(programs) => programs,
        Err(error) => {
            runner.progress().note(&error.to_string());
            for case in selected {
                let row =
                    Row::unavailable(SUITE, &case.name(), crate::pooler::TPS, "1/s", &error.to_string());
                runner.emit(row.with("target", "direct").with_all(&case.parameters()));
            }
            return Ok(());
        }
    };
    runner.progress().begin("proxy: filling PostgreSQL's tables", 1);
    let bed = Bed::new(
        programs,
        scale,
        args.program.as_deref(),
        args.before.as_deref(),
        args.peers,
    );
    runner.progress().end();
    let bed = bed?;
    for found in [
        bed.packaged().as_ref().err(),
        bed.current().as_ref().err(),
        bed.corun().as_ref().err(),
    ] {
        if let Some(reason) = found.filter(|_| args.peers) {
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
            let specs = if mixes { mixed(&bed) } else { standard(&bed) };
            let mut sides = start(&specs, &bed, transport, args.quick);
            let compared = Compared::of(&specs);
            for case in cases(mixes) {
                let plan = plan(runner.plan());
                let progress = runner.progress();
                let result = contest::run(case, &bed, &mut sides, &compared, args.quick, plan, progress)?;
                rows::emit(case, scale, &specs, &compared, &rows::METRICS, &result, runner);
            }
        }
        for case in selected.iter().filter(|case| case.transport == transport) {
            match case.work {
                Work::Idle => idle::run(case, &bed, args.quick, runner)?,
                Work::Attacked(attack) => attacked::run(case, attack, &bed, args.quick, runner)?,
                _ => {}
            }
        }
    }
    Ok(())
}

fn start(specs: &[Spec], bed: &Bed, transport: Transport, quick: bool) -> Vec<Side> {
    let values = if quick { 1 } else { VALUES };
    let start = |spec: &Spec| Side::start(spec.clone(), bed, transport, values);
    specs.iter().map(start).collect()
}

/// Turns have no warm-up rounds: sides run from the start to the end, and the first answers compared have warmed them.
fn plan(plan: Plan) -> Plan {
    Plan { warmups: 0, ..plan }
}

fn select(args: &SuiteArgs, all: &[Case]) -> Vec<Case> {
    let every = args.full || args.case.is_some();
    all.iter()
        .filter(|case| args.selects(&case.name()) && (every || case.transport == Transport::Tcp))
        .copied()
        .collect()
}

fn scale(args: &SuiteArgs) -> Result<usize, BenchError> {
    match args.scale {
        None => Ok(if args.quick { 1 } else { SCALE }),
        Some(scale) if scale.fract() == 0.0 && (1.0..=1_000.0).contains(&scale) => Ok(scale as usize),
        Some(scale) => Err(BenchError::BadArgument(format!(
            "--scale {scale}: proxy takes a whole number, 1 to 1000, of 100,000 accounts each"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_core::suite::Suite;

    fn args(case: Option<&str>) -> SuiteArgs {
        SuiteArgs {
            case: case.map(str::to_owned),
            ..SuiteArgs::new(Suite::Proxy)
        }
    }

    #[test]
    fn unix_sockets_are_for_those_who_ask() {
        let all: Vec<Case> = [Transport::Tcp, Transport::Unix]
            .into_iter()
            .flat_map(|over| cases(false, over))
            .collect();
        let over_unix = |args: &SuiteArgs| {
            let selected = select(args, &all);
            selected
                .iter()
                .filter(|case| case.transport == Transport::Unix)
                .count()
        };
        assert_eq!(over_unix(&args(None)), 0);
        assert_eq!(over_unix(&args(Some("simple_unix_c8"))), 1);
        let full = SuiteArgs {
            full: true,
            ..args(None)
        };
        assert_eq!(select(&full, &all).len(), all.len());
        assert!(select(&args(Some("nothing")), &all).is_empty());
    }

    #[test]
    fn impossible_scales_are_usage_errors() {
        for wrong in [0.5, 0.0, 2_000.0] {
            let args = SuiteArgs {
                scale: Some(wrong),
                ..args(None)
            };
            assert!(scale(&args).is_err_and(|error| error.is_usage()), "{wrong}");
        }
        assert_eq!(scale(&args(None)).ok(), Some(SCALE));
    }
}
