//! [`Machine`]: the simulated machine, from a preset or given piece by piece.
//!
//! Not here: what the latencies of the machine at hand are; `corun topology --measure` says.

use std::str::FromStr;

use corun_cachesim::llc::{Domain, Overlap, PrivateLevel};
use corun_cachesim::{Geometry, Replacement};
use corun_model::units::{Bytes, Ways};

use super::error::SimError;

/// Bytes of a line, everywhere.
const LINE: Bytes = Bytes(64);
/// Bytes of a page, which has one colour.
const PAGE_BYTES: u64 = 4096;
/// Ways of private caches.
const PRIVATE_WAYS: Ways = Ways(8);
/// Colours there are at most (paper 002, section 6.1).
const COLOURS_MAX: u64 = 32;
/// Smallest and largest shared cache. Streams are some times as large, and their traces are kept in memory.
const LLC_MIN: Bytes = Bytes::kib(64);
const LLC_MAX: Bytes = Bytes::mib(32);

/// A machine by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The Core 2 Quad of paper 002: 4 MB in 16 ways behind 32 KiB, and an engine as slow as that of 2009, in which a row's probe
    /// waits. The paper gives no latencies; 5.3 ns (14 cycles) and 125 ns are typical of the machine. The work of an access is chosen
    /// so that PLQ_5's hash join beside PLQ_25's index join takes 1.56 times as long as alone (section 7.1: 66 s after 42.19 s);
    /// everything else follows, among it that it then misses 29 % (there 28 %).
    Paper,
    /// A server of today with corun on it, an eighth of its caches (32 MiB in 16 ways behind 2 MiB): probes overlap, since they are
    /// prefetched in batches. Times are typical; the work is unmeasured.
    Modern,
}

impl Preset {
    /// Names on the command line.
    pub const NAMES: [&'static str; 2] = ["paper", "modern"];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Paper => "paper",
            Preset::Modern => "modern",
        }
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(name: &str) -> Result<Preset, String> {
        match name {
            "paper" => Ok(Preset::Paper),
            "modern" => Ok(Preset::Modern),
            _ => Err(format!("there is no machine \"{name}\"")),
        }
    }
}

/// What is simulated. All times in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Capacity of the shared cache.
    pub llc: Bytes,
    /// Its ways.
    pub ways: u32,
    /// How it chooses what leaves.
    pub replacement: Replacement,
    /// Capacity of the cache each core has for itself; none at 0.
    pub private: Bytes,
    /// Time to load a line from the private cache.
    pub private_ns: f64,
    /// Time to load a line from the shared cache.
    pub llc_ns: f64,
    /// Time to load a line from memory.
    pub memory_ns: f64,
    /// Accesses under way at once where they do not wait for each other.
    pub parallelism: f64,
    /// Instructions around each access.
    pub work_ns: f64,
    /// Whether probes of tables wait for each other.
    pub table: Overlap,
    /// Whether rows behind an index, whose numbers are known in batches, and its nodes do.
    pub sought: Overlap,
}

impl Machine {
    /// A preset, all caches divided by `scale`. Queries shrink with the cache, so that a scaled machine behaves like the whole one and takes
    /// less time to simulate.
    pub fn preset(preset: Preset, scale: u64) -> Machine {
        let scaled = |bytes: Bytes| Bytes(bytes.0 / scale.max(1));
        match preset {
            Preset::Paper => Machine {
                llc: scaled(Bytes::mib(4)),
                ways: 16,
                replacement: Replacement::Lru,
                private: scaled(Bytes::kib(32)),
                private_ns: 1.1,
                llc_ns: 5.3,
                memory_ns: 125.0,
                parallelism: 8.0,
                work_ns: 14.0,
                table: Overlap::Dependent,
                sought: Overlap::Independent,
            },
            Preset::Modern => Machine {
                llc: scaled(Bytes::mib(4)),
                ways: 16,
                replacement: Replacement::TreePlru,
                private: scaled(Bytes::kib(256)),
                private_ns: 4.0,
                llc_ns: 20.0,
                memory_ns: 100.0,
                parallelism: 10.0,
                work_ns: 1.0,
                table: Overlap::Independent,
                sought: Overlap::Independent,
            },
        }
    }

    /// Colours of its pages: at most 32, and as many as a way has pages.
    pub fn colours(&self) -> u32 {
        let pages = (self.llc.0 / u64::from(self.ways.max(1)) / PAGE_BYTES).max(1);
        let mut colours = COLOURS_MAX;
        while colours > 1 && !pages.is_multiple_of(colours) {
            colours /= 2;
        }
        colours as u32
    }

    /// The domain to simulate.
    ///
    /// # Errors
    /// [`SimError::Size`], [`SimError::Geometry`] for caches that cannot be. Latencies are looked at when something runs.
    pub fn domain(&self) -> Result<Domain, SimError> {
        if !(LLC_MIN..=LLC_MAX).contains(&self.llc) {
            return Err(SimError::Size {
                given: self.llc.0,
                min: LLC_MIN.0,
                max: LLC_MAX.0,
            });
        }
        let geometry = |level, size, ways| {
            Geometry::new(size, ways, LINE).map_err(|reason| SimError::Geometry { level, reason })
        };
        let mut private = Vec::new();
        if self.private.0 > 0 {
            private.push(PrivateLevel {
                geometry: geometry("the private cache", self.private, PRIVATE_WAYS)?,
                latency_ns: self.private_ns,
            });
        }
        Ok(Domain {
            private,
            llc: geometry("the shared cache", self.llc, Ways(self.ways))?,
            replacement: self.replacement,
            llc_ns: self.llc_ns,
            memory_ns: self.memory_ns,
            parallelism: self.parallelism,
            colours: self.colours(),
        })
    }
}
