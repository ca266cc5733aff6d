//! Lists of ways, bars and sizes.

use super::*;

#[test]
fn lists_of_ways() {
    assert_eq!(counts("1..4"), Ok(Counts(vec![1, 2, 3, 4])));
    assert_eq!(counts("8,1..2,2"), Ok(Counts(vec![1, 2, 8])));
    assert_eq!(counts("3..=3"), Ok(Counts(vec![3])));
    for wrong in ["", "0", "65", "1..", "4..2", "x", "1;2", "-1"] {
        assert!(counts(wrong).is_err(), "{wrong}");
    }
    assert_eq!(halves(16), [1, 2, 4, 8]);
    assert_eq!(halves(1), [1]);
}

#[test]
fn bars_and_sizes() {
    assert_eq!(bar(1.0, 2.0), "");
    assert_eq!(bar(0.9, 2.0), "");
    assert_eq!(bar(1.5, 2.0).chars().count(), 10);
    assert_eq!([4 << 20, 950_000, 640].map(size), ["4 MiB", "928 KiB", "640 B"]);
}
