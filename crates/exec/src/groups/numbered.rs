//! Groups of keys that the host has numbered: a look into an array stands for hash, bucket and comparison.

use super::fold::{Argument, Places, fold_rows};
use super::keys::{ManyColumns, rows_of};
use super::{LocalGroups, try_zeroed};
use crate::codes::Validity;
use crate::huge::OutOfMemory;

/// The position of a number without a group: no table has so many records.
const NO_GROUP: u32 = u32::MAX;

/// Where groups are in the table; empty where no numbers were given.
#[derive(Debug, Default)]
pub(super) struct Numbered {
    /// By number.
    positions: Vec<u32>,
    /// By row of the last batch.
    of_rows: Vec<u32>,
    /// Rows of the last batch without a group, and their numbers.
    unknown: Vec<(u32, u32)>,
}

impl Numbered {
    /// All numbers are below.
    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// Allocated bytes, those for the rows of a batch left out.
    pub(super) fn bytes(&self) -> usize {
        self.positions.capacity() * size_of::<u32>()
    }

    /// Forgets all groups: their positions have changed.
    pub(super) fn forget(&mut self) {
        self.positions.fill(NO_GROUP);
    }
}

/// Order of calls: [`LocalGroups::number`] once for all numbers, then for each batch [`LocalGroups::find`],
/// [`LocalGroups::introduce`] where keys are unknown, and [`LocalGroups::fold`].
impl LocalGroups {
    /// Takes numbers below `numbers` for keys from here on; those of before are forgotten, the groups are not. The host
    /// gives equal keys one number, and other keys another one.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn number(&mut self, numbers: usize) -> Result<(), OutOfMemory> {
        self.numbered = Numbered::default();
        self.numbered.positions = try_zeroed(numbers)?;
        self.numbered.forget();
        Ok(())
    }

    /// Bytes that [`LocalGroups::number`] allocates for so many numbers.
    pub fn bytes_of_numbers(numbers: usize) -> usize {
        numbers.saturating_mul(size_of::<u32>())
    }

    /// Looks up a batch: a number a row. Returns the rows with numbers whose keys are not known.
    ///
    /// # Panics
    /// When a number is not below that of [`LocalGroups::number`].
    pub fn find(&mut self, numbers: &[u32]) -> impl ExactSizeIterator<Item = u32> {
        let Numbered {
            positions,
            of_rows,
            unknown,
        } = &mut self.numbered;
        unknown.clear();
        of_rows.resize(numbers.len(), 0);
        for (block, (numbers, of_rows)) in numbers.chunks(64).zip(of_rows.chunks_mut(64)).enumerate() {
            let mut any = false;
            for (position, &number) in of_rows.iter_mut().zip(numbers) {
                *position = positions[number as usize];
                any |= *position == NO_GROUP;
            }
            if any {
                let rows = (block as u32 * 64..).zip(numbers).zip(&*of_rows);
                let without = rows.filter(|(_, position)| **position == NO_GROUP);
                unknown.extend(without.map(|((row, number), _)| (row, *number)));
            }
        }
        unknown.iter().map(|(row, _)| *row)
    }

    /// Tells the keys of the rows that [`LocalGroups::find`] has returned, as [`LocalGroups::push`] takes keys. Returns
    /// whether the table had room for their groups. The batch is folded next, or pushed where there was no room: a group
    /// without rows would be in the results.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    ///
    /// # Panics
    /// When the number of words is not the layout's, or when there are not so many rows.
    pub fn introduce(&mut self, keys: &[&[u64]], valid: Option<Validity<'_>>) -> Result<bool, OutOfMemory> {
        assert_eq!(keys.len(), self.layout.key_words(), "key words");
        assert_eq!(
            self.numbered.unknown.len(),
            rows_of(keys, valid),
            "rows and keys differ in length"
        );
        let columns = ManyColumns {
            columns: keys,
            first_row: 0,
        };
        for row in 0..self.numbered.unknown.len() {
            let position = if valid.is_none_or(|valid| valid.is_valid(row)) {
                loop {
                    if let Some(position) = self.table.find_or_insert(&columns, row) {
                        break position;
                    }
                    let capacity_max = self.capacity_max();
                    if self.table.capacity() >= capacity_max {
                        return Ok(false);
                    }
                    self.table.grow(capacity_max)?;
                }
            } else {
                self.has_null = true;
                0
            };
            let (batch_row, number) = self.numbered.unknown[row];
            self.numbered.positions[number as usize] = position;
            self.numbered.of_rows[batch_row as usize] = position;
        }
        Ok(true)
    }

    /// Folds the batch that was looked up. `arguments` has one element a fold.
    ///
    /// # Panics
    /// When keys were not introduced, when the number of arguments is not the layout's, when lengths differ from the
    /// batch's, or when a fold does not take its argument's values.
    pub fn fold(&mut self, arguments: &[Argument<'_>]) {
        let positions = std::mem::take(&mut self.numbered.of_rows);
        self.check(arguments, positions.len());
        let rows = 0..positions.len();
        fold_rows(
            &self.layout,
            self.table.positions_mut(),
            Places::At(&positions),
            arguments,
            rows.clone(),
        );
        self.rows += rows.len() as u64;
        self.table_rows += rows.len() as u64;
        self.numbered.of_rows = positions;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::options_of;
    use super::super::{Fold, Layout, Values};
    use super::*;

    /// Counts rows of keys with numbers below 3.
    fn counting() -> LocalGroups {
        let layout = Layout::new(1, vec![Fold::Count]);
        let mut local = LocalGroups::new(layout, &options_of(3000, 2)).unwrap();
        local.number(3).unwrap();
        local
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_number_beyond_those_announced_is_refused() {
        let mut local = counting();
        assert_eq!(local.find(&[0, 2, 2]).collect::<Vec<u32>>(), [0, 1, 2]);
        assert!(local.introduce(&[&[7, 8, 8]], None).unwrap());
        assert_eq!(local.find(&[2, 0, 2]).len(), 0);
        let _ = local.find(&[3]);
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn a_number_that_was_not_introduced_is_refused() {
        let mut local = counting();
        assert_eq!(local.find(&[1]).len(), 1);
        let rows = Argument {
            values: Values::None,
            valid: None,
        };
        local.fold(&[rows]);
    }
}
