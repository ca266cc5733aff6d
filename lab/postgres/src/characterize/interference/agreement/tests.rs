//! One cache is found both ways, two are told apart; from made-up numbers.

use corun_machine::polluter::Simulated;
use corun_model::spread::Label;
use corun_model::units::CpuId;
use corun_topology::measure::{FloorSample, MeasureError};

use super::*;
use corun_model::progress::Silent;

/// A machine whose last level replaces at random, beside a simulated polluter. `seen` is the cache the polluter's threads compete for,
/// which a machine where the two do not agree has another of.
struct Twin {
    topology: Topology,
    alone: f64,
    shared: f64,
    polluter: Simulated,
    calls: u64,
}

impl Twin {
    fn new(alone_mib: u64, shared_mib: u64) -> Twin {
        Twin {
            topology: Topology::default(),
            alone: (alone_mib << 20) as f64,
            shared: (shared_mib << 20) as f64,
            // Eight touches in the time of a slow access.
            polluter: Simulated::new(1, Bytes::mib(256), 8 << 30),
            calls: 0,
        }
    }

    fn run(mut self) -> Vec<Row> {
        let mut polluter = self.polluter.clone();
        let plan = AgreementPlan::of("none");
        agreement_beside(&mut self, &mut polluter, &plan, &Silent).expect("rows")
    }
}

/// The workload's misses where a polluter touches eight times as many lines and the cache replaces at random: at the rate of replacement
/// at which both parties' lines fill it.
fn missed(own: f64, polluter: f64, cache: f64) -> f64 {
    if own + polluter <= cache {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle: f64 = f64::midpoint(low, high);
        let rate = middle / (1.0 - middle) / own;
        let held = own / (1.0 + rate * own) + polluter / (1.0 + rate * polluter / 8.0);
        match held > cache {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

impl Machine for Twin {
    fn label(&self) -> Label {
        Label::Simulated
    }

    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn chase_ns(&mut self, bytes: Bytes, repetitions: usize) -> Result<Vec<f64>, MeasureError> {
        self.uniform_ns(bytes, repetitions)
    }

    fn uniform_ns(&mut self, bytes: Bytes, repetitions: usize) -> Result<Vec<f64>, MeasureError> {
        let own = bytes.0 as f64;
        let missed = match self.polluter.load() {
            None => 1.0 - (self.alone / own).min(1.0),
            Some(load) => missed(own, load.footprint.0 as f64, self.shared),
        };
        let inner = ((1 << 20) as f64 / own).min(1.0);
        let clean = 5.0 * inner + 20.0 * (1.0 - inner) + 80.0 * missed;
        Ok((0..repetitions)
            .map(|_| {
                self.calls += 1;
                clean * (1.0 + 0.01 * ((self.calls % 7) as f64 - 3.0) / 3.0)
            })
            .collect())
    }

    fn floor(
        &mut self,
        _bytes: Bytes,
        _threads: usize,
        _repetitions: usize,
    ) -> Result<Vec<FloorSample>, MeasureError> {
        Ok(Vec::new())
    }

    fn hand_over_ns(&mut self, _a: CpuId, _b: CpuId, _repetitions: usize) -> Result<Vec<f64>, MeasureError> {
        Ok(Vec::new())
    }

    fn slowdown(&mut self, _a: CpuId, _b: CpuId, _repetitions: usize) -> Result<Vec<f64>, MeasureError> {
        Ok(Vec::new())
    }
}

#[test]
fn one_cache_is_found_both_ways() {
    for mib in [8, 24] {
        let rows = Twin::new(mib, mib).run();
        assert_eq!(rows.len(), 2);
        for row in &rows {
            let off = row.median().expect("a size") / (mib << 20) as f64;
            assert!((0.8..1.25).contains(&off), "{} is off by {off}", row.text("how"));
            assert_eq!(row.parameter("agrees"), Some(&true.into()));
        }
    }
}

#[test]
fn two_caches_do_not_agree() {
    for row in Twin::new(32, 18).run() {
        assert_eq!(row.parameter("agrees"), Some(&false.into()), "{row:?}");
    }
}

#[test]
fn a_polluter_that_nobody_feels_finds_no_size() {
    let rows = Twin::new(8, 4096).run();
    assert_eq!(rows[0].label, lab_core::row::Label::Unavailable);
    assert_eq!(rows[0].parameter("agrees"), None);
    assert_eq!(rows[1].label, lab_core::row::Label::Measured);
}

#[test]
fn spreads_hold_all_answers() {
    let found = |mib, min, max| EffectiveLlc::Found {
        bytes: Bytes::mib(mib),
        bytes_min: Bytes::mib(min),
        bytes_max: Bytes::mib(max),
        cache_ns: 1.0,
        memory_ns: 2.0,
        fit_error_percent: 0.0,
    };
    let none = EffectiveLlc::NotFound {
        reason: "flat".to_owned(),
    };
    let spread = together(&[found(8, 7, 9), none.clone(), found(10, 10, 14)]).expect("two sizes");
    let mib = |mib: u64| (mib << 20) as f64;
    assert_eq!(spread.median, mib(9));
    assert!((spread.min * 1.03 - mib(7)).abs() < 1.0 && (spread.max / 1.03 - mib(14)).abs() < 1.0);
    assert_eq!(together(&[none.clone(), none]), Err("flat".to_owned()));
}
