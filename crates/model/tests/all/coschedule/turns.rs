//! Owners of queries who take turns.

use std::collections::BTreeMap;

use super::{ALL, config, query, scheduler};
use corun_model::cache::coschedule::{Owner, PolicyName, Query, QueryId, Scheduler, Weight};
use corun_model::cache::locality::Footprint;
use corun_model::units::Bytes;
use proptest::prelude::*;

/// Owners whose queries never end coming, on one CPU; whose query each start was of.
struct Flood {
    scheduler: Scheduler,
    weights: Vec<u32>,
    owner_of: BTreeMap<QueryId, usize>,
    now_ns: u64,
}

impl Flood {
    fn new(policy: PolicyName, weights: Vec<u32>) -> Self {
        let mut config = config(policy, 1);
        // Without it all queries may wait.
        config.short_below_ns = 0.0;
        Self {
            scheduler: scheduler(config),
            weights,
            owner_of: BTreeMap::new(),
            now_ns: 0,
        }
    }

    /// A query of an owner comes; its tables tell nothing of the owner.
    fn arrive(&mut self, owner: usize) {
        let id = self.owner_of.len() as u64 + 1;
        let footprint = match id * 7 % 3 {
            0 => Footprint::Streams,
            kib => Footprint::Tables(Bytes::kib(400 * kib * kib)),
        };
        let of = Owner {
            id: owner as u64,
            weight: Weight::new(self.weights[owner]).expect("a weight"),
        };
        let query = Query {
            owner: of,
            ..query(&self.scheduler, id, footprint)
        };
        self.scheduler.arrive(self.now_ns, query).expect("room");
        self.owner_of.insert(QueryId(id), owner);
    }

    /// What runs ends, and the next starts; its owner.
    fn next(&mut self) -> Option<usize> {
        self.now_ns += 1000;
        if let Some(run) = self.scheduler.running().first() {
            let id = run.query.id;
            self.scheduler.finish(self.now_ns, id).expect("it runs");
        }
        let started = self.scheduler.dispatch();
        assert!(started.len() <= 1);
        started.first().map(|start| self.owner_of[&start.id])
    }
}

proptest! {
    /// Nobody starves: between two starts of an owner, each other has at most its share and one more, whatever the policy.
    #[test]
    fn each_owner_has_its_turn(
        policy in prop::sample::select(ALL.to_vec()),
        weights in prop::collection::vec(Weight::MIN..=Weight::MAX, 2..6),
    ) {
        let mut flood = Flood::new(policy, weights.clone());
        // The last shall wait longest by age: who comes first is no matter.
        (0..weights.len()).for_each(|owner| { for _ in 0..3 { flood.arrive(owner); } });
        let mut since = vec![vec![0u32; weights.len()]; weights.len()];
        let mut starts = vec![0u32; weights.len()];
        for _ in 0..600 {
            let started = flood.next().expect("somebody waits");
            flood.arrive(started);
            starts[started] += 1;
            for owner in 0..weights.len() {
                since[owner][started] += 1;
                let most = weights[started].div_ceil(weights[owner]) + 1;
                prop_assert!(
                    owner == started || since[owner][started] <= most,
                    "{started} has {} starts while {owner} waits: {weights:?}", since[owner][started]
                );
            }
            since[started].fill(0);
        }
        // In proportion, but for a turn of each.
        let all: u32 = weights.iter().sum();
        for (owner, weight) in weights.iter().enumerate() {
            let share = 600.0 * f64::from(*weight) / f64::from(all);
            let off = (f64::from(starts[owner]) - share).abs();
            prop_assert!(off <= weights.len() as f64 + 1.0, "{starts:?} of {weights:?}");
        }
    }

    /// Whoever comes to others' flood starts as soon as each of these has had its turn, and owes nothing for the time it was away.
    #[test]
    fn a_newcomer_waits_for_a_turn_of_each(
        policy in prop::sample::select(ALL.to_vec()),
        before in 1usize..50,
        flood_weight in Weight::MIN..=Weight::MAX,
    ) {
        let mut flood = Flood::new(policy, vec![flood_weight, Weight::MIN]);
        for _ in 0..before + 20 {
            flood.arrive(0);
        }
        for _ in 0..before {
            prop_assert_eq!(flood.next(), Some(0));
        }
        flood.arrive(1);
        let waited = (0..).take_while(|_| flood.next() == Some(0)).count();
        prop_assert!(waited <= 1, "{waited} others start first");
    }
}

/// One who sends its next query when the last has ended gets no more than one who floods.
#[test]
fn asking_again_at_once_gains_nothing() {
    let mut flood = Flood::new(PolicyName::Fifo, vec![10, 10]);
    for _ in 0..100 {
        flood.arrive(0);
    }
    let mut starts = [0, 0];
    let mut waits = false;
    for _ in 0..100 {
        if !waits {
            flood.arrive(1);
            waits = true;
        }
        let started = flood.next().expect("somebody waits");
        starts[started] += 1;
        waits &= started != 1;
    }
    assert!(starts[1] <= 51, "{starts:?}");
    assert!(starts[0] >= 49, "{starts:?}");
}
