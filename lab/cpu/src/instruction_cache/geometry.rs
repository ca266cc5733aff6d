//! The simulated cores: processors of the paper's Table 1, today's, and instruction caches of one's own choice.

use corun_model::teams::L1i;

/// A cache as `bytes`, `ways`, `line_bytes`.
const fn cache(kib: u32, ways: u32, line_bytes: u32) -> L1i {
    L1i {
        bytes: kib << 10,
        ways,
        line_bytes,
    }
}

/// A processor by its caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// The name in rows.
    pub name: &'static str,
    /// Level one, instructions.
    pub l1i: L1i,
    /// Level one, data.
    pub l1d: L1i,
    /// Level two, both.
    pub l2: L1i,
}

const fn processor(name: &'static str, l1i: L1i, l1d: L1i, l2: L1i) -> Processor {
    Processor { name, l1i, l1d, l2 }
}

/// The cores that Figure 9 compares: the paper's (Table 1; the Pentium 4's trace cache holds no lines and is not simulated) and today's.
pub const PROCESSORS: [Processor; 4] = [
    processor(
        "athlon_xp",
        cache(64, 2, 64),
        cache(64, 2, 64),
        cache(256, 16, 64),
    ),
    processor("pentium_3", cache(16, 4, 32), cache(16, 4, 32), cache(256, 8, 32)),
    TODAY,
    processor(
        "ultrasparc_t1",
        cache(16, 4, 32),
        cache(8, 4, 16),
        cache(3072, 12, 64),
    ),
];

/// A server core of today: 32 KiB of instructions, 48 KiB of data, 2 MiB for both.
pub const TODAY: Processor = processor("today", cache(32, 8, 64), cache(48, 12, 64), cache(2048, 16, 64));

impl Processor {
    /// Today's core with another instruction cache.
    pub fn with_l1i(l1i: L1i) -> Processor {
        Processor { l1i, ..TODAY }
    }

    /// The same shapes of cache, `divisor` (a power of two) times smaller; no fewer sets than one.
    pub fn divided(self, divisor: u32) -> Processor {
        let divided = |cache: L1i| L1i {
            bytes: (cache.bytes / divisor.max(1)).max(cache.ways * cache.line_bytes),
            ..cache
        };
        Processor {
            l1i: divided(self.l1i),
            l1d: divided(self.l1d),
            l2: divided(self.l2),
            ..self
        }
    }
}

/// The footprint of the paper's index fetch (section 3.4), in bytes.
const PAPERS_FOOTPRINT: u64 = 45 << 10;

/// The power of two that makes a footprint the paper's when caches are divided by it.
pub fn shrunk(footprint_bytes: u64) -> u32 {
    let times = PAPERS_FOOTPRINT as f64 / footprint_bytes.max(1) as f64;
    1 << (times.max(1.0).log2().round() as u32).min(6)
}

/// The instruction caches of Figure 10: 64-byte lines, direct mapped to fully associative.
pub fn figure_10_caches(quick: bool) -> Vec<L1i> {
    let sizes: &[u32] = if quick { &[4, 32] } else { &[2, 4, 8, 16, 32, 64] };
    let full = |kib: u32| (kib << 10) / 64;
    sizes
        .iter()
        .flat_map(|&kib| [1, 2, 4, 8, full(kib)].map(|ways| cache(kib, ways, 64)))
        .collect()
}

/// Caches at which reductions are judged, besides the machine's own: as associative as today's, or with three quarters of the ways of the
/// next larger one.
pub const SMALL: [L1i; 8] = [
    cache(1, 8, 64),
    cache(2, 8, 64),
    cache(3, 6, 64),
    cache(4, 8, 64),
    cache(6, 6, 64),
    cache(8, 8, 64),
    cache(12, 6, 64),
    cache(16, 8, 64),
];

/// The largest instruction cache of the kept sizes whose double a footprint reaches; the smallest if it reaches none.
pub fn half_of(footprint_bytes: u64) -> L1i {
    let reached = SMALL
        .iter()
        .rev()
        .find(|l1i| u64::from(l1i.bytes) * 2 <= footprint_bytes);
    *reached.unwrap_or(&SMALL[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judged_cache_is_at_most_half_the_footprint() {
        assert_eq!(half_of(9_000).to_string(), "4k/8/64");
        assert_eq!(half_of(8_192).to_string(), "4k/8/64");
        assert_eq!(half_of(8_191).to_string(), "3k/6/64");
        assert_eq!(half_of(45_000).to_string(), "16k/8/64");
        assert_eq!(half_of(100).to_string(), "1k/8/64");
    }

    #[test]
    fn divided_caches_keep_their_shape() {
        assert_eq!((shrunk(45 << 10), shrunk(6_000), shrunk(1 << 20)), (1, 8, 1));
        let small = PROCESSORS[1].divided(8);
        assert_eq!(small.l1i.to_string(), "2k/4/32");
        assert_eq!(PROCESSORS[1].divided(1), PROCESSORS[1]);
        assert_eq!(TODAY.divided(1 << 20).l1i.to_string(), "512/8/64");
    }

    #[test]
    fn figure_10_ends_fully_associative() {
        let all = figure_10_caches(false);
        assert_eq!(all.len(), 30);
        assert_eq!(all[29].to_string(), "64k/1024/64");
    }
}
