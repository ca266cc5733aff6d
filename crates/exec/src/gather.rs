//! [`gather()`]: payload columns by row number.
//!
//! After a join of tables beyond the caches, fetching the payload costs as much as probing: each row number is a miss.
//! The row numbers are known ahead, so the lines are asked for [`AHEAD`] rows early.

use crate::huge::Plain;
use crate::prefetch::prefetch_read;

/// How many rows ahead the source is prefetched: see `examples/probe_floor.rs`, which prints this beside the floor.
pub const AHEAD: usize = 32;

/// Sources of fewer bytes than this stay in a private L2 and are read without prefetch instructions, which would only
/// take issue slots there. Half of a 2 MiB L2.
pub const PREFETCH_FROM_BYTES: usize = 1 << 20;

/// Sets `out[i] = source[rows[i]]`, replacing what `out` held.
///
/// # Panics
/// When a row number is out of range.
///
/// ```
/// let mut names = Vec::new();
/// exec::gather(&[10_u16, 20, 30], &[2, 0, 2], &mut names);
/// assert_eq!(names, [30, 10, 30]);
/// ```
pub fn gather<T: Plain>(source: &[T], rows: &[u32], out: &mut Vec<T>) {
    out.clear();
    let Some(largest) = rows.iter().copied().max() else {
        return;
    };
    assert!(
        (largest as usize) < source.len(),
        "row {largest} of a column of {} rows",
        source.len()
    );
    out.reserve(rows.len());
    let target = out.spare_capacity_mut();
    // SAFETY: `largest`, and so every row number, is in range of the source; `target` has room for all rows (reserved
    // above), each of which is written before the length is set.
    unsafe {
        if size_of_val(source) < PREFETCH_FROM_BYTES {
            for (index, &row) in rows.iter().enumerate() {
                target
                    .get_unchecked_mut(index)
                    .write(*source.get_unchecked(row as usize));
            }
        } else {
            let lead = rows.len().saturating_sub(AHEAD);
            for &row in &rows[..rows.len() - lead] {
                prefetch_read(source.as_ptr().add(row as usize));
            }
            for index in 0..lead {
                prefetch_read(source.as_ptr().add(*rows.get_unchecked(index + AHEAD) as usize));
                target
                    .get_unchecked_mut(index)
                    .write(*source.get_unchecked(*rows.get_unchecked(index) as usize));
            }
            for index in lead..rows.len() {
                target
                    .get_unchecked_mut(index)
                    .write(*source.get_unchecked(*rows.get_unchecked(index) as usize));
            }
        }
        out.set_len(rows.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Plain + PartialEq + std::fmt::Debug>(make: impl Fn(usize) -> T) {
        for source_rows in [1, 1000, PREFETCH_FROM_BYTES / size_of::<T>() + 3] {
            let source: Vec<T> = (0..source_rows).map(&make).collect();
            for count in [0, 1, AHEAD - 1, AHEAD, AHEAD + 1, 5000] {
                let rows: Vec<u32> = (0..count)
                    .map(|index| (index as u64 * 2_654_435_761 % source_rows as u64) as u32)
                    .collect();
                let mut out = vec![make(3)];
                gather(&source, &rows, &mut out);
                assert_eq!(
                    out,
                    rows.iter().map(|&row| source[row as usize]).collect::<Vec<_>>()
                );
            }
        }
    }

    #[test]
    fn all_widths_match_indexing() {
        check(|index| index as u8);
        check(|index| index as u16);
        check(|index| index as u32);
        check(|index| index as u64 * 3);
        check(|index| (index as u128) << 64 | 5);
    }

    #[test]
    #[should_panic(expected = "row 3 of a column of 3 rows")]
    fn rows_beyond_the_end_are_refused() {
        gather(&[1_u32, 2, 3], &[0, 3], &mut Vec::new());
    }
}
