//! Measured time: sides of one loaded subject take turns in this process, untraced, and serial execution runs twice a round.
//!
//! A side's time is that of whole transactions (begin, the operation, commit), since reading a clock around an operation of half a
//! microsecond would measure the clock. Not here: what is simulated.

use super::SUBCOMMAND;
use super::job::{Mode, Pass};
use super::rows::{Shape, metric};
use super::subject::Subject;
use lab_core::error::BenchError;
use lab_core::order;
use lab_core::row::Row;
use lab_core::run::Plan;
use lab_core::stats::{Noise, PAIRS_NEAR_ONE, Spread, Verdict, not_slower, pair_ratios};

/// One way of running the workload, and how its rows name it.
pub(super) struct Contestant {
    pub(super) shape: Shape,
    pub(super) pass: Pass,
    /// Parameters beyond the shape's.
    pub(super) float: bool,
}

#[derive(Default)]
struct Track {
    ns: Vec<f64>,
    wrong: Vec<String>,
}

/// Runs the sides interleaved and gives their rows: `ns_per_op` of each, `ratio` versus the first, which must be the serial one, and the
/// A/A control. What was answered wrongly is in the rows and in the second list, one sentence each.
pub(super) fn contest(
    subject: &Subject,
    sides: &[Contestant],
    plan: Plan,
) -> Result<(Vec<Row>, Vec<String>), BenchError> {
    debug_assert!(sides.first().is_some_and(|side| side.pass.mode == Mode::Serial));
    let control = sides.len();
    let mut tracks: Vec<Track> = (0..=control).map(|_| Track::default()).collect();
    for round in 0..plan.warmups + plan.pairs_max.max(plan.repetitions) {
        let timed = round >= plan.warmups;
        let rounds_timed = tracks[0].ns.len();
        if timed && rounds_timed >= plan.repetitions && !undecided(&tracks) {
            break;
        }
        let mut turns: Vec<usize> = (0..tracks.len()).collect();
        order::shuffle(&mut turns, plan.order_seed, SUBCOMMAND, round);
        for track in turns {
            // The control is the first side once more.
            let done = subject.pass(&sides[track % control].pass)?;
            let track = &mut tracks[track];
            track.wrong.extend(done.wrong);
            if timed {
                track.ns.push(done.seconds * 1e9 / done.operations.max(1) as f64);
            }
        }
    }
    let mut rows = Vec::new();
    let aa = pair_ratios(&tracks[0].ns, &tracks[control].ns);
    for (at, (side, track)) in sides.iter().zip(&tracks).enumerate() {
        let ok = track.wrong.is_empty();
        let dress = |row: Option<Row>| row.map(|row| row.with("float", side.float));
        rows.extend(dress(side.shape.measured(metric::NS, &track.ns, ok)));
        if at > 0 {
            let ratios = pair_ratios(&track.ns, &tracks[0].ns);
            let row = dress(side.shape.measured(metric::RATIO, &ratios, ok));
            rows.extend(row.map(|row| {
                let row = row.versus(Mode::Serial.name());
                match plan.pairs_max >= PAIRS_NEAR_ONE {
                    true => row.with("verdict", not_slower(&ratios, &aa).as_str()),
                    false => row,
                }
            }));
        }
    }
    if let (Some(spread), Some(noise)) = (Spread::of(&aa), Noise::of(&aa)) {
        let row = sides[0]
            .shape
            .measured(metric::RATIO, &aa, tracks[control].wrong.is_empty());
        rows.extend(row.map(|row| {
            row.versus(Mode::Serial.name())
                .with("control", "a/a")
                .with("noise_low", noise.low)
                .with("noise_high", noise.high)
                .with("pairs", spread.n)
        }));
    }
    let wrong = tracks.into_iter().flat_map(|track| track.wrong).collect();
    Ok((rows, wrong))
}

/// Whether a side is too near the first for the rounds so far.
fn undecided(tracks: &[Track]) -> bool {
    let [first, sides @ .., control] = tracks else {
        return false;
    };
    let aa = pair_ratios(&first.ns, &control.ns);
    sides
        .iter()
        .any(|side| not_slower(&pair_ratios(&side.ns, &first.ns), &aa) == Verdict::Undecided)
}
