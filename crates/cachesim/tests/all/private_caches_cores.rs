//! Coherent private caches by hand, and against the plainest ones that can be written: each level a list sorted by recency.

use std::collections::{HashMap, HashSet};

use corun_cachesim::Geometry;
use corun_cachesim::private_caches::cores::{Cores, Missed};
use corun_cachesim::private_caches::platform::{LINE, Platform};
use corun_cachesim::private_caches::touch::Use;
use corun_model::units::{Bytes, Ways};
use proptest::prelude::*;

/// Two sets of two lines in each first level, two of four behind.
fn small(cores: usize) -> Platform {
    let lines = |lines: u64, ways: u32| Geometry::new(Bytes(lines * 64), Ways(ways), LINE).expect("a cache");
    Platform {
        cores,
        threads_per_core: 1,
        l1i: lines(4, 2),
        l1d: lines(4, 2),
        l2: lines(8, 4),
        ..Platform::preset("intel").expect("a preset")
    }
}

fn missed(l1: bool, l2: bool, invalidated: bool) -> Missed {
    Missed { l1, l2, invalidated }
}

#[test]
fn a_store_takes_the_line_from_the_other_core_and_only_then_is_the_miss_one_of_coherence() {
    let mut cores = Cores::new(&small(2));
    let mut access = |core, line: u64, what| cores.access(core, line * 64, what, true);
    assert_eq!(access(0, 3, Use::Load), missed(true, true, false));
    assert_eq!(access(0, 3, Use::Load), missed(false, false, false));
    assert_eq!(access(1, 3, Use::Store), missed(true, true, false));
    assert_eq!(access(1, 3, Use::Store), missed(false, false, false));
    assert_eq!(access(0, 3, Use::Load), missed(true, true, true));
    assert_eq!(access(0, 3, Use::Load), missed(false, false, false));
    // Both read it now; a store takes it away again, a load does not.
    assert_eq!(access(1, 3, Use::Load), missed(false, false, false));
    assert_eq!(access(0, 3, Use::Store), missed(false, false, false));
    assert_eq!(access(1, 3, Use::Load), missed(true, true, true));
}

#[test]
fn code_and_data_share_the_second_level_only() {
    let mut cores = Cores::new(&small(1));
    let mut access = |line: u64, what| cores.access(0, line * 64, what, true);
    assert_eq!(access(2, Use::Fetch), missed(true, true, false));
    assert_eq!(access(2, Use::Load), missed(true, false, false));
    // Four more of the set: line 2, used longest ago of five, is replaced in the second level but not in the first.
    for line in [4, 6, 8, 10] {
        assert_eq!(access(line, Use::Fetch), missed(true, true, false));
    }
    assert_eq!(access(2, Use::Load), missed(false, false, false));
    assert_eq!(access(2, Use::Fetch), missed(true, true, false));
}

#[test]
fn a_line_that_was_replaced_before_the_store_is_no_miss_of_coherence() {
    let mut cores = Cores::new(&small(2));
    let mut access = |core, line: u64, what| cores.access(core, line * 64, what, true);
    access(0, 0, Use::Load);
    for line in [2, 4, 6, 8, 10] {
        access(0, line, Use::Load);
    }
    access(1, 0, Use::Store);
    assert_eq!(access(0, 0, Use::Load), missed(true, true, false));
}

/// A cache as sets of lines, the most recently used first.
struct Naive {
    sets: Vec<Vec<u64>>,
    ways: usize,
}

impl Naive {
    fn new(geometry: Geometry) -> Naive {
        Naive {
            sets: vec![Vec::new(); geometry.sets() as usize],
            ways: geometry.ways().0 as usize,
        }
    }

    fn remove(&mut self, line: u64) -> bool {
        let sets = self.sets.len() as u64;
        let set = &mut self.sets[(line % sets) as usize];
        let before = set.len();
        set.retain(|&held| held != line);
        set.len() < before
    }

    fn access(&mut self, line: u64) -> bool {
        let hit = self.remove(line);
        let sets = self.sets.len() as u64;
        let set = &mut self.sets[(line % sets) as usize];
        set.insert(0, line);
        set.truncate(self.ways);
        hit
    }
}

proptest! {
    #[test]
    fn any_accesses_miss_as_in_lists(
        accesses in prop::collection::vec((0..3_usize, 0..24_u64, 0..3_u8), 1..400)
    ) {
        let platform = small(3);
        let mut cores = Cores::new(&platform);
        let mut naive: Vec<[Naive; 3]> =
            (0..3).map(|_| [platform.l1i, platform.l1d, platform.l2].map(Naive::new)).collect();
        let mut lost: HashMap<u64, HashSet<usize>> = HashMap::new();
        for (core, line, what) in accesses {
            // Code has lines of its own.
            let (what, line) = match what {
                0 => (Use::Load, line),
                1 => (Use::Store, line),
                _ => (Use::Fetch, line + 100),
            };
            let first = usize::from(what != Use::Fetch);
            let l1 = !naive[core][first].access(line);
            let l2 = l1 && !naive[core][2].access(line);
            let invalidated = l2 && lost.entry(line).or_default().remove(&core);
            if what == Use::Store {
                for other in (0..3).filter(|&other| other != core) {
                    let [l1d, l2] = [1, 2].map(|level: usize| naive[other][level].remove(line));
                    if l1d || l2 {
                        lost.entry(line).or_default().insert(other);
                    }
                }
            }
            let got = cores.access(core, line * 64, what, true);
            prop_assert_eq!(got, missed(l1, l2, invalidated));
        }
    }
}
