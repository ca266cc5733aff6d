//! [`Arena`]: one growable array of nodes, handed out in groups of neighbours.
//!
//! Order of calls: [`Arena::alloc`], write every node of the group, and [`Arena::free`] any part of it later. Free blocks
//! are kept in lists by size and joined with free neighbours: groups change their size by one at a time, so without joining
//! each size would pile up blocks the others cannot use. Every free node is marked, so a stale index is seen.
//!
//! ```text
//!  0         live          free (3)      live    free (1)    live        length         capacity
//!  ├──────┬─────┬─────┬──────────────┬──────────┬──────┬────────────────┬──────────────────┤
//!  │ root │ group     │ prev next 3 3│  group   │      │     group      │  never written   │
//!  └──────┴─────┴─────┴──────────────┴──────────┴──────┴────────────────┴──────────────────┘
//! ```
//!
//! What it is not: it moves no group by itself and knows nothing of trees.

use super::CsbError;
use super::key::Order;
use super::node::{NONE, Node};
use crate::huge::Unwritten;

/// Nodes an arena begins with at least. Unmeasured, as is growing by half: a large arena should not double.
const CAPACITY_MIN: u32 = 16;

/// One growable array of nodes in huge pages, named by their index.
pub(super) struct Arena<O: Order, const LINES: usize> {
    memory: Unwritten<Node<O, LINES>>,
    capacity: u32,
    /// Nodes in use or free; those above were never written. Not above `capacity`.
    length: u32,
    /// Most nodes it may ever have.
    nodes_max: u32,
    /// First block of each free list: index `size - 1` for what a group can be, the last for larger blocks.
    heads: Box<[u32]>,
}

impl<O: Order, const LINES: usize> Arena<O, LINES> {
    /// An arena without nodes but with room for some.
    pub(super) fn with_capacity(nodes: u64) -> Result<Self, CsbError> {
        let capacity =
            u32::try_from(nodes.max(u64::from(CAPACITY_MIN))).map_err(|_| CsbError::TooManyNodes)?;
        if capacity == NONE {
            return Err(CsbError::TooManyNodes);
        }
        Ok(Arena {
            memory: Unwritten::new(capacity as usize)?,
            capacity,
            length: 0,
            nodes_max: NONE - 1,
            heads: vec![NONE; Node::<O, LINES>::CHILDREN + 1].into_boxed_slice(),
        })
    }

    /// Lets it have at most so many nodes, to see what happens when there are no more.
    #[cfg(test)]
    pub(super) fn limit(&mut self, nodes_max: u32) {
        self.nodes_max = nodes_max;
    }

    /// Bytes taken from the allocator.
    pub(super) fn bytes(&self) -> usize {
        self.memory.bytes() + size_of_val(&*self.heads)
    }

    /// Nodes in use or free.
    pub(super) fn length(&self) -> u32 {
        self.length
    }

    /// A node, which may be a free one.
    ///
    /// # Panics
    /// If there is no such node.
    #[inline(always)]
    pub(super) fn node(&self, index: u32) -> &Node<O, LINES> {
        assert!(
            index < self.length,
            "no node {index} in a tree of {}",
            self.length
        );
        // SAFETY: nodes below `length` are allocated and written.
        unsafe { &*self.memory.as_ptr().add(index as usize) }
    }

    /// A node to be changed.
    ///
    /// # Panics
    /// If there is no such node.
    #[inline(always)]
    pub(super) fn node_mut(&mut self, index: u32) -> &mut Node<O, LINES> {
        assert!(
            index < self.length,
            "no node {index} in a tree of {}",
            self.length
        );
        // SAFETY: nodes below `length` are allocated and written; `&mut self` makes the access unique.
        unsafe { &mut *self.memory.as_ptr().add(index as usize) }
    }

    /// Where a node is or would be; not to be read through.
    #[inline(always)]
    pub(super) fn address(&self, index: u32) -> *const u8 {
        self.memory.as_ptr().wrapping_add(index as usize).cast()
    }

    /// Copies nodes; the two places may overlap.
    pub(super) fn copy(&mut self, from: u32, to: u32, nodes: u32) {
        let end = u64::from(from.max(to)) + u64::from(nodes);
        assert!(end <= u64::from(self.length), "no node {end} to copy");
        // SAFETY: both ranges lie below `length`, where nodes are allocated and written.
        unsafe {
            let first = self.memory.as_ptr();
            std::ptr::copy(first.add(from as usize), first.add(to as usize), nodes as usize);
        }
    }

    /// Appends a node.
    pub(super) fn push(&mut self, node: Node<O, LINES>) -> Result<u32, CsbError> {
        self.reserve(1)?;
        let index = self.length;
        // SAFETY: there is room for one more at `length`.
        unsafe { self.memory.as_ptr().add(index as usize).write(node) };
        self.length += 1;
        Ok(index)
    }

    /// Takes `nodes` neighbours, at most a full group; they are empty leaves. On failure nothing changed.
    pub(super) fn alloc(&mut self, nodes: u32) -> Result<u32, CsbError> {
        debug_assert!(nodes >= 1 && nodes as usize <= Node::<O, LINES>::CHILDREN);
        // Any block of a list from this size on is large enough, the list of large ones included.
        if let Some(&first) = self.heads[nodes as usize - 1..]
            .iter()
            .find(|&&first| first != NONE)
        {
            let size = self.node(first).free_size();
            self.unlink(first);
            if size > nodes {
                self.link(first + nodes, size - nodes);
            }
            // Their marks must go before a neighbour is freed.
            for index in first..first + nodes {
                *self.node_mut(index) = Node::leaf(NONE);
            }
            return Ok(first);
        }
        self.reserve(nodes)?;
        let first = self.length;
        for _ in 0..nodes {
            self.push(Node::leaf(NONE))?;
        }
        Ok(first)
    }

    /// Gives nodes back.
    pub(super) fn free(&mut self, mut first: u32, mut nodes: u32) {
        for index in first..first + nodes {
            *self.node_mut(index) = Node::free();
        }
        let end = first + nodes;
        if end < self.length && self.node(end).is_free() {
            nodes += self.node(end).free_size();
            self.unlink(end);
        }
        if first > 0 && self.node(first - 1).is_free() {
            let before = self.node(first - 1).free_size_from_end();
            first -= before;
            nodes += before;
            self.unlink(first);
        }
        if first + nodes == self.length {
            self.length = first;
        } else {
            self.link(first, nodes);
        }
    }

    /// Frees all nodes but one, which becomes node 0 with this content.
    pub(super) fn reset(&mut self, node: Node<O, LINES>) {
        *self.node_mut(0) = node;
        self.length = 1;
        self.heads.fill(NONE);
    }

    /// Makes sure that `nodes` can be pushed.
    fn reserve(&mut self, nodes: u32) -> Result<(), CsbError> {
        let needed = u64::from(self.length) + u64::from(nodes);
        if needed <= u64::from(self.capacity.min(self.nodes_max)) {
            return Ok(());
        }
        if needed > u64::from(self.nodes_max) {
            return Err(CsbError::TooManyNodes);
        }
        let grown = u64::from(self.capacity) + u64::from(self.capacity) / 2;
        let capacity = grown.clamp(needed, u64::from(self.nodes_max)) as u32;
        let memory = Unwritten::new(capacity as usize)?;
        // SAFETY: the new memory has room for more than the `length` written nodes of the old, and they are apart.
        unsafe { std::ptr::copy_nonoverlapping(self.memory.as_ptr(), memory.as_ptr(), self.length as usize) };
        self.memory = memory;
        self.capacity = capacity;
        Ok(())
    }

    /// The list blocks of this size are in.
    fn list(&self, size: u32) -> usize {
        (size as usize).min(self.heads.len()) - 1
    }

    /// Puts a block of marked nodes at the front of its list.
    fn link(&mut self, first: u32, size: u32) {
        let list = self.list(size);
        let next = std::mem::replace(&mut self.heads[list], first);
        let node = self.node_mut(first);
        node.set_link(NONE);
        node.set_free_block(next, size);
        self.node_mut(first + size - 1).set_free_size_from_end(size);
        if next != NONE {
            self.node_mut(next).set_link(first);
        }
    }

    /// Takes a block out of its list.
    fn unlink(&mut self, first: u32) {
        let node = self.node(first);
        let (previous, next, list) = (node.link(), node.free_next(), self.list(node.free_size()));
        match previous {
            NONE => self.heads[list] = next,
            previous => self.node_mut(previous).set_free_next(next),
        }
        if next != NONE {
            self.node_mut(next).set_link(previous);
        }
    }

    /// Nodes in the free lists, after checking that they are exactly the marked ones and that no two blocks touch.
    #[cfg(test)]
    pub(super) fn check_free(&self) -> u32 {
        let mut listed = std::collections::BTreeMap::new();
        for (list, &head) in self.heads.iter().enumerate() {
            let (mut at, mut previous) = (head, NONE);
            while at != NONE {
                let node = self.node(at);
                let size = node.free_size();
                assert_eq!((node.link(), self.list(size)), (previous, list));
                assert_eq!(self.node(at + size - 1).free_size_from_end(), size);
                assert!(listed.insert(at, size).is_none());
                (previous, at) = (at, node.free_next());
            }
        }
        let mut index = 0;
        let mut free = 0;
        while index < self.length {
            if self.node(index).is_free() {
                let size = listed.remove(&index).expect("a marked block is listed");
                assert!((index..index + size).all(|at| self.node(at).is_free()));
                free += size;
                index += size;
                assert!(
                    index < self.length && !self.node(index).is_free(),
                    "blocks are joined"
                );
            } else {
                index += 1;
            }
        }
        assert!(listed.is_empty(), "listed blocks are marked");
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Small = Arena<i32, 1>;

    fn take(arena: &mut Small, nodes: u32) -> u32 {
        let first = arena.alloc(nodes).unwrap();
        for index in first..first + nodes {
            *arena.node_mut(index) = Node::leaf(index);
        }
        first
    }

    #[test]
    fn freed_neighbours_join_and_serve_again() {
        let mut arena = Small::with_capacity(0).unwrap();
        let groups: Vec<u32> = (0..40).map(|_| take(&mut arena, 3)).collect();
        assert_eq!((arena.length(), arena.check_free()), (120, 0));
        for pair in [1, 5, 3, 4, 2] {
            arena.free(groups[pair], 3);
            arena.check_free();
        }
        assert_eq!(arena.check_free(), 15);
        assert_eq!(
            take(&mut arena, 15),
            groups[1],
            "five groups of three are one of fifteen"
        );
        assert_eq!((arena.length(), arena.check_free()), (120, 0));
        for &first in groups[6..].iter().rev() {
            arena.free(first, 3);
        }
        assert_eq!((arena.length(), arena.check_free()), (18, 0), "the end shrinks");
    }

    #[test]
    fn parts_of_a_group_can_be_freed() {
        let mut arena = Small::with_capacity(0).unwrap();
        let first = take(&mut arena, 15);
        let second = take(&mut arena, 2);
        arena.free(first + 14, 1);
        arena.free(first + 7, 3);
        assert_eq!(arena.check_free(), 4);
        assert_eq!(take(&mut arena, 2), first + 7);
        assert_eq!(arena.check_free(), 2);
        arena.free(second, 2);
        assert_eq!((arena.length(), arena.check_free()), (14, 1));
    }

    #[test]
    fn no_more_nodes_is_an_error() {
        let mut arena = Small::with_capacity(0).unwrap();
        arena.limit(20);
        take(&mut arena, 15);
        assert_eq!(arena.alloc(6), Err(CsbError::TooManyNodes));
        assert_eq!(take(&mut arena, 5), 15);
        assert!(Small::with_capacity(u64::from(u32::MAX)).is_err());
        assert!(Small::with_capacity(u64::MAX).is_err());
    }
}
