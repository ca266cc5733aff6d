//! [`run`]: one case on all sides, a turn of each in every round, with answers compared before and after.

use std::time::Duration;

use super::SUITE;
use super::case::Case;
use super::rows::METRICS;
use super::target::Target;
use super::ways::{Kind, LineUp, Plain, Split};
use super::work::{Measured, Turn, Work};
use corun_model::progress::Progress;
use lab_core::contest::{Contest, ContestResult, SideResult};
use lab_core::error::BenchError;
use lab_core::run::Plan;

/// How long connections of the last turn may close.
const PAUSE: Duration = Duration::from_millis(200);

/// Sides that others are shown beside. A comparison with them does not go on until it is decided: it is with what `auto` and `range`
/// replace that nothing may be slower.
const REFERENCES: [&str; 3] = ["direct", "constant", "parallel"];

/// How a case is run.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Small turns that claim nothing.
    pub quick: bool,
    /// How many of them.
    pub plan: Plan,
}

/// Runs a case.
///
/// # Errors
/// When the server is gone. What a side failed at is in its result.
pub fn run(
    case: &Case,
    line_up: &LineUp,
    targets: &mut [Target],
    work: &mut dyn Work,
    how: How,
    progress: &dyn Progress,
) -> Result<ContestResult<Measured>, BenchError> {
    let decided = line_up
        .pairs
        .iter()
        .filter(|pair| !REFERENCES.contains(&pair.versus))
        .map(|pair| (pair.subject, pair.other));
    let decided: Vec<(usize, usize)> = decided.collect();
    let contest = Contest {
        name: &case.name(),
        pairs: &decided,
        controls: &[line_up.control],
        metric: &METRICS[0],
        plan: how.plan,
    };
    progress.begin(
        &format!("{SUITE} {}: comparing answers", case.name()),
        targets.len() as u64,
    );
    let mut known = Vec::with_capacity(targets.len());
    for target in targets.iter() {
        let mut side = SideResult {
            gone: target.contender.gone().cloned(),
            ..SideResult::default()
        };
        look(target, work, !how.quick, &mut side);
        known.push(side);
        progress.advance(1);
    }
    progress.begin(&format!("{SUITE} {}", case.name()), how.plan.repetitions as u64);
    let mut result = contest.run(known, progress, |place, round| {
        if !how.quick {
            std::thread::sleep(PAUSE);
        }
        let target = &mut targets[place];
        let turn = Turn {
            clients: case.clients,
            quick: how.quick,
            seed: round + 1,
            plain: match target.spec.kind {
                Kind::Direct(plain) => plain,
                Kind::Corun(_) => Plain::Usual,
            },
        };
        let measured = counted(target, work, turn);
        // A proxy that has ended says more than what its clients saw of that.
        let alive = target.contender.alive();
        alive
            .and(measured)
            .map_err(|error| target.contender.failure(&error))
    });
    progress.end();
    for (target, side) in targets.iter().zip(&mut result.sides) {
        look(target, work, false, side);
        let in_parts = side.values(|round| round.in_parts_percent);
        if must_split(target) && in_parts.iter().all(|&part| part == 0.0) {
            side.wrong
                .get_or_insert_with(|| "no query ran in parts".to_owned());
        }
    }
    if let Some(wrong) = work.close()? {
        // Whose turn it was cannot be told: all sides wrote the same tables.
        for side in &mut result.sides {
            side.wrong.get_or_insert_with(|| wrong.clone());
        }
    }
    Ok(result)
}

/// Lets so many clients of each side do a little, so that all its connections are there.
pub fn connect(targets: &[Target], work: &mut dyn Work, clients: usize) -> Result<(), BenchError> {
    let turn = Turn {
        clients,
        quick: true,
        seed: 1,
        plain: Plain::Usual,
    };
    for target in targets {
        if let Ok(address) = target.contender.address() {
            work.turn(address, turn)?;
        }
    }
    Ok(())
}

/// Whether a side's rows mean nothing if it split nothing.
fn must_split(target: &Target) -> bool {
    matches!(&target.spec.kind, Kind::Corun(ways) if matches!(ways.split, Split::Parts { .. }))
        && target.contender.gone().is_none()
}

/// A turn, with how many of the queries that may be split were.
fn counted(
    target: &Target,
    work: &mut dyn Work,
    turn: Turn,
) -> Result<(Measured, Option<String>), BenchError> {
    let address = target.contender.address()?.clone();
    let before = target.splits()?;
    let (mut measured, wrong) = work.turn(&address, turn)?;
    if let (Some((split, whole)), Some(after)) = (before, target.splits()?) {
        let (split, whole) = ((after.0 - split) as f64, (after.1 - whole) as f64);
        measured.in_parts_percent = (split + whole > 0.0).then(|| 100.0 * split / (split + whole));
    }
    Ok((measured, wrong))
}

/// Compares a side's answers, unless it is gone.
fn look(target: &Target, work: &mut dyn Work, thorough: bool, side: &mut SideResult<Measured>) {
    if side.gone.is_some() {
        return;
    }
    let compared = target
        .contender
        .address()
        .and_then(|address| work.compare(address, thorough));
    match compared {
        Ok(wrong) => side.wrong = side.wrong.take().or(wrong),
        Err(error) => side.gone = Some(target.contender.failure(&error)),
    }
}
