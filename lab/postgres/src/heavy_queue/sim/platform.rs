//! [`Platform`]: the simulated machine, paper 002's with a smaller shared cache, and how its cache is divided.
//!
//! ```text
//!   paper's Core 2 Quad          here
//!   L1-I, L1-D 32 KiB, 8 ways    the same: what PostgreSQL keeps there, its code and the state of a row, does not shrink with the data
//!   L2 4 MiB, 16 ways, shared    the same, divided by `scale`; tables are made for it
//! ```
//!
//! Latencies are those of [`Machine`]'s preset; cores do not overlap the misses of PostgreSQL's rows, each of which takes hundreds of
//! instructions, except where a prefetcher sees them coming. Nothing here is fitted to the paper's figures.

use corun_cachesim::llc::{Domain, LlcError};
use corun_cachesim::{Geometry, WayMask};
use corun_model::cache::partition::{
    CacheDomain, CachePart, CacheResource, Capabilities, Class, DefaultShare, Group, Schemata,
    WayMask as Mask, Wishes, default_weak_ways, plan,
};
use corun_model::units::{Bytes, Ways};

use lab_core::error::BenchError;
use lab_engine::shared_cache::sim::{Machine, Preset, SimError};

/// First-level caches of the Core 2 Quad.
const FIRST_LEVEL: Bytes = Bytes::kib(32);
const FIRST_LEVEL_WAYS: Ways = Ways(8);
const LINE: Bytes = Bytes(64);
/// Cycles an instruction takes whose line is in the first level. Typical of PostgreSQL on such cores; unmeasured.
const CYCLES_PER_INSTRUCTION: f64 = 1.0;
/// Cycles a nanosecond: 2.66 GHz.
pub const CYCLES_PER_NS: f64 = 2.66;
/// The resource and domain of the plan of ways.
const RESOURCE: &str = "L3";
const DOMAIN: u32 = 0;

/// The machine.
#[derive(Clone, Debug)]
pub struct Platform {
    machine: Machine,
    domain: Domain,
    first_level: Geometry,
}

/// Which ways the two classes may fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Weak queries.
    pub weak: WayMask,
    /// All others.
    pub other: WayMask,
}

impl Platform {
    /// The paper's, its shared cache divided by `scale`.
    ///
    /// # Errors
    /// A cache that is no cache.
    pub fn paper(scale: u64) -> Result<Platform, BenchError> {
        let mut machine = Machine::preset(Preset::Paper, scale);
        // The first level is filtered as accesses come; what gets past it is what the domain sees.
        machine.private = Bytes(0);
        let domain = machine.domain()?;
        let level = "the first level";
        let first_level = Geometry::new(FIRST_LEVEL, FIRST_LEVEL_WAYS, LINE)
            .map_err(|reason| SimError::Geometry { level, reason })?;
        Ok(Platform {
            machine,
            domain,
            first_level,
        })
    }

    /// The shared cache: `C`.
    pub fn cache(&self) -> Bytes {
        self.machine.llc
    }

    /// Its ways.
    pub fn ways(&self) -> u32 {
        self.machine.ways
    }

    /// Each of the two first-level caches.
    pub fn first_level(&self) -> Geometry {
        self.first_level
    }

    /// Two cores over the shared cache.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Time of so many instructions that miss nothing, in nanoseconds.
    pub fn instructions_ns(&self, instructions: u64) -> f64 {
        instructions as f64 * CYCLES_PER_INSTRUCTION / CYCLES_PER_NS
    }

    /// The shares that corun's partitioner plans for this cache: its own default, or the paper's, whose other class may fill all.
    pub fn shares(&self, default: DefaultShare) -> Result<Shares, BenchError> {
        let ways = Ways(self.machine.ways);
        let all = Mask::window(0, ways);
        let mut schemata = Schemata::default();
        schemata.set(RESOURCE, DOMAIN, all.0);
        let capabilities = Capabilities {
            caches: vec![CacheResource {
                name: RESOURCE.to_owned(),
                level: 3,
                part: CachePart::Unified,
                full: all,
                ways_min: Ways(1),
                sparse: false,
                hardware: Mask::default(),
                domains: vec![CacheDomain {
                    id: DOMAIN,
                    closed: Mask::default(),
                }],
            }],
            classes: 4,
            root: Group {
                schemata,
                ..Group::default()
            },
            ..Capabilities::default()
        };
        let wishes = Wishes {
            weak_ways: default_weak_ways(&capabilities, None),
            default,
            level: None,
            domains: None,
            weak_bandwidth_percent: None,
        };
        let planned = plan(&capabilities, &wishes)
            .map_err(|error| BenchError::Data(format!("no plan of ways: {error}")))?;
        let of = |class: Class| {
            let share = planned.shares.iter().find(|share| share.class == class);
            let mask = share.and_then(|share| share.schemata.get(RESOURCE, DOMAIN));
            mask.map(|mask| WayMask(u64::from(mask)))
                .ok_or_else(|| BenchError::Data(format!("the plan of ways has none for {}", class.group())))
        };
        Ok(Shares {
            weak: of(Class::Weak)?,
            other: of(Class::Default)?,
        })
    }
}

/// The `count` lowest ways.
pub fn lowest(count: u32) -> WayMask {
    WayMask(u64::MAX >> (u64::BITS - count.clamp(1, u64::BITS)))
}

/// A simulation that is refused is a mistake of this module.
pub fn refused(error: LlcError) -> BenchError {
    SimError::from(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planner_gives_weak_queries_two_of_sixteen_ways() {
        let platform = Platform::paper(8).expect("a platform");
        assert_eq!((platform.cache(), platform.ways()), (Bytes::kib(512), 16));
        let apart = platform.shares(DefaultShare::Rest).expect("a plan");
        assert_eq!(apart.weak.0.count_ones(), 2);
        assert_eq!(apart.weak.0 | apart.other.0, 0xffff);
        assert_eq!(apart.weak.0 & apart.other.0, 0);
        let as_the_paper = platform.shares(DefaultShare::All).expect("a plan");
        assert_eq!(as_the_paper.other.0, 0xffff);
        assert_eq!([1, 16].map(|count| lowest(count).0), [1, 0xffff]);
    }
}
