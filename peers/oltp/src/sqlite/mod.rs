//! SQLite, configured as somebody would who knows it and wants the most transactions from two cores.
//!
//! One connection behind a mutex serves all clients ([`Layout::Shared`]), or serves the writers while each client reads through a
//! connection of its own ([`Layout::Readers`]). A connection for each writer is the usual way and the slower one: SQLite has a single
//! writer anyway, and every commit of another connection throws a connection's page cache away. The mutex in front hands the turn
//! over without SQLite's sleeping retries.
//!
//! - `none`: a `:memory:` database. It belongs to one connection; the `memdb` file system and the shared cache, which would let
//!   several in, lock whole tables or the whole database and copy pages.
//! - `async`: a file, write-ahead log, `synchronous = normal`: commits are written, not synced; checkpoints are.
//!   `synchronous = off` would save a tenth of the work, and a power failure during a checkpoint could damage the database.
//! - `durable`: the same with `synchronous = full`: each commit syncs the log.

pub mod session;

use std::path::{Path, PathBuf};

use corun_workloads::engine::{Durability, TxError};
use parking_lot::Mutex;
use rusqlite::Statement;

use crate::sql::{self, Engine, InTurns, Prepare, Transactions, schema};
use session::{Session, tx_error};

/// SQLite running TPC-C.
pub type Tpcc = sql::Tpcc<Statement<'static>>;
/// SQLite running YCSB.
pub type Ycsb = sql::Ycsb<Statement<'static>>;

/// Which connections there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One for everything.
    Shared,
    /// One for all writers, one more for each client's reads. Needs a file.
    Readers,
}

/// Makes an empty TPC-C database; in `folder`, without `Durability::None`.
///
/// # Errors
/// SQLite's: the folder cannot be written to, or holds such a database.
pub fn tpcc(folder: &Path, durability: Durability, layout: Layout) -> Result<Tpcc, TxError> {
    let schema = [schema::TPCC, schema::TPCC_INDEXES].concat();
    Sqlite::create(folder, durability, layout, &schema).map(Tpcc::new)
}

/// Makes an empty YCSB database; in `folder`, without `Durability::None`.
///
/// # Errors
/// As [`tpcc`].
pub fn ycsb(folder: &Path, durability: Durability, layout: Layout) -> Result<Ycsb, TxError> {
    Sqlite::create(folder, durability, layout, schema::YCSB).map(Ycsb::new)
}

/// A database and the way to it; `P` are the statements of the workload.
struct Sqlite<P> {
    file: Option<PathBuf>,
    durability: Durability,
    layout: Layout,
    /// The only one that writes.
    writer: Mutex<Session<P>>,
}

impl<P: Prepare<Statement<'static>>> Sqlite<P> {
    fn create(folder: &Path, durability: Durability, layout: Layout, schema: &str) -> Result<Self, TxError> {
        let in_memory = durability == Durability::None && layout == Layout::Shared;
        let file = (!in_memory).then(|| folder.join("sqlite.db"));
        let connection =
            session::open(file.as_deref(), durability, layout == Layout::Shared).map_err(tx_error)?;
        connection.execute_batch(schema).map_err(tx_error)?;
        let writer = Mutex::new(Session::new(connection)?);
        Ok(Self {
            file,
            durability,
            layout,
            writer,
        })
    }
}

impl<P: Prepare<Statement<'static>>> Engine<P> for Sqlite<P> {
    fn name(&self) -> String {
        let place = if self.file.is_some() { "wal" } else { "memory" };
        match self.layout {
            Layout::Shared => format!("sqlite {place}"),
            Layout::Readers => format!("sqlite {place}, readers apart"),
        }
    }

    fn client(&self) -> Result<Box<dyn Transactions<P> + '_>, TxError> {
        let reader = match self.layout {
            Layout::Shared => None,
            Layout::Readers => {
                let connection =
                    session::open(self.file.as_deref(), self.durability, false).map_err(tx_error)?;
                Some(Session::new(connection)?)
            }
        };
        Ok(Box::new(InTurns {
            writer: &self.writer,
            reader,
        }))
    }

    fn loader(&self) -> Box<dyn Transactions<P> + '_> {
        Box::new(InTurns {
            writer: &self.writer,
            reader: None,
        })
    }

    fn loaded(&self) -> Result<(), TxError> {
        if self.file.is_none() {
            return Ok(());
        }
        let writer = self.writer.lock();
        writer
            .connection()
            .query_row("pragma wal_checkpoint(restart)", (), |_| Ok(()))
            .map_err(tx_error)
    }

    /// Bytes of all pages in use.
    fn bytes(&self) -> Option<u64> {
        let writer = self.writer.lock();
        let integer = |sql| {
            writer
                .connection()
                .query_row(sql, (), |row| row.get::<_, i64>(0))
                .ok()
        };
        Some((integer("pragma page_count")? * integer("pragma page_size")?) as u64)
    }
}

/// The version of the SQLite in this program.
pub fn version() -> &'static str {
    rusqlite::version()
}
