//! [`CsbTree`]: a cache-sensitive B+-tree from keys to row numbers (RIDs), loaded once and then only read.
//!
//! Order of calls: [`CsbTree::bulk_load`] sorted columns; ask with [`CsbTree::get`], [`CsbTree::lower_bound`] and
//! [`CsbTree::range`]. An operator that keeps several lookups in flight goes by itself: [`CsbTree::root`], [`CsbTree::height`]
//! times [`CsbTree::child`], then [`CsbTree::leaf_entries_from`], and may ask for [`CsbTree::node_address`] ahead of each step.
//!
//! Nodes are whole cache lines, and the children of a node lie side by side, so that a node holds one child index and
//! otherwise keys: twice the fan-out of a B+-tree of the same lines (Rao and Ross, SIGMOD 2000; Cieslewicz, Ross et al.,
//! section 5.1). The file `node.rs` draws them.
//!
//! What it is not: a tree to change, which [`SharedCsbTree`](crate::shared_csb::SharedCsbTree) is; and it batches nothing by
//! itself and knows no NULL: rows without a key are not put in.
//!
//! ```
//! use corun_exec::csb::CsbTree;
//!
//! let tree: CsbTree<u32> = CsbTree::bulk_load(&[10, 20, 20, 30], &[0, 1, 2, 3], 1.0)?;
//! assert_eq!(tree.get(20), Some(1));
//! assert_eq!(tree.lower_bound(21), Some((30, 3)));
//! assert_eq!(tree.range(20..30).map(|(_, rid)| rid).collect::<Vec<_>>(), [1, 2]);
//!
//! let mut node = tree.root();
//! for _ in 0..tree.height() {
//!     node = tree.child(node, 20);
//! }
//! assert_eq!(tree.leaf_entries_from(node, 20).collect::<Vec<_>>(), [1, 2]);
//! # Ok::<(), corun_exec::csb::CsbError>(())
//! ```

mod iter;
mod key;
mod load;
mod node;
mod search;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::huge::{HugeBuf, OutOfMemory};
use key::Order;
use node::Node;
use search::{Isa, Search, Task};

pub use iter::{Entries, Range};
pub use key::Key;

/// Why a tree could not be made.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CsbError {
    /// The allocator refused.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// More nodes than 32-bit indices can name.
    #[error("the tree would have more than 2^32 nodes; load fewer entries, or fill nodes further")]
    TooManyNodes,
    /// The fill factor is not above 0 and at most 1.
    #[error("the fill factor {fill} is not above 0 and at most 1")]
    Fill {
        /// What was given.
        fill: f64,
    },
    /// Not as many RIDs as keys.
    #[error("{keys} keys, but {rids} RIDs")]
    Lengths {
        /// Keys given.
        keys: usize,
        /// RIDs given.
        rids: usize,
    },
    /// An entry is not above the one before it, by key and then by RID.
    #[error("entry {position} is not above the entry before it")]
    Unsorted {
        /// Index of the entry.
        position: usize,
    },
    /// A key is not a number, so it has no place in the order.
    #[error("the key of entry {position} is not a number")]
    NotANumber {
        /// Index of the entry.
        position: usize,
    },
}

/// Index of the root.
const ROOT: u32 = 0;

/// Names a node of a tree. The default names node 0, which is the root.
///
/// Only ids that the same tree gave out mean something. Others name some other node, or none: then
/// [`CsbTree::child`], [`CsbTree::leaf_entries_from`] and [`CsbTree::node_bytes`] panic or answer for that other node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeId(u32);

/// An ordered multimap from keys to RIDs; the pairs are unique and sorted by key, then by RID.
///
/// A node takes `LINES` cache lines (1 to 4), each aligned; whole nodes are aligned from 4 MiB of them on. Two are the
/// default for every key. Measured (Sapphire Rapids, 16 M random keys, 75 % full), CPU ns a random [`CsbTree::get`] with
/// one line against two: 4-byte keys 87 and 78, 8-byte keys 160 and 118; three and four lines were slower than two.
pub struct CsbTree<K: Key, const LINES: usize = 2> {
    /// Level by level from the root, which is the first.
    nodes: HugeBuf<Node<K::Order, LINES>>,
    isa: Isa,
    /// Inner levels above the leaves.
    height: usize,
    /// Entries.
    length: usize,
}

impl<K: Key, const LINES: usize> CsbTree<K, LINES> {
    /// Entries.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Has it no entries?
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes taken from the allocator.
    pub fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    /// Where its nodes are. For access traces.
    pub fn memory(&self) -> std::ops::Range<usize> {
        crate::huge::addresses(&self.nodes)
    }

    /// The smallest RID of a key.
    #[inline]
    pub fn get(&self, key: K) -> Option<u32> {
        let order = key.to_order();
        let (found, rid) = self.first_from(order)?;
        (found == order).then_some(rid)
    }

    /// The first entry whose key is not below `key`.
    #[inline]
    pub fn lower_bound(&self, key: K) -> Option<(K, u32)> {
        let (found, rid) = self.first_from(key.to_order())?;
        Some((K::from_order(found), rid))
    }

    /// The first entry whose order is not below `key`.
    #[inline]
    fn first_from(&self, key: K::Order) -> Option<(K::Order, u32)> {
        let (leaf, slot) = self.position_of(key);
        let leaf = self.node(leaf);
        // A search ends behind a leaf's entries only in the last leaf: separators are the last keys of leaves.
        (slot < leaf.count()).then(|| (leaf.leaf_keys()[slot], leaf.rids()[slot]))
    }

    /// The leaf where a search for `key` ends and the first slot there whose key is not below it, or the leaf's count.
    #[inline]
    fn position_of(&self, key: K::Order) -> (u32, usize) {
        // SAFETY: `isa` was detected.
        unsafe { self.isa.run(Descend { tree: self, key }) }
    }

    /// The node where every search begins.
    #[inline]
    pub fn root(&self) -> NodeId {
        NodeId(ROOT)
    }

    /// Inner levels above the leaves; 0 when the root is a leaf.
    #[inline]
    pub fn height(&self) -> usize {
        self.height
    }

    /// Where a node begins in memory, to be prefetched. An id that names no node gives some address; nothing is read.
    #[inline(always)]
    pub fn node_address(&self, node: NodeId) -> *const u8 {
        self.nodes.as_ptr().wrapping_add(node.0 as usize).cast()
    }

    /// The memory of a node, `LINES * 64` bytes.
    ///
    /// # Panics
    /// If the id names no node.
    #[inline]
    pub fn node_bytes(&self, node: NodeId) -> &[u8] {
        self.node(node.0).as_bytes()
    }

    /// The child of an inner node on the way to the first entry whose key is not below `key`.
    ///
    /// # Panics
    /// If the id does not name an inner node.
    #[inline(always)]
    pub fn child(&self, inner: NodeId, key: K) -> NodeId {
        let node = self.inner(inner.0);
        // SAFETY: `isa` was detected.
        let slot = unsafe {
            self.isa.run(LessInner {
                node,
                key: key.to_order(),
            })
        };
        NodeId(node.link() + slot as u32)
    }

    /// The RIDs of a key, ascending, starting in the leaf where the way down ended. Following leaves are only looked at
    /// when the key's entries may go on there.
    ///
    /// # Panics
    /// If the id does not name a leaf.
    #[inline(always)]
    pub fn leaf_entries_from(&self, leaf: NodeId, key: K) -> Entries<'_, K, LINES> {
        let node = self.leaf(leaf.0);
        let key = key.to_order();
        // SAFETY: `isa` was detected.
        let slot = unsafe { self.isa.run(LessLeaf { node, key }) };
        Entries::new(self, node, slot, key)
    }

    /// The RIDs of a key, ascending: the whole way down at once.
    #[inline]
    pub fn rids(&self, key: K) -> Entries<'_, K, LINES> {
        let order = key.to_order();
        let (leaf, slot) = self.position_of(order);
        Entries::new(self, self.node(leaf), slot, order)
    }

    /// A node.
    ///
    /// # Panics
    /// If there is none with this index.
    #[inline(always)]
    fn node(&self, index: u32) -> &Node<K::Order, LINES> {
        let nodes: &[Node<K::Order, LINES>] = &self.nodes;
        assert!(
            (index as usize) < nodes.len(),
            "no node {index} in a tree of {}",
            nodes.len()
        );
        &nodes[index as usize]
    }

    /// A node that must be an inner one.
    #[inline(always)]
    fn inner(&self, index: u32) -> &Node<K::Order, LINES> {
        let node = self.node(index);
        assert!(node.is_inner(), "node {index} is not an inner node");
        node
    }

    /// A node that must be a leaf.
    #[inline(always)]
    fn leaf(&self, index: u32) -> &Node<K::Order, LINES> {
        let node = self.node(index);
        assert!(node.is_leaf(), "node {index} is not a leaf");
        node
    }
}

impl<K: Key, const LINES: usize> fmt::Debug for CsbTree<K, LINES> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CsbTree")
            .field("len", &self.length)
            .field("height", &self.height)
            .field("bytes", &self.bytes())
            .finish()
    }
}

/// Counts the separators of an inner node below a key.
struct LessInner<'a, O, const LINES: usize> {
    node: &'a Node<O, LINES>,
    key: O,
}

impl<O: Order, const LINES: usize> Task for LessInner<'_, O, LINES> {
    type Output = usize;

    #[inline(always)]
    unsafe fn run<S: Search>(self) -> usize {
        let node = std::ptr::from_ref(self.node).cast();
        // SAFETY: a node is `LINES` aligned lines with that many keys behind the header; the set is the caller's promise.
        unsafe { O::less::<S, LINES>(node, Node::<O, LINES>::INNER_KEYS, self.key) }
    }
}

/// Counts the entries of a leaf whose keys are below a key.
struct LessLeaf<'a, O, const LINES: usize> {
    node: &'a Node<O, LINES>,
    key: O,
}

impl<O: Order, const LINES: usize> Task for LessLeaf<'_, O, LINES> {
    type Output = usize;

    #[inline(always)]
    unsafe fn run<S: Search>(self) -> usize {
        let node = std::ptr::from_ref(self.node).cast();
        // SAFETY: as for an inner node; a leaf has fewer keys.
        unsafe { O::less::<S, LINES>(node, Node::<O, LINES>::LEAF_ENTRIES, self.key) }
    }
}

/// The whole way down to a leaf, without leaving the instruction set at each level.
struct Descend<'a, K: Key, const LINES: usize> {
    tree: &'a CsbTree<K, LINES>,
    key: K::Order,
}

impl<K: Key, const LINES: usize> Task for Descend<'_, K, LINES> {
    type Output = (u32, usize);

    #[inline(always)]
    unsafe fn run<S: Search>(self) -> (u32, usize) {
        let Descend { tree, key } = self;
        let mut at = ROOT;
        for _ in 0..tree.height {
            let node = tree.node(at);
            // SAFETY: the caller's promise.
            at = node.link() + unsafe { LessInner { node, key }.run::<S>() } as u32;
        }
        let node = tree.node(at);
        // SAFETY: the caller's promise.
        (at, unsafe { LessLeaf { node, key }.run::<S>() })
    }
}
