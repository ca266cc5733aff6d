//! The rows of a setup.

use super::case::Setup;
use super::contest::{Track, Tracks, compared, ratios};
use super::measured::{Loaded, Measured};
use super::{NEW_ORDERS, RATIO, SUITE, TPS};
use lab_core::row::{Row, Value};
use lab_core::run::{Plan, Runner};
use lab_core::stats::{Noise, PAIRS_NEAR_ONE, Spread, not_slower};

/// A metric of rounds: name, unit, how it is read.
type Metric = (&'static str, &'static str, fn(&Measured) -> Option<f64>);

pub(super) const METRICS: [Metric; 5] = [
    (TPS, "1/s", |round| Some(round.tps)),
    (NEW_ORDERS, "1/min", |round| Some(round.new_orders_per_min)),
    ("p50_us", "us", |round| round.p50_us),
    ("p99_us", "us", |round| round.p99_us),
    ("retries", "per_1000", |round| Some(round.retries)),
];

/// What the process has grown by when the data was in: everything is in it.
pub const BYTES_PER_ROW: &str = "bytes_per_row";
/// What the engine says its data take: only what it counts is in it.
pub const ENGINE_BYTES_PER_ROW: &str = "engine_bytes_per_row";
/// CPU time a side took while another one ran, in percent of one CPU.
pub const IDLE: &str = "idle_cpu_percent";

/// Emits the rows of a setup and notes what failed.
pub fn emit(setup: &Setup, disk: Option<&str>, tracks: &Tracks, runner: &mut Runner<'_>) {
    let mut parameters = setup.parameters();
    if let Some(disk) = disk {
        parameters.push(("disk".to_owned(), Value::from(disk)));
    }
    let rows = Rows {
        setup,
        name: setup.name(),
        parameters,
    };
    if let Some(reason) = &tracks.corun.failed {
        runner.fail(format!("{SUITE} {}: corun failed: {reason}", rows.name));
    }
    for track in [&tracks.corun].into_iter().chain(&tracks.peers) {
        if let Some(wrong) = &track.wrong {
            runner.fail(format!("{SUITE} {}: {}: {wrong}", rows.name, track.engine));
        }
        rows.side(track, runner);
    }
    rows.ratios(tracks, runner);
}

struct Rows<'s> {
    setup: &'s Setup,
    name: String,
    parameters: Vec<(String, Value)>,
}

impl Rows<'_> {
    fn row(&self, track: &Track, metric: &str, unit: &str, values: &[f64]) -> Option<Row> {
        let spread = Spread::of(values)?;
        let row = Row::measured(SUITE, &self.name, metric, unit, spread, track.wrong.is_none());
        let row = row
            .with("engine", track.engine.as_str())
            .with_all(&self.parameters);
        Some(match &track.loaded {
            Some(loaded) => row
                .with("version", loaded.version.as_str())
                .with("configuration", loaded.configuration.as_str()),
            None => row,
        })
    }

    fn side(&self, track: &Track, runner: &mut Runner<'_>) {
        if let Some(reason) = &track.failed {
            let row = Row::unavailable(SUITE, &self.name, TPS, "1/s", reason);
            let row = row
                .with("engine", track.engine.as_str())
                .with_all(&self.parameters);
            runner.emit_checked(row);
            return;
        }
        for (metric, unit, of) in METRICS {
            if metric == NEW_ORDERS && !self.setup.case.work.has_new_orders() {
                continue;
            }
            if let Some(row) = self.row(track, metric, unit, &track.values(of)) {
                runner.emit_checked(row);
            }
        }
        if let Some(loaded) = &track.loaded {
            self.loaded(track, loaded, runner);
        }
        if let Some(row) = self.row(track, IDLE, "%", &track.idle_percent) {
            runner.emit_checked(row);
        }
    }

    fn loaded(&self, track: &Track, loaded: &Loaded, runner: &mut Runner<'_>) {
        let rows = self.setup.rows() as f64;
        if loaded.seconds > 0.0
            && let Some(row) = self.row(track, "load_rows_per_s", "1/s", &[rows / loaded.seconds])
        {
            runner.emit_checked(row);
        }
        for (metric, bytes) in [
            (BYTES_PER_ROW, loaded.process_bytes),
            (ENGINE_BYTES_PER_ROW, loaded.engine_bytes),
        ] {
            let bytes = bytes.filter(|&bytes| bytes > 0);
            let row = bytes.and_then(|bytes| self.row(track, metric, "bytes", &[bytes as f64 / rows]));
            if let Some(row) = row {
                runner.emit_checked(row);
            }
        }
    }

    /// Our store versus each peer, and versus itself.
    fn ratios(&self, tracks: &Tracks, runner: &mut Runner<'_>) {
        let Tracks {
            corun,
            control,
            peers,
        } = tracks;
        if corun.failed.is_some() {
            return;
        }
        let metric = compared(self.setup);
        let claims = runner.plan().pairs_max >= PAIRS_NEAR_ONE;
        let noise = ratios(corun, control, metric);
        for peer in peers.iter().filter(|peer| peer.failed.is_none()) {
            let ratios = ratios(corun, peer, metric);
            let Some(mut row) = self.row(corun, RATIO, "x", &ratios) else {
                continue;
            };
            row.answer_ok = Some(corun.wrong.is_none() && peer.wrong.is_none());
            row = self.compared(row).versus(&peer.engine);
            if let Some(loaded) = &peer.loaded {
                row = row
                    .with("versus_version", loaded.version.as_str())
                    .with("versus_configuration", loaded.configuration.as_str());
            }
            if claims {
                row = row.with("verdict", not_slower(&ratios, &noise).as_str());
            }
            runner.emit_checked(row);
        }
        if let (Some(row), Some(noise)) = (self.row(corun, RATIO, "x", &noise), Noise::of(&noise)) {
            let row = self
                .compared(row)
                .versus(&control.engine)
                .with("control", "a/a")
                .with("noise_low", noise.low)
                .with("noise_high", noise.high);
            runner.emit_checked(row);
        }
    }

    fn compared(&self, row: Row) -> Row {
        row.with("compared", self.setup.case.work.compared_by())
    }
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
    use crate::transactions::case::{CASES, Sizes};
    use corun_model::progress::Silent;
    use lab_core::row::Label;

    fn track(engine: &str, tps: f64) -> Track {
        let round = Measured {
            tps,
            new_orders_per_min: tps * 27.0,
            p50_us: Some(10.0),
            p99_us: Some(100.0),
            retries: 0.5,
        };
        Track {
            engine: engine.to_owned(),
            rounds: vec![Some(round); 5],
            idle_percent: vec![0.0; 4],
            loaded: Some(Loaded {
                seconds: 2.0,
                engine_bytes: None,
                process_bytes: Some(1000),
                version: "1.2".to_owned(),
                configuration: format!("{engine} tuned"),
            }),
            ..Track::default()
        }
    }

    fn rows(tracks: &Tracks) -> (Vec<Row>, Vec<String>) {
        let setup = Setup::new(CASES[0], Durability::None, 1, &[CpuId(0)], Sizes::quick());
        let mut rows = Vec::new();
        let mut emit_row = |row| rows.push(row);
        let mut runner = Runner::new(Plan::standard(), &mut emit_row, &Silent);
        emit(&setup, Some("ext4"), tracks, &mut runner);
        let failures = runner.finish().failures;
        (rows, failures)
    }

    #[test]
    fn a_ratio_above_one_means_that_corun_did_more() {
        let tracks = Tracks {
            corun: track("corun", 300.0),
            control: track("corun", 300.0),
            peers: vec![track("sqlite", 100.0)],
        };
        let (rows, failures) = rows(&tracks);
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
        // No memory where the engine does not tell.
        assert_eq!(rows.iter().filter(|row| row.metric == BYTES_PER_ROW).count(), 2);
        assert!(!rows.iter().any(|row| row.metric == ENGINE_BYTES_PER_ROW));
    }

    #[test]
    fn wrong_answers_fail_the_run_and_lost_peers_do_not() {
        let mut peer = track("redb", 100.0);
        peer.wrong = Some("consistency condition 1".to_owned());
        let mut gone = track("rocksdb", 100.0);
        gone.failed = Some("not built".to_owned());
        let tracks = Tracks {
            corun: track("corun", 300.0),
            control: track("corun", 300.0),
            peers: vec![peer, gone],
        };
        let (rows, failures) = rows(&tracks);
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
