//! `KeptColumns`: decoded columns of row groups, for all sessions that come from one session state.

use crate::caches::bytes_to_keep;
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::SchemaRef;
use corun_model::kept_columns::{ColumnLedger, turn};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::object_store::ObjectMeta;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A column of a row group, in the batches in which it is read.
pub(super) type Batches = Arc<[ArrayRef]>;

/// A file in the version that is read, and how it is read: two files that are equal give the same columns in the same batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) store: String,
    pub(super) version: ObjectMeta,
    pub(super) schema: SchemaRef,
    pub(super) batch_size: usize,
}

impl Hash for File {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.version.location.as_ref().hash(hasher);
        self.version.size.hash(hasher);
        self.batch_size.hash(hasher);
    }
}

/// A column of a row group of a file: its number among files, the row group's in the file, the column's in the file's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Column {
    pub(super) file: u64,
    pub(super) group: usize,
    pub(super) index: usize,
}

/// What there is of a column that is asked for.
#[derive(Debug, Clone)]
pub(super) enum Found {
    /// All of it.
    Kept(Batches),
    /// Nothing, but it came often enough, and there is room.
    Wanted,
    /// Nothing, and it is not to be kept.
    Passing,
}

/// Columns that are kept.
pub(crate) struct KeptColumns {
    state: Mutex<State>,
}

struct State {
    ledger: ColumnLedger<Column>,
    columns: HashMap<Column, (Batches, MemoryReservation)>,
    files: HashMap<File, u64>,
    numbers: HashSet<u64>,
    last: u64,
    asked: u64,
    reused: u64,
}

impl fmt::Debug for KeptColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (columns, bytes) = self.now();
        write!(f, "{columns} columns, {bytes} bytes")
    }
}

/// Files whose numbers are known; beyond that, those of which nothing is kept are forgotten.
const FILES: usize = 4096;

impl KeptColumns {
    pub(crate) fn new() -> Self {
        KeptColumns {
            state: Mutex::new(State {
                ledger: ColumnLedger::new(0),
                columns: HashMap::new(),
                files: HashMap::new(),
                numbers: HashSet::new(),
                last: 0,
                asked: 0,
                reused: 0,
            }),
        }
    }

    /// Columns that are kept now, and their bytes.
    pub(crate) fn now(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.ledger.len(), state.ledger.bytes())
    }

    /// Forgets all columns, and which were asked for.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        // The next plan says how much there may be.
        state.ledger = ColumnLedger::new(0);
        let gone = std::mem::take(&mut state.columns);
        drop(state);
        drop(gone);
    }

    /// Columns that were asked for since the start, and how many of them were there.
    pub(crate) fn asked(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.asked, state.reused)
    }

    /// Columns may have `bytes` in all.
    pub(super) fn resize(&self, bytes: usize, pool: &Arc<dyn MemoryPool>) {
        let mut state = self.state.lock();
        let gone = state.ledger.resize(bytes_to_keep(bytes, pool.as_ref()));
        let gone = state.dropped(&gone);
        drop(state);
        drop(gone);
    }

    /// The number of a file.
    pub(super) fn file(&self, file: File) -> u64 {
        let mut state = self.state.lock();
        if let Some(number) = state.files.get(&file) {
            return *number;
        }
        if state.files.len() >= FILES {
            let used: HashSet<u64> = state.columns.keys().map(|column| column.file).collect();
            state.files.retain(|_, number| used.contains(number));
            state.numbers = used;
        }
        state.last += 1;
        let number = state.last;
        state.files.insert(file, number);
        state.numbers.insert(number);
        number
    }

    /// What there is of columns, which are counted as asked for. `from_first`: they are wanted the first time already, otherwise from the
    /// second, each in its turn.
    pub(super) fn ask(&self, columns: &[Column], from_first: bool) -> Vec<Found> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let found = columns.iter().map(|column| {
            let before = state.ledger.ask(*column);
            let comes_often = from_first || before > turn(column.group, column.index);
            match state.columns.get(column) {
                Some((batches, _)) => Found::Kept(Arc::clone(batches)),
                None if comes_often && state.ledger.would_keep(*column) => Found::Wanted,
                None => Found::Passing,
            }
        });
        let found: Vec<Found> = found.collect();
        let reused = found.iter().filter(|found| matches!(found, Found::Kept(_)));
        state.reused += reused.count() as u64;
        state.asked += found.len() as u64;
        found
    }

    /// Offers a column that took `seconds` to read and decode; whether it is kept.
    pub(super) fn offer(
        &self,
        column: Column,
        batches: Batches,
        seconds: f64,
        pool: &Arc<dyn MemoryPool>,
    ) -> bool {
        let bytes = bytes(&batches);
        let reservation = MemoryConsumer::new("columns that corun keeps").register(pool);
        if reservation.try_grow(bytes).is_err() {
            return false;
        }
        let mut state = self.state.lock();
        // Another statement may have been faster.
        if state.columns.contains_key(&column) || !state.numbers.contains(&column.file) {
            return false;
        }
        let taken = state.ledger.offer(column, bytes, seconds);
        let gone = state.dropped(&taken.gone);
        if taken.is_kept {
            state.columns.insert(column, (batches, reservation));
        }
        drop(state);
        drop(gone);
        taken.is_kept
    }
}

impl State {
    /// Columns that have to go, to be dropped when the lock is free.
    fn dropped(&mut self, gone: &[Column]) -> Vec<(Batches, MemoryReservation)> {
        gone.iter()
            .filter_map(|column| self.columns.remove(column))
            .collect()
    }
}

/// Bytes of all buffers of a column. Batches may have buffers in common, such as a dictionary's.
pub(super) fn bytes(batches: &[ArrayRef]) -> usize {
    let mut seen = HashSet::new();
    let mut bytes = 0;
    for batch in batches {
        let mut parts = vec![batch.to_data()];
        while let Some(part) = parts.pop() {
            let nulls = part.nulls().map(|nulls| nulls.inner().inner());
            for buffer in part.buffers().iter().chain(nulls) {
                if seen.insert(buffer.data_ptr()) {
                    bytes += buffer.capacity();
                }
            }
            parts.extend(part.child_data().iter().cloned());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray};
    use arrow::datatypes::Schema;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};

    fn file(name: &str) -> File {
        File {
            store: "file:///".to_owned(),
            version: ObjectMeta {
                location: name.into(),
                last_modified: Default::default(),
                size: 10,
                e_tag: None,
                version: None,
            },
            schema: Arc::new(Schema::empty()),
            batch_size: 8192,
        }
    }

    fn numbers(rows: usize) -> Batches {
        vec![Arc::new(Int64Array::from(vec![1; rows])) as ArrayRef].into()
    }

    fn unlimited() -> Arc<dyn MemoryPool> {
        Arc::new(UnboundedMemoryPool::default())
    }

    #[test]
    fn files_are_told_apart_by_all_that_makes_their_columns_what_they_are() {
        let kept = KeptColumns::new();
        let first = kept.file(file("a"));
        assert_eq!(kept.file(file("a")), first);
        let mut others = [file("b"), file("a"), file("a"), file("a"), file("a")];
        others[1].version.size = 11;
        others[2].version.e_tag = Some("other".to_owned());
        others[3].batch_size = 4096;
        others[4].store = "s3://bucket".to_owned();
        for other in others {
            assert_ne!(kept.file(other), first);
        }
    }

    #[test]
    fn a_column_is_kept_from_the_second_time_on() {
        let (kept, pool) = (KeptColumns::new(), unlimited());
        kept.resize(1 << 20, &pool);
        let column = Column {
            file: kept.file(file("a")),
            group: 0,
            index: 4,
        };
        let ask = |from_first| kept.ask(&[column], from_first).remove(0);
        assert!(matches!(ask(false), Found::Passing));
        assert!(matches!(ask(false), Found::Wanted));
        assert!(kept.offer(column, numbers(100), 1.0, &pool));
        assert!(
            !kept.offer(column, numbers(100), 1.0, &pool),
            "it is there already"
        );
        let Found::Kept(batches) = ask(false) else {
            panic!("it is kept")
        };
        assert_eq!(batches[0].len(), 100);
        assert_eq!(kept.now(), (1, 800));
        kept.resize(0, &pool);
        assert_eq!(kept.now(), (0, 0));
        assert!(matches!(ask(true), Found::Passing), "there is no room");
    }

    #[test]
    fn what_is_kept_counts_in_the_memory_pool_and_never_makes_it_overflow() {
        let kept = KeptColumns::new();
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 10));
        kept.resize(1 << 20, &pool);
        let column = |index| Column {
            file: kept.file(file("a")),
            group: 0,
            index,
        };
        let _ = kept.ask(&[0, 1, 2].map(column), true);
        assert!(kept.offer(column(0), numbers(128), 1.0, &pool));
        assert_eq!(pool.reserved(), 1024);
        assert!(
            !kept.offer(column(1), numbers(2048), 1.0, &pool),
            "more than an eighth of an eighth"
        );
        assert_eq!(pool.reserved(), 1024);
        let other = MemoryConsumer::new("a query").register(&pool);
        other.try_grow(63 << 10).expect("the rest");
        assert!(!kept.offer(column(2), numbers(1), 1.0, &pool));
        drop(kept);
        assert_eq!(pool.reserved(), 63 << 10);
    }

    #[test]
    fn buffers_that_batches_have_in_common_count_once() {
        let text = "x".repeat(1000);
        let all: ArrayRef = Arc::new(StringViewArray::from(vec![text.as_str(); 100]));
        let halves = [all.slice(0, 50), all.slice(50, 50)];
        assert_eq!(bytes(&halves), bytes(&[Arc::clone(&all)]));
        assert!(bytes(&[all]) >= 1000 + 100 * 16);
    }

    #[test]
    fn files_of_which_nothing_is_kept_are_forgotten() {
        let (kept, pool) = (KeptColumns::new(), unlimited());
        kept.resize(1 << 20, &pool);
        let first = Column {
            file: kept.file(file("first")),
            group: 0,
            index: 0,
        };
        let _ = kept.ask(&[first], true);
        assert!(kept.offer(first, numbers(1), 1.0, &pool));
        for number in 0..2 * FILES {
            kept.file(file(&number.to_string()));
        }
        assert_eq!(kept.file(file("first")), first.file);
        assert!(kept.state.lock().files.len() <= FILES + 1);
    }
}
