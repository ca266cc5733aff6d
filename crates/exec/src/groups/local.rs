//! [`LocalGroups`]: the first phase, one a thread.

use super::fold::{Argument, Places, fold_rows};
use super::keys::{Columns, Keys, ManyColumns, hash_records, rows_of};
use super::layout::Layout;
use super::merge::{merge, merge_bytes_max};
use super::numbered::Numbered;
use super::partitioned::Partitioned;
use super::runs::{Runs, goes_on};
use super::table::{FIRST_CAPACITY, NullKeys, Scratch, Table};
use super::{BATCH_ROWS, Options, try_zeroed};
use crate::codes::Validity;
use crate::huge::OutOfMemory;
use crate::table::hash::Mixer;

/// Runs a record below which a full table is held to reduce too little.
const REDUCTION_MIN: u64 = 2;

/// How many times its budget a table may grow to. Its records are asked for ahead then. Measured (Zen 4, budget of
/// 256 KiB, two folds), ns a row: 8.4 with 20,000 groups, 8.9 with 40,000; with records of rows instead, merged, 19.
pub(super) const GROW_TO_TABLES: usize = 8;

/// Runs a group, in percent, from which a full table grows: of random keys it has an eighth then, as d groups of D
/// are met by -D ln(1 - d / D) runs, so that all will have room.
const GROW_FROM_PERCENT: u64 = 107;

/// How many times the table's groups pass by it before it is tried again. Unmeasured; trying costs about 10 ns a
/// group of the table, 0.3 ns a row with this.
const BYPASS_TABLES: u64 = 32;

/// Partitions that are reduced first, to see whether it pays. Unmeasured.
const TRIED_PARTITIONS: usize = 4;

/// Groups of the rows of one thread: a table that stays in the private cache, and partitions of records behind it.
///
/// After an error it holds some rows twice or not at all, and only dropping it makes sense.
/// [`LocalGroups::bytes_for`] tells before.
///
/// ```text
///            +-------------------+   full, groups seen again -> grown to at most 8 times its budget
///   push --> | filling the table | - full, reduced by >= 2 ---> emptied into partitions, filling again
///            +-------------------+   full, reduced by less ---> emptied, the next rows become records at once,
///                                                               those of a run one where runs are long
/// ```
#[derive(Debug)]
pub struct LocalGroups {
    pub(super) layout: Layout,
    options: Options,
    mixer: Mixer,
    /// Groups of a table of the budget.
    pub(super) near_capacity: usize,
    pub(super) table: Table,
    pub(super) numbered: Numbered,
    pub(super) scratch: Scratch,
    /// Records of rows that pass by the table; empty until there are any.
    passing: Vec<u64>,
    partitioned: Partitioned,
    /// Whether the record at position 0, that of the NULL key, has a row.
    pub(super) has_null: bool,
    pub(super) rows: u64,
    /// Rows in the table.
    pub(super) table_rows: u64,
    runs: Runs,
    /// Rows that are still to pass by.
    bypass_rows: u64,
    pub(super) emptied: u64,
    pub(super) bypassed_rows: u64,
}

impl LocalGroups {
    /// No groups.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    ///
    /// # Panics
    /// When `options` ask for more than 8 bits of partitions.
    pub fn new(layout: Layout, options: &Options) -> Result<Self, OutOfMemory> {
        assert!(options.partition_bits <= 8, "at most 256 partitions");
        let mixer = Mixer::new(options.seed, 0);
        let near_capacity = options.groups_of(&layout, options.table_bytes);
        Ok(LocalGroups {
            options: *options,
            mixer,
            near_capacity,
            table: Table::new(layout.clone(), mixer, near_capacity)?,
            numbered: Numbered::default(),
            scratch: Scratch::new()?,
            passing: Vec::new(),
            partitioned: Partitioned::new(&layout, 0, options.partition_bits)?,
            layout,
            has_null: false,
            rows: 0,
            table_rows: 0,
            runs: Runs::default(),
            bypass_rows: 0,
            emptied: 0,
            bypassed_rows: 0,
        })
    }

    /// Folds a batch of rows. `keys[word][row]` is a word of a row's key; a row that is not in `valid` is of the NULL
    /// key, which is equal to itself, and its key words mean nothing. `arguments` has one element a fold.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    ///
    /// # Panics
    /// When the number of words or arguments is not the layout's, when lengths differ, or when a fold does not take its
    /// argument's values.
    pub fn push(
        &mut self,
        keys: &[&[u64]],
        valid: Option<Validity<'_>>,
        arguments: &[Argument<'_>],
    ) -> Result<(), OutOfMemory> {
        assert_eq!(keys.len(), self.layout.key_words(), "key words");
        let rows = rows_of(keys, valid);
        self.check(arguments, rows);
        for start in (0..rows).step_by(BATCH_ROWS) {
            let range = start..rows.min(start + BATCH_ROWS);
            let batch = Batch {
                rows: range.len(),
                nulls: valid
                    .filter(|valid| range.clone().any(|row| !valid.is_valid(row)))
                    .map(|valid| NullKeys {
                        valid,
                        first_row: start,
                    }),
                arguments,
                first_row: start,
            };
            match keys.len() {
                1 => self.push_batch(&Columns::<1>::new(keys, range), &batch)?,
                2 => self.push_batch(&Columns::<2>::new(keys, range), &batch)?,
                3 => self.push_batch(&Columns::<3>::new(keys, range), &batch)?,
                _ => {
                    let keys = ManyColumns {
                        columns: keys,
                        first_row: start,
                    };
                    self.push_batch(&keys, &batch)?;
                }
            }
        }
        self.rows += rows as u64;
        Ok(())
    }

    /// Panics unless the folds can take these arguments for so many rows.
    pub(super) fn check(&self, arguments: &[Argument<'_>], rows: usize) {
        assert_eq!(arguments.len(), self.layout.folds().len(), "arguments");
        for (&fold, argument) in self.layout.folds().iter().zip(arguments) {
            argument.check(fold, rows);
        }
    }

    fn push_batch(&mut self, keys: &impl Keys, batch: &Batch<'_>) -> Result<(), OutOfMemory> {
        self.has_null |= batch.nulls.is_some();
        self.runs.look_at(keys, batch.rows);
        let mut row = 0;
        while row < batch.rows {
            row = if self.bypass_rows > 0 {
                self.bypass(keys, batch, row)?
            } else {
                self.fill(keys, batch, row)?
            };
        }
        Ok(())
    }

    /// Folds rows from `first` on into the table, until it is full or the batch ends. Returns the row after the last
    /// one.
    fn fill(&mut self, keys: &impl Keys, batch: &Batch<'_>, first: usize) -> Result<usize, OutOfMemory> {
        let positions = &mut self.scratch.positions[..batch.rows];
        let mut end = first;
        loop {
            end = match self.table.capacity() > self.near_capacity {
                true => self.table.find::<true>(keys, batch.nulls, end, positions),
                false => self.table.find::<false>(keys, batch.nulls, end, positions),
            };
            let capacity = self.table.capacity();
            let runs = self.runs.among(self.table_rows + (end - first) as u64);
            let capacity_max = match 100 * runs >= GROW_FROM_PERCENT * capacity as u64 {
                true => GROW_TO_TABLES * self.near_capacity,
                false => self.near_capacity,
            };
            if end == batch.rows || capacity >= capacity_max {
                break;
            }
            self.table.grow(capacity_max)?;
        }
        fold_rows(
            &self.layout,
            self.table.positions_mut(),
            Places::At(&positions[first..end]),
            batch.arguments,
            batch.first_row + first..batch.first_row + end,
        );
        self.table_rows += (end - first) as u64;
        if end < batch.rows {
            let groups = self.table.len() as u64;
            if self.runs.among(self.table_rows) < REDUCTION_MIN * groups {
                self.bypass_rows = self.runs.rows_of(BYPASS_TABLES * groups);
            }
            self.empty_table()?;
            self.emptied += 1;
        }
        Ok(end)
    }

    /// Makes records of rows from `first` on, or of their runs where these are long, and scatters them. Returns the row after the last
    /// one.
    fn bypass(&mut self, keys: &impl Keys, batch: &Batch<'_>, first: usize) -> Result<usize, OutOfMemory> {
        let record_words = self.layout.record_words();
        if self.passing.is_empty() {
            self.passing = try_zeroed((BATCH_ROWS + 1) * record_words)?;
        }
        let left = usize::try_from(self.bypass_rows).unwrap_or(usize::MAX);
        let end = batch.rows.min(first.saturating_add(left));

        let Scratch { hashes, positions } = &mut self.scratch;
        let rows = batch.first_row + first..batch.first_row + end;
        for (row, hash) in (first..end).zip(&mut hashes[first..end]) {
            *hash = keys.hash(self.mixer, row);
        }
        self.bypass_rows -= (end - first) as u64;
        self.bypassed_rows += (end - first) as u64;
        let runs_are_long = self.runs.are_long();
        if batch.nulls.is_none() && !runs_are_long {
            let passing = &mut self.passing[..(end - first) * record_words];
            for word in 0..keys.words() {
                for (record, row) in passing.chunks_exact_mut(record_words).zip(first..end) {
                    record[word] = keys.word(row, word);
                }
            }
            let places = Places::Own(self.layout.initial());
            fold_rows(&self.layout, passing, places, batch.arguments, rows);
            self.partitioned.scatter(passing, &hashes[first..end])?;
            return Ok(end);
        }

        // Position 0 is of the NULL key here as in the table, so that its rows are folded in order.
        let is_null = |row| batch.nulls.is_some_and(|nulls| nulls.is_null(row));
        let (mut records, mut may_go_on) = (0, false);
        for row in first..end {
            if is_null(row) {
                positions[row] = 0;
                may_go_on = false;
            } else {
                // Without a branch: nobody can tell where runs begin. The rows of a run have one hash.
                let begins = !(may_go_on && goes_on(keys, row));
                records += usize::from(begins);
                hashes[first + records - 1] = hashes[row];
                positions[row] = records as u32;
                may_go_on = runs_are_long;
            }
        }
        let passing = &mut self.passing[..(records + 1) * record_words];
        for record in passing.chunks_exact_mut(record_words) {
            record.copy_from_slice(self.layout.initial());
        }
        passing[..record_words].copy_from_slice(&self.table.positions_mut()[..record_words]);
        for word in 0..keys.words() {
            for row in first..end {
                passing[positions[row] as usize * record_words + word] = keys.word(row, word);
            }
        }
        let places = Places::At(&positions[first..end]);
        fold_rows(&self.layout, passing, places, batch.arguments, rows);
        self.table.positions_mut()[..record_words].copy_from_slice(&passing[..record_words]);
        self.partitioned
            .scatter(&passing[record_words..], &hashes[first..first + records])?;
        Ok(end)
    }

    /// Scatters the groups of the table.
    fn empty_table(&mut self) -> Result<(), OutOfMemory> {
        let (record_words, key_words) = (self.layout.record_words(), self.layout.key_words());
        let mut hashes = [0; 256];
        for batch in self.table.groups().chunks(hashes.len() * record_words) {
            let hashes = &mut hashes[..batch.len() / record_words];
            hash_records(self.mixer, batch, record_words, key_words, hashes);
            self.partitioned.scatter(batch, hashes)?;
        }
        self.table.clear();
        self.numbered.forget();
        self.table_rows = 0;
        Ok(())
    }

    /// Rows pushed.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows that became records without a look into the table, because it did not reduce those before them.
    pub fn bypassed_rows(&self) -> u64 {
        self.bypassed_rows
    }

    /// Most groups of a table.
    pub(super) fn capacity_max(&self) -> usize {
        (GROW_TO_TABLES * self.near_capacity).max(self.numbered.len())
    }

    /// Allocated bytes.
    pub fn bytes(&self) -> usize {
        let tables = self.table.bytes() + self.numbered.bytes() + self.scratch.bytes();
        tables + self.passing.capacity() * 8 + self.partitioned.bytes()
    }

    /// Upper bound of the bytes that pushing so many rows and then [`LocalGroups::take`] or [`LocalGroups::finish`]
    /// allocate beyond [`LocalGroups::bytes`].
    pub fn bytes_for(&self, rows: usize) -> usize {
        let record_bytes = self.layout.record_words() * 8;
        let groups = self.table.len().saturating_add(rows);
        let capacity_max = self.capacity_max();
        let capacity = groups
            .saturating_mul(2)
            .clamp(FIRST_CAPACITY, capacity_max.max(FIRST_CAPACITY));
        let growth = match self.table.capacity() < capacity.min(capacity_max) {
            true => Table::bytes_of(&self.layout, capacity),
            false => 0,
        };
        let passing = if self.passing.is_empty() {
            (BATCH_ROWS + 1) * record_bytes
        } else {
            0
        };
        let scattered = self.partitioned.bytes_for(groups);
        scattered.saturating_add(growth).saturating_add(passing)
    }

    /// Allocated bytes of the records behind the table.
    pub fn record_bytes(&self) -> usize {
        self.partitioned.bytes()
    }

    /// Upper bound of the bytes that [`LocalGroups::reduce`] allocates beyond [`LocalGroups::bytes`].
    pub fn bytes_to_reduce(&self) -> usize {
        merge_bytes_max(&self.layout, self.partitioned.most_records())
    }

    /// Leaves one record a key behind the table, so that memory follows the groups, not the rows. Says whether that has
    /// halved the records: it stops early where it does not halve those of the first partitions.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn reduce(&mut self) -> Result<bool, OutOfMemory> {
        let (mut records, mut left) = (0, 0);
        for partition in 0..self.partitioned.partitions() {
            if partition == TRIED_PARTITIONS && 2 * left > records {
                break;
            }
            let before = self.partitioned.len();
            let chunks = self.partitioned.take(partition);
            records += before - self.partitioned.len();
            let groups = merge(&self.layout, chunks, &self.options)?;
            left += groups.len();
            let all = groups.records(0..groups.len());
            let mut kept = Vec::new();
            kept.try_reserve_exact(all.len()).map_err(|_| OutOfMemory {
                bytes: size_of_val(all),
            })?;
            kept.extend_from_slice(all);
            self.partitioned.put(partition, kept);
        }
        Ok(2 * left <= records)
    }

    /// Hands over what was pushed since the last call, and goes on without groups: for what is written to disk.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn take(&mut self) -> Result<Partitioned, OutOfMemory> {
        self.empty_table()?;
        let next = Partitioned::new(&self.layout, 0, self.options.partition_bits)?;
        let mut taken = std::mem::replace(&mut self.partitioned, next);
        if std::mem::take(&mut self.has_null) {
            let record_words = self.layout.record_words();
            let mut group = try_zeroed(record_words)?;
            let null = &mut self.table.positions_mut()[..record_words];
            group.copy_from_slice(null);
            null.copy_from_slice(self.layout.initial());
            taken.null_group = Some(group);
        }
        Ok(taken)
    }

    /// Hands over all that was pushed since the last [`LocalGroups::take`].
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn finish(mut self) -> Result<Partitioned, OutOfMemory> {
        self.take()
    }
}

/// A piece of what is pushed that fits the scratch memory.
struct Batch<'a> {
    rows: usize,
    nulls: Option<NullKeys<'a>>,
    arguments: &'a [Argument<'a>],
    /// Its first row among those pushed.
    first_row: usize,
}
