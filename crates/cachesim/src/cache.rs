//! One set-associative cache, with true least-recently-used or tree replacement, in which an access may be confined to some ways.
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
//! Real caches keep less than an order: with [`Replacement::TreePlru`] each set has one bit a node of a binary tree over its ways.
//!
//! ```text
//!                 [1] ▶ right            a use of a way turns every node above it away from it;
//!               /            \           the victim is where the arrows lead: way 2, as [1] and [3] stand
//!          [2] ▶ left      [3] ▶ left
//!          /     \         /     \
//!        way 0  way 1    way 2  way 3
//! ```
//!
//! Where ways are no power of two, the tree is the next larger one and its last leaves are missing: an arrow into a part without
//! ways is not followed. Ways in the thinner part are then replaced more often than others. An arrow into a part without a way
//! of the access's [`WayMask`] is not followed either. What a given processor does in both cases is not published; this is the
//! plain extension.
//!
//! Not here: who shares the cache with whom; that is [`crate::hierarchy`] and [`crate::llc`].

use corun_model::units::{Bytes, Ways};

/// Smallest line, in bytes: a machine word. Line numbers then never reach the one that marks an empty way.
const LINE_BYTES_MIN: u64 = 8;
/// Most lines a simulated cache may have: 2^28 lines of 64 bytes are 16 GiB of cache, and take 4 GiB to simulate.
const LINES_MAX: u64 = 1 << 28;
/// Marks a way that holds nothing. Tags stay below it.
const EMPTY: u64 = u64::MAX;
/// Most ways of a set that a mask can name, or that a tree is kept over: a word of bits. Hardware has 20 or fewer.
pub(crate) const MASKED_WAYS_MAX: u32 = u64::BITS;

/// How a set chooses the line that leaves for a new one. Ways that hold nothing are taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The least recently used one.
    Lru,
    /// The one a binary tree of bits leads to; see the module's text.
    TreePlru,
}

/// What using a line did to its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// The line was there.
    Hit,
    /// It took a way that held nothing.
    Filled,
    /// It took the way of this line.
    Replaced(u64),
}

/// Ways of each set, one bit a way, lowest first: what a class of threads may fill.
///
/// As on hardware, fills only are limited: a line is found in any way, and using it counts as a use. Bits need not be adjacent,
/// though some processors ask for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WayMask(pub u64);

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
    // Changing. `tags[set * ways + way]` is the line held there.
    tags: Vec<u64>,
    uses: Uses,
}

/// What is remembered about past uses.
#[derive(Clone, Debug)]
enum Uses {
    /// `stamps` has, where `tags` has a line, when it was last used, 0 if empty.
    Stamps { stamps: Vec<u64>, clock: u64 },
    /// A word a set: bit `n` is node `n` of the tree, 1 for the root, `2n` and `2n + 1` below `n`; set if it leads right.
    Trees(Vec<u64>),
}

impl SetAssociative {
    /// An empty cache with least-recently-used replacement.
    pub fn new(geometry: Geometry) -> Self {
        let lines = geometry.size.whole_lines(geometry.line).0 as usize;
        let uses = Uses::Stamps {
            stamps: vec![0; lines],
            clock: 0,
        };
        Self::with_uses(geometry, uses)
    }

    /// An empty cache. A tree is kept over at most [`MASKED_WAYS_MAX`] ways, which the caller has checked.
    pub(crate) fn with_replacement(geometry: Geometry, replacement: Replacement) -> Self {
        match replacement {
            Replacement::Lru => Self::new(geometry),
            Replacement::TreePlru => {
                assert!(geometry.ways.0 <= MASKED_WAYS_MAX, "a tree fits a word");
                Self::with_uses(geometry, Uses::Trees(vec![0; geometry.sets() as usize]))
            }
        }
    }

    fn with_uses(geometry: Geometry, uses: Uses) -> Self {
        let sets = geometry.sets();
        Self {
            geometry,
            line_shift: geometry.line.0.trailing_zeros(),
            sets,
            set_mask: sets.is_power_of_two().then(|| sets - 1),
            ways: geometry.ways.0 as usize,
            tags: vec![EMPTY; geometry.size.whole_lines(geometry.line).0 as usize],
            uses,
        }
    }

    /// Size and shape.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Uses the line that `address` lies in: whether it was there. If not, it is now, in place of another line of its set.
    #[inline]
    pub fn access(&mut self, address: u64) -> bool {
        let line = address >> self.line_shift;
        self.access_in_set(self.set_of(line), line, None)
    }

    /// Uses the line `tag` of a set, which may be another set than the address says; without success it is filled into one of the
    /// ways of `fill`, which has one of this cache, or into any.
    #[inline]
    pub(crate) fn access_in_set(&mut self, set: u64, tag: u64, fill: Option<WayMask>) -> bool {
        self.touch_in_set(set, tag, fill) == Touch::Hit
    }

    /// [`SetAssociative::access_in_set`], which also says which line had to leave.
    #[inline]
    pub(crate) fn touch_in_set(&mut self, set: u64, tag: u64, fill: Option<WayMask>) -> Touch {
        debug_assert!(tag != EMPTY);
        let first = set as usize * self.ways;
        let tags = &mut self.tags[first..first + self.ways];
        let held = tags.iter().position(|&held| held == tag);
        let way = match &mut self.uses {
            Uses::Stamps { stamps, clock } => {
                let stamps = &mut stamps[first..first + self.ways];
                let way = held.unwrap_or_else(|| match fill {
                    None => oldest(stamps, 0..stamps.len()),
                    Some(mask) => oldest(stamps, ways_of(mask)),
                });
                *clock += 1;
                stamps[way] = *clock;
                way
            }
            Uses::Trees(trees) => {
                let tree = &mut trees[set as usize];
                let way = held.unwrap_or_else(|| {
                    let all = u64::MAX >> (u64::BITS as usize - tags.len());
                    let mask = fill.map_or(all, |mask| mask.0 & all);
                    ways_of(WayMask(mask))
                        .find(|&way| tags[way] == EMPTY)
                        .unwrap_or_else(|| led_to(*tree, tags.len(), mask))
                });
                turn_away(tree, tags.len(), way);
                way
            }
        };
        let before = std::mem::replace(&mut tags[way], tag);
        match (held, before) {
            (Some(_), _) => Touch::Hit,
            (None, EMPTY) => Touch::Filled,
            (None, line) => Touch::Replaced(line),
        }
    }

    /// Drops the line that `address` lies in: whether it was there.
    pub fn invalidate(&mut self, address: u64) -> bool {
        let line = address >> self.line_shift;
        let first = self.set_of(line) as usize * self.ways;
        match self.tags[first..first + self.ways]
            .iter()
            .position(|&tag| tag == line)
        {
            Some(way) => {
                self.tags[first + way] = EMPTY;
                if let Uses::Stamps { stamps, .. } = &mut self.uses {
                    stamps[first + way] = 0;
                }
                true
            }
            None => false,
        }
    }

    #[inline]
    pub(crate) fn set_of(&self, line: u64) -> u64 {
        match self.set_mask {
            Some(mask) => line & mask,
            None => line % self.sets,
        }
    }
}

/// The first way with the smallest stamp; 0 if there are no ways.
#[inline]
fn oldest(stamps: &[u64], ways: impl Iterator<Item = usize>) -> usize {
    ways.min_by_key(|&way| stamps[way]).unwrap_or(0)
}

/// The ways of a mask, lowest first.
#[inline]
fn ways_of(mask: WayMask) -> impl Iterator<Item = usize> {
    let mut left = mask.0;
    std::iter::from_fn(move || {
        let way = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (way < u64::BITS as usize).then_some(way)
    })
}

/// The way the arrows of a tree over `ways` ways lead to, of those in `mask`, which has one.
fn led_to(tree: u64, ways: usize, mask: u64) -> usize {
    let (mut node, mut first, mut leaves) = (1, 0, ways.next_power_of_two());
    while leaves > 1 {
        leaves /= 2;
        // `leaves` is at most half a word.
        let part = (1u64 << leaves) - 1;
        let right =
            mask >> first & part == 0 || tree >> node & 1 == 1 && mask >> (first + leaves) & part != 0;
        first += leaves * usize::from(right);
        node = 2 * node + usize::from(right);
    }
    first
}

/// Turns the nodes above a way away from it.
fn turn_away(tree: &mut u64, ways: usize, way: usize) {
    let mut node = ways.next_power_of_two() + way;
    while node > 1 {
        let is_right = node & 1 == 1;
        node /= 2;
        *tree = *tree & !(1 << node) | u64::from(!is_right) << node;
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
    fn a_line_that_leaves_is_named() {
        for replacement in [Replacement::Lru, Replacement::TreePlru] {
            let mut cache = SetAssociative::with_replacement(geometry(128, 2, 64).unwrap(), replacement);
            let touched = [5, 6, 5, 7, 5].map(|tag| cache.touch_in_set(0, tag, None));
            let expected = [
                Touch::Filled,
                Touch::Filled,
                Touch::Hit,
                Touch::Replaced(6),
                Touch::Hit,
            ];
            assert_eq!(touched, expected, "{replacement:?}");
        }
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

    /// The tree once more, as nodes that own their parts: no words, no masks, no numbering.
    enum Node {
        Way(usize),
        Fork { right: bool, parts: [Box<Node>; 2] },
    }

    impl Node {
        fn over(ways: std::ops::Range<usize>) -> Self {
            if ways.len() == 1 {
                return Self::Way(ways.start);
            }
            let half = ways.start + ways.len() / 2;
            Self::Fork {
                right: false,
                parts: [ways.start..half, half..ways.end].map(|part| Box::new(Self::over(part))),
            }
        }

        fn has(&self, allowed: &[usize]) -> bool {
            match self {
                Self::Way(way) => allowed.contains(way),
                Self::Fork { parts, .. } => parts.iter().any(|part| part.has(allowed)),
            }
        }

        fn victim(&self, allowed: &[usize]) -> usize {
            match self {
                Self::Way(way) => *way,
                Self::Fork { right, parts } => {
                    let led = &parts[usize::from(*right)];
                    let other = &parts[usize::from(!*right)];
                    if led.has(allowed) { led } else { other }.victim(allowed)
                }
            }
        }

        fn used(&mut self, way: usize) -> bool {
            match self {
                Self::Way(own) => *own == way,
                Self::Fork { right, parts } => {
                    for (at, part) in parts.iter_mut().enumerate() {
                        if part.used(way) {
                            *right = at == 0;
                            return true;
                        }
                    }
                    false
                }
            }
        }
    }

    #[test]
    fn the_tree_leads_where_the_plain_tree_does() {
        for ways in 1..=64u32 {
            let mut cache = SetAssociative::with_replacement(
                geometry(u64::from(ways) * 64, ways, 64).unwrap(),
                Replacement::TreePlru,
            );
            let mut tree = Node::over(0..ways.next_power_of_two() as usize);
            let mut held: Vec<Option<u64>> = vec![None; ways as usize];
            let mut random = crate::random::SplitMix64::new(u64::from(ways));
            for step in 0..400 {
                let tag = random.below(u64::from(ways) * 2);
                let all = u64::MAX >> (64 - ways);
                let mask = match random.next() & random.next() & all {
                    0 => all,
                    some => some,
                };
                let allowed: Vec<usize> = (0..ways as usize).filter(|way| mask >> way & 1 == 1).collect();
                let at = held.iter().position(|&line| line == Some(tag));
                let way = at.unwrap_or_else(|| {
                    let empty = allowed.iter().copied().find(|&way| held[way].is_none());
                    empty.unwrap_or_else(|| tree.victim(&allowed))
                });
                held[way] = Some(tag);
                assert!(tree.used(way));
                let fill = (mask != all).then_some(WayMask(mask));
                assert_eq!(
                    cache.access_in_set(0, tag, fill),
                    at.is_some(),
                    "{ways} ways, step {step}"
                );
                let tags: Vec<Option<u64>> = cache.tags.iter().map(|&t| (t != EMPTY).then_some(t)).collect();
                assert_eq!(tags, held, "{ways} ways, step {step}");
            }
        }
    }

    #[test]
    fn a_mask_limits_fills_and_nothing_else() {
        for replacement in [Replacement::Lru, Replacement::TreePlru] {
            let mut cache = SetAssociative::with_replacement(geometry(256, 4, 64).unwrap(), replacement);
            for tag in 0..4 {
                assert!(!cache.access_in_set(0, tag, None));
            }
            // Way 3 is all this class may fill, and line 3 all it can drive out.
            for tag in 10..20 {
                assert!(
                    !cache.access_in_set(0, tag, Some(WayMask(0b1000))),
                    "{replacement:?}"
                );
            }
            // It finds what lies elsewhere.
            for tag in [0, 1, 2, 19] {
                assert!(
                    cache.access_in_set(0, tag, Some(WayMask(0b1000))),
                    "{replacement:?}"
                );
            }
        }
    }
}
