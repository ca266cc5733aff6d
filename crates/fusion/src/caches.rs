//! Cache sizes for the tables, and what follows from them: from `SET corun.*`, else from the machine, asked once.

use crate::CorunOptions;
use datafusion::config::ConfigOptions;
use exec::table::BuildOptions;
use model::mode::{Hiding, Schedule};
use std::sync::OnceLock;

/// Cache sizes in bytes as the session or the machine gives them.
pub fn build_options(config: &ConfigOptions) -> BuildOptions {
    let options = CorunOptions::of(config);
    let (l2, llc) = machine_caches();
    BuildOptions {
        l2_bytes: if options.l2_bytes == 0 {
            l2
        } else {
            options.l2_bytes
        },
        llc_bytes: if options.llc_bytes == 0 {
            llc
        } else {
            options.llc_bytes
        },
        ..BuildOptions::default()
    }
}

/// How lookups in an index of `tree_bytes` hide latency: not at all where the tree stays in a core's private cache beside
/// the batches that pass through it, else by prefetching for groups of keys.
pub fn index_probe(config: &ConfigOptions, tree_bytes: usize) -> Hiding {
    if tree_bytes > build_options(config).l2_bytes / 2 {
        Hiding::Prefetch {
            schedule: Schedule::Group,
            distance: GROUP_KEYS,
        }
    } else {
        Hiding::None
    }
}

/// Keys of a prefetch group. Groups of 32 to 64 hide the latency of a join table's probes here (`docs/src/join-table.md`).
const GROUP_KEYS: u16 = 32;

/// (private L2, last-level) bytes of this machine, or `exec`'s cautious guess where it does not tell.
fn machine_caches() -> (usize, usize) {
    static CACHES: OnceLock<(usize, usize)> = OnceLock::new();
    *CACHES.get_or_init(|| {
        let guess = BuildOptions::default();
        let topology = machine::topology::discover();
        let bytes = |found: Option<model::units::Bytes>, otherwise: usize| {
            found.map_or(otherwise, |bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX))
        };
        (
            bytes(topology.cache_bytes(2), guess.l2_bytes),
            bytes(topology.planning_llc_bytes(), guess.llc_bytes),
        )
    })
}
