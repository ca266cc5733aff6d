//! How strongly a query's speed depends on the last-level cache: strong, moderate or weak locality (paper 002, section 4).
//!
//! What counts is `S`, the memory a query comes back to again and again (hash tables), against `C`, the effective last-level
//! cache it shares with others:
//!
//! ```text
//!   S:  0 ───────── C/3 ───────────────────────── 3C ─────────▶      no table at all
//!       │  strong    │          moderate          │   weak                weak
//!       │  fits      │  fits only if left alone   │   misses anyway       touches each line once
//! ```
//!
//! A weak query loses nothing to others and costs them most; a moderate one loses most. [`Classifier`] holds `C` and the
//! borders; [`crate::cache::pipeline`] finds `S` for each pipeline of a plan.
//!
//! Not here: measuring `C` ([`crate::knee`]), or what one class costs another ([`crate::cache::slowdown`]).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Locality strength (paper 002, section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Locality {
    /// Its tables are small against the cache.
    Strong,
    /// Its tables are comparable with the cache: every line it loses to others costs it.
    Moderate,
    /// It reuses little, or much more than the cache holds.
    Weak,
}

impl Locality {
    /// Which of the two queues plans of this strength wait in (paper 002, section 5.2).
    pub fn queue(self) -> PlanQueue {
        match self {
            Locality::Strong | Locality::Moderate => PlanQueue::Reusing,
            Locality::Weak => PlanQueue::Streaming,
        }
    }
}

impl fmt::Display for Locality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Locality::Strong => "strong",
            Locality::Moderate => "moderate",
            Locality::Weak => "weak",
        })
    }
}

/// The two queues of plans (paper 002, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanQueue {
    /// Strong and moderate locality: plans that live from the cache.
    Reusing,
    /// Weak locality: plans that pass through it.
    Streaming,
}

impl PlanQueue {
    /// The other queue.
    pub fn other(self) -> Self {
        match self {
            PlanQueue::Reusing => PlanQueue::Streaming,
            PlanQueue::Streaming => PlanQueue::Reusing,
        }
    }
}

/// What a piece of work keeps coming back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Footprint {
    /// Nothing: scans and index joins. Index joins have weak locality "most probably in practice" (paper 002, section 4.2):
    /// the lookups of one are spread over an index and a table far larger than the cache.
    Streams,
    /// Hash tables of this many bytes in all, `S`.
    Tables(Bytes),
}

impl Footprint {
    /// `S`; zero for work without tables.
    pub fn bytes(self) -> Bytes {
        match self {
            Footprint::Streams => Bytes(0),
            Footprint::Tables(bytes) => bytes,
        }
    }

    /// Both together: tables add up, saturating, and work without any adds nothing (paper 002, section 4.3: a hash join
    /// beside an index join counts by its table).
    pub fn and(self, other: Footprint) -> Footprint {
        match (self, other) {
            (Footprint::Streams, Footprint::Streams) => Footprint::Streams,
            _ => Footprint::Tables(Bytes(self.bytes().0.saturating_add(other.bytes().0))),
        }
    }
}

/// Why a classifier cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum LocalityError {
    /// A cache of no size: every table would be infinitely larger.
    #[error("the effective last-level cache has 0 bytes; measure it or set it by hand")]
    NoCache,
    /// A border that is no positive number.
    #[error("a locality threshold must be a positive, finite number, not {0}")]
    Threshold(f64),
    /// Sizes that would be strong and weak at once.
    #[error(
        "strong locality would end at C/{strong_divisor}, above {weak_factor} C where weak locality begins"
    )]
    Crossed {
        /// As given.
        strong_divisor: f64,
        /// As given.
        weak_factor: f64,
    },
}

/// Where the classes meet, relative to the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    strong_divisor: f64,
    weak_factor: f64,
}

impl Default for Thresholds {
    /// The paper's: strong below C/3, weak from 3C (paper 002, section 4.2.2). C/3 and not C/2 because what else a database
    /// touches takes its share of the cache.
    fn default() -> Self {
        Self {
            strong_divisor: 3.0,
            weak_factor: 3.0,
        }
    }
}

impl Thresholds {
    /// Strong below `C / strong_divisor`, weak from `C * weak_factor`, moderate between.
    ///
    /// # Errors
    /// [`LocalityError`] for numbers that are not positive and finite, or where the weak class would begin below the end of
    /// the strong one. Equal borders are allowed: then nothing is moderate.
    pub fn new(strong_divisor: f64, weak_factor: f64) -> Result<Self, LocalityError> {
        for value in [strong_divisor, weak_factor] {
            if !(value.is_finite() && value > 0.0) {
                return Err(LocalityError::Threshold(value));
            }
        }
        if weak_factor * strong_divisor < 1.0 {
            return Err(LocalityError::Crossed {
                strong_divisor,
                weak_factor,
            });
        }
        Ok(Self {
            strong_divisor,
            weak_factor,
        })
    }

    /// Strong ends at the cache divided by this.
    pub fn strong_divisor(&self) -> f64 {
        self.strong_divisor
    }

    /// Weak begins at the cache times this.
    pub fn weak_factor(&self) -> f64 {
        self.weak_factor
    }
}

/// Names the locality of work that shares one last-level cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Classifier {
    cache: Bytes,
    thresholds: Thresholds,
}

impl Classifier {
    /// For queries that share `cache` bytes of effective last-level cache, `C`: what the machine really gives one domain, not
    /// what it reports.
    ///
    /// # Errors
    /// [`LocalityError::NoCache`] for a cache of 0 bytes.
    pub fn new(cache: Bytes, thresholds: Thresholds) -> Result<Self, LocalityError> {
        if cache.0 == 0 {
            return Err(LocalityError::NoCache);
        }
        Ok(Self { cache, thresholds })
    }

    /// `C`.
    pub fn cache(&self) -> Bytes {
        self.cache
    }

    /// The locality of work with this footprint (paper 002, sections 4.2.2 and 4.3).
    ///
    /// Sizes above 2^53 bytes are rounded to the precision of `f64`.
    pub fn locality(&self, footprint: Footprint) -> Locality {
        let Footprint::Tables(tables) = footprint else {
            return Locality::Weak;
        };
        // Multiplied, not divided: with the paper's thresholds both comparisons are then exact.
        let (tables, cache) = (tables.0 as f64, self.cache.0 as f64);
        if tables * self.thresholds.strong_divisor < cache {
            Locality::Strong
        } else if tables < cache * self.thresholds.weak_factor {
            Locality::Moderate
        } else {
            Locality::Weak
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paper() -> Classifier {
        Classifier::new(Bytes::mib(4), Thresholds::default()).expect("4 MiB")
    }

    fn hundredths_of_mib(n: u64) -> Footprint {
        Footprint::Tables(Bytes((n << 20) / 100))
    }

    #[test]
    fn the_papers_tables_have_the_papers_classes() {
        use Locality::{Moderate, Strong, Weak};
        // Paper 002: sizes of 4.2.1, 5.2, 7.1, 7.2, 7.3 with the class the text gives them.
        let cases = [
            (39, Strong),
            (78, Strong),
            (110, Strong),
            (113, Strong),
            (186, Moderate),
            (226, Moderate),
            (410, Moderate),
            (490, Moderate),
            (892, Moderate),
            (1230, Weak),
            (1860, Weak),
        ];
        for (size, class) in cases {
            assert_eq!(
                paper().locality(hundredths_of_mib(size)),
                class,
                "{size} hundredths"
            );
        }
        assert_eq!(paper().locality(Footprint::Streams), Weak);
    }

    #[test]
    fn borders_belong_to_the_upper_class() {
        for third in [1, 7, 1 << 20, (1 << 40) + 1] {
            let c = Classifier::new(Bytes(3 * third), Thresholds::default()).expect("not zero");
            assert_eq!(c.locality(Footprint::Tables(Bytes(third - 1))), Locality::Strong);
            assert_eq!(c.locality(Footprint::Tables(Bytes(third))), Locality::Moderate);
            assert_eq!(
                c.locality(Footprint::Tables(Bytes(9 * third - 1))),
                Locality::Moderate
            );
            assert_eq!(c.locality(Footprint::Tables(Bytes(9 * third))), Locality::Weak);
        }
    }

    #[test]
    fn senseless_thresholds_and_caches_are_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(
                Thresholds::new(bad, 3.0),
                Err(LocalityError::Threshold(_))
            ));
            assert!(matches!(
                Thresholds::new(3.0, bad),
                Err(LocalityError::Threshold(_))
            ));
        }
        assert!(matches!(
            Thresholds::new(1.0, 0.5),
            Err(LocalityError::Crossed { .. })
        ));
        assert_eq!(
            Classifier::new(Bytes(0), Thresholds::default()),
            Err(LocalityError::NoCache)
        );

        let nothing_moderate = Classifier::new(Bytes(100), Thresholds::new(2.0, 0.5).expect("equal borders"));
        let nothing_moderate = nothing_moderate.expect("a cache");
        assert_eq!(
            nothing_moderate.locality(Footprint::Tables(Bytes(49))),
            Locality::Strong
        );
        assert_eq!(
            nothing_moderate.locality(Footprint::Tables(Bytes(50))),
            Locality::Weak
        );
    }

    #[test]
    fn footprints_add_up() {
        let table = |n| Footprint::Tables(Bytes(n));
        assert_eq!(table(2).and(table(3)), table(5));
        assert_eq!(table(2).and(Footprint::Streams), table(2));
        assert_eq!(Footprint::Streams.and(Footprint::Streams), Footprint::Streams);
        assert_eq!(table(u64::MAX).and(table(1)), table(u64::MAX));
    }

    proptest! {
        #[test]
        fn a_larger_table_is_never_stronger(cache in 1u64.., a: u64, b: u64, divisor in 0.5f64..8.0, factor in 2.0f64..8.0) {
            let c = Classifier::new(Bytes(cache), Thresholds::new(divisor, factor).expect("in order")).expect("not zero");
            let of = |bytes| c.locality(Footprint::Tables(Bytes(bytes)));
            prop_assert!(of(a.min(b)) <= of(a.max(b)));
        }
    }
}
