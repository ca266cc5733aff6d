//! Queries on several cores over one last-level cache: what each misses and how much longer it takes because of the others.
//!
//! ```text
//!    stream 0      stream 1      stream 2        one core each; the one whose time is least makes the next access
//!       │             │             │
//!    L1 ── L2      L1 ── L2      L1 ── L2        private, least recently used; optional
//!        \            │            /
//!   ┌──────────────────────────────────────┐
//!   │ ways 0 1 2 3 │ 4 5 6 7 8 9 10 ... 15 │     shared. A stream fills the ways of its class only and hits in any;
//!   │ colour 0 ... │                       │     an object's pages lie in the sets of its colours only
//!   └──────────────────────────────────────┘
//!                     │
//!                  memory
//! ```
//!
//! The calls, in order: describe a [`Domain`], give each query a [`Stream`], then [`Domain::alone`] for each and [`Domain::corun`]
//! for all; [`Run::slow_down`] sets one beside the other.
//!
//! **Time.** An access takes the stream's own work and, for each line it touches, the latency of the level that has it. Loads
//! whose addresses do not depend on each other, stores and prefetches take their share of it, as [`Domain::parallelism`] of them are
//! under way at once. So a stream that misses advances slowly, and presses the less on the others. Each stream is timed from its
//! first counted access to its last; the simulation ends with the last stream's first round.
//!
//! **Lines.** As in [`crate::hierarchy`]: an access asks level after level, and every level asked without success then holds the
//! line. No level includes another. Here there is no coherence either: a store leaves the other cores' private levels as they are.
//!
//! ```
//! use corun_cachesim::llc::{AtEnd, Domain, Overlap, Stream, Treatment};
//! use corun_cachesim::{Geometry, Replacement, Synthetic, WayMask};
//! use corun_model::units::{Bytes, Ways};
//!
//! let domain = Domain {
//!     private: Vec::new(),
//!     llc: Geometry::new(Bytes::mib(1), Ways(16), Bytes(64))?,
//!     replacement: Replacement::Lru,
//!     llc_ns: 20.0,
//!     memory_ns: 100.0,
//!     parallelism: 8.0,
//!     colours: 1,
//! };
//! let table = Synthetic::random_probes(Bytes::kib(768), 200_000, 1)?;
//! let scan = Synthetic::sequential_scan(Bytes::mib(64), 200_000)?;
//! let probing = Stream {
//!     source: &table,
//!     space: 0,
//!     ways: None,
//!     objects: Vec::new(),
//!     rest: Treatment { colours: None, overlap: Overlap::Dependent },
//!     work_ns: 5.0,
//!     warm_up_events: 50_000,
//!     at_end: AtEnd::Restart,
//! };
//! let scanning = Stream {
//!     source: &scan,
//!     space: 1,
//!     rest: Treatment { colours: None, overlap: Overlap::Independent },
//!     ..probing.clone()
//! };
//! let alone = domain.alone(&probing)?;
//! let undivided = domain.corun(&[probing.clone(), scanning.clone()])?;
//! let confined = Stream { ways: Some(WayMask(0b11)), ..scanning };
//! let divided = domain.corun(&[probing, confined])?;
//! assert!(undivided[0].slow_down(&alone) > 1.5);
//! assert!(divided[0].slow_down(&alone) < 1.1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Also not here: hardware prefetchers (a scan misses once a line; give it [`Overlap::Independent`]), the bandwidth of memory, the
//! hash that spreads lines over slices, TLBs. Equal input gives equal output.

mod colours;
mod corun;
pub mod filtered;
mod stream;

use crate::cache::{Geometry, MASKED_WAYS_MAX, Replacement};

pub use colours::ColourMask;
pub use stream::{AtEnd, Object, Overlap, Source, Stream, Treatment};

use colours::{COLOURS_MAX, Colouring};

/// Most streams of one simulation.
const STREAMS_MAX: usize = 256;
/// Bounds of a latency in nanoseconds; also the most work an access may take.
const LATENCY_NS_MIN: f64 = 0.001;
const LATENCY_NS_MAX: f64 = 1e6;
/// Largest number of accesses under way at once. Cores hold some tens.
const PARALLELISM_MAX: f64 = 1024.0;

/// Cores that share a last-level cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// The private levels of each core, nearest first; may be empty.
    pub private: Vec<PrivateLevel>,
    /// The shared cache.
    pub llc: Geometry,
    /// How it chooses what leaves. Private levels replace the least recently used line.
    pub replacement: Replacement,
    /// Time to load a line from the shared cache, in nanoseconds.
    pub llc_ns: f64,
    /// Time to load a line from memory, in nanoseconds.
    pub memory_ns: f64,
    /// How many accesses that do not wait for each other are under way at once, on average; at least 1.
    pub parallelism: f64,
    /// How many colours the shared cache's pages have: 1 to 64. Paper 002 has 32. Looked at only if a stream names colours.
    pub colours: u32,
}

/// A cache that each core has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrivateLevel {
    /// Size and shape.
    pub geometry: Geometry,
    /// Time to load a line from it, in nanoseconds.
    pub latency_ns: f64,
}

/// What one stream did in its first round, warm-up excepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// How long it took, in nanoseconds.
    pub time_ns: f64,
    /// What it did at each level, nearest first; the last is the shared cache.
    pub levels: Vec<LevelCounts>,
}

impl Run {
    /// How many times as long as `alone` this took.
    pub fn slow_down(&self, alone: &Self) -> f64 {
        self.time_ns / alone.time_ns
    }

    /// What it did at the shared cache.
    pub fn llc(&self) -> LevelCounts {
        self.levels.last().copied().unwrap_or_default()
    }
}

/// What one stream did at one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCounts {
    /// Lines loaded or stored that were looked up here, because all nearer levels missed. An access that spans lines counts once
    /// for each. Prefetches are not among them.
    pub accesses: u64,
    /// Those that were not here.
    pub misses: u64,
    /// Lines that a prefetch brought here. A later load or store of one is a hit.
    pub prefetched: u64,
}

impl LevelCounts {
    /// The part of the accesses that missed; 0 if there were none.
    pub fn miss_rate(&self) -> f64 {
        if self.accesses == 0 {
            return 0.0;
        }
        self.misses as f64 / self.accesses as f64
    }
}

/// A simulation that cannot be run. Streams count from 0.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum LlcError {
    /// Nothing to run, or too much.
    #[error("1 to {STREAMS_MAX} streams can run together, not {0}")]
    Streams(usize),
    /// A latency or a stream's work that is no sensible duration.
    #[error("{what} must be between {LATENCY_NS_MIN} and {LATENCY_NS_MAX} ns, not {ns}")]
    Time {
        /// Which.
        what: &'static str,
        /// What it was, in nanoseconds.
        ns: f64,
    },
    /// A parallelism below 1 or beyond any core's.
    #[error("the parallelism must be between 1 and {PARALLELISM_MAX}, not {0}")]
    Parallelism(f64),
    /// An inner level has longer lines than an outer one, so that one fill would be several.
    #[error("a cache of the domain has shorter lines than one nearer to the core")]
    LineShrinks,
    /// A tree or a mask over more ways than a word has bits.
    #[error("way masks and tree replacement are simulated for at most {MASKED_WAYS_MAX} ways, not {0}")]
    Ways(u32),
    /// A mask without ways, or with ways the cache does not have.
    #[error("the way mask {mask:#x} of stream {stream} does not name ways of a cache of {ways}")]
    WayMask {
        /// Which stream.
        stream: usize,
        /// Its mask.
        mask: u64,
        /// Ways there are.
        ways: u32,
    },
    /// Colours that cannot be: no mask, a mask of other colours, or a cache whose ways are not the same number of pages for each.
    #[error(
        "stream {stream} cannot have the colours {mask:#x}: there are {colours} (at most {COLOURS_MAX}), and a way of the cache must be \
         a whole number of pages of each"
    )]
    Colours {
        /// Which stream.
        stream: usize,
        /// The mask.
        mask: u64,
        /// The domain's number of colours.
        colours: u32,
    },
    /// Two objects with common addresses, or one that ends before it begins.
    #[error("objects of stream {stream} overlap or end before they begin, at address {address:#x}")]
    Objects {
        /// Which stream.
        stream: usize,
        /// Where.
        address: u64,
    },
    /// A number of an address space that does not fit beside the line numbers.
    #[error("the address space of stream {stream} must be below {end}, not {space}")]
    Space {
        /// Which stream.
        stream: usize,
        /// Its number.
        space: u8,
        /// The first number that does not fit.
        end: u64,
    },
    /// A stream that ends before anything is counted.
    #[error("stream {0} touches nothing after its warm-up")]
    Nothing(usize),
}

impl Domain {
    /// What the stream does with the domain to itself, in the whole cache: its ways and colours do not bind it.
    ///
    /// # Errors
    /// As [`Domain::corun`], for stream 0.
    pub fn alone(&self, stream: &Stream<'_>) -> Result<Run, LlcError> {
        let mut free = stream.clone();
        free.ways = None;
        free.rest.colours = None;
        for object in &mut free.objects {
            object.treatment.colours = None;
        }
        let mut runs = self.corun(&[free])?;
        runs.pop().ok_or(LlcError::Streams(0))
    }

    /// What the streams do together, in their order.
    ///
    /// Takes time in proportion to the accesses of all streams until the last of them has ended its first round: tens of
    /// nanoseconds each.
    ///
    /// # Errors
    /// [`LlcError`], which names what is out of range.
    pub fn corun(&self, streams: &[Stream<'_>]) -> Result<Vec<Run>, LlcError> {
        self.check(streams)?;
        corun::run(self, streams)
    }

    fn check(&self, streams: &[Stream<'_>]) -> Result<(), LlcError> {
        if !(1..=STREAMS_MAX).contains(&streams.len()) {
            return Err(LlcError::Streams(streams.len()));
        }
        let private = self
            .private
            .iter()
            .map(|level| ("the latency of a private level", level.latency_ns));
        let outer = [
            ("the latency of the shared cache", self.llc_ns),
            ("the latency of memory", self.memory_ns),
        ];
        for (what, ns) in private.chain(outer) {
            if !(LATENCY_NS_MIN..=LATENCY_NS_MAX).contains(&ns) {
                return Err(LlcError::Time { what, ns });
            }
        }
        if !(1.0..=PARALLELISM_MAX).contains(&self.parallelism) {
            return Err(LlcError::Parallelism(self.parallelism));
        }
        let levels = self.private.iter().map(|level| level.geometry);
        if !levels.chain([self.llc]).is_sorted_by_key(|level| level.line()) {
            return Err(LlcError::LineShrinks);
        }
        let ways = self.llc.ways().0;
        let masked = streams.iter().any(|stream| stream.ways.is_some());
        if ways > MASKED_WAYS_MAX && (masked || self.replacement == Replacement::TreePlru) {
            return Err(LlcError::Ways(ways));
        }
        streams
            .iter()
            .enumerate()
            .try_for_each(|(at, stream)| self.check_stream(at, stream))
    }

    fn check_stream(&self, at: usize, stream: &Stream<'_>) -> Result<(), LlcError> {
        if !(0.0..=LATENCY_NS_MAX).contains(&stream.work_ns) {
            return Err(LlcError::Time {
                what: "the work of an access, if not 0,",
                ns: stream.work_ns,
            });
        }
        let ways = self.llc.ways().0;
        if let Some(mask) = stream.ways
            && (mask.0 == 0 || mask.0.checked_shr(ways).unwrap_or(0) != 0)
        {
            return Err(LlcError::WayMask {
                stream: at,
                mask: mask.0,
                ways,
            });
        }
        // The number stands above the line number in a tag; the highest one, with the highest line, would mark an empty way.
        let end = self.llc.line().0 - 1;
        if u64::from(stream.space) >= end {
            return Err(LlcError::Space {
                stream: at,
                space: stream.space,
                end,
            });
        }
        let mut objects: Vec<_> = stream.objects.iter().map(|object| &object.addresses).collect();
        objects.sort_by_key(|addresses| addresses.start);
        let mut free_from = 0;
        for addresses in objects {
            if addresses.start < free_from || addresses.end < addresses.start {
                return Err(LlcError::Objects {
                    stream: at,
                    address: addresses.start,
                });
            }
            free_from = addresses.end;
        }
        let treatments = stream.objects.iter().map(|object| object.treatment);
        for treatment in treatments.chain([stream.rest]) {
            if let Some(mask) = treatment.colours
                && self.colouring(mask).is_none()
            {
                return Err(LlcError::Colours {
                    stream: at,
                    mask: mask.0,
                    colours: self.colours,
                });
            }
        }
        Ok(())
    }

    fn colouring(&self, mask: ColourMask) -> Option<Colouring> {
        Colouring::new(self.llc.sets(), self.llc.line().0, self.colours, mask)
    }
}
