//! corun's join table on plain slices: what a join could reach if the plan around it cost nothing.
//!
//! Only for one 64-bit key column. The pairs it finds are turned into the join's sum once ([`TableAlone::join_sum`]) and
//! compared with the oracle's; timed probes ([`TableAlone::probe`]) then only count pairs and add up row numbers, so that
//! no payload is touched.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use arrow::array::{Array, Int64Array, RecordBatch};
use corun_exec::{BuildOptions, Chunk, Codes, InstructionSet, JoinTable, Pairs, ProbeCursor, ScopedThreads};

use super::data::JoinData;
use corun_workloads::parallel::share;
use lab_core::error::BenchError;

/// Flips the sign bit: the order of signed keys becomes the order of unsigned codes.
const SIGN_BIAS: u64 = 1 << 63;
/// Pairs taken from the table at once, a batch's worth.
const PAIRS_MAX: usize = 8192;

/// The table of `b` and the probe keys of `p`.
pub struct TableAlone<'a> {
    table: JoinTable,
    probes: Vec<&'a [u64]>,
}

/// What a timed probe finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Pairs of rows.
    pub pairs: u64,
    /// Sum of their build row numbers.
    pub build_rows: u64,
}

impl Found {
    /// As comparable text.
    pub fn text(&self) -> String {
        format!("{} pairs, build rows add up to {}", self.pairs, self.build_rows)
    }
}

/// The first column of each batch, its bits as unsigned numbers, without copying.
fn keys(batches: &[RecordBatch]) -> Result<Vec<&[u64]>, BenchError> {
    batches
        .iter()
        .map(|batch| {
            let keys = batch.column(0).as_any().downcast_ref::<Int64Array>();
            keys.map(|keys| keys.values().inner().typed_data::<u64>())
                .ok_or_else(|| BenchError::Data("the table alone takes one 64-bit key".to_string()))
        })
        .collect()
}

impl<'a> TableAlone<'a> {
    /// Builds the table with so many threads, to be probed with no wider instructions than these; the time is the build's alone.
    ///
    /// # Errors
    /// When the keys are not one 64-bit column, or memory is short.
    pub fn build(
        data: &'a JoinData,
        threads: usize,
        instructions: InstructionSet,
    ) -> Result<(TableAlone<'a>, Duration), BenchError> {
        let topology = corun_topology::discover();
        let default = BuildOptions::default();
        let options = BuildOptions {
            l2_bytes: topology
                .cache_bytes(2)
                .map_or(default.l2_bytes, |bytes| bytes.as_usize()),
            llc_bytes: topology
                .planning_llc_bytes()
                .map_or(default.llc_bytes, |bytes| bytes.as_usize()),
            instructions,
            ..default
        };
        let mut first_row = 0;
        let chunks: Vec<Chunk<'_>> = keys(&data.build.batches)?
            .into_iter()
            .map(|values| {
                let codes = Codes::U64 {
                    values,
                    bias: SIGN_BIAS,
                };
                let chunk = Chunk {
                    codes,
                    valid: None,
                    first_row,
                };
                first_row += values.len() as u32;
                chunk
            })
            .collect();
        let probes = keys(&data.probe.batches)?;
        let start = Instant::now();
        let table = JoinTable::build(
            &chunks,
            &options,
            &ScopedThreads(threads),
            &AtomicBool::new(false),
        )
        .map_err(|error| BenchError::Data(error.to_string()))?;
        Ok((TableAlone { table, probes }, start.elapsed()))
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Probes every key, the batches shared out among `threads` threads.
    pub fn probe(&self, threads: usize) -> Found {
        let part = |thread| {
            let mut found = Found::default();
            self.for_pairs(share(self.probes.len(), threads, thread), &mut |_, pairs| {
                found.pairs += pairs.len() as u64;
                found.build_rows += pairs.build.iter().map(|&row| u64::from(row)).sum::<u64>();
            });
            found
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|thread| scope.spawn(move || part(thread)))
                .collect();
            others.into_iter().fold(part(0), |sum, other| match other.join() {
                Ok(found) => Found {
                    pairs: sum.pairs + found.pairs,
                    build_rows: sum.build_rows + found.build_rows,
                },
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
    }

    /// Calls `visit(batch number, pairs)` until the batches of `range` are probed.
    fn for_pairs(&self, range: std::ops::Range<usize>, visit: &mut dyn FnMut(usize, &Pairs)) {
        let (mut cursor, mut pairs) = (ProbeCursor::default(), Pairs::default());
        for batch in range {
            let codes = Codes::U64 {
                values: self.probes[batch],
                bias: SIGN_BIAS,
            };
            cursor.reset();
            loop {
                let finished = self
                    .table
                    .probe(&codes, None, None, &mut cursor, PAIRS_MAX, &mut pairs);
                visit(batch, &pairs);
                if finished {
                    break;
                }
            }
        }
    }

    /// `sum(b.v + p.pv)` over the pairs, as the oracle writes it.
    ///
    /// # Errors
    /// When a value column is not 64-bit integers.
    pub fn join_sum(&self, data: &JoinData) -> Result<String, BenchError> {
        let values = |batch: &RecordBatch| {
            let last = batch.column(batch.num_columns() - 1);
            let values = last
                .as_any()
                .downcast_ref::<Int64Array>()
                .map(|values| values.values().to_vec());
            values.ok_or_else(|| BenchError::Data("values are 64-bit integers".to_string()))
        };
        let build: Vec<i64> = data
            .build
            .batches
            .iter()
            .map(values)
            .collect::<Result<Vec<_>, _>>()?
            .concat();
        let probe: Vec<Vec<i64>> = data.probe.batches.iter().map(values).collect::<Result<_, _>>()?;
        let (mut count, mut sum) = (0, 0);
        self.for_pairs(0..self.probes.len(), &mut |batch, pairs| {
            count += pairs.len();
            for (&build_row, &probe_row) in pairs.build.iter().zip(&pairs.probe) {
                sum += build[build_row as usize] + probe[batch][probe_row as usize];
            }
        });
        Ok(if count == 0 {
            "NULL".to_string()
        } else {
            sum.to_string()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::case::Tables;
    use crate::join::keys::KeyKind;
    use corun_model::progress::Silent;

    #[test]
    fn the_table_alone_finds_the_joins_pairs() {
        for keys in [KeyKind::Dense, KeyKind::Sparse, KeyKind::Dup16, KeyKind::Zipf] {
            let tables = Tables {
                keys,
                build_rows: 4_800,
                probe_rows: 50_000,
                hit_rate: 50,
            };
            let data = JoinData::generate(&tables, 21, &Silent).expect("data");
            let (alone, _) = TableAlone::build(&data, 2, InstructionSet::default()).expect("a table");
            assert_eq!(
                alone.join_sum(&data).expect("integers"),
                data.expected,
                "{keys:?}"
            );
            let found = alone.probe(1);
            assert_eq!(found.pairs, data.matches, "{keys:?}");
            assert_eq!(alone.probe(3), found, "{keys:?}");
        }
    }

    #[test]
    fn string_keys_are_refused() {
        let tables = Tables {
            keys: KeyKind::String,
            build_rows: 10,
            probe_rows: 10,
            hit_rate: 100,
        };
        let data = JoinData::generate(&tables, 1, &Silent).expect("data");
        assert!(TableAlone::build(&data, 1, InstructionSet::default()).is_err());
    }
}
