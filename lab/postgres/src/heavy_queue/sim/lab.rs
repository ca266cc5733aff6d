//! [`Lab`]: traced queries on the simulated cores: alone, in fewer ways, beside each other.
//!
//! Both of two queries begin at once, as the paper's instances did, and the shorter is repeated until the longer has ended once. What the
//! statement is warmed with is part of its own trace ([`Traced::warm_up`]) and counts for nothing.
//!
//! Not here: which queries and ways are of interest.

use corun_cachesim::WayMask;
use corun_cachesim::llc::filtered::Filtered;
use corun_cachesim::llc::{AtEnd, Overlap, Run, Stream, Treatment};
use corun_model::cache::locality::{Footprint, Locality};

use super::platform::{CYCLES_PER_NS, Platform, refused};
use lab_core::error::BenchError;

/// A query and what got past its first level of caches.
#[derive(Clone, Debug)]
pub struct Traced {
    /// Its name in rows.
    pub name: String,
    /// Its class in the simulated cache.
    pub class: Locality,
    /// What it keeps in the cache: its hash tables.
    pub footprint: Footprint,
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
    pub fn alone(&self, query: &Traced, ways: Option<WayMask>) -> Result<Ran, BenchError> {
        let placed = query.trace.placed(0);
        let stream = self.stream(query, &placed, ways);
        let runs = self.platform.domain().corun(&[stream]).map_err(refused)?;
        self.ran(query, runs.first())
    }

    /// Two queries beside each other, each filling the given ways or any.
    pub fn beside(&self, queries: [&Traced; 2], ways: [Option<WayMask>; 2]) -> Result<[Ran; 2], BenchError> {
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
        placed: &'t corun_cachesim::llc::filtered::Placed<'t>,
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

#[cfg(test)]
pub(super) mod example {
    //! Recordings with known answers.

    use corun_cachesim::llc::filtered::Filter;
    use corun_model::units::Bytes;

    use super::*;
    use corun_workloads::numbers::{below, draw};

    /// Instructions before each access.
    const WORK: usize = 200;

    /// A query that comes to `lines` lines of its own by chance, `accesses` times.
    pub fn query(name: &str, class: Locality, platform: &Platform, lines: u64, accesses: u64) -> Traced {
        let mut filter = Filter::new(platform.first_level(), platform.first_level());
        for number in 0..accesses {
            for _ in 0..WORK {
                filter.line(b"I  00001000,4");
            }
            let line = below(draw(7, lines, number), lines);
            filter.line(format!(" L {:x},8", (1 << 30) + line * 64).as_bytes());
        }
        Traced {
            name: name.to_owned(),
            class,
            footprint: match class {
                Locality::Weak => Footprint::Streams,
                _ => Footprint::Tables(Bytes(lines * 64)),
            },
            trace: filter.finish(|line| line >= 1 << 24).expect("few"),
            warm_up: 0.4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::example::query;
    use super::*;
    use crate::heavy_queue::sim::platform::lowest;

    /// A cache of 4096 lines, a table of 2800, and a query that comes back to nothing.
    #[test]
    fn a_table_that_fits_is_hurt_by_who_floods_and_saved_by_ways() {
        let lab = Lab {
            platform: Platform::paper(16).expect("a platform"),
        };
        let table = query("table", Locality::Moderate, &lab.platform, 2800, 30_000);
        let flood = query("flood", Locality::Weak, &lab.platform, 1 << 18, 30_000);
        let alone = lab.alone(&table, None).expect("runs");
        assert!(alone.miss_rate < 0.1, "{alone:?}");
        let few = lab.alone(&table, Some(lowest(2))).expect("runs");
        assert!(
            few.miss_rate > 0.7 && few.seconds > 1.2 * alone.seconds,
            "{few:?}"
        );
        let [hurt, _] = lab.beside([&table, &flood], [None, None]).expect("runs");
        let [saved, flooding] = lab
            .beside([&table, &flood], [None, Some(lowest(2))])
            .expect("runs");
        assert!(hurt.miss_rate > 2.0 * saved.miss_rate, "{hurt:?} {saved:?}");
        assert!(saved.seconds < hurt.seconds && alone.seconds <= saved.seconds);
        let flood_alone = lab.alone(&flood, None).expect("runs");
        assert!(flooding.seconds < 1.05 * flood_alone.seconds, "{flooding:?}");
        // Two of the flood share nothing but are not hurt.
        let [own, _] = lab.beside([&flood, &flood], [None, None]).expect("runs");
        assert!(own.seconds < 1.05 * flood_alone.seconds, "{own:?}");
    }

    /// Cycles of a query that misses always: one for each instruction and 332 for each access.
    #[test]
    fn cycles_are_instructions_and_latencies() {
        let lab = Lab {
            platform: Platform::paper(16).expect("a platform"),
        };
        let flood = query("flood", Locality::Weak, &lab.platform, 1 << 22, 20_000);
        let ran = lab.alone(&flood, None).expect("runs");
        let expected = 1.0 + 125.0 * CYCLES_PER_NS * ran.misses_per_kilo_instructions / 1e3;
        assert!(
            (ran.cycles_per_instruction - expected).abs() < 0.05,
            "{ran:?} {expected}"
        );
        assert!((ran.misses_per_kilo_instructions - 5.0).abs() < 0.2, "{ran:?}");
    }
}
