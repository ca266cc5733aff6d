//! [`Client`]: one client's connection and session.
//!
//! ```text
//!  Startup ─► (TLS handshake, then Startup again) ─► Authenticating ─► Greeting ─► Ready ─► closed
//!     │                                                   │ (secret looked up: Looking)    server: None, idle
//!     └ cancel request: answered and closed               └ Console, for the console's database   waiting: in the pool's queue
//!                                                                                        server: Some, attached
//! ```

pub(in crate::core) mod entrance;
pub(in crate::core) mod os_users;
mod requests;
pub(in crate::core) mod secrets;
pub(in crate::core) mod start;
pub(in crate::core) mod wait;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use corun_model::pooler::replicas::split::{Place, Session as Split};
use corun_net::reactor::{Peer, Token};

use crate::core::client::wait::Wait;
use crate::core::heavy_queue::Turn;
use crate::core::listen::Listens;
use crate::session::catalogue::Effects;
use crate::session::prepared::ClientStatements;
use crate::session::settings::Settings;
use crate::understand::{Pins, Understood};
use corun_wire::auth::Authenticator;
use corun_wire::server::Negotiation;
use corun_wire::startup::{Kind, Startup};
use corun_wire::transport::Transport;

/// Logs what becomes of a client, with who it is.
macro_rules! log_client {
    ($client:expr, $($told:tt)+) => {
        tracing::info!(
            client = $client.id,
            user = &*$client.user,
            database = &*$client.database,
            from = $client.origin(),
            $($told)+
        )
    };
}
pub(in crate::core) use log_client;

/// Where a connection stands.
#[derive(Default)]
pub(in crate::core) enum Phase {
    /// The first packet is awaited, again after each refusal or handshake of encryption.
    #[default]
    Startup,
    /// A secret is looked up with `auth_query`.
    Looking(Box<Entrance>),
    /// The client proves who it is.
    Authenticating(Box<Entrance>, Box<Authenticator>),
    /// It has proved it; the server's parameters are awaited.
    Greeting(Box<Entrance>),
    /// In use.
    Ready,
    /// The console.
    Console,
    /// What is queued is sent, then it is closed; nothing more is read.
    Closing,
}

/// What is known of a client that is on its way in.
#[derive(Debug)]
pub(in crate::core) struct Entrance {
    pub startup: Startup,
    pub kind: Kind,
    pub method: corun_wire::auth::Method,
    /// Map of names that its rule names.
    pub map: Option<String>,
    /// It asks for the console.
    pub console: bool,
}

/// What is not known of a session: its server is asked before that goes to somebody else.
#[derive(Default)]
pub(in crate::core) struct Doubt {
    /// Something that pins it may be gone: the server is asked before the pins count.
    pub ask_pins: bool,
    /// Settings may differ: they are read back before the server goes to somebody else.
    pub read_back: bool,
    /// Settings that the server's view does not list and that may have changed.
    pub touched: BTreeSet<Box<str>>,
    /// What code that its texts do not show may have done to the session: the server is asked once somebody else needs it.
    pub hidden: Effects,
    /// Texts of which that is not known yet.
    pub unjudged: Vec<Arc<Understood>>,
    /// It changed code of the database's own, or what runs it, since that was looked at last.
    pub recodes: bool,
}

/// What a client's transaction has done so far, for all that its texts say.
#[derive(Default)]
pub(in crate::core) struct Transaction {
    /// It wrote, or may have.
    pub wrote: bool,
    /// It changes definitions, or may.
    pub defines: bool,
    /// The client has sent what begins a transaction block.
    pub began: bool,
}

/// A transaction block that has begun for the client only.
pub(in crate::core) struct Begun {
    pub text: Vec<u8>,
    pub understood: Arc<Understood>,
    pub since: Duration,
}

/// A client.
#[derive(Default)]
pub(in crate::core) struct Client {
    // Fixed for its life.
    pub transport: Transport,
    /// Number, unique in the process.
    pub id: u64,
    pub peer: Option<Peer>,
    pub local: Option<SocketAddr>,
    pub connected: Duration,
    // From logging in.
    pub phase: Phase,
    pub database: Arc<str>,
    pub user: Arc<str>,
    pub application: Arc<str>,
    /// Its pool on the primary.
    pub pool: usize,
    pub pid: u32,
    pub secret: Vec<u8>,
    /// May change things on the console.
    pub admin: bool,
    /// It came when the process took clients no more: for cancel requests, or the console.
    pub cancels_only: bool,
    /// Counted among its pool's clients.
    pub counted: bool,
    pub negotiation: Negotiation,
    // The session.
    /// What its start-up packet asked for: its defaults.
    pub start: Arc<Settings>,
    pub settings: Arc<Settings>,
    pub statements: ClientStatements,
    pub pins: Pins,
    /// Pins that end once what was sent has succeeded.
    pub unpins: Pins,
    /// What its server has to be asked before somebody else gets that.
    pub doubt: Doubt,
    /// It asks for the last number of a sequence: that must not be another client's.
    pub sequences: bool,
    pub transaction: Transaction,
    /// What the read/write split keeps of it.
    pub split: Split,
    /// Where its next transaction goes, decided and not begun yet.
    pub place: Option<Place>,
    /// It was told that its transaction block has begun, and no server knows of it yet: the text that began it.
    pub begun: Option<Box<Begun>>,
    /// What a hub listens to for it.
    pub listens: Option<Box<Listens>>,
    // Who serves it.
    pub server: Option<usize>,
    pub wait: Wait,
    /// Its request is a heavy one: where that stands.
    pub turn: Option<Box<Turn>>,
    /// Its bytes wait until its server has answered what is under way, be it a question of the proxy's own.
    pub held: bool,
    /// Its next request runs whole, whatever it is.
    pub whole: bool,
    // Reading.
    pub inbox: Vec<u8>,
    /// Bytes of a message that are still to come and go to the server.
    pub passing: usize,
    pub paused: bool,
    /// What the first statement in `inbox` does, where that was looked up before it had to wait.
    pub first: Option<Arc<Understood>>,
    // Times.
    pub since: Duration,
    pub cancel_wanted: bool,
    /// Its session with the console, from its first message.
    pub console: Option<Box<crate::core::console::ConsoleSession>>,
}

impl Client {
    pub fn new(token: Token, id: u64, now: Duration) -> Self {
        Self {
            transport: Transport::new(token),
            id,
            connected: now,
            pool: usize::MAX,
            since: now,
            ..Self::default()
        }
    }

    /// The token of its socket.
    pub fn token(&self) -> Token {
        self.transport.token
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// What is known of it, where that is looked up: the caller goes on with it and sets the next phase.
    pub fn take_entrance(&mut self) -> Option<Box<Entrance>> {
        match std::mem::replace(&mut self.phase, Phase::Closing) {
            Phase::Looking(entrance) => Some(entrance),
            other => {
                self.phase = other;
                None
            }
        }
    }

    /// What was taken from it comes back: it is served again, before all that has come since.
    pub fn put_back(&mut self, mut bytes: Vec<u8>) {
        bytes.append(&mut self.inbox);
        self.inbox = bytes;
        self.first = None;
    }

    /// Where it comes from, for logs and the server.
    pub fn origin(&self) -> String {
        match &self.peer {
            Some(Peer::Tcp(address)) => address.to_string(),
            Some(Peer::Unix { pid: Some(pid), .. }) => format!("unix({pid})"),
            Some(Peer::Unix { pid: None, .. }) | None => "unix".to_owned(),
        }
    }

    /// Whether its bytes must wait.
    pub(in crate::core) fn waits(&self) -> bool {
        self.wait.waits() || self.queues() || self.held
    }
}
