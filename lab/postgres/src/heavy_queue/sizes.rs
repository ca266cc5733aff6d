//! [`Sizes`]: how many rows make PostgreSQL's hash tables of wanted sizes, relative to the effective last-level cache `C`.
//!
//! ```text
//!   PLQ_k, k      1       3      6      12     24
//!   bytes / C    0.17    0.5    1.0    2.0    4.0
//! ```
//!
//! The bytes here are an estimate to make tables by; what a table really took is asked of the server ([`super::query::hash_bytes`]).

use corun_model::cache::locality::{Classifier, Footprint, Locality};
use corun_model::units::Bytes;

use corun_workloads::ssb::{PLQ_TERMS_MAX, Sizes as Rows};
use lab_core::error::BenchError;
use lab_engine::shared_cache::sizes::{CACHE_MAX, CACHE_QUICK, classifier};

/// Bytes of PLQ_25's hash table over `C`.
const LARGEST_OVER_CACHE: f64 = 4.17;
/// Bytes a part takes in PostgreSQL's hash table: 40 of its tuple with one key of 32 bits, 8 to 16 of its bucket.
const BYTES_PER_PART: f64 = 50.0;
/// Millions of orders of a timed run: a hash join then takes half a second or more.
pub const SCALE: f64 = 3.0;
/// The same of a quick one.
pub const SCALE_QUICK: f64 = 0.02;
/// What a scale of 1 stands for.
const ORDERS: f64 = 1e6;
/// Share of `C` that Q3.1's hash table of customers is to take: the paper's took 0.55.
const CUSTOMERS_OVER_CACHE: f64 = 0.55;
/// Bytes a customer takes there: the tuple has a key and the name of a nation.
const BYTES_PER_CUSTOMER: f64 = 60.0;
/// Of five customers one is in the region asked for.
const REGIONS: f64 = 5.0;

/// Rows of the tables, and the cache they are made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// `C`.
    pub cache: Bytes,
    /// Rows of all tables.
    pub rows: Rows,
    classifier: Classifier,
}

impl Sizes {
    /// Rows for a cache of `cache` bytes; `scale` is millions of rows of `lineorder`.
    ///
    /// # Errors
    /// A cache of 0 bytes, or one larger than 128 MiB.
    pub fn of(cache: Bytes, scale: f64) -> Result<Sizes, BenchError> {
        let classifier = classifier(cache)?;
        let bytes = cache.0 as f64;
        let part = (bytes * LARGEST_OVER_CACHE / BYTES_PER_PART) as usize;
        let customer = (bytes * CUSTOMERS_OVER_CACHE / BYTES_PER_CUSTOMER * REGIONS) as usize;
        let at_least_one = |rows: usize| rows.max(1);
        Ok(Sizes {
            cache,
            rows: Rows {
                lineorder: at_least_one((ORDERS * scale) as usize),
                customer: at_least_one(customer),
                // As in the benchmark's formulas: one supplier for 15 customers.
                supplier: at_least_one(customer / 15),
                part: at_least_one(part),
            },
            classifier,
        })
    }

    /// `C` for a run: as given, tiny for a quick one, else what the machine has, at most 128 MiB.
    pub fn cache_for(given: Option<Bytes>, quick: bool, known: Bytes) -> Bytes {
        match given {
            Some(cache) => cache,
            None if quick => CACHE_QUICK,
            None => known.min(CACHE_MAX),
        }
    }

    /// About the bytes of PLQ_k's hash table.
    pub fn table_bytes(&self, k: usize) -> Bytes {
        Bytes((self.rows.part as f64 * k as f64 / PLQ_TERMS_MAX as f64 * BYTES_PER_PART) as u64)
    }

    /// The `k` whose hash table comes nearest to so many times `C`, by ratio.
    pub fn k_of(&self, over_cache: f64) -> usize {
        let away = |k: usize| {
            (self.table_bytes(k).0 as f64 / (self.cache.0 as f64 * over_cache))
                .ln()
                .abs()
        };
        (1..=PLQ_TERMS_MAX)
            .min_by(|&a, &b| away(a).total_cmp(&away(b)))
            .unwrap_or(1)
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
    fn tables_are_as_large_as_wanted_at_any_cache_size() {
        for mib in [1, 8, 33] {
            let sizes = Sizes::of(Bytes::mib(mib), 1.0).expect("a possible cache");
            let ks = [0.2, 0.5, 1.0, 2.0, 4.0].map(|over| sizes.k_of(over));
            assert_eq!(ks, [1, 3, 6, 12, 24], "{mib}");
            let class = |k| sizes.class(Footprint::Tables(sizes.table_bytes(k)));
            assert_eq!(
                [1, 6, 24].map(class),
                [Locality::Strong, Locality::Moderate, Locality::Weak]
            );
        }
    }

    #[test]
    fn impossible_caches_are_usage_errors() {
        for cache in [Bytes(0), Bytes::mib(129)] {
            assert!(Sizes::of(cache, 1.0).expect_err("impossible").is_usage());
        }
    }

    #[test]
    fn the_cache_is_the_given_one_or_the_machines() {
        let of = |given: Option<u64>, quick, known| {
            Sizes::cache_for(given.map(Bytes::mib), quick, Bytes::mib(known))
        };
        assert_eq!(of(Some(5), true, 9), Bytes::mib(5));
        assert_eq!(of(None, true, 9), CACHE_QUICK);
        assert_eq!(of(None, false, 9), Bytes::mib(9));
        assert_eq!(of(None, false, 260), CACHE_MAX);
    }
}
