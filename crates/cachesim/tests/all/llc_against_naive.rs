//! Co-runs on a shared cache against the plainest simulation that can be written: sets are lists, pages are handed out one by one,
//! accesses are cut byte by byte, and all streams lie in memory.

use std::ops::Range;

use corun_cachesim::llc::{
    AtEnd, ColourMask, Domain, LevelCounts, Object, Overlap, PrivateLevel, Run, Stream, Treatment,
};
use corun_cachesim::{Geometry, Replacement, WayMask};
use corun_model::operators::trace::{Access, Event, ThreadRole};
use corun_model::units::{Bytes, Ways};
use proptest::prelude::*;

/// Addresses stay below this, so that pages can be handed out one by one.
const ADDRESSES: u64 = 40 << 12;

/// One way of a set: who holds it, and when it was last used.
type Way = (Option<(u8, u64)>, u64);

struct Sets {
    sets: Vec<Vec<Way>>,
    clock: u64,
}

impl Sets {
    fn new(geometry: Geometry) -> Self {
        Self {
            sets: vec![vec![(None, 0); geometry.ways().0 as usize]; geometry.sets() as usize],
            clock: 0,
        }
    }

    fn access(&mut self, set: u64, line: (u8, u64), mask: u64) -> bool {
        self.clock += 1;
        let clock = self.clock;
        let set = &mut self.sets[set as usize];
        if let Some(way) = set.iter_mut().find(|way| way.0 == Some(line)) {
            way.1 = clock;
            return true;
        }
        let mut allowed: Vec<&mut Way> = set
            .iter_mut()
            .enumerate()
            .filter(|(way, _)| mask >> way & 1 == 1)
            .map(|(_, way)| way)
            .collect();
        allowed.sort_by_key(|way| if way.0.is_none() { 0 } else { way.1 });
        *allowed[0] = (Some(line), clock);
        false
    }
}

/// The set of a line whose object has these colours: pages from 0 on take colours in turn and each colour's slots in turn.
fn coloured_set(domain: &Domain, line: u64, mask: u64) -> u64 {
    let line_bytes = domain.llc.line().0;
    let lines_per_page = 4096 / line_bytes;
    let slots = domain.llc.sets() / lines_per_page;
    let colours: Vec<u64> = (0..u64::from(domain.colours))
        .filter(|colour| mask >> colour & 1 == 1)
        .collect();
    let mut free: Vec<Vec<u64>> = colours
        .iter()
        .map(|&colour| {
            (0..slots)
                .filter(|slot| slot % u64::from(domain.colours) == colour)
                .collect()
        })
        .collect();
    let mut slot = 0;
    for page in 0..=line / lines_per_page {
        let turn = &mut free[page as usize % colours.len()];
        slot = turn[0];
        turn.rotate_left(1);
    }
    slot * lines_per_page + line % lines_per_page
}

/// Plain description of a stream; `Stream` borrows its events.
#[derive(Clone, Debug)]
struct Given {
    events: Vec<Event>,
    space: u8,
    ways: Option<u64>,
    objects: Vec<(Range<u64>, Treatment)>,
    rest: Treatment,
    work_ns: f64,
    warm_up_events: u64,
    restart: bool,
}

impl Given {
    fn stream(&self) -> Stream<'_> {
        Stream {
            source: &self.events,
            space: self.space,
            ways: self.ways.map(WayMask),
            objects: self
                .objects
                .iter()
                .map(|(addresses, treatment)| Object {
                    addresses: addresses.clone(),
                    treatment: *treatment,
                })
                .collect(),
            rest: self.rest,
            work_ns: self.work_ns,
            warm_up_events: self.warm_up_events,
            at_end: if self.restart { AtEnd::Restart } else { AtEnd::Stop },
        }
    }
}

fn naive(domain: &Domain, streams: &[Given]) -> Vec<Run> {
    struct Core {
        private: Vec<Sets>,
        clock: f64,
        made: usize,
        from: f64,
        counts: Vec<LevelCounts>,
        run: Option<Run>,
    }
    let depth = domain.private.len();
    let nearest = domain
        .private
        .first()
        .map_or(domain.llc, |level| level.geometry)
        .line()
        .0;
    let mut shared = Sets::new(domain.llc);
    let mut cores: Vec<Core> = streams
        .iter()
        .map(|_| Core {
            private: domain
                .private
                .iter()
                .map(|level| Sets::new(level.geometry))
                .collect(),
            clock: 0.0,
            made: 0,
            from: 0.0,
            counts: vec![LevelCounts::default(); depth + 1],
            run: None,
        })
        .collect();
    while cores.iter().any(|core| core.run.is_none()) {
        let runnable = (0..cores.len()).filter(|&at| streams[at].restart || cores[at].run.is_none());
        let at = runnable
            .min_by(|&a, &b| cores[a].clock.total_cmp(&cores[b].clock))
            .unwrap();
        let (core, stream) = (&mut cores[at], &streams[at]);
        if core.made > 0 && core.made % stream.events.len() == 0 && core.run.is_none() {
            core.run = Some(Run {
                time_ns: core.clock - core.from,
                levels: core.counts.clone(),
            });
            // The turn is taken anew: this one may be over for good.
            continue;
        }
        let event = &stream.events[core.made % stream.events.len()];
        let mut pieces: Vec<u64> = (0..u64::from(event.bytes))
            .map(|byte| (event.address + byte) / nearest)
            .collect();
        pieces.dedup();
        if !pieces.is_empty() {
            core.clock += stream.work_ns;
        }
        for piece in pieces {
            let line = piece * nearest / domain.llc.line().0;
            let first_byte = line * domain.llc.line().0;
            let treatment = stream
                .objects
                .iter()
                .find(|(addresses, _)| addresses.contains(&first_byte))
                .map_or(stream.rest, |(_, treatment)| *treatment);
            let mut latencies: Vec<f64> = domain.private.iter().map(|level| level.latency_ns).collect();
            latencies.extend([domain.llc_ns, domain.memory_ns]);
            let mut served_by = depth + 1;
            for level in 0..=depth {
                let hit = if level < depth {
                    let geometry = domain.private[level].geometry;
                    let own = piece * nearest / geometry.line().0;
                    core.private[level].access(own % geometry.sets(), (0, own), u64::MAX)
                } else {
                    let set = match treatment.colours {
                        None => line % domain.llc.sets(),
                        Some(mask) => coloured_set(domain, line, mask.0),
                    };
                    shared.access(set, (stream.space, line), stream.ways.unwrap_or(u64::MAX))
                };
                let counts = &mut core.counts[level];
                if event.access == Access::Prefetch {
                    counts.prefetched += u64::from(!hit);
                } else {
                    counts.accesses += 1;
                    counts.misses += u64::from(!hit);
                }
                if hit {
                    served_by = level;
                    break;
                }
            }
            let waits = event.access == Access::Load && treatment.overlap == Overlap::Dependent;
            core.clock += latencies[served_by] / if waits { 1.0 } else { domain.parallelism };
        }
        core.made += 1;
        if core.made as u64 <= stream.warm_up_events {
            core.from = core.clock;
            core.counts = vec![LevelCounts::default(); depth + 1];
        }
    }
    cores.into_iter().map(|core| core.run.unwrap()).collect()
}

fn geometry(sets: u64, ways: u32, line: u64) -> Geometry {
    Geometry::new(Bytes(sets * u64::from(ways) * line), Ways(ways), Bytes(line)).unwrap()
}

fn event() -> impl Strategy<Value = Event> {
    let access = prop_oneof![4 => Just(Access::Load), 1 => Just(Access::Store), 1 => Just(Access::Prefetch)];
    // Few lines, so that some are found again; some accesses of no bytes, some across lines.
    let address = prop_oneof![
        0u64..1500,
        (0u64..80, 0u64..64).prop_map(|(line, byte)| line * 2048 + byte)
    ];
    (access, address, 0u32..200).prop_map(|(access, address, bytes)| Event {
        role: ThreadRole::Worker(0),
        access,
        address,
        bytes,
    })
}

fn treatment() -> impl Strategy<Value = Treatment> {
    (prop::option::of(1u64..16), any::<bool>()).prop_map(|(mask, dependent)| Treatment {
        colours: mask.map(ColourMask),
        overlap: if dependent {
            Overlap::Dependent
        } else {
            Overlap::Independent
        },
    })
}

fn given() -> impl Strategy<Value = Given> {
    (
        prop::collection::vec(event(), 1..120),
        0u8..3,
        prop::option::of(1u64..8),
        (0u64..3000, 0u64..3000, 0u64..3000, 0u64..ADDRESSES),
        (treatment(), treatment(), treatment()),
        (0u8..4, 0u64..20, any::<bool>()),
    )
        .prop_map(
            |(mut events, space, ways, (a, b, c, d), (first, second, rest), (work, warm, restart))| {
                // The last access always takes time and always counts.
                events.push(Event {
                    role: ThreadRole::Worker(0),
                    access: Access::Load,
                    address: 5,
                    bytes: 1,
                });
                Given {
                    warm_up_events: warm.min(events.len() as u64 - 1),
                    events,
                    space,
                    ways,
                    // Not in order of address, on purpose.
                    objects: vec![(a + b + c..a + b + c + d, first), (a..a + b, second)],
                    rest,
                    work_ns: f64::from(work) / 2.0,
                    restart,
                }
            },
        )
}

proptest! {
    #[test]
    fn a_corun(
        private in prop::collection::vec((1u64..4, 1u32..3), 0..3),
        (lines_shift, slots) in (6u32..10, 1u64..4),
        streams in prop::collection::vec(given(), 1..4)
    ) {
        let line = 1 << lines_shift;
        let domain = Domain {
            private: private
                .into_iter()
                .zip([1.0, 4.0])
                .map(|((sets, ways), latency_ns)| PrivateLevel { geometry: geometry(sets, ways, 64), latency_ns })
                .collect(),
            llc: geometry(4 * slots * (4096 / line), 3, line),
            replacement: Replacement::Lru,
            llc_ns: 10.0,
            memory_ns: 64.0,
            // Powers of two, so that sums of times are exact in any order.
            parallelism: 4.0,
            colours: 4,
        };
        let simulated: Vec<Stream<'_>> = streams.iter().map(Given::stream).collect();
        prop_assert_eq!(domain.corun(&simulated).unwrap(), naive(&domain, &streams));

        let mut alone = streams[0].clone();
        alone.ways = None;
        alone.rest.colours = None;
        alone.objects.iter_mut().for_each(|(_, treatment)| treatment.colours = None);
        prop_assert_eq!(domain.alone(&simulated[0]).unwrap(), naive(&domain, &[alone])[0].clone());
    }
}
