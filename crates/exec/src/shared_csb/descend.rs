//! The way down: [`SharedCsbTree::step`] for one level, and loops over it.
//!
//! Between two levels nothing is held but the guard and what was read: a caller that cuts the way into steps may stop after
//! each one, as the child has been asked for by then. There the loops have CTX points, unless the caller holds locks. What it is not: it changes nothing and waits only for locked nodes.

use crossbeam_epoch::Guard;

use super::node::Node;
use super::version::Version;
use super::{Key, Pair, SharedCsbTree, Stop};
use crate::ctx;

/// Levels below the root from which on a node is waited for with a CTX point. There are at most some hundred nodes above, which
/// stay in the level-two cache; a switch costs more than they do (fetches by a team of 8 beyond the caches: about 30 ns of 500).
const CTX_FROM_LEVEL: usize = 3;

/// What a way down looks for.
pub(super) trait Sought<const W: usize>: Copy {
    /// Which child of an inner node is responsible for it; at most the node's separators.
    fn slot_in(self, inner: Node<'_, W>) -> usize;
}

/// The place of the first entry of a key. Separators need no look at their RIDs then: one of this key is not below its place.
#[derive(Clone, Copy)]
pub(super) struct First<'a, const W: usize>(pub(super) &'a Key<W>);

impl<const W: usize> Sought<W> for First<'_, W> {
    #[inline(always)]
    fn slot_in(self, inner: Node<'_, W>) -> usize {
        inner.keys_below(self.0)
    }
}

impl<const W: usize> Sought<W> for &Pair<W> {
    #[inline(always)]
    fn slot_in(self, inner: Node<'_, W>) -> usize {
        inner.pairs_below(self)
    }
}

/// A leaf that was reached, and the range it is responsible for: above `lower`, up to and including `upper`. By the time the
/// leaf is read the range may be wider, never narrower.
pub(super) struct Landing<'g, const W: usize> {
    pub(super) leaf: Node<'g, W>,
    pub(super) version: Version,
    pub(super) lower: Option<Pair<W>>,
    pub(super) upper: Option<Pair<W>>,
}

impl<const W: usize> SharedCsbTree<W> {
    /// The node above the root.
    #[inline(always)]
    pub(super) fn top<'g>(&self, _: &'g Guard) -> Node<'g, W> {
        // SAFETY: written when the tree was made; it lives as long as the arena, which outlives guards used with the tree:
        // nodes are used within methods of the tree only.
        unsafe { Node::at(self.top) }
    }

    /// The root, and the version of the top that led to it. The top has no separators, so nothing is searched.
    #[inline(always)]
    pub(super) fn root<'g>(&self, may_wait: bool, guard: &'g Guard) -> Result<(Node<'g, W>, Version), Stop> {
        let top = self.top(guard);
        let version = top.stable(may_wait)?;
        let root = top.children();
        top.validate(version)?;
        // SAFETY: as in `step`.
        Ok((unsafe { Node::at(root) }, version))
    }

    /// One level down: the child of an inner node that is responsible for what is sought, already asked for, and its slot.
    #[inline(always)]
    pub(super) fn step<'g>(
        inner: Node<'g, W>,
        version: Version,
        sought: impl Sought<W>,
    ) -> Result<(Node<'g, W>, usize), Stop> {
        let slot = sought.slot_in(inner);
        let child = Node::<W>::address_in(inner.children(), slot);
        Node::<W>::prefetch(child);
        inner.validate(version)?;
        // SAFETY: pointer and slot are of one version of a node that was not obsolete then, so the child was part of the tree
        // after this thread was pinned, and the epoch keeps its memory until the guard is dropped.
        Ok((unsafe { Node::at(child) }, slot))
    }

    /// The leaf responsible for what is sought.
    #[inline(always)]
    pub(super) fn leaf_of<'g>(
        &self,
        sought: impl Sought<W>,
        guard: &'g Guard,
    ) -> Result<(Node<'g, W>, Version), Stop> {
        let (mut node, _) = self.root(true, guard)?;
        ctx!();
        let mut version = node.stable(true)?;
        let mut level = 0;
        while !version.is_leaf() {
            (node, _) = Self::step(node, version, sought)?;
            level += 1;
            if level >= CTX_FROM_LEVEL {
                ctx!(prefetch = node.address());
            }
            version = node.stable(true)?;
        }
        Ok((node, version))
    }

    /// The leaf responsible for a pair, with its range. Who holds locks may not wait for others on the way.
    pub(super) fn landing<'g>(
        &self,
        pair: &Pair<W>,
        may_wait: bool,
        guard: &'g Guard,
    ) -> Result<Landing<'g, W>, Stop> {
        let (mut lower, mut upper) = (None, None);
        let (mut leaf, _) = self.root(may_wait, guard)?;
        let mut version = leaf.stable(may_wait)?;
        while !version.is_leaf() {
            let (inner, inner_version) = (leaf, version);
            let slot;
            (leaf, slot) = Self::step(inner, version, pair)?;
            if slot > 0 {
                lower = Some(inner.pair(slot - 1));
            }
            if slot < version.count() {
                upper = Some(inner.pair(slot));
            }
            inner.validate(inner_version)?;
            if may_wait {
                ctx!(prefetch = leaf.address());
            }
            version = leaf.stable(may_wait)?;
        }
        Ok(Landing {
            leaf,
            version,
            lower,
            upper,
        })
    }

    /// The first entry that is not below this pair.
    #[cold]
    pub(super) fn first_from(&self, mut pair: Pair<W>, guard: &Guard) -> Result<Option<Pair<W>>, Stop> {
        loop {
            let Landing {
                leaf, version, upper, ..
            } = self.landing(&pair, true, guard)?;
            let slot = leaf.pairs_below(&pair);
            let found = (slot < version.count()).then(|| leaf.pair(slot));
            leaf.validate(version)?;
            if found.is_some() {
                return Ok(found);
            }
            match upper.and_then(successor) {
                Some(next) => pair = next,
                None => return Ok(None),
            }
        }
    }

    /// Inner levels, read on the way to the first leaf.
    pub(super) fn try_height(&self, guard: &Guard) -> Result<usize, Stop> {
        let (mut node, _) = self.root(true, guard)?;
        let mut version = node.stable(true)?;
        let mut levels = 0;
        while !version.is_leaf() {
            (node, _) = Self::step(node, version, First(&[0; W]))?;
            version = node.stable(true)?;
            levels += 1;
        }
        Ok(levels)
    }
}

/// The next larger pair, if there is one.
pub(super) fn successor<const W: usize>((mut key, rid): Pair<W>) -> Option<Pair<W>> {
    if rid < u32::MAX {
        return Some((key, rid + 1));
    }
    for word in key.iter_mut().rev() {
        *word = word.wrapping_add(1);
        if *word != 0 {
            return Some((key, 0));
        }
    }
    None
}
