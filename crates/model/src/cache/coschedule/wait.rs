//! How long a query would have to wait, and how long it should.
//!
//! Both are for hosts that would rather run a query at once than let it wait for what cannot come back: a statement of a millisecond
//! gains nothing by its company that it would not lose many times behind two of ten seconds.

use super::{Query, Scheduler};

/// A query that waits longer than so many times what it would have taken beside all the others does not belong in the queue:
/// what is known of run times is off by less than that.
const PATIENCE: f64 = 2.0;

impl Scheduler {
    /// Nanoseconds a query that came at `now_ns` would wait if all took what is known of them and went in order of arrival; of whom nothing
    /// is known, the least is hoped.
    pub fn wait_hoped_ns(&self, now_ns: u64) -> f64 {
        let cpus = self.config.domains.iter().flat_map(|domain| &domain.cpus);
        let mut free: Vec<f64> = cpus
            .map(|cpu| {
                let run = self.running.iter().find(|run| run.cpus.contains(cpu));
                run.map_or(0.0, |run| {
                    let ran = now_ns.saturating_sub(run.started_ns) as f64;
                    (self.expected_ns(&run.query) - ran).max(0.0)
                })
            })
            .collect();
        for waiting in &self.waiting {
            if let Some(next) = free.iter_mut().min_by(|a, b| a.total_cmp(b)) {
                *next += self.expected_ns(&waiting.query);
            }
        }
        free.into_iter().fold(f64::INFINITY, f64::min)
    }

    /// Nanoseconds a query should wait at most that takes `expected_ns` by itself: what it would have taken if all that wait
    /// and run now shared the CPUs with it evenly, and as much again.
    pub fn patience_ns(&self, expected_ns: f64) -> f64 {
        let cpus: usize = self.config.domains.iter().map(|domain| domain.cpus.len()).sum();
        let all = self.running.len() + self.waiting.len() + 1;
        PATIENCE * expected_ns * (all as f64 / cpus.max(1) as f64).max(1.0)
    }

    fn expected_ns(&self, query: &Query) -> f64 {
        let learnt = self.model.alone_ns(query.statement);
        learnt.or(query.expected_ns).unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cache::coschedule::{Config, LlcDomain, Owner, PolicyName, QueryId};
    use crate::cache::locality::{Footprint, Locality};
    use crate::cache::slowdown::{SlowdownModel, StatementId};
    use crate::units::{Bytes, CpuId};

    const MS: f64 = 1e6;

    fn scheduler(cpus: u32, policy: PolicyName) -> Scheduler {
        let domain = LlcDomain {
            cache: Bytes::mib(8),
            cpus: (0..cpus).map(CpuId).collect(),
        };
        let config = Config {
            waiting_max: 1000,
            ..Config::new(policy, false, vec![domain])
        };
        Scheduler::new(config, SlowdownModel::default()).expect("a scheduler")
    }

    fn arrive(scheduler: &mut Scheduler, id: u64, expected_ns: Option<f64>) {
        let query = Query {
            id: QueryId(id),
            statement: StatementId(id),
            class: scheduler.slowdowns().class_of(Locality::Strong),
            footprint: Footprint::Streams,
            expected_ns,
            parts: 0,
            owner: Owner::default(),
        };
        scheduler.arrive(0, query).expect("it may come");
        scheduler.dispatch();
    }

    #[test]
    fn a_short_one_does_not_wait_behind_long_ones() {
        let mut scheduler = scheduler(2, PolicyName::Sls);
        assert_eq!(scheduler.wait_hoped_ns(0), 0.0, "nobody is there");
        arrive(&mut scheduler, 1, Some(10_000.0 * MS));
        assert_eq!(scheduler.wait_hoped_ns(0), 0.0, "a CPU is free");
        arrive(&mut scheduler, 2, Some(8_000.0 * MS));
        assert_eq!(scheduler.wait_hoped_ns(0), 8_000.0 * MS);
        assert!(scheduler.wait_hoped_ns(0) > scheduler.patience_ns(MS));
        assert!(scheduler.wait_hoped_ns(0) < scheduler.patience_ns(6_000.0 * MS));
        arrive(&mut scheduler, 3, Some(1_000.0 * MS));
        assert_eq!(scheduler.wait_hoped_ns(0), 9_000.0 * MS);
        // Of whom nothing is known, nothing is feared.
        arrive(&mut scheduler, 4, None);
        assert_eq!(scheduler.wait_hoped_ns(0), 9_000.0 * MS);
    }

    proptest! {
        /// However many of one kind come, each of them has the patience its place in the queue takes.
        #[test]
        fn equals_always_wait_for_each_other(cpus in 1u32..9, queries in 1u64..400, ms in 0.01f64..1e4) {
            let mut scheduler = scheduler(cpus, PolicyName::Auto);
            for id in 0..queries {
                prop_assert!(scheduler.wait_hoped_ns(0) <= scheduler.patience_ns(ms * MS));
                arrive(&mut scheduler, id, Some(ms * MS));
            }
        }
    }
}
