//! The simulators against the plainest ones that can be written: each set a list sorted by recency, each thread a map.

use std::collections::HashMap;

use corun_cachesim::hierarchy::Scope;
use corun_cachesim::{Counters, Geometry, Hierarchy, Level, SetAssociative, Sharing};
use corun_model::operators::trace::{Access, Event, ThreadRole};
use corun_model::units::{Bytes, Ways};
use proptest::prelude::*;

/// A cache as sets of line numbers, most recently used first.
#[derive(Clone)]
struct Naive {
    sets: Vec<Vec<u64>>,
    ways: usize,
    line: u64,
}

impl Naive {
    fn new(geometry: Geometry) -> Self {
        Self {
            sets: vec![Vec::new(); geometry.sets() as usize],
            ways: geometry.ways().0 as usize,
            line: geometry.line().0,
        }
    }

    fn invalidate(&mut self, address: u64) -> bool {
        let line = address / self.line;
        let sets = self.sets.len() as u64;
        let set = &mut self.sets[(line % sets) as usize];
        let before = set.len();
        set.retain(|&held| held != line);
        set.len() < before
    }

    fn access(&mut self, address: u64) -> bool {
        let hit = self.invalidate(address);
        let line = address / self.line;
        let sets = self.sets.len() as u64;
        let set = &mut self.sets[(line % sets) as usize];
        set.insert(0, line);
        set.truncate(self.ways);
        hit
    }
}

fn geometry() -> impl Strategy<Value = Geometry> {
    (1u64..9, 1u32..6, 3u32..8).prop_map(|(sets, ways, shift)| {
        let line = 1u64 << shift;
        Geometry::new(Bytes(sets * u64::from(ways) * line), Ways(ways), Bytes(line)).unwrap()
    })
}

fn role() -> impl Strategy<Value = ThreadRole> {
    prop_oneof![
        Just(ThreadRole::Worker(0)),
        Just(ThreadRole::Worker(255)),
        Just(ThreadRole::Helper)
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let access = prop_oneof![Just(Access::Load), Just(Access::Store), Just(Access::Prefetch)];
    // Near zero and near the end of the address space.
    let address = (0u64..3000, any::<bool>()).prop_map(|(low, top)| if top { u64::MAX - low } else { low });
    (role(), access, address, 0u32..300).prop_map(|(role, access, address, bytes)| Event {
        role,
        access,
        address,
        bytes,
    })
}

/// The hierarchy's rules, once more: `cores[role]` are private levels, byte by byte instead of line by line.
fn naive_counters(
    levels: &[Level],
    sharing: Sharing,
    events: &[Event],
) -> HashMap<(ThreadRole, u8), Counters> {
    let fresh = |scope: Scope| -> Vec<(u8, Naive)> {
        let private = |level: &&Level| sharing == Sharing::Cores && level.scope == Scope::Core;
        let of_scope = levels
            .iter()
            .filter(|level| private(level) == (scope == Scope::Core));
        of_scope
            .map(|level| (level.level, Naive::new(level.geometry)))
            .collect()
    };
    let mut shared = fresh(Scope::Machine);
    let mut cores: HashMap<ThreadRole, Vec<(u8, Naive)>> = HashMap::new();
    let mut counters: HashMap<(ThreadRole, u8), Counters> = HashMap::new();
    let first_line = levels[0].geometry.line().0;
    for event in events {
        let mut touched = Vec::new();
        for byte in 0..u64::from(event.bytes) {
            if let Some(address) = event.address.checked_add(byte)
                && touched
                    .last()
                    .is_none_or(|last| last / first_line != address / first_line)
            {
                touched.push(address);
            }
        }
        for address in touched {
            let own = cores.entry(event.role).or_insert_with(|| fresh(Scope::Core));
            for (level, cache) in own.iter_mut().chain(shared.iter_mut()) {
                let hit = cache.access(address);
                let count = counters.entry((event.role, *level)).or_default();
                if event.access == Access::Prefetch {
                    count.prefetched += u64::from(!hit);
                } else {
                    count.accesses += 1;
                    count.misses += u64::from(!hit);
                }
                if hit {
                    break;
                }
            }
            if event.access == Access::Store {
                for (role, caches) in cores.iter_mut().filter(|(role, _)| **role != event.role) {
                    for (level, cache) in caches {
                        counters.entry((*role, *level)).or_default().invalidations +=
                            u64::from(cache.invalidate(address));
                    }
                }
            }
        }
    }
    counters
}

proptest! {
    #[test]
    fn one_cache(
        geometry in geometry(),
        calls in prop::collection::vec((0u64..4000, prop::bool::weighted(0.1)), 0..400)
    ) {
        let mut cache = SetAssociative::new(geometry);
        let mut naive = Naive::new(geometry);
        for (address, invalidate) in calls {
            let (got, expected) = if invalidate {
                (cache.invalidate(address), naive.invalidate(address))
            } else {
                (cache.access(address), naive.access(address))
            };
            prop_assert_eq!(got, expected, "address {}", address);
        }
    }

    #[test]
    fn a_hierarchy(
        geometries in prop::collection::vec(geometry(), 1..4),
        private in 0usize..4,
        siblings in any::<bool>(),
        events in prop::collection::vec(event(), 0..200)
    ) {
        let mut geometries = geometries;
        geometries.sort_by_key(|geometry| geometry.line());
        let levels: Vec<Level> = geometries
            .into_iter()
            .enumerate()
            .map(|(at, geometry)| Level {
                level: at as u8 + 1,
                geometry,
                scope: if at < private { Scope::Core } else { Scope::Machine },
            })
            .collect();
        let sharing = if siblings { Sharing::Siblings } else { Sharing::Cores };
        let mut hierarchy = Hierarchy::new(&levels, sharing).unwrap();
        for event in &events {
            hierarchy.event(event);
        }
        let expected = naive_counters(&levels, sharing, &events);
        for role in [ThreadRole::Worker(0), ThreadRole::Worker(255), ThreadRole::Helper, ThreadRole::Worker(9)] {
            for level in &levels {
                prop_assert_eq!(
                    hierarchy.counters(role, level.level).unwrap(),
                    expected.get(&(role, level.level)).copied().unwrap_or_default(),
                    "{:?} at level {}", role, level.level
                );
            }
        }
    }
}
