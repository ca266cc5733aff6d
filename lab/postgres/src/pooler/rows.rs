//! The rows of a case: what each side gave, and how sides compare.

use super::SUITE;
use super::case::Case;
use super::contest::{Compared, Measured, Tracks};
use super::sheet::{Metric, Named, Sheet, TPS, Versus};
use super::sides::{Gone, Spec};
use lab_core::row::Value;
use lab_core::run::Runner;

const METRICS: [Metric<Measured>; 5] = [
    Metric {
        name: TPS,
        unit: "1/s",
        read: |round| Some(round.tps),
        higher: true,
    },
    Metric {
        name: "p50_us",
        unit: "us",
        read: |round| Some(round.p50_us),
        higher: false,
    },
    Metric {
        name: "p99_us",
        unit: "us",
        read: |round| Some(round.p99_us),
        higher: false,
    },
    Metric {
        name: "proxy_cpu_us_per_tx",
        unit: "us",
        read: |round| round.proxy_cpu_us_per_tx,
        higher: false,
    },
    Metric {
        name: "rss_bytes",
        unit: "bytes",
        read: |round| round.rss_bytes,
        higher: false,
    },
];

/// Emits the rows of a case and notes what failed.
pub fn emit(
    case: &Case,
    scale: usize,
    specs: &[Spec],
    compared: &Compared,
    tracks: &Tracks,
    runner: &mut Runner<'_>,
) {
    let mut parameters = case.parameters();
    parameters.push(("scale".to_owned(), Value::from(scale)));
    let sides: Vec<Named> = specs.iter().map(named).collect();
    let pairs = versus(specs, compared);
    sheet(&case.name(), &parameters).emit(&sides, tracks, &pairs, compared.control, runner);
}

/// The comparisons as rows name them.
pub fn versus<'s>(specs: &'s [Spec], compared: &Compared) -> Vec<Versus<'s>> {
    let named = |&(subject, other): &(usize, usize)| Versus {
        subject,
        other,
        versus: &specs[other].name,
    };
    compared.pairs.iter().map(named).collect()
}

/// The row of a side that could not take part; a failure of the run if it is ours.
pub fn missing(
    name: &str,
    parameters: &[(String, Value)],
    spec: &Spec,
    gone: &Gone,
    runner: &mut Runner<'_>,
) {
    sheet(name, parameters).missing(&named(spec), gone, runner);
}

fn sheet<'s>(case: &'s str, parameters: &'s [(String, Value)]) -> Sheet<'s, Measured> {
    Sheet {
        suite: SUITE,
        case,
        parameters,
        metrics: &METRICS,
    }
}

/// A side, as rows name it.
pub fn named(spec: &Spec) -> Named {
    Named {
        name: spec.name.clone(),
        parameters: spec.parameters(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pooler::address::Transport;
    use crate::pooler::case::cases;
    use crate::pooler::configuration::Corun;
    use crate::pooler::contest::Track;
    use crate::pooler::sheet::RATIO;
    use crate::pooler::sides::Kind;
    use corun_model::progress::Silent;
    use lab_core::row::Label;
    use lab_core::row::Row;
    use lab_core::run::Plan;

    fn spec(name: &str, kind: Kind) -> Spec {
        Spec {
            name: name.to_owned(),
            kind,
            pool: 8,
        }
    }

    fn track(tps: f64, cpu: Option<f64>) -> Track {
        let round = Measured {
            tps,
            p50_us: 1e6 / tps,
            p99_us: 3e6 / tps,
            proxy_cpu_us_per_tx: cpu,
            rss_bytes: cpu.map(|cpu| cpu * 1e6),
        };
        Track {
            rounds: vec![Some(round); 5],
            ..Track::default()
        }
    }

    fn rows(tracks: &Tracks) -> (Vec<Row>, Vec<String>) {
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
        emit(&case, 1, &specs, &Compared::of(&specs), tracks, &mut runner);
        let failures = runner.finish().failures;
        (rows, failures)
    }

    fn ratio<'r>(rows: &'r [Row], versus: &str, compared: &str) -> Option<&'r Row> {
        rows.iter()
            .find(|row| row.versus.as_deref() == Some(versus) && row.text("compared") == compared)
    }

    #[test]
    fn a_ratio_above_one_means_that_corun_was_better() {
        let tracks = Tracks {
            sides: vec![
                track(400.0, None),
                track(100.0, Some(30.0)),
                track(200.0, Some(10.0)),
            ],
            control: track(200.0, Some(10.0)),
        };
        let (rows, failures) = rows(&tracks);
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
        let mut direct = track(400.0, None);
        direct.wrong = Some("rows differ".to_owned());
        let gone = |gone| Track {
            gone: Some(gone),
            ..Track::default()
        };
        let tracks = Tracks {
            sides: vec![
                direct,
                gone(Gone::Unavailable("not installed".to_owned())),
                gone(Gone::Failed("it ended".to_owned())),
            ],
            control: Track::default(),
        };
        let (rows, failures) = rows(&tracks);
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
