//! STEPS: points and misses against the plainest algorithm that can be written, and what must hold of any trace.

use std::collections::BTreeSet;

use corun_cachesim::Replacement;
use corun_cachesim::instruction_cache::{
    Candidates, CodeCache, Fetch, InstructionCacheError, Operation, Original, Placed, Preference, Search,
    Start, SwitchCode, Team, evaluate, place,
};
use corun_model::teams::{Knee, L1i};
use proptest::prelude::*;

/// Sets of `(line, segment that used it last)`, most recently used first.
#[derive(Clone)]
struct Naive {
    sets: Vec<Vec<(u64, u64)>>,
    ways: usize,
    line_bytes: u64,
}

impl Naive {
    fn new(l1i: L1i) -> Self {
        let sets = l1i.bytes / l1i.ways / l1i.line_bytes;
        Self {
            sets: vec![Vec::new(); sets as usize],
            ways: l1i.ways as usize,
            line_bytes: u64::from(l1i.line_bytes),
        }
    }

    /// Lines missed, and of what segments were those that left.
    fn fetch(&mut self, fetch: &Fetch, segment: u64) -> (u64, Vec<u64>) {
        let mut missed = 0;
        let mut left = Vec::new();
        let mut lines: Vec<u64> = (0..u64::from(fetch.bytes.max(1)))
            .map(|byte| (fetch.address + byte) / self.line_bytes)
            .collect();
        lines.dedup();
        for line in lines {
            let sets = self.sets.len() as u64;
            let set = &mut self.sets[(line % sets) as usize];
            let held = set.len();
            set.retain(|&(other, _)| other != line);
            missed += u64::from(set.len() == held);
            set.insert(0, (line, segment));
            if set.len() > self.ways {
                left.extend(set.pop().map(|(_, segment)| segment));
            }
        }
        (missed, left)
    }
}

fn naive_misses(cache: &mut Naive, operation: &Operation) -> u64 {
    operation
        .fetches()
        .iter()
        .map(|fetch| cache.fetch(fetch, 0).0)
        .sum()
}

/// The keys of points that stand before instruction `at`, by kind of candidate.
fn candidates_at(operation: &Operation, candidates: Candidates<'_>, at: usize) -> Vec<u64> {
    let fetch = operation.fetches()[at];
    let yes = match candidates {
        Candidates::Instructions => !fetch.latched,
        Candidates::Entries => !fetch.latched && fetch.entry,
        Candidates::Addresses(addresses) => !fetch.latched && addresses.contains(&fetch.address),
        Candidates::Sites => {
            let met = operation
                .visits()
                .iter()
                .filter(|met| met.at as usize == at && !met.latched);
            return met.map(|met| met.site_address).collect();
        }
    };
    if yes { vec![fetch.address] } else { vec![] }
}

/// Points, calls and STEPS misses by the words of the paper: run from the beginning, at the first knee turn on a point, run again.
fn naive_place(
    operation: &Operation,
    l1i: L1i,
    search: &Search<'_>,
) -> (BTreeSet<u64>, Vec<(u32, u64)>, Vec<u32>) {
    let points_at = |at: usize| candidates_at(operation, search.candidates, at);
    let length = operation.fetches().len();
    let mut on = BTreeSet::new();
    'again: loop {
        let mut cache = Naive::new(l1i);
        naive_misses(&mut cache, operation);
        let (mut segment, mut segment_at) = (1, 0);
        let (mut calls, mut misses) = (Vec::new(), Vec::new());
        // Misses since the last call or forgotten knee.
        let mut recent: Vec<usize> = Vec::new();
        for (at, fetch) in operation.fetches().iter().enumerate() {
            for point in points_at(at) {
                if on.contains(&point) {
                    calls.push((at as u32, point));
                    segment += 1;
                    segment_at = at;
                    recent.clear();
                }
            }
            for left in cache.fetch(fetch, segment).1 {
                if left != segment {
                    continue;
                }
                misses.push(at as u32);
                recent.push(at);
                let close = recent
                    .windows(2)
                    .rev()
                    .take_while(|pair| (pair[1] - pair[0]) as u64 <= search.knee.width)
                    .count()
                    + 1;
                let height = search.knee.height as usize;
                if close < height && recent.len() < 2 * height {
                    continue;
                }
                let begins = recent[recent.len() - close];
                recent.clear();
                let inside: Vec<(usize, u64)> = (segment_at + 1..=begins)
                    .flat_map(|at| points_at(at).into_iter().map(move |point| (at, point)))
                    .collect();
                let how_often = |point: u64| {
                    (0..length)
                        .flat_map(points_at)
                        .filter(|&other| other == point)
                        .count()
                };
                let half = segment_at + (begins - segment_at) / 2;
                let mut chosen = inside.last().copied();
                if search.preference == Preference::Rarest {
                    let mut near = inside.iter().filter(|(at, _)| *at > half);
                    let rarest = near.clone().map(|&(_, point)| how_often(point)).min();
                    if let Some(rarest) = rarest {
                        chosen = near.rfind(|&&(_, point)| how_often(point) == rarest).copied();
                    }
                }
                let behind =
                    (begins + 1..length).find_map(|at| points_at(at).first().map(|&point| (at, point)));
                if let Some((_, point)) = chosen.or(behind)
                    && on.len() < search.points_max
                    && on.insert(point)
                {
                    continue 'again;
                }
            }
        }
        return (on, calls, misses);
    }
}

fn l1i() -> impl Strategy<Value = L1i> {
    (1u32..5, 1u32..5, 3u32..7).prop_map(|(sets, ways, shift)| L1i {
        bytes: (sets * ways) << shift,
        ways,
        line_bytes: 1 << shift,
    })
}

/// Walks over a few hundred bytes of code: straight on, with jumps and loops, now and then in a latch or past a site.
fn operation() -> impl Strategy<Value = Operation> {
    let step = (0u64..600, 1u8..16, 0u8..10, 0u8..12, 0u8..6);
    prop::collection::vec(step, 1..160).prop_map(|steps| {
        let mut operation = Operation::new(7);
        let mut address = 0;
        let mut latched = false;
        for (target, bytes, jump, latch, site) in steps {
            let entry = jump == 0;
            if jump < 2 {
                address = target;
            }
            latched = if latched { latch > 2 } else { latch == 0 };
            if site == 0 {
                operation.visit(1000 + target % 4, latched);
                if jump == 3 {
                    operation.visit(2000, latched);
                }
            }
            operation.fetch(Fetch {
                address,
                bytes,
                latched,
                entry,
            });
            address += u64::from(bytes);
        }
        operation
    })
}

fn addresses() -> &'static BTreeSet<u64> {
    static ADDRESSES: std::sync::OnceLock<BTreeSet<u64>> = std::sync::OnceLock::new();
    ADDRESSES.get_or_init(|| (0..700).step_by(7).collect())
}

fn search() -> impl Strategy<Value = Search<'static>> {
    let candidates = prop_oneof![
        Just(Candidates::Instructions),
        Just(Candidates::Entries),
        Just(Candidates::Sites),
        Just(Candidates::Addresses(addresses())),
    ];
    let preference = prop_oneof![Just(Preference::Nearest), Just(Preference::Rarest)];
    (0u64..40, 1u32..5, candidates, preference, 0usize..20).prop_map(
        |(width, height, candidates, preference, points_max)| Search {
            knee: Knee { width, height },
            candidates,
            preference,
            points_max,
        },
    )
}

proptest! {
    #[test]
    fn points_calls_and_misses(operation in operation(), l1i in l1i(), search in search()) {
        let cache = CodeCache::lru(l1i).unwrap();
        let placement = place(&operation, &cache, &search).unwrap();
        let (points, calls, misses) = naive_place(&operation, l1i, &search);
        prop_assert_eq!(placement.points.keys().copied().collect::<BTreeSet<_>>(), points);
        let got: Vec<(u32, u64)> = placement.segments.calls.iter().map(|call| (call.at, call.point)).collect();
        prop_assert_eq!(got, calls);
        prop_assert_eq!(&placement.segments.misses_at, &misses);
        // The same points given, nothing to search.
        let again = evaluate(&operation, &cache, search.candidates, |point| placement.points.contains_key(&point));
        let again = again.unwrap();
        prop_assert_eq!(&again.segments, &placement.segments);
        prop_assert_eq!(&again.points, &placement.points);
    }

    #[test]
    fn what_must_hold(operation in operation(), l1i in l1i(), knee in (0u64..40, 1u32..5)) {
        let knee = Knee { width: knee.0, height: knee.1 };
        let cache = CodeCache::lru(l1i).unwrap();
        for search in [Search::paper(knee), Search { preference: Preference::Rarest, ..Search::paper(knee) }] {
            let placement = place(&operation, &cache, &search).unwrap();
            let by_segment = placement.segments.misses_by_segment();
            prop_assert_eq!(by_segment.iter().sum::<u64>(), placement.segments.non_leading_misses());
            prop_assert_eq!(by_segment.len(), placement.segments.calls.len() + 1);
            prop_assert_eq!(placement.points.values().sum::<u64>(), placement.segments.calls.len() as u64);
            // Each asked once, and nothing that is called was latched or is at an unknown place.
            for call in &placement.segments.calls {
                let fetch = operation.fetches()[call.at as usize];
                prop_assert!(!fetch.latched && fetch.address == call.point && call.thread == 7);
            }
            // Where every knee got its point at or before its beginning, no segment keeps a knee.
            let before = |placed: &Placed| matches!(placed, Placed::Before { .. });
            if placement.wanted.iter().all(|wanted| before(&wanted.placed)) {
                for misses in by_segment {
                    prop_assert!(misses < 2 * u64::from(knee.height), "{} in a segment", misses);
                }
            }
            prop_assert!(placement.wanted.len() >= placement.points.len());
        }
        // A line that leaves in its segment was brought by a miss of it or was there at its beginning.
        let original = Original::of(&operation, &cache).unwrap();
        let whole = evaluate(&operation, &cache, Candidates::Instructions, |_| false).unwrap();
        prop_assert!(whole.segments.non_leading_misses() <= original.warm_misses);
        prop_assert!(original.warm_misses <= original.cold_misses);
        prop_assert!(original.footprint_lines <= original.cold_misses);
        prop_assert!(original.warm_missing_instructions <= original.warm_misses);
    }

    #[test]
    fn the_original(operation in operation(), l1i in l1i()) {
        let original = Original::of(&operation, &CodeCache::lru(l1i).unwrap()).unwrap();
        let mut naive = Naive::new(l1i);
        prop_assert_eq!(original.cold_misses, naive_misses(&mut naive, &operation));
        prop_assert_eq!(original.warm_misses, naive_misses(&mut naive, &operation));
        prop_assert_eq!(original.warm_misses, naive_misses(&mut naive, &operation), "one round warms it");
        prop_assert_eq!(original.footprint_lines, operation.footprint_lines(u64::from(l1i.line_bytes)));
    }

    /// A line that leaves is a STEPS miss unless a call came since its last use, so that calls more only ever take misses away; with
    /// a call before every instruction none is left but those of an instruction that drives out its own line.
    #[test]
    fn more_calls_never_miss_more(operation in operation(), l1i in l1i(), few in 2u64..9, times in 1u64..5) {
        let cache = CodeCache::lru(l1i).unwrap();
        let with = |stride: u64| {
            let placement = evaluate(&operation, &cache, Candidates::Instructions, |point| point.is_multiple_of(stride));
            placement.unwrap().segments
        };
        let (fewer, more, all) = (with(few * times), with(few), with(1));
        prop_assert!(fewer.calls.len() <= more.calls.len() && more.calls.len() <= all.calls.len());
        for (less, greater) in [(&more, &fewer), (&all, &more)] {
            let mut left = greater.misses_at.iter();
            prop_assert!(less.misses_at.iter().all(|at| left.any(|other| other == at)), "{:?} {:?}", less, greater);
        }
        if l1i.bytes / l1i.ways >= 2 * l1i.line_bytes && l1i.line_bytes >= 16 && operation.fetches().iter().all(|fetch| !fetch.latched) {
            prop_assert_eq!(all.non_leading_misses(), 0);
        }
    }

    /// With one way or two a tree of bits says the same as an order.
    #[test]
    fn either_replacement(operation in operation(), l1i in l1i(), search in search()) {
        let l1i = L1i { ways: l1i.ways.min(2), bytes: 4 * l1i.ways.min(2) * l1i.line_bytes, ..l1i };
        let [lru, tree] = [Replacement::Lru, Replacement::TreePlru].map(|replacement| {
            let cache = CodeCache::new(l1i, replacement).unwrap();
            (Original::of(&operation, &cache).unwrap(), place(&operation, &cache, &search).unwrap())
        });
        prop_assert_eq!(lru, tree);
    }

    /// Code that the cache holds as a whole is never missed by anyone who follows.
    #[test]
    fn a_cache_that_holds_everything(operation in operation(), knee in (0u64..40, 1u32..5)) {
        let l1i = L1i { bytes: 4096, ways: 512, line_bytes: 8 };
        let cache = CodeCache::lru(l1i).unwrap();
        let knee = Knee { width: knee.0, height: knee.1 };
        let placement = place(&operation, &cache, &Search::paper(knee)).unwrap();
        prop_assert_eq!(placement.segments.non_leading_misses(), 0);
        prop_assert!(placement.points.is_empty() && placement.wanted.is_empty());
        let team = Team::new(cache, std::slice::from_ref(&operation), Candidates::Instructions, |_| true, None);
        let team = team.unwrap();
        prop_assert_eq!(team.together(5, Start::Warm).total(), 0);
        let cold = team.together(5, Start::Cold);
        prop_assert_eq!(cold.total(), operation.footprint_lines(8));
        prop_assert_eq!(cold.members[0], cold.total());
    }

    /// Members over several paths, in turn, instruction by instruction.
    #[test]
    fn a_team(
        operations in prop::collection::vec(operation(), 1..4),
        members in 1usize..6,
        l1i in l1i(),
        stride in 1u64..9,
        with_switch in any::<bool>(),
    ) {
        let cache = CodeCache::lru(l1i).unwrap();
        let on = |point: u64| point.is_multiple_of(stride);
        let switch = with_switch.then_some(SwitchCode { address: 300, bytes: 76 });
        let team = Team::new(cache, &operations, Candidates::Instructions, on, switch).unwrap();
        let path = |member: usize| operations[member % operations.len()].fetches();

        let round = |naive: &mut Naive| {
            let mut misses = vec![0; members];
            let (mut switched, mut switches) = (0, 0);
            // The next instruction of each, and whether it comes from a call before it.
            let mut next = vec![(0, false); members];
            let mut there: Vec<bool> = vec![true; members];
            while there.iter().any(|&there| there) {
                for member in 0..members {
                    if !there[member] {
                        continue;
                    }
                    loop {
                        let (at, called) = next[member];
                        let Some(fetch) = path(member).get(at) else {
                            there[member] = false;
                            break;
                        };
                        if !called && !fetch.latched && on(fetch.address) {
                            next[member] = (at, true);
                            break;
                        }
                        misses[member] += naive.fetch(fetch, 0).0;
                        next[member] = (at + 1, false);
                    }
                    if there.iter().any(|&there| there) {
                        switches += 1;
                        if with_switch {
                            // In pieces, none longer than a line needs.
                            for byte in 0..76 {
                                let fetch = Fetch { address: 300 + byte, bytes: 1, latched: false, entry: false };
                                switched += naive.fetch(&fetch, 0).0;
                            }
                        }
                    }
                }
            }
            (misses, switched, switches)
        };
        let mut naive = Naive::new(l1i);
        let cold = team.together(members, Start::Cold);
        prop_assert_eq!((cold.members, cold.switch, cold.switches), round(&mut naive));
        let warm = team.together(members, Start::Warm);
        prop_assert_eq!(warm.total(), warm.members.iter().sum::<u64>() + warm.switch);
        prop_assert_eq!((warm.members, warm.switch, warm.switches), round(&mut naive));

        let mut naive = Naive::new(l1i);
        let mut one_by_one = |flush: bool| -> Vec<u64> {
            (0..members).map(|member| {
                if flush {
                    naive = Naive::new(l1i);
                }
                path(member).iter().map(|fetch| naive.fetch(fetch, 0).0).sum()
            }).collect()
        };
        prop_assert_eq!(team.one_by_one(members, Start::Cold).members, one_by_one(true));
        one_by_one(false);
        prop_assert_eq!(team.one_by_one(members, Start::Warm).members, one_by_one(false));
    }

    /// Without a point a team is its members one by one.
    #[test]
    fn a_team_that_never_switches(operation in operation(), l1i in l1i(), members in 1usize..6) {
        let cache = CodeCache::lru(l1i).unwrap();
        let operations = [operation];
        let team = Team::new(cache, &operations, Candidates::Instructions, |_| false, None).unwrap();
        let (together, apart) = (team.together(members, Start::Warm), team.one_by_one(members, Start::Warm));
        prop_assert_eq!(together.members, apart.members);
        prop_assert_eq!(together.switches, members as u64 - 1);
    }
}

#[test]
fn what_cannot_be_simulated_is_an_error() {
    let l1i = L1i {
        bytes: 128,
        ways: 2,
        line_bytes: 16,
    };
    let cache = CodeCache::lru(l1i).unwrap();
    let nothing = Operation::new(1);
    let knee = Knee {
        width: 200,
        height: 0,
    };
    assert_eq!(Original::of(&nothing, &cache), Err(InstructionCacheError::Empty));
    assert_eq!(
        place(&nothing, &cache, &Search::paper(Knee::default())),
        Err(InstructionCacheError::Empty)
    );
    assert_eq!(
        place(&nothing, &cache, &Search::paper(knee)),
        Err(InstructionCacheError::KneeHeight)
    );
    assert_eq!(
        evaluate(&nothing, &cache, Candidates::Sites, |_| true),
        Err(InstructionCacheError::Empty)
    );
    assert!(matches!(
        Team::new(cache, &[], Candidates::Sites, |_| true, None),
        Err(InstructionCacheError::Empty)
    ));
    assert!(matches!(
        CodeCache::lru(L1i {
            line_bytes: 12,
            ..l1i
        }),
        Err(InstructionCacheError::Geometry(_))
    ));
    assert!(matches!(
        CodeCache::new(
            L1i {
                bytes: 1 << 16,
                ways: 1024,
                line_bytes: 64
            },
            Replacement::TreePlru
        ),
        Err(InstructionCacheError::TreeWays(1024))
    ));
}
