//! Payload columns by row number: [`gather()`], and [`ask_for()`] for those that somebody else takes.
//!
//! After a join of tables beyond the caches, fetching the payload costs as much as probing: each row number is a miss.
//! The row numbers are known ahead, so the lines are asked for [`AHEAD`] rows early.

use corun_model::cache::reuse::Reuse;

use crate::huge::Plain;
use crate::prefetch::{Ask, Kept, Near, Passing, prefetch_far};

/// How many rows ahead the source is prefetched. Measured with `examples/probe_floor.rs` (EPYC VM), CPU ns a row of 16 M at 32, 64 and
/// 128 rows: 4.7, 4.2, 4.2.
pub const AHEAD: usize = 64;

/// Sources of fewer bytes than this stay in a private L2 and are read without prefetch instructions, which would only
/// take issue slots there. Half of a 2 MiB L2.
pub const PREFETCH_FROM_BYTES: usize = 1 << 20;

/// Sets `out[i] = source[rows[i]]`, replacing what `out` held. `reuse`: are the source's lines worth a place in the outer
/// caches? A hint.
///
/// # Panics
/// When a row number is out of range.
///
/// ```
/// use corun_model::cache::reuse::Reuse;
///
/// let mut names = Vec::new();
/// corun_exec::gather(&[10_u16, 20, 30], &[2, 0, 2], Reuse::Keep, &mut names);
/// assert_eq!(names, [30, 10, 30]);
/// ```
pub fn gather<T: Plain>(source: &[T], rows: &[u32], reuse: Reuse, out: &mut Vec<T>) {
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
    // SAFETY: `largest`, and so every row number, is in range of the source; room for all rows was reserved, and each is
    // written before the length is set.
    unsafe {
        let target = out.as_mut_ptr();
        match reuse {
            _ if size_of_val(source) < PREFETCH_FROM_BYTES => copy::<T, Near>(source, rows, target),
            Reuse::Keep => copy::<T, Kept>(source, rows, target),
            Reuse::Once => copy::<T, Passing>(source, rows, target),
        }
        out.set_len(rows.len());
    }
}

/// # Safety
/// Rows must be in range of the source, and `target` have room for as many elements as there are rows.
#[inline(always)]
unsafe fn copy<T: Plain, A: Ask>(source: &[T], rows: &[u32], target: *mut T) {
    // SAFETY: the caller's promise; indexes are below the number of rows.
    unsafe {
        let lead = if A::ASKS {
            rows.len().saturating_sub(AHEAD)
        } else {
            0
        };
        if A::ASKS {
            for &row in &rows[..rows.len() - lead] {
                A::ask(source.as_ptr().add(row as usize));
            }
        }
        for index in 0..lead {
            A::ask(source.as_ptr().add(*rows.get_unchecked(index + AHEAD) as usize));
            let row = *rows.get_unchecked(index) as usize;
            target.add(index).write(*source.get_unchecked(row));
        }
        for index in lead..rows.len() {
            let row = *rows.get_unchecked(index) as usize;
            target.add(index).write(*source.get_unchecked(row));
        }
    }
}

/// Asks for `source[rows[i]]` of all rows, which are soon read: lines come to the L2, so there should be fewer of them than it holds. A
/// hint: row numbers may be out of range, and a source that is near is left alone.
pub fn ask_for<T>(source: &[T], rows: &[u32]) {
    if size_of_val(source) < PREFETCH_FROM_BYTES {
        return;
    }
    for &row in rows {
        prefetch_far(source.as_ptr().wrapping_add(row as usize));
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
                let expected: Vec<T> = rows.iter().map(|&row| source[row as usize]).collect();
                for reuse in [Reuse::Keep, Reuse::Once] {
                    let mut out = vec![make(3)];
                    gather(&source, &rows, reuse, &mut out);
                    assert_eq!(out, expected, "{reuse}");
                }
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
    fn any_row_may_be_asked_for() {
        ask_for(&vec![0_u64; PREFETCH_FROM_BYTES / 8], &[0, 5, u32::MAX]);
        ask_for::<u64>(&[], &[1]);
    }

    #[test]
    #[should_panic(expected = "row 3 of a column of 3 rows")]
    fn rows_beyond_the_end_are_refused() {
        gather(&[1_u32, 2, 3], &[0, 3], Reuse::Keep, &mut Vec::new());
    }
}
