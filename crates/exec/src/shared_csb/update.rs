//! Inserting and removing single entries.
//!
//! An insert looks for its leaf like a reader, locks it if it is still as it was read, and writes. A full node met on the way
//! is split first, so there is always room above for one more separator; then it begins at the top again. What it is not: it
//! moves nothing between nodes, `split.rs` does.

use crossbeam_epoch::{self as epoch, Guard};

use super::descend::{Landing, successor};
use super::node::{Locked, Node, Patience, Shape, Version};
use super::{Key, Pair, SharedCsbError, SharedCsbTree, Stop};

/// Repeats an attempt until nothing came between.
fn repeat<T>(mut attempt: impl FnMut() -> Result<T, Stop>) -> Result<T, SharedCsbError> {
    let mut patience = Patience::default();
    loop {
        match attempt() {
            Ok(answer) => return Ok(answer),
            Err(Stop::Memory(error)) => return Err(error.into()),
            Err(Stop::Changed) => patience.wait(),
        }
    }
}

impl<const W: usize> SharedCsbTree<W> {
    /// Adds an entry. False if the very pair was there already.
    ///
    /// # Errors
    /// [`SharedCsbError::OutOfMemory`].
    pub fn insert(&self, key: &Key<W>, rid: u32) -> Result<bool, SharedCsbError> {
        let pair = (*key, rid);
        let guard = &epoch::pin();
        let inserted = repeat(|| self.try_insert(&pair, guard))?;
        if inserted {
            self.length.add(1);
        }
        Ok(inserted)
    }

    fn try_insert(&self, pair: &Pair<W>, guard: &Guard) -> Result<bool, Stop> {
        let (mut parent, mut node) = (None, self.top(guard));
        let mut version = node.stable(true)?;
        while !version.is_leaf() {
            if version.count() == Shape::<W>::CAPACITY {
                return self.make_room(parent, node, pair, guard);
            }
            let (child, slot) = Self::step(node, version, pair)?;
            parent = Some((node, version, slot));
            node = child;
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
        parent: Option<(Node<'g, W>, Version, usize)>,
        full: Node<'g, W>,
        pair: &Pair<W>,
        guard: &'g Guard,
    ) -> Result<T, Stop> {
        // Only the top has no parent, and it is never full.
        if let Some((parent, version, slot)) = parent {
            let at_end = full.pairs_below(pair) == Shape::<W>::CAPACITY;
            self.split(parent, version, slot, at_end, guard)?;
        }
        Err(Stop::Changed)
    }

    /// Adds an entry unless its key has one already; then the inner result has the smallest RID of the key. No other insert of
    /// the key can come between the look and the write.
    ///
    /// # Errors
    /// [`SharedCsbError::OutOfMemory`].
    pub fn insert_unique(&self, key: &Key<W>, rid: u32) -> Result<Result<(), u32>, SharedCsbError> {
        let pair = (*key, rid);
        let guard = &epoch::pin();
        let answer = repeat(|| self.try_insert_unique(&pair, guard))?;
        if answer.is_ok() {
            self.length.add(1);
        }
        Ok(answer)
    }

    fn try_insert_unique(&self, pair: &Pair<W>, guard: &Guard) -> Result<Result<(), u32>, Stop> {
        // All leaves that may hold the key stay locked from the look until the write. Nearly always it is one; more only where
        // a separator has this very key. The ranges of locked leaves do not shrink, so no other leaf can get an entry of it.
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
        let (mut parent, mut node) = (None, self.top(guard));
        loop {
            let version = node.stable(true)?;
            if version.count() == Shape::<W>::CAPACITY {
                return self.make_room(parent, node, pair, guard);
            }
            if version.is_leaf() {
                return Err(Stop::Changed);
            }
            let (child, slot) = Self::step(node, version, pair)?;
            parent = Some((node, version, slot));
            node = child;
        }
    }

    /// Takes an entry out. False if it was not there.
    pub fn remove(&self, key: &Key<W>, rid: u32) -> bool {
        let pair = (*key, rid);
        let guard = &epoch::pin();
        let mut patience = Patience::default();
        let left = loop {
            match self.try_remove(&pair, guard) {
                Ok(left) => break left,
                Err(_) => patience.wait(),
            }
        };
        let Some(left) = left else {
            return false;
        };
        self.length.add(-1);
        if left == 0 {
            self.prune(&pair, guard);
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
