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
    PairSink, RidPair, RowSink, Stream, TableProbe,
};
use corun_exec::stage::{Staged, traced};
use corun_exec::{BuildOptions, Chunk, Codes, JoinTable, Kind, Serial};
use corun_model::cache::locality::Footprint;
use corun_model::operators::mode::Mode;
use corun_model::operators::trace::{Access, Event};
use corun_model::units::Bytes;

use super::error::SimError;
use super::query::{Join, Query};
use super::trace::{Recorder, Role, Trace};
use corun_workloads::numbers::permutation;

mod data;

use data::{Sizes, matching, members, part_rows};

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

/// A query's sum, and what it should be.
struct Answers {
    given: u64,
    right: u64,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Batches of rows that cover `rows`; the recorder hears when those before `warm_up` are done.
fn batches(
    rows: usize,
    each: usize,
    warm_up: usize,
    recorder: &mut Recorder,
    mut run: impl FnMut(Range<usize>, &mut Recorder) -> Result<(), String>,
) -> Result<(), String> {
    for begin in (0..rows).step_by(each) {
        if begin >= warm_up && begin < warm_up + each {
            recorder.warmed_up();
        }
        run(begin..(begin + each).min(rows), recorder)?;
    }
    Ok(())
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
    batches(
        fact_keys.len(),
        BATCH_ROWS,
        sizes.lines,
        recorder,
        |range, recorder| {
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
            Ok(())
        },
    )?;
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
    batches(rows, BATCH_ROWS, sizes.lines / 2, recorder, |range, recorder| {
        let [key, amount, other] = [&fact_keys, &amounts, &others].map(|column| &column[range.clone()]);
        let stream = Stream::clustered(key.len()).map_err(text)?;
        let probe = Columns::new(key, amount, other).map_err(text)?;
        let join = ColumnJoin::new(&table, probe, stream).map_err(text)?;
        let mut sink = ColumnSink::new(batch.each_mut().map(Vec::as_mut_slice));
        go(&join, &mut sink, recorder)?;
        let joined = sink.finish().map_err(text)?;
        given += sum(&batch[1][..joined], |amount| amount, recorder);
        Ok(())
    })?;
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
    batches(
        outer.len(),
        OUTER_ROWS,
        lookups / 3,
        recorder,
        |range, recorder| {
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
            Ok(())
        },
    )?;
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
        let group = sizes.group(at, groups.len());
        recorder.load(&groups[group], size_of::<u64>());
        recorder.touch(Access::Store, &groups[group], size_of::<u64>());
        groups[group] += u64::from(fact.payload[0]);
    }
    Ok(Answers {
        given: groups.iter().sum(),
        right,
    })
}
