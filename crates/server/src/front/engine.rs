//! [`SqlEngine`] and [`SqlSession`]: what the front needs of whoever runs statements; [`crate::session`] is it, and tests have another.

use std::sync::Arc;

use corun_wire::TransactionStatus;
use corun_wire::error::{Refusal, code};
use corun_wire::server::{Column, ResultFormats};
use corun_wire::values::{Format, Type};

use crate::session::{
    ClientSession, CopyDone, CopyWanted, Effect, Engine, Identity, Portal, Prepared, Ran, Sink,
};

/// Makes sessions. Clones are the same engine.
pub trait SqlEngine: Clone + Send + Sync + 'static {
    /// What it makes.
    type Session: SqlSession;

    /// A session for a client. Called on a thread of the runtime.
    ///
    /// # Errors
    /// What the client is told: no such database, a setting that there is not.
    fn session(&self, who: Identity) -> Result<Self::Session, Refusal>;

    /// The database that a client of this user gets which asks for this one; empty: for none. Rules of who gets in are asked about it.
    fn database(&self, user: &str, asked: &str) -> String {
        match asked {
            "" => user.to_owned(),
            asked => asked.to_owned(),
        }
    }

    /// Where the futures of its sessions are polled.
    fn runtime(&self) -> tokio::runtime::Handle;
}

/// A prepared statement, and what its client is told of it.
#[derive(Clone, Debug)]
pub struct Described<P> {
    /// The statement, as the session keeps it.
    pub statement: P,
    /// Types of its parameters.
    pub parameters: Vec<Type>,
    /// Columns of its result; `None`: it returns no rows.
    pub columns: Option<Vec<Column>>,
}

/// Runs the statements of one client, one after the other. The methods are those of [`ClientSession`].
pub trait SqlSession: Send + 'static {
    /// A prepared statement.
    type Prepared: Clone + Send + Sync + 'static;
    /// A statement with its parameters, and how far it was run.
    type Portal: Send + 'static;

    /// What the client is told at its login (`server_version`, `TimeZone`, ...).
    fn reported(&self) -> Vec<(String, String)>;

    /// Ends what runs with 57014 when it is called, from any thread; does nothing to what begins later.
    fn canceller(&self) -> Arc<dyn Fn() + Send + Sync>;

    /// Prepares the only statement of a text; `types` are the OIDs that the client gives, 0 where it leaves one open.
    ///
    /// # Errors
    /// What cannot be run, or not by this user.
    fn prepare(
        &mut self,
        sql: &str,
        types: &[u32],
    ) -> impl Future<Output = Result<Described<Self::Prepared>, Refusal>> + Send;

    /// Whether a simple query is so short that the event loop's own thread runs it: it never plans, and leaves that thread before it waits. Asked
    /// for each text, so it has to be quick.
    fn is_short_text(&mut self, sql: &str) -> bool {
        _ = sql;
        false
    }

    /// Whether the statement of a Parse is there already, and short.
    fn is_short_parse(&self, sql: &str, types: &[u32]) -> bool {
        _ = (sql, types);
        false
    }

    /// Whether a prepared statement is short.
    fn is_short(&self, statement: &Self::Prepared) -> bool {
        _ = statement;
        false
    }

    /// The columns of a cursor, which the protocol takes for a portal.
    fn cursor(&self, name: &str) -> Option<Vec<Column>> {
        _ = name;
        None
    }

    /// Binds a statement to parameters.
    ///
    /// # Errors
    /// A value that cannot be read.
    fn bind<'v>(
        &mut self,
        statement: &Self::Prepared,
        parameters: impl Iterator<Item = (Format, Option<&'v [u8]>)>,
    ) -> Result<Self::Portal, Refusal>;

    /// Runs a portal and writes what it returns, DataRow messages or those of COPY.
    ///
    /// # Errors
    /// What the client is told instead of the rest.
    fn run(
        &mut self,
        portal: &mut Self::Portal,
        formats: &ResultFormats,
        rows_max: Option<u32>,
        sink: &mut impl Sink,
    ) -> impl Future<Output = Result<Ran, Refusal>> + Send;

    /// Runs the statements of a simple query and writes everything but errors, effects and ReadyForQuery. `Some`: rows of the client are awaited
    /// before it goes on.
    ///
    /// # Errors
    /// That of the statement that fails.
    fn simple(
        &mut self,
        sql: &str,
        sink: &mut impl Sink,
    ) -> impl Future<Output = Result<Option<CopyWanted>, Refusal>> + Send;

    /// Takes rows that the client sends for a copy.
    ///
    /// # Errors
    /// What speaks against them.
    fn copy_data(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), Refusal>> + Send {
        _ = bytes;
        std::future::ready(Ok(()))
    }

    /// All were sent; goes on with what awaited them.
    ///
    /// # Errors
    /// What speaks against them, or against a statement behind.
    fn copy_done(&mut self, sink: &mut impl Sink) -> impl Future<Output = Result<CopyDone, Refusal>> + Send {
        _ = sink;
        std::future::ready(Err(Refusal::new(
            code::PROTOCOL_VIOLATION,
            "nothing is copied in",
        )))
    }

    /// The client gives up.
    fn copy_failed(&mut self) {}

    /// Ends the implicit transaction of a pipeline.
    ///
    /// # Errors
    /// What the client is told.
    fn end_pipeline(&mut self, commit: bool) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// The transaction, as ReadyForQuery says it.
    fn transaction(&self) -> TransactionStatus;

    /// Something outside failed: an open transaction has failed.
    fn fail_transaction(&mut self);

    /// What there is to tell since the last call.
    fn take_effects(&mut self) -> Vec<Effect>;
}

impl SqlEngine for Engine {
    type Session = ClientSession;

    fn session(&self, who: Identity) -> Result<ClientSession, Refusal> {
        Engine::session(self, who)
    }

    fn database(&self, user: &str, asked: &str) -> String {
        // One that there is not is refused when the session is made, after the login.
        Engine::database(self, user, asked).unwrap_or(asked).to_owned()
    }

    fn runtime(&self) -> tokio::runtime::Handle {
        Engine::runtime(self)
    }
}

impl SqlSession for ClientSession {
    type Prepared = Arc<Prepared>;
    type Portal = Portal;

    fn is_short_text(&mut self, sql: &str) -> bool {
        ClientSession::is_short_text(self, sql)
    }

    fn is_short_parse(&self, sql: &str, types: &[u32]) -> bool {
        ClientSession::is_short_parse(self, sql, types)
    }

    fn is_short(&self, statement: &Arc<Prepared>) -> bool {
        ClientSession::is_short(self, statement)
    }

    fn reported(&self) -> Vec<(String, String)> {
        ClientSession::reported(self)
    }

    fn canceller(&self) -> Arc<dyn Fn() + Send + Sync> {
        let handle = self.cancel_handle();
        Arc::new(move || handle.cancel())
    }

    async fn prepare(&mut self, sql: &str, types: &[u32]) -> Result<Described<Arc<Prepared>>, Refusal> {
        let statement = match self.parsed_before(sql, types) {
            Some(statement) => statement,
            // In a box: what plans is far larger than what runs.
            None => Box::pin(self.parse_anew(sql, types)).await?,
        };
        Ok(Described {
            parameters: statement.parameters.clone(),
            columns: statement.columns.clone(),
            statement,
        })
    }

    fn cursor(&self, name: &str) -> Option<Vec<Column>> {
        ClientSession::cursor(self, name)
    }

    fn bind<'v>(
        &mut self,
        statement: &Arc<Prepared>,
        parameters: impl Iterator<Item = (Format, Option<&'v [u8]>)>,
    ) -> Result<Portal, Refusal> {
        ClientSession::bind(self, statement, parameters)
    }

    async fn run(
        &mut self,
        portal: &mut Portal,
        formats: &ResultFormats,
        rows_max: Option<u32>,
        sink: &mut impl Sink,
    ) -> Result<Ran, Refusal> {
        ClientSession::run(self, portal, formats, rows_max, sink).await
    }

    async fn simple(&mut self, sql: &str, sink: &mut impl Sink) -> Result<Option<CopyWanted>, Refusal> {
        ClientSession::simple(self, sql, sink).await
    }

    async fn copy_data(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        ClientSession::copy_data(self, bytes).await
    }

    async fn copy_done(&mut self, sink: &mut impl Sink) -> Result<CopyDone, Refusal> {
        ClientSession::copy_done(self, sink).await
    }

    fn copy_failed(&mut self) {
        ClientSession::copy_failed(self);
    }

    async fn end_pipeline(&mut self, commit: bool) -> Result<(), Refusal> {
        ClientSession::end_pipeline(self, commit).await
    }

    fn transaction(&self) -> TransactionStatus {
        ClientSession::transaction(self)
    }

    fn fail_transaction(&mut self) {
        ClientSession::fail_transaction(self);
    }

    fn take_effects(&mut self) -> Vec<Effect> {
        ClientSession::take_effects(self)
    }
}
