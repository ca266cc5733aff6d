//! [`Session`]: what a server keeps of a client between its messages, and what each message asks for.
//!
//! ```text
//!            ┌───────── Sync, Query done ─────────┐
//!            ▼                                    │
//!  Ready ─ Parse, Bind, Execute ─► Busy ─ outcome ─► Ready
//!    │                              │ failed
//!    │                              ▼
//!    │                           Skipping ─ Sync ─► Ready
//!    └─ Query ─► Busy ─ COPY ─► CopyIn ─ CopyDone ─► Busy
//! ```
//!
//! Messages between two Syncs are one transaction unless the client begins its own. The session tells the engine where it ends
//! ([`Action::Sync`]); whether one is open the engine tells the session ([`Session::set_transaction`]).

use std::collections::HashMap;

use super::held::{Column, Portal, ResultFormats, Statement};
use super::message::{Bind, Limits, Malformed, Message, Parse, Target};
use crate::error::{Refusal, code};
use crate::values::Type;
use crate::{TransactionStatus, backend, build, frontend};

/// What the engine has to do. Each but `Nothing`, `Flush`, the parts of a copy and `Terminate` has an outcome that goes back into the
/// session before its next message.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<'m, S, P> {
    /// Nothing: the answer, if there is one, is written.
    Nothing,
    /// Send what was written so far.
    Flush,
    /// Run the statements of a text, writing what they return, then [`Session::query_done`]. Without any statement the engine writes
    /// EmptyQueryResponse.
    Query {
        /// The text.
        sql: &'m str,
    },
    /// Prepare a statement, then [`Session::parsed`].
    Parse(Parse<'m>),
    /// Bind a statement to parameters, then [`Session::bound`].
    Bind {
        /// The statement, as the engine made it.
        statement: S,
        /// The parameters; as many as the statement has.
        bind: Bind<'m>,
        /// The formats of the result.
        formats: ResultFormats,
    },
    /// Return rows of a portal, then [`Session::executed`].
    Execute {
        /// The portal, as the engine made it.
        portal: P,
        /// Rows wanted; `None`: all.
        rows_max: Option<u32>,
    },
    /// End the transaction of a pipeline, then [`Session::ended`].
    Sync {
        /// Whether it commits; something in it failed otherwise.
        commit: bool,
    },
    /// Take a part of what is copied in.
    CopyData(&'m [u8]),
    /// All was copied in: go on with the statement that asked for it.
    CopyDone,
    /// The copy failed: end the statement with [`Session::failed`] and this refusal.
    CopyFail(Refusal),
    /// The client leaves.
    Terminate,
}

/// How far an execution of a portal came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executed<'t> {
    /// To its end; the tag of CommandComplete.
    Complete(&'t str),
    /// To as many rows as were wanted; there may be more.
    Suspended,
    /// The statement's text was empty.
    Empty,
}

/// What the engine is at.
enum Work {
    Nothing,
    Query,
    Parse { name: Box<str>, text_bytes: usize },
    Bind { name: Box<str>, portal: Box<Portal<()>> },
    Execute { name: Box<str> },
    Sync,
}

/// What a server keeps of one client: statements, portals, where it is in a pipeline, its transaction. `S` is what the engine keeps of a
/// prepared statement, `P` of a portal.
pub struct Session<S, P> {
    limits: Limits,
    statements: HashMap<Box<str>, Statement<S>>,
    portals: HashMap<Box<str>, Portal<P>>,
    /// Of both.
    bytes: usize,
    transaction: TransactionStatus,
    /// Something ran since the last Sync, outside of a transaction that the client began.
    in_pipeline: bool,
    /// Messages are ignored until Sync.
    skips: bool,
    /// What is copied in is awaited by `work`.
    copies_in: bool,
    work: Work,
}

impl<S: Clone, P> Session<S, P> {
    /// A client that has just logged in.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            statements: HashMap::new(),
            portals: HashMap::new(),
            bytes: 0,
            transaction: TransactionStatus::Idle,
            in_pipeline: false,
            skips: false,
            copies_in: false,
            work: Work::Nothing,
        }
    }

    /// Whether an outcome of the engine is awaited; a message may be given only while it is not, or while something is copied in.
    pub fn is_busy(&self) -> bool {
        !matches!(self.work, Work::Nothing) && !self.copies_in
    }

    /// The transaction, as ReadyForQuery says it.
    pub fn transaction(&self) -> TransactionStatus {
        self.transaction
    }

    /// The engine began or ended a transaction. With one that ends, its portals go.
    pub fn set_transaction(&mut self, transaction: TransactionStatus) {
        if transaction == TransactionStatus::Idle && self.transaction != transaction {
            self.drop_portals();
        }
        self.transaction = transaction;
    }

    /// Bytes that statements and portals take of [`Limits::session_bytes_max`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What the engine keeps of a prepared statement.
    pub fn statement(&self, name: &str) -> Option<&S> {
        self.statements.get(name).map(|statement| &statement.of_engine)
    }

    /// Whether messages are passed over until the next Sync, or rows are copied in.
    pub fn is_between(&self) -> bool {
        self.skips || self.copies_in
    }

    /// Whether there is such a portal; also so while messages are passed over until the next Sync.
    pub fn has_portal(&self, name: &str) -> bool {
        self.skips || self.portals.contains_key(name)
    }

    /// Takes a message and says what to do; what can be answered at once is appended to `out`.
    ///
    /// # Panics
    /// In builds with debug assertions, while the session [is busy](Self::is_busy).
    pub fn message<'m>(&mut self, message: Message<'m>, out: &mut Vec<u8>) -> Action<'m, S, P> {
        debug_assert!(!self.is_busy(), "the outcome of the last action is missing");
        if message == Message::Terminate {
            return Action::Terminate;
        }
        if self.copies_in {
            return self.copied(message);
        }
        if self.skips && message != Message::Sync {
            return Action::Nothing;
        }
        let done = match message {
            Message::Query(sql) => {
                self.drop_statement("");
                self.drop_portal("");
                self.work = Work::Query;
                Ok(Action::Query { sql })
            }
            Message::FunctionCall => {
                let refusal =
                    Refusal::new(code::NOT_SUPPORTED, "the function call protocol is not supported")
                        .hint("Call functions with SELECT.");
                build::error(out, &refusal);
                self.failed_transaction();
                build::ready(out, self.transaction);
                Ok(Action::Nothing)
            }
            Message::Parse(parse) => self.parse(parse),
            Message::Bind(bind) => self.bind(bind),
            Message::Describe(target) => self.describe(target, out),
            Message::Execute { portal, rows_max } => self.execute(portal, rows_max),
            Message::Close(target) => {
                match target {
                    Target::Statement(name) => self.drop_statement(name),
                    Target::Portal(name) => self.drop_portal(name),
                }
                build::bare(out, backend::CLOSE_COMPLETE);
                Ok(Action::Nothing)
            }
            Message::Sync => Ok(self.sync(out)),
            Message::Flush => Ok(Action::Flush),
            // A client that has not yet heard that its copy failed.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) | Message::Terminate => {
                Ok(Action::Nothing)
            }
        };
        done.unwrap_or_else(|refusal| {
            self.failed(out, &refusal);
            Action::Nothing
        })
    }

    /// Takes what came instead of a message. Returns whether the connection has to end, after `out` was sent.
    pub fn malformed(&mut self, malformed: &Malformed, out: &mut Vec<u8>) -> bool {
        if malformed.used.is_none() {
            build::fatal(out, &malformed.refusal);
            return true;
        }
        let is_sync = malformed.tag == frontend::SYNC;
        if self.skips && !is_sync {
            return false;
        }
        if malformed.tag == frontend::QUERY && !self.copies_in {
            self.work = Work::Query;
        }
        self.failed(out, &malformed.refusal);
        false
    }

    fn parse<'m>(&mut self, parse: Parse<'m>) -> Result<Action<'m, S, P>, Refusal> {
        let name = parse.name;
        if name.is_empty() {
            self.drop_statement(name);
        } else if self.statements.contains_key(name) {
            let what = format!("prepared statement \"{name}\" already exists");
            return Err(Refusal::new(code::DUPLICATE_STATEMENT, what));
        }
        let text_bytes = name.len() + parse.sql.len();
        self.room(
            "prepared statements",
            self.statements.len(),
            self.limits.statements_max,
            text_bytes,
        )?;
        self.begin(Work::Parse {
            name: name.into(),
            text_bytes,
        });
        Ok(Action::Parse(parse))
    }

    /// The statement of a Parse is prepared. `columns`: those of its result, where it returns rows.
    pub fn parsed(
        &mut self,
        out: &mut Vec<u8>,
        statement: S,
        parameters: Vec<Type>,
        columns: Option<Vec<Column>>,
    ) {
        let Work::Parse { name, text_bytes } = self.done() else {
            return self.out_of_turn(out);
        };
        let statement = Statement::new(statement, parameters, columns, text_bytes);
        if let Err(refusal) = self.room("prepared statements", 0, usize::MAX, statement.bytes) {
            return self.failed(out, &refusal);
        }
        self.bytes += statement.bytes;
        self.statements.insert(name, statement);
        build::bare(out, backend::PARSE_COMPLETE);
    }

    fn bind<'m>(&mut self, bind: Bind<'m>) -> Result<Action<'m, S, P>, Refusal> {
        let statement = find_statement(&self.statements, bind.statement)?;
        let (needed, given) = (statement.parameters.len(), usize::from(bind.parameter_count()));
        if needed != given {
            let what = format!(
                "bind message supplies {given} parameters, but prepared statement \"{}\" requires {needed}",
                bind.statement
            );
            return Err(Refusal::new(code::PROTOCOL_VIOLATION, what));
        }
        if bind.parameter_format_count() > 1 && bind.parameter_format_count() != given {
            return Err(Refusal::new(
                code::PROTOCOL_VIOLATION,
                "a format of a parameter is missing",
            ));
        }
        let columns = statement.columns.clone();
        let formats = ResultFormats::new(
            bind.result_formats(),
            columns.as_deref().map_or(0, <[Column]>::len),
        );
        // Without columns one format is as good as none.
        let formats = formats?;
        let of_engine = statement.of_engine.clone();
        // The statement may go while the portal keeps what the engine has made of it.
        let bytes = statement.bytes + bind.portal.len() + bind.bytes() + bind.result_formats().len();
        if bind.portal.is_empty() {
            self.drop_portal("");
        } else if self.portals.contains_key(bind.portal) {
            let what = format!("cursor \"{}\" already exists", bind.portal);
            return Err(Refusal::new(code::DUPLICATE_CURSOR, what));
        }
        self.room("portals", self.portals.len(), self.limits.portals_max, bytes)?;
        let portal = Portal {
            of_engine: None,
            columns,
            formats: formats.clone(),
            bytes,
        };
        self.begin(Work::Bind {
            name: bind.portal.into(),
            portal: Box::new(portal),
        });
        Ok(Action::Bind {
            statement: of_engine,
            bind,
            formats,
        })
    }

    /// The portal of a Bind is there.
    pub fn bound(&mut self, out: &mut Vec<u8>, portal: P) {
        let Work::Bind { name, portal: made } = self.done() else {
            return self.out_of_turn(out);
        };
        self.bytes += made.bytes;
        let made = Portal {
            of_engine: Some(portal),
            columns: made.columns,
            formats: made.formats,
            bytes: made.bytes,
        };
        self.portals.insert(name, made);
        build::bare(out, backend::BIND_COMPLETE);
    }

    fn describe<'m>(&mut self, target: Target<'_>, out: &mut Vec<u8>) -> Result<Action<'m, S, P>, Refusal> {
        match target {
            Target::Statement(name) => find_statement(&self.statements, name)?.describe(out),
            Target::Portal(name) => self
                .portals
                .get(name)
                .ok_or_else(|| no_portal(name))?
                .describe(out),
        }
        Ok(Action::Nothing)
    }

    fn execute<'m>(&mut self, name: &str, rows_max: Option<u32>) -> Result<Action<'m, S, P>, Refusal> {
        let portal = self
            .portals
            .get_mut(name)
            .and_then(|portal| portal.of_engine.take());
        let portal = portal.ok_or_else(|| no_portal(name))?;
        self.begin(Work::Execute { name: name.into() });
        Ok(Action::Execute { portal, rows_max })
    }

    /// A portal was executed; the engine has written its rows.
    pub fn executed(&mut self, out: &mut Vec<u8>, portal: P, how: Executed<'_>) {
        let Work::Execute { name } = self.done() else {
            return self.out_of_turn(out);
        };
        // A statement that ended its transaction took the portal with it.
        if let Some(held) = self.portals.get_mut(&name) {
            held.of_engine = Some(portal);
        }
        match how {
            Executed::Complete(tag) => build::command_complete(out, tag),
            Executed::Suspended => build::bare(out, backend::PORTAL_SUSPENDED),
            Executed::Empty => build::bare(out, backend::EMPTY_QUERY),
        }
    }

    /// All statements of a Query were run; the engine has written what they return.
    pub fn query_done(&mut self, out: &mut Vec<u8>) {
        let Work::Query = self.done() else {
            return self.out_of_turn(out);
        };
        self.ready(out);
    }

    fn sync<'m>(&mut self, out: &mut Vec<u8>) -> Action<'m, S, P> {
        let commit = !std::mem::take(&mut self.skips);
        if self.in_pipeline && self.transaction == TransactionStatus::Idle {
            self.work = Work::Sync;
            return Action::Sync { commit };
        }
        self.ready(out);
        Action::Nothing
    }

    /// The transaction of a pipeline was ended as [`Action::Sync`] asked.
    pub fn ended(&mut self, out: &mut Vec<u8>) {
        let Work::Sync = self.done() else {
            return self.out_of_turn(out);
        };
        self.ready(out);
    }

    /// What the engine was asked for failed, or was cancelled. Appends the error and, where nothing else follows before the client's next
    /// message, ReadyForQuery.
    pub fn failed(&mut self, out: &mut Vec<u8>, refusal: &Refusal) {
        let work = self.done();
        build::error(out, refusal);
        self.failed_transaction();
        match work {
            Work::Query | Work::Sync => self.ready(out),
            Work::Execute { name } => {
                self.drop_portal(&name);
                self.skips = true;
            }
            _ => self.skips = true,
        }
    }

    /// The statement under way wants rows of the client: appends CopyInResponse. What the client sends comes as [`Action::CopyData`].
    pub fn copy_in(&mut self, out: &mut Vec<u8>, binary: bool, columns: u16) {
        if !matches!(self.work, Work::Query | Work::Execute { .. }) {
            return self.out_of_turn(out);
        }
        self.copies_in = true;
        build::copy_response(out, backend::COPY_IN, binary, columns);
    }

    /// What a message says while something is copied in.
    fn copied<'m>(&mut self, message: Message<'m>) -> Action<'m, S, P> {
        let refusal = match message {
            Message::CopyData(data) => return Action::CopyData(data),
            // Those of clients that send a whole pipeline without looking at the answer.
            Message::Sync | Message::Flush => return Action::Nothing,
            Message::CopyDone => {
                self.copies_in = false;
                return Action::CopyDone;
            }
            Message::CopyFail(reason) => {
                Refusal::new(code::QUERY_CANCELED, format!("COPY from stdin failed: {reason}"))
            }
            _ => {
                let what = "unexpected message type during COPY from stdin";
                Refusal::new(code::PROTOCOL_VIOLATION, what)
            }
        };
        self.copies_in = false;
        Action::CopyFail(refusal)
    }

    /// Begins a piece of work of a pipeline.
    fn begin(&mut self, work: Work) {
        self.in_pipeline = true;
        self.work = work;
    }

    /// Takes the work that has come to its end.
    fn done(&mut self) -> Work {
        self.copies_in = false;
        std::mem::replace(&mut self.work, Work::Nothing)
    }

    fn ready(&mut self, out: &mut Vec<u8>) {
        self.in_pipeline = false;
        if self.transaction == TransactionStatus::Idle {
            self.drop_portals();
        }
        build::ready(out, self.transaction);
    }

    fn failed_transaction(&mut self) {
        if self.transaction == TransactionStatus::Open {
            self.transaction = TransactionStatus::Failed;
        }
    }

    /// An outcome that nothing asked for: a mistake of the engine's, of which the client is told.
    fn out_of_turn(&mut self, out: &mut Vec<u8>) {
        debug_assert!(false, "an outcome of an action that was not asked for");
        let refusal = Refusal::new(code::INTERNAL_ERROR, "an answer of the engine came out of turn");
        self.failed(out, &refusal);
    }

    /// Whether there is room for one more, of so many bytes.
    fn room(&self, what: &str, count: usize, most: usize, bytes: usize) -> Result<(), Refusal> {
        let full = |limit: String| {
            Refusal::new(code::PROGRAM_LIMIT, format!("this client has too many {what}"))
                .detail(format!("The limit is {limit}."))
                .hint("Close those that are no longer needed.")
        };
        if count >= most {
            return Err(full(format!("{most} {what}")));
        }
        let all = self.limits.session_bytes_max;
        if bytes > all.saturating_sub(self.bytes) {
            return Err(full(format!("{all} bytes of prepared statements and portals")));
        }
        Ok(())
    }

    fn drop_statement(&mut self, name: &str) {
        if let Some(statement) = self.statements.remove(name) {
            self.bytes -= statement.bytes;
        }
    }

    /// Drops a prepared statement, as `DEALLOCATE` does. Returns whether there was one.
    pub fn deallocate(&mut self, name: &str) -> bool {
        let was = self.statements.contains_key(name);
        self.drop_statement(name);
        was
    }

    /// Drops all prepared statements, as `DEALLOCATE ALL` does.
    pub fn deallocate_all(&mut self) {
        self.bytes -= self
            .statements
            .drain()
            .map(|(_, statement)| statement.bytes)
            .sum::<usize>();
    }

    fn drop_portal(&mut self, name: &str) {
        if let Some(portal) = self.portals.remove(name) {
            self.bytes -= portal.bytes;
        }
    }

    fn drop_portals(&mut self) {
        self.bytes -= self
            .portals
            .drain()
            .map(|(_, portal)| portal.bytes)
            .sum::<usize>();
    }
}

fn find_statement<'s, S>(
    statements: &'s HashMap<Box<str>, Statement<S>>,
    name: &str,
) -> Result<&'s Statement<S>, Refusal> {
    statements.get(name).ok_or_else(|| {
        let what = match name {
            "" => "unnamed prepared statement does not exist".to_owned(),
            name => format!("prepared statement \"{name}\" does not exist"),
        };
        Refusal::new(code::UNDEFINED_STATEMENT, what)
    })
}

fn no_portal(name: &str) -> Refusal {
    Refusal::new(
        code::UNDEFINED_CURSOR,
        format!("portal \"{name}\" does not exist"),
    )
}
