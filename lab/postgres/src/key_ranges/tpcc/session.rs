//! [`Session`]: a terminal's connection, with statements that are prepared when they are first asked.

use corun_workloads::engine::TxError;

use super::rows::Columns;
use crate::fixture::address::Address;
use crate::fixture::answer::Answer;
use crate::fixture::client::Client;
use lab_core::error::BenchError;

/// A statement: its name and its text.
pub type Statement = (&'static str, &'static str);

/// What a transaction may be tried again after: serialization failures and deadlocks.
const RETRIED: [&str; 2] = ["40001", "40P01"];

/// A connection.
pub struct Session {
    client: Client,
    /// Names of statements that are prepared.
    prepared: Vec<&'static str>,
}

/// An error of the connection.
pub fn broken(error: BenchError) -> TxError {
    TxError::failed(error.in_one_line())
}

/// An answer without an error.
fn accepted(answer: Answer) -> Result<Answer, TxError> {
    match &answer.error {
        None => Ok(answer),
        Some((state, words)) if RETRIED.contains(&state.as_str()) => {
            Err(TxError::Retry(format!("{words} ({state})")))
        }
        Some((state, words)) => Err(TxError::failed(format!("{words} ({state})"))),
    }
}

impl Session {
    /// Logs in.
    pub fn new(address: &Address) -> Result<Session, TxError> {
        Ok(Session {
            client: Client::connect(address, crate::key_ranges::PATIENCE).map_err(broken)?,
            prepared: Vec::new(),
        })
    }

    /// Runs a statement, and gives its rows.
    pub fn rows(
        &mut self,
        (name, sql): Statement,
        values: &[String],
    ) -> Result<Vec<Vec<Option<String>>>, TxError> {
        if !self.prepared.contains(&name) {
            self.client.prepare(name, sql).map_err(broken)?;
            self.prepared.push(name);
        }
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let answer = self.client.execute(name, &values).map_err(broken)?;
        Ok(accepted(answer)?.rows)
    }

    /// Runs a statement that gives one row at most, and reads it.
    pub fn maybe<T>(
        &mut self,
        statement: Statement,
        values: &[String],
        read: impl FnOnce(&mut Columns<'_>) -> Result<T, TxError>,
    ) -> Result<Option<T>, TxError> {
        let rows = self.rows(statement, values)?;
        rows.first().map(|row| read(&mut Columns::of(row))).transpose()
    }

    /// Runs a statement that gives a row, and reads it.
    ///
    /// # Errors
    /// When it fails, or gives none.
    pub fn one<T>(
        &mut self,
        statement: Statement,
        values: &[String],
        read: impl FnOnce(&mut Columns<'_>) -> Result<T, TxError>,
    ) -> Result<T, TxError> {
        let found = self.maybe(statement, values, read)?;
        found.ok_or_else(|| TxError::failed(format!("{} found no row for {values:?}", statement.0)))
    }

    /// Runs a transaction: begins, does what `body` says, and commits where it says true beside its answer; otherwise, and after an error,
    /// nothing of it remains.
    ///
    /// # Errors
    /// Those of `body`, and of the commit.
    pub fn transaction<T>(
        &mut self,
        body: impl FnOnce(&mut Session) -> Result<(T, bool), TxError>,
    ) -> Result<T, TxError> {
        self.plain("begin")?;
        match body(self) {
            Ok((answer, commits)) => {
                self.plain(if commits { "commit" } else { "rollback" })?;
                Ok(answer)
            }
            Err(error) => {
                // What went wrong before says more than a rollback on a broken connection.
                let _ = self.plain("rollback");
                Err(error)
            }
        }
    }

    fn plain(&mut self, sql: &str) -> Result<(), TxError> {
        let answer = self.client.simple(sql).map_err(broken)?;
        accepted(answer).map(drop)
    }
}
