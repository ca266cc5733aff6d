//! [`Entries`] and [`Range`]: what a search found, leaf by leaf.
//!
//! What they are not: they hold no path, only a leaf and a slot; the leaves are linked.

use std::ops::{Bound, RangeBounds};

use super::key::{Key, Order};
use super::node::{NONE, Node};
use super::{CsbTree, ROOT};

/// The RIDs of one key, ascending; from [`CsbTree::leaf_entries_from`].
#[derive(Clone, Debug)]
pub struct Entries<'a, K: Key, const LINES: usize> {
    tree: &'a CsbTree<K, LINES>,
    leaf: &'a Node<K::Order, LINES>,
    slot: usize,
    key: K::Order,
}

impl<'a, K: Key, const LINES: usize> Entries<'a, K, LINES> {
    /// Begins at a slot of a leaf: the first whose key is not below `key`, or the leaf's count.
    #[inline(always)]
    pub(super) fn new(
        tree: &'a CsbTree<K, LINES>,
        leaf: &'a Node<K::Order, LINES>,
        slot: usize,
        key: K::Order,
    ) -> Self {
        Entries {
            tree,
            leaf,
            slot,
            key,
        }
    }

    /// Goes on to the next leaf if the key's entries may be there too.
    #[cold]
    fn hop(&mut self) -> bool {
        let leaf = self.leaf;
        let next = leaf.link();
        if next == NONE || !leaf.continues() {
            return false;
        }
        self.leaf = self.tree.leaf(next);
        self.slot = 0;
        true
    }
}

impl<K: Key, const LINES: usize> Iterator for Entries<'_, K, LINES> {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        if self.slot >= self.leaf.count() && !self.hop() {
            return None;
        }
        if self.leaf.leaf_keys()[self.slot] != self.key {
            return None;
        }
        let rid = self.leaf.rids()[self.slot];
        self.slot += 1;
        Some(rid)
    }
}

impl<K: Key, const LINES: usize> std::iter::FusedIterator for Entries<'_, K, LINES> {}

/// Entries in order, by key and then by RID; from [`CsbTree::range`].
#[derive(Clone, Debug)]
pub struct Range<'a, K: Key, const LINES: usize> {
    tree: &'a CsbTree<K, LINES>,
    /// Nothing once the end was seen.
    leaf: Option<&'a Node<K::Order, LINES>>,
    slot: usize,
    /// The largest key to be given.
    last: K::Order,
}

impl<K: Key, const LINES: usize> Iterator for Range<'_, K, LINES> {
    type Item = (K, u32);

    #[inline]
    fn next(&mut self) -> Option<(K, u32)> {
        let mut leaf = self.leaf?;
        if self.slot >= leaf.count() {
            // Leaves are not empty, but for the root, which has no next one.
            self.leaf = (leaf.link() != NONE).then(|| self.tree.leaf(leaf.link()));
            self.slot = 0;
            leaf = self.leaf?;
        }
        let key = leaf.leaf_keys()[self.slot];
        if key > self.last {
            self.leaf = None;
            return None;
        }
        let rid = leaf.rids()[self.slot];
        self.slot += 1;
        Some((K::from_order(key), rid))
    }
}

impl<K: Key, const LINES: usize> std::iter::FusedIterator for Range<'_, K, LINES> {}

impl<K: Key, const LINES: usize> CsbTree<K, LINES> {
    /// The entries whose keys lie in a range, in order. A range that ends before it begins has none.
    pub fn range(&self, keys: impl RangeBounds<K>) -> Range<'_, K, LINES> {
        let first = match keys.start_bound() {
            Bound::Included(key) => Some(key.to_order()),
            Bound::Excluded(key) => key.to_order().above(),
            Bound::Unbounded => Some(K::Order::MIN),
        };
        let last = match keys.end_bound() {
            Bound::Included(key) => Some(key.to_order()),
            Bound::Excluded(key) => key.to_order().below(),
            Bound::Unbounded => Some(K::Order::MAX),
        };
        // No key is above the largest or below the smallest one.
        let bounds = first.zip(last);
        let (leaf, slot) = bounds.map_or((ROOT, 0), |(first, _)| self.position_of(first));
        Range {
            tree: self,
            leaf: bounds.map(|_| self.node(leaf)),
            slot,
            last: bounds.map_or(K::Order::MIN, |(_, last)| last),
        }
    }
}
