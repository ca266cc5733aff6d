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

pub mod schema;
pub mod session;
mod tpcc;
mod tpcc_rows;
mod ycsb;

use std::path::{Path, PathBuf};

use corun_workloads::engine::{Durability, TxError};
use corun_workloads::kv::End;
use parking_lot::Mutex;

pub use tpcc::Tpcc;
pub use ycsb::Ycsb;

use session::{Access, Prepare, Session, tx_error};

/// Which connections there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One for everything.
    Shared,
    /// One for all writers, one more for each client's reads. Needs a file.
    Readers,
}

/// A database and the way to it; `P` are the statements of the workload.
pub struct Sqlite<P> {
    file: Option<PathBuf>,
    durability: Durability,
    layout: Layout,
    /// The only one that writes.
    writer: Mutex<Session<P>>,
}

impl<P: Prepare> Sqlite<P> {
    /// Makes an empty database with the tables of `schema`; in `folder`, without `Durability::None`.
    ///
    /// # Errors
    /// SQLite's: the folder cannot be written to, or holds such a database.
    pub fn create(
        folder: &Path,
        durability: Durability,
        layout: Layout,
        schema: &str,
    ) -> Result<Self, TxError> {
        let in_memory = durability == Durability::None && layout == Layout::Shared;
        let file = (!in_memory).then(|| folder.join("sqlite.db"));
        let connection =
            session::open(file.as_deref(), durability, layout == Layout::Shared).map_err(tx_error)?;
        schema::create(&connection, schema).map_err(tx_error)?;
        let writer = Mutex::new(Session::new(connection).map_err(tx_error)?);
        Ok(Self {
            file,
            durability,
            layout,
            writer,
        })
    }

    fn name(&self) -> String {
        let place = if self.file.is_some() { "wal" } else { "memory" };
        match self.layout {
            Layout::Shared => format!("sqlite {place}"),
            Layout::Readers => format!("sqlite {place}, readers apart"),
        }
    }

    /// A client with its connection, if it gets one.
    fn connect(&self) -> Result<Client<'_, P>, TxError> {
        let reader = match self.layout {
            Layout::Shared => None,
            Layout::Readers => {
                let connection =
                    session::open(self.file.as_deref(), self.durability, false).map_err(tx_error)?;
                Some(Session::new(connection).map_err(tx_error)?)
            }
        };
        Ok(Client {
            database: self,
            reader,
        })
    }

    /// Puts items in, 10,000 a transaction, then copies the log back so that the run begins with an empty one.
    fn load_with<T>(
        &self,
        part: &mut dyn Iterator<Item = T>,
        mut insert: impl FnMut(&mut P, T) -> Result<(), TxError>,
    ) -> Result<(), TxError> {
        let mut part = part.peekable();
        while part.peek().is_some() {
            self.writer.lock().transaction(Access::Write, |statements| {
                for item in part.by_ref().take(10_000) {
                    insert(statements, item)?;
                }
                Ok(((), End::Commit))
            })?;
        }
        if self.file.is_some() {
            let writer = self.writer.lock();
            writer
                .connection()
                .query_row("pragma wal_checkpoint(restart)", (), |_| Ok(()))
                .map_err(tx_error)?;
        }
        Ok(())
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

/// A client of either workload.
struct Client<'e, P> {
    database: &'e Sqlite<P>,
    /// With [`Layout::Readers`].
    reader: Option<Session<P>>,
}

impl<P: Prepare> Client<'_, P> {
    /// A transaction that may write.
    fn write<T>(&self, body: impl FnOnce(&mut P) -> Result<(T, End), TxError>) -> Result<T, TxError> {
        self.database.writer.lock().transaction(Access::Write, body)
    }

    /// A transaction of several statements that only reads.
    fn read<T>(&mut self, body: impl FnOnce(&mut P) -> Result<T, TxError>) -> Result<T, TxError> {
        let body = |statements: &mut P| Ok((body(statements)?, End::Commit));
        match &mut self.reader {
            Some(reader) => reader.transaction(Access::Read, body),
            None => self.database.writer.lock().transaction(Access::Read, body),
        }
    }

    /// A transaction of one statement that reads.
    fn read_statement<T>(&mut self, body: impl FnOnce(&mut P) -> Result<T, TxError>) -> Result<T, TxError> {
        match &mut self.reader {
            Some(reader) => reader.statement(body),
            None => self.database.writer.lock().statement(body),
        }
    }

    /// A transaction of one statement that writes.
    fn write_statement<T>(&self, body: impl FnOnce(&mut P) -> Result<T, TxError>) -> Result<T, TxError> {
        self.database.writer.lock().statement(body)
    }
}

/// The version of the SQLite in this program.
pub fn version() -> &'static str {
    rusqlite::version()
}
