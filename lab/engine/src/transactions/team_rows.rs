//! The rows of a `teams` case.
//!
//! `teams` is the way clients share the CPU, with `one` for one client alone and `one_auto` for one that might form teams; ratios are
//! versus another way. The teams themselves come as `members_in`, `members_out`, `stray_percent` by `operation`, and
//! `members_ready` (paper 003, Table 4).

use corun_workloads::driver::OperationOutcome;

use super::case::Setup;
use super::measured::{METRICS, metrics};
use super::teams::{AUTO, DECIDED, OFF, ON, ONE, ONE_AUTO, Results, SERIAL, WAYS, Way};
use super::{CORUN, SUITE};
use lab_core::metric::{CaseRows, SideKeys, Versus};
use lab_core::row::Value;
use lab_core::run::Runner;

/// Which way is compared with which.
const COMPARED: [(usize, usize); 6] = [
    (ON, ONE),
    (ON, OFF),
    (ON, SERIAL),
    (AUTO, OFF),
    (AUTO, SERIAL),
    (ONE_AUTO, ONE),
];

/// A metric of teams: name, unit, how it is read.
type TeamMetric = (&'static str, &'static str, fn(&OperationOutcome) -> f64);

const TEAM_METRICS: [TeamMetric; 3] = [
    ("members_in", "members", OperationOutcome::members_in),
    ("members_out", "members", OperationOutcome::members_out),
    ("stray_percent", "%", |operation| operation.stray_rate() * 100.0),
];

/// Emits the rows of a case and notes what failed.
pub fn emit(setup: &Setup, results: &Results, runner: &mut Runner<'_>) {
    let Results { rounds, teams } = results;
    let rows = CaseRows {
        suite: SUITE,
        case: &setup.name(),
        metrics: &metrics(setup),
        compared: true,
    };
    if let Some(wrong) = &rounds.sides[OFF].wrong {
        runner.fail(format!("{SUITE} {}: {wrong}", rows.case));
    }
    let sides = WAYS.map(|way| keys(setup, way));
    for ((side, given), teams) in sides.iter().zip(&rounds.sides).zip(teams) {
        rows.values(side, given, runner);
        let Some(teams) = teams else { continue };
        let mut put = |metric, unit, value, operation: Option<&str>| {
            if let Some(mut row) = rows.row(side, metric, unit, &[value], given.wrong.is_none()) {
                if let Some(operation) = operation {
                    row = row.with("operation", operation);
                }
                runner.emit_checked(row);
            }
        };
        let mut operations = teams.operations.clone();
        operations.push(teams.all());
        for operation in operations.iter().filter(|operation| operation.teams > 0) {
            for (metric, unit, of) in TEAM_METRICS {
                put(metric, unit, of(operation), Some(&operation.name));
            }
        }
        put("members_ready", "members", teams.members_ready(), None);
    }
    let versus = |pair: (usize, usize)| Versus {
        subject: pair.0,
        other: pair.1,
        versus: WAYS[pair.1].name.to_owned(),
        keys: Vec::new(),
        verdict: runner.plan().claims() && DECIDED.contains(&pair),
    };
    let comparisons = COMPARED.map(versus);
    rows.compare(&METRICS[0], &sides, rounds, &comparisons, runner);
}

/// A way, as rows name it.
fn keys(setup: &Setup, way: Way) -> SideKeys {
    let mut keys = setup.parameters();
    for (key, value) in &mut keys {
        match key.as_str() {
            "teams" => *value = Value::from(way.name),
            "clients" => *value = Value::from(way.clients(setup)),
            _ => {}
        }
    }
    keys.insert(0, ("engine".to_owned(), Value::from(CORUN)));
    SideKeys {
        name: way.name.to_owned(),
        keys,
    }
}
