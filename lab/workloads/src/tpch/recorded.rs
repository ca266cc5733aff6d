//! Recorded answers of the TPC-H queries at the two scales that tests and suites use.
//!
//! The files beside this one say how they were made. The data is the official generator's.

use super::ORDER_BY;
use crate::answers::{Recorded, find_recorded};

const SF_0_01: &str = include_str!("answers_sf001.txt");
const SF_1: &str = include_str!("answers_sf1.txt");

/// The recorded answer of `query` at `scale_factor`; `None` where none is recorded.
pub fn recorded(scale_factor: f64, query: &str) -> Option<Recorded> {
    if scale_factor == 0.01 {
        find_recorded(SF_0_01, query)
    } else if scale_factor == 1.0 {
        find_recorded(SF_1, query)
    } else {
        None
    }
}

/// Output columns `query` is ordered by; empty without ORDER BY.
pub fn order_by(query: &str) -> &'static [&'static str] {
    ORDER_BY
        .iter()
        .find(|(name, _)| *name == query)
        .map_or(&[], |(_, columns)| *columns)
}

#[cfg(test)]
mod tests {
    use super::super::QUERIES;
    use super::*;

    #[test]
    fn every_query_is_recorded_at_both_scales() {
        for (name, _) in QUERIES {
            for scale_factor in [0.01, 1.0] {
                assert!(recorded(scale_factor, name).is_some(), "{name} at {scale_factor}");
            }
            assert_eq!(recorded(0.5, name), None);
        }
    }
}
