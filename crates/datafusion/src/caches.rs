//! Cache sizes for the tables, and what follows from them: from `SET corun.*`, else from the machine, asked once.

use crate::index::Lookup;
use crate::options::JoinChoice;
use crate::{CorunOptions, calibration};
use corun_exec::table::BuildOptions;
use corun_model::cache::locality::{Classifier, Thresholds};
use corun_model::cache::reuse::{self, Reuse};
use corun_model::operators::technique::{Calibration, Host, Work, choose};
use corun_model::topology::Topology;
use corun_model::units::Bytes;
use datafusion::config::ConfigOptions;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use std::sync::OnceLock;

/// How to build a join table: cache sizes in bytes as the session or the machine gives them, and from which size on
/// prefetching pays.
pub fn build_options(options: &CorunOptions, calibration: Option<&Calibration>) -> BuildOptions {
    let l2_bytes = l2_bytes(options);
    let prefetch_from_bytes = match calibration {
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
        instructions: options.join_instructions.into(),
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

/// Whether lines read at random in `structure` bytes, a table or index with its payload, are worth a place in the shared cache.
///
/// By themselves joins are slower where lines pass by the caches, and no neighbour was measured to gain by it, so `auto` does so only in a
/// cache that the session was told of. Measured (EPYC VM, 32 MiB reported), CPU ns a probe kept and passing, by MiB of the table: 320 9.6,
/// 15.7; (Sapphire Rapids VM, 260 MiB reported, 8 counted on, builds beside it, kept in all caches): 64 7.4, 15.6; 256 10.4, 15.2;
/// 512 13.6, 15.0; 1024 16.4, 16.2.
pub fn reuse(options: &CorunOptions, structure: usize) -> Reuse {
    match options.streaming {
        JoinChoice::On => Reuse::Once,
        JoinChoice::Off => Reuse::Keep,
        JoinChoice::Auto => {
            // Of no bytes there is no classifier: everything is kept.
            let classifier = Classifier::new(Bytes(options.llc_bytes as u64), Thresholds::default());
            classifier.map_or(Reuse::Keep, |classifier| {
                reuse::choose(Bytes(structure as u64), &classifier)
            })
        }
    }
}

/// Of a limited memory pool what is kept between statements may have one over so many.
const POOL_SHARE: usize = 8;

/// Bytes that may be kept between statements where a session asks for `bytes` and its memory comes from `pool`.
pub fn bytes_to_keep(bytes: usize, pool: &dyn MemoryPool) -> usize {
    match pool.memory_limit() {
        MemoryLimit::Finite(limit) => bytes.min(limit / POOL_SHARE),
        _ => bytes,
    }
}

/// This machine, looked at once.
pub fn topology() -> &'static Topology {
    static TOPOLOGY: OnceLock<Topology> = OnceLock::new();
    TOPOLOGY.get_or_init(corun_topology::discover)
}

/// How lookups in an index are done, a batch at a time. They hide latency as the calibration found best, or by prefetching
/// where the tree is larger than half the L2. `levels` are the nodes a lookup reads, `tree_bytes` their memory,
/// `column_bytes` that of the columns which found rows are read from.
pub fn index_probe(config: &ConfigOptions, tree_bytes: usize, levels: usize, column_bytes: usize) -> Lookup {
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
    let technique = choose(&work, &host, calibration::known(&options));
    Lookup {
        hiding: technique.mode.hiding,
        kept: match reuse(&options, tree_bytes + column_bytes) {
            Reuse::Keep => None,
            // The levels that fit the cache are found there again.
            Reuse::Once => Some(match options.llc_bytes {
                0 => topology().last_level_cache_bytes().unwrap_or(Bytes(0)),
                given => Bytes(given as u64),
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_pass_only_in_a_cache_that_somebody_named() {
        let reuse_in = |llc_bytes| {
            let options = CorunOptions {
                llc_bytes,
                ..CorunOptions::default()
            };
            reuse(&options, 1 << 40)
        };
        assert_eq!((reuse_in(0), reuse_in(1 << 20)), (Reuse::Keep, Reuse::Once));
    }
}
