//! Measured time: sides of one loaded subject take turns in this process, untraced, and serial execution runs twice a round.
//!
//! A side's time is that of whole transactions (begin, the operation, commit), since reading a clock around an operation of half a
//! microsecond would measure the clock. Not here: what is simulated.

use super::SUBCOMMAND;
use super::job::Mode;
use super::rows::{FigureRows, metric};
use super::stage::NamedPass;
use super::subject::Subject;
use lab_core::contest::Contest;
use lab_core::error::BenchError;
use lab_core::metric::MetricSpec;
use lab_core::row::{Row, Value};
use lab_core::stats::{Noise, not_slower};

/// What sides are compared by.
const NS: MetricSpec<f64> = MetricSpec::lower(metric::NS, "ns", |ns| Some(*ns));

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
    let against_first: Vec<(usize, usize)> = (1..sides.len()).map(|side| (side, 0)).collect();
    let contest = Contest {
        name: SUBCOMMAND,
        pairs: &against_first,
        controls: &[0],
        metric: &NS,
        plan,
    };
    let progress = out.runner.progress();
    let result = contest.run_all(sides.len(), progress, |side, _| {
        let done = subject.pass(&sides[side].pass)?;
        Ok((
            done.seconds * 1e9 / done.operations.max(1) as f64,
            done.wrong.into_iter().next(),
        ))
    })?;
    let mut rows = Vec::new();
    let (_, control) = &result.controls[0];
    let first = &result.sides[0];
    let aa = NS.ratios(first, control);
    for (at, (side, given)) in sides.iter().zip(&result.sides).enumerate() {
        let ok = given.wrong.is_none();
        let shape = out.shape(operation, side, None);
        let dress = |row: Row| row.with("float", side.pass.float);
        rows.extend(shape.measured(metric::NS, &given.values(NS.read), ok).map(dress));
        if at == 0 {
            continue;
        }
        let ratios = NS.ratios(given, first);
        let row = shape.measured(metric::RATIO, &ratios, ok).map(dress);
        rows.extend(row.map(|row| {
            let row = row.versus(Mode::Serial.name());
            match plan.claims() {
                true => row.with("verdict", not_slower(&ratios, &aa).as_str()),
                false => row,
            }
        }));
    }
    if let Some(noise) = Noise::of(&aa) {
        let shape = out.shape(operation, &sides[0], None);
        let row = shape.measured(metric::RATIO, &aa, control.wrong.is_none());
        rows.extend(row.map(|row| {
            row.versus(Mode::Serial.name())
                .with("control", "a/a")
                .with("noise_low", noise.low)
                .with("noise_high", noise.high)
                .with("pairs", aa.len())
        }));
    }
    out.emit(rows.into_iter().map(|row| row.with_all(keys)));
    let wrong = result
        .sides
        .iter()
        .chain([control])
        .filter_map(|side| side.wrong.clone());
    out.complain(&wrong.collect::<Vec<String>>());
    Ok(())
}
