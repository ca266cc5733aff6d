//! Where in a cache the two masks go.
//!
//! There are at most 32 places for a run of ways, so all are tried: the best is the one that leaves the most ways to
//! `corun-default`, then the fewest ways that devices fill too, then the lowest.

use super::{CacheResource, Capabilities, DefaultShare, WayMask};
use crate::units::Ways;

/// The masks of both classes in one domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) weak: WayMask,
    pub(super) default: WayMask,
}

/// What masks a domain takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Ways nobody holds exclusively.
    open: WayMask,
    hardware: WayMask,
    ways_min: Ways,
    sparse: bool,
}

impl Rules {
    /// The rules of a resource in a domain. Code and data masks of one cache cut the same ways, so both close them.
    pub(super) fn of(capabilities: &Capabilities, cache: &CacheResource, domain: u32) -> Self {
        let closed = capabilities
            .caches
            .iter()
            .filter(|other| other.level == cache.level)
            .flat_map(|other| &other.domains)
            .filter(|other| other.id == domain)
            .fold(WayMask::default(), |closed, other| closed | other.closed);
        Self {
            open: cache.full & !closed,
            hardware: cache.hardware,
            // Some machines take empty masks; a class without any way would not be cached at all.
            ways_min: cache.ways_min.max(Ways(1)),
            sparse: cache.sparse,
        }
    }

    /// Ways nobody holds exclusively.
    pub(super) fn open(&self) -> WayMask {
        self.open
    }

    /// The largest mask the kernel takes.
    pub(super) fn whole(&self) -> Option<WayMask> {
        self.largest_within(self.open)
    }

    /// Masks for both classes, `weak_ways` for the weak one.
    pub(super) fn split(&self, weak_ways: Ways, share: DefaultShare) -> Option<Place> {
        if weak_ways < self.ways_min || weak_ways > self.open.ways() {
            return None;
        }
        let windows = (0..32).map(|first| WayMask::window(first, weak_ways));
        // Where every run is too short, a machine that takes holes still gets the lowest ways there are.
        let scattered = self.sparse.then(|| self.lowest(weak_ways));
        windows
            .filter(|window| window.ways() == weak_ways)
            .chain(scattered)
            .filter(|weak| self.open.contains(*weak) && self.allows(*weak))
            .filter_map(|weak| {
                let default = match share {
                    DefaultShare::Rest => self.largest_within(self.open & !weak)?,
                    DefaultShare::All => self.whole()?,
                };
                Some(Place { weak, default })
            })
            .min_by_key(|place| {
                (
                    std::cmp::Reverse((place.default & !place.weak).ways()),
                    (place.weak & self.hardware).ways(),
                    place.weak.runs().count(),
                    place.weak.0,
                )
            })
    }

    /// The kernel's check: no holes unless holes are fine, and a first run that is long enough.
    fn allows(&self, mask: WayMask) -> bool {
        let mut runs = mask.runs();
        runs.next().is_some_and(|first| first.ways() >= self.ways_min)
            && (self.sparse || runs.next().is_none())
    }

    /// The largest mask within `ways` that the kernel takes.
    fn largest_within(&self, ways: WayMask) -> Option<WayMask> {
        // With holes allowed all of it, from the first run on that is long enough to be the first.
        let long_enough = ways.runs().find(|run| run.ways() >= self.ways_min)?;
        if self.sparse {
            Some(ways & WayMask(u32::MAX << long_enough.0.trailing_zeros()))
        } else {
            Some(ways.longest_run())
        }
    }

    fn lowest(&self, ways: Ways) -> WayMask {
        let bits = (0..32).filter(|bit| self.open.0 >> bit & 1 == 1);
        bits.take(ways.0 as usize)
            .fold(WayMask::default(), |mask, bit| mask | WayMask(1 << bit))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(open: u32, hardware: u32, ways_min: u32, sparse: bool) -> Rules {
        Rules {
            open: WayMask(open),
            hardware: WayMask(hardware),
            ways_min: Ways(ways_min),
            sparse,
        }
    }

    #[test]
    fn weak_queries_get_a_border_of_the_cache_away_from_devices() {
        let place = rules(0x7ff, 0x600, 1, false)
            .split(Ways(2), DefaultShare::Rest)
            .unwrap();
        assert_eq!((place.weak, place.default), (WayMask(3), WayMask(0x7fc)));
        let low_devices = rules(0x7ff, 0x3, 1, false)
            .split(Ways(2), DefaultShare::Rest)
            .unwrap();
        assert_eq!(
            (low_devices.weak, low_devices.default),
            (WayMask(0x600), WayMask(0x1ff))
        );
    }

    #[test]
    fn a_gap_held_by_others_is_used_for_the_weak() {
        // Ways 4-5 belong to others: the weak two fit below, the rest stays in one piece above.
        let place = rules(0xfcf, 0, 2, false)
            .split(Ways(4), DefaultShare::Rest)
            .unwrap();
        assert_eq!((place.weak, place.default), (WayMask(0xf), WayMask(0xfc0)));
        let holes = rules(0b1010_1010, 0, 1, true)
            .split(Ways(2), DefaultShare::Rest)
            .unwrap();
        assert_eq!(
            (holes.weak, holes.default),
            (WayMask(0b1010), WayMask(0b1010_0000))
        );
        assert_eq!(
            rules(0b1010_1010, 0, 1, false).split(Ways(2), DefaultShare::Rest),
            None
        );
    }

    /// Every mask there is, judged by the kernel's words; small caches only.
    fn oracle(rules: &Rules, ways: Ways, share: DefaultShare) -> Option<u32> {
        let allowed: Vec<WayMask> = (1u32..256)
            .map(WayMask)
            .filter(|m| rules.open.contains(*m) && rules.allows(*m))
            .collect();
        let best = |weak: WayMask| {
            let fits = |default: &&WayMask| share == DefaultShare::All || **default & weak == WayMask(0);
            allowed.iter().filter(fits).map(|default| default.ways()).max()
        };
        let weak = allowed.iter().filter(|mask| mask.ways() == ways);
        weak.filter_map(|mask| Some(best(*mask)?.0)).max()
    }

    proptest! {
        #[test]
        fn both_masks_are_legal_and_the_rest_is_as_large_as_can_be(
            open in 0u32..256, hardware in 0u32..256, ways_min in 1u32..4, sparse: bool, ways in 0u32..10, all: bool,
        ) {
            let rules = rules(open, hardware, ways_min, sparse);
            let share = if all { DefaultShare::All } else { DefaultShare::Rest };
            let best = oracle(&rules, Ways(ways), share);
            match rules.split(Ways(ways), share) {
                Some(place) => {
                    prop_assert_eq!(place.weak.ways(), Ways(ways));
                    for mask in [place.weak, place.default] {
                        prop_assert!(rules.open.contains(mask) && rules.allows(mask), "{mask}");
                    }
                    prop_assert!(all || place.weak & place.default == WayMask(0));
                    if !sparse {
                        prop_assert_eq!(Some(place.default.ways().0), best);
                    }
                }
                // Sparse machines may know odder masks than the two kinds tried; none is worth the search.
                None => prop_assert!(best.is_none() || sparse),
            }
        }
    }
}
