//! The rows of a setup.

use super::SUITE;
use super::case::Setup;
use super::contest::{Engine, OURS, Results};
use super::measured::{Loaded, Measured, compared, metrics};
use lab_core::contest::SideResult;
use lab_core::metric::{CaseRows, SideKeys, Versus};
use lab_core::row::Value;
use lab_core::run::{Plan, Runner};

/// What the process has grown by when the data was in: everything is in it.
pub const BYTES_PER_ROW: &str = "bytes_per_row";
/// What the engine says its data take: only what it counts is in it.
pub const ENGINE_BYTES_PER_ROW: &str = "engine_bytes_per_row";
/// CPU time a side took while another one ran, in percent of one CPU.
pub const IDLE: &str = "idle_cpu_percent";

/// Emits the rows of a setup and notes what failed.
pub fn emit(setup: &Setup, disk: Option<&str>, results: &Results, runner: &mut Runner<'_>) {
    let Results { engines, rounds } = results;
    let mut parameters = setup.parameters();
    parameters.extend(disk.map(|disk| ("disk".to_owned(), Value::from(disk))));
    let rows = CaseRows {
        suite: SUITE,
        case: &setup.name(),
        metrics: &metrics(setup),
        compared: true,
    };
    let sides = engines.iter().zip(&rounds.sides);
    let sides: Vec<SideKeys> = sides
        .map(|(engine, given)| keys(&parameters, engine, given))
        .collect();
    for ((engine, given), side) in engines.iter().zip(&rounds.sides).zip(&sides) {
        rows.side(side, given, runner);
        if given.gone.is_none() {
            for (metric, unit, values) in beside_rounds(setup, engine) {
                if let Some(row) = rows.row(side, metric, unit, &values, given.wrong.is_none()) {
                    runner.emit_checked(row);
                }
            }
        }
    }
    let versus = |(other, engine): (usize, &Engine)| Versus {
        subject: OURS,
        other,
        versus: engine.name.clone(),
        keys: configuration("versus_", engine.loaded.as_ref()),
        verdict: runner.plan().claims(),
    };
    let comparisons: Vec<Versus> = engines.iter().enumerate().skip(1).map(versus).collect();
    rows.compare(&compared(setup), &sides, rounds, &comparisons, runner);
}

/// An engine, as rows name it.
fn keys(parameters: &[(String, Value)], engine: &Engine, given: &SideResult<Measured>) -> SideKeys {
    let name = ("engine".to_owned(), Value::from(engine.name.as_str()));
    let loaded = engine.loaded.as_ref().filter(|_| given.gone.is_none());
    SideKeys {
        name: engine.name.clone(),
        keys: [vec![name], parameters.to_vec(), configuration("", loaded)].concat(),
    }
}

fn configuration(prefix: &str, loaded: Option<&Loaded>) -> Vec<(String, Value)> {
    loaded.map_or_else(Vec::new, |loaded| {
        vec![
            (format!("{prefix}version"), Value::from(loaded.version.as_str())),
            (
                format!("{prefix}configuration"),
                Value::from(loaded.configuration.as_str()),
            ),
        ]
    })
}

/// What is no metric of rounds: how the data came in, and CPU time in turns of others.
fn beside_rounds(setup: &Setup, engine: &Engine) -> Vec<(&'static str, &'static str, Vec<f64>)> {
    let rows = setup.rows() as f64;
    let mut found = Vec::new();
    if let Some(loaded) = &engine.loaded {
        if loaded.seconds > 0.0 {
            found.push(("load_rows_per_s", "1/s", vec![rows / loaded.seconds]));
        }
        for (metric, bytes) in [
            (BYTES_PER_ROW, loaded.process_bytes),
            (ENGINE_BYTES_PER_ROW, loaded.engine_bytes),
        ] {
            let bytes = bytes.filter(|&bytes| bytes > 0);
            found.extend(bytes.map(|bytes| (metric, "bytes", vec![bytes as f64 / rows])));
        }
    }
    found.push((IDLE, "%", engine.idle_percent.clone()));
    found
}

/// The plan of a setup's rounds: each has a warm-up of its own, so there are no rounds for that.
pub fn plan(plan: Plan) -> Plan {
    Plan { warmups: 0, ..plan }
}

#[cfg(test)]
mod tests {
    use corun_model::units::CpuId;
    use corun_workloads::engine::Durability;

    use super::*;
    use crate::transactions::NEW_ORDERS;
    use crate::transactions::case::{CASES, Sizes};
    use corun_model::progress::Silent;
    use lab_core::contest::{ContestResult, Gone};
    use lab_core::metric::RATIO;
    use lab_core::row::{Label, Row};

    fn side(name: &str, tps: f64) -> (Engine, SideResult<Measured>) {
        let round = Measured {
            tps,
            new_orders_per_min: tps * 27.0,
            p50_us: Some(10.0),
            p99_us: Some(100.0),
            retries: 0.5,
        };
        let engine = Engine {
            name: name.to_owned(),
            idle_percent: vec![0.0; 4],
            loaded: Some(Loaded {
                seconds: 2.0,
                engine_bytes: None,
                process_bytes: Some(1000),
                version: "1.2".to_owned(),
                configuration: format!("{name} tuned"),
            }),
            ..Engine::default()
        };
        let given = SideResult {
            rounds: vec![Some(round); 5],
            ..SideResult::default()
        };
        (engine, given)
    }

    fn rows(sides: Vec<(Engine, SideResult<Measured>)>) -> (Vec<Row>, Vec<String>) {
        let setup = Setup::new(CASES[0], Durability::None, 1, &[CpuId(0)], Sizes::quick());
        let mut rows = Vec::new();
        let mut emit_row = |row| rows.push(row);
        let mut runner = Runner::new(Plan::standard(), &mut emit_row, &Silent);
        let (engines, sides) = sides.into_iter().unzip();
        let rounds = ContestResult {
            sides,
            controls: vec![(OURS, side("corun", 300.0).1)],
        };
        emit(&setup, Some("ext4"), &Results { engines, rounds }, &mut runner);
        let failures = runner.finish().failures;
        (rows, failures)
    }

    #[test]
    fn a_ratio_above_one_means_that_corun_did_more() {
        let (rows, failures) = rows(vec![side("corun", 300.0), side("sqlite", 100.0)]);
        assert!(failures.is_empty(), "{failures:?}");
        let ratio = |versus: &str| {
            rows.iter()
                .find(|row| row.metric == RATIO && row.versus.as_deref() == Some(versus))
                .expect("a ratio")
        };
        assert_eq!(ratio("sqlite").median(), Some(3.0));
        assert_eq!(ratio("sqlite").text("verdict"), "not_slower");
        assert_eq!(ratio("sqlite").text("compared"), NEW_ORDERS);
        assert_eq!(ratio("corun").median(), Some(1.0));
        assert_eq!(ratio("corun").text("control"), "a/a");
        assert!(rows.iter().all(|row| row.answer_ok == Some(true)));
        let keys = |row: &Row| {
            let keys = row.parameters.iter().map(|(key, _)| key.as_str());
            keys.collect::<Vec<_>>().join(" ")
        };
        let own =
            "engine workload scale workers durability teams clients transaction disk version configuration";
        assert_eq!(keys(&rows[0]), own);
        let versus = "compared versus_version versus_configuration verdict";
        assert_eq!(keys(ratio("sqlite")), format!("{own} {versus}"));
        assert_eq!(
            keys(ratio("corun")),
            format!("{own} compared control noise_low noise_high")
        );
        // No memory where the engine does not tell.
        assert_eq!(rows.iter().filter(|row| row.metric == BYTES_PER_ROW).count(), 2);
        assert!(!rows.iter().any(|row| row.metric == ENGINE_BYTES_PER_ROW));
    }

    #[test]
    fn wrong_answers_fail_the_run_and_lost_peers_do_not() {
        let mut peer = side("redb", 100.0);
        peer.1.wrong = Some("consistency condition 1".to_owned());
        let mut gone = side("rocksdb", 100.0);
        gone.1.gone = Some(Gone::Unavailable("not built".to_owned()));
        let (rows, failures) = rows(vec![side("corun", 300.0), peer, gone]);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(failures[0].contains("redb: consistency condition 1"));
        for row in &rows {
            match row.engine() {
                "redb" => assert_eq!(row.answer_ok, Some(false)),
                "rocksdb" => assert_eq!((row.label, row.text("reason")), (Label::Unavailable, "not built")),
                _ if row.versus.as_deref() == Some("redb") => assert_eq!(row.answer_ok, Some(false)),
                _ => assert_eq!(row.answer_ok, Some(true)),
            }
        }
        assert!(!rows.iter().any(|row| row.versus.as_deref() == Some("rocksdb")));
    }
}
