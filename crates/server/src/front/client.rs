//! [`Client`]: one connection on its event loop.
//!
//! ```text
//!  Login ─ entered ─► Busy ◄─── whole messages ─── Idle ─── short ones ──► Waiting (or done at once)
//!    │                 │ └──── done ───────────────►┘ └◄──── done ──────────┘ │
//!    └► Leaving ◄──────┴─ last words in the pipe ◄────────────────────────────┘
//! ```

use std::net::IpAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use corun_net::reactor::Token;
use corun_wire::server::Login;
use corun_wire::transport::Transport;
use tokio::sync::oneshot;

use super::access::LoginAccess;
use super::engine::SqlSession;
use super::outlet::Pipe;
use super::shared::ClientId;
use super::work::{Back, Serving, Work};

/// Bytes of a client that wait for its task before the client is paused, and that are not counted among all clients'.
pub(super) const INBOX_BYTES: usize = 64 << 10;

/// A connection.
pub(super) struct Client<S: SqlSession> {
    pub id: ClientId,
    pub transport: Transport,
    /// `None` over a Unix socket.
    pub address: Option<IpAddr>,
    /// Over a Unix socket.
    pub os_user: Option<String>,
    pub stage: Stage<S>,
    /// When the stage began.
    pub since: Duration,
    /// Plain bytes for the next task.
    pub inbox: Vec<u8>,
    /// Of these, bytes counted among all clients'.
    pub reserved: usize,
    /// When the first of these came, where they are of a message that is not whole.
    pub begun: Option<Duration>,
    pub paused: bool,
    /// It counts among the connections there may be.
    pub counted: bool,
    pub pipe: Arc<Pipe>,
    /// Of what the event loop serves itself.
    pub waker: Waker,
    /// Empty until it has logged in.
    pub user: String,
    /// Once it has logged in.
    pub pid: Option<u32>,
}

/// What a client is at.
pub(super) enum Stage<S: SqlSession> {
    /// It has not logged in; by what it is judged.
    Login(Box<Login>, LoginAccess),
    /// It waits for nothing.
    Idle(Box<Work<S>>),
    /// A task has its session.
    Busy(oneshot::Receiver<Back<S>>),
    /// The event loop serves it, which waits for something.
    Waiting(Serving<S>),
    /// What is in the pipe goes out, then the connection ends.
    Leaving,
}

const LISTENER_BIT: usize = 1;

/// The token of the connection in this slot.
pub(super) fn client_token(slot: usize) -> Token {
    slot << 1
}

/// The token of the listener with this number.
pub(super) fn listener_token(number: usize) -> Token {
    number << 1 | LISTENER_BIT
}

/// The slot of a connection's token.
pub(super) fn slot_of(token: Token) -> usize {
    token >> 1
}
