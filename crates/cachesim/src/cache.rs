//! One set-associative cache with true least-recently-used replacement.
//!
//! ```text
//!   address ── / line bytes ──▶ line number ── mod sets ──▶ set
//!
//!            way 0     way 1     way 2     way 3
//!   set 0  [ line 8  | line 0  | line 4  |  empty ]      stamps [ 17 | 3 | 9 | 0 ]  ── victim: the smallest, here way 3
//!   set 1  [ ...                                  ]
//! ```
//!
//! Each way keeps the time of its last use as a stamp. The usual alternative, each set sorted by recency, moves lines between
//! ways at every hit, and then a way is not a place that a mask could reserve for somebody.
//!
//! Not here: who shares the cache with whom; that is [`crate::hierarchy`].

use model::units::{Bytes, Ways};

/// Smallest line, in bytes: a machine word. Line numbers then never reach the one that marks an empty way.
const LINE_BYTES_MIN: u64 = 8;
/// Most lines a simulated cache may have: 2^28 lines of 64 bytes are 16 GiB of cache, and take 4 GiB to simulate.
const LINES_MAX: u64 = 1 << 28;
/// Marks a way that holds nothing.
const EMPTY: u64 = u64::MAX;

/// Size and shape of a cache, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    size: Bytes,
    ways: Ways,
    line: Bytes,
}

/// A cache that cannot exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// No way to put a line.
    #[error("a cache has at least 1 way")]
    NoWays,
    /// The line is not a power of two, or smaller than a word.
    #[error("a cache line must be a power of two of at least {LINE_BYTES_MIN} bytes, not {0} bytes")]
    Line(u64),
    /// The capacity is not a whole number of sets, or zero of them.
    #[error("{size} bytes are not a whole, positive number of sets of {ways} ways of {line} bytes")]
    Size {
        /// Capacity asked for, in bytes.
        size: u64,
        /// Lines in a set.
        ways: u32,
        /// Bytes in a line.
        line: u64,
    },
    /// More lines than the simulator takes memory for.
    #[error("a simulated cache has at most {LINES_MAX} lines, not {0}")]
    TooLarge(u64),
}

impl Geometry {
    /// A cache of `size` bytes in sets of `ways` lines of `line` bytes.
    ///
    /// The number of sets need not be a power of two: last-level caches of 20 ways with 212992 sets exist. Hardware hashes
    /// addresses over the slices of such a cache; here the set is the line number modulo the number of sets.
    ///
    /// # Errors
    /// [`GeometryError`] for zero ways, a line that is not a power of two of at least 8 bytes, a size that is not a positive
    /// multiple of a set, and more than 2^28 lines.
    pub fn new(size: Bytes, ways: Ways, line: Bytes) -> Result<Self, GeometryError> {
        if ways.0 == 0 {
            return Err(GeometryError::NoWays);
        }
        if line.0 < LINE_BYTES_MIN || !line.0.is_power_of_two() {
            return Err(GeometryError::Line(line.0));
        }
        let set_bytes = line.0.checked_mul(u64::from(ways.0));
        if size.0 == 0 || set_bytes.is_none_or(|set| !size.0.is_multiple_of(set)) {
            return Err(GeometryError::Size {
                size: size.0,
                ways: ways.0,
                line: line.0,
            });
        }
        let lines = size.0 / line.0;
        if lines > LINES_MAX {
            return Err(GeometryError::TooLarge(lines));
        }
        Ok(Self { size, ways, line })
    }

    /// Capacity.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// Lines in a set.
    pub fn ways(&self) -> Ways {
        self.ways
    }

    /// Bytes in a line.
    pub fn line(&self) -> Bytes {
        self.line
    }

    /// Number of sets.
    pub fn sets(&self) -> u64 {
        self.size.0 / (self.line.0 * u64::from(self.ways.0))
    }
}

/// The cache itself. It holds line numbers only, no contents.
#[derive(Clone, Debug)]
pub struct SetAssociative {
    // Fixed.
    geometry: Geometry,
    line_shift: u32,
    sets: u64,
    // Only where the number of sets is a power of two: a mask is several times faster than a division.
    set_mask: Option<u64>,
    ways: usize,
    // Changing. `tags[set * ways + way]` is the line held there, `stamps` at the same place when it was last used, 0 if empty.
    tags: Vec<u64>,
    stamps: Vec<u64>,
    clock: u64,
}

impl SetAssociative {
    /// An empty cache.
    pub fn new(geometry: Geometry) -> Self {
        let sets = geometry.sets();
        let lines = geometry.size.whole_lines(geometry.line).0 as usize;
        Self {
            geometry,
            line_shift: geometry.line.0.trailing_zeros(),
            sets,
            set_mask: sets.is_power_of_two().then(|| sets - 1),
            ways: geometry.ways.0 as usize,
            tags: vec![EMPTY; lines],
            stamps: vec![0; lines],
            clock: 0,
        }
    }

    /// Size and shape.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Uses the line that `address` lies in: whether it was there. If not, it is now, in place of the least recently used line of
    /// its set.
    #[inline]
    pub fn access(&mut self, address: u64) -> bool {
        let line = address >> self.line_shift;
        let first = self.first_way(line);
        self.clock += 1;
        let tags = &mut self.tags[first..first + self.ways];
        let stamps = &mut self.stamps[first..first + self.ways];
        if let Some(way) = tags.iter().position(|&tag| tag == line) {
            stamps[way] = self.clock;
            return true;
        }
        let mut victim = 0;
        for (way, &stamp) in stamps.iter().enumerate() {
            if stamp < stamps[victim] {
                victim = way;
            }
        }
        tags[victim] = line;
        stamps[victim] = self.clock;
        false
    }

    /// Drops the line that `address` lies in: whether it was there.
    pub fn invalidate(&mut self, address: u64) -> bool {
        let line = address >> self.line_shift;
        let first = self.first_way(line);
        match self.tags[first..first + self.ways]
            .iter()
            .position(|&tag| tag == line)
        {
            Some(way) => {
                self.tags[first + way] = EMPTY;
                self.stamps[first + way] = 0;
                true
            }
            None => false,
        }
    }

    #[inline]
    fn first_way(&self, line: u64) -> usize {
        let set = match self.set_mask {
            Some(mask) => line & mask,
            None => line % self.sets,
        };
        set as usize * self.ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(size: u64, ways: u32, line: u64) -> Result<Geometry, GeometryError> {
        Geometry::new(Bytes(size), Ways(ways), Bytes(line))
    }

    #[test]
    fn shapes_that_cannot_exist_are_errors() {
        let size = |size, ways, line| Err(GeometryError::Size { size, ways, line });
        assert_eq!(geometry(4096, 0, 64), Err(GeometryError::NoWays));
        assert_eq!(geometry(4096, 4, 48), Err(GeometryError::Line(48)));
        assert_eq!(geometry(4096, 4, 0), Err(GeometryError::Line(0)));
        assert_eq!(geometry(4096, 4, 4), Err(GeometryError::Line(4)));
        assert_eq!(geometry(0, 4, 64), size(0, 4, 64));
        assert_eq!(geometry(4095, 4, 64), size(4095, 4, 64));
        assert_eq!(geometry(128, 4, 64), size(128, 4, 64));
        assert_eq!(geometry(64, 2, 1 << 63), size(64, 2, 1 << 63));
        assert_eq!(geometry(1 << 40, 16, 64), Err(GeometryError::TooLarge(1 << 34)));
        assert!(geometry(4096, 4, 64).is_ok());
    }

    #[test]
    fn sets_need_not_be_a_power_of_two() {
        let large = geometry(260 << 20, 20, 64).unwrap();
        assert_eq!(large.sets(), 212_992);
        // Three sets of one way: lines 0 and 3 collide, 0 and 4 do not.
        let mut small = SetAssociative::new(geometry(192, 1, 64).unwrap());
        assert_eq!(
            [0, 4, 0, 3, 0].map(|line| small.access(line * 64)),
            [false, false, true, false, false]
        );
    }

    #[test]
    fn the_least_recently_used_line_leaves() {
        let mut cache = SetAssociative::new(geometry(256, 4, 64).unwrap());
        for line in 0..4 {
            assert!(!cache.access(line * 64));
        }
        assert!(cache.access(63), "line 0 again, by its last byte");
        assert!(!cache.access(4 * 64), "replaces line 1, now the oldest");
        assert!(cache.access(0));
        assert!(!cache.access(64));
    }

    #[test]
    fn an_invalidated_way_is_filled_first() {
        let mut cache = SetAssociative::new(geometry(128, 2, 64).unwrap());
        cache.access(0);
        cache.access(64);
        assert!(cache.invalidate(70));
        assert!(!cache.invalidate(70));
        assert!(!cache.access(128));
        assert!(cache.access(0), "the older line stayed, the empty way was taken");
    }
}
