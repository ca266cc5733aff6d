//! [`Session`]: a connection of Turso with its prepared statements, run to their ends by the thread that calls.
//!
//! Turso's statements never wait themselves: they say that they wait for a file, for another commit or for some time, and are
//! stepped again. Its own loops ([`turso_core::Statement::run_ignore_rows`]) step at once, which takes the CPU away from
//! whoever is waited for; here the thread sleeps until it is woken.

use std::num::NonZero;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use corun_workloads::engine::TxError;
use corun_workloads::kv::End;
use turso_core::{Connection, LimboError, Numeric, Row, Statement, StepResult, Value};

use crate::sql::{self, Access, Bind, Columns, Prepare, Transactions, unexpected};

/// Longest sleep: a wake-up may come between the step that says what is waited for and the sleep.
const NAP: Duration = Duration::from_millis(1);

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
}

/// What Turso says of an error: others in the way, or anything else.
pub fn tx_error(error: LimboError) -> TxError {
    let text = format!("turso: {error}");
    match error {
        LimboError::Busy
        | LimboError::BusySnapshot
        | LimboError::TableLocked
        | LimboError::Conflict(_)
        | LimboError::WriteWriteConflict
        | LimboError::CommitDependencyAborted
        | LimboError::TxTerminated
        | LimboError::SchemaUpdated
        | LimboError::SchemaConflict => TxError::Retry(text),
        _ => TxError::Failed(text),
    }
}

impl Columns for Row {
    fn integer(&self, column: usize) -> Result<Option<i64>, TxError> {
        match self.get_value(column) {
            Value::Numeric(Numeric::Integer(integer)) => Ok(Some(*integer)),
            Value::Null => Ok(None),
            _ => Err(unexpected(column)),
        }
    }

    fn bytes(&self, column: usize) -> Result<&[u8], TxError> {
        match self.get_value(column) {
            Value::Text(text) => Ok(text.as_str().as_bytes()),
            Value::Blob(bytes) => Ok(bytes),
            _ => Err(unexpected(column)),
        }
    }
}

fn owned(value: Bind<'_>) -> Result<Value, TxError> {
    Ok(match value {
        Bind::Null => Value::Null,
        Bind::Integer(integer) => Value::from_i64(integer),
        Bind::Text(text) => Value::build_text(text.to_owned()),
        Bind::Blob(bytes) => {
            Value::from_slice(bytes).map_err(|error| TxError::Failed(format!("turso: {error}")))?
        }
    })
}

/// Runs a statement to its end, and returns how many rows it changed. To its end after the row that is wanted, too: Turso rolls
/// a transaction back whose running statement is reset.
fn run(
    statement: &mut Statement,
    values: &[Bind<'_>],
    mut each: impl FnMut(&Row) -> Result<(), TxError>,
) -> Result<usize, TxError> {
    for (place, value) in values.iter().enumerate() {
        let place = NonZero::<usize>::MIN.saturating_add(place);
        statement.bind_at(place, owned(*value)?).map_err(tx_error)?;
    }
    let ended: Result<usize, TxError> = WAKER.with(|waker| {
        loop {
            match statement.step_with_waker(waker).map_err(tx_error)? {
                StepResult::Done => return Ok(statement.n_change() as usize),
                StepResult::Row => {
                    let row = statement.row();
                    each(row.ok_or_else(|| TxError::failed("turso: a row that is not there"))?)?;
                }
                StepResult::IO => {
                    statement._io().step().map_err(tx_error)?;
                    thread::park_timeout(NAP);
                }
                StepResult::Yield => thread::yield_now(),
                StepResult::Sleep { duration } => thread::sleep(duration),
                StepResult::Busy | StepResult::Interrupt => return Err(tx_error(LimboError::Busy)),
            }
        }
    });
    let reset = statement.reset().map_err(tx_error);
    let changed = ended?;
    reset.map(|()| changed)
}

impl sql::Statement for Statement {
    type Row<'r> = Row;

    fn execute(&mut self, values: &[Bind<'_>]) -> Result<usize, TxError> {
        run(self, values, |_| Ok(()))
    }

    fn each(
        &mut self,
        values: &[Bind<'_>],
        each: impl FnMut(&Self::Row<'_>) -> Result<(), TxError>,
    ) -> Result<(), TxError> {
        run(self, values, each).map(|_| ())
    }

    fn find<T>(
        &mut self,
        values: &[Bind<'_>],
        get: impl FnOnce(&Self::Row<'_>) -> Result<T, TxError>,
    ) -> Result<Option<T>, TxError> {
        let (mut get, mut found) = (Some(get), None);
        run(self, values, |row| {
            if let Some(get) = get.take() {
                found = Some(get(row)?);
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// A connection and its statements.
pub struct Session<P> {
    // Dropped in this order: the statements before their connection.
    statements: P,
    begin: Statement,
    begin_write: Statement,
    commit: Statement,
    roll_back: Statement,
    connection: Arc<Connection>,
    /// Whether others write at the same time.
    concurrent: bool,
}

impl<P: Prepare<Statement>> Session<P> {
    /// Takes a connection over and prepares the statements. With `concurrent` others may write at the same time.
    ///
    /// # Errors
    /// Turso's: a table is missing, or it does not know the SQL.
    pub fn new(connection: Arc<Connection>, concurrent: bool) -> Result<Self, TxError> {
        let mut prepare = |sql: &str| connection.prepare(sql).map_err(tx_error);
        Ok(Self {
            statements: P::prepare(&mut prepare)?,
            begin: prepare("begin")?,
            begin_write: prepare(if concurrent {
                "begin concurrent"
            } else {
                "begin immediate"
            })?,
            commit: prepare("commit")?,
            roll_back: prepare("rollback")?,
            connection,
            concurrent,
        })
    }
}

impl<P> Session<P> {
    /// The connection, for what is no transaction of the workload.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Ends a transaction without its effects, unless Turso has done so already.
    fn roll_back(&mut self) -> Result<(), TxError> {
        if self.connection.get_auto_commit() {
            return Ok(());
        }
        run(&mut self.roll_back, &[], |_| Ok(())).map(|_| ())
    }
}

impl<P> Transactions<P> for Session<P> {
    fn run(
        &mut self,
        access: Access,
        body: &mut dyn FnMut(&mut P) -> Result<End, TxError>,
    ) -> Result<(), TxError> {
        let begin = match access {
            // A single statement is a transaction by itself. One that writes would keep all other writers out.
            Access::WriteOne if self.concurrent => &mut self.begin_write,
            Access::ReadOne | Access::WriteOne => return body(&mut self.statements).map(|_| ()),
            Access::Read => &mut self.begin,
            Access::Write => &mut self.begin_write,
        };
        run(begin, &[], |_| Ok(()))?;
        let end = body(&mut self.statements);
        let ended = match end {
            Ok(End::Commit) => run(&mut self.commit, &[], |_| Ok(())).map(|_| ()),
            Ok(End::RollBack) | Err(_) => self.roll_back(),
        };
        match (end, ended) {
            (Ok(_), Ok(())) => Ok(()),
            (Err(error), _) => Err(error),
            (Ok(_), Err(error)) => {
                // A commit that failed may still be open. Where that fails too, the next transaction cannot begin and says so.
                let _ = self.roll_back();
                Err(error)
            }
        }
    }
}
