//! [`run`]: one case on all sides, a turn of each in every round, with answers compared before and after.

use std::time::Duration;

use super::SUITE;
use super::case::Case;
use super::target::{Target, gone};
use super::ways::{Kind, LineUp, Plain};
use super::work::{Measured, Turn, Work};
use crate::error::BenchError;
use crate::progress::Progress;
use crate::proxy::turns::{self, Compared};
use crate::run::Plan;

/// How long connections of the last turn may close.
const PAUSE: Duration = Duration::from_millis(200);

/// Sides that others are shown beside. A comparison with them does not go on until it is decided: it is with what `auto` and `range`
/// replace that nothing may be slower.
const REFERENCES: [&str; 3] = ["direct", "constant", "parallel"];

/// What a side gave.
pub type Track = turns::Track<Measured>;
/// What all sides gave.
pub type Tracks = turns::Tracks<Measured>;

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
/// When the server is gone. What a side failed at is in its track.
pub fn run(
    case: &Case,
    line_up: &LineUp,
    targets: &mut [Target],
    work: &mut dyn Work,
    how: How,
    progress: &dyn Progress,
) -> Result<Tracks, BenchError> {
    let compared = Compared {
        pairs: line_up
            .pairs
            .iter()
            .filter(|pair| !REFERENCES.contains(&pair.versus))
            .map(|pair| (pair.subject, pair.other))
            .collect(),
        control: line_up.control,
    };
    progress.begin(
        &format!("{SUITE} {}: comparing answers", case.name()),
        targets.len() as u64,
    );
    let mut tracks: Vec<Track> = Vec::with_capacity(targets.len());
    for target in targets.iter() {
        let mut track = Track {
            gone: target.gone().cloned(),
            ..Track::default()
        };
        look(target, work, !how.quick, &mut track);
        tracks.push(track);
        progress.advance(1);
    }
    progress.begin(&format!("{SUITE} {}", case.name()), how.plan.repetitions as u64);
    let rate = |round: &Measured| Some(round.tps);
    let mut tracks = turns::take(tracks, &compared, how.plan, progress, rate, |place, round| {
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
        let measured = target
            .address()
            .cloned()
            .and_then(|address| work.turn(&address, turn));
        // A proxy that has ended says more than what its clients saw of that.
        let alive = target.alive();
        alive.and(measured).map_err(|error| gone(&target.spec, &error))
    });
    progress.end();
    for (target, track) in targets.iter().zip(&mut tracks.sides) {
        look(target, work, false, track);
    }
    if let Some(wrong) = work.close()? {
        // Whose turn it was cannot be told: all sides wrote the same tables.
        for track in &mut tracks.sides {
            track.wrong.get_or_insert_with(|| wrong.clone());
        }
    }
    Ok(tracks)
}

/// Compares a side's answers, unless it is gone.
fn look(target: &Target, work: &mut dyn Work, thorough: bool, track: &mut Track) {
    if track.gone.is_some() {
        return;
    }
    let compared = target
        .address()
        .and_then(|address| work.compare(address, thorough));
    match compared {
        Ok(wrong) => track.wrong = track.wrong.take().or(wrong),
        Err(error) => track.gone = Some(gone(&target.spec, &error)),
    }
}
