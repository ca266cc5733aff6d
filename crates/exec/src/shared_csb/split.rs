//! What moves nodes: splitting a full one, taking out an empty one, and more or fewer levels.
//!
//! ```text
//!        parent: 10 │ 20                         parent: 10 │ 14 │ 20
//!        children ─┐                             children ─┐
//!                  ▼                                       ▼
//!        ┌─────┬────────┬─────┐                  ┌─────┬────┬────┬─────┐
//!        │  A  │ B full │  C  │ (then obsolete)  │  A  │ B1 │ B2 │  C  │
//!        └─────┴────────┴─────┘                  └─────┴────┴────┴─────┘
//! ```
//!
//! 1. Lock the parent, as it was read, then all its children, from left to right. 2. Copy them, changed, to a new group.
//! 3. Let the parent point there, and publish it. 4. Mark the old children obsolete: who stands there begins again at the top.
//! 5. Retire the old group: its memory is reused when every thread that was reading then has finished.
//! Where B is an inner node, its own children are copied to two groups, one for B1 and one for B2, in the same way.
//!
//! An emptied leaf goes the same way, with a group that is smaller by one; so do inner nodes that led to nothing else. Nodes
//! are not merged before they are empty: the next inserts would undo it. The range of what is taken out goes to a neighbour.
//!
//! What it is not: it looks for nothing; its callers have found the place, and begin again when it has changed.

use std::sync::Arc;

use crossbeam_epoch::Guard;

use super::arena::Arena;
use super::node::{Locked, Node, Patience, Shape, Version};
use super::{Pair, SharedCsbTree, Stop};
use crate::huge::OutOfMemory;

/// A new group that goes back to the arena unless it is put into the tree.
pub(super) struct Group<'a, const W: usize> {
    arena: &'a Arena,
    first: *mut u8,
    nodes: usize,
}

impl<'a, const W: usize> Group<'a, W> {
    /// Takes a group whose nodes are still to be written, all of them.
    pub(super) fn new(arena: &'a Arena, nodes: usize) -> Result<Self, OutOfMemory> {
        let first = arena.take(nodes)?;
        Ok(Group { arena, first, nodes })
    }

    /// A node of it.
    pub(super) fn node(&self, index: usize) -> Node<'_, W> {
        assert!(index < self.nodes, "no node {index} in a group of {}", self.nodes);
        // SAFETY: a node's worth of aligned memory that only this group's owner knows.
        unsafe { Node::at(Node::<W>::address_in(self.first, index)) }
    }

    /// Copies nodes here, one behind the other from `index` on.
    fn copy(&self, index: usize, nodes: &[Locked<'_, W>]) {
        for (offset, node) in nodes.iter().enumerate() {
            node.copy_to(self.node(index + offset));
        }
    }

    /// Its address, for the parent it now belongs to.
    pub(super) fn into_children(self) -> *mut u8 {
        let first = self.first;
        std::mem::forget(self);
        first
    }
}

impl<const W: usize> Drop for Group<'_, W> {
    fn drop(&mut self) {
        // SAFETY: taken from this arena, and nobody else ever knew it.
        unsafe { self.arena.give_back(self.first, self.nodes) };
    }
}

/// Locks a group's nodes, from left to right; the caller holds the lock of their parent.
fn lock_group<'g, const W: usize>(parent: &Locked<'g, W>) -> Vec<Locked<'g, W>> {
    let children = parent.node().children();
    (0..=parent.version().count())
        .map(|index| {
            // SAFETY: the parent is locked, so these are nodes of the tree now, and the guard keeps them.
            unsafe { Node::at(Node::<W>::address_in(children, index)) }.lock_waiting()
        })
        .collect()
}

impl<const W: usize> SharedCsbTree<W> {
    /// Splits the child in this slot of a node that still has this version and is not full. `at_end`: what comes next goes behind
    /// all the child has, and probably more after it, so nearly everything stays in the left part.
    pub(super) fn split(
        &self,
        parent: Node<'_, W>,
        version: Version,
        slot: usize,
        at_end: bool,
        guard: &Guard,
    ) -> Result<(), Stop> {
        debug_assert!(version.count() < Shape::<W>::CAPACITY && slot <= version.count());
        let parent = parent.lock(version)?;
        if parent.node() == self.top(guard) {
            return self.add_level(parent);
        }
        let nodes = version.count() + 1;
        let held = lock_group(&parent);
        let full = &held[slot];
        let capacity = Shape::<W>::CAPACITY;
        if full.version().count() < capacity {
            return Ok(());
        }
        let reserve = if at_end {
            (capacity / 10).max(1)
        } else {
            capacity / 2
        };

        let wide = Group::<W>::new(&self.arena, nodes + 1)?;
        let (left, right) = (wide.node(slot), wide.node(slot + 1));
        let separator;
        if full.version().is_leaf() {
            let stay = capacity - reserve;
            left.write(None, full.node().pairs(0..stay));
            right.write(None, full.node().pairs(stay..capacity));
            separator = full.node().pair(stay - 1);
        } else {
            // One separator goes up, so both parts keep a child more than separators.
            let stay = (capacity - reserve).min(capacity - 1);
            separator = full.node().pair(stay);
            let lefts = Group::<W>::new(&self.arena, stay + 1)?;
            let rights = Group::<W>::new(&self.arena, capacity - stay)?;
            let children = lock_group(full);
            lefts.copy(0, &children[..=stay]);
            rights.copy(0, &children[stay + 1..]);
            left.write(Some(lefts.into_children()), full.node().pairs(0..stay));
            right.write(
                Some(rights.into_children()),
                full.node().pairs(stay + 1..capacity),
            );
            // These become obsolete before the parent is published: who stands there waits at the parent's other children.
            self.retire(full.node().children(), children, guard);
        }
        wide.copy(0, &held[..slot]);
        wide.copy(slot + 2, &held[slot + 1..]);
        let old = parent.node().children();
        parent.node().insert_pair(slot, version.count(), &separator);
        parent.node().set_children(wide.into_children());
        parent.publish(version.count() + 1);
        self.retire(old, held, guard);
        Ok(())
    }

    /// Puts an inner node without separators between the top, which is locked, and the root. The root stays where it is; the
    /// next attempt finds it full, under a parent that has room.
    fn add_level(&self, top: Locked<'_, W>) -> Result<(), Stop> {
        let group = Group::<W>::new(&self.arena, 1)?;
        group
            .node(0)
            .write(Some(top.node().children()), std::iter::empty());
        top.node().set_children(group.into_children());
        top.publish(0);
        Ok(())
    }

    /// Takes out the leaf responsible for a pair if it is empty and not the root.
    pub(super) fn prune(&self, pair: &Pair<W>, guard: &Guard) {
        let mut patience = Patience::default();
        loop {
            match self.try_prune(pair, guard) {
                Ok(()) => return,
                // Without room for a smaller group the leaf stays, which costs only its memory.
                Err(Stop::Memory(_)) => return,
                Err(Stop::Changed) => patience.wait(),
            }
        }
    }

    fn try_prune(&self, pair: &Pair<W>, guard: &Guard) -> Result<(), Stop> {
        // The last node on the way with another child, and the slot that was taken there: what hangs there leads to nothing
        // but this leaf.
        let mut fork = None;
        let mut node = self.top(guard);
        let mut version = node.stable(true)?;
        while !version.is_leaf() {
            let (child, slot) = Self::step(node, version, pair)?;
            if version.count() > 0 {
                fork = Some((node, version, slot));
            }
            node = child;
            version = node.stable(true)?;
        }
        if version.count() == 0
            && let Some((node, version, slot)) = fork
        {
            self.take_out(node, version, slot, guard)?;
        }
        self.drop_levels(guard)
    }

    /// Takes a child without entries, with all that is under it, out of a node that still has this version and another child.
    fn take_out(
        &self,
        parent: Node<'_, W>,
        version: Version,
        slot: usize,
        guard: &Guard,
    ) -> Result<(), Stop> {
        let parent = parent.lock(version)?;
        let (nodes, old) = (version.count() + 1, parent.node().children());
        let held = lock_group(&parent);
        // Under it: single children down to the leaf.
        let mut below: Vec<Locked<'_, W>> = Vec::new();
        loop {
            let last = below.last().unwrap_or(&held[slot]);
            if last.version().count() > 0 {
                // An entry or a child came in between.
                return Ok(());
            }
            if last.version().is_leaf() {
                break;
            }
            below.extend(lock_group(last));
        }
        let narrow = Group::<W>::new(&self.arena, nodes - 1)?;
        narrow.copy(0, &held[..slot]);
        narrow.copy(slot, &held[slot + 1..]);
        // The range goes to the next child, or from the last child to the one before.
        parent
            .node()
            .remove_pair(slot.min(version.count() - 1), version.count());
        parent.node().set_children(narrow.into_children());
        parent.publish(version.count() - 1);
        self.retire(old, held, guard);
        for lock in below {
            let place = lock.node().address();
            self.retire(place, vec![lock], guard);
        }
        Ok(())
    }

    /// Takes out the root while it is an inner node with a single child, which becomes the root.
    fn drop_levels(&self, guard: &Guard) -> Result<(), Stop> {
        loop {
            let top = self.top(guard);
            let version = top.stable(true)?;
            let (root, _) = Self::step(top, version, super::descend::First(&[0; W]))?;
            let root_version = root.stable(true)?;
            if root_version.is_leaf() || root_version.count() > 0 {
                return Ok(());
            }
            let top = top.lock(version)?;
            let root = root.lock(root_version)?;
            top.node().set_children(root.node().children());
            top.publish(0);
            let place = root.node().address();
            self.retire(place, vec![root], guard);
        }
    }

    /// Marks a group's nodes obsolete and lets the arena have their memory when no reader can be there any more.
    fn retire(&self, group: *mut u8, nodes: Vec<Locked<'_, W>>, guard: &Guard) {
        let count = nodes.len();
        for node in nodes {
            node.make_obsolete();
        }
        let arena = Arc::clone(&self.arena);
        // SAFETY: the group came from this arena with so many nodes. No node of the tree points to it any more (or its parent is
        // locked and about to become obsolete), so threads that are pinned from now on cannot find it, and this runs once all
        // others are unpinned. The arena and the address may be used on any thread.
        unsafe { guard.defer_unchecked(move || arena.give_back(group, count)) };
    }
}
