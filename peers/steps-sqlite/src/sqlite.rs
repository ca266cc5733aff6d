//! SQLite behind safe types: one connection and its statements belong to one user-level thread.
//!
//! Order of calls: [`setup`] once (the others do it themselves), [`Connection::memory`], [`Connection::prepare`],
//! [`Statement::bind`], [`Statement::step`] until it says [`Step::Done`], [`Statement::reset`].
//!
//! What it is not: a general binding. It has what the tenants need: integers, texts, in-memory databases.

use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use libsqlite3_sys as ffi;

use crate::{memory, mutex};

unsafe extern "C" {
    /// Closes a connection, later if statements of it are left. The crate of declarations leaves it out.
    fn sqlite3_close_v2(connection: *mut ffi::sqlite3) -> c_int;
}

/// Bytes of one lookaside block and how many a connection has: small allocations of a statement come from its own connection's
/// blocks, with no mutex and in memory no other tenant touches. Unmeasured beyond "prepare fits".
const LOOKASIDE: (c_int, c_int) = (512, 256);

/// An error of SQLite's, or of its use from a user-level thread.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SqliteError {
    /// SQLite's own code and text.
    #[error("SQLite refused {what}: {message} (code {code})")]
    Refused {
        /// What was being done.
        what: String,
        /// The extended result code.
        code: i32,
        /// SQLite's words.
        message: String,
    },
    /// SQL text with a zero byte in it.
    #[error("SQL text holds a zero byte at {at}")]
    ZeroByte {
        /// Where.
        at: usize,
    },
    /// The member's stack would not do.
    #[error(
        "{left} bytes of stack are left and SQLite may need {needed}: give members larger stacks (TeamOptions::stack_bytes)"
    )]
    Stack {
        /// Bytes left.
        left: usize,
        /// Bytes an operation may need.
        needed: usize,
    },
}

/// Sets SQLite up for user-level threads: our mutexes and allocator, no statistics of memory (they would take a global mutex
/// for each allocation). Once a process; later calls return what the first did.
///
/// # Errors
/// SQLite's code if it was in use before, or cannot initialise.
pub fn setup() -> Result<(), SqliteError> {
    static DONE: OnceLock<Result<(), SqliteError>> = OnceLock::new();
    DONE.get_or_init(|| {
        let refused = |what: &str, code: c_int| match code {
            ffi::SQLITE_OK => Ok(()),
            code => Err(SqliteError::Refused {
                what: what.to_string(),
                code,
                message: text_of(code),
            }),
        };
        let allocator = memory::METHODS;
        // SAFETY: `sqlite3_config` before initialisation, from one thread (`OnceLock`), each option with the argument it is
        // documented to take; SQLite copies the tables of functions.
        unsafe {
            refused(
                "serialized mode",
                ffi::sqlite3_config(ffi::SQLITE_CONFIG_SERIALIZED),
            )?;
            refused(
                "our mutexes",
                ffi::sqlite3_config(ffi::SQLITE_CONFIG_MUTEX, &raw const mutex::METHODS),
            )?;
            refused(
                "our allocator",
                ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const allocator),
            )?;
            refused(
                "no memory statistics",
                ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int),
            )?;
            refused("initialisation", ffi::sqlite3_initialize())
        }
    })
    .clone()
}

/// SQLite's words for a code.
fn text_of(code: c_int) -> String {
    // SAFETY: a static text for every code.
    unsafe { CStr::from_ptr(ffi::sqlite3_errstr(code)) }
        .to_string_lossy()
        .into_owned()
}

/// The version of the SQLite compiled in.
pub fn version() -> String {
    // SAFETY: a static text.
    unsafe { CStr::from_ptr(ffi::sqlite3_libversion()) }
        .to_string_lossy()
        .into_owned()
}

/// A database of its own, in memory.
#[derive(Debug)]
pub struct Connection {
    raw: NonNull<ffi::sqlite3>,
}

/// A compiled statement. It may outlive its connection: SQLite then keeps what it needs until the statement ends.
#[derive(Debug)]
pub struct Statement {
    raw: NonNull<ffi::sqlite3_stmt>,
    /// As its connection: for one user-level thread.
    not_send: PhantomData<*mut ()>,
}

/// What a step of a statement led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is a row to read.
    Row,
    /// The statement has ended.
    Done,
}

impl Connection {
    /// A new, empty database.
    ///
    /// # Errors
    /// SQLite's.
    pub fn memory() -> Result<Self, SqliteError> {
        setup()?;
        let mut raw = ptr::null_mut();
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_FULLMUTEX;
        // SAFETY: a C string, a place for the handle, and the default file system.
        let code = unsafe { ffi::sqlite3_open_v2(c":memory:".as_ptr(), &mut raw, flags, ptr::null()) };
        let Some(raw) = NonNull::new(raw) else {
            return Err(SqliteError::Refused {
                what: "a database".to_string(),
                code,
                message: text_of(code),
            });
        };
        let connection = Self { raw };
        connection.checked("a database", code)?;
        let (bytes, count) = LOOKASIDE;
        // SAFETY: the option takes a buffer or null and two integers.
        let code = unsafe {
            ffi::sqlite3_db_config(
                raw.as_ptr(),
                ffi::SQLITE_DBCONFIG_LOOKASIDE,
                ptr::null_mut::<u8>(),
                bytes,
                count,
            )
        };
        connection.checked("lookaside memory", code)?;
        Ok(connection)
    }

    fn checked(&self, what: &str, code: c_int) -> Result<(), SqliteError> {
        if matches!(code, ffi::SQLITE_OK | ffi::SQLITE_ROW | ffi::SQLITE_DONE) {
            return Ok(());
        }
        // SAFETY: an open connection; the text is copied before anything else is asked of it.
        let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(self.raw.as_ptr())) }
            .to_string_lossy()
            .into_owned();
        Err(SqliteError::Refused {
            what: what.to_string(),
            code,
            message,
        })
    }

    /// Runs statements that return no rows, or whose rows nobody wants.
    ///
    /// # Errors
    /// SQLite's, naming the statements.
    pub fn execute(&self, sql: &str) -> Result<(), SqliteError> {
        let text = CString::new(sql).map_err(|error| SqliteError::ZeroByte {
            at: error.nul_position(),
        })?;
        // SAFETY: an open connection, a C string, no callback.
        let code = unsafe {
            ffi::sqlite3_exec(
                self.raw.as_ptr(),
                text.as_ptr(),
                None,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.checked(sql, code)
    }

    /// Compiles one statement.
    ///
    /// # Errors
    /// SQLite's, naming the statement.
    pub fn prepare(&self, sql: &str) -> Result<Statement, SqliteError> {
        let length = c_int::try_from(sql.len()).map_err(|_| SqliteError::Refused {
            what: "a statement".to_string(),
            code: ffi::SQLITE_TOOBIG,
            message: text_of(ffi::SQLITE_TOOBIG),
        })?;
        let mut raw = ptr::null_mut();
        // SAFETY: an open connection, a text of that length, a place for the statement.
        let code = unsafe {
            let sql = sql.as_ptr().cast::<c_char>();
            ffi::sqlite3_prepare_v3(self.raw.as_ptr(), sql, length, 0, &mut raw, ptr::null_mut())
        };
        self.checked(sql, code)?;
        let raw = NonNull::new(raw).ok_or_else(|| SqliteError::Refused {
            what: format!("{sql:?}"),
            code: ffi::SQLITE_MISUSE,
            message: "there is no statement in it".to_string(),
        })?;
        Ok(Statement {
            raw,
            not_send: PhantomData,
        })
    }

    /// Rows the last statement changed.
    pub fn changes(&self) -> i64 {
        // SAFETY: an open connection.
        unsafe { ffi::sqlite3_changes64(self.raw.as_ptr()) }
    }

    /// The connection's handle, for tests of what a client may do to it.
    pub fn as_ptr(&self) -> *mut ffi::sqlite3 {
        self.raw.as_ptr()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: open, and not used after this; statements left keep what they need.
        unsafe { sqlite3_close_v2(self.raw.as_ptr()) };
    }
}

impl Statement {
    /// Gives the integer parameters their values, the first of them first.
    ///
    /// # Errors
    /// SQLite's: more values than parameters, or a statement that runs.
    pub fn bind(&mut self, values: &[i64]) -> Result<(), SqliteError> {
        for (number, &value) in (1..).zip(values) {
            // SAFETY: a statement that has not ended.
            let code = unsafe { ffi::sqlite3_bind_int64(self.raw.as_ptr(), number, value) };
            self.checked("a parameter", code)?;
        }
        Ok(())
    }

    /// Runs until the next row or the end.
    ///
    /// # Errors
    /// SQLite's; the statement is then to be [`reset`](Self::reset).
    #[inline]
    pub fn step(&mut self) -> Result<Step, SqliteError> {
        // SAFETY: a statement that has not ended.
        match unsafe { ffi::sqlite3_step(self.raw.as_ptr()) } {
            ffi::SQLITE_ROW => Ok(Step::Row),
            ffi::SQLITE_DONE => Ok(Step::Done),
            code => Err(self
                .checked("a step", code)
                .expect_err("neither a row nor the end")),
        }
    }

    /// An integer of the current row; zero for what is none, as SQLite converts.
    pub fn integer(&self, column: u16) -> i64 {
        // SAFETY: a statement that has not ended; a column that is not there is null.
        unsafe { ffi::sqlite3_column_int64(self.raw.as_ptr(), c_int::from(column)) }
    }

    /// A text of the current row, until the next call that changes the row; empty where there is none.
    pub fn text(&mut self, column: u16) -> &[u8] {
        let column = c_int::from(column);
        // SAFETY: a statement that has not ended. The text lives until the statement moves on, for which `self` must be borrowed
        // again; asked after the text, the length is that of the text.
        unsafe {
            let text = ffi::sqlite3_column_text(self.raw.as_ptr(), column);
            if text.is_null() {
                return &[];
            }
            let length = ffi::sqlite3_column_bytes(self.raw.as_ptr(), column);
            std::slice::from_raw_parts(text, length as usize)
        }
    }

    /// Ready to run again.
    pub fn reset(&mut self) {
        // SAFETY: a statement that has not ended. Its code repeats the last step's, which was reported.
        unsafe { ffi::sqlite3_reset(self.raw.as_ptr()) };
    }

    fn checked(&self, what: &str, code: c_int) -> Result<(), SqliteError> {
        if matches!(code, ffi::SQLITE_OK | ffi::SQLITE_ROW | ffi::SQLITE_DONE) {
            return Ok(());
        }
        // SAFETY: the connection lives as long as one of its statements; the text is copied at once.
        let message = unsafe {
            let connection = ffi::sqlite3_db_handle(self.raw.as_ptr());
            CStr::from_ptr(ffi::sqlite3_errmsg(connection))
                .to_string_lossy()
                .into_owned()
        };
        Err(SqliteError::Refused {
            what: what.to_string(),
            code,
            message,
        })
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        // SAFETY: not used after this.
        unsafe { ffi::sqlite3_finalize(self.raw.as_ptr()) };
    }
}
