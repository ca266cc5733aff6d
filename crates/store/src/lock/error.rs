//! [`LockError`]: why a transaction did not get a lock.

use super::mode::RowName;
use super::table::TableLock;
use std::fmt;
use std::time::Duration;

/// What was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockName {
    /// A row.
    Row(RowName),
    /// A table, by its number; [`TableLock::OF_A_NAME`] stands for the name of one.
    Table(u32),
    /// The right to keep an entry of this key in an index, by its number, against intervals that others read.
    Key {
        /// The index's number.
        index: u32,
        /// The first word of the encoded key.
        key: u64,
    },
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockName::Row(row) => write!(f, "row {} of table {}", row.rid, row.table),
            LockName::Table(TableLock::OF_A_NAME) => {
                write!(
                    f,
                    "the name of a table or a schema that another transaction makes, drops or renames"
                )
            }
            LockName::Table(table) => write!(f, "table {table}"),
            LockName::Key { index, key } => write!(f, "a key of index {index} that begins with {key:#x}"),
        }
    }
}

/// Who held what was waited for when the wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBy {
    /// One transaction, by the number of its slot.
    One(u32),
    /// So many transactions, each in a mode that others may share.
    Shared(u32),
    /// Nobody: the lock was being handed over to a request further ahead.
    Queue,
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeldBy::One(slot) => write!(f, "held by transaction slot {slot}"),
            HeldBy::Shared(count) => write!(f, "shared by {count} transactions"),
            HeldBy::Queue => write!(f, "promised to others ahead"),
        }
    }
}

/// Why a lock was not granted. The transaction keeps what it has; after [`LockError::Deadlock`] it must be aborted for the
/// others to go on, or go back to a savepoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// The wait took longer than allowed.
    #[error(
        "waited {waited:?} for {mode} on {what}, {by}; abort the transaction and try again, or allow longer waits"
    )]
    Timeout {
        /// What was waited for.
        what: LockName,
        /// In which mode.
        mode: &'static str,
        /// For how long.
        waited: Duration,
        /// Who held it.
        by: HeldBy,
    },
    /// The wait could not end: another transaction of the same thread has the lock exclusively.
    #[error(
        "{what} is held by transaction slot {slot} of the same thread, which would wait for itself ({mode}); end that transaction first, \
         or do all in one"
    )]
    SameThread {
        /// What would have been waited for.
        what: LockName,
        /// In which mode.
        mode: &'static str,
        /// The slot of the transaction that has it.
        slot: u32,
    },
    /// Transactions waited for each other in a circle, and this one was chosen to give way.
    #[error(
        "deadlock of {} transactions (slots {parties:?}): this one waited for {mode} on {what} and has to give way; abort it \
         and try again", parties.len()
    )]
    Deadlock {
        /// What was waited for.
        what: LockName,
        /// In which mode.
        mode: &'static str,
        /// The slots of the transactions in the circle, each waiting for the next.
        parties: Vec<u32>,
    },
    /// The transaction reached its limit of locks.
    #[error(
        "one transaction may hold {limit} locks; lock the table instead, use smaller transactions, or raise `locks_per_transaction_max`"
    )]
    TooManyLocksInTransaction {
        /// The limit.
        limit: u32,
    },
    /// All transactions together reached their limit of locks.
    #[error(
        "all transactions together may hold {limit} locks; try again later, use smaller transactions, or raise `locks_max`"
    )]
    TooManyLocks {
        /// The limit.
        limit: u64,
    },
    /// Every slot of a transaction is in use.
    #[error(
        "{limit} transaction slots are all in use; close sessions that are idle, or raise `sessions_max`"
    )]
    TooManyTransactions {
        /// The limit.
        limit: u32,
    },
}
