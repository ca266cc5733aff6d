//! Cache sizes for the tables, and what follows from them: from `SET corun.*`, else from the machine, asked once.

use crate::{CorunOptions, calibration};
use datafusion::config::ConfigOptions;
use exec::table::BuildOptions;
use model::mode::Hiding;
use model::technique::{Host, Work, choose};
use model::topology::Topology;
use model::units::Bytes;
use std::sync::OnceLock;

/// How to build a join table of so many rows: cache sizes in bytes as the session or the machine gives them, and from
/// which size on prefetching pays.
pub fn build_options(options: &CorunOptions, rows: usize) -> BuildOptions {
    let l2_bytes = l2_bytes(options);
    let prefetch_from_bytes = match calibration::for_work(options, rows) {
        // Prefetching was never faster: it is switched off.
        Some(calibration) => calibration
            .prefetch_probes_from()
            .map_or(usize::MAX, Bytes::as_usize),
        None => l2_bytes / 2,
    };
    BuildOptions {
        l2_bytes,
        llc_bytes: llc_bytes(options),
        prefetch_from_bytes,
        ..BuildOptions::default()
    }
}

/// Bytes of a core's private L2, or `exec`'s cautious guess where the machine does not tell.
pub fn l2_bytes(options: &CorunOptions) -> usize {
    if options.l2_bytes == 0 {
        topology()
            .cache_bytes(2)
            .map_or(BuildOptions::default().l2_bytes, Bytes::as_usize)
    } else {
        options.l2_bytes
    }
}

/// Bytes of last-level cache to count on, or `exec`'s cautious guess where the machine does not tell.
pub fn llc_bytes(options: &CorunOptions) -> usize {
    if options.llc_bytes == 0 {
        topology()
            .planning_llc_bytes()
            .map_or(BuildOptions::default().llc_bytes, Bytes::as_usize)
    } else {
        options.llc_bytes
    }
}

/// This machine, looked at once.
pub fn topology() -> &'static Topology {
    static TOPOLOGY: OnceLock<Topology> = OnceLock::new();
    TOPOLOGY.get_or_init(machine::topology::discover)
}

/// How `tuples` lookups at a time in an index hide latency: what the calibration found, or prefetching where the tree is
/// larger than half the L2. `levels` are the nodes a lookup reads, `tree_bytes` their memory.
pub fn index_probe(config: &ConfigOptions, tree_bytes: usize, levels: usize, table_rows: usize) -> Hiding {
    let options = CorunOptions::of(config);
    let work = Work {
        table: Bytes(tree_bytes as u64),
        references: levels as f64,
        hit_rate: 1.0,
        even: true,
        tuples: config.execution.batch_size.get() as u64,
        ordered: true,
        threads: 1,
    };
    let host = Host {
        l2: Bytes(l2_bytes(&options) as u64),
        // Engines keep all cores busy with partitions: a helper thread would take one away.
        siblings: false,
    };
    choose(&work, &host, calibration::for_work(&options, table_rows))
        .mode
        .hiding
}
