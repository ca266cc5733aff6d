//! Cache sizes for the operators: from `SET corun.*`, else from the machine, asked once.

use crate::{CorunOptions, calibration};
use exec::table::BuildOptions;
use model::topology::Topology;
use model::units::Bytes;
use std::sync::OnceLock;

/// How to build a join table of so many rows: cache sizes in bytes as the session or the machine gives them, and from
/// which size on prefetching pays.
pub fn build_options(options: &CorunOptions, rows: usize) -> BuildOptions {
    let l2_bytes = l2_bytes(options);
    let llc_bytes = if options.llc_bytes == 0 {
        topology()
            .planning_llc_bytes()
            .map_or(BuildOptions::default().llc_bytes, Bytes::as_usize)
    } else {
        options.llc_bytes
    };
    let prefetch_from_bytes = match calibration::for_work(options, rows) {
        // Prefetching was never faster: it is switched off.
        Some(calibration) => calibration
            .prefetch_probes_from()
            .map_or(usize::MAX, Bytes::as_usize),
        None => l2_bytes / 2,
    };
    BuildOptions {
        l2_bytes,
        llc_bytes,
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

/// This machine, looked at once.
pub fn topology() -> &'static Topology {
    static TOPOLOGY: OnceLock<Topology> = OnceLock::new();
    TOPOLOGY.get_or_init(machine::topology::discover)
}
