//! Bulk loading: from sorted columns to a tree without gaps between its nodes.
//!
//! Levels are written from the root to the leaves, one behind the other, so a node group follows the one of its left
//! neighbour and the leaves are one array. Entries are dealt evenly over leaves, and children over nodes, so the position
//! of any separator's entry is arithmetic and nothing is kept but the sizes of the levels. What it is not: it does not sort.

use super::key::Key;
use super::node::{NONE, Node};
use super::search::Isa;
use super::{CsbError, CsbTree};
use crate::huge::HugeBuf;

/// `items` dealt evenly, in order, to `groups`, none of them empty.
#[derive(Clone, Copy)]
struct Dealt {
    items: usize,
    groups: usize,
}

impl Dealt {
    /// The first item of a group, or the number of items for the group behind the last.
    fn start(self, group: usize) -> usize {
        group * (self.items / self.groups) + group.min(self.items % self.groups)
    }
}

impl<K: Key, const LINES: usize> CsbTree<K, LINES> {
    /// A tree of these entries. `keys[i]` goes to `rids[i]`; entries ascend by key and, where keys are equal, by RID. Nodes
    /// are filled to `fill` (above 0, at most 1) of their room, rounded down: 1 makes the smallest tree, less is how full
    /// trees are that grew by inserts. Leaves get at least one entry and inner nodes at least two children.
    ///
    /// # Errors
    /// [`CsbError::Fill`], [`CsbError::Lengths`], [`CsbError::NotANumber`] and [`CsbError::Unsorted`] for bad input,
    /// [`CsbError::OutOfMemory`] and [`CsbError::TooManyNodes`] when there is no room.
    pub fn bulk_load(keys: &[K], rids: &[u32], fill: f64) -> Result<Self, CsbError> {
        if !(fill > 0.0 && fill <= 1.0) {
            return Err(CsbError::Fill { fill });
        }
        if keys.len() != rids.len() {
            return Err(CsbError::Lengths {
                keys: keys.len(),
                rids: rids.len(),
            });
        }
        check_sorted(keys, rids)?;
        let room = |slots: usize, least: usize| ((slots as f64 * fill) as usize).max(least);
        let leaf_entries = room(Node::<K::Order, LINES>::LEAF_ENTRIES, 1);
        let children = room(Node::<K::Order, LINES>::CHILDREN, 2);
        // From the leaves up: what is dealt to the nodes of each level. The last one is the root.
        let mut levels = vec![Dealt {
            items: keys.len(),
            // Without entries the root is an empty leaf.
            groups: keys.len().div_ceil(leaf_entries).max(1),
        }];
        while let Some(&Dealt { groups, .. }) = levels.last().filter(|level| level.groups > 1) {
            levels.push(Dealt {
                items: groups,
                groups: groups.div_ceil(children),
            });
        }
        let height = levels.len() - 1;
        let length = levels.iter().map(|level| level.groups).sum();
        if length >= NONE as usize {
            return Err(CsbError::TooManyNodes);
        }

        let mut nodes = HugeBuf::<Node<K::Order, LINES>>::zeroed(length)?;
        let mut places = nodes.iter_mut();
        let mut place = |node| *places.next().expect("as many places as nodes") = node;
        let mut level_end = 0;
        for level in (1..=height).rev() {
            level_end += levels[level].groups;
            for node in 0..levels[level].groups {
                let (first, end) = (levels[level].start(node), levels[level].start(node + 1));
                let mut inner = Node::inner((level_end + first) as u32);
                for (slot, child) in (first + 1..end).enumerate() {
                    // The last entry under the child before: down through the levels to where `child`'s entries begin.
                    let entry = levels[..level]
                        .iter()
                        .rev()
                        .fold(child, |at, below| below.start(at));
                    inner.inner_keys_mut()[slot] = keys[entry - 1].to_order();
                }
                inner.set_count(end - first - 1);
                place(inner);
            }
        }
        let leaves = levels[0];
        for leaf in 0..leaves.groups {
            let (first, end) = (leaves.start(leaf), leaves.start(leaf + 1));
            let last = leaf + 1 == leaves.groups;
            let mut node = Node::leaf(if last { NONE } else { (level_end + leaf + 1) as u32 });
            for (slot, entry) in (first..end).enumerate() {
                node.leaf_keys_mut()[slot] = keys[entry].to_order();
                node.rids_mut()[slot] = rids[entry];
            }
            node.set_count(end - first);
            node.set_continues(!last && keys[end].to_order() == keys[end - 1].to_order());
            place(node);
        }
        Ok(CsbTree {
            nodes,
            isa: Isa::detect(),
            height,
            length: keys.len(),
        })
    }
}

/// Entries must ascend and be numbers.
fn check_sorted<K: Key>(keys: &[K], rids: &[u32]) -> Result<(), CsbError> {
    let mut before = None;
    for (position, (&key, &rid)) in keys.iter().zip(rids).enumerate() {
        if key.is_nan() {
            return Err(CsbError::NotANumber { position });
        }
        let pair = (key.to_order(), rid);
        if before.is_some_and(|before| before >= pair) {
            return Err(CsbError::Unsorted { position });
        }
        before = Some(pair);
    }
    Ok(())
}
