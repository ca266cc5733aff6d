//! [`Server`]: one connection to PostgreSQL, and what the proxy knows of the session behind it.
//!
//! ```text
//!  Connecting ─► (TLS) ─► LoggingIn ─► Ready ⇄ Ready with a task ─► closed
//!                                       │ client: Some            the proxy's own query: replay of settings, reading
//!                                       └ client: None, idle      them back, reset, check, barrier after a cancel
//! ```

pub(in crate::core) mod cancel;
pub(in crate::core) mod catalogues;
pub(in crate::core) mod connect;
pub(in crate::core) mod lost;
pub(in crate::core) mod state;
pub(in crate::core) mod tasks;
pub(in crate::core) mod transport;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use corun_net::reactor::{Reactor, Token};

use crate::auth::ServerLogin;
use crate::core::console::queries::Running;
use crate::core::console::statistics::Counts;
use crate::core::heavy_queue;
use crate::core::parts::{Reply, Step};
use crate::core::reply::change::Change;
use crate::core::reply::expect::Expects;
use crate::core::reply::filter::ReplyFilter;
use crate::core::server::transport::Transport;
use crate::core::shared::Login;
use crate::hosts::Order;
use crate::session::prepared::ServerStatements;
use crate::session::settings::Settings;
use crate::understand::Pins;
use crate::wire::error::{Refusal, Reported};
use crate::wire::{TransactionStatus, build};

/// Where a connection stands.
pub(in crate::core) enum Phase {
    /// The kernel connects.
    Connecting,
    /// The answer to the request for TLS is awaited.
    AskedForTls,
    /// Startup and authentication, and what the keys are kept by that it shows.
    LoggingIn(Box<ServerLogin>, Login),
    /// Logged in.
    Ready,
}

/// A query of the proxy's own.
#[derive(Debug)]
pub(in crate::core) struct Task {
    pub kind: TaskKind,
    /// Rows so far, as text.
    pub rows: Vec<Vec<Option<String>>>,
    /// The first error.
    pub error: Option<Reported>,
    /// Takes rows and descriptions as they come instead, where somebody wants them so.
    pub reply: Option<Box<Reply>>,
}

/// What the proxy's own query is for.
#[derive(Debug)]
pub(in crate::core) enum TaskKind {
    /// Settings of the client that waits for this server.
    Replay(Arc<Settings>),
    /// A transaction block that the client was told has begun.
    Begin,
    /// What the client has left: which of its pins still hold, and, if asked for, what it has set.
    State { settings: bool },
    /// What code of the database's own may do to sessions.
    Catalogue(Arc<str>),
    /// The end of a transaction that a client left open; then a reset, if that is needed.
    Rollback { reset: bool },
    /// Cleaning up after a client.
    Reset,
    /// Whether the server answers; then it serves the client that waits.
    Check,
    /// A cancel request may still strike: nobody else gets the server before this is answered.
    Barrier,
    /// `connect_query`.
    Connect,
    /// A question of the event loop's own.
    Ask(Question),
    /// A query in parts, by its number; 0 for what comes after it.
    Part { job: u64, step: Step },
    /// The plan of a heavy query, for the client that has this server.
    Plan(Box<heavy_queue::Plan>),
}

/// Who asked a question on a server connection.
#[derive(Debug)]
pub(in crate::core) enum Question {
    /// `auth_query` for a client (slot and number).
    Secret { client: usize, id: u64 },
    /// Health of a host.
    Health { database: Arc<str>, order: Order },
}

/// Statements of clients' own names that are closed when the client leaves; a connection with more is closed itself.
const STRAY_STATEMENTS_MAX: usize = 1024;
/// Rows of a task's answer at most; a question that gets more is wrong.
const TASK_ROWS_MAX: usize = crate::session::catalogue::ROWS_MAX;

/// Whose are the last numbers of sequences that a session tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Sequences {
    /// There are none.
    Nobodys,
    /// Those of this client (number).
    Of(u64),
    /// Nobody knows.
    Mixed,
}

impl Sequences {
    /// A client gets the server. `reads`: it asks for such numbers. `true`: what there is must go first.
    pub fn pair(&mut self, client: u64, reads: bool) -> bool {
        let others = *self != Sequences::Nobodys && *self != Sequences::Of(client);
        *self = match others && !reads {
            true => Sequences::Mixed,
            false => Sequences::Of(client),
        };
        others && reads
    }
}

/// A connection to PostgreSQL.
pub(in crate::core) struct Server {
    // Fixed for its life.
    pub transport: Transport,
    pub pool: usize,
    /// Number, unique in the process.
    pub id: u64,
    pub created: Duration,
    pub replica: bool,
    /// Where it is, for cancel requests.
    pub address: cancel::ServerAddress,
    /// Name or address of its host, as certificates have it.
    pub host: String,
    /// Which of the database's several `host`s without replicas that is.
    pub host_number: usize,
    // From logging in.
    /// The server has said that we are in.
    pub authenticated: bool,
    /// Counted among its pool's connections on their way.
    pub counted_connecting: bool,
    /// Its socket has left the reactor.
    pub gone: bool,
    pub phase: Phase,
    pub pid: u32,
    pub secret: Vec<u8>,
    /// ParameterStatus by name.
    pub parameters: Vec<(String, String)>,
    /// Its process, where it is bound to a core.
    pub bound: Option<crate::core::ranges::bind::Bound>,
    // What the session is now.
    pub status: TransactionStatus,
    /// What its start-up packet asked for: its defaults.
    pub start: Arc<Settings>,
    pub settings: Arc<Settings>,
    pub statements: ServerStatements,
    /// Statements of clients' own names that stand on the server by accident.
    pub stray_statements: BTreeSet<Box<[u8]>>,
    pub expects: Expects,
    /// Looks at the answer under way, where something else was sent than its client asked for.
    pub filter: Option<Box<dyn ReplyFilter>>,
    /// What was sent to it since its pool's totals were told.
    pub counts: Counts,
    /// What it runs for its client.
    pub running: Running,
    // Who uses it.
    pub client: Option<usize>,
    /// It runs a part of this query.
    pub job: Option<u64>,
    /// The query it runs whole is one that may run in parts, and what it takes is to be known.
    pub timed: Option<usize>,
    /// It runs a query of the queue of heavy ones.
    pub ticket: Option<heavy_queue::Ticket>,
    pub task: Option<Task>,
    /// Cancel requests for it that have not ended.
    pub cancels: u32,
    /// A cancel request was sent: a barrier comes before the next client.
    pub struck: bool,
    /// Who may have drawn numbers from sequences here.
    pub sequences: Sequences,
    /// Its client needs it no more, but for what it may have left here: it waits until somebody else needs it.
    pub lingers: bool,
    /// Since when its client has it that could linger here.
    pub lingers_since: Option<Duration>,
    /// To be closed as soon as its client is done.
    pub closing: Option<&'static str>,
    /// It has served a client, or was in use otherwise.
    pub used: bool,
    /// Not read, because its client is slow.
    pub paused: bool,
    /// When it became free or busy.
    pub since: Duration,
    /// When the first request came that its client has it for, until that is answered.
    pub came: Option<Duration>,
    /// When the statement_timeout of a query passes that has waited before it came here; the server counts from its coming.
    pub deadline: Option<Duration>,
    /// It has passed: the query was cancelled for that.
    pub late: bool,
    /// When the current query and transaction began.
    pub query_since: Duration,
    pub transaction_since: Duration,
    // Reading.
    pub partial: Vec<u8>,
    /// Bytes of a message that are still to come and go to the client.
    pub passing: usize,
    /// ErrorResponse messages since the last moment without a transaction.
    pub errors: u32,
    /// An error that no ReadyForQuery has followed: it may be the last thing the server says.
    pub last_error: Option<Vec<u8>>,
}

impl Server {
    pub fn new(
        transport: Transport,
        pool: usize,
        id: u64,
        now: Duration,
        replica: bool,
        statements_max: usize,
    ) -> Self {
        Self {
            transport,
            pool,
            id,
            created: now,
            replica,
            address: None,
            host: String::new(),
            host_number: 0,
            authenticated: false,
            counted_connecting: true,
            gone: false,
            phase: Phase::Connecting,
            pid: 0,
            secret: Vec::new(),
            parameters: Vec::new(),
            bound: None,
            status: TransactionStatus::Idle,
            start: Arc::default(),
            settings: Arc::default(),
            statements: ServerStatements::new(statements_max),
            stray_statements: BTreeSet::new(),
            expects: Expects::default(),
            filter: None,
            counts: Counts::default(),
            running: Running::default(),
            client: None,
            job: None,
            timed: None,
            ticket: None,
            task: None,
            cancels: 0,
            struck: false,
            sequences: Sequences::Nobodys,
            lingers: false,
            lingers_since: None,
            closing: None,
            used: false,
            paused: false,
            since: now,
            came: None,
            deadline: None,
            late: false,
            query_since: now,
            transaction_since: now,
            partial: Vec::new(),
            passing: 0,
            errors: 0,
            last_error: None,
        }
    }

    /// The token of its socket.
    pub fn token(&self) -> Token {
        self.transport.token
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// Starts a query of the proxy's own.
    ///
    /// # Panics
    /// When something else is under way (debug builds).
    pub fn start<R: Reactor>(&mut self, reactor: &mut R, kind: TaskKind, sql: &str) {
        let mut out = Vec::with_capacity(sql.len() + 6);
        build::query(&mut out, sql);
        self.start_message(reactor, kind, &out);
    }

    /// The same with a Query message that is there already.
    ///
    /// # Panics
    /// When something else is under way (debug builds).
    pub fn start_message<R: Reactor>(&mut self, reactor: &mut R, kind: TaskKind, query: &[u8]) {
        debug_assert!(self.task.is_none() && self.expects.settled());
        self.expects.query(Change::Nothing);
        self.statements.unnamed = None;
        self.task = Some(Task {
            kind,
            rows: Vec::new(),
            error: None,
            reply: None,
        });
        self.transport.send(reactor, query);
    }

    /// What the server has last said of a parameter.
    pub fn reported(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A ParameterStatus came. Answers whether the value is new.
    pub fn parameter(&mut self, name: &str, value: &str) -> bool {
        if let Some((_, old)) = self.parameters.iter_mut().find(|(known, _)| known == name) {
            let new = old != value;
            value.clone_into(old);
            return new;
        }
        // Servers report some fifteen; one that reports thousands is no PostgreSQL.
        if self.parameters.len() < 256 {
            self.parameters.push((name.to_owned(), value.to_owned()));
        }
        true
    }

    /// A statement stands here under its client's own name, until the server goes to another client.
    pub fn has_stray(&mut self, name: &[u8]) {
        if self.stray_statements.len() < STRAY_STATEMENTS_MAX {
            self.stray_statements.insert(name.into());
        } else if !self.stray_statements.contains(name) {
            self.closing = Some("its client left too many statements");
        }
    }

    /// Whether its client's next messages wait until what it runs has ended: they may belong elsewhere, or to a queue.
    pub fn is_taken(&self) -> bool {
        let kept = self.filter.as_ref().is_some_and(|filter| filter.keeps_server());
        kept || self.job.is_some() || self.ticket.is_some()
    }

    /// Whether nobody has it and nothing is under way on it.
    pub fn is_free(&self) -> bool {
        self.is_ready()
            && self.client.is_none()
            && self.job.is_none()
            && self.cancels == 0
            && !self.struck
            && !self.gone
            && self.closing.is_none()
            && self.partial.is_empty()
            && self.is_between_transactions()
    }

    /// Whether a client that needs nothing more of it may be parted from it.
    pub fn is_between_transactions(&self) -> bool {
        self.status == TransactionStatus::Idle
            && self.expects.settled()
            && self.task.is_none()
            && self.passing == 0
    }
}

impl Task {
    /// Takes a row.
    pub fn row(&mut self, columns: Option<Vec<Option<&[u8]>>>) {
        if self.rows.len() < TASK_ROWS_MAX {
            let columns = columns.unwrap_or_default();
            let texts = columns
                .into_iter()
                .map(|value| value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
            self.rows.push(texts.collect());
        }
    }
}

/// Why a client loses its server.
pub(in crate::core) fn lost(reported: Option<&Reported>) -> Refusal {
    let refusal = Refusal::new(
        crate::wire::error::code::CONNECTION_FAILURE,
        "server closed the connection unexpectedly",
    );
    match reported {
        Some(reported) => refusal.detail(format!("The server said: {}", reported.message)),
        None => refusal.detail("The server ended abnormally before or while processing the request."),
    }
}

/// Reasons for a pin, as the console shows them.
pub(in crate::core) fn pin_names(pins: Pins) -> String {
    pins.names().collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::Sequences;

    #[test]
    fn numbers_of_others_go_before_somebody_asks_for_his_own() {
        let mut of = Sequences::Nobodys;
        assert!(!of.pair(1, true) && !of.pair(1, true));
        assert!(!of.pair(2, false) && of == Sequences::Mixed);
        assert!(!of.pair(2, false), "it does not ask");
        assert!(of.pair(2, true) && of == Sequences::Of(2));
        assert!(!of.pair(2, true));
        assert!(of.pair(1, true));
    }
}
