//! The effective last-level cache from times beside a polluter, on simulated caches whose size is known.
//!
//! A workload draws lines evenly from a known footprint while another core walks a footprint in a cycle, over one shared cache; the fit
//! of [`corun_model::pmu::interference`] must find the size of that cache from the workload's times alone.

use corun_cachesim::llc::{AtEnd, Domain, Overlap, Stream, Treatment};
use corun_cachesim::{Geometry, Replacement, Synthetic};
use corun_model::knee::EffectiveLlc;
use corun_model::operators::trace::{Access, Event, ThreadRole};
use corun_model::pmu::interference::{KnownPoint, effective_llc};
use corun_model::units::{Bytes, Ways};

const LLC: Bytes = Bytes::mib(1);
const ACCESSES: usize = 40_000;

/// Each line of `bytes` once a round, in an order without neighbours.
fn cycle(bytes: Bytes) -> Vec<Event> {
    let lines = (bytes.0 / 64).max(1);
    let step = (lines * 5 / 8) | 1;
    let step = (step..)
        .step_by(2)
        .find(|step| gcd(*step, lines) == 1)
        .unwrap_or(1);
    (0..lines)
        .map(|nth| Event {
            role: ThreadRole::Worker(0),
            access: Access::Load,
            address: nth * step % lines * 64,
            bytes: 8,
        })
        .collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn times(own: Bytes, replacement: Replacement) -> Vec<KnownPoint> {
    let domain = Domain {
        private: Vec::new(),
        llc: Geometry::new(LLC, Ways(16), Bytes(64)).expect("a cache"),
        replacement,
        llc_ns: 20.0,
        memory_ns: 100.0,
        parallelism: 8.0,
        colours: 1,
    };
    let steps = (0..14).map(|half| Bytes((65536.0 * (f64::from(half) / 2.0).exp2()) as u64 / 64 * 64));
    std::iter::once(Bytes(0))
        .chain(steps)
        .map(|polluter| {
            let walk = cycle(polluter);
            let ns = (0..3)
                .map(|seed| {
                    let draws = Synthetic::random_probes(own, ACCESSES as u64, seed + 1).expect("a workload");
                    let workload = Stream {
                        source: &draws,
                        space: 0,
                        ways: None,
                        objects: Vec::new(),
                        rest: Treatment {
                            colours: None,
                            overlap: Overlap::Dependent,
                        },
                        work_ns: 5.0,
                        warm_up_events: ACCESSES as u64 / 2,
                        at_end: AtEnd::Restart,
                    };
                    let pollution = Stream {
                        source: &walk,
                        space: 1,
                        ways: None,
                        objects: Vec::new(),
                        rest: Treatment {
                            colours: None,
                            overlap: Overlap::Independent,
                        },
                        work_ns: 1.0,
                        warm_up_events: 0,
                        at_end: AtEnd::Restart,
                    };
                    let run = match polluter.0 {
                        0 => domain.alone(&workload),
                        _ => domain
                            .corun(&[workload, pollution])
                            .map(|mut runs| runs.swap_remove(0)),
                    };
                    run.expect("it runs").time_ns
                })
                .collect();
            KnownPoint {
                polluter,
                ns,
                touches: None,
            }
        })
        .collect()
}

#[test]
fn the_size_of_a_simulated_cache_is_found() {
    for replacement in [Replacement::Lru, Replacement::TreePlru] {
        for own in [Bytes::kib(256), Bytes::kib(512)] {
            let answer = effective_llc(own, &times(own, replacement));
            let EffectiveLlc::Found {
                bytes,
                bytes_min,
                bytes_max,
                ..
            } = answer
            else {
                panic!("{replacement:?}, {own}: {answer:?}");
            };
            let off = bytes.0 as f64 / LLC.0 as f64;
            assert!((0.75..1.3).contains(&off), "{replacement:?}, {own}: off by {off}");
            assert!(bytes_min <= bytes && bytes <= bytes_max);
        }
    }
}

#[test]
fn a_workload_larger_than_the_cache_finds_none() {
    let own = Bytes::mib(4);
    let answer = effective_llc(own, &times(own, Replacement::Lru));
    assert!(matches!(answer, EffectiveLlc::NotFound { .. }), "{answer:?}");
}
