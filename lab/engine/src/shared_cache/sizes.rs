//! How many rows make hash tables of wanted sizes, relative to the effective last-level cache `C`.
//!
//! `S` here is what probing comes back to: the cache lines of corun's join table. PLQ_k builds it from `k / 25` of the parts.
//!
//! ```text
//!   k         1        2        3   5   8   12   18   22        23       25
//!   S / C    0.13     0.26     0.4 ... moderate ...  2.9       3.04     3.3
//!            strong (below C/3)                                weak (from 3C)
//! ```

use corun_model::cache::locality::{Classifier, Footprint, Locality, Thresholds};
use corun_model::units::Bytes;

use lab_core::error::BenchError;

/// `S` of PLQ_25 over `C`: weak, with PLQ_2 still strong.
pub const LARGEST_OVER_CACHE: f64 = 3.3;

/// Categories of parts, of which PLQ_k takes `k`.
pub const CATEGORIES: usize = 25;

/// Bytes a part takes in corun's join table: lines of 64 bytes hold five 64-bit keys and are 65 % full (`corun_exec::table`). A test
/// compares it with tables really built.
const BYTES_PER_PART: f64 = 64.0 / (5.0 * 0.65);

/// Fewest orders: a hash join then takes 100 ms or more of one thread, at 6 ns or more a probe.
const ORDERS_MIN: usize = 16 << 20;

/// Orders a part, at least: the paper's 2 GB database has 30, which would not fit memory at today's cache sizes. Two keep an
/// index join gathering several rows a key.
const ORDERS_PER_PART: usize = 2;

/// `C` of a quick run: its queries take milliseconds, and its times mean nothing.
pub const CACHE_QUICK: Bytes = Bytes::kib(256);

/// Largest `C`: the tables and their indexes then take about 9 GiB.
pub const CACHE_MAX: Bytes = Bytes::mib(128);

/// Bytes of memory a run needs for each byte of `C`.
const MEMORY_PER_CACHE: u64 = 80;

/// Rows of the tables, and the cache they are made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// `C`.
    pub cache: Bytes,
    /// Rows of `part`, a multiple of [`CATEGORIES`].
    pub parts: usize,
    /// Rows of `lineorder`.
    pub orders: usize,
    classifier: Classifier,
}

/// Names the classes of a cache that tables can be made for.
///
/// # Errors
/// A cache of 0 bytes, or one larger than [`CACHE_MAX`].
pub fn classifier(cache: Bytes) -> Result<Classifier, BenchError> {
    if cache > CACHE_MAX {
        return Err(BenchError::BadArgument(format!(
            "a last-level cache of {} MiB is more than this suite makes tables for; give --llc 128MiB or less",
            cache.0 >> 20
        )));
    }
    Classifier::new(cache, Thresholds::default()).map_err(|error| BenchError::BadArgument(error.to_string()))
}

impl Sizes {
    /// Rows for a cache of `cache` bytes.
    ///
    /// # Errors
    /// A cache of 0 bytes, or one so large that the tables would not fit memory.
    pub fn of(cache: Bytes, quick: bool) -> Result<Sizes, BenchError> {
        let classifier = classifier(cache)?;
        let parts = cache.0 as f64 * LARGEST_OVER_CACHE / BYTES_PER_PART / CATEGORIES as f64;
        let parts = (parts.round() as usize).max(1) * CATEGORIES;
        let orders = match quick {
            true => parts * ORDERS_PER_PART,
            false => (parts * ORDERS_PER_PART).max(ORDERS_MIN),
        };
        Ok(Sizes {
            cache,
            parts,
            orders,
            classifier,
        })
    }

    /// `C` for a run: as given, tiny for a quick one, else what the machine has, or as much as there is `memory` for if that is
    /// less, and at most [`CACHE_MAX`].
    pub fn cache_for(given: Option<Bytes>, quick: bool, known: Bytes, memory: Option<Bytes>) -> Bytes {
        let fits = memory.map_or(CACHE_MAX, |memory| Bytes(memory.0 / MEMORY_PER_CACHE));
        match given {
            Some(cache) => cache,
            None if quick => CACHE_QUICK,
            None => known.min(fits).min(CACHE_MAX),
        }
    }

    /// Bytes of the hash table of PLQ_k.
    pub fn table_bytes(&self, k: usize) -> Bytes {
        let rows = self.parts / CATEGORIES * k;
        Bytes((rows as f64 * BYTES_PER_PART) as u64)
    }

    /// The class of a hash join over PLQ_k's table.
    pub fn hash_class(&self, k: usize) -> Locality {
        self.class(Footprint::Tables(self.table_bytes(k)))
    }

    /// The class of a footprint in this cache.
    pub fn class(&self, footprint: Footprint) -> Locality {
        self.classifier.locality(footprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_the_papers_at_any_cache_size() {
        for cache in [Bytes::kib(256), Bytes::mib(4), Bytes::mib(33)] {
            let sizes = Sizes::of(cache, true).expect("a possible cache");
            let classes = [1, 2, 3, 5, 18, 22, 23, 25].map(|k| sizes.hash_class(k));
            use Locality::{Moderate, Strong, Weak};
            assert_eq!(
                classes,
                [Strong, Strong, Moderate, Moderate, Moderate, Moderate, Weak, Weak],
                "{cache:?}"
            );
            assert_eq!(sizes.class(Footprint::Streams), Weak);
        }
    }

    #[test]
    fn a_timed_run_has_orders_enough() {
        let sizes = |mib, quick| Sizes::of(Bytes::mib(mib), quick).expect("a possible cache");
        assert_eq!(sizes(24, false).orders, ORDERS_MIN);
        assert_eq!(sizes(64, false).orders, sizes(64, false).parts * ORDERS_PER_PART);
        assert!(sizes(8, true).orders < ORDERS_MIN);
        assert_eq!(sizes(8, true).parts % CATEGORIES, 0);
    }

    #[test]
    fn impossible_caches_are_usage_errors() {
        for cache in [Bytes(0), Bytes::mib(129)] {
            assert!(Sizes::of(cache, false).expect_err("impossible").is_usage());
        }
    }

    #[test]
    fn the_cache_is_the_given_one_or_the_machines() {
        let of = |given: Option<u64>, quick, known, memory: Option<u64>| {
            Sizes::cache_for(
                given.map(Bytes::mib),
                quick,
                Bytes::mib(known),
                memory.map(Bytes::mib),
            )
        };
        assert_eq!(of(Some(5), true, 9, None), Bytes::mib(5));
        assert_eq!(of(None, true, 9, None), CACHE_QUICK);
        assert_eq!(of(None, false, 9, Some(20_000)), Bytes::mib(9));
        assert_eq!(of(None, false, 260, None), CACHE_MAX);
        assert_eq!(of(None, false, 260, Some(4_000)), Bytes::mib(50));
    }
}
