//! What the reactor over epoll remembers of one connection.

use std::io;
use std::time::Duration;

use crate::reactor::kernel::KernelStream;
use crate::reactor::output::{DIRECT_BYTES, GATHERED_BYTES_MAX, Output};

/// One connection. While it is idle it owns nothing but its stream.
pub(super) struct Socket {
    pub stream: KernelStream,
    pub state: State,
    pub output: Output,
    /// How a send went wrong; nothing is sent any more.
    pub failed: Option<io::Error>,
    /// Output is queued because the kernel refused some, or because it is not connected yet.
    pub blocked: bool,
    /// There may be something to read.
    pub readable: bool,
    /// The kernel has room for output again.
    pub writable: bool,
    /// The other side has ended; it is still to be read up to there.
    pub ended: bool,
    pub paused: bool,
    /// It stands in the list of those to be served.
    pub listed: bool,
    /// It stands in the list of those whose output is gathered.
    pub gathered: bool,
    /// The kernel was told to report room for output.
    pub writable_known: bool,
    /// A connection that leaves has told the other side.
    pub said_goodbye: bool,
}

/// Where a connection is in its life.
pub(super) enum State {
    Connecting {
        /// The answer, where it was known at once.
        refused: Option<io::Error>,
    },
    Open,
    /// Closed by the caller; what is queued is sent until then.
    Leaving {
        until: Duration,
    },
}

impl Socket {
    pub fn new(stream: KernelStream, state: State) -> Self {
        Self {
            stream,
            state,
            output: Output::default(),
            failed: None,
            blocked: false,
            readable: false,
            writable: false,
            ended: false,
            paused: false,
            listed: false,
            gathered: false,
            writable_known: false,
            said_goodbye: false,
        }
    }

    /// Notes what the kernel says.
    pub fn note(&mut self, event: &mio::event::Event) {
        let ended = event.is_read_closed() || event.is_error();
        self.ended |= ended;
        self.readable |= ended || event.is_readable();
        self.writable |= event.is_writable();
    }

    /// Whether it is worth being served now.
    pub fn has_work(&self) -> bool {
        match self.state {
            State::Connecting { .. } | State::Leaving { .. } => true,
            State::Open => (self.writable && self.blocked) || self.wants_read(),
        }
    }

    /// Whether there is something to read or an end to be told.
    pub fn wants_read(&self) -> bool {
        self.failed.is_some() || (self.readable && !self.paused)
    }

    /// Whether an open connection has just got rid of all its output.
    pub fn has_drained(&self) -> bool {
        !self.blocked && self.failed.is_none()
    }

    /// Whether a piece of this size is written at once rather than gathered.
    pub fn goes_at_once(&self, bytes: usize) -> bool {
        bytes >= DIRECT_BYTES || self.output.len() + bytes > GATHERED_BYTES_MAX
    }

    pub fn leave(&mut self, until: Duration) {
        self.state = State::Leaving { until };
        self.listed = false;
        self.gathered = false;
        self.paused = false;
        self.blocked = false;
    }
}
