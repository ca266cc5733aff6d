//! The rows of a case: what each side gave, and how sides compare.

use super::SUITE;
use super::case::Case;
use super::contest::{Track, Tracks};
use super::ways::{LineUp, Spec};
use super::work::Measured;
use crate::proxy::sides::Gone;
use crate::proxy::turns::ratios;
use crate::row::{Row, Value};
use crate::run::Runner;
use crate::stats::{Noise, PAIRS_NEAR_ONE, Spread, not_slower};

/// Transactions a second, what sides are compared by first.
pub const TPS: &str = "tps";
/// The metric of comparisons; above 1 the subject was better, whichever metric was compared.
const RATIO: &str = "ratio";

/// How a metric is read.
type Read = fn(&Measured) -> Option<f64>;
/// A metric of rounds: name, unit, how it is read, whether higher is better.
type Metric = (&'static str, &'static str, Read, bool);

const METRICS: [Metric; 5] = [
    (TPS, "1/s", |round| Some(round.tps), true),
    ("latency_ms", "ms", |round| Some(round.latency_ms), false),
    ("p99_ms", "ms", |round| Some(round.p99_ms), false),
    (
        "best_sellers_latency_ms",
        "ms",
        |round| round.best_sellers_ms,
        false,
    ),
    (
        "in_parts_percent",
        "percent",
        |round| round.in_parts_percent,
        true,
    ),
];

/// Emits the rows of a case and notes what failed. `parameters` are those beside the case's own.
pub fn emit(
    case: &Case,
    parameters: &[(String, Value)],
    line_up: &LineUp,
    tracks: &Tracks,
    runner: &mut Runner<'_>,
) {
    let name = case.name();
    let parameters = [case.parameters(), parameters.to_vec()].concat();
    for (spec, track) in line_up.sides.iter().zip(&tracks.sides) {
        side(&name, &parameters, spec, track, runner);
    }
    let claims = runner.plan().pairs_max >= PAIRS_NEAR_ONE;
    let control = &tracks.sides[line_up.control];
    for (metric, _, read, higher) in METRICS {
        let of = |subject: &Track, other: &Track| match higher {
            true => ratios(subject, other, read),
            false => ratios(other, subject, read),
        };
        let noise = of(control, &tracks.control);
        let row = |spec: &Spec, versus: &str, tracks: [&Track; 2], ratios: &[f64]| {
            let ok = tracks.iter().all(|track| track.wrong.is_none());
            let gone = tracks.iter().any(|track| track.gone.is_some());
            let spread = Spread::of(ratios).filter(|_| !gone)?;
            let row = Row::measured(SUITE, &name, RATIO, "x", spread, ok).versus(versus);
            let row = row.with_all(&spec.parameters()).with_all(&parameters);
            Some(row.with("compared", metric))
        };
        for pair in &line_up.pairs {
            let both = [&tracks.sides[pair.subject], &tracks.sides[pair.other]];
            let ratios = of(both[0], both[1]);
            if let Some(mut row) = row(&line_up.sides[pair.subject], pair.versus, both, &ratios) {
                row = row.with("other", line_up.sides[pair.other].name.as_str());
                if claims {
                    row = row.with("verdict", not_slower(&ratios, &noise).as_str());
                }
                runner.emit_checked(row);
            }
        }
        let spec = &line_up.sides[line_up.control];
        if let (Some(row), Some(Noise { low, high })) = (
            row(spec, &spec.name, [control, &tracks.control], &noise),
            Noise::of(&noise),
        ) {
            let row = row.with("control", "a/a");
            runner.emit_checked(row.with("noise_low", low).with("noise_high", high));
        }
    }
}

/// What a side gave, or why it gave nothing.
fn side(name: &str, parameters: &[(String, Value)], spec: &Spec, track: &Track, runner: &mut Runner<'_>) {
    if let Some(gone) = &track.gone {
        let reason = match gone {
            Gone::Unavailable(reason) => reason,
            Gone::Failed(reason) => {
                runner.fail(format!("{SUITE} {name}: {} failed: {reason}", spec.name));
                reason
            }
        };
        let row = Row::unavailable(SUITE, name, TPS, "1/s", reason);
        runner.emit_checked(row.with_all(&spec.parameters()).with_all(parameters));
        return;
    }
    if let Some(wrong) = &track.wrong {
        runner.fail(format!("{SUITE} {name}: {}: {wrong}", spec.name));
    }
    for (metric, unit, read, _) in METRICS {
        if let Some(spread) = Spread::of(&track.values(read)) {
            let row = Row::measured(SUITE, name, metric, unit, spread, track.wrong.is_none());
            runner.emit_checked(row.with_all(&spec.parameters()).with_all(parameters));
        }
    }
}

/// Rows of cases that cannot be run here at all: one for each side.
pub fn unavailable(case: &Case, line_up: &LineUp, reason: &str, runner: &mut Runner<'_>) {
    for spec in &line_up.sides {
        let row = Row::unavailable(SUITE, &case.name(), TPS, "1/s", reason);
        runner.emit_checked(row.with_all(&spec.parameters()).with_all(&case.parameters()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caric::case::Family;
    use crate::progress::Silent;
    use crate::row::Label;
    use crate::run::Plan;

    fn track(tps: f64) -> Track {
        let round = Measured {
            tps,
            latency_ms: 1e3 / tps,
            p99_ms: 3e3 / tps,
            best_sellers_ms: None,
            in_parts_percent: None,
        };
        Track {
            rounds: vec![Some(round); 5],
            ..Track::default()
        }
    }

    fn rows(tracks: &Tracks) -> (Vec<Row>, Vec<String>) {
        let mut rows = Vec::new();
        let mut take = |row| rows.push(row);
        let mut runner = Runner::new(Plan::standard(), &mut take, &Silent);
        let case = Case {
            family: Family::ReplicasHalf,
            clients: 8,
        };
        let parameters = [("scale".to_owned(), Value::from(1usize))];
        emit(&case, &parameters, &LineUp::copies(), tracks, &mut runner);
        let failures = runner.finish().failures;
        (rows, failures)
    }

    #[test]
    fn rows_have_the_stable_keys() {
        let tracks = Tracks {
            sides: vec![track(100.0), track(200.0), track(300.0)],
            control: track(100.0),
        };
        let (rows, failures) = rows(&tracks);
        assert!(failures.is_empty(), "{failures:?}");
        for row in &rows {
            for key in ["figure", "target", "workload", "dispatch", "split"] {
                assert!(!row.text(key).is_empty(), "{key}: {}", row.to_json());
            }
            assert!(row.number("clients").is_some() && row.number("cores").is_some());
        }
        let ratio = |versus: &str, compared: &str| {
            let found = rows.iter().find(|row| {
                row.versus.as_deref() == Some(versus)
                    && row.text("compared") == compared
                    && row.text("control").is_empty()
            });
            found.and_then(Row::median)
        };
        assert_eq!(ratio("round_robin", "tps"), Some(3.0));
        assert_eq!(ratio("round_robin", "latency_ms"), Some(3.0));
        assert_eq!(ratio("least", "tps"), Some(1.5));
        assert!(rows.iter().any(|row| row.text("control") == "a/a"));
    }

    #[test]
    fn our_failures_fail_the_run_and_missing_programs_do_not() {
        let gone = |gone| Track {
            gone: Some(gone),
            ..Track::default()
        };
        let mut wrong = track(300.0);
        wrong.wrong = Some("row 7 differs".to_owned());
        let tracks = Tracks {
            sides: vec![
                gone(Gone::Unavailable("not built".to_owned())),
                gone(Gone::Failed("it ended".to_owned())),
                wrong,
            ],
            control: Track::default(),
        };
        let (rows, failures) = rows(&tracks);
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert!(failures[0].contains("it ended") && failures[1].contains("row 7"));
        let unavailable = rows.iter().filter(|row| row.label == Label::Unavailable);
        assert_eq!(unavailable.count(), 2);
    }
}
