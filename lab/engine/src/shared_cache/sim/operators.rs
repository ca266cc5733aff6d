//! Traces of queries: the joins are operators of `corun-exec`, executed and traced; the sums, scans and groups around them are plain loops.
//!
//! ```text
//!   hash      lineorder keys ▶ TableProbe ▶ batch of pairs ▶ sum of amounts   table: corun's join table
//!   chained   lineorder columns ▶ ColumnJoin ▶ batch of columns ▶ sum         table: buckets, cells, part columns
//!   index     part keys ▶ IndexJoin ▶ batch of RIDs ▶ JoinIndex ▶ batch of joined rows ▶ sum
//!   scan      lineorder rows ▶ sum                    agg   lineorder rows ▶ sums by group
//! ```
//!
//! Data and length follow from the cache: streams are three times as large as it, so that nothing of one round is left for the next,
//! and each round fills it before anything is counted. Every answer is compared with a loop over the data that knows no joins.
//!
//! An index join's lookups come in random order and touch the same whatever K is: K says how many there are. So all are traced alike.
//!
//! Not here: what an access costs.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use corun_exec::csb::CsbTree;
use corun_exec::operators::{
    ColumnJoin, ColumnSink, ColumnTable, Columns, IndexJoin, JoinIndex, KeyRid, KeyedRids, OutputRow,
    PairSink, RidPair, Row, RowSink, Stream, TableProbe,
};
use corun_exec::stage::{Staged, traced};
use corun_exec::{BuildOptions, Chunk, Codes, JoinTable, Kind, Serial};
use corun_model::cache::locality::Footprint;
use corun_model::operators::mode::Mode;
use corun_model::operators::trace::{Access, Event};
use corun_model::units::Bytes;

use super::error::SimError;
use super::query::{CATEGORIES, Join, Query};
use super::trace::{Recorder, Role, Trace};
use corun_workloads::numbers::{below, draw, permutation};

const LINE_BYTES: u64 = 64;
/// Rows between two operators of a hash join: 32 KiB of joined rows.
const BATCH_ROWS: usize = 256;
/// Outer rows of a batch of an index join, for as many joined rows.
const OUTER_ROWS: usize = 8;
/// Rows of lineorder for each part (SSB: 6,000,000 for 200,000).
const FACTS_PER_PART: usize = 30;
/// Cells of a bucket's chain on average, in the layout of 2009: PostgreSQL 8.3, which the paper ran, made buckets for ten tuples each.
const CHAIN_CELLS: usize = 10;
/// Bytes of lineorder behind an index against the shared cache.
const FACT_CACHES: u64 = 8;
/// Bytes a row takes in corun's join table: slots of 8 bytes, of which 65 % are in use; a first guess.
const TABLE_ROW_BYTES: f64 = 8.0 / 0.65;
/// How full nodes are loaded (paper 000, section 6.1).
const FILL: f64 = 0.75;
/// Lines of a node.
const NODE_LINES: usize = 2;

/// Streams of random numbers.
const KEYS: u64 = 1;
const AMOUNTS: u64 = 2;
const GROUPS: u64 = 3;

/// Records a query for a shared cache of `llc` bytes. Equal arguments give equal traces.
///
/// # Errors
/// [`SimError::Operator`] when an operator fails or its answer is wrong, [`SimError::Trace`] when its accesses cannot be kept.
pub fn record(query: &Query, llc: Bytes, seed: u64) -> Result<Trace, SimError> {
    let table = match query.footprint(llc) {
        Footprint::Tables(bytes) => bytes,
        Footprint::Streams => Bytes(0),
    };
    let sizes = Sizes {
        lines: (llc.0 / LINE_BYTES) as usize,
        table,
        seed,
    };
    let mut recorder = Recorder::default();
    let recorded = match *query {
        Query::Plq { categories, join, .. } => match join {
            Join::Hash => hash(&sizes, categories, &mut recorder),
            Join::Chained => chained(&sizes, categories, &mut recorder),
            Join::Index => index(&sizes, &mut recorder),
        },
        Query::Scan => scan(&sizes, &mut recorder),
        Query::Aggregate { .. } => aggregate(&sizes, &mut recorder),
    };
    let answers = recorded.map_err(|reason| SimError::Operator {
        query: query.to_string(),
        reason,
    })?;
    if answers.given != answers.right {
        return Err(SimError::Operator {
            query: query.to_string(),
            reason: format!("its answer is {}, not {}", answers.given, answers.right),
        });
    }
    recorder.finish()
}

/// What all queries are made of.
struct Sizes {
    /// Lines of the shared cache.
    lines: usize,
    /// Memory of the query's table.
    table: Bytes,
    seed: u64,
}

/// A query's sum, and what it should be.
struct Answers {
    given: u64,
    right: u64,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Sizes {
    fn random(&self, stream: u64, at: usize, bound: usize) -> u32 {
        below(draw(self.seed, stream, at as u64), bound as u64) as u32
    }

    fn amount(&self, row: usize) -> u32 {
        self.random(AMOUNTS, row, 10_000)
    }

    /// Rows of lineorder with keys from 1 to `keys`, and an amount first in the payload.
    fn facts(&self, rows: usize, keys: usize) -> Vec<Row> {
        let row = |at| Row {
            key: 1 + self.random(KEYS, at, keys),
            payload: std::array::from_fn(|word| if word == 0 { self.amount(at) } else { word as u32 }),
        };
        (0..rows).map(row).collect()
    }

    /// The same as two columns.
    fn columns(&self, rows: usize, keys: usize) -> (Vec<u32>, Vec<u32>) {
        let key = (0..rows).map(|at| 1 + self.random(KEYS, at, keys));
        (key.collect(), (0..rows).map(|at| self.amount(at)).collect())
    }

    /// The keys of `count` parts in the order of the table, if that is `categories` of 25 of all parts, and how many parts there are.
    fn parts(&self, count: usize, categories: u32) -> (Vec<u32>, usize) {
        let all = (count * CATEGORIES as usize / categories as usize).max(count);
        let mut keys = permutation(self.seed, all);
        keys.truncate(count);
        keys.iter_mut().for_each(|key| *key += 1);
        keys.sort_unstable();
        (keys, all)
    }
}

/// A batch of rows, in a row of batches that cover `rows`.
fn batches(rows: usize, each: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows)
        .step_by(each)
        .map(move |begin| begin..(begin + each).min(rows))
}

/// Traces an operator as straight code.
fn go<'a, const M: usize, O: Staged<'a, M>>(
    operator: &O,
    output: &mut O::Output,
    recorder: &mut Recorder,
) -> Result<(), String> {
    let outputs = std::slice::from_mut(output);
    traced::trace(Mode::PLAIN, &[operator], outputs, 0, &mut |event: Event| {
        recorder.event(event);
    })
    .map_err(text)
}

/// Every line of a table is written while it is built; that fills the caches.
fn build<T>(memory: &[T], recorder: &mut Recorder) {
    let step = (LINE_BYTES as usize / size_of::<T>()).max(1);
    for at in memory.iter().step_by(step) {
        recorder.touch(Access::Store, at, size_of::<T>());
    }
}

/// The same for memory that only its addresses are known of.
fn build_range(memory: Range<usize>, recorder: &mut Recorder) {
    for address in memory.step_by(LINE_BYTES as usize) {
        recorder.event(Event {
            role: corun_model::operators::trace::ThreadRole::Worker(0),
            access: Access::Store,
            address: address as u64,
            bytes: 8,
        });
    }
}

fn part_rows(keys: &[u32]) -> Vec<Row> {
    keys.iter()
        .map(|&key| Row {
            key,
            payload: [key; 15],
        })
        .collect()
}

/// What rows with one of `keys` of 1 to `all` amount to.
fn matching(keys: &[u32], all: usize, fact_keys: &[u32], amounts: &[u32]) -> u64 {
    let is_member = members(keys, all);
    let of_members = fact_keys
        .iter()
        .zip(amounts)
        .filter(|(key, _)| is_member[**key as usize]);
    of_members.map(|(_, &amount)| u64::from(amount)).sum()
}

/// Is key `k`, from 1, one of these?
fn members(keys: &[u32], all: usize) -> Vec<bool> {
    let mut members = vec![false; all + 1];
    keys.iter().for_each(|&key| members[key as usize] = true);
    members
}

fn join_table(keys: &[u32]) -> Result<JoinTable, String> {
    let chunk = Chunk {
        codes: Codes::U32 {
            values: keys,
            bias: 0,
        },
        valid: None,
        first_row: 0,
    };
    let options = BuildOptions {
        // Whether it would be dense depends on K; the layout is not to.
        force: Some(Kind::Buckets32),
        ..BuildOptions::default()
    };
    JoinTable::build(&[chunk], &options, &Serial, &AtomicBool::new(false)).map_err(text)
}

fn hash(sizes: &Sizes, categories: u32, recorder: &mut Recorder) -> Result<Answers, String> {
    let wanted = sizes.table.0 as f64;
    let guess = ((wanted / TABLE_ROW_BYTES) as usize).max(1);
    let built: usize = join_table(&sizes.parts(guess, categories).0)?
        .memory()
        .iter()
        .map(Range::len)
        .sum();
    // Once more with what a row really takes.
    let count = ((guess as f64 * wanted / built.max(1) as f64) as usize).max(1);
    let (keys, all) = sizes.parts(count, categories);
    let table = join_table(&keys)?;
    let (fact_keys, amounts) = sizes.columns(4 * sizes.lines, all);
    let mut pairs = vec![RidPair::default(); BATCH_ROWS];
    for memory in table.memory() {
        recorder.region(Role::Table, memory);
    }
    recorder.slice(Role::Scanned, &fact_keys);
    recorder.slice(Role::Scanned, &amounts);
    recorder.slice(Role::State, &pairs);
    for memory in table.memory() {
        build_range(memory, recorder);
    }
    let right = matching(&keys, all, &fact_keys, &amounts);
    let mut given = 0;
    for range in batches(fact_keys.len(), BATCH_ROWS) {
        if range.start >= sizes.lines && range.start < sizes.lines + BATCH_ROWS {
            recorder.warmed_up();
        }
        let amounts = &amounts[range.clone()];
        let mut sink = PairSink::new(&mut pairs);
        go(
            &TableProbe::new(&table, &fact_keys[range]).map_err(text)?,
            &mut sink,
            recorder,
        )?;
        let found = sink.finish().map_err(text)?;
        for pair in &pairs[..found] {
            recorder.load(pair, size_of::<RidPair>());
            let amount = &amounts[pair.outer as usize];
            recorder.load(amount, size_of::<u32>());
            given += u64::from(*amount);
        }
    }
    Ok(Answers { given, right })
}

/// Adds up an attribute of rows that an operator left.
fn sum<T>(rows: &[T], attribute: impl Fn(&T) -> &u32, recorder: &mut Recorder) -> u64 {
    let mut sum = 0;
    for row in rows {
        let value = attribute(row);
        recorder.load(value, size_of::<u32>());
        sum += u64::from(*value);
    }
    sum
}

fn chained(sizes: &Sizes, categories: u32, recorder: &mut Recorder) -> Result<Answers, String> {
    // A bucket is 4 bytes, a cell 16, a part 12.
    let row_bytes = 4.0 / CHAIN_CELLS as f64 + 28.0;
    let count = ((sizes.table.0 as f64 / row_bytes) as usize).max(1);
    let (keys, all) = sizes.parts(count, categories);
    let attributes = [keys.clone(), keys.clone()];
    let columns = Columns::new(&keys, &attributes[0], &attributes[1]).map_err(text)?;
    let table = ColumnTable::build(columns, count.div_ceil(CHAIN_CELLS)).map_err(text)?;
    let rows = sizes.lines + sizes.lines / 2;
    let (fact_keys, amounts) = sizes.columns(rows, all);
    let others = fact_keys.clone();
    let mut batch: [Vec<u32>; 5] = std::array::from_fn(|_| vec![0; BATCH_ROWS]);
    for memory in table.memory() {
        recorder.region(Role::Table, memory);
    }
    for column in [&keys, &attributes[0], &attributes[1]] {
        recorder.slice(Role::Table, column);
    }
    for column in [&fact_keys, &amounts, &others] {
        recorder.slice(Role::Scanned, column);
    }
    for column in &batch {
        recorder.slice(Role::State, column);
    }
    for memory in table.memory() {
        build_range(memory, recorder);
    }
    for column in [&keys, &attributes[0], &attributes[1]] {
        build(column, recorder);
    }
    let right = matching(&keys, all, &fact_keys, &amounts);
    let mut given = 0;
    for range in batches(rows, BATCH_ROWS) {
        if range.start >= sizes.lines / 2 && range.start < sizes.lines / 2 + BATCH_ROWS {
            recorder.warmed_up();
        }
        let [key, amount, other] = [&fact_keys, &amounts, &others].map(|column| &column[range.clone()]);
        let stream = Stream::clustered(key.len()).map_err(text)?;
        let probe = Columns::new(key, amount, other).map_err(text)?;
        let join = ColumnJoin::new(&table, probe, stream).map_err(text)?;
        let mut sink = ColumnSink::new(batch.each_mut().map(Vec::as_mut_slice));
        go(&join, &mut sink, recorder)?;
        let joined = sink.finish().map_err(text)?;
        given += sum(&batch[1][..joined], |amount| amount, recorder);
    }
    Ok(Answers { given, right })
}

fn index(sizes: &Sizes, recorder: &mut Recorder) -> Result<Answers, String> {
    let rows = sizes.lines * FACT_CACHES as usize;
    let parts = (rows / FACTS_PER_PART).max(1);
    let facts = sizes.facts(rows, parts);
    let mut entries: Vec<(u32, u32)> = facts.iter().zip(0..).map(|(fact, rid)| (fact.key, rid)).collect();
    entries.sort_unstable();
    let (keys, rids): (Vec<u32>, Vec<u32>) = entries.into_iter().unzip();
    let tree: CsbTree<u32, NODE_LINES> = CsbTree::bulk_load(&keys, &rids, FILL).map_err(text)?;
    // Three caches of rows are sought, one of them to fill it.
    let lookups = (3 * sizes.lines / FACTS_PER_PART).clamp(1, parts);
    let order = permutation(sizes.seed, parts);
    let outer: Vec<KeyRid<u32>> = order[..lookups]
        .iter()
        .zip(0..)
        .map(|(&key, rid)| KeyRid { key: key + 1, rid })
        .collect();
    let part_rows = part_rows(&outer.iter().map(|part| part.key).collect::<Vec<_>>());
    let mut pairs = vec![RidPair::default(); OUTER_ROWS * FACTS_PER_PART * 4];
    let mut batch = vec![OutputRow::default(); pairs.len()];
    recorder.region(Role::Sought, tree.memory());
    recorder.slice(Role::Sought, &facts);
    recorder.slice(Role::Scanned, &outer);
    recorder.slice(Role::Scanned, &part_rows);
    recorder.slice(Role::State, &pairs);
    recorder.slice(Role::State, &batch);
    let is_member = members(&outer.iter().map(|part| part.key).collect::<Vec<_>>(), parts);
    let of_members = facts.iter().filter(|fact| is_member[fact.key as usize]);
    let right = of_members.map(|fact| u64::from(fact.payload[0])).sum();
    let mut given = 0;
    for range in batches(outer.len(), OUTER_ROWS) {
        if range.start >= lookups / 3 && range.start < lookups / 3 + OUTER_ROWS {
            recorder.warmed_up();
        }
        let mut sink = PairSink::new(&mut pairs);
        go(
            &IndexJoin::new(&tree, KeyedRids(&outer[range])),
            &mut sink,
            recorder,
        )?;
        let found = sink.finish().map_err(text)?;
        let join = JoinIndex::inner(&pairs[..found], &part_rows, &facts).map_err(text)?;
        let mut sink = RowSink::new(&mut batch);
        go(&join, &mut sink, recorder)?;
        let joined = sink.finish().map_err(text)?;
        given += sum(&batch[..joined], |row| &row.right.payload[0], recorder);
    }
    Ok(Answers { given, right })
}

fn scan(sizes: &Sizes, recorder: &mut Recorder) -> Result<Answers, String> {
    let facts = sizes.facts(3 * sizes.lines, 1);
    recorder.slice(Role::Scanned, &facts);
    let right = (0..facts.len()).map(|row| u64::from(sizes.amount(row))).sum();
    let (warm_up, counted) = facts.split_at(sizes.lines);
    let mut given = sum(warm_up, |row| &row.payload[0], recorder);
    recorder.warmed_up();
    given += sum(counted, |row| &row.payload[0], recorder);
    Ok(Answers { given, right })
}

fn aggregate(sizes: &Sizes, recorder: &mut Recorder) -> Result<Answers, String> {
    let facts = sizes.facts(3 * sizes.lines, 1);
    let mut groups = vec![0_u64; sizes.table.0 as usize / size_of::<u64>()];
    recorder.slice(Role::Scanned, &facts);
    recorder.slice(Role::Table, &groups);
    let right = (0..facts.len()).map(|row| u64::from(sizes.amount(row))).sum();
    build(&groups, recorder);
    for (at, fact) in facts.iter().enumerate() {
        if at == sizes.lines {
            recorder.warmed_up();
        }
        recorder.load(&fact.payload[0], size_of::<u32>());
        let group = sizes.random(GROUPS, at, groups.len()) as usize;
        recorder.load(&groups[group], size_of::<u64>());
        recorder.touch(Access::Store, &groups[group], size_of::<u64>());
        groups[group] += u64::from(fact.payload[0]);
    }
    Ok(Answers {
        given: groups.iter().sum(),
        right,
    })
}
