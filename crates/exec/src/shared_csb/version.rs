//! [`Version`]: the word that tells readers of a node whether it changed, and [`Patience`] while somebody holds it.
//!
//! What it is not: the protocol, which `node.rs` describes and keeps.

/// What a version word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(pub(super) u64);

impl Version {
    pub(super) const LOCKED: u64 = 1;
    pub(super) const OBSOLETE: u64 = 2;
    const LEAF: u64 = 4;
    const COUNT_SHIFT: u32 = 3;
    const COUNT_MASK: u64 = 0xff << Self::COUNT_SHIFT;
    const CHANGE: u64 = 1 << 11;

    /// The first version of a node.
    pub(super) fn first(leaf: bool, count: usize) -> Self {
        Version((count as u64) << Self::COUNT_SHIFT | if leaf { Self::LEAF } else { 0 })
    }

    /// Entries of a leaf or separators of an inner node; at most the capacity.
    #[inline(always)]
    pub(super) fn count(self) -> usize {
        ((self.0 & Self::COUNT_MASK) >> Self::COUNT_SHIFT) as usize
    }

    /// Is it a leaf?
    #[inline(always)]
    pub(super) fn is_leaf(self) -> bool {
        self.0 & Self::LEAF != 0
    }

    #[inline(always)]
    pub(super) fn is_locked(self) -> bool {
        self.0 & Self::LOCKED != 0
    }

    #[inline(always)]
    pub(super) fn is_obsolete(self) -> bool {
        self.0 & Self::OBSOLETE != 0
    }

    /// The version after a change that leaves so many slots in use.
    pub(super) fn after(self, count: usize) -> Self {
        let rest = self.0.wrapping_add(Self::CHANGE) & !Self::COUNT_MASK;
        Version(rest | (count as u64) << Self::COUNT_SHIFT)
    }
}

/// Waits for another thread: a few spins, then the processor is given away, as threads may outnumber cores.
#[derive(Default)]
pub(super) struct Patience {
    waits: u32,
}

impl Patience {
    /// Spins before a wait gives the processor away. Unmeasured; a lock is held for tens of nanoseconds.
    const SPINS: u32 = 32;

    /// Waits a moment.
    #[cold]
    pub(super) fn wait(&mut self) {
        if cfg!(miri) || self.waits >= Self::SPINS {
            std::thread::yield_now();
        } else {
            self.waits += 1;
            std::hint::spin_loop();
        }
    }
}
