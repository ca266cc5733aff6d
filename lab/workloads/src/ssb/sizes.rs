//! Row counts of the five tables at a scale factor.
//!
//! From the specification: lineorder 6,000,000 x SF, customer 30,000 x SF, supplier 2,000 x SF, part
//! 200,000 x floor(1 + log2 SF), and one date table whatever the scale. Below SF 1, where the formula for part has no
//! meaning, part shrinks linearly like the others.

use crate::dataset::DatasetError;

/// Smallest scale factor: below it the dimensions would be empty.
pub const SCALE_FACTOR_MIN: f64 = 0.001;

/// Largest scale factor: above it order keys (sparse, 4 x orders) no longer fit into 32 bits.
pub const SCALE_FACTOR_MAX: f64 = 350.0;

/// Days in the date table. Seven calendar years would be 2,557; the specification and its generator stop one day
/// earlier, on 1998-12-30, and so do we, to have the published row count. No order refers to a date after 1998-10-31.
pub const DATES: usize = 2556;

/// Row counts; free to choose, for tests that want large dimensions beside few orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Rows of `lineorder`.
    pub lineorder: usize,
    /// Rows of `customer`; at least 1.
    pub customer: usize,
    /// Rows of `supplier`; at least 1.
    pub supplier: usize,
    /// Rows of `part`; at least 1.
    pub part: usize,
}

impl Sizes {
    /// Row counts at a scale factor.
    ///
    /// # Errors
    /// [`DatasetError::ScaleFactor`] outside [`SCALE_FACTOR_MIN`] to [`SCALE_FACTOR_MAX`], or when not a number.
    pub fn at(scale_factor: f64) -> Result<Sizes, DatasetError> {
        if !(SCALE_FACTOR_MIN..=SCALE_FACTOR_MAX).contains(&scale_factor) {
            return Err(DatasetError::ScaleFactor {
                workload: "SSB",
                given: scale_factor,
                least: SCALE_FACTOR_MIN,
                most: SCALE_FACTOR_MAX,
            });
        }
        let times = |rows: f64| ((rows * scale_factor).round() as usize).max(1);
        let part = if scale_factor < 1.0 {
            times(200_000.0)
        } else {
            200_000 * (1.0 + scale_factor.log2()).floor() as usize
        };
        Ok(Sizes {
            lineorder: times(6_000_000.0),
            customer: times(30_000.0),
            supplier: times(2_000.0),
            part,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_row_counts() {
        let sizes = |sf| Sizes::at(sf).unwrap();
        assert_eq!(
            sizes(1.0),
            Sizes {
                lineorder: 6_000_000,
                customer: 30_000,
                supplier: 2_000,
                part: 200_000
            }
        );
        assert_eq!(
            sizes(10.0),
            Sizes {
                lineorder: 60_000_000,
                customer: 300_000,
                supplier: 20_000,
                part: 800_000
            }
        );
        assert_eq!(sizes(100.0).part, 1_400_000);
        assert_eq!(
            sizes(0.01),
            Sizes {
                lineorder: 60_000,
                customer: 300,
                supplier: 20,
                part: 2_000
            }
        );
        assert_eq!(sizes(0.001).supplier, 2);
    }

    #[test]
    fn impossible_scales_are_refused() {
        for scale in [0.0, -1.0, 0.0009, 351.0, f64::NAN, f64::INFINITY] {
            let error = Sizes::at(scale).unwrap_err().to_string();
            assert!(error.contains("detail:") && error.contains("hint:"), "{error}");
        }
    }
}
