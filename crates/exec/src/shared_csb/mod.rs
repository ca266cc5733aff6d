//! [`SharedCsbTree`]: a cache-sensitive B+-tree that any number of threads read and change at once.
//!
//! Order of calls: [`SharedCsbTree::new`] or [`SharedCsbTree::bulk_load`], then from any thread [`SharedCsbTree::insert`],
//! [`SharedCsbTree::insert_unique`], [`SharedCsbTree::remove`], [`SharedCsbTree::get`], [`SharedCsbTree::get_many`], and
//! [`SharedCsbTree::cursor`] for what lies between keys.
//!
//! As in [`CsbTree`](crate::csb::CsbTree) nodes are whole cache lines and the children of a node lie side by side, so that it
//! holds one pointer and otherwise keys. Readers lock nothing: they read a node and then look whether its version is still the
//! same (optimistic lock coupling: Leis, Haubenschild, Neumann, IEEE Data Engineering Bulletin 42(1), 2019; `node.rs` gives the
//! rules). Writers lock the one leaf they change. What moves nodes copies their group to a new place (`split.rs`); the old
//! place is reused when no thread can be reading it any more.
//!
//! Separators are whole pairs of key and RID, so an entry has one place, however many entries share its key.
//!
//! What it is not: no operation holds a lock when it returns, so nothing here isolates transactions; `CsbTree` is smaller and
//! faster for data that nobody changes.
//!
//! ```
//! use corun_exec::shared_csb::SharedCsbTree;
//!
//! let tree = SharedCsbTree::<1>::bulk_load(&[([10], 0), ([20], 1), ([20], 2)], 0.75)?;
//! std::thread::scope(|scope| {
//!     scope.spawn(|| tree.insert(&[15], 7));
//!     scope.spawn(|| tree.remove(&[20], 1));
//! });
//! assert_eq!(tree.get(&[15]), Some(7));
//! assert_eq!(tree.insert_unique(&[20], 9)?, Err(2));
//!
//! let mut cursor = tree.cursor();
//! cursor.seek(&[11]);
//! assert_eq!(cursor.next(), Some(([15], 7)));
//! assert_eq!(cursor.next(), Some(([20], 2)));
//! assert_eq!(cursor.next(), None);
//! # Ok::<(), corun_exec::shared_csb::SharedCsbError>(())
//! ```

mod arena;
mod check;
mod count;
mod cursor;
mod descend;
mod lanes;
mod load;
mod many;
mod node;
mod repeat;
mod split;
#[cfg(test)]
mod tests;
mod update;
mod version;

use std::fmt;
use std::sync::Arc;

use crossbeam_epoch::Guard;

use crate::huge::OutOfMemory;
use arena::Arena;
use count::Count;
use descend::First;
use node::{Node, Shape};
use version::Version;

pub use cursor::Cursor;

/// A key: words compared one after the other, word 0 first.
pub type Key<const W: usize> = [u64; W];

/// An entry, or a bound between entries: by key, then by RID.
type Pair<const W: usize> = (Key<W>, u32);

/// Why a tree could not be made or changed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SharedCsbError {
    /// The allocator refused. The tree has the same entries as before.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The fill factor is not above 0 and at most 1.
    #[error("the fill factor {fill} is not above 0 and at most 1")]
    Fill {
        /// What was given.
        fill: f64,
    },
    /// An entry is not above the one before it, by key and then by RID.
    #[error("entry {position} is not above the entry before it")]
    Unsorted {
        /// Index of the entry.
        position: usize,
    },
}

/// Why an attempt at an operation ended early.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// Another thread changed what was read, or this one made room: begin again.
    Changed,
    /// There is no room to be had.
    Memory(OutOfMemory),
}

impl From<OutOfMemory> for Stop {
    fn from(error: OutOfMemory) -> Self {
        Stop::Memory(error)
    }
}

/// An ordered set of pairs of a key (1, 2, 4 or 8 words) and a RID, shared by threads.
///
/// Nodes take 4, 5, 8 and 12 cache lines for keys of 1, 2, 4 and 8 words. Measured for one word (Sapphire Rapids, busy machine, one
/// thread, random keys, nodes filled by random inserts), CPU ns a [`SharedCsbTree::get`] and an [`SharedCsbTree::insert`] with 2, 3
/// and 4 lines: of 1 M entries get 130, 87, 80 and insert 324, 239, 217; of 10 M get 345, 296, 162-257 and insert 723, 577, 410-468.
/// Five lines hold more keys than three registers compare at once. The lines of the wider keys are unmeasured against others.
pub struct SharedCsbTree<const W: usize> {
    /// Shared with the groups that wait until no reader sees them.
    arena: Arc<Arena>,
    /// A node that never moves, without separators: its only child is the root.
    top: *mut u8,
    /// Entries.
    length: Count,
}

// SAFETY: `top` is memory of the arena, which is accessed through atomics only and lives as long as the tree.
unsafe impl<const W: usize> Send for SharedCsbTree<W> {}
// SAFETY: as above; every method takes the versions and locks of the nodes it uses.
unsafe impl<const W: usize> Sync for SharedCsbTree<W> {}

impl<const W: usize> SharedCsbTree<W> {
    /// A tree without entries. Like a standard collection it ends the process when not even a few nodes can be had.
    pub fn new() -> Self {
        Self::try_new().unwrap_or_else(|OutOfMemory { bytes }| {
            std::alloc::handle_alloc_error(
                std::alloc::Layout::from_size_align(bytes, 64).unwrap_or(std::alloc::Layout::new::<u64>()),
            )
        })
    }

    /// A tree without entries: the top and an empty leaf.
    fn try_new() -> Result<Self, OutOfMemory> {
        let arena = Arc::new(Arena::new(Shape::<W>::BYTES));
        let top = arena.take(1)?;
        let root = arena.take(1)?;
        // SAFETY: both are nodes' worth of aligned memory of an arena that stays here; nobody else has them.
        let (top_node, root_node) = unsafe { (Node::<W>::at(top), Node::<W>::at(root)) };
        root_node.write(None, std::iter::empty());
        top_node.write(Some(root), std::iter::empty());
        Ok(SharedCsbTree {
            arena,
            top,
            length: Count::default(),
        })
    }

    /// The smallest RID of a key.
    #[inline]
    pub fn get(&self, key: &Key<W>) -> Option<u32> {
        self.read(|guard| self.try_get(key, guard))
    }

    #[inline(always)]
    fn try_get(&self, key: &Key<W>, guard: &Guard) -> Result<Option<u32>, Stop> {
        let (leaf, version) = self.leaf_of(First(key), guard)?;
        if let Some(answer) = Self::get_in_leaf(leaf, version, key)? {
            return Ok(answer);
        }
        // The first entry that is not below lies in a later leaf: there is none, or this leaf lost its last entries.
        let found = self.first_from((*key, 0), guard)?;
        Ok(found.filter(|pair| pair.0 == *key).map(|pair| pair.1))
    }

    /// What the leaf responsible for a key's first entry says; none if a later leaf says it.
    #[inline(always)]
    fn get_in_leaf(leaf: Node<'_, W>, version: Version, key: &Key<W>) -> Result<Option<Option<u32>>, Stop> {
        let slot = leaf.keys_below(key);
        if slot >= version.count() {
            return Ok(None);
        }
        let (found, rid) = leaf.pair(slot);
        leaf.validate(version)?;
        Ok(Some((found == *key).then_some(rid)))
    }

    /// A cursor that stands nowhere yet.
    pub fn cursor(&self) -> Cursor<'_, W> {
        Cursor::new(self)
    }

    /// Entries. While other threads write it may be off by what they are writing.
    pub fn len(&self) -> usize {
        self.length.get()
    }

    /// Has it no entries? As exact as [`SharedCsbTree::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes taken from the allocator for nodes, free ones included.
    pub fn bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// Inner levels above the leaves; 0 when the root is a leaf.
    pub fn height(&self) -> usize {
        self.read(|guard| self.try_height(guard))
    }
}

impl<const W: usize> Default for SharedCsbTree<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const W: usize> fmt::Debug for SharedCsbTree<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SharedCsbTree")
            .field("len", &self.len())
            .field("height", &self.height())
            .field("bytes", &self.bytes())
            .finish()
    }
}
