//! How a polluter's load rises, and what ends it.

use corun_machine::polluter::Simulated;

use super::*;
use corun_model::progress::Silent;
use lab_core::row::Label;

fn plan(rounds_max: usize) -> Plan {
    Plan {
        rounds_max,
        ..Plan::of(&Topology::default(), "unj", "none", CpuId(0))
    }
}

/// A workload of 4 MiB in a cache of 16 MiB that takes up to half as long again.
fn slowed(load: Option<Load>) -> f64 {
    let beyond = load.map_or(0.0, |load| {
        let polluter = load.footprint.0 as f64 / (1 << 20) as f64;
        ((polluter - 12.0) / 20.0).clamp(0.0, 1.0) * load.intensity
    });
    0.1 * (1.0 + 0.5 * beyond)
}

#[test]
fn plans_rise_to_twice_the_cache() {
    let plan = plan(1);
    let cyclic: Vec<u64> = plan
        .loads
        .iter()
        .filter(|load| load.walk == Walk::Cyclic)
        .map(|load| load.footprint.0 >> 20)
        .collect();
    assert_eq!(cyclic, [1, 2, 4, 8, 16, 32, 64]);
    let streams: Vec<f64> = plan
        .loads
        .iter()
        .filter(|load| load.walk == Walk::Streaming)
        .map(|load| load.intensity)
        .collect();
    assert_eq!(streams, INTENSITIES);
}

#[test]
fn a_simulated_workload_gets_its_curve() {
    let mut polluter = Simulated::new(1, Bytes::mib(64), 1 << 30);
    let seen = polluter.clone();
    let mut runs = 0;
    let mut work = || {
        runs += 1;
        Ok(slowed(seen.load()))
    };
    let rows = curve_beside(&mut work, &mut polluter, &plan(4), &Silent).expect("a curve");
    assert_eq!(runs, 1 + 4 * 12);
    let slowdown = |bytes: u64, walk: &str| {
        rows.iter()
            .find(|row| {
                row.metric == "slowdown"
                    && row.text("walk") == walk
                    && row.number("footprint_bytes") == Some(bytes as f64)
            })
            .expect("a row")
    };
    assert_eq!(slowdown(0, "none").median(), Some(1.0));
    assert_eq!(slowdown(8 << 20, "cyclic").text("felt"), "no");
    let largest = slowdown(64 << 20, "cyclic");
    assert!((largest.median().unwrap_or(0.0) - 1.5).abs() < 1e-9);
    assert_eq!(largest.text("felt"), "yes");
    let sensitivity = rows
        .iter()
        .find(|row| row.metric == "sensitivity_percent")
        .expect("a row");
    assert!((sensitivity.median().unwrap_or(0.0) - 50.0).abs() < 1e-6);
    assert_eq!(sensitivity.number("felt_from_bytes"), Some((16 << 20) as f64));
    let rate = rows
        .iter()
        .find(|row| row.metric == "bandwidth_bytes_per_s" && row.number("intensity") == Some(0.25));
    assert_eq!(rate.and_then(Row::median), Some(f64::from(1 << 28)));
    assert!(rows.iter().all(|row| row.text("workload") == "unj"
        && row.text("smt") == "none"
        && row.text("how") == "polluter"
        && row.label == Label::Measured));
}

#[test]
fn a_workload_that_fails_stops_the_polluter() {
    let mut polluter = Simulated::new(1, Bytes::mib(64), 1 << 30);
    let seen = polluter.clone();
    let mut runs = 0;
    let mut work = || {
        runs += 1;
        match runs < 5 {
            true => Ok(1.0),
            false => Err(BenchError::Data("the server has ended".to_owned())),
        }
    };
    let error = curve_beside(&mut work, &mut polluter, &plan(3), &Silent).expect_err("it failed");
    assert!(error.to_string().contains("the server has ended"));
    assert_eq!(seen.load(), None);
}

#[test]
fn a_spent_budget_ends_after_the_first_round() {
    let mut polluter = Simulated::new(1, Bytes::mib(64), 1 << 30);
    let plan = Plan {
        budget: Duration::ZERO,
        ..plan(9)
    };
    let rows = curve_beside(&mut || Ok(1.0), &mut polluter, &plan, &Silent).expect("a curve");
    let point = rows
        .iter()
        .find(|row| row.text("walk") == "cyclic")
        .expect("a row");
    assert_eq!(point.spread.map(|spread| spread.n), Some(1));
    assert_eq!(point.text("felt"), "unknown");
}

#[test]
fn a_cpu_with_a_cache_of_its_own_has_no_curve() {
    let rows = curve(&mut || Ok(1.0), &Topology::default(), &plan(1), &Silent).expect("a row");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].label, Label::Unavailable);
    assert!(rows[0].text("reason").contains("shares"));
}
