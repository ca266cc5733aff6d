//! Inserting and removing single entries.
//!
//! An insert splits every full node it meets on its way down, so there is always room above for one more separator and a
//! step that runs out of memory leaves a whole tree behind. Splitting a node moves its group, with one node more, to a new
//! place:
//!
//! ```text
//!        parent: 10 │ 20                         parent: 10 │ 14 │ 20
//!        first ─┐                                first ─┐
//!               ▼                                       ▼
//!        ┌─────┬────────┬─────┐                  ┌─────┬────┬────┬─────┐
//!        │  A  │ B full │  C  │   (then free)    │  A  │ B1 │ B2 │  C  │
//!        └─────┴────────┴─────┘                  └─────┴────┴────┴─────┘
//! ```
//!
//! Where B is an inner node, the left half of its children stays where it is and the right half moves to a group for B2.
//!
//! A remove frees a leaf, and inner nodes above it, when nothing is left in them, and nothing sooner: merging half-empty
//! nodes would cost moves that the next inserts undo. Separators stay as upper bounds of what is left of them.
//!
//! Equal keys may fill many children of a node. Among those the right one is found by RID: by bisection over the last entry
//! under each child, as separators have no RIDs. What it is not: it never moves entries between leaves that both live.

use super::key::Key;
use super::node::{NONE, Node};
use super::{CsbError, CsbTree, HEIGHT_MAX, LessInner, LessLeaf};

/// The way from the root to a node: at each level the node and which child was taken.
struct Path {
    steps: [(u32, usize); HEIGHT_MAX],
    length: usize,
}

impl Path {
    fn new() -> Self {
        Path {
            steps: [(NONE, 0); HEIGHT_MAX],
            length: 0,
        }
    }

    fn push(&mut self, node: u32, slot: usize) {
        self.steps[self.length] = (node, slot);
        self.length += 1;
    }

    fn steps(&self) -> &[(u32, usize)] {
        &self.steps[..self.length]
    }
}

impl<K: Key, const LINES: usize> CsbTree<K, LINES> {
    /// Adds an entry. False if it was there already.
    ///
    /// # Errors
    /// [`CsbError::NotANumber`] for a NaN, [`CsbError::OutOfMemory`] and [`CsbError::TooManyNodes`] when there is no room;
    /// the tree has the same entries then as before.
    pub fn insert(&mut self, key: K, rid: u32) -> Result<bool, CsbError> {
        if key.is_nan() {
            return Err(CsbError::NotANumber { position: 0 });
        }
        let pair = (key.to_order(), rid);
        if self.arena.node(self.root).is_full() {
            self.split_root()?;
        }
        let mut path = Path::new();
        let mut at = self.root;
        for level in (0..self.height).rev() {
            let mut slot = self.slot_for(at, level, pair);
            if self
                .arena
                .node(self.arena.node(at).link() + slot as u32)
                .is_full()
            {
                self.split_child(&path, at, slot, level)?;
                slot = self.slot_for(at, level, pair);
            }
            path.push(at, slot);
            at = self.arena.node(at).link() + slot as u32;
        }

        let slot = self.entry_slot(at, pair);
        let leaf = self.arena.node_mut(at);
        let count = leaf.count();
        if slot < count && (leaf.leaf_keys()[slot], leaf.rids()[slot]) == pair {
            return Ok(false);
        }
        leaf.insert_entry(slot, pair);
        if slot == count {
            // A leaf is only chosen for an entry behind its last when a separator above it, below all that follows, is
            // larger than the key, or nothing follows.
            leaf.set_continues(false);
        }
        if slot == 0
            && let Some(before) = self.leaf_before(path.steps())
        {
            let before = self.arena.node_mut(before);
            if before.last_entry().0 == pair.0 {
                before.set_continues(true);
            }
        }
        self.length += 1;
        Ok(true)
    }

    /// Takes an entry out. False if it was not there.
    pub fn remove(&mut self, key: K, rid: u32) -> bool {
        // A NaN sorts where no entry is.
        let pair = (key.to_order(), rid);
        let mut path = Path::new();
        let mut at = self.root;
        for level in (0..self.height).rev() {
            let slot = self.slot_for(at, level, pair);
            path.push(at, slot);
            at = self.arena.node(at).link() + slot as u32;
        }
        let slot = self.entry_slot(at, pair);
        let leaf = self.arena.node_mut(at);
        let count = leaf.count();
        if slot == count || (leaf.leaf_keys()[slot], leaf.rids()[slot]) != pair {
            return false;
        }
        leaf.remove_entry(slot);
        self.length -= 1;
        if self.length == 0 {
            self.arena.reset(Node::leaf(NONE));
            (self.root, self.height) = (0, 0);
        } else if count == 1 {
            self.remove_leaf(&path);
        } else if slot + 1 == count && leaf.last_entry().0 != pair.0 {
            leaf.set_continues(false);
        }
        true
    }

    /// Which child of an inner node, `level` inner levels above the leaves, has or would get this entry: the first whose
    /// last entry is not below it, else the last that may hold its key.
    fn slot_for(&self, at: u32, level: usize, pair: (K::Order, u32)) -> usize {
        let node = self.arena.node(at);
        // SAFETY: `isa` was detected.
        let mut first = unsafe { self.isa.run(LessInner { node, key: pair.0 }) };
        let separators = &node.inner_keys()[..node.count()];
        let mut end = first + separators[first..].partition_point(|&key| key == pair.0);
        while first < end {
            let middle = first + (end - first) / 2;
            if self.last_under(node.link() + middle as u32, level) < pair {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        first
    }

    /// The last entry under a node with so many inner levels under and including it.
    fn last_under(&self, mut at: u32, levels: usize) -> (K::Order, u32) {
        for _ in 0..levels {
            at = self.last_child(at);
        }
        self.arena.node(at).last_entry()
    }

    /// The last child of an inner node.
    fn last_child(&self, at: u32) -> u32 {
        let node = self.arena.node(at);
        node.link() + node.count() as u32
    }

    /// The first slot of a leaf whose entry is not below this one, or its count.
    fn entry_slot(&self, at: u32, pair: (K::Order, u32)) -> usize {
        let node = self.arena.node(at);
        // SAFETY: `isa` was detected.
        let first = unsafe { self.isa.run(LessLeaf { node, key: pair.0 }) };
        let entries = node.leaf_keys()[first..node.count()]
            .iter()
            .zip(&node.rids()[first..]);
        first + entries.take_while(|&(&key, &rid)| (key, rid) < pair).count()
    }

    /// The leaf before all leaves under the end of a path, if there is one.
    fn leaf_before(&self, steps: &[(u32, usize)]) -> Option<u32> {
        let depth = steps.iter().rposition(|&(_, slot)| slot > 0)?;
        let (node, slot) = steps[depth];
        let mut at = self.arena.node(node).link() + slot as u32 - 1;
        for _ in depth + 1..self.height {
            at = self.last_child(at);
        }
        Some(at)
    }

    /// Links each leaf of a group to the next; the last one keeps its link.
    fn link_leaves(&mut self, first: u32, nodes: u32) {
        for leaf in first..first + nodes - 1 {
            self.arena.node_mut(leaf).set_link(leaf + 1);
        }
    }

    /// Puts a level above the root and splits the old one.
    fn split_root(&mut self) -> Result<(), CsbError> {
        if self.height == HEIGHT_MAX {
            return Err(CsbError::TooManyNodes);
        }
        let (old, new) = (self.root, self.arena.alloc(1)?);
        *self.arena.node_mut(new) = Node::inner(old);
        self.root = new;
        self.height += 1;
        let split = self.split_child(&Path::new(), new, 0, self.height - 1);
        if split.is_err() {
            self.root = old;
            self.height -= 1;
            self.arena.free(new, 1);
        }
        split
    }

    /// Splits the full child `slot` of `at`, which has room, lies at the end of `path` and has `level` inner levels under it.
    fn split_child(&mut self, path: &Path, at: u32, slot: usize, level: usize) -> Result<(), CsbError> {
        let (group, nodes) = {
            let parent = self.arena.node(at);
            (parent.link(), parent.count() as u32 + 1)
        };
        let child = group + slot as u32;
        let wide = self.arena.alloc(nodes + 1)?;
        let (separator, right) = if level == 0 {
            self.arena.node_mut(child).split_leaf()
        } else {
            match self.halve_children(child, level) {
                Ok(halves) => halves,
                Err(error) => {
                    self.arena.free(wide, nodes + 1);
                    return Err(error);
                }
            }
        };
        let after = slot as u32 + 1;
        self.arena.copy(group, wide, after);
        *self.arena.node_mut(wide + after) = right;
        self.arena.copy(group + after, wide + after + 1, nodes - after);
        self.arena.free(group, nodes);
        self.arena.node_mut(at).insert_separator(slot, separator, wide);
        if level == 0 {
            self.link_leaves(wide, nodes + 1);
            if let Some(before) = self.leaf_before(path.steps()) {
                self.arena.node_mut(before).set_link(wide);
            }
        }
        Ok(())
    }

    /// Splits an inner node with `level` inner levels under and including it: half of its children move to a new group.
    fn halve_children(
        &mut self,
        inner: u32,
        level: usize,
    ) -> Result<(K::Order, Node<K::Order, LINES>), CsbError> {
        let node = self.arena.node(inner);
        let (group, nodes) = (node.link(), node.count() as u32 + 1);
        let left = nodes / 2;
        let right_group = self.arena.alloc(nodes - left)?;
        self.arena.copy(group + left, right_group, nodes - left);
        self.arena.free(group + left, nodes - left);
        if level == 1 {
            self.link_leaves(right_group, nodes - left);
            self.arena.node_mut(group + left - 1).set_link(right_group);
        }
        Ok(self.arena.node_mut(inner).split_inner(left as usize, right_group))
    }

    /// Takes the empty leaf at the end of a path out, and what is empty above it then. Another leaf is not empty.
    fn remove_leaf(&mut self, path: &Path) {
        for (depth, &(at, slot)) in path.steps().iter().enumerate().rev() {
            let parent = self.arena.node(at);
            let (group, last) = (parent.link(), parent.count() as u32);
            let child = group + slot as u32;
            if depth + 1 == self.height && slot as u32 == last {
                // Only then does the leaf that follows not move into the place of the removed one.
                let next = self.arena.node(child).link();
                if let Some(before) = self.leaf_before(path.steps()) {
                    self.arena.node_mut(before).set_link(next);
                }
            }
            if last == 0 {
                self.arena.free(group, 1);
                continue;
            }
            self.arena.copy(child + 1, child, last - slot as u32);
            self.arena.free(group + last, 1);
            self.arena.node_mut(at).remove_child(slot);
            if depth + 1 == self.height {
                self.link_leaves(group, last);
            }
            break;
        }
        while self.height > 0 && self.arena.node(self.root).count() == 0 {
            let child = self.arena.node(self.root).link();
            self.arena.free(self.root, 1);
            self.root = child;
            self.height -= 1;
        }
    }
}
