//! Inserting and removing single entries.
//!
//! An insert looks for its leaf like a reader, locks it if it is still as it was read, and writes. A full node met on the way
//! is split first, so there is always room above for one more separator; then it begins at the top again. What it is not: it
//! moves nothing between nodes, `split.rs` does.

use crossbeam_epoch::Guard;

use super::descend::{Landing, successor};
use super::node::{Locked, Node, Shape};
use super::version::Version;
use super::{Key, Pair, SharedCsbError, SharedCsbTree, Stop};
use crate::ctx;

impl<const W: usize> SharedCsbTree<W> {
    /// Adds an entry. False if the very pair was there already.
    ///
    /// # Errors
    /// [`SharedCsbError::OutOfMemory`].
    pub fn insert(&self, key: &Key<W>, rid: u32) -> Result<bool, SharedCsbError> {
        let pair = (*key, rid);
        let inserted = self.repeat(|guard| self.try_insert(&pair, guard))?;
        if inserted {
            self.length.add(1);
        }
        Ok(inserted)
    }

    fn try_insert(&self, pair: &Pair<W>, guard: &Guard) -> Result<bool, Stop> {
        let (mut node, top_version) = self.root(true, guard)?;
        let mut parent = (self.top(guard), top_version, 0);
        let mut version = node.stable(true)?;
        while !version.is_leaf() {
            if version.count() == Shape::<W>::CAPACITY {
                return self.make_room(parent, node, pair, guard);
            }
            let (child, slot) = Self::step(node, version, pair)?;
            parent = (node, version, slot);
            node = child;
            ctx!(prefetch = node.address());
            version = node.stable(true)?;
        }
        let (count, slot) = (version.count(), node.pairs_below(pair));
        if slot < count && node.pair(slot) == *pair {
            node.validate(version)?;
            return Ok(false);
        }
        if count == Shape::<W>::CAPACITY {
            return self.make_room(parent, node, pair, guard);
        }
        let leaf = node.lock(version)?;
        node.insert_pair(slot, count, pair);
        leaf.publish(count + 1);
        Ok(true)
    }

    /// Splits a full node under its parent, which is not full; then the attempt must begin again.
    #[cold]
    fn make_room<'g, T>(
        &self,
        (parent, version, slot): (Node<'g, W>, Version, usize),
        full: Node<'g, W>,
        pair: &Pair<W>,
        guard: &'g Guard,
    ) -> Result<T, Stop> {
        let at_end = full.pairs_below(pair) == Shape::<W>::CAPACITY;
        self.split(parent, version, slot, at_end, guard)?;
        Err(Stop::Changed)
    }

    /// Adds an entry unless its key has one already; then the inner result has the smallest RID of the key. No other insert of
    /// the key can come between the look and the write.
    ///
    /// # Errors
    /// [`SharedCsbError::OutOfMemory`].
    pub fn insert_unique(&self, key: &Key<W>, rid: u32) -> Result<Result<(), u32>, SharedCsbError> {
        let pair = (*key, rid);
        let answer = self.repeat(|guard| self.try_insert_unique(&pair, guard))?;
        if answer.is_ok() {
            self.length.add(1);
        }
        Ok(answer)
    }

    fn try_insert_unique(&self, pair: &Pair<W>, guard: &Guard) -> Result<Result<(), u32>, Stop> {
        let (key, _) = *pair;
        let Landing {
            leaf: node,
            version,
            upper,
            ..
        } = self.landing(&(key, 0), true, guard)?;
        if upper.is_some_and(|upper| upper.0 == key) {
            return self.try_insert_unique_across(pair, guard);
        }
        // The leaf's range covers every pair of the key, and will while it is locked.
        let (count, slot) = (version.count(), node.keys_below(&key));
        if slot < count {
            let (found, rid) = node.pair(slot);
            if found == key {
                node.validate(version)?;
                return Ok(Err(rid));
            }
        }
        if count == Shape::<W>::CAPACITY {
            return self.split_leaf_of(pair, guard);
        }
        let leaf = node.lock(version)?;
        node.insert_pair(slot, count, pair);
        leaf.publish(count + 1);
        Ok(Ok(()))
    }

    /// The same where a separator has this very key, so that several leaves may hold it.
    #[cold]
    fn try_insert_unique_across(&self, pair: &Pair<W>, guard: &Guard) -> Result<Result<(), u32>, Stop> {
        // All leaves that may hold the key stay locked from the look until the write. The ranges of locked leaves do not shrink,
        // so no other leaf can get an entry of it.
        let (key, _) = *pair;
        let mut held: Vec<Locked<'_, W>> = Vec::new();
        let mut target: Option<usize> = None;
        let mut next = (key, 0);
        loop {
            let Landing {
                leaf, version, upper, ..
            } = self.landing(&next, held.is_empty(), guard)?;
            let slot = leaf.keys_below(&key);
            if slot < version.count() {
                let (found, rid) = leaf.pair(slot);
                leaf.validate(version)?;
                if found == key {
                    return Ok(Err(rid));
                }
            }
            held.push(leaf.lock(version)?);
            if target.is_none() && upper.is_none_or(|upper| *pair <= upper) {
                target = Some(held.len() - 1);
            }
            match upper.filter(|upper| upper.0 == key).and_then(successor) {
                Some(following) if following.0 == key => next = following,
                _ => break,
            }
        }
        // The last leaf's range ends with or behind the largest pair of the key.
        let leaf = held.swap_remove(target.unwrap_or(held.len() - 1));
        let (node, count) = (leaf.node(), leaf.version().count());
        if count == Shape::<W>::CAPACITY {
            // Splitting waits for locks, so none may be held.
            drop((leaf, held));
            return self.split_leaf_of(pair, guard);
        }
        node.insert_pair(node.pairs_below(pair), count, pair);
        leaf.publish(count + 1);
        Ok(Ok(()))
    }

    /// Makes room in the leaf responsible for a pair, and in what is full above it; then the attempt must begin again.
    #[cold]
    fn split_leaf_of<T>(&self, pair: &Pair<W>, guard: &Guard) -> Result<T, Stop> {
        let (mut node, top_version) = self.root(true, guard)?;
        let mut parent = (self.top(guard), top_version, 0);
        loop {
            let version = node.stable(true)?;
            if version.count() == Shape::<W>::CAPACITY {
                return self.make_room(parent, node, pair, guard);
            }
            if version.is_leaf() {
                return Err(Stop::Changed);
            }
            let (child, slot) = Self::step(node, version, pair)?;
            parent = (node, version, slot);
            node = child;
        }
    }

    /// Takes an entry out. False if it was not there.
    pub fn remove(&self, key: &Key<W>, rid: u32) -> bool {
        let pair = (*key, rid);
        let Some(left) = self.read(|guard| self.try_remove(&pair, guard)) else {
            return false;
        };
        self.length.add(-1);
        if left == 0 {
            self.prune(&pair);
        }
        true
    }

    /// How many entries are left in the leaf, if the pair was there.
    fn try_remove(&self, pair: &Pair<W>, guard: &Guard) -> Result<Option<usize>, Stop> {
        let (node, version) = self.leaf_of(pair, guard)?;
        let (count, slot) = (version.count(), node.pairs_below(pair));
        if slot >= count || node.pair(slot) != *pair {
            node.validate(version)?;
            return Ok(None);
        }
        let leaf = node.lock(version)?;
        node.remove_pair(slot, count);
        leaf.publish(count - 1);
        Ok(Some(count - 1))
    }
}
