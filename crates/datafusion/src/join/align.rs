//! From matched pairs to the rows a join type emits for a stretch of one probe batch.
//!
//! A probe batch is worked off in steps of at most a batch of pairs. Each step covers a range of probe rows whose
//! pairs are complete; rows without a pair in the range are the unmatched ones. The functions here are pure.

use std::ops::Range;

/// The probe rows that a step completes: those behind the last row that had a pair before (`last_matched`) up to the last one
/// that has a pair now, or, when the step finished its batch of `rows` rows, to its end. Moves `last_matched` on.
///
/// `probe` is ascending.
pub fn complete(probe: &[u32], last_matched: &mut Option<u32>, rows: Option<usize>) -> Range<usize> {
    let behind = |row: u32| row as usize + 1;
    let last = probe.last().copied();
    let first = last_matched.map_or(0, behind);
    let end = rows.or(last.map(behind)).unwrap_or(first);
    *last_matched = last.or(*last_matched);
    first..end.max(first)
}

/// Pairs with the unmatched probe rows of `range` put between them in row order, their build row `None`.
///
/// `probe` is ascending; pairs before `range` continue a row of the step before and are kept.
pub fn with_unmatched(build: &[u32], probe: &[u32], range: Range<usize>) -> (Vec<Option<u32>>, Vec<u32>) {
    let mut out_build = Vec::with_capacity(build.len() + range.len());
    let mut out_probe = Vec::with_capacity(build.len() + range.len());
    let mut next = range.start as u32;
    for (b, p) in build.iter().zip(probe) {
        while next < *p {
            out_build.push(None);
            out_probe.push(next);
            next += 1;
        }
        out_build.push(Some(*b));
        out_probe.push(*p);
        next = next.max(*p + 1);
    }
    while (next as usize) < range.end {
        out_build.push(None);
        out_probe.push(next);
        next += 1;
    }
    (out_build, out_probe)
}

/// Probe rows of `range` that have a pair, each once.
pub fn matched(probe: &[u32], range: Range<usize>) -> Vec<u32> {
    let mut rows: Vec<u32> = probe
        .iter()
        .copied()
        .filter(|p| range.contains(&(*p as usize)))
        .collect();
    rows.dedup();
    rows
}

/// Probe rows of `range` that have no pair.
pub fn unmatched(probe: &[u32], range: Range<usize>) -> Vec<u32> {
    let mut rows = Vec::new();
    let mut next = range.start as u32;
    for p in probe.iter().filter(|p| range.contains(&(**p as usize))) {
        rows.extend(next..*p);
        next = *p + 1;
    }
    rows.extend(next..range.end as u32);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_complete_every_row_once() {
        let mut last = None;
        // The second step finds more pairs of row 4 and no others; the third finds none but ends the batch.
        assert_eq!(complete(&[1, 4], &mut last, None), 0..5);
        assert_eq!(complete(&[4, 4], &mut last, None), 5..5);
        assert_eq!(complete(&[], &mut last, None), 5..5);
        assert_eq!(last, Some(4));
        assert_eq!(complete(&[], &mut last, Some(9)), 5..9);
    }

    #[test]
    fn unmatched_rows_stand_in_order() {
        let (build, probe) = with_unmatched(&[7, 8, 9], &[1, 1, 3], 0..5);
        assert_eq!(build, vec![None, Some(7), Some(8), None, Some(9), None]);
        assert_eq!(probe, vec![0, 1, 1, 2, 3, 4]);
    }

    #[test]
    fn a_row_continued_from_the_step_before_is_not_unmatched() {
        let (build, probe) = with_unmatched(&[5, 6], &[2, 4], 3..6);
        assert_eq!(build, vec![Some(5), None, Some(6), None]);
        assert_eq!(probe, vec![2, 3, 4, 5]);
        assert_eq!(matched(&[2, 4], 3..6), vec![4]);
        assert_eq!(unmatched(&[2, 4], 3..6), vec![3, 5]);
    }

    #[test]
    fn empty_ranges_and_no_pairs() {
        assert_eq!(with_unmatched(&[], &[], 2..2), (vec![], vec![]));
        assert_eq!(unmatched(&[], 2..4), vec![2, 3]);
        assert_eq!(matched(&[], 0..4), Vec::<u32>::new());
        assert_eq!(matched(&[1, 1, 2], 0..3), vec![1, 2]);
    }
}
