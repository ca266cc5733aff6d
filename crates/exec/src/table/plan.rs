//! What to build, decided from a few numbers: pure functions, no data is looked at.

use super::layout::{LIST_PIECE, Line, Line32, Line64};
use super::survey::KEPT;
use crate::huge::bytes_of;
use crate::isa::InstructionSet;

/// How a table maps codes to values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An array indexed by `code - smallest code`: no hash, no compare, one line a probe, and neighbours share lines.
    Dense,
    /// Cache lines of seven 32-bit keys, for codes less than 2^32 apart.
    Buckets32,
    /// Cache lines of five 64-bit keys.
    Buckets64,
}

/// What the build is told about the machine and its caller's wishes.
#[derive(Clone, Copy, Debug)]
pub struct BuildOptions {
    /// Bytes of a core's private L2: partitions are built in it.
    pub l2_bytes: usize,
    /// Bytes of the last-level cache this query may count on.
    pub llc_bytes: usize,
    /// Tables whose index takes at least this many bytes are probed with prefetching: half an L2 where nothing is known,
    /// else what [`probe_times`](super::probe_times) measured.
    pub prefetch_from_bytes: usize,
    /// The widest instruction set to probe with. What is narrower than the processor's is for comparisons.
    pub instructions: InstructionSet,
    /// Build this kind instead of deciding, for tests and benchmarks. [`Kind::Dense`] is then built whatever memory it
    /// takes; kinds that cannot hold the codes' range fall back to [`Kind::Buckets64`].
    pub force: Option<Kind>,
    /// Seed of the hash. Untrusted keys call for a random one.
    pub seed: u64,
}

impl Default for BuildOptions {
    /// A cautious guess: 1 MiB of L2, 16 MiB of last level.
    fn default() -> Self {
        BuildOptions {
            l2_bytes: 1 << 20,
            llc_bytes: 16 << 20,
            prefetch_from_bytes: 512 << 10,
            instructions: InstructionSet::default(),
            force: None,
            seed: 0,
        }
    }
}

/// Array elements a row that [`Kind::Dense`] may spend. At 4 it takes up to 16 bytes a row, what [`Kind::Buckets32`]
/// takes, and is never slower to probe. Unmeasured beyond that.
const DENSE_SLOTS_PER_ROW_MAX: u64 = 4;

/// Share of an L2 a sparser [`Kind::Dense`] may take: SSB's dates have 2,556 rows over a range of 61,130.
const DENSE_L2_SHARE: usize = 2;

/// Slots are this full on average, in percent. Higher saves memory and costs second lines: at 65 % about 6 of 100 keys
/// of a [`Line64`] live past their first line.
const LOAD_PERCENT: usize = 65;

/// Duplicate lists of fewer bytes are read without prefetching. Half of a 2 MiB L2.
pub(crate) const LISTS_NEAR_BYTES: usize = 1 << 20;

/// Below this many rows one thread builds one partition. Miri, which interprets, sees the partitioned build on fewer.
pub(crate) const SMALL_ROWS: usize = if cfg!(miri) { 256 } else { 100_000 };

/// Below this many rows every row gets room: a table of 16,384 rows takes 316 KiB at most, and estimating would cost a
/// third of the build.
pub(crate) const ESTIMATE_FROM_ROWS: usize = 16_384;

/// The most partitions, as a power of two: more would not fit their write positions in L1 and L2.
const PARTITION_BITS_MAX: u32 = 11;

/// Chooses the kind for `rows` rows with codes from `min` to `max`.
pub(crate) fn kind(rows: usize, min: u64, max: u64, options: &BuildOptions) -> Kind {
    let range = max - min;
    let dense_possible = range < u64::from(u32::MAX);
    let narrow = range <= u64::from(u32::MAX);
    match options.force {
        Some(Kind::Dense) if dense_possible => return Kind::Dense,
        Some(Kind::Buckets32) if narrow => return Kind::Buckets32,
        Some(_) => return Kind::Buckets64,
        None => {}
    }
    if dense_possible {
        let slots = range + 1;
        let few = slots <= DENSE_SLOTS_PER_ROW_MAX.saturating_mul(rows as u64);
        if few || slots.saturating_mul(4) <= (options.l2_bytes / DENSE_L2_SHARE) as u64 {
            return Kind::Dense;
        }
    }
    if narrow { Kind::Buckets32 } else { Kind::Buckets64 }
}

/// Lines for this many distinct keys.
pub(crate) fn lines_for<L: Line>(distinct: usize) -> usize {
    (distinct.saturating_mul(100))
        .div_ceil(L::SLOTS * LOAD_PERCENT)
        .max(1)
}

/// Partitions (as a power of two) for this many rows: each partition's lines fit most of an L2, and there is work for
/// every thread.
pub(crate) fn partition_bits(rows: usize, threads: usize, options: &BuildOptions) -> u32 {
    if rows < SMALL_ROWS {
        return 0;
    }
    let target = (options.l2_bytes / 4 * 3).max(64 << 10);
    let parts = (lines_for::<Line64>(rows) * 64)
        .div_ceil(target)
        .max(if threads > 1 { threads * 4 } else { 1 });
    parts.next_power_of_two().trailing_zeros().min(PARTITION_BITS_MAX)
}

/// From this many rows on, lines are filled directly. Measured with `examples/probe_floor.rs` (Sapphire Rapids, other work
/// beside it, one thread), CPU ns a row directly and by partitions: 16 M random 64-bit keys 18.3, 19.5; 1 M: 11.1,
/// 12.0, within what runs differ. Tests see the direct way on fewer.
const DIRECT_FROM_ROWS: usize = if cfg!(miri) {
    100
} else if cfg!(test) {
    2_000
} else {
    1 << 21
};

/// Should lines be filled directly, if the keys look unique?
pub(crate) fn is_direct(rows: usize, threads: usize) -> bool {
    threads == 1 && rows >= DIRECT_FROM_ROWS
}

/// Are duplicates so few that filling lines directly pays? It reads all rows again to place even one of them.
pub(crate) fn looks_unique(rows: usize, distinct_estimate: usize) -> bool {
    distinct_estimate >= rows / 10 * 9
}

/// Bits by which a dense index's offsets are shifted to give partitions of a quarter of an L2 (the entries being read
/// and written take the rest), at most `1 << PARTITION_BITS_MAX` of them.
pub(crate) fn dense_shift(rows: usize, slots: u64, options: &BuildOptions) -> u32 {
    let most = if rows < SMALL_ROWS {
        1
    } else {
        1_u64 << PARTITION_BITS_MAX
    };
    let wanted = (options.l2_bytes / 4 / 4).max(1 << 12).ilog2();
    let needed = slots.div_ceil(most).next_power_of_two().trailing_zeros();
    wanted.max(needed)
}

/// Different keys that lines make room for, where a survey of `rows` rows estimated `distinct` of them: two and a half
/// standard deviations more. The rest is taken by the slack in the lines' load.
pub(crate) fn room_for(rows: usize, distinct: usize) -> usize {
    (distinct + distinct / 9).min(rows)
}

/// Lines of each of `1 << bits` partitions.
pub(crate) fn lines_per_partition<L: Line>(distinct: usize, bits: u32) -> usize {
    lines_for::<L>(distinct).div_ceil(1 << bits)
}

/// What somebody expects of the keys of a table that is not built yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeysExpected {
    /// Rows with a key.
    pub rows: usize,
    /// Different keys among them, at most `rows`.
    pub distinct: usize,
    /// Smallest and largest code; what is not known is `0` to `u64::MAX`.
    pub bounds: (u64, u64),
}

/// The bytes that [`crate::JoinTable::bytes`] will say of a table with these keys, built by `threads` threads: index and
/// duplicate lists, as the build itself decides. As right as the expectation is; keys that are estimated from a survey
/// (16,384 rows and more) add a few per cent. Keys are taken for random, and as many of them as possible to have several
/// rows.
pub fn bytes_expected(keys: &KeysExpected, threads: usize, options: &BuildOptions) -> usize {
    let KeysExpected { rows, bounds, .. } = *keys;
    if rows == 0 {
        return bytes_of::<u32>(1) + bytes_of::<u32>(0);
    }
    let distinct = keys.distinct.clamp(1, rows);
    let room = if rows < ESTIMATE_FROM_ROWS {
        rows
    } else if distinct < KEPT {
        // The survey counts so few.
        distinct
    } else {
        room_for(rows, distinct)
    };
    let threads = if rows < SMALL_ROWS { 1 } else { threads };
    let kind = kind(rows, bounds.0, bounds.1.max(bounds.0), options);
    let bits = if kind == Kind::Buckets64 && is_direct(rows, threads) && looks_unique(rows, distinct) {
        0
    } else {
        partition_bits(rows, threads, options)
    };
    let index = match kind {
        Kind::Dense => bytes_of::<u32>((bounds.1.saturating_sub(bounds.0)) as usize + 2),
        Kind::Buckets32 => lines_bytes::<Line32>(rows, distinct, room, bits),
        Kind::Buckets64 => lines_bytes::<Line64>(rows, distinct, room, bits),
    };
    // A list is its length and its rows; a key with a single row has none.
    let extra = rows - distinct;
    let lists = match extra {
        0 => bytes_of::<u32>(0),
        _ => bytes_of::<u32>(extra + 2 * extra.min(distinct) + LIST_PIECE),
    };
    index.saturating_add(lists)
}

/// Lines with room for `room` keys; for all rows where some partition will probably get more of the `distinct` keys than it
/// has slots (three standard deviations), so that the build starts again.
fn lines_bytes<L: Line>(rows: usize, distinct: usize, room: usize, bits: u32) -> usize {
    let lines = lines_per_partition::<L>(room, bits);
    let keys = distinct as f64 / (1_u64 << bits) as f64;
    let crowded = bits > 0 && keys + 3.0 * keys.sqrt() > (lines * L::SLOTS) as f64;
    let lines = if crowded {
        lines_per_partition::<L>(rows, bits)
    } else {
        lines
    };
    bytes_of::<L>(lines << bits)
}

/// An upper bound of the bytes a build of `rows` rows takes at any time, everything included, when neither the kind nor
/// the number of duplicates is known yet: index, scattered copy of codes and row numbers, duplicate lists and
/// bookkeeping. Unique 64-bit keys stay about a sixth below. [`crate::JoinTable::bytes`] is what is left after the build.
///
/// Does not hold for a forced [`Kind::Dense`].
pub fn bytes_max(rows: usize, threads: usize, options: &BuildOptions) -> usize {
    [Kind::Dense, Kind::Buckets32, Kind::Buckets64]
        .into_iter()
        .map(|kind| bytes_max_of(kind, rows, threads, options))
        .max()
        .unwrap_or(0)
}

/// [`bytes_max`] for a known kind.
pub fn bytes_max_of(kind: Kind, rows: usize, threads: usize, options: &BuildOptions) -> usize {
    let partitions = 1_usize << PARTITION_BITS_MAX.min(rows.max(1).ilog2());
    let index = match kind {
        Kind::Dense => {
            let by_rows = rows.saturating_mul(DENSE_SLOTS_PER_ROW_MAX as usize);
            bytes_of::<u32>(by_rows.max(options.l2_bytes / DENSE_L2_SHARE / 4) + 1)
        }
        Kind::Buckets32 => bytes_of::<Line32>(lines_for::<Line32>(rows) + partitions),
        Kind::Buckets64 => bytes_of::<Line64>(lines_for::<Line64>(rows) + partitions),
    };
    let codes = if kind == Kind::Buckets64 {
        bytes_of::<u64>(rows)
    } else {
        bytes_of::<u32>(rows)
    };
    let row_numbers = bytes_of::<u32>(rows);
    let duplicates = bytes_of::<u32>(rows + rows / 2 + LIST_PIECE);
    let bookkeeping = threads.max(1) * (partitions * 32 + (64 << 10)) + partitions * 64 + (256 << 10);
    [index, codes, row_numbers, duplicates, bookkeeping]
        .into_iter()
        .fold(0, usize::saturating_add)
}

/// The most bytes of bits that pay for a table of `rows` rows ([`crate::JoinTable::prepare_matches`]): what half an L2 holds, as
/// long as that is little for so many rows; a bit for each place of a dense table in any case.
pub fn matches_bytes_max(rows: usize, options: &BuildOptions) -> usize {
    let near = (options.l2_bytes / 2).min(rows.saturating_mul(64) + (32 << 10));
    near.max(rows.saturating_mul(DENSE_SLOTS_PER_ROW_MAX as usize) / 8 + 16)
}

/// Codes from the smallest to the largest, for each key, from which on a table expects probes of which few rows have a partner: its
/// keys are few of those that exist. Unmeasured.
const SELECTIVE_GAP: u64 = 4;

/// Bytes of the bits that [`crate::JoinTable::prepare_matches`] makes for a table with these keys; 0 where it makes none: where
/// nobody `asks` only for matches and the keys lie close, where the bits would take too much, and for codes of 64 bits.
pub fn matches_bytes(keys: &KeysExpected, asks: bool, options: &BuildOptions) -> usize {
    let KeysExpected {
        rows,
        distinct,
        bounds,
    } = *keys;
    let range = bounds.1.saturating_sub(bounds.0);
    let wanted = asks || range / distinct.max(1) as u64 >= SELECTIVE_GAP;
    if rows == 0 || !wanted || kind(rows, bounds.0, bounds.1.max(bounds.0), options) == Kind::Buckets64 {
        return 0;
    }
    let words = range as usize / u64::BITS as usize + 2;
    let bytes = bytes_of::<u64>(words);
    if bytes <= matches_bytes_max(rows, options) {
        bytes
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(rows: usize, range: u64) -> Kind {
        kind(
            rows,
            5,
            5 + range,
            &BuildOptions {
                l2_bytes: 2 << 20,
                ..BuildOptions::default()
            },
        )
    }

    #[test]
    fn kinds_follow_range_and_count() {
        assert_eq!(decide(2_556, 61_130), Kind::Dense);
        assert_eq!(decide(1_000_000, 3_999_999), Kind::Dense);
        assert_eq!(decide(1_000_000, 4_000_000), Kind::Buckets32);
        assert_eq!(decide(1, u64::from(u32::MAX)), Kind::Buckets32);
        assert_eq!(decide(1, 1 << 32), Kind::Buckets64);
        assert_eq!(kind(2, 0, u64::MAX, &BuildOptions::default()), Kind::Buckets64);
    }

    #[test]
    fn force_is_kept_where_it_can_be() {
        let force = |wish, range| {
            kind(
                10,
                0,
                range,
                &BuildOptions {
                    force: Some(wish),
                    ..Default::default()
                },
            )
        };
        assert_eq!(force(Kind::Dense, 1 << 20), Kind::Dense);
        assert_eq!(force(Kind::Dense, u64::MAX), Kind::Buckets64);
        assert_eq!(force(Kind::Buckets32, 3), Kind::Buckets32);
        assert_eq!(force(Kind::Buckets32, 1 << 32), Kind::Buckets64);
        assert_eq!(force(Kind::Buckets64, 3), Kind::Buckets64);
    }

    #[test]
    fn bits_take_little() {
        let options = BuildOptions::default();
        assert_eq!(matches_bytes_max(0, &options), 32 << 10);
        assert_eq!(matches_bytes_max(100, &options), 6_400 + (32 << 10));
        assert_eq!(matches_bytes_max(100_000, &options), 512 << 10);
        // As dense as dense tables are.
        assert_eq!(matches_bytes_max(16_000_000, &options), 8_000_016);
    }

    #[test]
    fn lines_hold_more_than_the_keys() {
        for distinct in [0, 1, 2, 5, 100, 65_000, 16_000_000] {
            assert!(lines_for::<Line64>(distinct) * Line64::SLOTS > distinct);
            assert!(lines_for::<Line32>(distinct) * Line32::SLOTS > distinct);
        }
    }

    #[test]
    fn partitions_fit_the_cache_and_are_bounded() {
        let options = BuildOptions {
            l2_bytes: 2 << 20,
            ..BuildOptions::default()
        };
        assert_eq!(partition_bits(99_999, 8, &options), 0);
        assert_eq!(partition_bits(16_000_000, 1, &options), 8);
        assert_eq!(partition_bits(2_000_000_000, 1, &options), PARTITION_BITS_MAX);
        assert!(partition_bits(100_000, 8, &options) >= 5);
        for slots in [1, 1 << 20, 1 << 32] {
            assert!(slots >> dense_shift(1 << 30, slots, &options) <= 1 << PARTITION_BITS_MAX);
            assert_eq!((slots - 1) >> dense_shift(5, slots, &options), 0);
        }
    }
}
