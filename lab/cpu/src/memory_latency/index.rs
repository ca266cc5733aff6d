//! Index traversal of paper 000 as a [`Subject`]: an index nested-loop join over the CSB+-tree, and the same over the standard
//! library's B-tree as what it is compared with.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use corun_exec::csb::CsbTree;
use corun_exec::operators::{IndexJoin, KeyColumn, KeyRid, KeyedRids, PairSink, Probes, RidPair, Stream};
use corun_model::operators::mode::Mode;

use super::data::IndexInput;
use super::expected::{Expected, of_pairs};
use super::interference::Array;
use super::joins::{full, operator, results_max, rows_of};
use super::subject::{How, Pool, Ran, Subject, by_input, go};
use lab_core::error::BenchError;

/// How full the paper loads its nodes (section 6.1).
const FILL: f64 = 0.75;

/// Lines of a node: the paper's nodes have 128 bytes (section 6.1).
pub const NODE_LINES: usize = 2;

/// The tree of the suite.
pub type Tree = CsbTree<f32, NODE_LINES>;

/// An operator over it.
pub type TreeJoin<'a, P> = IndexJoin<'a, f32, P, PairSink<'a>, NODE_LINES>;

/// Which probe stream (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeStream {
    /// Pairs of key and RID in the order of memory.
    Clustered,
    /// RIDs in random order, whose keys are in a column.
    Unclustered,
}

impl ProbeStream {
    /// The value of the key `stream`.
    pub fn name(self) -> &'static str {
        match self {
            ProbeStream::Clustered => "clustered",
            ProbeStream::Unclustered => "unclustered",
        }
    }
}

/// Bulk-loads an input's keys.
///
/// # Errors
/// When there is no memory.
pub fn tree(input: &IndexInput) -> Result<Tree, BenchError> {
    Tree::bulk_load(&input.keys, &input.rids, FILL).map_err(|error| BenchError::Data(error.to_string()))
}

/// Index nested-loop join, the index probed once for each outer row.
pub struct TreeProbe<'a> {
    inputs: &'a [IndexInput],
    trees: &'a [Tree],
    stream: ProbeStream,
    pool: Pool<RidPair>,
}

impl<'a> TreeProbe<'a> {
    /// Over trees made of these inputs.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(inputs: &'a [IndexInput], trees: &'a [Tree], stream: ProbeStream) -> Result<Self, BenchError> {
        let room = results_max(inputs.iter().map(|input| rows_of(expected(input, stream))));
        Ok(TreeProbe {
            inputs,
            trees,
            stream,
            pool: Pool::new(room, inputs.len())?,
        })
    }

    /// Bytes of a tree, and of the column behind the RIDs.
    pub fn table_bytes(&self) -> u64 {
        let behind = match self.stream {
            ProbeStream::Clustered => 0,
            ProbeStream::Unclustered => self.inputs[0].outer_keys.bytes(),
        };
        (self.trees[0].bytes() + behind) as u64
    }

    /// Nodes on the way to a leaf, the leaf included.
    pub fn levels(&self) -> usize {
        self.trees[0].height() + 1
    }

    /// The array of a work-ahead set over the clustered stream.
    pub fn array(&self) -> Array {
        let join = IndexJoin::new(&self.trees[0], KeyedRids(&self.inputs[0].clustered));
        Array::of(&join)
    }

    /// The first input's operator over an unclustered stream and the room for its results, for a race with something else.
    ///
    /// # Errors
    /// Never for a stream of the suite.
    pub fn parts(
        &mut self,
        tuples: Range<usize>,
    ) -> Result<(TreeJoin<'_, KeyColumn<'_, f32>>, &mut Pool<RidPair>), BenchError> {
        let probes = column(&self.inputs[0], tuples)?;
        Ok((IndexJoin::new(&self.trees[0], probes), &mut self.pool))
    }

    fn run<'s, P: Probes<'s, f32>>(
        joins: &[TreeJoin<'s, P>],
        mode: Mode,
        how: &mut How<'_>,
        pool: &'s mut Pool<RidPair>,
    ) -> Result<(std::time::Duration, Vec<usize>), BenchError> {
        let mut sinks: Vec<PairSink<'s>> = pool.parts(mode).map(PairSink::new).collect();
        let elapsed = go(how, mode, joins, &mut sinks)?;
        let counts = sinks.iter().map(|sink| sink.finish().map_err(full));
        Ok((elapsed, counts.collect::<Result<_, _>>()?))
    }
}

fn expected(input: &IndexInput, stream: ProbeStream) -> &Expected {
    match stream {
        ProbeStream::Clustered => &input.clustered_expected,
        ProbeStream::Unclustered => &input.unclustered_expected,
    }
}

fn column(input: &IndexInput, tuples: Range<usize>) -> Result<KeyColumn<'_, f32>, BenchError> {
    let stream = Stream::unclustered(&input.order[tuples], input.outer_keys.len()).map_err(operator)?;
    KeyColumn::new(&input.outer_keys, stream).map_err(operator)
}

impl Subject for TreeProbe<'_> {
    fn inputs(&self) -> usize {
        self.inputs.len()
    }

    fn expected(&self, input: usize) -> &Expected {
        expected(&self.inputs[input], self.stream)
    }

    fn execute(&mut self, mode: Mode, tuples: Range<usize>, how: &mut How<'_>) -> Result<Ran, BenchError> {
        let both = self.inputs.iter().zip(self.trees);
        let (elapsed, counts) = match self.stream {
            ProbeStream::Clustered => {
                let joins = both
                    .map(|(input, tree)| IndexJoin::new(tree, KeyedRids(&input.clustered[tuples.clone()])));
                Self::run(&joins.collect::<Vec<_>>(), mode, how, &mut self.pool)?
            }
            ProbeStream::Unclustered => {
                let joins =
                    both.map(|(input, tree)| Ok(IndexJoin::new(tree, column(input, tuples.clone())?)));
                let joins: Vec<_> = joins.collect::<Result<_, BenchError>>()?;
                Self::run(&joins, mode, how, &mut self.pool)?
            }
        };
        let parts = self.pool.parts(mode).zip(counts);
        let answers = parts.map(|(part, count)| of_pairs(&part[..count]));
        Ok(Ran {
            elapsed,
            answers: by_input(mode, answers),
        })
    }
}

/// The same keys in the standard library's B-tree, probed by a plain loop over the clustered stream: what one would write without a
/// library of operators.
pub struct BTreeProbe<'a> {
    input: &'a IndexInput,
    // Floats have no total order, but these are positive, and then their bits are ordered as they are.
    map: BTreeMap<u32, u32>,
    pool: Pool<RidPair>,
}

impl<'a> BTreeProbe<'a> {
    /// Bulk-loads sorted keys.
    ///
    /// # Errors
    /// When there is no memory for the results.
    pub fn new(input: &'a IndexInput) -> Result<Self, BenchError> {
        let entries = input.keys.iter().zip(&input.rids);
        Ok(BTreeProbe {
            input,
            map: entries.map(|(key, &rid)| (key.to_bits(), rid)).collect(),
            pool: Pool::new(results_max([input.clustered.len()]), 1)?,
        })
    }

    /// Probes the whole stream.
    pub fn probe(&mut self) -> Ran {
        let output = self.pool.whole();
        let start = Instant::now();
        let mut count = 0;
        for KeyRid { key, rid } in &self.input.clustered {
            if let Some(&inner) = self.map.get(&key.to_bits()) {
                output[count] = RidPair { outer: *rid, inner };
                count += 1;
            }
        }
        Ran {
            elapsed: start.elapsed(),
            answers: vec![of_pairs(&output[..count])],
        }
    }
}
