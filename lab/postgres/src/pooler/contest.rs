//! [`run`]: one case on all sides, a turn of each in every round.
//!
//! ```text
//!   a turn: wait, read the CPU clock of the side, pgbench, read it again; after transfers, balances and history must agree
//!   after the last round, every side: its answers once more
//! ```
//!
//! pgbench, server and pooler share all CPUs, as they would; nothing is bound here.

use std::path::Path;
use std::time::Duration;

use super::case::{Case, Work};
use super::fixture::Fixture;
use super::rows::METRICS;
use super::sides::{Kind, Side, Spec};
use super::transfers::Transfers;
use crate::fixture::pgbench::{self, Load, Script};
use corun_model::progress::Progress;
use lab_core::contest::{Contest, ContestResult, Gone, SideResult};
use lab_core::error::BenchError;
use lab_core::run::Plan;

/// What a turn of a side gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Transactions a second.
    pub tps: f64,
    /// Half of the transactions took at most so long, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 transactions.
    pub p99_us: f64,
    /// CPU time of the pooler for each transaction, its clients' connecting included; `None` where there is no pooler.
    pub proxy_cpu_us_per_tx: Option<f64>,
    /// Resident memory of the pooler after the turn.
    pub rss_bytes: Option<f64>,
}

/// What is compared with what, by places among the sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Subject and other.
    pub pairs: Vec<(usize, usize)>,
    /// The side that runs twice a round.
    pub control: usize,
}

impl Compared {
    /// Each further way of corun with the first, and the first with everything that is not corun.
    pub fn of(specs: &[Spec]) -> Compared {
        let corun = |place: &usize| matches!(specs[*place].kind, Kind::Corun(_));
        let (ways, others): (Vec<usize>, Vec<usize>) = (0..specs.len()).partition(corun);
        let control = ways.first().copied().unwrap_or_default();
        let further = ways.into_iter().skip(1).map(|way| (way, control));
        Compared {
            pairs: further
                .chain(others.into_iter().map(|other| (control, other)))
                .collect(),
            control,
        }
    }
}

/// How long a turn lasts. pgbench counts the time in which clients connect, so many get more.
pub fn seconds(quick: bool, clients: usize) -> usize {
    if quick { 1 } else { 3 + clients / 200 }
}

/// Runs a case.
///
/// # Errors
/// When files cannot be written or the server is gone. What a side failed at is in its result.
pub fn run(
    case: &Case,
    fixture: &Fixture,
    sides: &mut [Side],
    compared: &Compared,
    quick: bool,
    plan: Plan,
    progress: &dyn Progress,
) -> Result<ContestResult<Measured>, BenchError> {
    let script = match case.work {
        Work::Transfers => Script::TpcB,
        Work::Mixed(literals) => Script::Files(fixture.scripts(literals)?),
        Work::Select | Work::Storm | Work::Idle | Work::Attacked(_) => Script::SelectOnly,
    };
    let known = sides.iter().map(|side| SideResult {
        wrong: side.wrong.clone(),
        gone: match side.spec.lacks(case.protocol, case.transport) {
            Some(reason) => Some(Gone::Unavailable(reason)),
            None => side.contender.gone().cloned(),
        },
        rounds: Vec::new(),
    });
    let known = known.collect();
    let folder = fixture.pg.folder("pgbench")?;
    let load = Load {
        reconnect: case.work == Work::Storm,
        ..Load::new(
            script,
            case.protocol,
            case.clients,
            pgbench::Duty::Seconds(seconds(quick, case.clients)),
        )
    };
    let contest = Contest {
        name: &case.name(),
        pairs: &compared.pairs,
        controls: &[compared.control],
        metric: &METRICS[0],
        plan,
    };
    progress.begin(&format!("proxy {}", case.name()), plan.repetitions as u64);
    let mut result = contest.run(known, progress, |place, round| {
        if !quick {
            // The last turn's connections close, more of them take longer.
            std::thread::sleep(Duration::from_millis(200 + case.clients as u64));
        }
        let side = &mut sides[place];
        measure(case, fixture, &load, &folder, side, round).map_err(|error| side.contender.failure(&error))
    });
    progress.end();
    // Every side's answers once more: load may have left something behind in it.
    for (side, given) in sides.iter_mut().zip(&mut result.sides) {
        if given.gone.is_none() {
            side.compare(fixture, 1);
            given.wrong = given.wrong.take().or_else(|| side.wrong.clone());
            given.gone = side.contender.gone().cloned();
        }
    }
    Ok(result)
}

fn measure(
    case: &Case,
    fixture: &Fixture,
    load: &Load,
    folder: &Path,
    side: &mut Side,
    round: usize,
) -> Result<(Measured, Option<String>), BenchError> {
    let transfers = match case.work {
        Work::Transfers => Some(Transfers::open(&mut fixture.cluster.client()?)?),
        _ => None,
    };
    let before = side.contender.cpu_us();
    let program = fixture.pg.programs.path("pgbench");
    let turn = pgbench::run(&program, load, side.contender.address()?, round + 1, folder);
    // A pooler that has ended says more than what its clients saw of that.
    side.contender.alive()?;
    let (turn, after) = (turn?, side.contender.cpu_us());
    let wrong = match transfers {
        Some(transfers) => transfers.close(&mut fixture.cluster.client()?, turn.transactions)?,
        None => None,
    };
    let used = before.zip(after).map(|(before, after)| after - before);
    let measured = Measured {
        tps: turn.tps,
        p50_us: turn.p50_us,
        p99_us: turn.p99_us,
        proxy_cpu_us_per_tx: used.map(|used| used / turn.transactions as f64),
        rss_bytes: side.contender.resident_bytes(),
    };
    Ok((measured, wrong))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pooler::sides::Corun;

    fn specs(names: &[&str]) -> Vec<Spec> {
        let spec = |name: &&str| Spec {
            name: (*name).to_owned(),
            kind: match *name {
                "direct" => Kind::Direct,
                "pgbouncer" => Kind::PgBouncer {
                    program: Err("unused".to_owned()),
                    processes: 1,
                },
                _ => Kind::Corun(Corun::DEFAULT),
            },
            pool: 8,
        };
        names.iter().map(spec).collect()
    }

    #[test]
    fn corun_is_compared_with_others_and_its_ways_with_the_first() {
        let pairs = |names: &[&str]| {
            let Compared { pairs, control } = Compared::of(&specs(names));
            (pairs, control)
        };
        assert_eq!(
            pairs(&["direct", "pgbouncer", "corun"]),
            (vec![(2, 0), (2, 1)], 2)
        );
        assert_eq!(
            pairs(&["direct", "corun_off", "corun_on", "corun_auto"]),
            (vec![(2, 1), (3, 1), (1, 0)], 1)
        );
    }
}
