//! [`StoreError`]: everything a user of the store can be told.

use corun_exec::shared_csb::SharedCsbError;

use crate::checkpoint::CheckpointError;
use crate::foreign_key::ForeignKeyViolation;
use crate::key::KeyError;
use crate::lock::LockError;
use crate::log::LogError;
use crate::row::RowError;
use crate::schema::SchemaError;

/// What went wrong.
///
/// After [`StoreError::is_retryable`] errors the transaction must end, and run again may succeed, or go back to a savepoint. After all other
/// errors of an operation the transaction is as before the operation, and goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A lock was not granted.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A key that must be unique is there already.
    #[error("table {table:?}: there is a row with the key ({key}) of index {index:?} already")]
    Duplicate {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// The values of its columns.
        key: String,
    },
    /// A foreign key refuses the operation.
    #[error(transparent)]
    ForeignKey(Box<ForeignKeyViolation>),
    /// A table or an index that foreign keys of other tables need.
    #[error("{what} cannot be {action}: {} needs it; drop that first", .by.join(", "))]
    Referenced {
        /// The table or the index.
        what: String,
        /// `dropped` or `truncated`.
        action: &'static str,
        /// The foreign keys.
        by: Vec<String>,
    },
    /// A value that a column does not take.
    #[error(transparent)]
    Row(#[from] RowError),
    /// Values that make no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A definition no table can be made of.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The log takes nothing more, or could not be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A checkpoint could not be written or read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The folder could not be used.
    #[error("cannot {what} {place}: {source}")]
    Storage {
        /// What was tried.
        what: &'static str,
        /// Where.
        place: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The folder has another owner.
    #[error("{place} is open in another process or store; close it there first")]
    InUse {
        /// The folder.
        place: String,
    },
    /// A folder that was to be read has no store.
    #[error("there is no store in {place}; name the folder of one")]
    NoStore {
        /// The folder.
        place: String,
    },
    /// A follower has stopped.
    #[error("the follower has stopped: {why}")]
    NotFollowing {
        /// Why.
        why: String,
    },
    /// What was read back cannot be.
    #[error("{place} is damaged: {what}")]
    Damaged {
        /// Where.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// An archive does not have what is asked of it.
    #[error("{file}: {what}")]
    Archive {
        /// The archive's folder, or a file of it.
        file: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The memory limit is reached.
    #[error(
        "the store is at its memory limit of {limit} bytes ({used} in use); delete rows, end old snapshots or raise memory_max"
    )]
    MemoryFull {
        /// Bytes.
        limit: u64,
        /// Bytes.
        used: u64,
    },
    /// The allocator refused.
    #[error("out of memory: {bytes} bytes were refused")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The transaction's block in the log would be too long.
    #[error(
        "the transaction changes more than {limit} bytes; commit in smaller parts or raise transaction_bytes_max"
    )]
    TransactionTooLarge {
        /// Bytes.
        limit: usize,
    },
    /// An index cannot take the entry.
    #[error("table {table:?}, index {index:?}: {source}")]
    Tree {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// Why.
        source: SharedCsbError,
    },
    /// All row numbers of a table are taken.
    #[error("table {table:?} has as many rows as a table can have (2^32)")]
    TooManyRows {
        /// The table.
        table: String,
    },
    /// No table of this name.
    #[error("there is no table {name:?}{}", also(.known))]
    NoTable {
        /// The name.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// No constraint of this name.
    #[error("table {table:?} has no constraint {name:?}")]
    NoConstraint {
        /// The table.
        table: String,
        /// The name.
        name: String,
    },
    /// No schema of this name.
    #[error("there is no schema {name:?}; there are {}", .known.join(", "))]
    NoSchema {
        /// The name.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// A schema with tables or sequences, or the schema `public`, was to be dropped.
    #[error("schema {name:?} cannot be dropped: {why}")]
    SchemaInUse {
        /// The schema.
        name: String,
        /// What is in it.
        why: String,
    },
    /// No index of this name.
    #[error("table {table:?} has no index {name:?}")]
    NoIndex {
        /// The table.
        table: String,
        /// The name.
        name: String,
    },
    /// No sequence of this name.
    #[error("there is no sequence {name:?}")]
    NoSequence {
        /// The name.
        name: String,
    },
    /// A sequence that cannot be, or that gives no number.
    #[error("sequence {name:?}: {why}")]
    Sequence {
        /// Its name.
        name: String,
        /// What about it.
        why: &'static str,
    },
    /// A table, an index, a constraint, a sequence or a schema of this name is there already.
    #[error("there is {what} {name:?} already")]
    Exists {
        /// `a table`, `an index`, `a constraint`, `a sequence` or `a schema`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A table of this name is there already, and its definition is another.
    #[error("there is a table {table:?} already, and it is not as defined: {difference}")]
    OtherDefinition {
        /// The table.
        table: String,
        /// The first difference.
        difference: String,
    },
    /// A row was to be found by the primary key of a table that has none.
    #[error("table {table:?} has no primary key; find its rows by an index, or by number in a scan")]
    NoPrimaryKey {
        /// The table.
        table: String,
    },
    /// The primary key's index stays as long as its table.
    #[error("the primary key of table {table:?} cannot be dropped")]
    PrimaryKey {
        /// The table.
        table: String,
    },
    /// A column cannot be dropped while it is in an index.
    #[error(
        "column {column:?} of table {table:?} is in index {index:?}; drop the index first (a primary key stays with its table)"
    )]
    ColumnInIndex {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The index.
        index: String,
    },
    /// A column cannot be dropped while it is in a foreign key.
    #[error(
        "column {column:?} of table {table:?} is in foreign key {constraint:?} of table {of:?}; drop that constraint first"
    )]
    ColumnInForeignKey {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The foreign key.
        constraint: String,
        /// The table that has it.
        of: String,
    },
    /// A table with foreign keys cannot be written again while checks of the transaction wait for its rows.
    #[error(
        "table {table:?} cannot be written again while checks of foreign keys wait; make them first (check_foreign_keys)"
    )]
    PendingChecks {
        /// The table.
        table: String,
    },
    /// The table was dropped after the handle was made, or emptied, or written again in other columns.
    #[error("table {table:?} was dropped, or emptied or written again as another; look it up by name")]
    Dropped {
        /// The table.
        table: String,
    },
    /// The index was dropped, or was made after the snapshot.
    #[error("index {index:?} of table {table:?} {why}")]
    IndexUnusable {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// What about it.
        why: &'static str,
    },
    /// A handle of another store.
    #[error("table {table:?} belongs to another store")]
    OtherStore {
        /// The table.
        table: String,
    },
    /// A single row was asked for through an index that may have several.
    #[error("index {index:?} of table {table:?} is not unique; use first or scan")]
    NotUnique {
        /// The table.
        table: String,
        /// The index.
        index: String,
    },
    /// No row of this number, or it was deleted.
    #[error("table {table:?} has no row {rid}")]
    NoRow {
        /// The table.
        table: String,
        /// The row's number.
        rid: u32,
    },
    /// The function that changes a row changed it through the transaction as well.
    #[error("row {rid} of table {table:?} was changed by the function that was to change it")]
    ChangedMeanwhile {
        /// The table.
        table: String,
        /// The row's number.
        rid: u32,
    },
    /// An earlier error ended the transaction.
    #[error(
        "the transaction cannot go on after a deadlock or a lock timeout; abort it and run it again, or roll back to a savepoint"
    )]
    Ended,
    /// A session begins a transaction while it has one that is suspended.
    #[error(
        "the session has a suspended transaction; resume it, and commit or abort it, before another begins"
    )]
    Suspended,
    /// A session has no transaction to go on with.
    #[error("the session has no suspended transaction; begin one")]
    NotSuspended,
    /// A savepoint of another transaction, or of a part that was rolled back.
    #[error("the savepoint is not one of this transaction, or was rolled back")]
    NoSavepoint,
    /// The stack of the user-level thread is nearly used up.
    #[error(
        "{left} bytes of the user-level thread's stack are left and an operation may need {needed}; raise the stack_bytes of its team, or call from less deep"
    )]
    Stack {
        /// Bytes.
        left: usize,
        /// Bytes.
        needed: usize,
    },
    /// A snapshot of a transaction that has ended, or taken back by a savepoint what it has shown.
    #[error(
        "the snapshot showed what its transaction had written, which has ended or was rolled back to a savepoint; take another"
    )]
    SnapshotEnded,
    /// A transaction was to read at the moment of a snapshot of another store.
    #[error("the snapshot belongs to another store")]
    SnapshotOfOtherStore,
    /// As many snapshots as there can be.
    #[error("{limit} snapshots are open, which is the most; end some or raise snapshots_max")]
    TooManySnapshots {
        /// Their number.
        limit: usize,
    },
    /// An option that makes no sense.
    #[error("option {name}: {why}")]
    Option {
        /// Its name.
        name: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The store cannot be closed yet.
    #[error("transactions that are open: {open}; commit or abort them, then close the store again")]
    TransactionsOpen {
        /// Their number.
        open: usize,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

fn also(known: &[String]) -> String {
    if known.is_empty() {
        "; the store has no tables".to_owned()
    } else {
        format!("; there are {}", known.join(", "))
    }
}

impl StoreError {
    pub(crate) fn tree(table: &str, index: &str, source: SharedCsbError) -> StoreError {
        StoreError::Tree {
            table: table.to_owned(),
            index: index.to_owned(),
            source,
        }
    }

    /// Whether the same transaction, run again from its beginning, may succeed: after a deadlock or a lock timeout.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            StoreError::Lock(LockError::Deadlock { .. } | LockError::Timeout { .. }) | StoreError::Ended
        )
    }
}

/// What the store's calls return.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;
