//! The rows of a `teams` case.
//!
//! `teams` is the way clients share the CPU, with `one` for one client alone and `one_auto` for one that might form teams; ratios are
//! versus another way. The teams themselves come as `members_in`, `members_out`, `stray_percent` by `operation`, and
//! `members_ready` (paper 003, Table 4).

use corun_workloads::driver::OperationOutcome;

use super::case::Setup;
use super::rows::METRICS;
use super::teams::{AUTO, OFF, OFF_AGAIN, ON, ONE, ONE_AGAIN, ONE_AUTO, SERIAL, Track, Tracks, WAYS};
use super::{CORUN, NEW_ORDERS, RATIO, SUITE, TPS};
use lab_core::row::{Row, Value};
use lab_core::run::Runner;
use lab_core::stats::{Noise, PAIRS_NEAR_ONE, Spread};

/// Which way is compared with which.
const COMPARED: [(usize, usize); 8] = [
    (ON, ONE),
    (ON, OFF),
    (ON, SERIAL),
    (AUTO, OFF),
    (AUTO, SERIAL),
    (ONE_AUTO, ONE),
    (OFF, OFF_AGAIN),
    (ONE, ONE_AGAIN),
];

/// A metric of teams: name, unit, how it is read.
type TeamMetric = (&'static str, &'static str, fn(&OperationOutcome) -> f64);

const TEAM_METRICS: [TeamMetric; 3] = [
    ("members_in", "members", OperationOutcome::members_in),
    ("members_out", "members", OperationOutcome::members_out),
    ("stray_percent", "%", |operation| operation.stray_rate() * 100.0),
];

/// Emits the rows of a case and notes what failed.
pub fn emit(setup: &Setup, tracks: &Tracks, runner: &mut Runner<'_>) {
    let rows = Rows {
        setup,
        name: setup.name(),
        right: tracks.wrong.is_none(),
    };
    if let Some(wrong) = &tracks.wrong {
        runner.fail(format!("{SUITE} {}: {wrong}", rows.name));
    }
    // The controls are the same ways once more.
    for place in 0..ONE_AGAIN {
        rows.way(place, &tracks.ways[place], runner);
    }
    for (subject, other) in COMPARED {
        rows.ratio(subject, other, tracks, runner);
    }
}

struct Rows<'s> {
    setup: &'s Setup,
    name: String,
    right: bool,
}

impl Rows<'_> {
    fn row(&self, place: usize, metric: &str, unit: &str, values: &[f64]) -> Option<Row> {
        let spread = Spread::of(values)?;
        let way = WAYS[place];
        let clients = if way.alone { 1 } else { self.setup.clients };
        let parameters = self.setup.parameters().into_iter().map(|(key, value)| {
            let value = match key.as_str() {
                "teams" => Value::from(way.name),
                "clients" => Value::from(clients),
                _ => value,
            };
            (key, value)
        });
        let parameters: Vec<(String, Value)> = parameters.collect();
        let row = Row::measured(SUITE, &self.name, metric, unit, spread, self.right);
        Some(row.with("engine", CORUN).with_all(&parameters))
    }

    fn way(&self, place: usize, track: &Track, runner: &mut Runner<'_>) {
        for (metric, unit, of) in METRICS {
            if metric == NEW_ORDERS && !self.setup.case.work.has_new_orders() {
                continue;
            }
            let values: Vec<f64> = track.rounds.iter().flatten().filter_map(of).collect();
            if let Some(row) = self.row(place, metric, unit, &values) {
                runner.emit_checked(row);
            }
        }
        let Some(teams) = &track.teams else { return };
        let mut operations = teams.operations.clone();
        operations.push(teams.all());
        for operation in operations.iter().filter(|operation| operation.teams > 0) {
            for (metric, unit, of) in TEAM_METRICS {
                if let Some(row) = self.row(place, metric, unit, &[of(operation)]) {
                    runner.emit_checked(row.with("operation", operation.name.as_str()));
                }
            }
        }
        if let Some(row) = self.row(place, "members_ready", "members", &[teams.members_ready()]) {
            runner.emit_checked(row);
        }
    }

    fn ratio(&self, subject: usize, other: usize, tracks: &Tracks, runner: &mut Runner<'_>) {
        let ratios = tracks.ratios(subject, other);
        let Some(row) = self.row(subject, RATIO, "x", &ratios) else {
            return;
        };
        let mut row = row.with("compared", TPS).versus(WAYS[other].name);
        if matches!(other, OFF_AGAIN | ONE_AGAIN)
            && let Some(noise) = Noise::of(&ratios)
        {
            row = row
                .with("control", "a/a")
                .with("noise_low", noise.low)
                .with("noise_high", noise.high);
        }
        let claims = runner.plan().pairs_max >= PAIRS_NEAR_ONE;
        let against_itself = matches!((subject, other), (AUTO, OFF) | (ONE_AUTO, ONE));
        if claims
            && against_itself
            && let Some(verdict) = tracks.verdict(subject)
        {
            row = row.with("verdict", verdict.as_str());
        }
        runner.emit_checked(row);
    }
}
