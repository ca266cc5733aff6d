//! How many ways `corun-weak` gets where nobody says.

use super::{CachePart, Capabilities};
use crate::units::Ways;

/// The weak class's part of a cache: paper 002, section 6.2, gives everything but hash tables 4 of 32 page colours.
const PART: u32 = 8;
/// Fewest ways. A page colour keeps all ways of its sets; a single way of a cache is direct-mapped, and lines that are
/// still needed push each other out. Unmeasured: no machine with way masks was at hand.
const WAYS_MIN: u32 = 2;

/// Ways for [`super::Wishes::weak_ways`]: an eighth of the cache, at least two, and never so many that no way is left.
///
/// `level` is the cache to partition, as in [`super::Wishes::level`]. Where it cannot be partitioned the answer is two:
/// the plan will say what is wrong.
pub fn default_weak_ways(capabilities: &Capabilities, level: Option<u8>) -> Ways {
    let level = level.or_else(|| capabilities.caches.iter().map(|cache| cache.level).max());
    let cache = capabilities
        .caches
        .iter()
        .filter(|cache| Some(cache.level) == level && cache.part != CachePart::Code)
        .min_by_key(|cache| cache.full.ways());
    let Some(cache) = cache else {
        return Ways(WAYS_MIN);
    };
    let (full, least) = (cache.full.ways().0, cache.ways_min.0.max(1));
    let wanted = (full / PART).max(WAYS_MIN).max(least);
    Ways(wanted.min(full.saturating_sub(least)).max(least))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::partition::{CacheResource, WayMask};

    fn cache(level: u8, ways: u32, ways_min: u32) -> CacheResource {
        CacheResource {
            name: format!("L{level}"),
            level,
            part: CachePart::Unified,
            full: WayMask::window(0, Ways(ways)),
            ways_min: Ways(ways_min),
            sparse: false,
            hardware: WayMask::default(),
            domains: vec![],
        }
    }

    fn ways(caches: Vec<CacheResource>, level: Option<u8>) -> u32 {
        let capabilities = Capabilities {
            caches,
            ..Capabilities::default()
        };
        default_weak_ways(&capabilities, level).0
    }

    #[test]
    fn an_eighth_but_at_least_two_and_never_all() {
        assert_eq!(ways(vec![cache(3, 11, 1)], None), 2);
        assert_eq!(ways(vec![cache(3, 20, 2)], None), 2);
        assert_eq!(ways(vec![cache(3, 32, 1)], None), 4);
        assert_eq!(ways(vec![cache(3, 20, 4)], None), 4);
        assert_eq!(ways(vec![cache(3, 2, 1)], None), 1);
        assert_eq!(ways(vec![cache(3, 1, 1)], None), 1);
        assert_eq!(ways(vec![], None), 2);
    }

    #[test]
    fn the_outermost_cache_counts_unless_another_is_asked_for() {
        let both = || vec![cache(2, 16, 1), cache(3, 32, 1)];
        assert_eq!(ways(both(), None), 4);
        assert_eq!(ways(both(), Some(2)), 2);
        assert_eq!(ways(both(), Some(1)), 2);
    }
}
