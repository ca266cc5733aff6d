//! Turso, SQLite's file format and SQL in Rust, by its library `turso_core`.
//!
//! The library `turso` wraps it in futures, and copies every row; a thread that waits for each of its transactions needs neither.
//!
//! - [`Layout::Shared`], [`Layout::Readers`]: a write-ahead log and a single writer, as in [`crate::sqlite`] and for the same reasons.
//! - [`Layout::Concurrent`]: `journal_mode = mvcc` and `BEGIN CONCURRENT` (beta, says Turso, as is all of it): each client writes through
//!   a connection of its own, reads a snapshot, and is run again when somebody else has changed its rows. Commits share a sync.
//!
//! What commits promise:
//! - `none`: a `:memory:` database, which has a log in memory, too. All connections share it. Not `synchronous = off`: with it this
//!   version copies the whole log back at every commit once it is long enough to be copied.
//! - `async`: `synchronous = normal`: commits are written, not synced; the log is before it is copied back.
//! - `durable`: `synchronous = full`: each commit syncs the log.

pub mod session;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use corun_workloads::engine::{Durability, TxError};
use parking_lot::Mutex;
use turso_core::{ConnectOpts, Connection, Database, LimboError, Numeric, SqliteDialect, Statement, Value};

use crate::sql::{self, Engine, InTurns, Prepare, Transactions, schema};
use session::{Session, tx_error};

/// Turso running TPC-C.
pub type Tpcc = sql::Tpcc<Statement>;
/// Turso running YCSB.
pub type Ycsb = sql::Ycsb<Statement>;

/// Which connections there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One for everything.
    Shared,
    /// One for all writers, one more for each client's reads.
    Readers,
    /// One for each client.
    Concurrent,
}

/// Makes an empty TPC-C database; in `folder`, without `Durability::None`.
///
/// # Errors
/// Turso's: the folder cannot be written to, or it does not know the SQL.
pub fn tpcc(folder: &Path, durability: Durability, layout: Layout) -> Result<Tpcc, TxError> {
    let schema = [schema::TPCC, schema::TPCC_INDEXES].concat();
    Turso::create(folder, durability, layout, &schema).map(Tpcc::new)
}

/// Makes an empty YCSB database; in `folder`, without `Durability::None`.
///
/// # Errors
/// As [`tpcc`].
pub fn ycsb(folder: &Path, durability: Durability, layout: Layout) -> Result<Ycsb, TxError> {
    Turso::create(folder, durability, layout, schema::YCSB).map(Ycsb::new)
}

/// A database and the ways to it; `P` are the statements of the workload.
struct Turso<P> {
    /// The only one that writes, or the one that loads.
    writer: Mutex<Session<P>>,
    database: Arc<Database>,
    durability: Durability,
    layout: Layout,
}

impl<P: Prepare<Statement>> Turso<P> {
    fn create(folder: &Path, durability: Durability, layout: Layout, schema: &str) -> Result<Self, TxError> {
        let file = match durability {
            Durability::None => Path::new(":memory:").to_path_buf(),
            Durability::Asynchronous | Durability::Durable => folder.join("turso.db"),
        };
        let file = file
            .to_str()
            .ok_or_else(|| TxError::Failed(format!("turso: {} is no UTF-8", file.display())))?;
        let database = open(file).map_err(tx_error)?;
        let connection = connect(&database, durability).map_err(tx_error)?;
        if layout == Layout::Concurrent {
            use_versions(&connection).map_err(tx_error)?;
        }
        connection.execute(schema).map_err(tx_error)?;
        // Loads alone, so that large transactions meet no others.
        let writer = Mutex::new(Session::new(connection, false)?);
        Ok(Self {
            writer,
            database,
            durability,
            layout,
        })
    }

    fn session(&self) -> Result<Session<P>, TxError> {
        let connection = connect(&self.database, self.durability).map_err(tx_error)?;
        Session::new(connection, self.layout == Layout::Concurrent)
    }
}

fn open(file: &str) -> Result<Arc<Database>, LimboError> {
    Database::open_file(Database::io_for_path(file)?, file, Arc::new(SqliteDialect))
}

fn connect(database: &Arc<Database>, durability: Durability) -> Result<Arc<Connection>, LimboError> {
    let connection = database.connect(ConnectOpts::new())?;
    connection.set_busy_timeout(Duration::from_secs(10));
    // The cache holds the whole database. The log is copied back every 64 MiB instead of every 4, as in SQLite.
    connection.execute(
        "pragma temp_store = memory; pragma cache_size = -4000000; pragma wal_autocheckpoint = 16384;",
    )?;
    connection.execute(match durability {
        Durability::None | Durability::Asynchronous => "pragma synchronous = normal;",
        Durability::Durable => "pragma synchronous = full;",
    })?;
    Ok(connection)
}

/// Switches an empty database to many writers at once; connections opened later find it so.
fn use_versions(connection: &Arc<Connection>) -> Result<(), LimboError> {
    let mode = connection.pragma_update("journal_mode", "'mvcc'")?;
    if !matches!(mode.first().and_then(|row| row.first()), Some(Value::Text(mode)) if mode.as_str() == "mvcc")
    {
        return Err(LimboError::InternalError(format!(
            "journal_mode = mvcc gave {mode:?}"
        )));
    }
    connection.execute("pragma mvcc_checkpoint_threshold = 67108864;")
}

impl<P: Prepare<Statement> + Send> Engine<P> for Turso<P> {
    fn name(&self) -> String {
        let place = match self.durability {
            Durability::None => "memory",
            Durability::Asynchronous | Durability::Durable => "wal",
        };
        match self.layout {
            Layout::Shared => format!("turso {place}"),
            Layout::Readers => format!("turso {place}, readers apart"),
            Layout::Concurrent => format!("turso {place}, concurrent (mvcc)"),
        }
    }

    fn client(&self) -> Result<Box<dyn Transactions<P> + '_>, TxError> {
        let reader = match self.layout {
            Layout::Concurrent => return Ok(Box::new(self.session()?)),
            Layout::Readers => Some(self.session()?),
            Layout::Shared => None,
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
        let writer = self.writer.lock();
        let checkpoint = writer.connection().execute("pragma wal_checkpoint(truncate)");
        checkpoint.map_err(tx_error)
    }

    /// Bytes of all pages in use. Versions of rows are in none until they are copied back.
    fn bytes(&self) -> Option<u64> {
        let writer = self.writer.lock();
        let integer = |name| {
            let rows = writer.connection().pragma_query(name).ok()?;
            match rows.first()?.first()? {
                Value::Numeric(Numeric::Integer(integer)) => u64::try_from(*integer).ok(),
                _ => None,
            }
        };
        Some(integer("page_count")? * integer("page_size")?)
    }
}
