//! [`Node`]: whole cache lines that are an inner node or a leaf; and what fits in them.
//!
//! ```text
//! byte 0      4        8                                            64 * LINES
//!      ┌──────┬────────┬───────────────────────────────────────────────┐
//! inner│ first│ header │ key 0 │ key 1 │ ...              │ key I-1    │  I = INNER_KEYS; I + 1 children
//!      ├──────┼────────┼───────────────────────────┬───────────────────┤
//! leaf │ next │ header │ key 0 │ ... │ key L-1     │ rid 0 ... rid L-1 │  L = LEAF_ENTRIES, then unused bytes
//!      └──────┴────────┴───────────────────────────┴───────────────────┘
//!
//! header  bits 0..16 count of keys (inner) or entries (leaf), 31 leaf, 30 the next leaf goes on with this leaf's last key
//!
//! first ──► ┌─────────┬─────────┬─────────┐   the children of a node lie side by side, a *node group*:
//!           │ child 0 │ child 1 │ child 2 │   one index names them all
//!           └─────────┴─────────┴─────────┘
//!
//! key bytes  LINES   INNER_KEYS   LEAF_ENTRIES
//!     4        1         14            7
//!     4        2         30           15          (the paper's 128-byte node: 30 and 14, section 5.1)
//!     8        1          7            4
//!     8        2         15           10
//! ```
//!
//! Key slots that are not taken hold the largest order, so a search needs no count. Key `i` of an inner node is the
//! last key under child `i`.

use std::marker::PhantomData;

use super::key::Order;
use crate::huge::Plain;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// Most lines a node can have: a search keeps one bit for each 4-byte lane in 64.
pub(crate) const LINES_MAX: usize = 4;

/// Bytes before the first key.
const HEADER_BYTES: usize = 8;

/// Header bit of a leaf.
const LEAF: u32 = 1 << 31;
/// Header bit of a leaf whose last key is the next leaf's first key too.
const CONTINUES: u32 = 1 << 30;
/// Header bits of the count.
const COUNT: u32 = 0xffff;

/// A node of `LINES` cache lines whose keys are orders `O`.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Node<O, const LINES: usize> {
    words: [[u32; 16]; LINES],
    orders: PhantomData<O>,
}

impl<O: Copy, const LINES: usize> Clone for Node<O, LINES> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O: Copy, const LINES: usize> Copy for Node<O, LINES> {}

// SAFETY: words, for which zero is a value; no padding, which `BYTES` asserts; no destructor.
unsafe impl<O: Order, const LINES: usize> Plain for Node<O, LINES> {}

impl<O: Order, const LINES: usize> Node<O, LINES> {
    /// Bytes of a node, all of them lines.
    pub(super) const BYTES: usize = {
        assert!(LINES >= 1 && LINES <= LINES_MAX, "a node has 1 to 4 lines");
        assert!(size_of::<Self>() == LINES * 64 && align_of::<Self>() == 64);
        assert!(HEADER_BYTES.is_multiple_of(align_of::<O>()));
        LINES * 64
    };
    /// Keys of an inner node.
    pub(super) const INNER_KEYS: usize = (Self::BYTES - HEADER_BYTES) / O::BYTES;
    /// Children of an inner node.
    pub(super) const CHILDREN: usize = Self::INNER_KEYS + 1;
    /// Entries of a leaf.
    pub(super) const LEAF_ENTRIES: usize = (Self::BYTES - HEADER_BYTES) / (O::BYTES + 4);
    /// Where the RIDs of a leaf begin.
    const RIDS_AT: usize = {
        let at = HEADER_BYTES + Self::LEAF_ENTRIES * O::BYTES;
        assert!(at.is_multiple_of(4) && at + Self::LEAF_ENTRIES * 4 <= Self::BYTES);
        at
    };

    /// An inner node over the group that begins at `first`, with no separators yet: it has one child.
    pub(super) fn inner(first: u32) -> Self {
        let mut node = Self::zeros();
        node.set_link(first);
        node.set_header(0);
        node.inner_keys_mut().fill(O::MAX);
        node
    }

    /// An empty leaf.
    pub(super) fn leaf(next: u32) -> Self {
        let mut node = Self::zeros();
        node.set_link(next);
        node.set_header(LEAF);
        node.leaf_keys_mut().fill(O::MAX);
        node
    }

    /// A node of zeros.
    fn zeros() -> Self {
        Node {
            words: [[0; 16]; LINES],
            orders: PhantomData,
        }
    }

    /// Its bytes.
    #[inline(always)]
    pub(super) fn as_bytes(&self) -> &[u8] {
        // SAFETY: the node is `BYTES` initialised bytes.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), Self::BYTES) }
    }

    /// The first child of an inner node, the next leaf of a leaf.
    #[inline(always)]
    pub(super) fn link(&self) -> u32 {
        self.words[0][0]
    }

    #[inline(always)]
    pub(super) fn set_link(&mut self, link: u32) {
        self.words[0][0] = link;
    }

    #[inline(always)]
    pub(super) fn header(&self) -> u32 {
        self.words[0][1]
    }

    #[inline(always)]
    pub(super) fn set_header(&mut self, header: u32) {
        self.words[0][1] = header;
    }

    /// Keys of an inner node, entries of a leaf.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        (self.header() & COUNT) as usize
    }

    /// Changes the count and keeps the kind.
    pub(super) fn set_count(&mut self, count: usize) {
        debug_assert!(count <= Self::INNER_KEYS);
        self.set_header(self.header() & !COUNT | count as u32);
    }

    #[inline(always)]
    pub(super) fn is_leaf(&self) -> bool {
        self.header() & LEAF != 0
    }

    #[inline(always)]
    pub(super) fn is_inner(&self) -> bool {
        self.header() <= COUNT
    }

    /// Does the next leaf begin with this leaf's last key?
    #[inline(always)]
    pub(super) fn continues(&self) -> bool {
        self.header() & CONTINUES != 0
    }

    pub(super) fn set_continues(&mut self, continues: bool) {
        self.set_header(if continues {
            self.header() | CONTINUES
        } else {
            self.header() & !CONTINUES
        });
    }

    /// The keys of an inner node, unused slots included.
    #[inline(always)]
    pub(super) fn inner_keys(&self) -> &[O] {
        // SAFETY: `INNER_KEYS` orders lie inside the node behind the header, aligned, and any bits are an order.
        unsafe {
            let first = std::ptr::from_ref(self).byte_add(HEADER_BYTES).cast();
            std::slice::from_raw_parts(first, Self::INNER_KEYS)
        }
    }

    /// As [`Self::inner_keys`], to be changed.
    #[inline(always)]
    pub(super) fn inner_keys_mut(&mut self) -> &mut [O] {
        // SAFETY: as above; `&mut self` makes the access unique.
        unsafe {
            let first = std::ptr::from_mut(self).byte_add(HEADER_BYTES).cast();
            std::slice::from_raw_parts_mut(first, Self::INNER_KEYS)
        }
    }

    /// The keys of a leaf, unused slots included.
    #[inline(always)]
    pub(super) fn leaf_keys(&self) -> &[O] {
        &self.inner_keys()[..Self::LEAF_ENTRIES]
    }

    /// As [`Self::leaf_keys`], to be changed.
    #[inline(always)]
    pub(super) fn leaf_keys_mut(&mut self) -> &mut [O] {
        &mut self.inner_keys_mut()[..Self::LEAF_ENTRIES]
    }

    /// The RIDs of a leaf, unused slots included.
    #[inline(always)]
    pub(super) fn rids(&self) -> &[u32] {
        // SAFETY: `LEAF_ENTRIES` RIDs lie inside the node behind the keys, aligned, and any bits are a RID.
        unsafe {
            let first = std::ptr::from_ref(self).byte_add(Self::RIDS_AT).cast();
            std::slice::from_raw_parts(first, Self::LEAF_ENTRIES)
        }
    }

    /// As [`Self::rids`], to be changed.
    #[inline(always)]
    pub(super) fn rids_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above; `&mut self` makes the access unique.
        unsafe {
            let first = std::ptr::from_mut(self).byte_add(Self::RIDS_AT).cast();
            std::slice::from_raw_parts_mut(first, Self::LEAF_ENTRIES)
        }
    }
}
