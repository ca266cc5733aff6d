//! Measured time: sides of one loaded subject take turns in this process, untraced, and serial execution runs twice a round.
//!
//! A side's time is that of whole transactions (begin, the operation, commit), since reading a clock around an operation of half a
//! microsecond would measure the clock. Not here: what is simulated.

use super::SUBCOMMAND;
use super::job::Mode;
use super::rows::{FigureRows, metric};
use super::stage::NamedPass;
use super::subject::Subject;
use lab_core::error::BenchError;
use lab_core::order;
use lab_core::row::{Row, Value};
use lab_core::stats::{Noise, PAIRS_NEAR_ONE, Verdict, not_slower, pair_ratios};

#[derive(Clone, Default)]
struct Track {
    ns: Vec<f64>,
    wrong: Vec<String>,
}

/// Runs the sides interleaved and emits their rows: `ns_per_op` of each, `ratio` versus the first, which must be the serial one, and the
/// A/A control, all with `keys`. What was answered wrongly is in the rows and fails the run.
pub(super) fn contest(
    subject: &Subject,
    sides: &[NamedPass],
    operation: &'static str,
    keys: &[(String, Value)],
    out: &mut FigureRows<'_, '_>,
) -> Result<(), BenchError> {
    debug_assert!(sides.first().is_some_and(|side| side.pass.mode == Mode::Serial));
    let plan = out.runner.plan();
    let control = sides.len();
    let mut tracks = vec![Track::default(); control + 1];
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
        let shape = out.shape(operation, side, None);
        let dress = |row: Row| row.with("float", side.pass.float);
        rows.extend(shape.measured(metric::NS, &track.ns, ok).map(dress));
        if at == 0 {
            continue;
        }
        let ratios = pair_ratios(&track.ns, &tracks[0].ns);
        let row = shape.measured(metric::RATIO, &ratios, ok).map(dress);
        rows.extend(row.map(|row| {
            let row = row.versus(Mode::Serial.name());
            match plan.pairs_max >= PAIRS_NEAR_ONE {
                true => row.with("verdict", not_slower(&ratios, &aa).as_str()),
                false => row,
            }
        }));
    }
    if let Some(noise) = Noise::of(&aa) {
        let ok = tracks[control].wrong.is_empty();
        let row = out
            .shape(operation, &sides[0], None)
            .measured(metric::RATIO, &aa, ok);
        rows.extend(row.map(|row| {
            row.versus(Mode::Serial.name())
                .with("control", "a/a")
                .with("noise_low", noise.low)
                .with("noise_high", noise.high)
                .with("pairs", aa.len())
        }));
    }
    out.emit(rows.into_iter().map(|row| row.with_all(keys)));
    let wrong: Vec<String> = tracks.into_iter().flat_map(|track| track.wrong).collect();
    out.complain(&wrong);
    Ok(())
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
