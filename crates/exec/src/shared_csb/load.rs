//! Bulk loading: from sorted entries to a tree of evenly filled nodes, level by level from the leaves up.
//!
//! What it is not: it does not sort, and uses one thread.

use super::node::Shape;
use super::split::Group;
use super::{Key, Pair, SharedCsbError, SharedCsbTree};

/// A group that was written: its address, the last pair under each of its nodes, and how many nodes there are.
struct Written<const W: usize> {
    children: *mut u8,
    last: Vec<Pair<W>>,
}

/// `items` dealt evenly, in order, to as few parts as hold `most` each: where each part begins and ends.
fn deal(items: usize, most: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let parts = items.div_ceil(most);
    let start = move |part: usize| part * (items / parts) + part.min(items % parts);
    (0..parts).map(move |part| start(part)..start(part + 1))
}

impl<const W: usize> SharedCsbTree<W> {
    /// A tree of entries that ascend by key and, where keys are equal, by RID. Nodes are filled to `fill` (above 0, at most 1) of
    /// their room, rounded down: the rest is for later inserts. Leaves get at least one entry and inner nodes two children.
    ///
    /// # Errors
    /// [`SharedCsbError::Fill`], [`SharedCsbError::Unsorted`] with the first entry that is not above the one before it, and
    /// [`SharedCsbError::OutOfMemory`].
    pub fn bulk_load(entries: &[(Key<W>, u32)], fill: f64) -> Result<Self, SharedCsbError> {
        if !(fill > 0.0 && fill <= 1.0) {
            return Err(SharedCsbError::Fill { fill });
        }
        if let Some(before) = entries.windows(2).position(|two| two[0] >= two[1]) {
            return Err(SharedCsbError::Unsorted { position: before + 1 });
        }
        let tree = Self::try_new()?;
        if entries.is_empty() {
            return Ok(tree);
        }
        let room = |slots: usize, least: usize| ((slots as f64 * fill) as usize).max(least);
        let leaf_entries = room(Shape::<W>::CAPACITY, 1);
        let children = room(Shape::<W>::CHILDREN, 2);

        let leaves: Vec<_> = deal(entries.len(), leaf_entries).collect();
        let mut groups = Vec::with_capacity(leaves.len().div_ceil(children));
        for part in deal(leaves.len(), children) {
            let group = Group::<W>::new(&tree.arena, part.len())?;
            let leaves = &leaves[part];
            for (index, range) in leaves.iter().enumerate() {
                group
                    .node(index)
                    .write(None, entries[range.clone()].iter().copied());
            }
            groups.push(Written {
                last: leaves.iter().map(|range| entries[range.end - 1]).collect(),
                children: group.into_children(),
            });
        }
        while groups.len() > 1 {
            let mut above = Vec::with_capacity(groups.len().div_ceil(children));
            for part in deal(groups.len(), children) {
                let group = Group::<W>::new(&tree.arena, part.len())?;
                let groups = &groups[part];
                for (index, below) in groups.iter().enumerate() {
                    let separators = &below.last[..below.last.len() - 1];
                    group
                        .node(index)
                        .write(Some(below.children), separators.iter().copied());
                }
                above.push(Written {
                    last: groups
                        .iter()
                        .filter_map(|below| below.last.last().copied())
                        .collect(),
                    children: group.into_children(),
                });
            }
            groups = above;
        }
        tree.put_root(&groups[0])?;
        tree.length.add(i64::try_from(entries.len()).unwrap_or(i64::MAX));
        Ok(tree)
    }

    /// Puts the topmost group under the top of a tree that nobody else knows: as it is if it is a single node, else under a root.
    fn put_root(&self, group: &Written<W>) -> Result<(), SharedCsbError> {
        let guard = &crate::teams::pin();
        let top = self.top(guard);
        let empty_root = top.children();
        let separators = &group.last[..group.last.len() - 1];
        let mut root = group.children;
        if !separators.is_empty() {
            let above = Group::<W>::new(&self.arena, 1)?;
            above.node(0).write(Some(root), separators.iter().copied());
            root = above.into_children();
        }
        top.write(Some(root), std::iter::empty());
        // SAFETY: the leaf the tree began with; nothing points to it any more and nobody else knew it.
        unsafe { self.arena.give_back(empty_root, 1) };
        Ok(())
    }
}
