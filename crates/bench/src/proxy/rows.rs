//! The rows of a case: what each side gave, and how sides compare.

use super::SUITE;
use super::case::Case;
use super::contest::{Compared, Measured, Track, Tracks, ratios};
use super::sides::{Gone, Spec};
use crate::row::{Row, Value};
use crate::run::Runner;
use crate::stats::{Noise, PAIRS_NEAR_ONE, Spread, not_slower};

/// Transactions a second, what sides are compared by first.
pub const TPS: &str = "tps";
/// The metric of comparisons; above 1 the subject was better, whichever metric was compared.
pub const RATIO: &str = "ratio";

/// How a metric is read.
type Read = fn(&Measured) -> Option<f64>;
/// A metric of rounds: name, unit, how it is read, whether higher is better.
type Metric = (&'static str, &'static str, Read, bool);

const METRICS: [Metric; 5] = [
    (TPS, "1/s", |round| Some(round.tps), true),
    ("p50_us", "us", |round| Some(round.p50_us), false),
    ("p99_us", "us", |round| Some(round.p99_us), false),
    (
        "proxy_cpu_us_per_tx",
        "us",
        |round| round.proxy_cpu_us_per_tx,
        false,
    ),
    ("rss_bytes", "bytes", |round| round.rss_bytes, false),
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
    let name = case.name();
    let mut parameters = case.parameters();
    parameters.push(("scale".to_owned(), Value::from(scale)));
    for (spec, track) in specs.iter().zip(&tracks.sides) {
        side(&name, &parameters, spec, track, runner);
    }
    let claims = runner.plan().pairs_max >= PAIRS_NEAR_ONE;
    let control = &tracks.sides[compared.control];
    for (metric, _, read, higher) in METRICS {
        let of = |subject: &Track, other: &Track| match higher {
            true => ratios(subject, other, read),
            false => ratios(other, subject, read),
        };
        let noise = of(control, &tracks.control);
        let row = |spec: &Spec, versus: &Spec, tracks: [&Track; 2], ratios: &[f64]| {
            let ok = tracks.iter().all(|track| track.wrong.is_none());
            let gone = tracks.iter().any(|track| track.gone.is_some());
            let spread = Spread::of(ratios).filter(|_| !gone)?;
            let row = Row::measured(SUITE, &name, RATIO, "x", spread, ok).versus(&versus.name);
            let row = row.with_all(&spec.parameters()).with_all(&parameters);
            Some(row.with("compared", metric))
        };
        for &(subject, other) in &compared.pairs {
            let pair = [&tracks.sides[subject], &tracks.sides[other]];
            let ratios = of(pair[0], pair[1]);
            if let Some(mut row) = row(&specs[subject], &specs[other], pair, &ratios) {
                if claims {
                    row = row.with("verdict", not_slower(&ratios, &noise).as_str());
                }
                runner.emit_checked(row);
            }
        }
        let spec = &specs[compared.control];
        if let (Some(row), Some(Noise { low, high })) = (
            row(spec, spec, [control, &tracks.control], &noise),
            Noise::of(&noise),
        ) {
            let row = row.with("control", "a/a");
            runner.emit_checked(row.with("noise_low", low).with("noise_high", high));
        }
    }
}

/// What a side gave, or why it gave nothing.
fn side(name: &str, parameters: &[(String, Value)], spec: &Spec, track: &Track, runner: &mut Runner<'_>) {
    match &track.gone {
        None => {}
        Some(gone) => return missing(name, parameters, spec, gone, runner),
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

/// The row of a side that could not take part; a failure of the run if it is ours.
pub fn missing(
    name: &str,
    parameters: &[(String, Value)],
    spec: &Spec,
    gone: &Gone,
    runner: &mut Runner<'_>,
) {
    let reason = match gone {
        Gone::Unavailable(reason) => reason,
        Gone::Failed(reason) => {
            runner.fail(format!("{SUITE} {name}: {} failed: {reason}", spec.name));
            reason
        }
    };
    let row = Row::unavailable(SUITE, name, TPS, "1/s", reason);
    runner.emit_checked(row.with_all(&spec.parameters()).with_all(parameters));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;
    use crate::proxy::address::Transport;
    use crate::proxy::case::cases;
    use crate::proxy::configuration::Corun;
    use crate::proxy::sides::Kind;
    use crate::row::Label;
    use crate::run::Plan;

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
