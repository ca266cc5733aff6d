//! Scales that make no sense are refused, and every experiment has sides to compare.

use super::*;
use crate::key_ranges::case::Family;

#[test]
fn impossible_scales_are_usage_errors() {
    let args = |scale| KeyRangesArgs {
        scale: Some(scale),
        ..KeyRangesArgs::default()
    };
    for wrong in [0.001, 1_000.0] {
        assert!(
            scale(&args(wrong)).is_err_and(|error| error.is_usage()),
            "{wrong}"
        );
    }
    assert_eq!(scale(&args(10.0)).ok(), Some(Some(10.0)));
}

#[test]
fn every_experiment_has_sides_to_compare() {
    for family in Family::ALL {
        let line_up = line_up(family);
        assert!(line_up.pairs.iter().any(|pair| pair.subject != pair.other));
        assert!(line_up.control < line_up.sides.len());
    }
}
