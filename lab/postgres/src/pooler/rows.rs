//! The rows of a case: what each side gave, and how sides compare.

use super::SUITE;
use super::case::Case;
use super::contest::{Compared, Measured};
use super::sides::Spec;
use crate::fixture::pgbench::TPS;
use lab_core::contest::ContestResult;
use lab_core::metric::{CaseRows, MetricSpec, SideKeys, Versus};
use lab_core::row::Value;
use lab_core::run::Runner;

/// What is read from a turn.
pub const METRICS: [MetricSpec<Measured>; 5] = [
    MetricSpec::higher(TPS, "1/s", |turn| Some(turn.tps)),
    MetricSpec::lower("p50_us", "us", |turn| Some(turn.p50_us)),
    MetricSpec::lower("p99_us", "us", |turn| Some(turn.p99_us)),
    MetricSpec::lower("proxy_cpu_us_per_tx", "us", |turn| turn.proxy_cpu_us_per_tx),
    MetricSpec::lower("rss_bytes", "bytes", |turn| turn.rss_bytes),
];

/// Emits the rows of a case and notes what failed.
pub fn emit<M>(
    case: &Case,
    scale: usize,
    specs: &[Spec],
    compared: &Compared,
    metrics: &[MetricSpec<M>],
    result: &ContestResult<M>,
    runner: &mut Runner<'_>,
) {
    let sides: Vec<SideKeys> = specs.iter().map(|spec| keys(case, scale, spec)).collect();
    let verdict = runner.plan().claims();
    let versus = |&(subject, other): &(usize, usize)| Versus {
        subject,
        other,
        versus: specs[other].name.clone(),
        keys: vec![("other".to_owned(), Value::from(specs[other].name.as_str()))],
        verdict,
    };
    let comparisons: Vec<Versus> = compared.pairs.iter().map(versus).collect();
    rows(&case.name(), metrics).emit(&sides, result, &comparisons, runner);
}

/// The rows of a case by these metrics.
pub fn rows<'c, M>(case: &'c str, metrics: &'c [MetricSpec<M>]) -> CaseRows<'c, M> {
    CaseRows {
        suite: SUITE,
        case,
        metrics,
        compared: true,
    }
}

/// A side, as rows name it.
pub fn keys(case: &Case, scale: usize, spec: &Spec) -> SideKeys {
    let scale = ("scale".to_owned(), Value::from(scale));
    SideKeys {
        name: spec.name.clone(),
        keys: [spec.parameters(), case.parameters(), vec![scale]].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::address::Transport;
    use crate::pooler::case::cases;
    use crate::pooler::sides::{Corun, Kind};
    use corun_model::progress::Silent;
    use lab_core::contest::{Gone, SideResult};
    use lab_core::metric::RATIO;
    use lab_core::row::{Label, Row};
    use lab_core::run::Plan;

    fn spec(name: &str, kind: Kind) -> Spec {
        Spec {
            name: name.to_owned(),
            kind,
            pool: 8,
        }
    }

    fn side(tps: f64, cpu: Option<f64>) -> SideResult<Measured> {
        let round = Measured {
            tps,
            p50_us: 1e6 / tps,
            p99_us: 3e6 / tps,
            proxy_cpu_us_per_tx: cpu,
            rss_bytes: cpu.map(|cpu| cpu * 1e6),
        };
        SideResult {
            rounds: vec![Some(round); 5],
            ..SideResult::default()
        }
    }

    fn rows_of(result: &ContestResult<Measured>) -> (Vec<Row>, Vec<String>) {
        let missing = Kind::PgBouncer {
            program: Err("unused".to_owned()),
            processes: 1,
        };
        let specs = [
            spec("direct", Kind::Direct),
            spec("pgbouncer", missing),
            spec("corun", Kind::Corun(Corun::DEFAULT)),
        ];
        let mut rows = Vec::new();
        let mut take = |row| rows.push(row);
        let mut runner = Runner::new(Plan::standard(), &mut take, &Silent);
        let case = cases(true, Transport::Tcp)[0];
        emit(
            &case,
            1,
            &specs,
            &Compared::of(&specs),
            &METRICS,
            result,
            &mut runner,
        );
        let failures = runner.finish().failures;
        (rows, failures)
    }

    fn ratio<'r>(rows: &'r [Row], versus: &str, compared: &str) -> Option<&'r Row> {
        rows.iter()
            .find(|row| row.versus.as_deref() == Some(versus) && row.text("compared") == compared)
    }

    #[test]
    fn a_ratio_above_one_means_that_corun_was_better() {
        let result = ContestResult {
            sides: vec![
                side(400.0, None),
                side(100.0, Some(30.0)),
                side(200.0, Some(10.0)),
            ],
            controls: vec![(2, side(200.0, Some(10.0)))],
        };
        let (rows, failures) = rows_of(&result);
        assert!(failures.is_empty(), "{failures:?}");
        let median = |versus, compared| ratio(&rows, versus, compared).and_then(Row::median);
        assert_eq!(median("pgbouncer", "tps"), Some(2.0));
        assert_eq!(median("pgbouncer", "p99_us"), Some(2.0));
        assert_eq!(median("pgbouncer", "proxy_cpu_us_per_tx"), Some(3.0));
        assert_eq!(median("pgbouncer", "rss_bytes"), Some(3.0));
        assert_eq!(median("direct", "tps"), Some(0.5));
        // Nothing stands between clients and the server there.
        assert_eq!(median("direct", "proxy_cpu_us_per_tx"), None);
        assert_eq!(
            ratio(&rows, "corun", "tps").map(|row| row.text("control")),
            Some("a/a")
        );
        assert_eq!(
            ratio(&rows, "pgbouncer", "tps").map(|row| row.text("verdict")),
            Some("not_slower")
        );
        for row in &rows {
            for key in ["target", "protocol", "cohorts", "auto_prepare"] {
                assert!(!row.text(key).is_empty(), "{key}: {}", row.to_json());
            }
            assert_eq!((row.number("clients"), row.answer_ok), (Some(1.0), Some(true)));
        }
    }

    #[test]
    fn wrong_answers_and_our_failures_fail_the_run_and_missing_peers_do_not() {
        let mut direct = side(400.0, None);
        direct.wrong = Some("rows differ".to_owned());
        let gone = |gone| SideResult {
            gone: Some(gone),
            ..SideResult::default()
        };
        let result = ContestResult {
            sides: vec![
                direct,
                gone(Gone::Unavailable("not installed".to_owned())),
                gone(Gone::Failed("it ended".to_owned())),
            ],
            controls: vec![(2, SideResult::default())],
        };
        let (rows, failures) = rows_of(&result);
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert!(failures[0].contains("rows differ") && failures[1].contains("it ended"));
        let reason = |target: &str| {
            let row = rows
                .iter()
                .find(|row| row.text("target") == target)
                .expect("a row");
            (row.label, row.text("reason").to_owned())
        };
        assert_eq!(
            reason("pgbouncer"),
            (Label::Unavailable, "not installed".to_owned())
        );
        assert_eq!(reason("corun"), (Label::Unavailable, "it ended".to_owned()));
        assert!(rows.iter().all(|row| row.metric != RATIO));
        assert!(rows.iter().any(|row| row.answer_ok == Some(false)));
    }
}
