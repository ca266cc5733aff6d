//! [`Cursor`]: the entries around a key, in order, both ways, while others change the tree.
//!
//! It copies a leaf's entries, with the range the leaf is responsible for, and looks for the next leaf by the end of that
//! range; so nothing is held between calls, and leaves that split, move or go do not disturb it. What it is not: a snapshot.

use crossbeam_epoch::Guard;

use super::descend::{Landing, successor};
use super::node::{Node, Shape};
use super::{Key, Pair, SharedCsbTree, Stop};

/// Stands between two entries of a tree. Entries that are there during a whole scan are returned once each, in order; others may
/// be or not. An entry whose insert returned before the seek is seen.
///
/// It starts out standing nowhere: until it is sent somewhere, both directions are at their end.
pub struct Cursor<'a, const W: usize> {
    tree: &'a SharedCsbTree<W>,
    /// The entries of one leaf.
    entries: Vec<Pair<W>>,
    /// It stands before the entry at this index, or behind the last.
    position: usize,
    /// The entries are all there were above `lower` up to and including `upper`, at the moment the leaf was read.
    lower: Option<Pair<W>>,
    upper: Option<Pair<W>>,
}

/// Which node beside a leaf the caches are asked for, as it is read next: most often a leaf of the same group.
#[derive(Clone, Copy)]
enum Neighbour {
    Next,
    Previous,
    /// The scan may end in this leaf.
    Neither,
}

impl<'a, const W: usize> Cursor<'a, W> {
    pub(super) fn new(tree: &'a SharedCsbTree<W>) -> Self {
        Cursor {
            tree,
            entries: Vec::new(),
            position: 0,
            lower: None,
            upper: None,
        }
    }

    /// Goes before the first entry whose key is not below this one.
    pub fn seek(&mut self, key: &Key<W>) {
        self.read((*key, 0), Neighbour::Neither, |pair, at| pair < at);
    }

    /// Goes behind the last entry whose key is not above this one.
    pub fn seek_back(&mut self, key: &Key<W>) {
        self.read((*key, u32::MAX), Neighbour::Neither, |pair, at| pair <= at);
    }

    /// Goes behind this entry, which may be gone: where a scan goes on that stopped there.
    pub fn seek_after(&mut self, entry: &Pair<W>) {
        self.read(*entry, Neighbour::Neither, |pair, at| pair <= at);
    }

    /// The entry behind it, which it then passes.
    #[allow(
        clippy::should_implement_trait,
        reason = "it goes both ways, and seeks in between"
    )]
    pub fn next(&mut self) -> Option<Pair<W>> {
        while self.position == self.entries.len() {
            let next = self.upper.and_then(successor)?;
            self.read(next, Neighbour::Next, |pair, at| pair < at);
        }
        let entry = self.entries[self.position];
        self.position += 1;
        Some(entry)
    }

    /// The entry before it, which it then passes.
    pub fn prev(&mut self) -> Option<Pair<W>> {
        while self.position == 0 {
            // The leaf before ends with, and is responsible for, the bound itself.
            let last = self.lower?;
            self.read(last, Neighbour::Previous, |pair, at| pair <= at);
        }
        self.position -= 1;
        Some(self.entries[self.position])
    }

    /// Copies the leaf responsible for a pair and stands behind the entries for which `before` is true.
    fn read(&mut self, at: Pair<W>, ask: Neighbour, before: impl Fn(&Pair<W>, &Pair<W>) -> bool) {
        let tree = self.tree;
        tree.read(|guard| self.try_read(&at, ask, guard));
        self.position = self.entries.partition_point(|pair| before(pair, &at));
    }

    fn try_read(&mut self, at: &Pair<W>, ask: Neighbour, guard: &Guard) -> Result<(), Stop> {
        let Landing {
            leaf,
            version,
            lower,
            upper,
        } = self.tree.landing(at, true, guard)?;
        match ask {
            Neighbour::Next => Node::<W>::prefetch(leaf.address().wrapping_add(Shape::<W>::BYTES)),
            Neighbour::Previous => Node::<W>::prefetch(leaf.address().wrapping_sub(Shape::<W>::BYTES)),
            Neighbour::Neither => {}
        }
        self.entries.clear();
        self.entries.reserve(Shape::<W>::CAPACITY);
        self.entries.extend(leaf.pairs(0..version.count()));
        leaf.validate(version)?;
        (self.lower, self.upper) = (lower, upper);
        Ok(())
    }
}
