//! [`Built`]: a hash join's table once its rows have gone in.

use super::planned::{BUCKETS_MIN, FREQUENT_ENTRY, FREQUENT_NUMBER, FREQUENT_PERCENT, Planned};
use super::{HEAD, LINK, PIECE_MAX, POINTER, aligned, power_of_two, whole};
use crate::units::Bytes;

/// Rows are packed into pieces of this size.
const CHUNK: u64 = 32 << 10;
/// What a piece needs for itself.
const CHUNK_HEAD: u64 = 32;
/// Rows larger than this have a piece of their own.
const CHUNK_ROW_MAX: u64 = CHUNK / 4;
/// Most batches a table is ever cut into: each needs two pointers in one piece of memory.
const BATCHES_MAX: u64 = PIECE_MAX / (2 * POINTER);

/// Rows as a table keeps them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stored {
    /// Rows that go into the table. Rows with a NULL in their key do not, unless the join must return them.
    pub rows: f64,
    /// Bytes of a row on average: link, head, data; not yet aligned.
    pub row_bytes: f64,
}

impl Stored {
    /// Rows with `data` bytes of columns on average and no NULL. Short strings count with one byte of length, others with four,
    /// and what lies outside of its table counts as a pointer of 18 bytes: it is not fetched for the join.
    pub fn new(rows: f64, data: f64) -> Self {
        Self {
            rows,
            row_bytes: (LINK + aligned(HEAD)) as f64 + data,
        }
    }

    /// The same where rows have NULLs among `columns` columns. A bitmap for up to eight of them fits into the head.
    pub fn with_nulls(rows: f64, data: f64, columns: u64) -> Self {
        Self {
            rows,
            row_bytes: (LINK + aligned(HEAD + columns.div_ceil(8))) as f64 + data,
        }
    }

    fn row_aligned(&self) -> u64 {
        aligned(whole(self.row_bytes)).max(aligned(LINK + HEAD))
    }
}

/// Values of the outer side that are frequent. Their rows stay in memory while those of other batches wait in files.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Frequent {
    /// Such values the statistics list, if together they are at least 1 % of the outer rows; else 0.
    pub values: u64,
    /// Rows of the table that have one of them.
    pub rows: f64,
}

/// A table with its rows in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Built {
    /// `Buckets`.
    pub buckets: u64,
    /// `Batches`.
    pub batches: u64,
    /// `Memory Usage`: the largest sum of rows, as long as they are, and buckets. A shared table is counted in pieces.
    pub counted: Bytes,
    /// What is reserved and touched while it is probed: rows aligned and packed, buckets. Where processes probe several batches of
    /// a shared table at a time, all of them.
    pub resident: Bytes,
}

impl Planned {
    /// The table after these rows, for hash values that are spread evenly. Rows of which very many have the same key cannot be
    /// cut into batches; such a table grows beyond what is said here.
    pub fn built(&self, stored: Stored, frequent: Frequent) -> Built {
        if self.participants > 1 {
            self.shared(stored)
        } else {
            self.alone(stored, frequent)
        }
    }

    fn alone(&self, stored: Stored, frequent: Frequent) -> Built {
        let rows = stored.rows.max(0.0);
        let row = stored.row_bytes.max(1.0);
        let limit = self.limit.0 as f64;
        // Rows that fit beside so many buckets.
        let fitting = |buckets: u64| ((limit - (buckets * POINTER) as f64) / row).floor().max(1.0);
        let (mut buckets, mut batches) = (self.buckets, self.batches);
        let mut peak: f64 = 0.0;
        // The row that begins the stage of so many buckets.
        let mut first: f64 = 0.0;
        while batches == 1 {
            // Buckets double when a row comes and there are more rows than buckets already.
            let last = buckets as f64 + 1.0;
            let fits = fitting(buckets);
            if fits < last.min(rows) {
                peak = first.max(fits + 1.0) * row;
                batches = 2;
            } else if rows <= last || buckets >= PIECE_MAX / POINTER / 2 {
                break;
            } else {
                buckets *= 2;
                first = last + 1.0;
            }
        }
        let (mut apart, mut apart_rows) = (0, 0.0);
        if self.batches > 1 && frequent.values > 0 && self.frequent_max > 0 {
            let values = frequent.values.min(self.frequent_max);
            apart = power_of_two(values + 1) * 4 * POINTER + values * (FREQUENT_NUMBER + FREQUENT_ENTRY);
            let room = (self.limit.0 / 100 * FREQUENT_PERCENT).saturating_sub(apart) as f64;
            let share = values as f64 / frequent.values as f64;
            apart_rows = (frequent.rows.max(0.0) * share)
                .min((room / row).floor())
                .min(rows);
        }
        let others = rows - apart_rows;
        let fits = (fitting(buckets) - apart_rows - apart as f64 / row).max(1.0);
        if batches > 1 {
            while others / batches as f64 > fits && batches < BATCHES_MAX / 2 {
                peak = peak.max((fits + 1.0) * row);
                batches *= 2;
            }
        }
        let in_memory = others / batches as f64 + apart_rows;
        let beside = (buckets * POINTER).saturating_add(apart);
        Built {
            buckets,
            batches,
            counted: Bytes(whole(peak.max(in_memory * row + beside as f64))),
            resident: Bytes(chunks(in_memory, stored.row_aligned()).saturating_add(beside)),
        }
    }

    /// A table that several processes fill. When they notice that it is full depends on which of them takes which pages, so near a
    /// power of two the buckets, and near the limit the batches, may come out half or twice as many.
    fn shared(&self, stored: Stored) -> Built {
        let rows = stored.rows.max(0.0);
        let row = stored.row_aligned();
        let (mut buckets, mut batches) = (self.buckets, self.batches);
        if batches == 1 {
            if self.pieces(rows, row) > self.limit.0 {
                batches = power_of_two(self.participants * 2);
                // Rows that were in memory when the limit was passed, spread over twice the batches they would need.
                let then = self.limit.0 as f64 / row as f64;
                buckets = power_of_two(whole(then * 2.0 / batches as f64).max(BUCKETS_MIN));
            } else {
                while rows > buckets as f64 && buckets < PIECE_MAX / POINTER / 2 {
                    buckets *= 2;
                }
            }
        }
        while batches > 1
            && self.pieces(rows / batches as f64, row) > self.limit_alone.0
            && batches < BATCHES_MAX / 2
        {
            batches *= 2;
        }
        let one = self
            .pieces(rows / batches as f64, row)
            .saturating_add(buckets * POINTER);
        Built {
            buckets,
            batches,
            counted: Bytes(one),
            resident: Bytes(one.saturating_mul(batches.min(self.participants))),
        }
    }

    /// Pieces of all participants: each has one that is not full.
    fn pieces(&self, rows: f64, row: u64) -> u64 {
        let full = chunks(rows, row);
        let begun = (self.participants - 1).min(full / CHUNK / self.participants) * CHUNK;
        full.saturating_add(begun)
    }
}

/// What rows of a size take when packed.
fn chunks(rows: f64, row: u64) -> u64 {
    if row > CHUNK_ROW_MAX {
        return whole(rows).saturating_mul(row.saturating_add(CHUNK_HEAD));
    }
    let each = (CHUNK - CHUNK_HEAD) / row.max(1);
    whole(rows / each as f64).saturating_mul(CHUNK)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Input, Memory};
    use super::*;

    /// Puts one row after the other into a table, as the executor does. Row `i` belongs to batch `i % batches`: evenly spread.
    fn one_by_one(planned: &Planned, rows: u64, row: u64) -> (u64, u64, u64) {
        let limit = planned.limit.0;
        let (mut buckets, mut batches, mut inside, mut peak) = (planned.buckets, planned.batches, 0, 0);
        for i in 0..rows {
            if i % batches != 0 {
                continue;
            }
            if batches == 1 && inside > buckets {
                buckets *= 2;
            }
            inside += 1;
            peak = peak.max(inside * row);
            while inside > 1 && inside * row + buckets * POINTER > limit {
                batches *= 2;
                inside = i / batches + 1;
                if i % batches != 0 {
                    break;
                }
            }
        }
        (buckets, batches, peak.max(inside * row + buckets * POINTER))
    }

    fn input(rows: f64, width: u64, participants: u64) -> Input {
        Input {
            rows,
            width,
            participants,
            frequent: false,
        }
    }

    fn memory(kib: u64) -> Memory {
        Memory {
            work_mem: Bytes::kib(kib),
            hash_mem_multiplier: 1.0,
        }
    }

    #[test]
    fn a_table_as_postgresql_15_printed_it() {
        // Seen: 80,000 rows of one int4, 4 MB twice: 131072 buckets, 1 batch, 3837 kB.
        let planned = Planned::of(&input(80_000.0, 4, 1), &Memory::default());
        assert_eq!((planned.buckets, planned.batches), (131_072, 1));
        let built = planned.built(planned.stored(), Frequent::default());
        assert_eq!(built.counted.0.div_ceil(1024), 3837);
        // Aligned, a row takes 40 bytes: 818 to a piece of 32 KiB.
        assert_eq!(
            built.resident.0,
            80_000_u64.div_ceil(818) * (32 << 10) + 131_072 * 8
        );
    }

    #[test]
    fn buckets_double_only_when_there_are_more_rows_than_buckets() {
        let planned = Planned::of(&input(10.0, 4, 1), &Memory::default());
        let buckets = |rows: f64| planned.built(Stored::new(rows, 4.0), Frequent::default()).buckets;
        assert_eq!(
            [1024.0, 1025.0, 1026.0, 2049.0, 2050.0].map(buckets),
            [1024, 1024, 2048, 2048, 4096]
        );
    }

    #[test]
    fn frequent_values_take_their_share() {
        let seen = Input {
            frequent: true,
            ..input(400_000.0, 4, 1)
        };
        let planned = Planned::of(&seen, &memory(1024));
        assert!(planned.batches > 1 && planned.frequent_max > 0);
        let without = planned.built(planned.stored(), Frequent::default());
        let with = planned.built(
            planned.stored(),
            Frequent {
                values: 100,
                rows: 100.0,
            },
        );
        // 128 entries times four, 100 numbers and entries, 100 rows.
        let expected = 512 * 8 + 100 * 20 + 100 * 36;
        let more = with.counted.0 - without.counted.0;
        assert!(
            more.abs_diff(expected) <= 100 * 36 / planned.batches + 72,
            "{more}"
        );
    }

    #[test]
    fn shared_tables_have_one_limit_for_all() {
        let rows = 100_000.0;
        let together = Planned::of(&input(rows, 4, 3), &memory(2048));
        let alone = Planned::of(&input(rows, 4, 1), &memory(2048));
        assert_eq!((together.batches, together.limit), (1, Bytes::mib(6)));
        assert!(alone.batches > 1);
        let beyond = Planned::of(&input(4.0 * rows, 4, 3), &memory(2048));
        assert_eq!(beyond.limit, Bytes::mib(2));
        // More rows than expected: twice as many batches as processes, at least.
        let built = together.built(Stored::new(400_000.0, 4.0), Frequent::default());
        assert!(built.batches >= 8);
        assert!(built.resident > built.counted);
    }

    #[test]
    fn nulls_cost_nothing_up_to_eight_columns() {
        assert_eq!(Stored::with_nulls(1.0, 10.0, 8), Stored::new(1.0, 10.0));
        assert_eq!(Stored::with_nulls(1.0, 10.0, 9).row_bytes, 50.0);
    }

    proptest! {
        #[test]
        fn the_table_is_that_of_rows_put_in_one_by_one(
            estimated in 1.0f64..20_000.0,
            rows in 0u64..40_000,
            data in 0u64..200,
            width in 0u64..200,
            kib in 64u64..4096,
        ) {
            let planned = Planned::of(&input(estimated, width, 1), &memory(kib));
            let stored = Stored::new(rows as f64, data as f64);
            let row = stored.row_bytes as u64;
            // A row alone is kept whatever the limit.
            prop_assume!(planned.buckets * POINTER + 4 * row < planned.limit.0);
            let (buckets, batches, counted) = one_by_one(&planned, rows, row);
            let built = planned.built(stored, Frequent::default());
            prop_assert_eq!((built.buckets, built.batches), (buckets, batches));
            prop_assert!(built.counted.0.abs_diff(counted) <= row);
        }

        #[test]
        fn no_input_is_too_strange(
            rows in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), 0.0f64..1e300],
            width: u64,
            participants: u64,
            frequent: bool,
            work_mem: u64,
            multiplier in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), -1.0f64..1e9],
        ) {
            let memory = Memory { work_mem: Bytes(work_mem), hash_mem_multiplier: multiplier };
            // What arrives here was read as a width, which has 31 bits, and a number of processes.
            let seen = Input { rows, width: width >> 33, participants: participants >> 48, frequent };
            let planned = Planned::of(&seen, &memory);
            prop_assert!(planned.buckets.is_power_of_two() && planned.batches.is_power_of_two());
            let built = planned.built(planned.stored(), Frequent { values: width, rows });
            prop_assert!(built.buckets.is_power_of_two() && built.batches.is_power_of_two());
        }
    }
}
