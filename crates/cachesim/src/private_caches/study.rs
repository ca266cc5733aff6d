//! [`Setting`]: the sides that are compared on one machine with one workload, as [`Plan`]s.
//!
//! ```text
//!   side                      backends           queries                                Best Sellers
//!   os free, os sticky        one a client       come to the backend of their client    as any query
//!   random                    one a thread       come to any                            as any query
//!   range                     one a thread       come to the owner of their key         as any query
//!   range whole               one a thread       to the owner, on three quarters        whole, on a quarter of the cores
//!   range caric_1, caric_2    one a thread       likewise                               in parts: the paper's two placements
//! ```
//!
//! A quarter of the cores is the paper's 20 of 80 hardware threads. Parts of a Best Seller are the paper's too: half as many as threads there for
//! CARIC-DA-1 (10 and 6), a quarter for CARIC-DA-2 (5 and 3).
//!
//! Not here: running them, which is [`Plan::run`].

use super::platform::Platform;
use super::run::{Dispatch, Placement, Plan, Reserved, Scheduler};
use super::workload::{Kind, Sizes, WAREHOUSES, Workload};

/// Of how many cores one is reserved.
const RESERVED_OF: usize = 4;
/// Fewest queries of each thread before counting.
const WARM_UP_MIN: usize = 24;
/// Lines of the second level for one more query before counting: two threads bring more than so many that were not there, each query.
const WARM_UP_LINES: u64 = 128;

/// What happens to Best Sellers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// They run among the others.
    Mixed,
    /// They run whole on cores of their own.
    Whole,
    /// CARIC-DA-1.
    First,
    /// CARIC-DA-2.
    Second,
}

impl Split {
    /// The key `split` of rows.
    pub fn name(self) -> &'static str {
        match self {
            Split::Mixed => "none",
            Split::Whole => "whole",
            Split::First => "caric_1",
            Split::Second => "caric_2",
        }
    }
}

/// One side of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Who runs what where.
    pub dispatch: Dispatch,
    /// What happens to Best Sellers.
    pub split: Split,
}

/// What all sides have in common.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The machine.
    pub platform: Platform,
    /// What is run.
    pub kind: Kind,
    /// How large the database is.
    pub sizes: Sizes,
    /// Clients, which are backends where the operating system dispatches.
    pub clients: usize,
    /// Queries of each thread that are counted.
    pub counted: usize,
    /// Seed.
    pub seed: u64,
}

impl Setting {
    /// The sides of these dispatches: the system's with both schedulers; splitting with ranges, where there are Best Sellers.
    pub fn sides(&self, os: bool, random: bool, range: bool) -> Vec<Side> {
        let mixed = |dispatch| Side {
            dispatch,
            split: Split::Mixed,
        };
        let mut sides = Vec::new();
        if os {
            sides
                .extend([Scheduler::Free, Scheduler::Sticky].map(|scheduler| mixed(Dispatch::Os(scheduler))));
        }
        if random {
            sides.push(mixed(Dispatch::Random));
        }
        if range {
            sides.push(mixed(Dispatch::Range));
            if self.kind == Kind::Tpcw && self.sizes.best_seller_steps > 0 {
                sides.extend([Split::Whole, Split::First, Split::Second].map(|split| Side {
                    dispatch: Dispatch::Range,
                    split,
                }));
            }
        }
        sides
    }

    /// Hardware threads that run Best Sellers only, where they are apart.
    pub fn reserved_cores(&self) -> usize {
        (self.platform.cores / RESERVED_OF)
            .max(1)
            .min(self.platform.cores.saturating_sub(1))
    }

    /// The simulation of one side.
    pub fn plan(&self, side: Side) -> Plan {
        let cores = self.reserved_cores();
        let reserved = |placement| {
            Some(Reserved {
                cores,
                parts: self.parts(side.split),
                placement,
            })
        };
        let lines = self.platform.l2.size().0 / self.platform.l2.line().0;
        Plan {
            platform: self.platform.clone(),
            dispatch: side.dispatch,
            clients: self.clients,
            reserved: match side.split {
                Split::Mixed => None,
                Split::Whole | Split::First => reserved(Placement::Spread),
                Split::Second => reserved(Placement::Siblings),
            },
            warm_up: WARM_UP_MIN.max((lines / WARM_UP_LINES) as usize),
            counted: self.counted,
            seed: self.seed,
        }
    }

    /// Parts of each Best Seller under a split.
    pub fn parts(&self, split: Split) -> usize {
        let threads = self.reserved_cores() * self.platform.threads_per_core;
        match split {
            Split::Mixed | Split::Whole => 1,
            Split::First => (threads / 2).max(1),
            Split::Second => (threads / 4).max(1),
        }
    }

    /// The same with a database of which each core's range has `ratio` times the bytes of its second level.
    pub fn with_range_of(&self, ratio: f64, workload: &Workload) -> Setting {
        let wanted = ratio * (self.platform.cores as u64 * self.platform.l2.size().0) as f64;
        let factor = wanted / workload.bytes() as f64;
        let grown = |rows: u64| ((rows as f64 * factor) as u64).max(self.platform.threads() as u64);
        Setting {
            sizes: Sizes {
                items: grown(self.sizes.items),
                customers: grown(self.sizes.customers),
                warehouses: ((self.sizes.warehouses as f64 * factor) as u64).max(1),
                ..self.sizes
            },
            ..self.clone()
        }
    }
}

/// The sizes the paper has, or usual ones: a million items or accounts, 2,880,000 customers, a warehouse a hardware thread.
pub fn usual_sizes(platform: &Platform) -> Sizes {
    Sizes {
        items: 1_000_000,
        customers: 2_880_000,
        warehouses: (platform.threads() as u64).max(WAREHOUSES),
        skew: 0.0,
        best_seller_steps: 0,
    }
}
