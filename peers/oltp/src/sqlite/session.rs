//! [`Session`]: a connection together with its prepared statements, as one thing that threads may hand around.
//!
//! Order of calls: [`configure`] once, before the first connection of the process; [`open`], the schema, [`Session::new`].
//! `rusqlite` lets a statement borrow its connection and so keeps the two from moving together; its own cache of statements would do,
//! at the price of hashing the SQL text for each of the 60 statements of a transaction.

use std::path::Path;
use std::ptr::NonNull;
use std::sync::Once;

use corun_workloads::engine::{Durability, TxError};
use corun_workloads::kv::End;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, Statement};

use crate::sql::{self, Access, Bind, Columns, Prepare, Transactions, unexpected};

impl ToSql for Bind<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Bind::Null => ValueRef::Null,
            Bind::Integer(integer) => ValueRef::Integer(integer),
            Bind::Text(text) => ValueRef::Text(text.as_bytes()),
            Bind::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl Columns for Row<'_> {
    fn integer(&self, column: usize) -> Result<Option<i64>, TxError> {
        match self.get_ref(column).map_err(tx_error)? {
            ValueRef::Integer(integer) => Ok(Some(integer)),
            ValueRef::Null => Ok(None),
            _ => Err(unexpected(column)),
        }
    }

    fn bytes(&self, column: usize) -> Result<&[u8], TxError> {
        match self.get_ref(column).map_err(tx_error)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(bytes),
            _ => Err(unexpected(column)),
        }
    }
}

fn bind(statement: &mut Statement<'_>, values: &[Bind<'_>]) -> Result<(), TxError> {
    for (place, value) in (1usize..).zip(values) {
        statement.raw_bind_parameter(place, *value).map_err(tx_error)?;
    }
    Ok(())
}

impl sql::Statement for Statement<'static> {
    type Row<'r> = Row<'r>;

    fn execute(&mut self, values: &[Bind<'_>]) -> Result<usize, TxError> {
        bind(self, values)?;
        self.raw_execute().map_err(tx_error)
    }

    fn each(
        &mut self,
        values: &[Bind<'_>],
        mut each: impl FnMut(&Self::Row<'_>) -> Result<(), TxError>,
    ) -> Result<(), TxError> {
        bind(self, values)?;
        let mut rows = self.raw_query();
        while let Some(row) = rows.next().map_err(tx_error)? {
            each(row)?;
        }
        Ok(())
    }

    fn find<T>(
        &mut self,
        values: &[Bind<'_>],
        get: impl FnOnce(&Self::Row<'_>) -> Result<T, TxError>,
    ) -> Result<Option<T>, TxError> {
        bind(self, values)?;
        // Not stepped to its end: dropping the rows resets the statement.
        let mut rows = self.raw_query();
        let row = rows.next().map_err(tx_error)?;
        row.map(get).transpose()
    }
}

/// What SQLite says of an error: others in the way, or anything else.
pub fn tx_error(error: rusqlite::Error) -> TxError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            TxError::Retry(format!("sqlite: {error}"))
        }
        _ => TxError::Failed(format!("sqlite: {error}")),
    }
}

/// Switches SQLite's memory statistics off, which cost a process-wide mutex at every allocation. Does nothing the second time.
pub fn configure() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `sqlite3_config` is to be called before SQLite is initialised and by one thread: every connection of this program
        // is opened by `open`, after this, and `Once` makes others wait. The option takes one int. A refusal changes nothing.
        unsafe { rusqlite::ffi::sqlite3_config(rusqlite::ffi::SQLITE_CONFIG_MEMSTATUS, 0i32) };
    });
}

/// Opens a database, in memory without a file.
///
/// # Errors
/// SQLite's.
pub fn open(file: Option<&Path>, durability: Durability, exclusive: bool) -> rusqlite::Result<Connection> {
    configure();
    // No mutex inside SQLite: a session is used by one thread at a time.
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let Some(file) = file else {
        let connection = Connection::open_in_memory_with_flags(flags)?;
        connection.execute_batch("pragma temp_store = memory; pragma synchronous = off;")?;
        return Ok(connection);
    };
    let connection = Connection::open_with_flags(file, flags)?;
    // Cache and map hold the whole database. The log is copied back every 64 MiB instead of every 4: with the small one, a twentieth
    // of the transactions would wait for it.
    connection.execute_batch(if exclusive {
        "pragma locking_mode = exclusive;"
    } else {
        "pragma locking_mode = normal; pragma busy_timeout = 10000;"
    })?;
    connection.execute_batch(
        "pragma journal_mode = wal; pragma temp_store = memory; pragma cache_size = -4000000; pragma mmap_size = 16000000000;
         pragma wal_autocheckpoint = 16384; pragma journal_size_limit = -1;",
    )?;
    connection.execute_batch(match durability {
        Durability::None => "pragma synchronous = off;",
        Durability::Asynchronous => "pragma synchronous = normal;",
        Durability::Durable => "pragma synchronous = full;",
    })?;
    Ok(connection)
}

/// A connection and its statements.
pub struct Session<P> {
    /// `None` only while it is dropped. Borrows from `connection`.
    statements: Option<(P, [Statement<'static>; 4])>,
    /// Made by `Box::into_raw`, freed after `statements`.
    connection: NonNull<Connection>,
}

// SAFETY: What keeps a connection and its statements from being sent is that they refer to each other without synchronisation. Here
// all of them travel together: no reference to the connection leaves the session. SQLite itself, opened without its mutex, allows
// a connection to be used by any thread, one at a time.
unsafe impl<P> Send for Session<P> {}

impl<P: Prepare<Statement<'static>>> Session<P> {
    /// Takes a connection over and prepares the statements.
    ///
    /// # Errors
    /// SQLite's: a table is missing.
    pub fn new(connection: Connection) -> Result<Self, TxError> {
        let mut session = Self {
            statements: None,
            connection: NonNull::from(Box::leak(Box::new(connection))),
        };
        // SAFETY: the pointer comes from a box that is freed in `drop`, after the statements; it is never used to make a `&mut`.
        let borrowed: &'static Connection = unsafe { session.connection.as_ref() };
        let mut prepare = |sql: &str| borrowed.prepare(sql).map_err(tx_error);
        let control = [
            prepare("begin immediate")?,
            prepare("begin")?,
            prepare("commit")?,
            prepare("rollback")?,
        ];
        session.statements = Some((P::prepare(&mut prepare)?, control));
        Ok(session)
    }

    /// The connection, for what is no transaction of the workload.
    pub fn connection(&self) -> &Connection {
        // SAFETY: as in `new`; the borrow ends before the session does.
        unsafe { self.connection.as_ref() }
    }
}

impl<P> Transactions<P> for Session<P> {
    fn run(
        &mut self,
        access: Access,
        body: &mut dyn FnMut(&mut P) -> Result<End, TxError>,
    ) -> Result<(), TxError> {
        let Some((statements, [begin_immediate, begin, commit, roll_back])) = &mut self.statements else {
            return Err(TxError::failed("sqlite: the session has been closed"));
        };
        let begin = match access {
            // A single statement is a transaction by itself.
            Access::ReadOne | Access::WriteOne => return body(statements).map(|_| ()),
            Access::Read => begin,
            // Takes the write lock at once: taking it later, after reads, could fail for good.
            Access::Write => begin_immediate,
        };
        begin.execute(()).map_err(tx_error)?;
        let end = body(statements);
        let ended = match end {
            Ok(End::Commit) => commit.execute(()).map_err(tx_error),
            Ok(End::RollBack) | Err(_) => roll_back.execute(()).map_err(tx_error),
        };
        match (end, ended) {
            (Ok(_), Ok(_)) => Ok(()),
            (Err(error), _) => Err(error),
            (Ok(_), Err(error)) => {
                // A commit that failed is still open; where SQLite has closed it already, this is an error without effect.
                let _ = roll_back.execute(());
                Err(error)
            }
        }
    }
}

impl<P> Drop for Session<P> {
    fn drop(&mut self) {
        self.statements = None;
        // SAFETY: the pointer was made from a box in `new`, is freed here only, and the statements that borrowed from it are gone.
        drop(unsafe { Box::from_raw(self.connection.as_ptr()) });
    }
}
