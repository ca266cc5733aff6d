//! [`Tree`]: the CSB+-tree over one column's codes, and batched lookups in it.
//!
//! Order of calls: [`Tree::build`] once; then for each batch of keys a reset [`Cursor`] and [`Tree::next_pairs`] until it
//! says that it is done. Ways down are staged ([`exec::stage`]): a window of keys goes down together, so that the cache
//! misses of one hide those of the others; the matches are then read out in the order of the keys. What it is not: it
//! knows neither SQL types nor join types.

use crate::join::keys::CodeBuffer;
use arrow::buffer::NullBuffer;
use exec::csb::{CsbError, CsbTree, Key, NodeId};
use exec::stage::{Context, Options, Reference, RunError, Staged, Step, run};
use exec::table::Pairs;
use model::mode::{Hiding, Mode, Threads};
use std::ops::BitXor;

/// Stands for "no row"; tables have fewer rows.
const NO_ROW: u32 = u32::MAX;

/// Keys that go down together. Their leaves stay in a private L2 until their matches are read out: 2048 leaves of two
/// lines are 256 KiB.
const WINDOW_KEYS: usize = 2048;

/// Cache lines of a node.
const LINES: usize = 2;

/// Nodes are full: an indexed table does not change.
const FILL: f64 = 1.0;

const LINE_BYTES: usize = 64;

/// Rows by code.
#[derive(Debug)]
pub enum Tree {
    /// Codes of 32 bits.
    Narrow(CsbTree<u32, LINES>),
    /// Codes of 64 bits.
    Wide(CsbTree<u64, LINES>),
}

/// A tree and what was learnt from its keys.
#[derive(Debug)]
pub struct Loaded {
    /// The tree.
    pub tree: Tree,
    /// Rows a key has on average; 1 when no two rows have one key.
    pub rows_per_key: f64,
}

/// A way down that has ended.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Smallest row of the key, or [`NO_ROW`].
    first: u32,
    /// The leaf to read on from when there are more rows.
    more: Option<NodeId>,
}

const NOTHING: Found = Found {
    first: NO_ROW,
    more: None,
};

/// How far the matches of a batch of keys have been read out.
#[derive(Debug, Default)]
pub struct Cursor {
    /// The key whose matches come next.
    next_key: usize,
    /// Ways down of the keys before `window_end`; the last one belongs to `window_end - 1`.
    window_end: usize,
    found: Vec<Found>,
    /// Rows of the key before `next_key` that did not fit the last step, and how many of them were given since.
    rest: Vec<u32>,
    rest_given: usize,
}

impl Cursor {
    /// Begins with the first key again.
    pub fn reset(&mut self) {
        self.next_key = 0;
        self.window_end = 0;
        self.rest.clear();
        self.rest_given = 0;
    }

    /// Bytes it holds.
    pub fn bytes(&self) -> usize {
        self.found.capacity() * size_of::<Found>() + self.rest.capacity() * size_of::<u32>()
    }
}

impl Tree {
    /// A tree of the codes of all rows that are not NULL.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn build(codes: &CodeBuffer, nulls: Option<&NullBuffer>) -> Result<Loaded, CsbError> {
        match codes {
            CodeBuffer::U32(values, bias) => {
                let (tree, rows_per_key) = load(values, *bias, nulls)?;
                let tree = Tree::Narrow(tree);
                Ok(Loaded { tree, rows_per_key })
            }
            CodeBuffer::U64(values, bias) => {
                let (tree, rows_per_key) = load(values, *bias, nulls)?;
                let tree = Tree::Wide(tree);
                Ok(Loaded { tree, rows_per_key })
            }
        }
    }

    /// Bytes of its nodes.
    pub fn bytes(&self) -> usize {
        match self {
            Tree::Narrow(tree) => tree.bytes(),
            Tree::Wide(tree) => tree.bytes(),
        }
    }

    /// Adds the next matches to `pairs` (row of the table, number of the key), ascending by key, until there are `limit`
    /// pairs. True when all keys are done.
    ///
    /// # Errors
    /// A way of hiding latency that contradicts itself.
    ///
    /// # Panics
    /// If the codes have another width than the tree's.
    pub fn next_pairs(
        &self,
        codes: &CodeBuffer,
        nulls: Option<&NullBuffer>,
        hiding: Hiding,
        cursor: &mut Cursor,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<bool, RunError> {
        let valid = |key: usize| nulls.is_none_or(|nulls| nulls.is_valid(key));
        match (self, codes) {
            (Tree::Narrow(tree), CodeBuffer::U32(values, bias)) => {
                next_pairs(tree, values, *bias, valid, hiding, cursor, limit, pairs)
            }
            (Tree::Wide(tree), CodeBuffer::U64(values, bias)) => {
                next_pairs(tree, values, *bias, valid, hiding, cursor, limit, pairs)
            }
            _ => unreachable!("columns of one type have codes of one width"),
        }
    }
}

fn load<K: Key + Ord + BitXor<Output = K>>(
    codes: &[K],
    bias: K,
    nulls: Option<&NullBuffer>,
) -> Result<(CsbTree<K, LINES>, f64), CsbError> {
    let mut entries: Vec<(K, u32)> = codes.iter().map(|code| *code ^ bias).zip(0..).collect();
    if let Some(nulls) = nulls {
        entries.retain(|(_, row)| nulls.is_valid(*row as usize));
    }
    entries.sort_unstable();
    let repeated = entries.windows(2).filter(|pair| pair[0].0 == pair[1].0).count();
    let rows_per_key = entries.len().max(1) as f64 / (entries.len() - repeated).max(1) as f64;
    let (keys, rows): (Vec<K>, Vec<u32>) = entries.into_iter().unzip();
    Ok((CsbTree::bulk_load(&keys, &rows, FILL)?, rows_per_key))
}

#[allow(clippy::too_many_arguments)]
fn next_pairs<K: Key + Default + BitXor<Output = K>>(
    tree: &CsbTree<K, LINES>,
    codes: &[K],
    bias: K,
    valid: impl Fn(usize) -> bool,
    hiding: Hiding,
    cursor: &mut Cursor,
    limit: usize,
    pairs: &mut Pairs,
) -> Result<bool, RunError> {
    loop {
        let room = limit.saturating_sub(pairs.build.len());
        let rest = &cursor.rest[cursor.rest_given..];
        let given = rest.len().min(room);
        if given > 0 {
            pairs.build.extend(&rest[..given]);
            let key = cursor.next_key as u32 - 1;
            pairs.probe.extend(std::iter::repeat_n(key, given));
            cursor.rest_given += given;
        }
        if cursor.rest_given < cursor.rest.len() {
            return Ok(false);
        }
        cursor.rest.clear();
        cursor.rest_given = 0;
        if cursor.next_key == codes.len() {
            return Ok(true);
        }
        if cursor.next_key == cursor.window_end {
            let end = codes.len().min(cursor.window_end + WINDOW_KEYS);
            find(
                tree,
                &codes[cursor.window_end..end],
                bias,
                hiding,
                &mut cursor.found,
            )?;
            cursor.window_end = end;
        }
        let window_start = cursor.window_end - cursor.found.len();
        while cursor.next_key < cursor.window_end && cursor.rest.is_empty() {
            if pairs.build.len() >= limit {
                return Ok(false);
            }
            let key = cursor.next_key;
            let found = cursor.found[key - window_start];
            cursor.next_key += 1;
            if found.first == NO_ROW || !valid(key) {
                continue;
            }
            pairs.build.push(found.first);
            pairs.probe.push(key as u32);
            let Some(leaf) = found.more else { continue };
            let mut rows = tree.leaf_entries_from(leaf, codes[key] ^ bias).skip(1);
            let room = limit - pairs.build.len();
            let before = pairs.build.len();
            pairs.build.extend(rows.by_ref().take(room));
            let added = pairs.build.len() - before;
            pairs.probe.extend(std::iter::repeat_n(key as u32, added));
            if added == room {
                // A key may have as many rows as the table: what is left of them is read once, not once a step.
                cursor.rest.extend(rows);
            }
        }
    }
}

/// The ways down of some keys.
fn find<K: Key + Default + BitXor<Output = K>>(
    tree: &CsbTree<K, LINES>,
    codes: &[K],
    bias: K,
    hiding: Hiding,
    found: &mut Vec<Found>,
) -> Result<(), RunError> {
    found.clear();
    found.resize(codes.len(), NOTHING);
    let mode = match hiding {
        Hiding::None => Mode::PLAIN,
        hiding => Mode::staged(Threads::One, hiding),
    };
    let ways = WaysDown { tree, codes, bias };
    let mut outputs = [std::mem::take(found)];
    run(mode, &[&ways], &mut outputs, &Options::default())?;
    let [filled] = outputs;
    *found = filled;
    Ok(())
}

/// The staged operator: tuple `i` goes down for `codes[i]`.
struct WaysDown<'a, K: Key> {
    tree: &'a CsbTree<K, LINES>,
    codes: &'a [K],
    bias: K,
}

#[derive(Clone, Copy, Default)]
struct Way<K> {
    key: K,
    node: NodeId,
    tuple: u32,
    /// Inner levels still above the leaf.
    levels: u32,
}

impl<'a, K: Key + Default + BitXor<Output = K>> WaysDown<'a, K> {
    fn found(&self, leaf: NodeId, key: K) -> Found {
        let mut rows = self.tree.leaf_entries_from(leaf, key);
        match rows.next() {
            None => NOTHING,
            Some(first) => Found {
                first,
                more: rows.next().map(|_| leaf),
            },
        }
    }
}

impl<'a, K: Key + Default + BitXor<Output = K>> Staged<'a, LINES> for WaysDown<'a, K> {
    type State = Way<K>;
    type Output = Vec<Found>;
    const REFERENCES_MIN: usize = LINES;

    fn tuples(&self) -> usize {
        self.codes.len()
    }

    fn stages(&self) -> usize {
        self.tree.height().max(1)
    }

    #[inline(always)]
    fn begin<C: Context<'a>>(
        &self,
        tuple: usize,
        state: &mut Way<K>,
        output: &mut Vec<Found>,
        context: &mut C,
    ) {
        *state = Way {
            key: self.codes[tuple] ^ self.bias,
            node: self.tree.root(),
            tuple: tuple as u32,
            levels: self.tree.height() as u32,
        };
        // The root is always in the cache: nobody waits for it.
        if state.levels > 0 {
            self.resume(state, output, context);
        }
    }

    #[inline(always)]
    fn resume<C: Context<'a>>(&self, state: &mut Way<K>, output: &mut Vec<Found>, context: &mut C) -> Step {
        if state.levels == 0 {
            output[state.tuple as usize] = self.found(state.node, state.key);
            return Step::Done;
        }
        state.node = self.tree.child(state.node, state.key);
        state.levels -= 1;
        let tree: &'a CsbTree<K, LINES> = self.tree;
        let bytes = tree.node_bytes(state.node);
        for line in 0..LINES {
            context.need(Reference::to(&bytes[line * LINE_BYTES]));
        }
        Step::Wait
    }

    #[inline(always)]
    fn plain<C: Context<'a>>(&self, tuple: usize, output: &mut Vec<Found>, _: &mut C) {
        let key = self.codes[tuple] ^ self.bias;
        let mut node = self.tree.root();
        for _ in 0..self.tree.height() {
            node = self.tree.child(node, key);
        }
        output[tuple] = self.found(node, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::mode::Schedule;

    fn group(distance: u16) -> Hiding {
        Hiding::Prefetch {
            schedule: Schedule::Group,
            distance,
        }
    }

    /// All pairs of looking `keys` up among `rows`, read out in steps of `limit`.
    fn pairs(rows: &[u32], keys: &[u32], limit: usize, hiding: Hiding) -> Vec<(u32, u32)> {
        let sign = 1 << 31;
        let rows = CodeBuffer::U32(rows.to_vec().into(), sign);
        let tree = Tree::build(&rows, None).unwrap().tree;
        let keys = CodeBuffer::U32(keys.to_vec().into(), sign);
        let (mut cursor, mut all) = (Cursor::default(), Vec::new());
        loop {
            let mut step = Pairs::default();
            let done = tree
                .next_pairs(&keys, None, hiding, &mut cursor, limit, &mut step)
                .unwrap();
            assert!(step.build.len() <= limit && (done || step.build.len() == limit));
            all.extend(step.probe.into_iter().zip(step.build));
            if done {
                return all;
            }
        }
    }

    #[test]
    fn every_step_size_and_mode_gives_the_nested_loop() {
        // Key 3 has hundreds of rows, so its entries run over several leaves.
        let rows: Vec<u32> = (0..3000)
            .map(|row| if row % 5 == 0 { 3 } else { row % 700 })
            .collect();
        let keys: Vec<u32> = (0..WINDOW_KEYS as u32 + 50).map(|key| key * 7 % 900).collect();
        let mut want = Vec::new();
        for (key, value) in keys.iter().enumerate() {
            let matches = rows.iter().enumerate().filter(|(_, row)| *row == value);
            want.extend(matches.map(|(row, _)| (key as u32, row as u32)));
        }
        for limit in [1, 7, 600, 1 << 20] {
            for hiding in [Hiding::None, group(1), group(32)] {
                assert_eq!(
                    pairs(&rows, &keys, limit, hiding),
                    want,
                    "limit {limit}, {hiding}"
                );
            }
        }
    }

    #[test]
    fn rows_are_counted_by_key() {
        let codes = CodeBuffer::U64(vec![5, 6, 5, 5, 6, 9].into(), 0);
        assert_eq!(Tree::build(&codes, None).unwrap().rows_per_key, 2.0);
    }

    #[test]
    fn empty_trees_and_batches() {
        assert!(pairs(&[], &[1, 2], 10, group(32)).is_empty());
        assert!(pairs(&[1, 2], &[], 10, group(32)).is_empty());
    }

    #[test]
    fn null_rows_and_null_keys_are_left_out() {
        let codes = CodeBuffer::U64(vec![5, 5, 6].into(), 0);
        let nulls = NullBuffer::from(vec![true, false, true]);
        let Loaded { tree, rows_per_key } = Tree::build(&codes, Some(&nulls)).unwrap();
        assert_eq!(rows_per_key, 1.0);
        let (mut cursor, mut pairs) = (Cursor::default(), Pairs::default());
        let done = tree.next_pairs(&codes, Some(&nulls), Hiding::None, &mut cursor, 9, &mut pairs);
        assert_eq!(done, Ok(true));
        assert_eq!((pairs.build, pairs.probe), (vec![0, 2], vec![0, 2]));
    }
}
