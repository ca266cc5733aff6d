//! [`Server`]: one connection to PostgreSQL, and what the proxy knows of the session behind it.
//!
//! ```text
//!  Connecting ─► (TLS) ─► LoggingIn ─► LoggedIn ─► Ready ⇄ Ready with a task ─► closed
//!                                                   │ a client          the proxy's own query: replay of settings, reading
//!                                                   └ no client, idle   them back, reset, check, barrier after a cancel
//! ```

pub(in crate::core) mod answered;
pub(in crate::core) mod cancel;
pub(in crate::core) mod catalogues;
pub(in crate::core) mod connect;
pub(in crate::core) mod lost;
pub(in crate::core) mod questions;
pub(in crate::core) mod raw_reply;
pub(in crate::core) mod session;
pub(in crate::core) mod state;
pub(in crate::core) mod tasks;

use std::sync::Arc;
use std::time::Duration;

use corun_net::reactor::{Address, Reactor, Token};
use slab::Slab;

use crate::core::client::Client;
use crate::core::console::queries::Running;
use crate::core::console::statistics::Counts;
use crate::core::event_loop::EventLoop;
use crate::core::reply::again::Again;
use crate::core::reply::change::Change;
use crate::core::reply::expect::Expects;
use crate::core::reply::filter::ReplyFilter;
use crate::core::server::cancel::Cancels;
use crate::core::server::raw_reply::Reply;
use crate::core::server::session::ServerSession;
use crate::core::shared::Login;
use crate::core::stages::{OnServer, StageTask};
use crate::hosts::Order;
use crate::session::settings::Settings;
use crate::understand::Pins;
use corun_wire::auth::ServerLogin;
use corun_wire::error::{Refusal, Reported};
use corun_wire::transport::Transport;
use corun_wire::{TransactionStatus, backend, build, read};

/// Where a connection stands.
enum Phase {
    /// The kernel connects.
    Connecting,
    /// The answer to the request for TLS is awaited.
    AskedForTls,
    /// Startup and authentication.
    LoggingIn {
        attempt: Box<ServerLogin>,
        /// What the keys are kept by that it shows.
        login: Login,
        /// The server has said that we are in.
        authenticated: bool,
    },
    /// Logged in; `connect_query` comes first.
    LoggedIn,
    /// Its pool has it.
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
    /// A step of the hand-over of what its client listens to; without a client, what a hub listens to.
    Listen,
    /// A question of the event loop's own.
    Ask(Question),
    /// What a stage of a request's way asks.
    Stage(StageTask),
}

/// Who asked a question on a server connection.
#[derive(Debug)]
pub(in crate::core) enum Question {
    /// `auth_query` for a client (slot and number).
    Secret { client: usize, id: u64 },
    /// A connection that listens for the clients of a database: nothing is asked.
    Listen(Arc<str>),
    /// Health of a host.
    Health { database: Arc<str>, order: Order },
}

/// Rows of a task's answer at most; a question that gets more is wrong.
const TASK_ROWS_MAX: usize = crate::session::catalogue::ROWS_MAX;

/// A connection to PostgreSQL.
pub(in crate::core) struct Server {
    pub transport: Transport,
    pub pool: usize,
    /// Number, unique in the process.
    pub id: u64,
    pub host: ServerHost,
    phase: Phase,
    pub process: ServerProcess,
    pub session: ServerSession,
    /// What it still owes.
    pub expects: Expects,
    pub user: ServerUser,
    pub query: ServerQuery,
    pub stages: OnServer,
    /// A query of the proxy's own under way.
    pub task: Option<Task>,
    pub life: ServerLife,
    pub reading: ServerReading,
}

/// Where a server is.
#[derive(Default)]
pub(in crate::core) struct ServerHost {
    /// For cancel requests.
    pub address: Option<Address>,
    /// Name or address, as certificates have it.
    pub name: String,
    /// Which of the database's several `host`s without replicas that is.
    pub number: usize,
    pub replica: bool,
}

/// The process behind a connection.
#[derive(Default)]
pub(in crate::core) struct ServerProcess {
    pub pid: u32,
    pub secret: Vec<u8>,
    /// Where it is bound to a core.
    pub bound: Option<crate::core::ranges::bind::Bound>,
    pub cancels: Cancels,
    /// When the last of them began.
    pub cancel_since: Duration,
}

/// Who uses a connection.
#[derive(Default)]
pub(in crate::core) struct ServerUser {
    pub client: Option<usize>,
    pub lingering: Lingering,
}

/// Whether a client stays on a server that it needs no more, but for what it may have left there, until somebody else needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::core) enum Lingering {
    /// It has not done so.
    #[default]
    Never,
    /// It first did so at this time, and has gone on since.
    Before(Duration),
    /// It does, and first did so at this time.
    Now(Duration),
}

/// What a server runs for its client.
#[derive(Default)]
pub(in crate::core) struct ServerQuery {
    pub running: Running,
    /// Looks at the answer, where something else was sent than the client asked for.
    pub filter: Option<Box<dyn ReplyFilter>>,
    /// What runs again where the server refuses it for an old description.
    pub again: Again,
    /// What was sent since the pool's totals were told.
    pub counts: Counts,
    /// When the first request came that the client has the server for, until that is answered.
    pub came: Option<Duration>,
    pub deadline: Deadline,
    /// When the current query and transaction began.
    pub since: Duration,
    pub transaction_since: Duration,
}

/// When the statement_timeout of a query passes that has waited before it came here; the server counts from its coming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::core) enum Deadline {
    /// The server's own is right.
    #[default]
    None,
    At(Duration),
    /// The query was cancelled for that.
    Passed,
}

/// From the beginning to the end of a connection.
#[derive(Default)]
pub(in crate::core) struct ServerLife {
    pub created: Duration,
    /// When it became free or busy.
    pub since: Duration,
    /// It has served a client, or was in use otherwise.
    pub used: bool,
    /// To be closed as soon as its client is done.
    pub closing: Option<&'static str>,
    /// Its socket has left the reactor.
    pub gone: bool,
}

/// How far its answers have been read.
#[derive(Default)]
pub(in crate::core) struct ServerReading {
    /// The beginning of a message.
    pub partial: Vec<u8>,
    /// Bytes of a message that are still to come and go to the client.
    pub passing: usize,
    /// ErrorResponse messages since the last moment without a transaction.
    pub errors: u32,
    /// How often a part of the transaction, or all of it, was undone: by an error or by ROLLBACK.
    pub undone: u32,
    /// An error that no ReadyForQuery has followed: it may be the last thing the server says.
    pub last_error: Option<Vec<u8>>,
    /// Not read, because the client is slow.
    pub paused: bool,
}

impl ServerReading {
    /// Nothing has gone wrong or been undone in the transaction that comes.
    pub fn begins_anew(&mut self) {
        (self.errors, self.undone) = (0, 0);
    }
}

impl Phase {
    /// Whether the server has said that we are in, and is not ready yet.
    fn is_authenticated(&self) -> bool {
        matches!(self, Self::LoggingIn { authenticated, .. } if *authenticated)
    }
}

impl ServerHost {
    /// Where it is, as it is shown.
    pub fn place(&self) -> String {
        self.address.as_ref().map(ToString::to_string).unwrap_or_default()
    }
}

impl Lingering {
    /// Since when its client has it that could linger here.
    pub fn since(self) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::Before(since) | Self::Now(since) => Some(since),
        }
    }
}

impl Server {
    /// A connection that the kernel makes.
    pub fn new(
        transport: Transport,
        pool: usize,
        id: u64,
        now: Duration,
        host: ServerHost,
        session: ServerSession,
    ) -> Self {
        Self {
            transport,
            pool,
            id,
            host,
            phase: Phase::Connecting,
            process: ServerProcess::default(),
            session,
            expects: Expects::default(),
            user: ServerUser::default(),
            query: ServerQuery {
                since: now,
                transaction_since: now,
                ..ServerQuery::default()
            },
            stages: OnServer::default(),
            task: None,
            life: ServerLife {
                created: now,
                since: now,
                ..ServerLife::default()
            },
            reading: ServerReading::default(),
        }
    }

    /// The token of its socket.
    pub fn token(&self) -> Token {
        self.transport.token
    }

    /// Whether it is logged in.
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::LoggedIn | Phase::Ready)
    }

    /// Whether it counts among its pool's connections on their way.
    pub fn is_connecting(&self) -> bool {
        !matches!(self.phase, Phase::Ready)
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
        self.session.statements.unnamed = None;
        self.task = Some(Task {
            kind,
            rows: Vec::new(),
            error: None,
            reply: None,
        });
        self.transport.send(reactor, query);
    }

    /// A statement stands here under its client's own name, until the server goes to another client.
    pub fn has_stray(&mut self, name: &[u8]) {
        if !self.session.has_stray(name) {
            self.life.closing = Some("its client left too many statements");
        }
    }

    /// Its client has it no more.
    pub fn leave<R: Reactor>(&mut self, reactor: &mut R, now: Duration) {
        self.user.client = None;
        self.user.lingering = Lingering::Never;
        self.life.since = now;
        if std::mem::take(&mut self.reading.paused) {
            reactor.resume(self.token());
        }
    }

    /// Whether its client's next messages wait until what it runs has ended: they may belong elsewhere, or to a queue.
    pub fn is_taken(&self) -> bool {
        let filter = self.query.filter.as_ref();
        let kept = filter.is_some_and(|filter| filter.keeps_server());
        kept || self.stages.are_busy()
    }

    /// Whether somebody uses it.
    pub fn is_used(&self) -> bool {
        self.user.client.is_some() || self.stages.job.is_some() || self.stages.hub.is_some()
    }

    /// Whether nobody has it and nothing is under way on it.
    pub fn is_free(&self) -> bool {
        self.is_ready()
            && !self.is_used()
            && !self.process.cancels.may_strike()
            && !self.life.gone
            && self.life.closing.is_none()
            && self.reading.partial.is_empty()
            && self.is_between_transactions()
    }

    /// Whether a client that needs nothing more of it may be parted from it.
    pub fn is_between_transactions(&self) -> bool {
        self.session.status == TransactionStatus::Idle
            && self.expects.settled()
            && self.task.is_none()
            && self.reading.passing == 0
    }
}

impl Task {
    /// Takes a row, a description or an error of the answer.
    pub fn message(&mut self, tag: u8, body: &[u8]) {
        match (&mut self.reply, tag) {
            (Some(reply), backend::DATA_ROW) => reply.row(body),
            (None, backend::DATA_ROW) if self.rows.len() < TASK_ROWS_MAX => {
                let columns = read::data_row(body).unwrap_or_default().into_iter();
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                self.rows.push(columns.map(|value| value.map(text)).collect());
            }
            (reply, backend::ERROR) => {
                if let Some(reply) = reply {
                    reply.error.get_or_insert_with(|| body.to_vec());
                }
                self.error.get_or_insert_with(|| Reported::read(body));
            }
            (Some(reply), backend::ROW_DESCRIPTION | backend::PARAMETER_DESCRIPTION) => {
                reply.describe(tag, body);
            }
            _ => {}
        }
    }
}

/// A server, and the client that has it.
pub(in crate::core) fn server_and_client<'a>(
    servers: &'a mut Slab<Box<Server>>,
    clients: &'a mut Slab<Box<Client>>,
    index: usize,
) -> Option<(&'a mut Server, &'a mut Client)> {
    let server: &mut Server = servers.get_mut(index)?;
    let client: &mut Client = clients.get_mut(server.user.client?)?;
    Some((server, client))
}

impl<R: Reactor> EventLoop<R> {
    /// The client that has a server.
    pub(in crate::core) fn client_of(&self, index: usize) -> Option<usize> {
        self.servers.get(index)?.user.client
    }

    /// Takes a server and its client from each other. Returns the client, if there was one.
    pub(in crate::core) fn separate(&mut self, index: usize) -> Option<usize> {
        let client_index = self.servers.get_mut(index)?.user.client.take()?;
        self.clients.get_mut(client_index)?.server = None;
        Some(client_index)
    }
}

/// Why a client loses its server.
pub(in crate::core) fn lost(reported: Option<&Reported>) -> Refusal {
    let refusal = Refusal::new(
        corun_wire::error::code::CONNECTION_FAILURE,
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
