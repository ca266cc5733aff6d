//! What runs on one core of a simulated domain: where its accesses come from, and how they are treated.
//!
//! Not here: what becomes of it; that is [`super::Domain`].

use std::ops::Range;

use corun_model::operators::trace::Event;

use super::colours::ColourMask;
use crate::cache::WayMask;

/// An access stream that can be started anew.
pub trait Source {
    /// The stream from its begin. Every call gives the same events.
    fn events(&self) -> Box<dyn Iterator<Item = Event> + '_>;
}

/// A recorded trace.
impl Source for Vec<Event> {
    fn events(&self) -> Box<dyn Iterator<Item = Event> + '_> {
        Box::new(self.iter().copied())
    }
}

/// One access stream on a core of its own.
///
/// The roles of its events are not looked at: a trace of several threads is split by role into as many streams.
#[derive(Clone)]
pub struct Stream<'a> {
    /// Its accesses.
    pub source: &'a dyn Source,
    /// Its address space. Streams with equal numbers share memory, those with different ones do not, whatever their addresses:
    /// two runs of one recorded trace are two queries with private tables if the numbers differ.
    pub space: u8,
    /// The ways of the shared cache it may fill, which is those of its class; any if `None`.
    pub ways: Option<WayMask>,
    /// Pieces of memory that are treated differently from the rest. They do not overlap.
    pub objects: Vec<Object>,
    /// How everything else is treated.
    pub rest: Treatment,
    /// Time each access takes besides the caches', in nanoseconds: the instructions around it.
    pub work_ns: f64,
    /// Accesses at the begin that are made but not counted, nor timed: they fill the caches.
    pub warm_up_events: u64,
    /// What the core does when the stream has ended and another has not.
    pub at_end: AtEnd,
}

/// A piece of memory: a hash table, an index, a buffer pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its addresses. A line belongs to the object that its first byte lies in.
    pub addresses: Range<u64>,
    /// How accesses to it are treated.
    pub treatment: Treatment,
}

/// How accesses to some memory are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Treatment {
    /// The colours of its pages; any if `None`.
    pub colours: Option<ColourMask>,
    /// Whether its loads wait for each other.
    pub overlap: Overlap,
}

/// Whether loads wait for each other. Stores and prefetches never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// The address of the next comes out of this one: each takes its full latency. Chains, trees.
    Dependent,
    /// As many are under way at once as the core can hold, so that each takes its part of the latency only. Scans, batched probes.
    Independent,
}

/// What a core does when its stream has ended and another has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// Nothing: the others have the shared cache to themselves.
    Stop,
    /// The same again, uncounted: the others stay under its pressure, as under the fixed co-runner of paper 002, section 4.2.1.
    Restart,
}
