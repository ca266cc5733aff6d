//! The rows of a case: what each side gave, and how sides compare.

use super::SUITE;
use super::case::Case;
use super::ways::{LineUp, Spec};
use super::work::Measured;
use crate::fixture::pgbench::TPS;
use lab_core::contest::{ContestResult, Gone};
use lab_core::metric::{CaseRows, MetricSpec, SideKeys, Versus};
use lab_core::row::Value;
use lab_core::run::Runner;

/// What is read from a turn.
pub const METRICS: [MetricSpec<Measured>; 5] = [
    MetricSpec::higher(TPS, "1/s", |turn| Some(turn.tps)),
    MetricSpec::lower("latency_ms", "ms", |turn| Some(turn.latency_ms)),
    MetricSpec::lower("p99_ms", "ms", |turn| Some(turn.p99_ms)),
    MetricSpec::lower("best_sellers_latency_ms", "ms", |turn| turn.best_sellers_ms),
    MetricSpec::higher("in_parts_percent", "percent", |turn| turn.in_parts_percent),
];

/// Emits the rows of a case and notes what failed. `parameters` are those beside the case's own.
pub fn emit(
    case: &Case,
    parameters: &[(String, Value)],
    line_up: &LineUp,
    result: &ContestResult<Measured>,
    runner: &mut Runner<'_>,
) {
    let sides = line_up.sides.iter().map(|spec| keys(case, parameters, spec));
    let sides: Vec<SideKeys> = sides.collect();
    let comparisons = line_up.pairs.iter().map(|pair| Versus {
        subject: pair.subject,
        other: pair.other,
        versus: pair.versus.to_owned(),
        keys: vec![("other".to_owned(), Value::from(sides[pair.other].name.as_str()))],
        verdict: runner.plan().claims(),
    });
    let comparisons: Vec<Versus> = comparisons.collect();
    rows(&case.name()).emit(&sides, result, &comparisons, runner);
}

/// Rows of cases that cannot be run here at all: one for each side.
pub fn unavailable(case: &Case, line_up: &LineUp, reason: &str, runner: &mut Runner<'_>) {
    for spec in &line_up.sides {
        let gone = Gone::Unavailable(reason.to_owned());
        rows(&case.name()).missing(&keys(case, &[], spec), &gone, runner);
    }
}

fn rows(case: &str) -> CaseRows<'_, Measured> {
    CaseRows {
        suite: SUITE,
        case,
        metrics: &METRICS,
        compared: true,
    }
}

fn keys(case: &Case, parameters: &[(String, Value)], spec: &Spec) -> SideKeys {
    SideKeys {
        name: spec.name.clone(),
        keys: [spec.parameters(), case.parameters(), parameters.to_vec()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_ranges::case::Family;
    use corun_model::progress::Silent;
    use lab_core::contest::SideResult;
    use lab_core::row::{Label, Row};
    use lab_core::run::Plan;

    fn side(tps: f64) -> SideResult<Measured> {
        let round = Measured {
            tps,
            latency_ms: 1e3 / tps,
            p99_ms: 3e3 / tps,
            best_sellers_ms: None,
            in_parts_percent: None,
        };
        SideResult {
            rounds: vec![Some(round); 5],
            ..SideResult::default()
        }
    }

    fn rows_of(result: &ContestResult<Measured>) -> (Vec<Row>, Vec<String>) {
        let mut rows = Vec::new();
        let mut take = |row| rows.push(row);
        let mut runner = Runner::new(Plan::standard(), &mut take, &Silent);
        let case = Case {
            family: Family::ReplicasHalf,
            clients: 8,
        };
        let parameters = [("scale".to_owned(), Value::from(1usize))];
        emit(&case, &parameters, &LineUp::copies(), result, &mut runner);
        let failures = runner.finish().failures;
        (rows, failures)
    }

    #[test]
    fn rows_have_the_stable_keys() {
        let result = ContestResult {
            sides: vec![side(100.0), side(200.0), side(300.0)],
            controls: vec![(0, side(100.0))],
        };
        let (rows, failures) = rows_of(&result);
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
        let gone = |gone| SideResult {
            gone: Some(gone),
            ..SideResult::default()
        };
        let mut wrong = side(300.0);
        wrong.wrong = Some("row 7 differs".to_owned());
        let result = ContestResult {
            sides: vec![
                gone(Gone::Unavailable("not built".to_owned())),
                gone(Gone::Failed("it ended".to_owned())),
                wrong,
            ],
            controls: vec![(0, SideResult::default())],
        };
        let (rows, failures) = rows_of(&result);
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert!(failures[0].contains("it ended") && failures[1].contains("row 7"));
        let unavailable = rows.iter().filter(|row| row.label == Label::Unavailable);
        assert_eq!(unavailable.count(), 2);
    }
}
