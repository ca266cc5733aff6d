//! [`Runs`]: how long the runs of rows with one key are, told from a part of the batches.
//!
//! Rows that arrive by key, as those of an order or of a day, are many to a group and yet no reason for a table: each group's rows follow
//! each other, and it does not come again. So what a table gains is counted in runs.

use super::keys::Keys;

/// One batch of so many is looked at. Unmeasured.
const SAMPLED_OF: u64 = 16;

/// When so many rows were looked at, they count half beside later ones. Unmeasured.
const HALVED_AT_ROWS: u64 = 1 << 16;

/// What is known of the runs so far.
#[derive(Debug, Default)]
pub(super) struct Runs {
    batches: u64,
    /// Rows that were looked at, and how many of them began a run.
    rows: u64,
    runs: u64,
}

impl Runs {
    /// Looks at the first batch, and at some of those that follow.
    pub(super) fn look_at(&mut self, keys: &impl Keys, rows: usize) {
        let is_sampled = self.batches.is_multiple_of(SAMPLED_OF);
        self.batches += 1;
        if !is_sampled {
            return;
        }
        if self.rows >= HALVED_AT_ROWS {
            (self.rows, self.runs) = (self.rows / 2, self.runs / 2);
        }
        for row in 1..rows {
            self.rows += 1;
            self.runs += u64::from(!goes_on(keys, row));
        }
    }

    /// About so many runs are in so many rows.
    pub(super) fn among(&self, rows: u64) -> u64 {
        scaled(rows, self.runs, self.rows)
    }

    /// About so many rows have so many runs.
    pub(super) fn rows_of(&self, runs: u64) -> u64 {
        scaled(runs, self.rows, self.runs)
    }

    /// Whether to fold the rows of a run before anything else is done with them. Unmeasured between 1 and 4 rows a run.
    pub(super) fn are_long(&self) -> bool {
        self.rows > 0 && 4 * self.runs <= 3 * self.rows
    }
}

/// `number * to / from`, where these are known.
fn scaled(number: u64, to: u64, from: u64) -> u64 {
    if to == 0 || from == 0 {
        return number;
    }
    let scaled = u128::from(number) * u128::from(to) / u128::from(from);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Whether a row has the key of the row before it.
#[inline(always)]
pub(super) fn goes_on(keys: &impl Keys, row: usize) -> bool {
    let differing = (0..keys.words()).fold(0, |bits, word| {
        bits | keys.word(row, word) ^ keys.word(row - 1, word)
    });
    differing == 0
}

#[cfg(test)]
mod tests {
    use super::super::keys::Columns;
    use super::super::tests::options_of;
    use super::super::{Layout, LocalGroups};
    use super::*;

    fn runs_of(length: u64, rows: u64) -> Runs {
        let mut runs = Runs::default();
        let keys: Vec<u64> = (0..rows).map(|row| row / length).collect();
        for start in (0..keys.len()).step_by(512) {
            let range = start..keys.len().min(start + 512);
            runs.look_at(&Columns::<1>::new(&[&keys], range.clone()), range.len());
        }
        runs
    }

    #[test]
    fn runs_are_estimated_from_a_part_of_the_rows() {
        let runs = runs_of(4, 1 << 22);
        assert!(runs.are_long());
        assert!((240_000..260_000).contains(&runs.among(1_000_000)), "{runs:?}");
        assert!(
            (3_800_000..4_200_000).contains(&runs.rows_of(1_000_000)),
            "{runs:?}"
        );
        let alone = runs_of(1, 100_000);
        assert!(!alone.are_long());
        assert_eq!((alone.among(77), alone.rows_of(77)), (77, 77));
    }

    #[test]
    fn a_run_that_passes_by_the_table_is_one_record() {
        let keys: Vec<u64> = (0..50_000).map(|row| row / 5).collect();
        let mut local = LocalGroups::new(Layout::new(1, Vec::new()), &options_of(3000, 4)).unwrap();
        local.push(&[&keys], None, &[]).unwrap();
        let records = local.finish().unwrap().len();
        // Where a batch ends, a run is cut in two.
        assert!((10_000..10_200).contains(&records), "{records} records");
    }

    #[test]
    fn what_is_unknown_is_as_it_was() {
        let none = Runs::default();
        assert_eq!((none.among(5), none.rows_of(5), none.are_long()), (5, 5, false));
        // One key for all rows: no run was seen to begin.
        let one = runs_of(1 << 40, 10_000);
        assert_eq!((one.among(5), one.are_long()), (5, true));
    }
}
