//! [`Index`]: an ordered way to the rows of a table; and the tree behind it, whatever its keys' width.
//!
//! What it is not: the truth about a row. Entries of rows that were deleted, or whose key changed, stay until no snapshot
//! needs them, so whoever comes by an entry looks at the row as well.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use corun_exec::shared_csb::{Cursor, SharedCsbError, SharedCsbTree};
use corun_exec::teams::Operation;

use crate::key::{KeyError, KeyLayout, KeyRange, NOTHING, WORDS_MAX, Words, next, previous};
use crate::lock::RangeLocks;
use crate::operations;
use crate::schema::{ColumnDef, IndexDef};
use crate::slots::Rid;
use crate::table::Table;
use crate::transaction::Direction;
use crate::ts::Ts;
use crate::value::Value;

/// A tree for each width of keys.
pub(crate) enum Tree {
    W1(SharedCsbTree<1>),
    W2(SharedCsbTree<2>),
    W4(SharedCsbTree<4>),
    W8(SharedCsbTree<8>),
}

/// Runs an expression on the tree inside, whatever its width.
macro_rules! on_tree {
    ($tree:expr, $inner:ident => $body:expr) => {
        match $tree {
            Tree::W1($inner) => $body,
            Tree::W2($inner) => $body,
            Tree::W4($inner) => $body,
            Tree::W8($inner) => $body,
        }
    };
}

#[inline]
fn narrow<const W: usize>(words: &Words) -> &[u64; W] {
    words.first_chunk().expect("W is at most 8")
}

#[inline]
fn widen<const W: usize>((key, rid): ([u64; W], u32)) -> (Words, Rid) {
    let mut words = [0; WORDS_MAX];
    words[..W].copy_from_slice(&key);
    (words, Rid(rid))
}

impl Tree {
    fn new(words: usize) -> Self {
        match words {
            1 => Tree::W1(SharedCsbTree::new()),
            2 => Tree::W2(SharedCsbTree::new()),
            4 => Tree::W4(SharedCsbTree::new()),
            _ => Tree::W8(SharedCsbTree::new()),
        }
    }

    /// Of entries in any order.
    pub(crate) fn load(words: usize, entries: Vec<(Words, Rid)>) -> Result<Self, SharedCsbError> {
        fn tree<const W: usize>(entries: Vec<(Words, Rid)>) -> Result<SharedCsbTree<W>, SharedCsbError> {
            let mut narrowed: Vec<([u64; W], u32)> = entries
                .iter()
                .map(|(words, rid)| (*narrow(words), rid.0))
                .collect();
            drop(entries);
            narrowed.sort_unstable();
            SharedCsbTree::bulk_load(&narrowed, FILL)
        }
        Ok(match words {
            1 => Tree::W1(tree(entries)?),
            2 => Tree::W2(tree(entries)?),
            4 => Tree::W4(tree(entries)?),
            _ => Tree::W8(tree(entries)?),
        })
    }

    pub(crate) fn insert(&self, key: &Words, rid: Rid) -> Result<bool, SharedCsbError> {
        on_tree!(self, tree => tree.insert(narrow(key), rid.0))
    }

    pub(crate) fn insert_unique(&self, key: &Words, rid: Rid) -> Result<Result<(), u32>, SharedCsbError> {
        on_tree!(self, tree => tree.insert_unique(narrow(key), rid.0))
    }

    pub(crate) fn remove(&self, key: &Words, rid: Rid) -> bool {
        on_tree!(self, tree => tree.remove(narrow(key), rid.0))
    }

    #[inline]
    pub(crate) fn get(&self, key: &Words) -> Option<Rid> {
        on_tree!(self, tree => tree.get(narrow(key)).map(Rid))
    }

    /// What [`Tree::get`] returns for each key, with cache misses that overlap.
    pub(crate) fn get_many<'k>(&self, keys: impl Iterator<Item = &'k Words>) -> Vec<Option<u32>> {
        on_tree!(self, tree => tree.get_many(keys.map(narrow)))
    }

    /// The smallest key above that the tree can have: its words end before those of `Words`.
    pub(crate) fn after(&self, mut key: Words) -> Option<Words> {
        let width = match self {
            Tree::W1(_) => 1,
            Tree::W2(_) => 2,
            Tree::W4(_) => 4,
            Tree::W8(_) => 8,
        };
        key[width..].fill(u64::MAX);
        next(key)
    }

    /// The largest key below.
    pub(crate) fn before(&self, key: Words) -> Option<Words> {
        previous(key)
    }

    pub(crate) fn len(&self) -> usize {
        on_tree!(self, tree => tree.len())
    }

    pub(crate) fn bytes(&self) -> usize {
        on_tree!(self, tree => tree.bytes())
    }

    pub(crate) fn cursor(&self) -> TreeCursor<'_> {
        match self {
            Tree::W1(tree) => TreeCursor::W1(tree.cursor()),
            Tree::W2(tree) => TreeCursor::W2(tree.cursor()),
            Tree::W4(tree) => TreeCursor::W4(tree.cursor()),
            Tree::W8(tree) => TreeCursor::W8(tree.cursor()),
        }
    }
}

/// Part of the slots of a freshly loaded tree's nodes that are used. Unmeasured: room for inserts, at a seventh more memory.
const FILL: f64 = 0.85;

/// Reads a tree in order.
pub(crate) enum TreeCursor<'a> {
    W1(Cursor<'a, 1>),
    W2(Cursor<'a, 2>),
    W4(Cursor<'a, 4>),
    W8(Cursor<'a, 8>),
}

macro_rules! on_cursor {
    ($cursor:expr, $inner:ident => $body:expr) => {
        match $cursor {
            TreeCursor::W1($inner) => $body,
            TreeCursor::W2($inner) => $body,
            TreeCursor::W4($inner) => $body,
            TreeCursor::W8($inner) => $body,
        }
    };
}

impl TreeCursor<'_> {
    /// Goes to the end of a range where a scan in this direction begins.
    pub(crate) fn seek(&mut self, range: &KeyRange, direction: Direction) {
        match direction {
            Direction::Ascending => on_cursor!(self, cursor => cursor.seek(narrow(&range.low))),
            Direction::Descending => on_cursor!(self, cursor => cursor.seek_back(narrow(&range.high))),
        }
    }

    /// Goes behind an entry, which may be gone.
    pub(crate) fn seek_after(&mut self, key: &Words, rid: Rid) {
        on_cursor!(self, cursor => cursor.seek_after(&(*narrow(key), rid.0)));
    }

    /// The next entry of the range.
    #[inline]
    pub(crate) fn next(&mut self, range: &KeyRange, direction: Direction) -> Option<(Words, Rid)> {
        let entry = match direction {
            Direction::Ascending => on_cursor!(self, cursor => cursor.next().map(widen)),
            Direction::Descending => on_cursor!(self, cursor => cursor.prev().map(widen)),
        };
        entry.filter(|(key, _)| *key >= range.low && *key <= range.high)
    }
}

/// What the handles of an index share.
pub(crate) struct IndexInner {
    pub(crate) name: String,
    pub(crate) columns: Vec<usize>,
    pub(crate) unique: bool,
    pub(crate) layout: KeyLayout,
    pub(crate) tree: Tree,
    pub(crate) ranges: Arc<RangeLocks>,
    /// Fetching through it.
    pub(crate) fetch: Operation,
    /// Older snapshots cannot use it: it was filled with the rows of this moment. None while it is being made and nobody can.
    since: OnceLock<Ts>,
    /// The newest commit there was when it was filled.
    filled: Ts,
    /// Whether it is made beside transactions, so that none can read it before `since` is known.
    beside: bool,
    /// Whether who has the table locked keeps it up.
    kept: AtomicBool,
    dropped: AtomicBool,
}

/// How an index comes to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Made {
    /// By this commit.
    By(Ts),
    /// By a transaction that has not committed, of rows up to this commit.
    Within(Ts),
    /// While transactions go on.
    Beside,
}

impl IndexInner {
    /// An index of a table of these columns, empty or with these entries. `number`, the table's, is for messages about its intervals.
    pub(crate) fn new(
        number: u32,
        table: &str,
        definition: &IndexDef,
        columns: &[ColumnDef],
        positions: Vec<usize>,
        made: Made,
        entries: impl FnOnce(&KeyLayout) -> Option<Vec<(Words, Rid)>>,
    ) -> Result<Self, SharedCsbError> {
        let layout = KeyLayout::new(&definition.name, columns, &positions);
        let tree = match entries(&layout) {
            None => Tree::new(layout.words()),
            Some(entries) => Tree::load(layout.words(), entries)?,
        };
        Ok(IndexInner {
            name: definition.name.clone(),
            columns: positions,
            unique: definition.unique,
            layout,
            tree,
            ranges: RangeLocks::new(number),
            fetch: operations::fetch(table, &definition.name),
            since: match made {
                Made::By(since) => OnceLock::from(since),
                Made::Within(_) | Made::Beside => OnceLock::new(),
            },
            filled: match made {
                Made::By(filled) | Made::Within(filled) => filled,
                Made::Beside => Ts::ZERO,
            },
            beside: matches!(made, Made::Beside),
            kept: AtomicBool::new(true),
            dropped: AtomicBool::new(false),
        })
    }

    /// Its definition in a table of these columns.
    pub(crate) fn definition(&self, columns: &[ColumnDef]) -> IndexDef {
        IndexDef {
            name: self.name.clone(),
            columns: self.columns.iter().map(|&at| columns[at].name.clone()).collect(),
            unique: self.unique,
        }
    }

    /// Whether snapshots of this moment can use it.
    pub(crate) fn is_made(&self, at: Ts) -> bool {
        self.since.get().is_some_and(|&since| since <= at)
    }

    /// Whether it is made.
    pub(crate) fn is_usable(&self) -> bool {
        self.since.get().is_some()
    }

    /// It is made, for snapshots from `since` on.
    pub(crate) fn make_usable(&self, since: Ts) {
        self.since.get_or_init(|| since);
    }

    /// Whether who has the table locked can read it: not one that is made beside, nor one that this transaction has dropped.
    pub(crate) fn serves_within(&self) -> bool {
        self.is_kept() && (self.is_usable() || !self.beside)
    }

    /// Whether a snapshot of this moment can use it that its own transaction reads: the transaction has the table locked, and may have made
    /// the index itself.
    pub(crate) fn serves_own(&self, at: Ts) -> bool {
        self.serves_within() && !self.beside && self.filled <= at
    }

    /// Whether who has the table locked keeps it up.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    pub(crate) fn keep(&self, kept: bool) {
        self.kept.store(kept, Ordering::Release);
    }

    /// Whether it was not dropped.
    pub(crate) fn is_live(&self) -> bool {
        !self.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn drop_it(&self) {
        self.dropped.store(true, Ordering::Release);
    }
}

/// An index of a table. Cheap to clone.
#[derive(Clone)]
pub struct Index {
    pub(crate) table: Table,
    pub(crate) inner: Arc<IndexInner>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index({}.{})", self.table.0.name(), self.inner.name)
    }
}

impl Index {
    /// Its name; `primary` for the primary key's.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Positions of its columns in the table, the most significant first.
    pub fn columns(&self) -> &[usize] {
        &self.inner.columns
    }

    /// Whether no two rows have the same key.
    pub fn is_unique(&self) -> bool {
        self.inner.unique
    }

    /// Entries, those of old versions included.
    pub fn entries(&self) -> u64 {
        self.inner.tree.len() as u64
    }

    /// Bytes of memory its tree takes.
    pub fn bytes(&self) -> u64 {
        self.inner.tree.bytes() as u64
    }

    /// The entries whose columns have exactly these values.
    ///
    /// # Errors
    /// [`KeyError`] if there are not as many values as columns, or of other types.
    pub fn point(&self, values: &[Value<'_>]) -> Result<KeyRange, KeyError> {
        let key = self.inner.layout.exact(values)?;
        Ok(key.map_or(NOTHING, |key| key.range()))
    }

    /// The entries whose first columns have these values.
    ///
    /// # Errors
    /// [`KeyError`] if there are more values than columns, or of other types.
    pub fn prefix(&self, values: &[Value<'_>]) -> Result<KeyRange, KeyError> {
        self.inner.layout.prefix(values)
    }

    /// The entries whose first columns have the values of `prefix`, and whose next column lies between two bounds. As in SQL,
    /// a bound on either side leaves NULLs out.
    ///
    /// # Errors
    /// [`KeyError`] if no column is left for the bounds, or a value is of another type.
    pub fn between(
        &self,
        prefix: &[Value<'_>],
        low: Bound<Value<'_>>,
        high: Bound<Value<'_>>,
    ) -> Result<KeyRange, KeyError> {
        self.inner.layout.between(prefix, low, high)
    }

    /// All entries.
    pub fn all(&self) -> KeyRange {
        KeyRange::all()
    }
}
