//! Made-up access streams: what a scan, a probed table, a descended tree do to caches, without an operator or data.
//!
//! **These are not traces of corun's operators**, and what is simulated from them says so. They serve where the question is about
//! sizes (a table of so many bytes beside a scan), and where the answer is known in closed form.
//!
//! ```text
//!   hash join   row:  [ scan 1 line ][ probe 1 line of the table ]  [ scan 1 ][ probe 1 ] ...
//!                       │ in order     │ anywhere, evenly
//!                     part 0         part 1            each part has a range of addresses of its own, from (number + 1) * 2^40 on
//! ```
//!
//! A [`Synthetic`] repeats the same few parts for each row. The calls: one of its constructors, or a list of [`Part`]s; then
//! [`Synthetic::addresses`] to say how each part's memory is to be treated, and the stream goes into [`crate::llc::Stream`].
//!
//! Not here: skew. Random accesses are even.

use std::ops::Range;

use corun_model::operators::trace::{Access, Event, ThreadRole};
use corun_model::units::Bytes;

use crate::llc::Source;
use crate::random::SplitMix64;

/// Bytes between two accesses that go in order, and the grain of random ones.
const LINE_BYTES: u64 = 64;
/// Bytes each access reads.
const ACCESS_BYTES: u32 = 8;
/// Addresses from the begin of one part to that of the next, and so the most bytes of a part: 1 TiB.
const PART_BYTES_MAX: u64 = 1 << 40;
/// Most parts of a row.
const PARTS_MAX: usize = 64;

/// A stream that repeats its parts, in order, for each row. Everything is loaded, nothing stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synthetic {
    rows: u64,
    parts: Vec<Part>,
    seed: u64,
}

/// What is done in one piece of memory for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Size of the memory; rounded up to whole lines of 64 bytes.
    pub bytes: Bytes,
    /// Where the accesses go.
    pub pattern: Pattern,
    /// Lines accessed for each row; with [`Pattern::Descents`], descents made.
    pub per_row: u32,
}

/// Where accesses go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Line after line, from the begin again behind the end.
    Sequential,
    /// Any line, evenly.
    Random,
    /// From the root of a tree of one-line nodes to a leaf, any leaf, evenly: one access a level. The levels lie one behind the
    /// other, the leaves last; leaves and inner nodes together fill the memory.
    Descents {
        /// Children of a node.
        fanout: u32,
    },
}

/// A stream that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntheticError {
    /// Nothing would be accessed.
    #[error("a synthetic stream needs at least 1 row, and 1 to {PARTS_MAX} parts with accesses in each row")]
    Empty,
    /// A part of no bytes, or too many.
    #[error("a part of a synthetic stream has 1 to {PART_BYTES_MAX} bytes, not {0}")]
    Bytes(u64),
    /// A tree that does not branch.
    #[error("nodes of a synthetic tree have at least 2 children, not {0}")]
    Fanout(u32),
}

impl Synthetic {
    /// A stream of `rows` times these parts.
    ///
    /// # Errors
    /// [`SyntheticError`] if there are no rows, no parts, more than 64, or a part without accesses; if a part is empty or larger
    /// than 1 TiB; if a tree's nodes have fewer than 2 children.
    pub fn new(rows: u64, parts: Vec<Part>, seed: u64) -> Result<Self, SyntheticError> {
        if rows == 0 || !(1..=PARTS_MAX).contains(&parts.len()) {
            return Err(SyntheticError::Empty);
        }
        for part in &parts {
            if part.per_row == 0 {
                return Err(SyntheticError::Empty);
            }
            if !(1..=PART_BYTES_MAX).contains(&part.bytes.0) {
                return Err(SyntheticError::Bytes(part.bytes.0));
            }
            if let Pattern::Descents { fanout } = part.pattern
                && fanout < 2
            {
                return Err(SyntheticError::Fanout(fanout));
            }
        }
        Ok(Self { rows, parts, seed })
    }

    /// `probes` lines of a table of `table` bytes, each anywhere.
    ///
    /// # Errors
    /// As [`Synthetic::new`].
    pub fn random_probes(table: Bytes, probes: u64, seed: u64) -> Result<Self, SyntheticError> {
        Self::new(probes, vec![part(table, Pattern::Random)], seed)
    }

    /// `lines` lines of `bytes` bytes of memory, in order, round and round.
    ///
    /// # Errors
    /// As [`Synthetic::new`].
    pub fn sequential_scan(bytes: Bytes, lines: u64) -> Result<Self, SyntheticError> {
        Self::new(lines, vec![part(bytes, Pattern::Sequential)], 0)
    }

    /// `lookups` descents through a tree of `tree` bytes.
    ///
    /// # Errors
    /// As [`Synthetic::new`].
    pub fn index_descents(tree: Bytes, fanout: u32, lookups: u64, seed: u64) -> Result<Self, SyntheticError> {
        Self::new(lookups, vec![part(tree, Pattern::Descents { fanout })], seed)
    }

    /// `rows` times the next line of the probing relation of `relation` bytes (part 0), then one of a hash table of `table` bytes
    /// (part 1).
    ///
    /// # Errors
    /// As [`Synthetic::new`].
    pub fn hash_join_probe(
        relation: Bytes,
        table: Bytes,
        rows: u64,
        seed: u64,
    ) -> Result<Self, SyntheticError> {
        let parts = vec![part(relation, Pattern::Sequential), part(table, Pattern::Random)];
        Self::new(rows, parts, seed)
    }

    /// The addresses of a part, by number from 0; `None` if there is no such part.
    pub fn addresses(&self, part: usize) -> Option<Range<u64>> {
        let lines = lines_of(self.parts.get(part)?);
        Some(begin_of(part)..begin_of(part) + lines * LINE_BYTES)
    }

    /// The stream, from its begin.
    fn iter(&self) -> Events<'_> {
        Events {
            given: self,
            levels: self.parts.iter().map(levels_of).collect(),
            next_line: vec![0; self.parts.len()],
            random: SplitMix64::new(self.seed),
            rows_left: self.rows,
            part: 0,
            accesses_left: self.parts[0].per_row,
            descent: None,
        }
    }
}

impl Source for Synthetic {
    fn events(&self) -> Box<dyn Iterator<Item = Event> + '_> {
        Box::new(self.iter())
    }
}

fn part(bytes: Bytes, pattern: Pattern) -> Part {
    Part {
        bytes,
        pattern,
        per_row: 1,
    }
}

fn begin_of(part: usize) -> u64 {
    (part as u64 + 1) * PART_BYTES_MAX
}

fn lines_of(part: &Part) -> u64 {
    part.bytes.0.div_ceil(LINE_BYTES)
}

/// Lines of each level of a part's tree, the root's first; none if it is not a tree.
///
/// Each level has so many nodes that those below it have a parent. The most leaves are taken with which all levels fit.
fn levels_of(part: &Part) -> Vec<u64> {
    let Pattern::Descents { fanout } = part.pattern else {
        return Vec::new();
    };
    let with_leaves = |leaves: u64| {
        let mut levels = vec![leaves];
        while let Some(&below) = levels.last()
            && below > 1
        {
            levels.push(below.div_ceil(u64::from(fanout)));
        }
        levels.reverse();
        levels
    };
    let lines = lines_of(part);
    let (mut fits, mut too_many) = (1, lines + 1);
    while too_many - fits > 1 {
        let leaves = fits + (too_many - fits) / 2;
        if with_leaves(leaves).iter().sum::<u64>() <= lines {
            fits = leaves;
        } else {
            too_many = leaves;
        }
    }
    with_leaves(fits)
}

/// The iterator of a stream.
struct Events<'a> {
    // Fixed. `levels[part]` as `levels_of`.
    given: &'a Synthetic,
    levels: Vec<Vec<u64>>,
    // Changing. `next_line[part]` is where a sequential part goes on.
    next_line: Vec<u64>,
    random: SplitMix64,
    rows_left: u64,
    part: usize,
    accesses_left: u32,
    descent: Option<Descent>,
}

/// A descent under way.
#[derive(Clone, Copy)]
struct Descent {
    leaf: u64,
    level: usize,
    /// Lines of the levels before.
    above: u64,
}

impl Events<'_> {
    /// The line of the part to access now, and whether the access it belongs to is over.
    fn line(&mut self, part: &Part) -> (u64, bool) {
        match part.pattern {
            Pattern::Sequential => {
                let next = &mut self.next_line[self.part];
                let line = *next;
                *next = if line + 1 == lines_of(part) { 0 } else { line + 1 };
                (line, true)
            }
            Pattern::Random => (self.random.below(lines_of(part)), true),
            Pattern::Descents { fanout } => {
                let levels = &self.levels[self.part];
                let depth = levels.len();
                let mut descent = match self.descent {
                    Some(descent) => descent,
                    None => Descent {
                        leaf: self.random.below(levels[depth - 1]),
                        level: 0,
                        above: 0,
                    },
                };
                let below = depth - 1 - descent.level;
                let node = (0..below).fold(descent.leaf, |node, _| node / u64::from(fanout));
                let line = descent.above + node;
                descent.above += levels[descent.level];
                descent.level += 1;
                let over = descent.level == depth;
                self.descent = (!over).then_some(descent);
                (line, over)
            }
        }
    }
}

impl Iterator for Events<'_> {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        if self.rows_left == 0 {
            return None;
        }
        let given = self.given;
        let (line, over) = self.line(&given.parts[self.part]);
        let address = begin_of(self.part) + line * LINE_BYTES;
        if over {
            self.accesses_left -= 1;
            if self.accesses_left == 0 {
                self.part += 1;
                if self.part == given.parts.len() {
                    self.part = 0;
                    self.rows_left -= 1;
                }
                self.accesses_left = given.parts[self.part].per_row;
            }
        }
        Some(Event {
            role: ThreadRole::Worker(0),
            access: Access::Load,
            address,
            bytes: ACCESS_BYTES,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(stream: &Synthetic) -> Vec<(u64, u64)> {
        stream
            .iter()
            .map(|event| {
                assert_eq!((event.access, event.bytes), (Access::Load, ACCESS_BYTES));
                let part = event.address / PART_BYTES_MAX - 1;
                assert!(stream.addresses(part as usize).unwrap().contains(&event.address));
                (part, event.address % PART_BYTES_MAX / LINE_BYTES)
            })
            .collect()
    }

    #[test]
    fn a_scan_goes_round() {
        let scan = Synthetic::sequential_scan(Bytes(190), 7).unwrap();
        let expected: Vec<(u64, u64)> = (0..7).map(|at| (0, at % 3)).collect();
        assert_eq!(lines(&scan), expected);
        assert_eq!(scan.addresses(0), Some(1 << 40..(1 << 40) + 192));
        assert_eq!(scan.addresses(1), None);
    }

    #[test]
    fn a_hash_join_alternates_and_its_probes_reach_every_line() {
        let join = Synthetic::hash_join_probe(Bytes(640), Bytes(512), 1000, 3).unwrap();
        let all = lines(&join);
        assert_eq!(all, lines(&join), "equal seeds, equal streams");
        assert_eq!(all.len(), 2000);
        let mut probed = [0; 8];
        for (row, pair) in all.chunks(2).enumerate() {
            assert_eq!(pair[0], (0, row as u64 % 10));
            assert_eq!(pair[1].0, 1);
            probed[pair[1].1 as usize] += 1;
        }
        assert!(probed.iter().all(|&times| times > 80), "{probed:?}");
        let other = Synthetic::hash_join_probe(Bytes(640), Bytes(512), 1000, 4).unwrap();
        assert_ne!(all, lines(&other));
    }

    #[test]
    fn a_descent_visits_a_node_a_level_and_its_parent_before_it() {
        // 13 lines: a root, 3 nodes, 9 leaves.
        let tree = Synthetic::index_descents(Bytes(13 * 64), 3, 500, 1).unwrap();
        let mut leaves = [0; 9];
        for path in lines(&tree).chunks(3) {
            assert_eq!(path[0], (0, 0));
            let (node, leaf) = (path[1].1 - 1, path[2].1 - 4);
            assert_eq!(leaf / 3, node);
            leaves[leaf as usize] += 1;
        }
        assert!(leaves.iter().all(|&times| times > 25), "{leaves:?}");
        // A tree of one line is its own leaf.
        let stump = Synthetic::index_descents(Bytes(1), 2, 3, 1).unwrap();
        assert_eq!(lines(&stump), [(0, 0); 3]);
    }

    #[test]
    fn trees_fill_their_memory_and_no_more() {
        for lines in 1..2000 {
            for fanout in [2, 3, 16] {
                let levels = levels_of(&part(Bytes(lines * 64), Pattern::Descents { fanout }));
                let used: u64 = levels.iter().sum();
                assert_eq!(levels[0], 1);
                assert!(
                    levels
                        .windows(2)
                        .all(|pair| pair[0] == pair[1].div_ceil(u64::from(fanout)))
                );
                // One leaf more would need at most a node more on every level, the root included.
                assert!(
                    used <= lines && lines - used <= levels.len() as u64 + 1,
                    "{lines} {levels:?}"
                );
            }
        }
    }

    #[test]
    fn streams_that_touch_nothing_or_too_much_are_refused() {
        assert_eq!(
            Synthetic::sequential_scan(Bytes(64), 0),
            Err(SyntheticError::Empty)
        );
        assert_eq!(Synthetic::new(1, Vec::new(), 0), Err(SyntheticError::Empty));
        let idle = Part {
            bytes: Bytes(64),
            pattern: Pattern::Random,
            per_row: 0,
        };
        assert_eq!(Synthetic::new(1, vec![idle], 0), Err(SyntheticError::Empty));
        assert_eq!(
            Synthetic::random_probes(Bytes(0), 1, 0),
            Err(SyntheticError::Bytes(0))
        );
        let large = PART_BYTES_MAX + 1;
        assert_eq!(
            Synthetic::random_probes(Bytes(large), 1, 0),
            Err(SyntheticError::Bytes(large))
        );
        assert_eq!(
            Synthetic::index_descents(Bytes(64), 1, 1, 0),
            Err(SyntheticError::Fanout(1))
        );
    }
}
