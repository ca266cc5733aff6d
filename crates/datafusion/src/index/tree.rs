//! [`Tree`]: the CSB+-tree over one column's codes, and batched lookups in it.
//!
//! Order of calls: [`Tree::build`] once; then for each batch of keys a reset [`Cursor`] and [`Tree::next_pairs`] until it
//! says that it is done. A window of keys is looked up together ([`corun_exec::operators::lookup_matches`]), so that the cache
//! misses of one hide those of the others; the matches are then read out in the order of the keys. What it is not: it
//! knows neither SQL types nor join types.

use crate::join::keys::CodeBuffer;
use arrow::buffer::NullBuffer;
use corun_exec::csb::{CsbError, CsbTree, Key};
use corun_exec::operators::{LookupError, Matches, lookup_matches};
use corun_exec::stage::Context;
use corun_exec::table::Pairs;
use corun_model::cache::reuse::Reuse;
use corun_model::operators::mode::Hiding;
use corun_model::units::Bytes;
use std::ops::BitXor;

/// Keys that are looked up before any of their matches is read out: enough for every prefetch distance to run full, few
/// enough for their matches to stay in a private cache. Unmeasured.
const WINDOW_KEYS: usize = 2048;

/// Rows of a key that are kept beside the others of its window; a key that has more is looked up again. Unmeasured.
const KEPT_ROWS: usize = 16;

/// Cache lines of a node.
const LINES: usize = 2;

/// Nodes are full: an indexed table does not change.
const FILL: f64 = 1.0;

/// How keys are looked up and the rows found are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lookup {
    /// What hides the latency of memory.
    pub hiding: Hiding,
    /// Levels of the tree that are kept in the outer caches: as many from the top as take so many bytes. The others, and the rows
    /// found, pass by. `None`: all is kept.
    pub kept: Option<Bytes>,
}

impl Lookup {
    /// Whether found rows are worth a place in the outer caches.
    pub fn reuse(&self) -> Reuse {
        match self.kept {
            None => Reuse::Keep,
            Some(_) => Reuse::Once,
        }
    }
}

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

/// What the keys of a window found.
#[derive(Debug, Default)]
struct Window {
    /// Rows kept of a key.
    kept: usize,
    rows: Vec<u32>,
    /// By key.
    spans: Vec<Span>,
}

/// Where the rows of a key stand in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    count: u16,
    /// Whether the tree has more of them.
    more: bool,
}

impl<'a> Matches<'a> for Window {
    #[inline(always)]
    fn take<C: Context<'a>>(&mut self, key: usize, _: u32, mut inner: impl Iterator<Item = u32>, _: &mut C) {
        let start = self.rows.len();
        self.rows.extend(inner.by_ref().take(self.kept));
        let count = self.rows.len() - start;
        self.spans[key] = Span {
            start: start as u32,
            count: count as u16,
            more: self.kept == KEPT_ROWS && count == KEPT_ROWS && inner.next().is_some(),
        };
    }
}

/// How far the matches of a batch of keys have been read out.
#[derive(Debug, Default)]
pub struct Cursor {
    /// The key whose matches come next.
    next_key: usize,
    /// The window ends before this key.
    window_end: usize,
    window: Window,
    /// Rows of the key before `next_key` that did not fit the last step, and how many of them were given since.
    rest: Vec<u32>,
    rest_given: usize,
}

impl Cursor {
    /// Begins with the first key of another batch. With `one_row`, only the smallest row of each key is given.
    pub fn reset(&mut self, one_row: bool) {
        self.window.kept = if one_row { 1 } else { KEPT_ROWS };
        self.next_key = 0;
        self.window_end = 0;
        self.rest.clear();
        self.rest_given = 0;
    }

    /// Bytes it holds.
    pub fn bytes(&self) -> usize {
        let rows = self.window.rows.capacity() + self.rest.capacity();
        rows * size_of::<u32>() + self.window.spans.capacity() * size_of::<Span>()
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

    /// Nodes a lookup reads, one below the other.
    pub fn levels(&self) -> usize {
        let inner = match self {
            Tree::Narrow(tree) => tree.height(),
            Tree::Wide(tree) => tree.height(),
        };
        inner + 1
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
        lookup: Lookup,
        cursor: &mut Cursor,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<bool, LookupError> {
        let valid = |key: usize| nulls.is_none_or(|nulls| nulls.is_valid(key));
        match (self, codes) {
            (Tree::Narrow(tree), CodeBuffer::U32(values, bias)) => {
                next_pairs(tree, values, *bias, valid, lookup, cursor, limit, pairs)
            }
            (Tree::Wide(tree), CodeBuffer::U64(values, bias)) => {
                next_pairs(tree, values, *bias, valid, lookup, cursor, limit, pairs)
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
    lookup: Lookup,
    cursor: &mut Cursor,
    limit: usize,
    pairs: &mut Pairs,
) -> Result<bool, LookupError> {
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
            let keys: Vec<K> = codes[cursor.window_end..end]
                .iter()
                .map(|code| *code ^ bias)
                .collect();
            cursor.window.rows.clear();
            cursor.window.spans.clear();
            cursor.window.spans.resize(keys.len(), Span::default());
            lookup_matches(tree, &keys, &mut cursor.window, lookup.hiding, lookup.kept)?;
            cursor.window_end = end;
        }
        let window_start = cursor.window_end - cursor.window.spans.len();
        while cursor.next_key < cursor.window_end && cursor.rest.is_empty() {
            let key = cursor.next_key;
            let span = cursor.window.spans[key - window_start];
            let start = span.start as usize;
            let rows = &cursor.window.rows[start..start + usize::from(span.count)];
            let room = limit - pairs.build.len();
            if room == 0 {
                return Ok(false);
            }
            cursor.next_key += 1;
            if rows.is_empty() || !valid(key) {
                continue;
            }
            let given = rows.len().min(room);
            pairs.build.extend(&rows[..given]);
            pairs.probe.extend(std::iter::repeat_n(key as u32, given));
            cursor.rest.extend(&rows[given..]);
            if span.more {
                // A key may have as many rows as the table: they are read once, not once a step.
                let code = codes[key] ^ bias;
                let all = tree.range(code..=code).map(|(_, row)| row);
                cursor.rest.extend(all.skip(KEPT_ROWS));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::operators::mode::Schedule;

    const PLAIN: Lookup = Lookup {
        hiding: Hiding::None,
        kept: None,
    };

    fn group(distance: u16) -> Lookup {
        let schedule = Schedule::Group;
        Lookup {
            hiding: Hiding::Prefetch { schedule, distance },
            kept: None,
        }
    }

    fn passing(distance: u16) -> Lookup {
        Lookup {
            kept: Some(Bytes(0)),
            ..group(distance)
        }
    }

    /// All pairs of looking `keys` up among `rows`, read out in steps of `limit`.
    fn pairs(rows: &[u32], keys: &[u32], limit: usize, lookup: Lookup) -> Vec<(u32, u32)> {
        let sign = 1 << 31;
        let rows = CodeBuffer::U32(rows.to_vec().into(), sign);
        let tree = Tree::build(&rows, None).unwrap().tree;
        let keys = CodeBuffer::U32(keys.to_vec().into(), sign);
        let (mut cursor, mut all) = (Cursor::default(), Vec::new());
        cursor.reset(false);
        loop {
            let mut step = Pairs::default();
            let done = tree
                .next_pairs(&keys, None, lookup, &mut cursor, limit, &mut step)
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
            for lookup in [PLAIN, group(1), group(32), passing(7)] {
                assert_eq!(
                    pairs(&rows, &keys, limit, lookup),
                    want,
                    "limit {limit}, {lookup:?}"
                );
            }
        }
    }

    #[test]
    fn one_row_of_each_key() {
        let rows = CodeBuffer::U32((0..900).map(|row| row % 3).collect::<Vec<u32>>().into(), 0);
        let keys = CodeBuffer::U32(vec![2, 7, 0, 2].into(), 0);
        let tree = Tree::build(&rows, None).unwrap().tree;
        let (mut cursor, mut pairs) = (Cursor::default(), Pairs::default());
        cursor.reset(true);
        let done = tree.next_pairs(&keys, None, group(8), &mut cursor, 100, &mut pairs);
        assert_eq!(done, Ok(true));
        assert_eq!((pairs.build, pairs.probe), (vec![2, 0, 2], vec![0, 2, 3]));
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
        cursor.reset(false);
        let done = tree.next_pairs(&codes, Some(&nulls), PLAIN, &mut cursor, 9, &mut pairs);
        assert_eq!(done, Ok(true));
        assert_eq!((pairs.build, pairs.probe), (vec![0, 2], vec![0, 2]));
    }
}
