//! A tree as bytes and back.
//!
//! ```text
//! 0        8         10    11      12       16      20       24        32
//! ┌────────┬─────────┬─────┬───────┬────────┬───────┬────────┬─────────┬──────┬──────┬───
//! │ magic  │ version │ key │ LINES │ height │ nodes │ unused │ entries │ root │ node │ ...    little-endian
//! └────────┴─────────┴─────┴───────┴────────┴───────┴────────┴─────────┴──────┴──────┴───
//! ```
//!
//! Nodes are written level by level from the root, each as it lies in memory, without gaps. So the place of every node
//! follows from the counts before it, and a reader only accepts the one child index, and the one link of a leaf, that name
//! it: no cycle, no node reached twice and none left out can get through. What it is not: it has no checksum; an entry
//! that was changed to another one in its place in the order is read as that.

use super::arena::Arena;
use super::key::{Key, Order};
use super::node::{CONTINUES, COUNT, HEADER_BYTES, LEAF, NONE, Node};
use super::{CsbError, CsbTree, HEIGHT_MAX, Isa};
use crate::huge::OutOfMemory;

const MAGIC: &[u8; 8] = b"corunCSB";
const VERSION: u16 = 1;
/// Bytes before the first node.
const START: usize = 32;

/// The keys of the first and the last entry under a node.
type Span<O> = (O, O);

impl<K: Key, const LINES: usize> CsbTree<K, LINES> {
    /// The tree as bytes, to be stored or sent.
    ///
    /// # Errors
    /// [`CsbError::OutOfMemory`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, CsbError> {
        let mut level = room(1)?;
        level.push(self.root);
        let mut bytes = room(START)?;
        bytes.resize(START, 0);
        let mut nodes = 0_u32;
        for depth in 0..=self.height {
            // The number the next level begins with, then the next child's.
            let mut number = nodes + level.len() as u32;
            nodes = number;
            let children = level.iter().map(|&at| self.arena.node(at).count() + 1);
            let mut below = room(if depth < self.height { children.sum() } else { 0 })?;
            let length = level.len() * Node::<K::Order, LINES>::BYTES;
            bytes
                .try_reserve(length)
                .map_err(|_| OutOfMemory { bytes: length })?;
            for (index, &at) in level.iter().enumerate() {
                let mut node = *self.arena.node(at);
                if depth < self.height {
                    let first = node.link();
                    let children = node.count() as u32 + 1;
                    below.extend(first..first + children);
                    node.set_link(number);
                    number += children;
                } else {
                    let last = index + 1 == level.len();
                    node.set_link(if last {
                        NONE
                    } else {
                        nodes - level.len() as u32 + index as u32 + 1
                    });
                }
                write_node(&node, &mut bytes);
            }
            level = below;
        }
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10] = K::CODE;
        bytes[11] = LINES as u8;
        bytes[12..16].copy_from_slice(&(self.height as u32).to_le_bytes());
        bytes[16..20].copy_from_slice(&nodes.to_le_bytes());
        bytes[24..32].copy_from_slice(&(self.length as u64).to_le_bytes());
        Ok(bytes)
    }

    /// Reads what [`CsbTree::to_bytes`] wrote, into aligned memory; the bytes themselves may begin anywhere. It takes about
    /// as much memory as there are bytes, and at most twice as much again for a moment.
    ///
    /// # Errors
    /// [`CsbError::Corrupt`] for anything that is not a whole, sound tree of this key type and node size, and
    /// [`CsbError::OutOfMemory`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CsbError> {
        let size = Node::<K::Order, LINES>::BYTES;
        check(bytes.len() >= START, "shorter than its head", bytes.len())?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        check(bytes[..8] == *MAGIC, "not a tree", 0)?;
        check(bytes[8..10] == VERSION.to_le_bytes(), "another version", 8)?;
        check(bytes[10] == K::CODE, "another type of keys", 10)?;
        check(usize::from(bytes[11]) == LINES, "another node size", 11)?;
        let (height, nodes) = (word(12) as usize, word(16));
        check(height <= HEIGHT_MAX, "too many levels", 12)?;
        check(nodes >= 1 && nodes != NONE, "an impossible number of nodes", 16)?;
        check(word(20) == 0, "bits that must be 0", 20)?;
        let expected = u64::from(nodes) * size as u64 + START as u64;
        check(
            bytes.len() as u64 == expected,
            "not as long as its nodes",
            bytes.len(),
        )?;

        let mut arena = Arena::with_capacity(u64::from(nodes))?;
        for (index, node) in (0..).zip(bytes[START..].chunks_exact(size)) {
            let (read, used) = read_node(node);
            let unused_are_0 = node[used..].iter().all(|&byte| byte == 0);
            check(
                unused_are_0,
                "bytes that must be 0",
                Reader::<K, LINES>::at(index),
            )?;
            arena.push(read)?;
        }
        let mut reader = Reader::<K, LINES> {
            arena,
            spans: room(nodes as usize)?,
        };
        let inner = reader.check_inner(height)?;
        let length = reader.check_leaves(inner)?;
        check(
            u64::from(word(24)) | u64::from(word(28)) << 32 == length,
            "another number of entries",
            24,
        )?;
        reader.check_separators(inner)?;
        Ok(CsbTree {
            arena: reader.arena,
            isa: Isa::detect(),
            root: 0,
            height,
            length: length as usize,
        })
    }
}

/// Nodes that are being checked.
struct Reader<K: Key, const LINES: usize> {
    arena: Arena<K::Order, LINES>,
    /// Of the nodes already looked at, from the last one up.
    spans: Vec<Span<K::Order>>,
}

impl<K: Key, const LINES: usize> Reader<K, LINES> {
    /// Where a node was read from.
    fn at(node: u32) -> usize {
        START + node as usize * Node::<K::Order, LINES>::BYTES
    }

    /// Checks headers, children and unused slots of all inner nodes. Returns their number, which is the first
    /// leaf's.
    fn check_inner(&self, height: usize) -> Result<u32, CsbError> {
        let nodes = self.arena.length();
        // Nodes before `end` are those of the levels seen so far; each level's children follow those of the nodes before.
        let (mut at, mut end) = (0, 1);
        for _ in 0..height {
            let mut child = end;
            for index in at..end {
                let node = self.arena.node(index);
                let keys = Node::<K::Order, LINES>::INNER_KEYS;
                check(
                    node.is_inner() && node.count() <= keys,
                    "not an inner node",
                    Self::at(index),
                )?;
                check(node.link() == child, "a wrong child", Self::at(index))?;
                let unused = &node.inner_keys()[node.count()..];
                check(
                    unused.iter().all(|&key| key == K::Order::MAX),
                    "an unused key slot",
                    Self::at(index),
                )?;
                let children = node.count() as u32 + 1;
                check(
                    children <= nodes - child,
                    "more children than nodes",
                    Self::at(index),
                )?;
                child += children;
            }
            (at, end) = (end, child);
        }
        check(end == nodes, "nodes that nothing leads to", 16)?;
        Ok(at)
    }

    /// Checks the leaves and notes their spans, the last leaf first. Returns the number of entries.
    fn check_leaves(&mut self, first: u32) -> Result<u64, CsbError> {
        let nodes = self.arena.length();
        let mut entries = 0;
        for index in (first..nodes).rev() {
            let at = Self::at(index);
            let leaf = self.arena.node(index);
            let count = leaf.count();
            let known = LEAF | CONTINUES | COUNT;
            check(leaf.is_leaf() && leaf.header() & !known == 0, "not a leaf", at)?;
            check(count <= Node::<K::Order, LINES>::LEAF_ENTRIES, "not a leaf", at)?;
            let last = index + 1 == nodes;
            check(
                leaf.link() == if last { NONE } else { index + 1 },
                "a wrong link",
                at,
            )?;
            let unused = leaf.leaf_keys()[count..].iter().all(|&key| key == K::Order::MAX)
                && leaf.rids()[count..].iter().all(|&rid| rid == 0);
            check(unused, "an unused entry slot", at)?;
            if count == 0 {
                // Only the leaf of an empty tree, which is its root.
                check(nodes == 1, "an empty leaf", at)?;
                return Ok(0);
            }
            let keys = &leaf.leaf_keys()[..count];
            let storable =
                |&key: &K::Order| !K::from_order(key).is_nan() && K::from_order(key).to_order() == key;
            check(keys.iter().all(storable), "a key that cannot be", at)?;
            let pairs = || keys.iter().zip(leaf.rids());
            check(pairs().is_sorted_by(|a, b| a < b), "entries out of order", at)?;
            if !last {
                let next = self.arena.node(index + 1).first_entry();
                check(leaf.last_entry() < next, "leaves out of order", at)?;
                let goes_on = leaf.last_entry().0 == next.0;
                check(!goes_on || leaf.continues(), "a leaf that hides the next", at)?;
            }
            self.spans.push((leaf.first_entry().0, leaf.last_entry().0));
            entries += count as u64;
        }
        Ok(entries)
    }

    /// Checks that separators stand between what is under their children, from the last inner node to the root.
    fn check_separators(&mut self, inner: u32) -> Result<(), CsbError> {
        let nodes = self.arena.length();
        for index in (0..inner).rev() {
            let node = self.arena.node(index);
            // Spans are noted from the last node on.
            let span = |child: u32| self.spans[(nodes - 1 - child) as usize];
            let first = node.link();
            for (slot, &separator) in node.inner_keys()[..node.count()].iter().enumerate() {
                let child = first + slot as u32;
                let between = span(child).1 <= separator && separator <= span(child + 1).0;
                check(between, "a separator out of place", Self::at(index))?;
            }
            let whole = (span(first).0, span(first + node.count() as u32).1);
            self.spans.push(whole);
        }
        Ok(())
    }
}

/// An error unless something holds.
fn check(holds: bool, what: &'static str, at_byte: usize) -> Result<(), CsbError> {
    if holds {
        Ok(())
    } else {
        Err(CsbError::Corrupt { what, at_byte })
    }
}

/// A vector with room for so many elements, or an error.
fn room<T>(length: usize) -> Result<Vec<T>, CsbError> {
    let mut vector = Vec::new();
    let bytes = length.saturating_mul(size_of::<T>());
    vector
        .try_reserve_exact(length)
        .map_err(|_| OutOfMemory { bytes })?;
    Ok(vector)
}

/// Appends a node's bytes, little-endian: its words as its kind has them.
fn write_node<O: Order, const LINES: usize>(node: &Node<O, LINES>, bytes: &mut Vec<u8>) {
    let end = bytes.len() + Node::<O, LINES>::BYTES;
    bytes.extend_from_slice(&node.link().to_le_bytes());
    bytes.extend_from_slice(&node.header().to_le_bytes());
    let leaf = node.is_leaf();
    let keys = if leaf { node.leaf_keys() } else { node.inner_keys() };
    keys.iter().for_each(|key| key.write(bytes));
    if leaf {
        node.rids()
            .iter()
            .for_each(|rid| bytes.extend_from_slice(&rid.to_le_bytes()));
    }
    bytes.resize(end, 0);
}

/// Reads what [`write_node`] wrote. Returns the number of bytes a node of its kind uses too.
fn read_node<O: Order, const LINES: usize>(bytes: &[u8]) -> (Node<O, LINES>, usize) {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let header = word(4);
    let mut node = if header & LEAF != 0 {
        Node::leaf(word(0))
    } else {
        Node::inner(word(0))
    };
    let keys = if node.is_leaf() {
        node.leaf_keys_mut()
    } else {
        node.inner_keys_mut()
    };
    let mut used = HEADER_BYTES + keys.len() * O::BYTES;
    for (key, bytes) in keys.iter_mut().zip(bytes[HEADER_BYTES..].chunks_exact(O::BYTES)) {
        *key = O::read(bytes);
    }
    if node.is_leaf() {
        for rid in node.rids_mut() {
            *rid = word(used);
            used += 4;
        }
    }
    node.set_header(header);
    (node, used)
}
