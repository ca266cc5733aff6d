//! [`Context`]: what becomes of the references a stage needs and of the accesses it makes.
//!
//! Each technique is one implementation; operators are compiled once for each, so a context costs what it does and
//! nothing more. Not here: the order in which tuples run, see `drivers`.

use corun_model::operators::trace::{Access, Sink};

use super::reference::Reference;
use crate::prefetch::{LINE_BYTES, prefetch_far, prefetch_once, prefetch_read};

/// Handed to every stage.
pub trait Context<'a> {
    /// Whether [`Context::touch`] reports anything. An operator may go a faster way where it could not tell what it touches.
    const TRACED: bool = false;

    /// The next stage will touch this. A hint.
    fn need(&mut self, reference: Reference<'a>);

    /// The next stage will touch this and nobody will soon after: not worth a place in the outer caches. A hint.
    #[inline(always)]
    fn need_once(&mut self, reference: Reference<'a>) {
        self.need(reference);
    }

    /// The stage touches `bytes` bytes from `address` on now. Compiles to nothing unless the run is traced.
    #[inline(always)]
    fn touch(&mut self, access: Access, address: *const u8, bytes: usize) {
        let _ = (access, address, bytes);
    }
}

/// Ignores needs: plain operators, and staged ones without latency hiding.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl<'a> Context<'a> for Quiet {
    #[inline(always)]
    fn need(&mut self, _: Reference<'a>) {}
}

/// A prefetch instruction for each need, into the L2: see [`prefetch_far`]. Measured (Sapphire Rapids, other work beside it,
/// 8 M rows a side, one thread), CPU ns a tuple with [`crate::prefetch::prefetch_read`] and so: join index at AMAC 32 31.0
/// and 28.4, in groups of 32 62 and 35 (loads for one group wait for stores of the last that are 4 KiB away); hash join
/// and lookups in a tree the same either way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prefetching;

impl<'a> Context<'a> for Prefetching {
    #[inline(always)]
    fn need(&mut self, reference: Reference<'a>) {
        prefetch_far(reference.address());
    }
}

/// As [`Prefetching`], for operators of which some lines pass by the outer caches ([`Staged::PASSES`](super::Staged::PASSES)):
/// these come into L1 alone, and the others there too. With the others in L2 their reads wait for the few buffers that lines on
/// their way to L1 take. Measured (Sapphire Rapids, builds beside it, lookups in a tree and a column of 1 GiB, groups of 32), CPU
/// ns a lookup: nothing passing 57.2; leaves and column passing, inner nodes to L2 60.6; inner nodes to L1 57.4.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passing;

impl<'a> Context<'a> for Passing {
    #[inline(always)]
    fn need(&mut self, reference: Reference<'a>) {
        prefetch_read(reference.address());
    }

    #[inline(always)]
    fn need_once(&mut self, reference: Reference<'a>) {
        prefetch_once(reference.address());
    }
}

/// Collects the needs of one stage for one entry of a work-ahead set.
#[derive(Clone, Copy, Debug)]
pub struct Posting<'a, const M: usize> {
    references: [Option<Reference<'a>>; M],
    count: usize,
}

impl<'a, const M: usize> Posting<'a, M> {
    /// Nothing needed yet.
    #[inline(always)]
    pub fn new() -> Self {
        Posting {
            references: [None; M],
            count: 0,
        }
    }

    /// Forgets what was collected.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// What was collected.
    #[inline(always)]
    pub fn references(&self) -> impl ExactSizeIterator<Item = Reference<'a>> + '_ {
        self.references[..self.count]
            .iter()
            .map(|reference| reference.expect("collected references are filled from the front"))
    }

    /// How many were collected.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.count
    }
}

impl<const M: usize> Default for Posting<'_, M> {
    fn default() -> Self {
        Posting::new()
    }
}

impl<'a, const M: usize> Context<'a> for Posting<'a, M> {
    /// # Panics
    /// If a stage needs more than `M` references: its operator names a wrong `M`.
    #[inline(always)]
    fn need(&mut self, reference: Reference<'a>) {
        assert!(
            self.count < M,
            "a stage asked for more than the {M} references its operator declares"
        );
        self.references[self.count] = Some(reference);
        self.count += 1;
    }
}

/// Reports accesses to a sink; needs go on to `inner`, and appear as prefetches where `inner` makes them so.
pub(super) struct Traced<'s, C, S> {
    pub(super) inner: C,
    pub(super) prefetches: bool,
    pub(super) sink: &'s mut S,
}

impl<'a, C: Context<'a>, S: Sink> Context<'a> for Traced<'_, C, S> {
    const TRACED: bool = true;

    fn need(&mut self, reference: Reference<'a>) {
        if self.prefetches {
            let line = reference.address() as usize & !(LINE_BYTES - 1);
            self.sink.access(Access::Prefetch, line, 1);
        }
        self.inner.need(reference);
    }

    fn touch(&mut self, access: Access, address: *const u8, bytes: usize) {
        self.sink.access(access, address as usize, bytes);
    }
}
