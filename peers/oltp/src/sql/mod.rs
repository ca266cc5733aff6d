//! TPC-C and YCSB as SQL, the same for every engine that takes SQL: the tables, the statements, and the transactions made of them.
//!
//! An engine brings its prepared statements ([`Statement`]) with their rows ([`Columns`]), connections that run transactions
//! ([`Transactions`]) and what hands them out ([`Engine`]). [`Tpcc`] and [`Ycsb`] are the workloads on top.
//!
//! Not here: how an engine is opened and configured.

pub mod schema;
mod tpcc;
mod tpcc_rows;
mod ycsb;

use corun_workloads::engine::TxError;
use corun_workloads::kv::End;
use corun_workloads::text::Text;
use parking_lot::Mutex;

pub use tpcc::{Statements as TpccStatements, Tpcc};
pub use ycsb::{Statements as YcsbStatements, Ycsb};

/// Rows of a transaction while loading.
const LOAD_BATCH: usize = 10_000;

/// A value for a parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub enum Bind<'a> {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

macro_rules! integers {
    ($($integer:ty)*) => {
        $(impl From<$integer> for Bind<'_> {
            fn from(integer: $integer) -> Self {
                Bind::Integer(i64::from(integer))
            }
        })*
    };
}
integers!(bool i8 i16 i32 i64);

impl<'a> From<&'a str> for Bind<'a> {
    fn from(text: &'a str) -> Self {
        Bind::Text(text)
    }
}

impl<'a> From<&'a [u8]> for Bind<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Bind::Blob(bytes)
    }
}

impl<'a, T: Into<Bind<'a>>> From<Option<T>> for Bind<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Bind::Null, Into::into)
    }
}

/// The values of a statement's parameters, in their order.
macro_rules! bind {
    ($($value:expr),* $(,)?) => { &[$($crate::sql::Bind::from($value)),*] };
}
pub(crate) use bind;

/// The columns of a row, numbered from 0.
pub trait Columns {
    /// An integer, or NULL.
    ///
    /// # Errors
    /// The column holds something else; so in the other methods.
    fn integer(&self, column: usize) -> Result<Option<i64>, TxError>;

    /// A text's bytes, or a blob.
    ///
    /// # Errors
    /// See [`Columns::integer`].
    fn bytes(&self, column: usize) -> Result<&[u8], TxError>;

    /// An integer of the wanted type.
    ///
    /// # Errors
    /// See [`Columns::integer`].
    fn get<T: TryFrom<i64>>(&self, column: usize) -> Result<T, TxError> {
        self.get_or_null(column)?.ok_or_else(|| unexpected(column))
    }

    /// An integer of the wanted type, or NULL.
    ///
    /// # Errors
    /// See [`Columns::integer`].
    fn get_or_null<T: TryFrom<i64>>(&self, column: usize) -> Result<Option<T>, TxError> {
        match self.integer(column)? {
            Some(integer) => T::try_from(integer).map(Some).map_err(|_| unexpected(column)),
            None => Ok(None),
        }
    }

    /// A text.
    ///
    /// # Errors
    /// See [`Columns::integer`].
    fn text<const MAX: usize>(&self, column: usize) -> Result<Text<MAX>, TxError> {
        Ok(Text::from_bytes(self.bytes(column)?)?)
    }
}

/// A column holds what was never put there.
pub(crate) fn unexpected(column: usize) -> TxError {
    TxError::Failed(format!(
        "sql: column {column} of a row holds a value of another type"
    ))
}

/// A prepared statement of an engine. Each method binds all parameters, and leaves the statement ready for the next call.
pub trait Statement {
    /// A row of its result.
    type Row<'r>: Columns;

    /// Runs what returns no rows, and returns how many rows it changed.
    ///
    /// # Errors
    /// The engine's; so in the other methods.
    fn execute(&mut self, values: &[Bind<'_>]) -> Result<usize, TxError>;

    /// Calls `each` with every row, in their order.
    ///
    /// # Errors
    /// The engine's or those of `each`.
    fn each(
        &mut self,
        values: &[Bind<'_>],
        each: impl FnMut(&Self::Row<'_>) -> Result<(), TxError>,
    ) -> Result<(), TxError>;

    /// What `get` makes of the first row, if there is one.
    ///
    /// # Errors
    /// The engine's or those of `get`.
    fn find<T>(
        &mut self,
        values: &[Bind<'_>],
        get: impl FnOnce(&Self::Row<'_>) -> Result<T, TxError>,
    ) -> Result<Option<T>, TxError>;

    /// What `get` makes of the first row, which there must be.
    ///
    /// # Errors
    /// The engine's or those of `get`, or there is no row.
    fn one<T>(
        &mut self,
        values: &[Bind<'_>],
        get: impl FnOnce(&Self::Row<'_>) -> Result<T, TxError>,
    ) -> Result<T, TxError> {
        self.find(values, get)?
            .ok_or_else(|| TxError::failed("sql: no row where there must be one"))
    }
}

/// A set of prepared statements.
pub trait Prepare<S>: Sized {
    /// Prepares all of them.
    ///
    /// # Errors
    /// Those of `prepare`: a table is missing.
    fn prepare(prepare: &mut dyn FnMut(&str) -> Result<S, TxError>) -> Result<Self, TxError>;
}

/// Declares a struct of prepared statements, one field for each.
macro_rules! statements {
    ($(#[$doc:meta])* $name:ident { $($field:ident = $sql:expr;)* }) => {
        $(#[$doc])*
        pub struct $name<S> { $(pub(super) $field: S,)* }
        impl<S> $crate::sql::Prepare<S> for $name<S> {
            fn prepare(
                prepare: &mut dyn FnMut(&str) -> Result<S, corun_workloads::engine::TxError>,
            ) -> Result<Self, corun_workloads::engine::TxError> {
                Ok(Self { $($field: prepare($sql)?,)* })
            }
        }
    };
}
pub(crate) use statements;

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads one state in several statements.
    Read,
    /// Reads in a single statement.
    ReadOne,
    /// Writes in several statements.
    Write,
    /// Writes in a single statement.
    WriteOne,
}

impl Access {
    /// Whether it only reads.
    pub fn reads(self) -> bool {
        matches!(self, Access::Read | Access::ReadOne)
    }
}

/// A connection with the statements `P` of a workload.
pub trait Transactions<P> {
    /// Runs a transaction, which ends as `body` says; an error rolls it back. `body` is called once.
    ///
    /// # Errors
    /// The body's or the engine's.
    fn run(
        &mut self,
        access: Access,
        body: &mut dyn FnMut(&mut P) -> Result<End, TxError>,
    ) -> Result<(), TxError>;
}

/// A connection for all writers, which take turns, and maybe one more for what its owner reads.
pub struct InTurns<'e, C> {
    /// The only connection that writes.
    pub writer: &'e Mutex<C>,
    /// Reads, if there is one.
    pub reader: Option<C>,
}

impl<P, C: Transactions<P>> Transactions<P> for InTurns<'_, C> {
    fn run(
        &mut self,
        access: Access,
        body: &mut dyn FnMut(&mut P) -> Result<End, TxError>,
    ) -> Result<(), TxError> {
        match &mut self.reader {
            Some(reader) if access.reads() => reader.run(access, body),
            _ => self.writer.lock().run(access, body),
        }
    }
}

/// An open database and the ways to it.
pub trait Engine<P>: Send + Sync {
    /// Its name and configuration, for reports.
    fn name(&self) -> String;

    /// A client's way.
    ///
    /// # Errors
    /// The engine's: there is no room for another connection.
    fn client(&self) -> Result<Box<dyn Transactions<P> + '_>, TxError>;

    /// The way in which data are loaded, and looked at when all clients are gone.
    fn loader(&self) -> Box<dyn Transactions<P> + '_>;

    /// Writes a log back, so that the run begins with an empty one.
    ///
    /// # Errors
    /// The engine's.
    fn loaded(&self) -> Result<(), TxError>;

    /// Bytes the data take, if the engine tells.
    fn bytes(&self) -> Option<u64>;
}

/// A client of a workload.
struct Client<'e, P>(Box<dyn Transactions<P> + 'e>);

impl<P> Client<'_, P> {
    fn run<T>(
        &mut self,
        access: Access,
        body: impl FnOnce(&mut P) -> Result<(T, End), TxError>,
    ) -> Result<T, TxError> {
        let mut body = Some(body);
        let mut answer = None;
        self.0.run(access, &mut |statements| {
            let body = body
                .take()
                .ok_or_else(|| TxError::failed("sql: a transaction was begun twice"))?;
            let (value, end) = body(statements)?;
            answer = Some(value);
            Ok(end)
        })?;
        answer.ok_or_else(|| TxError::failed("sql: a transaction was not run"))
    }

    /// A transaction of several statements that writes.
    fn write<T>(&mut self, body: impl FnOnce(&mut P) -> Result<(T, End), TxError>) -> Result<T, TxError> {
        self.run(Access::Write, body)
    }

    /// A transaction of several statements that only reads.
    fn read<T>(&mut self, body: impl FnOnce(&mut P) -> Result<T, TxError>) -> Result<T, TxError> {
        self.run(Access::Read, |statements| Ok((body(statements)?, End::Commit)))
    }

    /// A transaction of one statement that writes.
    fn write_one<T>(&mut self, body: impl FnOnce(&mut P) -> Result<T, TxError>) -> Result<T, TxError> {
        self.run(Access::WriteOne, |statements| {
            Ok((body(statements)?, End::Commit))
        })
    }

    /// A transaction of one statement that reads.
    fn read_one<T>(&mut self, body: impl FnOnce(&mut P) -> Result<T, TxError>) -> Result<T, TxError> {
        self.run(Access::ReadOne, |statements| Ok((body(statements)?, End::Commit)))
    }
}

/// Puts a part of the data in.
fn load<P, T>(
    engine: &dyn Engine<P>,
    part: &mut dyn Iterator<Item = T>,
    mut insert: impl FnMut(&mut P, T) -> Result<(), TxError>,
) -> Result<(), TxError> {
    let mut part = part.peekable();
    while part.peek().is_some() {
        Client(engine.loader()).write(|statements| {
            for item in part.by_ref().take(LOAD_BATCH) {
                insert(statements, item)?;
            }
            Ok(((), End::Commit))
        })?;
    }
    engine.loaded()
}
