//! The joins of paper 000 as [`Subject`]s: hash join over rows in two layouts, hash join over columns, join index.

use std::ops::Range;

use corun_exec::operators::{
    ColumnJoin, ColumnSink, ColumnTable, Columns, HashJoin, JoinIndex, OperatorError, OutputFull, OutputRow,
    PaperTable, RowSink, RowTable, Stream, TableJoin,
};
use corun_model::operators::mode::Mode;

use super::data::{ColumnInput, PairInput, RowInput};
use super::expected::{Answer, Expected, of_columns, of_rows};
use super::interference::Array;
use super::subject::{How, Pool, Ran, Subject, by_input, go};
use lab_core::error::BenchError;

pub(super) fn operator(error: OperatorError) -> BenchError {
    BenchError::Data(error.to_string())
}

pub(crate) fn full(error: OutputFull) -> BenchError {
    BenchError::Data(error.to_string())
}

/// More results than any range of a stream has.
pub(super) fn results_max(expected: impl IntoIterator<Item = usize>) -> usize {
    // A little beyond: parts are rounded down.
    expected.into_iter().max().unwrap_or(0) + 64
}

/// Answers of row sinks: what was counted must be what is there.
fn row_answers(mode: Mode, counts: Vec<usize>, pool: &mut Pool<OutputRow>) -> Vec<Answer> {
    let parts = pool.parts(mode).zip(counts);
    by_input(mode, parts.map(|(part, count)| of_rows(&part[..count])))
}

/// Counts of sinks that were not too small.
fn finish(sinks: Vec<RowSink<'_>>) -> Result<Vec<usize>, BenchError> {
    sinks.iter().map(|sink| sink.finish().map_err(full)).collect()
}

/// Which hash table a row-wise join probes.
enum Tables<'a> {
    /// The paper's buckets and cells.
    Paper(Vec<PaperTable<'a>>),
    /// corun's own.
    Corun(Vec<RowTable<'a>>),
}

/// The row-wise hash join (section 6.2).
pub struct RowJoin<'a> {
    inputs: &'a [RowInput],
    tables: Tables<'a>,
    pool: Pool<OutputRow>,
}

impl<'a> RowJoin<'a> {
    fn new(inputs: &'a [RowInput], tables: Tables<'a>) -> Result<Self, BenchError> {
        let room = results_max(inputs.iter().map(|input| rows_of(&input.expected)));
        Ok(RowJoin {
            inputs,
            tables,
            pool: Pool::new(room, inputs.len())?,
        })
    }

    /// Over the paper's hash table, with as many buckets as rows.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn paper(inputs: &'a [RowInput]) -> Result<Self, BenchError> {
        let table =
            |input: &'a RowInput| PaperTable::build(&input.build, input.build.len().max(1)).map_err(operator);
        let tables = inputs.iter().map(table).collect::<Result<_, _>>()?;
        Self::new(inputs, Tables::Paper(tables))
    }

    /// Over corun's join table, of the kind it chooses.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn corun(inputs: &'a [RowInput]) -> Result<Self, BenchError> {
        let build = |input: &'a RowInput| {
            let never = std::sync::atomic::AtomicBool::new(false);
            RowTable::build(
                &input.build,
                &corun_exec::BuildOptions::default(),
                &corun_exec::Serial,
                &never,
            )
            .map_err(operator)
        };
        let tables = inputs.iter().map(build).collect::<Result<_, _>>()?;
        Self::new(inputs, Tables::Corun(tables))
    }

    /// Bytes of a hash table and its rows: what a probe reaches at random beside its probe row.
    pub fn table_bytes(&self) -> u64 {
        let table = match &self.tables {
            Tables::Paper(tables) => tables[0].bytes(),
            Tables::Corun(tables) => tables[0].table().bytes(),
        };
        (table + self.inputs[0].build.bytes()) as u64
    }

    /// The array of a work-ahead set of the paper's join.
    ///
    /// # Errors
    /// For corun's layout.
    pub fn array(&mut self) -> Result<Array, BenchError> {
        Ok(Array::of(&self.parts(0..0)?.0))
    }

    /// The first input's operator in the paper's layout and the room for its results, for a race with something else.
    ///
    /// # Errors
    /// For corun's layout.
    pub fn parts(
        &mut self,
        tuples: Range<usize>,
    ) -> Result<(HashJoin<'_>, &mut Pool<OutputRow>), BenchError> {
        let Tables::Paper(tables) = &self.tables else {
            return Err(BenchError::Data("only the paper's layout is raced".to_string()));
        };
        Ok((paper_join(&self.inputs[0], &tables[0], tuples)?, &mut self.pool))
    }
}

/// Results of a whole stream.
pub(super) fn rows_of(expected: &Expected) -> usize {
    expected.of(0..expected.tuples()).rows as usize
}

fn stream(input: &RowInput, tuples: Range<usize>) -> Result<Stream<'_>, BenchError> {
    Stream::unclustered(&input.order[tuples], input.probe.len()).map_err(operator)
}

fn paper_join<'a>(
    input: &'a RowInput,
    table: &'a PaperTable<'a>,
    tuples: Range<usize>,
) -> Result<HashJoin<'a>, BenchError> {
    HashJoin::new(table, &input.probe, stream(input, tuples)?).map_err(operator)
}

impl Subject for RowJoin<'_> {
    fn inputs(&self) -> usize {
        self.inputs.len()
    }

    fn expected(&self, input: usize) -> &Expected {
        &self.inputs[input].expected
    }

    fn execute(&mut self, mode: Mode, tuples: Range<usize>, how: &mut How<'_>) -> Result<Ran, BenchError> {
        let mut sinks: Vec<RowSink<'_>> = self.pool.parts(mode).map(RowSink::new).collect();
        let elapsed = match &self.tables {
            Tables::Paper(tables) => {
                let joins = self.inputs.iter().zip(tables);
                let joins: Result<Vec<_>, _> = joins
                    .map(|(input, table)| paper_join(input, table, tuples.clone()))
                    .collect();
                go(how, mode, &joins?, &mut sinks)?
            }
            Tables::Corun(tables) => {
                let joins = self.inputs.iter().zip(tables).map(|(input, table)| {
                    TableJoin::new(table, &input.probe, stream(input, tuples.clone())?).map_err(operator)
                });
                go(how, mode, &joins.collect::<Result<Vec<_>, _>>()?, &mut sinks)?
            }
        };
        let counts = finish(sinks)?;
        Ok(Ran {
            elapsed,
            answers: row_answers(mode, counts, &mut self.pool),
        })
    }
}

/// The column-wise hash join (section 6.4).
pub struct ColumnarJoin<'a> {
    inputs: &'a [ColumnInput],
    tables: Vec<ColumnTable<'a>>,
    pools: [Pool<u32>; 5],
}

fn columns(columns: &[corun_exec::HugeBuf<u32>; 3], rows: Range<usize>) -> Result<Columns<'_>, BenchError> {
    let [key, first, second] = columns;
    Columns::new(&key[rows.clone()], &first[rows.clone()], &second[rows]).map_err(operator)
}

impl<'a> ColumnarJoin<'a> {
    /// With as many buckets as build rows.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(inputs: &'a [ColumnInput]) -> Result<Self, BenchError> {
        let table = |input: &'a ColumnInput| {
            let rows = input.build[0].len();
            ColumnTable::build(columns(&input.build, 0..rows)?, rows.max(1)).map_err(operator)
        };
        let room = results_max(inputs.iter().map(|input| rows_of(&input.expected)));
        let pool = || Pool::new(room, inputs.len());
        Ok(ColumnarJoin {
            inputs,
            tables: inputs.iter().map(table).collect::<Result<_, _>>()?,
            pools: [pool()?, pool()?, pool()?, pool()?, pool()?],
        })
    }

    /// Bytes of a hash table and its columns.
    pub fn table_bytes(&self) -> u64 {
        let columns: usize = self.inputs[0].build.iter().map(|column| column.bytes()).sum();
        (self.tables[0].bytes() + columns) as u64
    }

    /// The five columns of each worker.
    fn parts(pools: &mut [Pool<u32>; 5], mode: Mode) -> Vec<[&mut [u32]; 5]> {
        let [a, b, c, d, e] = pools;
        a.parts(mode)
            .zip(b.parts(mode))
            .zip(c.parts(mode))
            .zip(d.parts(mode))
            .zip(e.parts(mode))
            .map(|((((a, b), c), d), e)| [a, b, c, d, e])
            .collect()
    }
}

impl Subject for ColumnarJoin<'_> {
    fn inputs(&self) -> usize {
        self.inputs.len()
    }

    fn expected(&self, input: usize) -> &Expected {
        &self.inputs[input].expected
    }

    fn execute(&mut self, mode: Mode, tuples: Range<usize>, how: &mut How<'_>) -> Result<Ran, BenchError> {
        let joins = self.inputs.iter().zip(&self.tables).map(|(input, table)| {
            let stream = Stream::clustered(tuples.len()).map_err(operator)?;
            ColumnJoin::new(table, columns(&input.probe, tuples.clone())?, stream).map_err(operator)
        });
        let joins = joins.collect::<Result<Vec<_>, _>>()?;
        let parts = Self::parts(&mut self.pools, mode);
        let mut sinks: Vec<ColumnSink<'_>> = parts.into_iter().map(ColumnSink::new).collect();
        let elapsed = go(how, mode, &joins, &mut sinks)?;
        let counts = sinks.iter().map(|sink| sink.finish().map_err(full));
        let counts = counts.collect::<Result<Vec<_>, _>>()?;
        drop(sinks);
        let parts = Self::parts(&mut self.pools, mode).into_iter().zip(counts);
        let answers = parts.map(|(part, count)| of_columns(part.map(|column| &column[..count])));
        Ok(Ran {
            elapsed,
            answers: by_input(mode, answers),
        })
    }
}

/// The join by a join index, inner or left outer (appendix A.1).
pub struct IndexedPairs<'a, const OUTER: bool> {
    inputs: &'a [PairInput],
    pool: Pool<OutputRow>,
}

impl<'a, const OUTER: bool> IndexedPairs<'a, OUTER> {
    /// Over these inputs.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(inputs: &'a [PairInput]) -> Result<Self, BenchError> {
        let room = results_max(inputs.iter().map(|input| rows_of(&input.expected)));
        Ok(IndexedPairs {
            inputs,
            pool: Pool::new(room, inputs.len())?,
        })
    }

    /// The array of a work-ahead set.
    ///
    /// # Errors
    /// When the join index names rows that are not there.
    pub fn array(&self) -> Result<Array, BenchError> {
        let input = &self.inputs[0];
        Ok(if OUTER {
            Array::of(&join_outer(input, 0..0)?)
        } else {
            Array::of(&join_inner(input, 0..0)?)
        })
    }

    /// Bytes of both tables, which a pair reaches at random.
    pub fn table_bytes(&self) -> u64 {
        (self.inputs[0].left.bytes() + self.inputs[0].right.bytes()) as u64
    }
}

impl IndexedPairs<'_, false> {
    /// The appendix's helper that reads the join index itself.
    ///
    /// # Errors
    /// When the results found no room.
    pub fn direct(
        &mut self,
        window: corun_exec::operators::direct::Window,
        place: &dyn corun_exec::stage::Place,
    ) -> Result<Ran, BenchError> {
        let input = &self.inputs[0];
        let join = JoinIndex::inner(&input.pairs, &input.left, &input.right).map_err(operator)?;
        let mut sinks: Vec<RowSink<'_>> = self.pool.parts(Mode::PLAIN).map(RowSink::new).collect();
        let start = std::time::Instant::now();
        corun_exec::operators::direct::run(&join, &mut sinks[0], window, place)
            .map_err(|error| BenchError::BadArgument(error.to_string()))?;
        let elapsed = start.elapsed();
        let counts = finish(sinks)?;
        Ok(Ran {
            elapsed,
            answers: row_answers(Mode::PLAIN, counts, &mut self.pool),
        })
    }
}

impl<const OUTER: bool> Subject for IndexedPairs<'_, OUTER> {
    fn inputs(&self) -> usize {
        self.inputs.len()
    }

    fn expected(&self, input: usize) -> &Expected {
        &self.inputs[input].expected
    }

    fn execute(&mut self, mode: Mode, tuples: Range<usize>, how: &mut How<'_>) -> Result<Ran, BenchError> {
        let mut sinks: Vec<RowSink<'_>> = self.pool.parts(mode).map(RowSink::new).collect();
        let inputs = self.inputs.iter();
        let elapsed = if OUTER {
            let join = |input| join_outer(input, tuples.clone());
            go(
                how,
                mode,
                &inputs.map(join).collect::<Result<Vec<_>, _>>()?,
                &mut sinks,
            )?
        } else {
            let join = |input| join_inner(input, tuples.clone());
            go(
                how,
                mode,
                &inputs.map(join).collect::<Result<Vec<_>, _>>()?,
                &mut sinks,
            )?
        };
        let counts = finish(sinks)?;
        Ok(Ran {
            elapsed,
            answers: row_answers(mode, counts, &mut self.pool),
        })
    }
}

fn join_inner(input: &PairInput, tuples: Range<usize>) -> Result<JoinIndex<'_, false>, BenchError> {
    JoinIndex::inner(&input.pairs[tuples], &input.left, &input.right).map_err(operator)
}

fn join_outer(input: &PairInput, tuples: Range<usize>) -> Result<JoinIndex<'_, true>, BenchError> {
    JoinIndex::left_outer(&input.pairs[tuples], &input.left, &input.right).map_err(operator)
}
