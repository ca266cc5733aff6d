//! [`Ring`]: the doubly linked, circular lists of members, linked through the members themselves.
//!
//! A member is in one ring at most: the team that runs, or the list of an operation. CTX follows `next` without asking anybody.
//! A member in no ring has null links; that is what makes it a stray. What it is not: an owner.

use std::ptr::null_mut;

/// What a switch needs of a member, in one cache line of its own.
#[repr(C, align(64))]
pub(super) struct Node {
    /// The stack pointer while another member runs. First, as the switch stores to the address of the node.
    pub sp: *mut u8,
    pub next: *mut Node,
    pub prev: *mut Node,
    /// Switches at CTX points since this member entered its team.
    pub switches: u64,
}

impl Node {
    pub const fn new() -> Self {
        Node {
            sp: null_mut(),
            next: null_mut(),
            prev: null_mut(),
            switches: 0,
        }
    }
}

/// A circular list.
pub(super) struct Ring {
    head: *mut Node,
    len: usize,
}

impl Ring {
    pub const fn new() -> Self {
        Ring {
            head: null_mut(),
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The first member; null if there is none.
    pub fn head(&self) -> *mut Node {
        self.head
    }

    /// Puts a member last.
    ///
    /// # Safety
    /// `node` is valid and in no ring, and stays valid while it is in this one; the other members of the ring are valid.
    pub unsafe fn push_back(&mut self, node: *mut Node) {
        // SAFETY: valid as the caller says.
        unsafe {
            debug_assert!((*node).next.is_null(), "a member is in one ring at most");
            if self.head.is_null() {
                (*node).next = node;
                (*node).prev = node;
                self.head = node;
            } else {
                let (first, last) = (self.head, (*self.head).prev);
                (*node).next = first;
                (*node).prev = last;
                (*last).next = node;
                (*first).prev = node;
            }
        }
        self.len += 1;
    }

    /// Takes a member out; the one behind it becomes the first.
    ///
    /// # Safety
    /// `node` is in this ring.
    pub unsafe fn remove(&mut self, node: *mut Node) {
        // SAFETY: the members of a ring are valid.
        unsafe {
            let (next, prev) = ((*node).next, (*node).prev);
            debug_assert!(!next.is_null(), "it is in the ring");
            if next == node {
                self.head = null_mut();
            } else {
                (*next).prev = prev;
                (*prev).next = next;
                self.head = next;
            }
            (*node).next = null_mut();
            (*node).prev = null_mut();
        }
        self.len -= 1;
    }

    /// Takes the first member out; null if there is none.
    pub fn pop_front(&mut self) -> *mut Node {
        let node = self.head;
        if !node.is_null() {
            // SAFETY: the head is in the ring.
            unsafe { self.remove(node) };
        }
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(ring: &Ring) -> Vec<*mut Node> {
        let mut nodes = Vec::new();
        let mut node = ring.head();
        for _ in 0..ring.len() {
            nodes.push(node);
            // SAFETY: the tests' nodes outlive their rings.
            let next = unsafe { (*node).next };
            // SAFETY: as above.
            assert_eq!(unsafe { (*next).prev }, node);
            node = next;
        }
        assert_eq!(node, ring.head(), "circular");
        nodes
    }

    #[test]
    fn a_ring_keeps_order_and_goes_on_behind_what_left() {
        let nodes: Vec<*mut Node> = (0..4).map(|_| Box::into_raw(Box::new(Node::new()))).collect();
        let mut ring = Ring::new();
        assert!(ring.pop_front().is_null());
        for &node in &nodes {
            // SAFETY: fresh nodes, freed at the end.
            unsafe { ring.push_back(node) };
        }
        assert_eq!(order(&ring), nodes);
        // SAFETY: it is in the ring.
        unsafe { ring.remove(nodes[1]) };
        assert_eq!(order(&ring), [nodes[2], nodes[3], nodes[0]]);
        // SAFETY: a node that is in no ring has null links.
        assert!(unsafe { (*nodes[1]).next.is_null() && (*nodes[1]).prev.is_null() });
        assert_eq!(ring.pop_front(), nodes[2]);
        // SAFETY: it left above.
        unsafe { ring.push_back(nodes[1]) };
        assert_eq!(order(&ring), [nodes[3], nodes[0], nodes[1]]);
        for expected in [nodes[3], nodes[0], nodes[1]] {
            assert_eq!(ring.pop_front(), expected);
        }
        assert!(ring.head().is_null());
        assert_eq!(ring.len(), 0);
        for node in nodes {
            // SAFETY: made by `into_raw` above and in no ring any more.
            drop(unsafe { Box::from_raw(node) });
        }
    }
}
