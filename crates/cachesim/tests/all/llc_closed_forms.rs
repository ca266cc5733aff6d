//! Shared caches where the outcome is known beforehand: even access, cyclic scans, partitions that are caches of their own, times.

use std::slice;

use corun_cachesim::llc::{
    AtEnd, ColourMask, Domain, LevelCounts, LlcError, Object, Overlap, PrivateLevel, Run, Source, Stream,
    Treatment,
};
use corun_cachesim::{Geometry, Replacement, SetAssociative, Synthetic, WayMask};
use corun_model::operators::trace::{Access, Event, ThreadRole};
use corun_model::units::{Bytes, Ways};

const REST: Treatment = Treatment {
    colours: None,
    overlap: Overlap::Dependent,
};

fn geometry(size: Bytes, ways: u32) -> Geometry {
    Geometry::new(size, Ways(ways), Bytes(64)).unwrap()
}

/// 1 MiB in 16 ways of 16 pages: 16 colours of one slot, or 8 of two.
fn domain(replacement: Replacement) -> Domain {
    Domain {
        private: Vec::new(),
        llc: geometry(Bytes::mib(1), 16),
        replacement,
        llc_ns: 16.0,
        memory_ns: 128.0,
        parallelism: 4.0,
        colours: 8,
    }
}

fn stream(source: &dyn Source) -> Stream<'_> {
    Stream {
        source,
        space: 0,
        ways: None,
        objects: Vec::new(),
        rest: REST,
        work_ns: 0.0,
        warm_up_events: 0,
        at_end: AtEnd::Stop,
    }
}

fn only(domain: &Domain, stream: &Stream<'_>) -> Run {
    domain.corun(slice::from_ref(stream)).unwrap().remove(0)
}

fn coloured(mask: ColourMask) -> Treatment {
    Treatment {
        colours: Some(mask),
        ..REST
    }
}

/// Even access finds what part of the table the cache holds, whichever line leaves for a new one: C/S, or the partition's part
/// of it.
#[test]
fn even_access_to_s_bytes_in_c_hits_c_over_s() {
    // 400,000 counted accesses of hit ratio p: a standard deviation of at most 0.0008. The seed is fixed.
    let (warm, counted) = (200_000, 400_000);
    for replacement in [Replacement::Lru, Replacement::TreePlru] {
        let domain = domain(replacement);
        for table in [Bytes::mib(2), Bytes::mib(3), Bytes::mib(16)] {
            let probes = Synthetic::random_probes(table, warm + counted, 7).unwrap();
            for (ways, colours) in [
                (None, None),
                (Some(0b11_1000), None),
                (None, Some(0b101)),
                (Some(0xf0), Some(0xf)),
            ] {
                let mut part = 1.0;
                let mut given = stream(&probes);
                given.warm_up_events = warm;
                if let Some(mask) = ways {
                    part *= f64::from(u64::count_ones(mask)) / 16.0;
                    given.ways = Some(WayMask(mask));
                }
                if let Some(mask) = colours {
                    part *= f64::from(u64::count_ones(mask)) / 8.0;
                    given.rest = coloured(ColourMask(mask));
                }
                let expected = part * Bytes::mib(1).0 as f64 / table.0 as f64;
                let hits = 1.0 - only(&domain, &given).llc().miss_rate();
                assert!(
                    (hits - expected).abs() < 0.004,
                    "{replacement:?} {table} {ways:?} {colours:?}: {hits} instead of {expected}"
                );
            }
        }
    }
}

/// A scan that goes round in more than the cache finds nothing again; in no more than the cache, everything.
#[test]
fn cyclic_scans_miss_always_or_once() {
    let domain = domain(Replacement::Lru);
    let lines = 1 << 14;
    // One line more in each set than fits, and exactly what fits.
    for (size, lines_missed) in [(Bytes::kib(1024 + 64), 5 * lines), (Bytes::mib(1), lines)] {
        let scan = Synthetic::sequential_scan(size, 5 * lines).unwrap();
        let expected = LevelCounts {
            accesses: 5 * lines,
            misses: lines_missed,
            prefetched: 0,
        };
        assert_eq!(only(&domain, &stream(&scan)).llc(), expected, "{size}");
    }
    // The same in a quarter, by ways and by colours.
    for (size, rounds_missed) in [(Bytes::kib(256 + 64), 5), (Bytes::kib(256), 1)] {
        let lines = size.0 / 64;
        let scan = Synthetic::sequential_scan(size, 5 * lines).unwrap();
        let mut by_ways = stream(&scan);
        by_ways.ways = Some(WayMask(0xf00));
        let mut by_colours = stream(&scan);
        by_colours.rest = coloured(ColourMask(0b1001));
        for given in [by_ways, by_colours] {
            assert_eq!(
                only(&domain, &given).llc().misses,
                rounds_missed * lines,
                "{size}"
            );
        }
    }
}

fn misses(mut cache: SetAssociative, source: &dyn Source) -> u64 {
    source
        .events()
        .map(|event| u64::from(!cache.access(event.address)))
        .sum()
}

/// Streams in disjoint partitions: each misses exactly what it would in a smaller cache of its own, whatever the others do.
#[test]
fn a_partition_is_a_cache_of_its_own() {
    let join = Synthetic::hash_join_probe(Bytes::mib(8), Bytes::kib(300), 40_000, 1).unwrap();
    let index = Synthetic::index_descents(Bytes::mib(4), 16, 20_000, 2).unwrap();
    let scan = Synthetic::sequential_scan(Bytes::kib(200), 50_000).unwrap();
    let sources: [&dyn Source; 3] = [&join, &index, &scan];

    // By ways, of a cache with as many sets: 3, 8, 5 of 16.
    let masks = [0b111, 0x7f8, 0xf800];
    let mut streams = sources.map(stream);
    for ((at, given), mask) in streams.iter_mut().enumerate().zip(masks) {
        (given.space, given.ways) = (at as u8, Some(WayMask(mask)));
    }
    let runs = domain(Replacement::Lru).corun(&streams).unwrap();
    for ((run, source), mask) in runs.iter().zip(sources).zip(masks) {
        let ways = mask.count_ones();
        let own = SetAssociative::new(geometry(Bytes::kib(64 * u64::from(ways)), ways));
        assert_eq!(run.llc().misses, misses(own, source), "{ways} ways");
    }

    // By colours, of a cache with as many ways: 1, 4, 3 of 8.
    let masks = [0b1, 0b1101_0010, 0b10_1100];
    for replacement in [Replacement::Lru, Replacement::TreePlru] {
        let mut streams = sources.map(stream);
        for ((at, given), mask) in streams.iter_mut().enumerate().zip(masks) {
            (given.space, given.rest) = (at as u8, coloured(ColourMask(mask)));
        }
        let runs = domain(replacement).corun(&streams).unwrap();
        for ((run, source), mask) in runs.iter().zip(sources).zip(masks) {
            let mut own = domain(replacement);
            own.llc = geometry(Bytes::kib(128 * u64::from(mask.count_ones())), 16);
            assert_eq!(
                run.llc(),
                only(&own, &stream(source)).llc(),
                "{replacement:?} {mask:#x}"
            );
        }
    }
}

/// An aligned mask of 2^k ways is a subtree, and so a tree of its own.
#[test]
fn an_aligned_partition_of_a_tree_is_a_tree() {
    let join = Synthetic::hash_join_probe(Bytes::mib(8), Bytes::kib(300), 60_000, 1).unwrap();
    for (mask, ways) in [(0x1, 1), (0xc, 2), (0xf0, 4), (0xff00, 8), (0xffff, 16)] {
        let mut given = stream(&join);
        given.ways = Some(WayMask(mask));
        let mut own = domain(Replacement::TreePlru);
        own.llc = geometry(Bytes::kib(64 * ways), ways as u32);
        assert_eq!(
            only(&domain(Replacement::TreePlru), &given).llc(),
            only(&own, &stream(&join)).llc(),
            "{mask:#x}"
        );
    }
}

/// What each access costs, and that what has its own caches is not slowed down.
#[test]
fn times_are_sums_of_latencies() {
    let mut domain = domain(Replacement::Lru);
    let scan = Synthetic::sequential_scan(Bytes::kib(256), 4096).unwrap();
    let mut given = stream(&scan);
    given.work_ns = 2.0;
    assert_eq!(only(&domain, &given).time_ns, 4096.0 * (128.0 + 2.0));
    given.rest.overlap = Overlap::Independent;
    assert_eq!(only(&domain, &given).time_ns, 4096.0 * (32.0 + 2.0));

    // The second round of a warm private level; the first is not counted.
    domain.private.push(PrivateLevel {
        geometry: geometry(Bytes::kib(64), 4),
        latency_ns: 1.0,
    });
    let small = Synthetic::sequential_scan(Bytes::kib(64), 2048).unwrap();
    let mut private = stream(&small);
    private.warm_up_events = 1024;
    private.space = 1;
    let alone = domain.alone(&private).unwrap();
    assert_eq!(alone.time_ns, 1024.0);
    let none = LevelCounts::default();
    let hits = LevelCounts {
        accesses: 1024,
        ..none
    };
    assert_eq!(alone.levels, [hits, none]);
    // Beside a scan it begins later to count, for its warm-up is no quicker; then nothing holds it up.
    let runs = domain.corun(&[private, given]).unwrap();
    assert_eq!(runs[0].slow_down(&alone), 1.0);
}

/// Nobody waits for stores and prefetches, and a prefetched line is a hit afterwards.
#[test]
fn stores_and_prefetches_overlap() {
    let domain = domain(Replacement::Lru);
    let event = |access, address| Event {
        role: ThreadRole::Helper,
        access,
        address,
        bytes: 8,
    };
    let trace = vec![
        event(Access::Prefetch, 0),
        event(Access::Load, 0),
        event(Access::Store, 1 << 20),
        event(Access::Load, 2 << 20),
        // Across two lines, the first of them known.
        event(Access::Load, (2 << 20) + 60),
    ];
    let run = only(&domain, &stream(&trace));
    assert_eq!(run.time_ns, 32.0 + 16.0 + 32.0 + 128.0 + (16.0 + 128.0));
    let expected = LevelCounts {
        accesses: 5,
        misses: 3,
        prefetched: 1,
    };
    assert_eq!(run.llc(), expected);
}

/// Streams of one address space find each other's lines; those of different ones never do.
#[test]
fn memory_is_shared_where_the_address_space_is() {
    let domain = domain(Replacement::Lru);
    let scan = Synthetic::sequential_scan(Bytes::kib(512), 8192).unwrap();
    let missed = |spaces: [u8; 2]| {
        let streams = spaces.map(|space| Stream {
            space,
            ..stream(&scan)
        });
        let runs = domain.corun(&streams).unwrap();
        runs.iter().map(|run| run.llc().misses).sum::<u64>()
    };
    assert_eq!(missed([3, 3]), 8192);
    assert_eq!(missed([3, 4]), 2 * 8192);
    assert_eq!(
        missed([0, 62]),
        2 * 8192,
        "the highest number there is with lines of 64 bytes"
    );
}

/// A restarted co-runner presses until the end, one that stops does not.
#[test]
fn a_restarted_corunner_keeps_up_the_pressure() {
    let domain = domain(Replacement::Lru);
    let table = Synthetic::random_probes(Bytes::kib(768), 400_000, 1).unwrap();
    let scan = Synthetic::sequential_scan(Bytes::mib(4), 20_000).unwrap();
    let alone = domain.alone(&stream(&table)).unwrap().llc().misses;
    assert_eq!(alone, 12_288, "each line once");
    let misses = |at_end| {
        let scan = Stream {
            at_end,
            space: 1,
            ..stream(&scan)
        };
        domain.corun(&[stream(&table), scan]).unwrap()[0].llc().misses
    };
    let (stopped, restarted) = (misses(AtEnd::Stop), misses(AtEnd::Restart));
    assert!(
        alone < stopped && 2 * stopped < restarted,
        "{alone}, {stopped}, {restarted}"
    );
}

#[test]
fn what_cannot_be_simulated_is_named() {
    let scan = Synthetic::sequential_scan(Bytes(64), 4).unwrap();
    let good = domain(Replacement::Lru);
    assert_eq!(good.corun(&[]), Err(LlcError::Streams(0)));
    assert_eq!(good.corun(&vec![stream(&scan); 257]), Err(LlcError::Streams(257)));

    let refused = |change: &dyn Fn(&mut Domain)| {
        let mut domain = good.clone();
        change(&mut domain);
        domain.corun(&[stream(&scan)]).unwrap_err()
    };
    for ns in [0.0, -1.0, f64::INFINITY] {
        let what = "the latency of memory";
        assert_eq!(
            refused(&|domain| domain.memory_ns = ns),
            LlcError::Time { what, ns }
        );
    }
    assert!(matches!(
        refused(&|domain| domain.llc_ns = f64::NAN),
        LlcError::Time { .. }
    ));
    assert_eq!(
        refused(&|domain| domain.parallelism = 0.5),
        LlcError::Parallelism(0.5)
    );
    let longer = PrivateLevel {
        geometry: Geometry::new(Bytes(256), Ways(1), Bytes(128)).unwrap(),
        latency_ns: 1.0,
    };
    assert_eq!(
        refused(&|domain| domain.private.push(longer)),
        LlcError::LineShrinks
    );
    let wide = |domain: &mut Domain| domain.llc = geometry(Bytes::mib(1), 128);
    let mut wide_tree = domain(Replacement::TreePlru);
    wide(&mut wide_tree);
    assert_eq!(wide_tree.corun(&[stream(&scan)]), Err(LlcError::Ways(128)));
    let mut wide_lru = good.clone();
    wide(&mut wide_lru);
    assert!(wide_lru.corun(&[stream(&scan)]).is_ok());

    let refused = |change: &dyn Fn(&mut Stream<'_>)| {
        let mut given = stream(&scan);
        change(&mut given);
        good.corun(&[stream(&scan), given]).unwrap_err()
    };
    for mask in [0, 1 << 16, u64::MAX] {
        assert_eq!(
            refused(&|given| given.ways = Some(WayMask(mask))),
            LlcError::WayMask {
                stream: 1,
                mask,
                ways: 16
            }
        );
    }
    for mask in [0, 1 << 8] {
        let expected = LlcError::Colours {
            stream: 1,
            mask,
            colours: 8,
        };
        assert_eq!(
            refused(&|given| given.rest = coloured(ColourMask(mask))),
            expected
        );
    }
    assert_eq!(
        refused(&|given| given.space = 63),
        LlcError::Space {
            stream: 1,
            space: 63,
            end: 63
        }
    );
    let object = |addresses| Object {
        addresses,
        treatment: REST,
    };
    assert_eq!(
        refused(&|given| given.objects = vec![object(100..200), object(0..101)]),
        LlcError::Objects {
            stream: 1,
            address: 100
        }
    );
    #[expect(clippy::reversed_empty_ranges, reason = "it is to be refused")]
    let backward = 9..3;
    assert_eq!(
        refused(&|given| given.objects = vec![object(backward.clone())]),
        LlcError::Objects {
            stream: 1,
            address: 9
        }
    );
    assert!(matches!(
        refused(&|given| given.work_ns = -1.0),
        LlcError::Time { .. }
    ));
    assert_eq!(refused(&|given| given.warm_up_events = 4), LlcError::Nothing(1));
    let idle = vec![Event {
        role: ThreadRole::Worker(0),
        access: Access::Load,
        address: 0,
        bytes: 0,
    }];
    let mut nothing = stream(&idle);
    nothing.at_end = AtEnd::Restart;
    assert_eq!(good.corun(&[stream(&scan), nothing]), Err(LlcError::Nothing(1)));
}
