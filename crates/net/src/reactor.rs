//! Sockets as a thing that delivers bytes: one thread, many connections, no waiting but in one place.
//!
//! Order of calls: make a reactor ([`Epoll`], [`Uring`] or the simulated [`Twin`]), [`Reactor::listen`] and [`Reactor::connect`], then
//! [`Reactor::turn`] for ever. A turn waits for the kernel once and tells a [`Handler`] what happened, event by event;
//! the handler calls the reactor back from inside the event.
//!
//! ```text
//!           listen                       add                 pause / resume
//! Listener ────────► Accepted ─► Stream ──────┐               ┌────┐
//!                                             ▼               ▼    │        end, reset, failed send
//!           connect            Connected   ┌──────────────────────────┐ ───────────────────────────► Closed
//! Address ────────► connecting ──────────► │ open: Data …, Drained …  │
//!                        │                 └──────────────────────────┘ ─► close, close_after_drain, take: no event
//!                        └─► Closed
//! ```
//!
//! The rules both sides rely on:
//! - Bytes of one connection arrive in order and exactly once, whatever the splits. `Data` comes before `Closed`, also when
//!   the other side sent its last words and went away, and also when a send has failed meanwhile.
//! - `Closed` is the last event of a token. Whatever the handler closed or took has no event afterwards, not even in the same
//!   turn, and its token may be used again at once.
//! - A paused connection gets neither `Data` nor its end, which comes after data; both wait for [`Reactor::resume`]. Only a
//!   failed send ends a paused connection at once, and what was readable is lost with it.
//! - [`Reactor::queued`] above zero promises `Drained` (or `Closed`). Whoever stops another connection because of it will
//!   hear when to go on.
//! - No connection is read more than a few times in a turn while others wait.
//!
//! Not here: messages, timers of the caller, TLS, and threads. One reactor belongs to one thread; only its [`Waker`] goes
//! to others, and streams do ([`Reactor::take`], [`Reactor::add`]).

mod epoll;
mod kernel;
mod listen;
mod output;
mod stream;
mod table;
pub mod twin;
mod uring;
mod waker;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use epoll::Epoll;
pub use listen::{ListenOptions, Listener, SocketFile};
pub use stream::{KeepAlive, Peer, Stream, TcpOptions};
pub use twin::Twin;
pub use uring::Uring;
pub use waker::Waker;

/// The caller's name of a connection or listener; unique among those alive in one reactor, and below [`TOKEN_END`].
pub type Token = usize;

/// Tokens from here on are the reactor's own.
pub const TOKEN_END: Token = 1 << (usize::BITS - 2);

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An IP address and port.
    Tcp(SocketAddr),
    /// The path of a unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::Unix(path) => write!(formatter, "{}", path.display()),
        }
    }
}

/// What happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// Somebody connected to a listener. The stream is not in the reactor yet: [`Reactor::add`] it, here or elsewhere.
    Accepted {
        /// The listener's token.
        listener: Token,
        /// The new connection.
        stream: Stream,
    },
    /// [`Reactor::connect`] succeeded.
    Connected {
        /// The connection.
        token: Token,
    },
    /// Bytes arrived.
    Data {
        /// The connection they are from.
        token: Token,
        /// At least one byte. Valid during the call only: the handler consumes all of them.
        bytes: &'a [u8],
    },
    /// All queued output has been taken by the kernel, after some had been left over.
    Drained {
        /// The connection.
        token: Token,
    },
    /// The connection ended, or could not be made. The token is free.
    Closed {
        /// The connection.
        token: Token,
        /// None when the other side ended it in an orderly way.
        error: Option<io::Error>,
    },
    /// Somebody used the [`Waker`], once or several times.
    Woken,
}

/// Who is told what happened.
pub trait Handler<R: Reactor + ?Sized> {
    /// One event. It may call the reactor for this or any other token, but not [`Reactor::turn`].
    fn event(&mut self, reactor: &mut R, event: Event<'_>);
}

/// A set of connections and listeners served by one thread.
///
/// Methods that name an unknown token do nothing: it may have ended a moment ago.
pub trait Reactor {
    /// Accepts connections of this listener from the next turn on.
    ///
    /// # Errors
    /// When the token is taken or reserved, or the kernel refuses.
    fn listen(&mut self, token: Token, listener: Listener) -> io::Result<()>;

    /// Lets no new TCP connections begin at this listener, and accepts those that are being made; see [`Listener::drop_syns`]. Where the
    /// kernel does not do that, nothing changes.
    fn drop_syns(&mut self, token: Token);

    /// Stops accepting and closes the listener. The file of a unix socket stays where it is.
    fn unlisten(&mut self, token: Token);

    /// Delivers what this stream receives from the next turn on. The stream is made non-blocking and, over TCP, told to send
    /// small packets at once.
    ///
    /// # Errors
    /// When the token is taken or reserved, or the kernel refuses; the stream is closed then.
    fn add(&mut self, token: Token, stream: Stream) -> io::Result<()>;

    /// Begins to connect. [`Event::Connected`] or [`Event::Closed`] follows in a later turn, also where the answer is known
    /// at once. Output may be queued meanwhile. There is no time limit but the kernel's: [`Reactor::close`] gives up. A unix
    /// socket too busy to queue another connection ends with [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// When the token is taken or reserved, or there are no more file descriptors; no event follows then.
    fn connect(&mut self, token: Token, address: &Address) -> io::Result<()>;

    /// Sends bytes, in the order of the calls. Never blocks: small pieces are gathered and written when the event's handler
    /// returns (over io_uring: when the next turn begins), large ones at once, and what the kernel does not take is kept
    /// until it does.
    fn send(&mut self, token: Token, bytes: &[u8]);

    /// Bytes the kernel has refused so far and those sent after them; the caller bounds them by pausing the other side. Zero
    /// while the kernel takes everything, whatever is being gathered (at most 64 KiB).
    fn queued(&self, token: Token) -> usize;

    /// Stops delivering data of this connection.
    fn pause(&mut self, token: Token);

    /// Delivers data again.
    fn resume(&mut self, token: Token);

    /// Closes now, without an event; over io_uring when the next turn begins. Unsent output gets one last try.
    fn close(&mut self, token: Token);

    /// Closes without an event, but only after what is queued was sent and the other side has seen the end of it, or after
    /// `within`. Its token is free at once; what the other side still sends is read and thrown away, since a close with
    /// unread input would make its kernel drop our last words.
    fn close_after_drain(&mut self, token: Token, within: Duration);

    /// Takes a connection out, for another reactor. None when it is unknown, still connecting, broken, has output queued or
    /// input that was received but not delivered: ask again after its next event.
    fn take(&mut self, token: Token) -> Option<Stream>;

    /// Who is at the other end.
    fn peer(&self, token: Token) -> Option<Peer>;

    /// Our own address, of a TCP connection.
    fn local(&self, token: Token) -> Option<SocketAddr>;

    /// Gives the TCP connections that are made from now on ([`Reactor::connect`]) buffers of this size in the kernel; `None`: the system's.
    /// Does nothing in a simulation.
    fn set_buffers(&mut self, bytes: Option<usize>);

    /// Sets options of a TCP connection; does nothing for a unix socket.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn set_tcp_options(&mut self, token: Token, options: &TcpOptions) -> io::Result<()>;

    /// What makes [`Reactor::turn`] return from other threads.
    fn waker(&self) -> Waker;

    /// Time since some start; never goes back.
    fn now(&self) -> Duration;

    /// Waits until something happens, at most for `timeout` (None: for ever), and delivers it. Returns after one round of
    /// events, which may be empty.
    ///
    /// # Errors
    /// When waiting itself fails; errors of connections are events.
    fn turn<H: Handler<Self>>(&mut self, timeout: Option<Duration>, handler: &mut H) -> io::Result<()>
    where
        Self: Sized;
}

/// Reads of one connection in a turn, of up to [`READ_BYTES`] each, before others have theirs. Unmeasured.
const READS_PER_TURN: usize = 4;

/// Connections accepted of one listener in a turn. Unmeasured.
const ACCEPTS_PER_TURN: usize = 64;

/// The buffer that all connections of a reactor are read into.
const READ_BYTES: usize = 64 * 1024;

/// How long a listener waits after the kernel had no descriptor or memory for another connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

fn reserved(token: Token) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("token {token} is not below {TOKEN_END}, or names another connection"),
    )
}

fn not_real() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "a simulated stream or listener in a reactor over the kernel",
    )
}

/// Whether an accept failed for want of something that may be there again soon.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
