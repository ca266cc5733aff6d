//! [`SharedCsbTree::get_many`]: several keys down the tree together, so that their cache misses overlap.
//!
//! ```text
//! keys      level 0           level 1           leaf
//! a   ─► step, child asked    step, asked       entry
//! b   ─► step, child asked ─► step, asked    ─► entry     by the time a node's turn comes, its lines are there
//! c   ─► step, child asked    step, asked       entry
//! ```
//!
//! What it is not: a loop that repeats. A key that meets a change on its way goes down again by itself.

use crossbeam_epoch::Guard;

use super::descend::First;
use super::node::Node;
use super::{Key, SharedCsbTree, Stop};
use crate::teams;

/// Keys that go down together. Measured in batches of 64 of the store beyond the caches (EPYC VM, 1 M rows of 1 KiB), ns a row with 16 and
/// 32: 148 and 136 in a snapshot, 178 and 166 in a transaction.
const GROUP: usize = 32;

/// Where a key has come to.
enum Way<'g, const W: usize> {
    Down(Node<'g, W>),
    Found(Option<u32>),
}

impl<const W: usize> SharedCsbTree<W> {
    /// The smallest RID of each key, in the keys' order: what [`SharedCsbTree::get`] returns for each, but their cache misses overlap.
    /// While other threads write, each answer is of some moment of the call, not all of the same.
    ///
    /// ```
    /// use corun_exec::shared_csb::SharedCsbTree;
    ///
    /// let tree = SharedCsbTree::<1>::bulk_load(&[([10], 0), ([20], 1), ([20], 2)], 0.75)?;
    /// assert_eq!(tree.get_many([&[20], &[11], &[10]]), [Some(1), None, Some(0)]);
    /// # Ok::<(), corun_exec::shared_csb::SharedCsbError>(())
    /// ```
    pub fn get_many<'k>(&self, keys: impl IntoIterator<Item = &'k Key<W>>) -> Vec<Option<u32>> {
        let keys: Vec<&Key<W>> = keys.into_iter().collect();
        let mut rids = vec![None; keys.len()];
        teams::pinned(|guard| {
            for (keys, rids) in keys.chunks(GROUP).zip(rids.chunks_mut(GROUP)) {
                self.get_group(keys, rids, guard);
            }
        });
        rids
    }

    fn get_group(&self, keys: &[&Key<W>], rids: &mut [Option<u32>], guard: &Guard) {
        // A bit for each key that is still on its way, and for each that must begin again.
        let all = u32::MAX >> (u32::BITS - keys.len() as u32);
        let (mut going, mut again) = (0, all);
        let mut nodes = [self.top(guard); GROUP];
        if let Ok((root, _)) = self.root(true, guard) {
            nodes = [root; GROUP];
            (going, again) = (all, 0);
        }
        while going != 0 {
            for at in bits(going) {
                match Self::one_level(nodes[at], keys[at]) {
                    Ok(Way::Down(child)) => {
                        nodes[at] = child;
                        continue;
                    }
                    Ok(Way::Found(rid)) => rids[at] = rid,
                    Err(_) => again |= 1 << at,
                }
                going &= !(1 << at);
            }
        }
        for at in bits(again) {
            rids[at] = self.get(keys[at]);
        }
    }

    /// # Errors
    /// [`Stop::Changed`] also where the answer lies in a later leaf.
    #[inline(always)]
    fn one_level<'g>(node: Node<'g, W>, key: &Key<W>) -> Result<Way<'g, W>, Stop> {
        let version = node.stable(true)?;
        if version.is_leaf() {
            let found = Self::get_in_leaf(node, version, key)?;
            return found.map(Way::Found).ok_or(Stop::Changed);
        }
        Self::step(node, version, First(key)).map(|(child, _)| Way::Down(child))
    }
}

/// The numbers of the bits that are set.
fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (bit < u32::BITS).then_some(bit as usize)
    })
}
