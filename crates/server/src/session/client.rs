//! [`ClientSession`]: one client.

use super::cancel::CancelHandle;
use corun_wire::TransactionStatus;
use corun_wire::error::{Refusal, code};
use corun_wire::server::{Column, ResultFormats};
use corun_wire::values::{Format, Type};
use std::net::IpAddr;
use std::sync::Arc;

/// Who a client is.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The user that has logged in.
    pub user: String,
    /// The catalog that it wants; empty: one named as the user, or else the first.
    pub database: String,
    /// The session's number.
    pub pid: u32,
    /// Where from; `None` over a Unix socket.
    pub address: Option<IpAddr>,
    /// Settings of the startup packet: `application_name`, `client_encoding`, those in `options`, ...
    pub options: Vec<(String, String)>,
}

/// The client has gone: nothing more can be sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// Where rows go.
pub trait Sink: Send {
    /// Takes whole messages, about 64 KiB of them, and waits where the client is slow.
    fn chunk(&mut self, bytes: Vec<u8>) -> impl Future<Output = Result<(), Gone>> + Send;
}

/// What else the client, or the state machine of its connection, has to hear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A NoticeResponse.
    Notice(Refusal),
    /// A WARNING.
    Warning(Refusal),
    /// A ParameterStatus.
    Changed(String, String),
    /// `DEALLOCATE name` of a statement of the protocol.
    Deallocate(String),
    /// `DEALLOCATE ALL`.
    DeallocateAll,
}

/// How far a portal was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ran {
    /// To its end; the tag of CommandComplete.
    Complete(String),
    /// To as many rows as were wanted; there may be more.
    Suspended,
    /// The statement's text was empty.
    Empty,
}

/// A statement of a text.
#[derive(Debug, Clone)]
pub struct Parsed {}

/// A statement that is ready to be bound.
#[derive(Debug)]
pub struct Prepared {
    /// The types of its parameters.
    pub parameters: Vec<Type>,
    /// The columns of its result; `None`: it returns no rows.
    pub columns: Option<Vec<Column>>,
}

/// A statement with its parameters, and how far it was run. Dropping it ends what runs.
pub struct Portal {}

/// One client.
pub struct ClientSession {
    cancel: CancelHandle,
}

impl ClientSession {
    /// The statements of a text: all are parsed before the first runs.
    ///
    /// # Errors
    /// A text that is not SQL, with the place.
    pub fn split(&self, sql: &str) -> Result<Vec<Parsed>, Refusal> {
        _ = sql;
        Err(Refusal::new(code::NOT_SUPPORTED, "not yet"))
    }

    /// The only statement of a text of a Parse; an empty text is one, too.
    ///
    /// # Errors
    /// A text that is not SQL; several statements.
    pub fn one(&self, sql: &str) -> Result<Parsed, Refusal> {
        _ = sql;
        Err(Refusal::new(code::NOT_SUPPORTED, "not yet"))
    }

    /// Plans a statement. `types` are those that the client gives for the first parameters (0: none), as in a Parse.
    ///
    /// # Errors
    /// Whatever is wrong with the statement; a transaction that failed.
    pub async fn prepare(&mut self, statement: Parsed, types: &[u32]) -> Result<Arc<Prepared>, Refusal> {
        _ = (statement, types);
        Err(Refusal::new(code::NOT_SUPPORTED, "not yet"))
    }

    /// Gives a statement its parameters, as they come in a Bind (`Bind::parameters`).
    ///
    /// # Errors
    /// A parameter that cannot be read.
    pub fn bind<'v>(
        &mut self,
        of: &Arc<Prepared>,
        parameters: impl Iterator<Item = (Format, Option<&'v [u8]>)>,
    ) -> Result<Portal, Refusal> {
        _ = (of, parameters.count());
        Err(Refusal::new(code::NOT_SUPPORTED, "not yet"))
    }

    /// Runs a portal: DataRow messages (or all of a COPY) go to the sink.
    ///
    /// # Errors
    /// Whatever fails; 57014 when cancelled.
    pub async fn run(
        &mut self,
        portal: &mut Portal,
        formats: &ResultFormats,
        rows_max: Option<u32>,
        sink: &mut impl Sink,
    ) -> Result<Ran, Refusal> {
        _ = (portal, formats, rows_max, sink);
        Err(Refusal::new(code::NOT_SUPPORTED, "not yet"))
    }

    /// Runs the text of a simple query and writes everything but errors, effects and ReadyForQuery.
    ///
    /// # Errors
    /// That of the statement that fails; those before it have run.
    pub async fn simple(&mut self, sql: &str, sink: &mut impl Sink) -> Result<(), Refusal> {
        _ = (sql, sink);
        Err(Refusal::new(code::NOT_SUPPORTED, "not yet"))
    }

    /// The transaction, for `Session::set_transaction`.
    pub fn transaction(&self) -> TransactionStatus {
        TransactionStatus::Idle
    }

    /// Something outside failed (a portal that is not there, a message that is none): an open transaction has failed.
    pub fn fail_transaction(&mut self) {}

    /// Ends the transaction of a pipeline.
    ///
    /// # Errors
    /// None that is known.
    pub async fn end_pipeline(&mut self, commit: bool) -> Result<(), Refusal> {
        _ = commit;
        Ok(())
    }

    /// What there is to tell since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        Vec::new()
    }

    /// Settings that clients are told when they begin (ParameterStatus).
    pub fn reported(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// What cancels the statement that runs.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }
}
