//! [`Reuse`]: should the lines an operator reaches at random stay in the shared last-level cache?
//!
//! What is far larger than the cache is read from memory nearly every time anyway. Letting its lines in gains its operator
//! nothing and flushes the tables of others, so they are asked for past the outer caches: the effect of giving a weak query few
//! page colours (paper 002, sections 6.1 and 6.2), without a kernel that has any.
//!
//! Not here: how lines are asked for (`corun_exec::prefetch`), and partitions of the cache ([`crate::cache::partition`]).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cache::locality::{Classifier, Footprint, Locality};
use crate::units::Bytes;

/// Whether lines read at random are expected to be read again while the cache has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reuse {
    /// Yes: they go into every cache level.
    #[default]
    Keep,
    /// No: they are used at once and not kept beyond the innermost cache.
    Once,
}

impl fmt::Display for Reuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Reuse::Keep => "keep",
            Reuse::Once => "once",
        })
    }
}

/// For lines reached at random in `structure` bytes: a join table with its payload, or an index with the columns behind it.
/// [`Reuse::Once`] where that is weak, by default from three times the cache on (paper 002, section 4.2.2).
pub fn choose(structure: Bytes, classifier: &Classifier) -> Reuse {
    match classifier.locality(Footprint::Tables(structure)) {
        Locality::Strong | Locality::Moderate => Reuse::Keep,
        Locality::Weak => Reuse::Once,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::locality::Thresholds;

    #[test]
    fn only_weak_structures_pass_by_the_cache() {
        let classifier = Classifier::new(Bytes::mib(24), Thresholds::default()).expect("24 MiB");
        for (mib, reuse) in [
            (0, Reuse::Keep),
            (7, Reuse::Keep),
            (24, Reuse::Keep),
            (71, Reuse::Keep),
            (72, Reuse::Once),
            (1024, Reuse::Once),
        ] {
            assert_eq!(choose(Bytes::mib(mib), &classifier), reuse, "{mib} MiB");
        }
    }
}
