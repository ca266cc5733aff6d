//! [`Arena`]: memory for node groups, in chunks that grow to huge pages.
//!
//! A group is a block of neighbouring nodes. Free blocks are listed by size and joined with free neighbours, so what groups of
//! one size leave serves groups of another. A request takes the smallest list that has one large enough and gives back the rest.
//! Blocks come back in any order and from any thread; chunks go back to the allocator only with the arena.
//!
//! ```text
//! chunk:  │ fence │ group │ free: FREE next previous size … FREE size │ group │ fence │
//! ```
//!
//! A block's neighbours are known by their first words: only the first and the last node of a free block have `FREE` there, which
//! is no version a node ever has. Nodes in use are read here while others change them, so all words are atomics here too.
//!
//! What it is not: it does not know who may still read a block; its caller waits for that.

use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::huge::{HUGE_FROM_BYTES, OutOfMemory, Unwritten};

/// Most nodes of a block that is asked for. No group has more children.
pub(super) const BLOCK_NODES_MAX: usize = 64;

/// Nodes of the first chunk, fences included: the smallest tree takes two more.
const FIRST_NODES: usize = 8;

/// In the first word of a free block's first and last node.
const FREE: u64 = u64::MAX;

/// In the first word of a node that is taken but not yet written, and of a fence.
const TAKEN: u64 = 0;

pub(super) struct Arena {
    /// Bytes of a node, a multiple of a cache line.
    node_bytes: usize,
    /// Nodes of blocks that are out of use but may still be read.
    waiting_nodes: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    node_bytes: usize,
    chunks: Vec<Unwritten<u8>>,
    /// By nodes: the first free block. The last list has the larger ones too.
    lists: [*mut u8; BLOCK_NODES_MAX + 1],
    bytes: usize,
}

// SAFETY: the pointers name memory that the chunks own; free blocks are reached only through the state.
unsafe impl Send for State {}

impl Arena {
    /// Without memory yet.
    pub(super) fn new(node_bytes: usize) -> Self {
        Arena {
            node_bytes,
            waiting_nodes: AtomicUsize::new(0),
            state: Mutex::new(State {
                node_bytes,
                chunks: Vec::new(),
                lists: [std::ptr::null_mut(); BLOCK_NODES_MAX + 1],
                bytes: 0,
            }),
        }
    }

    /// Nothing panics while the state is changed, so it is whole even if some thread did.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes taken from the allocator.
    pub(super) fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// Takes a block, whose content is whatever it is.
    pub(super) fn take(&self, nodes: usize) -> Result<*mut u8, OutOfMemory> {
        assert!(
            (1..=BLOCK_NODES_MAX).contains(&nodes),
            "a group has 1 to {BLOCK_NODES_MAX} nodes"
        );
        let mut state = self.state();
        loop {
            let list = (nodes..=BLOCK_NODES_MAX).find(|&list| !state.lists[list].is_null());
            if let Some(list) = list {
                let block = state.lists[list];
                let size = state.unlink(block);
                if size > nodes {
                    let rest = block.wrapping_add(nodes * self.node_bytes);
                    state.link(rest, size - nodes);
                    // Fresh memory has any content, `FREE` too.
                    state
                        .mark(rest.wrapping_sub(self.node_bytes))
                        .store(TAKEN, Ordering::Relaxed);
                }
                return Ok(block);
            }
            state.grow(nodes)?;
        }
    }

    /// Bytes of blocks that may still be read. Relaxed: a hint for writers.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_nodes.load(Ordering::Relaxed) * self.node_bytes
    }

    /// Says that a block of so many nodes is out of use and will be given back once nobody reads it.
    pub(super) fn wait_for_readers(&self, nodes: usize) {
        self.waiting_nodes.fetch_add(nodes, Ordering::Relaxed);
    }

    /// Gives such a block back.
    ///
    /// # Safety
    /// As [`Arena::give_back`].
    pub(super) unsafe fn give_back_retired(&self, block: *mut u8, nodes: usize) {
        self.waiting_nodes.fetch_sub(nodes, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { self.give_back(block, nodes) };
    }

    /// Gives a block back.
    ///
    /// # Safety
    /// It must come from [`Arena::take`] with as many nodes, and nobody may access it any more.
    pub(super) unsafe fn give_back(&self, mut block: *mut u8, mut nodes: usize) {
        let mut state = self.state();
        let after = block.wrapping_add(nodes * self.node_bytes);
        if state.mark(after).load(Ordering::Relaxed) == FREE {
            nodes += state.unlink(after);
        }
        let before = block.wrapping_sub(self.node_bytes);
        if state.mark(before).load(Ordering::Relaxed) == FREE {
            let size = state.size(before).load(Ordering::Relaxed);
            block = block.wrapping_sub(size * self.node_bytes);
            nodes += state.unlink(block);
        }
        state.link(block, nodes);
    }

    /// Nodes in free blocks, after checking that blocks are marked at both ends and none touches another.
    #[cfg(test)]
    pub(super) fn check_free(&self) -> usize {
        let state = self.state();
        let mut free = 0;
        for list in 0..=BLOCK_NODES_MAX {
            let (mut block, mut previous) = (state.lists[list], std::ptr::null_mut());
            while !block.is_null() {
                let size = state.size(block).load(Ordering::Relaxed);
                let last = block.wrapping_add((size - 1) * self.node_bytes);
                assert_eq!(list, size.min(BLOCK_NODES_MAX));
                assert_eq!(state.size(last).load(Ordering::Relaxed), size);
                assert_eq!(state.previous(block).load(Ordering::Relaxed), previous);
                for (node, free) in [
                    (block, true),
                    (last, true),
                    (block.wrapping_sub(self.node_bytes), false),
                    (last.wrapping_add(self.node_bytes), false),
                ] {
                    assert_eq!(state.mark(node).load(Ordering::Relaxed) == FREE, free);
                }
                free += size;
                (previous, block) = (block, state.next(block).load(Ordering::Relaxed));
            }
        }
        free
    }
}

// All Relaxed: the mutex orders what happens to free blocks, and of a node in use only `FREE` or not is wanted.
impl State {
    /// The first word of a node.
    fn mark(&self, node: *mut u8) -> &AtomicU64 {
        // SAFETY: callers name a node inside a chunk or one of its fences, aligned to a line.
        unsafe { &*node.cast() }
    }

    /// The word of a free block that names the next in its list.
    fn next(&self, block: *mut u8) -> &AtomicPtr<u8> {
        // SAFETY: as for the first word; a node has at least eight.
        unsafe { &*block.wrapping_add(8).cast() }
    }

    /// The word of a free block that names the one before.
    fn previous(&self, block: *mut u8) -> &AtomicPtr<u8> {
        // SAFETY: as above.
        unsafe { &*block.wrapping_add(16).cast() }
    }

    /// The word of a free block's first and last node that has its nodes.
    fn size(&self, node: *mut u8) -> &AtomicUsize {
        // SAFETY: as above.
        unsafe { &*node.wrapping_add(24).cast() }
    }

    /// Takes a chunk as large as all before, within bounds.
    fn grow(&mut self, nodes: usize) -> Result<(), OutOfMemory> {
        let least = (nodes + 2).max(FIRST_NODES) * self.node_bytes;
        let chunk = Unwritten::<u8>::new(self.bytes.clamp(least, HUGE_FROM_BYTES.max(least)))?;
        let first = chunk.as_ptr();
        let inside = chunk.bytes() / self.node_bytes - 2;
        for fence in [0, inside + 1] {
            self.mark(first.wrapping_add(fence * self.node_bytes))
                .store(TAKEN, Ordering::Relaxed);
        }
        self.link(first.wrapping_add(self.node_bytes), inside);
        self.bytes += chunk.bytes();
        self.chunks.push(chunk);
        Ok(())
    }

    /// Marks a block free and puts it at the front of its list.
    fn link(&mut self, block: *mut u8, nodes: usize) {
        let list = nodes.min(BLOCK_NODES_MAX);
        let next = self.lists[list];
        for end in [block, block.wrapping_add((nodes - 1) * self.node_bytes)] {
            self.mark(end).store(FREE, Ordering::Relaxed);
            self.size(end).store(nodes, Ordering::Relaxed);
        }
        self.next(block).store(next, Ordering::Relaxed);
        self.previous(block)
            .store(std::ptr::null_mut(), Ordering::Relaxed);
        if !next.is_null() {
            self.previous(next).store(block, Ordering::Relaxed);
        }
        self.lists[list] = block;
    }

    /// Takes a block out of its list and its marks away; its nodes.
    fn unlink(&mut self, block: *mut u8) -> usize {
        let nodes = self.size(block).load(Ordering::Relaxed);
        let next = self.next(block).load(Ordering::Relaxed);
        let previous = self.previous(block).load(Ordering::Relaxed);
        if previous.is_null() {
            self.lists[nodes.min(BLOCK_NODES_MAX)] = next;
        } else {
            self.next(previous).store(next, Ordering::Relaxed);
        }
        if !next.is_null() {
            self.previous(next).store(previous, Ordering::Relaxed);
        }
        for end in [block, block.wrapping_add((nodes - 1) * self.node_bytes)] {
            self.mark(end).store(TAKEN, Ordering::Relaxed);
        }
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_neighbours_join_and_serve_again() {
        let arena = Arena::new(128);
        let blocks: Vec<(*mut u8, usize)> = (0..200)
            .map(|index| (arena.take(index % 21 + 1).unwrap(), index % 21 + 1))
            .collect();
        let (bytes, free) = (arena.bytes(), arena.check_free());
        let taken: usize = blocks.iter().map(|block| block.1).sum();
        // Every third, then the rest: each join, before and after, happens.
        for turn in [1, 0, 2] {
            for &(block, nodes) in blocks.iter().skip(turn).step_by(3) {
                // SAFETY: taken above, and given back once.
                unsafe { arena.give_back(block, nodes) };
            }
            arena.check_free();
        }
        assert_eq!(arena.check_free(), free + taken);
        for _ in 0..taken / BLOCK_NODES_MAX / 2 {
            arena.take(BLOCK_NODES_MAX).unwrap();
        }
        assert_eq!(arena.bytes(), bytes, "small blocks have become large ones");
    }

    #[test]
    fn what_fresh_memory_holds_is_no_mark() {
        let arena = Arena::new(128);
        let block = arena.take(5).unwrap();
        for node in 1..4 {
            arena
                .state()
                .mark(block.wrapping_add(node * 128))
                .store(FREE, Ordering::Relaxed);
        }
        // SAFETY: taken above, and given back once.
        unsafe { arena.give_back(block, 5) };
        let free = arena.check_free();
        let (two, one) = (arena.take(2).unwrap(), arena.take(1).unwrap());
        assert_eq!(two.wrapping_add(2 * 128), one, "its neighbour");
        // SAFETY: as above.
        unsafe { arena.give_back(one, 1) };
        assert_eq!(arena.check_free(), free - 2);
        // SAFETY: as above.
        unsafe { arena.give_back(two, 2) };
        assert_eq!(arena.check_free(), free);
    }

    #[test]
    fn blocks_do_not_overlap() {
        let arena = Arena::new(64);
        let mut blocks: Vec<(usize, usize)> = (0..500)
            .map(|index| {
                let nodes = index * 7 % BLOCK_NODES_MAX + 1;
                (arena.take(nodes).unwrap().addr(), nodes * 64)
            })
            .collect();
        blocks.sort_unstable();
        assert!(blocks.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
    }
}
