//! [`Outcome`]: what a run did and how long it took.

use std::time::Duration;

use serde::Serialize;

use super::histogram::Histogram;
use super::team_outcome::TeamOutcome;

/// What a run did in the time it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The engine's name.
    pub engine: String,
    /// Which workload and mix.
    pub workload: String,
    /// Clients that ran at once.
    pub clients: usize,
    /// Workers (CPUs) they shared.
    pub workers: usize,
    /// Seconds measured.
    pub wall_s: f64,
    /// Transactions a second: committed ones and those rolled back by the rules.
    pub tps: f64,
    /// Committed New Orders a minute; zero outside TPC-C.
    pub new_orders_per_min: f64,
    /// By type; types that did not occur are left out.
    pub kinds: Vec<KindOutcome>,
    /// What teams were formed, where clients formed teams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teams: Option<TeamOutcome>,
}

/// The transactions of one type.
#[derive(Clone, Debug, Serialize)]
pub struct KindOutcome {
    /// Which type.
    pub kind: &'static str,
    /// Committed.
    pub committed: u64,
    /// Rolled back because the rules say so.
    pub rolled_back: u64,
    /// How often one was run again because of others.
    pub retried: u64,
    /// Half of them took at most so long, in microseconds, from the first attempt to the end of the last.
    pub p50_us: f64,
    /// As `p50_us`, 95 of 100.
    pub p95_us: f64,
    /// As `p50_us`, 99 of 100.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// All latencies.
    #[serde(skip)]
    pub latencies: Histogram,
}

/// Counts of one type while a run goes on.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub committed: u64,
    pub rolled_back: u64,
    pub retried: u64,
    pub latencies: Histogram,
}

impl Tally {
    pub fn merge(&mut self, other: &Tally) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.retried += other.retried;
        self.latencies.merge(&other.latencies);
    }
}

impl Outcome {
    /// Sums up the tallies, one for each of `kinds`.
    pub(super) fn new(
        (engine, workload): (String, String),
        (clients, workers): (usize, usize),
        wall: Duration,
        kinds: &[&'static str],
        tallies: Vec<Tally>,
    ) -> Self {
        let wall_s = wall.as_secs_f64();
        let rate = |count: u64| if wall_s > 0.0 { count as f64 / wall_s } else { 0.0 };
        let kinds: Vec<_> = kinds
            .iter()
            .zip(tallies)
            .filter(|(_, tally)| tally.latencies.count() > 0)
            .map(|(&kind, tally)| KindOutcome {
                kind,
                committed: tally.committed,
                rolled_back: tally.rolled_back,
                retried: tally.retried,
                p50_us: tally.latencies.percentile_us(50.0),
                p95_us: tally.latencies.percentile_us(95.0),
                p99_us: tally.latencies.percentile_us(99.0),
                max_us: tally.latencies.max_us(),
                latencies: tally.latencies,
            })
            .collect();
        let new_orders = kinds
            .iter()
            .find(|kind| kind.kind == "new_order")
            .map_or(0, |kind| kind.committed);
        Self {
            engine,
            workload,
            clients,
            workers,
            wall_s,
            tps: rate(kinds.iter().map(|kind| kind.committed + kind.rolled_back).sum()),
            new_orders_per_min: rate(new_orders) * 60.0,
            kinds,
            teams: None,
        }
    }

    /// Transactions that committed, of all types.
    pub fn committed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.committed).sum()
    }

    /// Transactions that the rules rolled back.
    pub fn rolled_back(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.rolled_back).sum()
    }

    /// How often a transaction was run again because of others.
    pub fn retried(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.retried).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_written_with_stable_keys() {
        let mut tally = Tally {
            committed: 3,
            rolled_back: 1,
            retried: 2,
            ..Tally::default()
        };
        for us in [1, 2, 3, 4] {
            tally.latencies.add(Duration::from_micros(us));
        }
        let outcome = Outcome::new(
            ("naive".into(), "tpcc standard".into()),
            (10, 2),
            Duration::from_secs(2),
            &["new_order", "payment"],
            vec![tally, Tally::default()],
        );
        assert_eq!((outcome.tps, outcome.new_orders_per_min), (2.0, 90.0));
        let json = serde_json::to_value(&outcome).unwrap();
        let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let mut expected = vec![
            "engine",
            "workload",
            "clients",
            "workers",
            "wall_s",
            "tps",
            "new_orders_per_min",
            "kinds",
        ];
        let (mut found, kinds) = (keys(&json), json["kinds"].as_array().unwrap());
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(kinds.len(), 1);
        let mut found = keys(&kinds[0]);
        let mut expected = vec![
            "kind",
            "committed",
            "rolled_back",
            "retried",
            "p50_us",
            "p95_us",
            "p99_us",
            "max_us",
        ];
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(
            (&kinds[0]["kind"], &kinds[0]["max_us"]),
            (&"new_order".into(), &4.0.into())
        );
    }
}
