//! Asserts that a tree nobody changes is whole. Tests call it.

use crossbeam_epoch::Guard;

use super::node::{Node, Shape, largest};
use super::{Pair, SharedCsbTree};

/// What was found under a node.
#[derive(Default)]
struct Found {
    entries: usize,
    nodes: usize,
    /// Levels under it; all its children agree.
    levels: usize,
}

impl<const W: usize> SharedCsbTree<W> {
    /// Asserts every invariant of the structure. For tests, while no other thread uses the tree.
    ///
    /// # Panics
    /// When one does not hold.
    #[doc(hidden)]
    pub fn check(&self) {
        let guard = &crate::teams::pin();
        let top = self.top(guard);
        let version = top.stable(false).expect("the top is not locked");
        assert!(
            !version.is_leaf() && version.count() == 0,
            "the top has one child"
        );
        let found = self.check_node(child(top, 0, guard), None, None, true, guard);
        assert_eq!(found.entries, self.len(), "entries counted");
        assert_eq!(found.levels, self.height(), "levels");
        // The top is one more.
        assert!(
            (found.nodes + 1) * Shape::<W>::BYTES <= self.bytes(),
            "nodes are in the arena"
        );
    }

    /// A node responsible for what is above `lower` up to and including `upper`.
    fn check_node(
        &self,
        node: Node<'_, W>,
        lower: Option<Pair<W>>,
        upper: Option<Pair<W>>,
        root: bool,
        guard: &Guard,
    ) -> Found {
        let version = node
            .stable(false)
            .expect("a node of the tree is neither locked nor obsolete");
        let count = version.count();
        let pairs: Vec<Pair<W>> = node.pairs(0..count).collect();
        assert!(
            pairs.is_sorted_by(|one, two| one < two),
            "pairs ascend: {pairs:?}"
        );
        assert!(
            pairs.iter().all(
                |&pair| lower.is_none_or(|lower| pair > lower) && upper.is_none_or(|upper| pair <= upper)
            ),
            "pairs {pairs:?} are above {lower:?} and up to {upper:?}"
        );
        assert!(
            node.pairs(count..Shape::<W>::CAPACITY)
                .all(|pair| pair == largest()),
            "unused slots hold the largest pair"
        );
        if version.is_leaf() {
            assert!(count > 0 || root, "an empty leaf was left in the tree");
            return Found {
                entries: count,
                nodes: 1,
                levels: 0,
            };
        }
        let mut all = Found {
            nodes: 1,
            ..Found::default()
        };
        for slot in 0..=count {
            let lower = slot.checked_sub(1).map(|before| pairs[before]).or(lower);
            let upper = pairs.get(slot).copied().or(upper);
            let found = self.check_node(child(node, slot, guard), lower, upper, false, guard);
            assert!(
                slot == 0 || all.levels == found.levels + 1,
                "leaves are at one level"
            );
            all.levels = found.levels + 1;
            all.entries += found.entries;
            all.nodes += found.nodes;
        }
        assert!(!root || count > 0, "a root with one child is no root");
        all
    }
}

fn child<'g, const W: usize>(inner: Node<'g, W>, slot: usize, _: &'g Guard) -> Node<'g, W> {
    // SAFETY: slots up to the count of an inner node nobody changes have children.
    unsafe { Node::at(Node::<W>::address_in(inner.children(), slot)) }
}
