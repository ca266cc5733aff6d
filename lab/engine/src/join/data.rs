//! The two tables of a join case and the sum a right join gives, all from a seed.
//!
//! ```text
//!   b(k, v)     or b(k1, k2, v)       v  in 0..1000
//!   p(pk, pv)   or p(pk1, pk2, pv)    pv in 0..1000
//!   select sum(b.v + p.pv) from b join p on p.pk = b.k
//! ```
//!
//! A probe row is drawn as an identity first, and the sum of the values of that identity's build rows is looked up in an
//! array by identity: the oracle never compares keys, so it shares no mistake with a join.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::case::Tables;
use super::keys::{KeyKind, integer_key, integer_pair, string_key};
use corun_model::progress::Progress;
use corun_workloads::numbers::{Zipf, below, draw, permutation};
use corun_workloads::parallel::{run_jobs, share};
use lab_core::error::BenchError;

/// Rows a batch, the engine's default.
pub const BATCH_ROWS: usize = 8192;
/// Values are below this, so that sums of 16 million pairs stay far from overflow.
const VALUES: u64 = 1000;

/// Streams of random numbers, one a column.
mod stream {
    pub const BUILD_VALUE: u64 = 1;
    pub const PROBE_VALUE: u64 = 2;
    pub const PROBE_HIT: u64 = 3;
    pub const PROBE_IDENTITY: u64 = 4;
}

/// One in-memory table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its columns.
    pub schema: SchemaRef,
    /// Its rows in batches of [`BATCH_ROWS`].
    pub batches: Vec<RecordBatch>,
}

impl Table {
    /// The batches as `count` runs of nearly equal length; the batches are shared, not copied.
    pub fn partitions(&self, count: usize) -> Vec<Vec<RecordBatch>> {
        let count = count.max(1);
        (0..count)
            .map(|part| self.batches[share(self.batches.len(), count, part)].to_vec())
            .collect()
    }

    /// Rows in all batches.
    pub fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// The tables of a case and the right answer.
#[derive(Clone, Debug)]
pub struct JoinData {
    /// The build table `b`.
    pub build: Table,
    /// The probe table `p`.
    pub probe: Table,
    /// Rows of the join.
    pub matches: u64,
    /// `sum(b.v + p.pv)` as text; `NULL` where nothing matches.
    pub expected: String,
}

/// The columns a row's identity turns into.
#[derive(Clone, Copy)]
struct KeyColumns {
    kind: KeyKind,
    distinct: u64,
}

impl KeyColumns {
    fn fields(self, prefix: &str) -> Vec<Field> {
        match self.kind {
            KeyKind::Int2 => ["k1", "k2"]
                .map(|name| Field::new(format!("{prefix}{name}"), DataType::Int64, false))
                .to_vec(),
            KeyKind::String => vec![Field::new(format!("{prefix}k"), DataType::Utf8View, false)],
            _ => vec![Field::new(format!("{prefix}k"), DataType::Int64, false)],
        }
    }

    fn arrays(self, identities: &[u64]) -> Vec<ArrayRef> {
        match self.kind {
            KeyKind::Int2 => {
                let (first, second): (Vec<i64>, Vec<i64>) = identities
                    .iter()
                    .map(|&identity| integer_pair(identity, self.distinct))
                    .unzip();
                vec![
                    Arc::new(Int64Array::from(first)),
                    Arc::new(Int64Array::from(second)),
                ]
            }
            KeyKind::String => {
                let mut builder = StringViewBuilder::with_capacity(identities.len());
                let mut buffer = [0; 24];
                for &identity in identities {
                    builder.append_value(string_key(identity, &mut buffer));
                }
                vec![Arc::new(builder.finish())]
            }
            kind => {
                let keys = identities.iter().map(|&identity| integer_key(kind, identity));
                vec![Arc::new(Int64Array::from_iter_values(keys))]
            }
        }
    }
}

/// The join of the two tables in SQL. The build table is on the left, where DataFusion leaves it when sizes are equal;
/// `build_on_right` writes it for engines that build on the right.
pub fn sql(kind: KeyKind, build_on_right: bool) -> String {
    let from = if build_on_right { "p join b" } else { "b join p" };
    let on = match kind {
        KeyKind::Int2 => "p.pk1 = b.k1 and p.pk2 = b.k2",
        _ => "p.pk = b.k",
    };
    format!("select sum(b.v + p.pv) from {from} on {on}")
}

impl JoinData {
    /// Makes the tables with all cores. The content depends on `tables` and `seed` only.
    ///
    /// # Errors
    /// When Arrow refuses the columns.
    pub fn generate(tables: &Tables, seed: u64, progress: &dyn Progress) -> Result<JoinData, BenchError> {
        let duplicates = tables.keys.duplicates();
        let distinct = (tables.build_rows / duplicates).max(1);
        let build_rows = distinct * duplicates;
        let columns = KeyColumns {
            kind: tables.keys,
            distinct: distinct as u64,
        };

        let order = permutation(seed, build_rows);
        let identity_of = |row: usize| order[row] as usize / duplicates;
        let value_of = |row: usize| (draw(seed, stream::BUILD_VALUE, row as u64) % VALUES) as i64;
        let mut value_sums = vec![0i64; distinct];
        for row in 0..build_rows {
            value_sums[identity_of(row)] += value_of(row);
        }
        let build_schema = schema(columns, "", "v");
        let build = parallel_batches("build table", build_rows, progress, &|rows| {
            let identities: Vec<u64> = rows.clone().map(|row| identity_of(row) as u64).collect();
            let values: Int64Array = Int64Array::from_iter_values(rows.map(value_of));
            batch(&build_schema, columns.arrays(&identities), values).map(|batch| (batch, Tally::default()))
        })?
        .0;

        let zipf = Zipf::new(distinct as u64);
        let probe_schema = schema(columns, "p", "pv");
        let (probe, tally) = parallel_batches("probe table", tables.probe_rows, progress, &|rows| {
            let mut tally = Tally::default();
            let mut identities = Vec::with_capacity(rows.len());
            let mut values = Vec::with_capacity(rows.len());
            for row in rows {
                let row = row as u64;
                let hit = below(draw(seed, stream::PROBE_HIT, row), 100) < tables.hit_rate as u64;
                let identity = match tables.keys {
                    KeyKind::Zipf => zipf.rank(seed, stream::PROBE_IDENTITY, row) - 1,
                    _ => below(draw(seed, stream::PROBE_IDENTITY, row), distinct as u64),
                };
                let value = (draw(seed, stream::PROBE_VALUE, row) % VALUES) as i64;
                if hit {
                    tally.matches += duplicates as u64;
                    tally.sum += value_sums[identity as usize] + duplicates as i64 * value;
                }
                identities.push(if hit { identity } else { identity + distinct as u64 });
                values.push(value);
            }
            batch(
                &probe_schema,
                columns.arrays(&identities),
                Int64Array::from(values),
            )
            .map(|batch| (batch, tally))
        })?;

        let expected = if tally.matches == 0 {
            "NULL".to_string()
        } else {
            tally.sum.to_string()
        };
        Ok(JoinData {
            build: Table {
                schema: build_schema,
                batches: build,
            },
            probe: Table {
                schema: probe_schema,
                batches: probe,
            },
            matches: tally.matches,
            expected,
        })
    }
}

/// What the oracle counts.
#[derive(Clone, Copy, Default)]
struct Tally {
    matches: u64,
    sum: i64,
}

fn schema(columns: KeyColumns, prefix: &str, value: &str) -> SchemaRef {
    let mut fields = columns.fields(prefix);
    fields.push(Field::new(value, DataType::Int64, false));
    Arc::new(Schema::new(fields))
}

fn batch(schema: &SchemaRef, mut keys: Vec<ArrayRef>, values: Int64Array) -> Result<RecordBatch, BenchError> {
    keys.push(Arc::new(values));
    RecordBatch::try_new(Arc::clone(schema), keys).map_err(BenchError::data)
}

/// Makes one batch.
type MakeBatch<'a> = dyn Fn(std::ops::Range<usize>) -> Result<(RecordBatch, Tally), BenchError> + Sync + 'a;

/// Makes the batches of `rows` rows on all cores, in order.
fn parallel_batches(
    what: &str,
    rows: usize,
    progress: &dyn Progress,
    make: &MakeBatch<'_>,
) -> Result<(Vec<RecordBatch>, Tally), BenchError> {
    let batches = rows.div_ceil(BATCH_ROWS);
    let parts = run_jobs(what, batches, lab_core::suite::all_cores(), progress, |index| {
        make(index * BATCH_ROWS..((index + 1) * BATCH_ROWS).min(rows))
    });
    let mut all = Vec::with_capacity(batches);
    let mut total = Tally::default();
    for part in parts {
        let (batch, tally) = part?;
        total.matches += tally.matches;
        total.sum += tally.sum;
        all.push(batch);
    }
    Ok((all, total))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::array::{Array, StringViewArray};

    use super::*;
    use corun_model::progress::Silent;

    /// Keys of a table as text, with the value of each row.
    fn rows(table: &Table) -> Vec<(String, i64)> {
        let mut rows = Vec::new();
        for batch in &table.batches {
            let integers = |column: usize| batch.column(column).as_any().downcast_ref::<Int64Array>();
            let values = integers(batch.num_columns() - 1).expect("the value column");
            for row in 0..batch.num_rows() {
                let mut key = String::new();
                for column in 0..batch.num_columns() - 1 {
                    match integers(column) {
                        Some(keys) => key += &format!("{}|", keys.value(row)),
                        None => {
                            let strings = batch.column(column).as_any().downcast_ref::<StringViewArray>();
                            key += strings.expect("integers or strings").value(row);
                        }
                    }
                }
                rows.push((key, values.value(row)));
            }
        }
        rows
    }

    /// The sum of a join by a map from keys to values: slow, plain, and independent of the generator's oracle.
    fn joined(data: &JoinData) -> (u64, String) {
        let mut by_key: HashMap<String, Vec<i64>> = HashMap::new();
        for (key, value) in rows(&data.build) {
            by_key.entry(key).or_default().push(value);
        }
        let (mut matches, mut sum) = (0, 0);
        for (key, value) in rows(&data.probe) {
            for other in by_key.get(&key).into_iter().flatten() {
                matches += 1;
                sum += value + other;
            }
        }
        (
            matches,
            if matches == 0 {
                "NULL".to_string()
            } else {
                sum.to_string()
            },
        )
    }

    #[test]
    fn the_expected_sum_is_the_join_of_the_tables() {
        for keys in KeyKind::ALL {
            for hit_rate in [0, 5, 50, 100] {
                let tables = Tables {
                    keys,
                    build_rows: 1_600,
                    probe_rows: 20_000,
                    hit_rate,
                };
                let data = JoinData::generate(&tables, 11, &Silent).expect("data");
                assert_eq!(
                    joined(&data),
                    (data.matches, data.expected.clone()),
                    "{}",
                    tables.name()
                );
                assert_eq!(data.build.num_rows(), 1_600);
                assert_eq!(data.probe.num_rows(), 20_000);
                let expected = (20_000 * hit_rate * keys.duplicates() / 100) as f64;
                assert!(
                    (data.matches as f64 - expected).abs() <= expected * 0.2,
                    "{}",
                    tables.name()
                );
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_tables() {
        let tables = Tables {
            keys: KeyKind::Zipf,
            build_rows: 1_000,
            probe_rows: 9_000,
            hit_rate: 50,
        };
        let make = |seed| JoinData::generate(&tables, seed, &Silent).expect("data");
        assert_eq!(make(1).probe.batches, make(1).probe.batches);
        assert_ne!(make(1).probe.batches, make(2).probe.batches);
    }

    #[test]
    fn partitions_hold_every_batch_once() {
        let tables = Tables {
            keys: KeyKind::Sparse,
            build_rows: 10,
            probe_rows: 50_000,
            hit_rate: 100,
        };
        let probe = JoinData::generate(&tables, 3, &Silent).expect("data").probe;
        for count in [1, 2, 3, 7, 100] {
            let partitions = probe.partitions(count);
            assert_eq!(partitions.len(), count);
            assert_eq!(partitions.concat(), probe.batches);
        }
    }
}
