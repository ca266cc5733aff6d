//! [`Lab`]: a mix on a machine, alone and together, undivided or divided.
//!
//! ```text
//!   division        a weak query                              a strong or moderate one
//!   undivided       everything everywhere                     everything everywhere
//!   ways n          fills ways 0 to n - 1                     fills all ways                  by class: what resctrl does
//!   colours n       lies in colours 0 to n - 1                its table in all, the rest in colours 0 to n - 1      the paper
//!   apart n         lies in colours 0 to n - 1                its table in the others, the rest in colours 0 to n - 1
//! ```
//!
//! The calls: [`Lab::new`] records the queries and runs each alone, then [`Lab::corun`] for each division.
//!
//! Not here: which divisions are of interest; that is the caller's, or [`super::figures`].

use corun_cachesim::WayMask;
use corun_cachesim::llc::{AtEnd, ColourMask, Domain, Object, Overlap, Run, Stream, Treatment};
use corun_model::cache::locality::Locality;
use corun_model::units::Bytes;

use super::error::SimError;
use super::machine::Machine;
use super::operators::record;
use super::query::{QUERIES_MAX, Query};
use super::trace::{Role, Trace};

/// How the shared cache is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// Not at all.
    Undivided,
    /// Weak queries fill so many ways.
    Ways(u32),
    /// Weak queries and the buffer pool have so many colours; tables have all (paper 002, section 6.2).
    Colours(u32),
    /// The same, but tables keep off those colours.
    Apart(u32),
}

impl Division {
    /// The value of the key `partition`.
    pub fn name(self) -> &'static str {
        match self {
            Division::Undivided => "none",
            Division::Ways(_) => "ways",
            Division::Colours(_) => "colours",
            Division::Apart(_) => "apart",
        }
    }

    /// Ways or colours of weak queries; 0 if undivided.
    pub fn weak(self) -> u32 {
        match self {
            Division::Undivided => 0,
            Division::Ways(count) | Division::Colours(count) | Division::Apart(count) => count,
        }
    }
}

/// A recorded query.
struct Recorded {
    query: Query,
    locality: Locality,
    trace: Trace,
    alone: Run,
}

impl Recorded {
    /// What became of it in this run, against running alone.
    fn beside(&self, run: &Run) -> Outcome {
        Outcome {
            query: self.query,
            locality: self.locality,
            table: self.trace.bytes(Role::Table),
            miss_rate_alone: self.alone.llc().miss_rate(),
            miss_rate: run.llc().miss_rate(),
            slow_down: run.slow_down(&self.alone),
        }
    }
}

/// What became of one query of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The query.
    pub query: Query,
    /// Its class in this cache.
    pub locality: Locality,
    /// Its table, as built.
    pub table: Bytes,
    /// Part of its accesses to the shared cache that missed, alone in the whole cache.
    pub miss_rate_alone: f64,
    /// The same beside the others.
    pub miss_rate: f64,
    /// Its time beside the others against its time alone in the whole cache.
    pub slow_down: f64,
}

/// A mix on a machine.
pub struct Lab {
    machine: Machine,
    domain: Domain,
    queries: Vec<Recorded>,
}

impl Lab {
    /// Records the queries and runs each alone. Query `n` has seed `seed + n`: two of one name are two, with data of their own.
    ///
    /// # Errors
    /// [`SimError`]: no queries or too many, tables too large, a machine that cannot be, or operators that fail.
    pub fn new(machine: &Machine, mix: &[Query], seed: u64) -> Result<Lab, SimError> {
        if !(1..=QUERIES_MAX).contains(&mix.len()) {
            return Err(SimError::Queries {
                given: mix.len(),
                most: QUERIES_MAX,
            });
        }
        let mut lab = Lab {
            machine: machine.clone(),
            domain: machine.domain()?,
            queries: Vec::new(),
        };
        for (at, query) in mix.iter().enumerate() {
            query.check(machine.llc).map_err(|reason| SimError::Query {
                number: at + 1,
                text: query.to_string(),
                reason,
            })?;
        }
        for (at, query) in mix.iter().enumerate() {
            let trace = record(query, machine.llc, seed.wrapping_add(at as u64))?;
            let locality = query.locality(machine.llc)?;
            let stream = lab.stream(&trace, locality, at, Division::Undivided);
            let alone = lab.domain.alone(&stream)?;
            lab.queries.push(Recorded {
                query: *query,
                locality,
                trace,
                alone,
            });
        }
        Ok(lab)
    }

    /// Refuses a division that the machine cannot have.
    ///
    /// # Errors
    /// [`SimError::Share`], which says what there is.
    pub fn check(&self, division: Division) -> Result<(), SimError> {
        let colours = self.machine.colours();
        let (there_are, most, what) = match division {
            Division::Undivided => return Ok(()),
            Division::Ways(_) => (self.machine.ways, self.machine.ways, "ways"),
            Division::Colours(_) => (colours, colours, "colours"),
            // Tables that keep off all colours would have none.
            Division::Apart(_) => (colours, colours - 1, "colours with tables apart"),
        };
        let given = division.weak();
        if !(1..=most).contains(&given) {
            return Err(SimError::Share(format!(
                "weak queries cannot have {given} {what}: this cache has {there_are}, they may have 1 to {most}"
            )));
        }
        Ok(())
    }

    /// What becomes of each query when all run together. Each is restarted until all have ended once.
    ///
    /// # Errors
    /// As [`Lab::check`].
    pub fn corun(&self, division: Division) -> Result<Vec<Outcome>, SimError> {
        self.check(division)?;
        let queries = self.queries.iter().enumerate();
        let streams: Vec<_> = queries
            .map(|(at, query)| self.stream(&query.trace, query.locality, at, division))
            .collect();
        let runs = self.domain.corun(&streams)?;
        let queries = self.queries.iter().zip(&runs);
        Ok(queries.map(|(query, run)| query.beside(run)).collect())
    }

    /// What becomes of each query alone if it fills so many ways only (paper 002, Figure 2).
    ///
    /// # Errors
    /// As [`Lab::check`].
    pub fn confined(&self, ways: u32) -> Result<Vec<Outcome>, SimError> {
        self.check(Division::Ways(ways))?;
        let queries = self.queries.iter().enumerate();
        let outcome = |(at, query): (usize, &Recorded)| {
            // Whatever its class, it is bound as a weak one is.
            let stream = self.stream(&query.trace, Locality::Weak, at, Division::Ways(ways));
            let mut runs = self.domain.corun(&[stream])?;
            Ok(query.beside(&runs.remove(0)))
        };
        queries.map(outcome).collect()
    }

    fn stream<'t>(&self, trace: &'t Trace, locality: Locality, at: usize, division: Division) -> Stream<'t> {
        let is_weak = locality == Locality::Weak;
        let all = ColourMask::first(self.domain.colours);
        let (table, rest) = match division {
            Division::Undivided | Division::Ways(_) => (None, None),
            Division::Colours(count) | Division::Apart(count) => {
                let few = ColourMask::first(count);
                let table = match (is_weak, division) {
                    (true, _) => few,
                    (false, Division::Apart(_)) => ColourMask(all.0 & !few.0),
                    (false, _) => all,
                };
                (Some(table), Some(few))
            }
        };
        let objects = trace.regions().iter().map(|region| Object {
            addresses: region.addresses.clone(),
            treatment: match region.role {
                Role::Table => Treatment {
                    colours: table,
                    overlap: self.machine.table,
                },
                Role::Sought => Treatment {
                    colours: rest,
                    overlap: self.machine.sought,
                },
                Role::Scanned | Role::State => Treatment {
                    colours: rest,
                    overlap: Overlap::Independent,
                },
            },
        });
        Stream {
            source: trace,
            space: at as u8,
            ways: match division {
                Division::Ways(count) if is_weak => {
                    Some(WayMask(u64::MAX >> (u64::BITS - count.clamp(1, u64::BITS))))
                }
                _ => None,
            },
            objects: objects.collect(),
            rest: Treatment {
                colours: rest,
                overlap: Overlap::Independent,
            },
            work_ns: self.machine.work_ns,
            warm_up_events: trace.warm_up_events(),
            at_end: AtEnd::Restart,
        }
    }
}
