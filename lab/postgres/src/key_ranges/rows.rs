//! The rows of a case: what each side gave, and how sides compare.

use super::SUITE;
use super::case::Case;
use super::contest::Tracks;
use super::ways::LineUp;
use super::work::Measured;
use crate::pooler::sheet::{Metric, Named, Sheet, TPS, Versus};
use lab_core::row::{Row, Value};
use lab_core::run::Runner;

const METRICS: [Metric<Measured>; 5] = [
    Metric {
        name: TPS,
        unit: "1/s",
        read: |round| Some(round.tps),
        higher: true,
    },
    Metric {
        name: "latency_ms",
        unit: "ms",
        read: |round| Some(round.latency_ms),
        higher: false,
    },
    Metric {
        name: "p99_ms",
        unit: "ms",
        read: |round| Some(round.p99_ms),
        higher: false,
    },
    Metric {
        name: "best_sellers_latency_ms",
        unit: "ms",
        read: |round| round.best_sellers_ms,
        higher: false,
    },
    Metric {
        name: "in_parts_percent",
        unit: "percent",
        read: |round| round.in_parts_percent,
        higher: true,
    },
];

/// Emits the rows of a case and notes what failed. `parameters` are those beside the case's own.
pub fn emit(
    case: &Case,
    parameters: &[(String, Value)],
    line_up: &LineUp,
    tracks: &Tracks,
    runner: &mut Runner<'_>,
) {
    let parameters = [case.parameters(), parameters.to_vec()].concat();
    let sides: Vec<Named> = line_up
        .sides
        .iter()
        .map(|spec| Named {
            name: spec.name.clone(),
            parameters: spec.parameters(),
        })
        .collect();
    let pairs: Vec<Versus<'_>> = line_up
        .pairs
        .iter()
        .map(|pair| Versus {
            subject: pair.subject,
            other: pair.other,
            versus: pair.versus,
        })
        .collect();
    let sheet = Sheet {
        suite: SUITE,
        case: &case.name(),
        parameters: &parameters,
        metrics: &METRICS,
    };
    sheet.emit(&sides, tracks, &pairs, line_up.control, runner);
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
    use crate::key_ranges::case::Family;
    use crate::key_ranges::contest::Track;
    use crate::pooler::sides::Gone;
    use corun_model::progress::Silent;
    use lab_core::row::Label;
    use lab_core::run::Plan;

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
