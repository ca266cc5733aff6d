//! [`Lab`]: traced queries on the simulated cores: alone, in fewer ways, beside each other.
//!
//! Both of two queries begin at once, as the paper's instances did, and the shorter is repeated until the longer has ended once. What the
//! statement is warmed with is part of its own trace ([`Traced::warm_up`]) and counts for nothing.
//!
//! Not here: which queries and ways are of interest.

use cachesim::WayMask;
use cachesim::llc::filtered::Filtered;
use cachesim::llc::{AtEnd, Overlap, Run, Stream, Treatment};
use model::locality::Locality;

use super::platform::{CYCLES_PER_NS, Platform, refused};
use crate::error::BenchError;

/// A query and what got past its first level of caches.
#[derive(Clone, Debug)]
pub struct Traced {
    /// Its name in rows.
    pub name: String,
    /// Its class in the simulated cache.
    pub class: Locality,
    /// Bytes of its hash tables.
    pub hash_bytes: u64,
    /// What it misses.
    pub trace: Filtered,
    /// The part of the trace that only fills the cache: 0 to below 1.
    pub warm_up: f64,
}

/// What became of a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ran {
    /// Seconds all of its trace takes at the pace of the counted part.
    pub seconds: f64,
    /// Part of its accesses to the shared cache that missed.
    pub miss_rate: f64,
    /// Cycles an instruction.
    pub cycles_per_instruction: f64,
    /// Misses of the shared cache per thousand instructions.
    pub misses_per_kilo_instructions: f64,
}

/// Traced queries on a platform.
#[derive(Clone, Debug)]
pub struct Lab {
    /// Where they run.
    pub platform: Platform,
}

impl Lab {
    /// The query with the whole cache, or with so many of its ways, to itself.
    ///
    /// # Errors
    /// When the simulation is refused.
    pub fn alone(&self, query: &Traced, ways: Option<WayMask>) -> Result<Ran, BenchError> {
        let placed = query.trace.placed(0);
        let stream = self.stream(query, &placed, ways);
        let runs = self.platform.domain().corun(&[stream]).map_err(refused)?;
        self.ran(query, runs.first())
    }

    /// Two queries beside each other, each filling the given ways or any.
    ///
    /// # Errors
    /// When the simulation is refused.
    pub fn beside(
        &self,
        queries: [&Traced; 2],
        ways: [Option<WayMask>; 2],
    ) -> Result<[Ran; 2], BenchError> {
        let [first, second] = [queries[0].trace.placed(0), queries[1].trace.placed(1)];
        let streams = [
            self.stream(queries[0], &first, ways[0]),
            self.stream(queries[1], &second, ways[1]),
        ];
        let runs = self.platform.domain().corun(&streams).map_err(refused)?;
        Ok([
            self.ran(queries[0], runs.first())?,
            self.ran(queries[1], runs.get(1))?,
        ])
    }

    fn stream<'t>(
        &self,
        query: &Traced,
        placed: &'t cachesim::llc::filtered::Placed<'t>,
        ways: Option<WayMask>,
    ) -> Stream<'t> {
        let misses = query.trace.misses().max(1) as f64;
        Stream {
            source: placed,
            // All addresses are physical: what two processes share lies at the same ones.
            space: 0,
            ways,
            objects: Vec::new(),
            rest: Treatment {
                colours: None,
                overlap: Overlap::Dependent,
            },
            work_ns: self.platform.instructions_ns(query.trace.instructions()) / misses,
            warm_up_events: (misses * query.warm_up) as u64,
            at_end: AtEnd::Restart,
        }
    }

    fn ran(&self, query: &Traced, run: Option<&Run>) -> Result<Ran, BenchError> {
        let run = run.ok_or_else(|| BenchError::Data(format!("{} did not run", query.name)))?;
        let counted = 1.0 - query.warm_up;
        let instructions = query.trace.instructions() as f64 * counted;
        Ok(Ran {
            seconds: run.time_ns / counted / 1e9,
            miss_rate: run.llc().miss_rate(),
            cycles_per_instruction: run.time_ns * CYCLES_PER_NS / instructions.max(1.0),
            misses_per_kilo_instructions: run.llc().misses as f64 * 1e3 / instructions.max(1.0),
        })
    }
}
