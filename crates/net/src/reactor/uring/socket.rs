//! What the reactor over io_uring remembers of one connection or listener, and how its requests are named.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::reactor::kernel::KernelStream;
use crate::reactor::output::{Output, Spare};
use crate::reactor::{Listener, Token};

/// A numbered thing with requests in the kernel. Its number is free again when none is left.
pub(super) enum Slot {
    Socket(Box<Socket>),
    Door(Door),
}

/// A listener.
pub(super) struct Door {
    pub token: Token,
    /// None when it was closed.
    pub listener: Option<Listener>,
    pub accepting: bool,
    /// Completions noted and not yet acted on.
    pub pending: usize,
}

impl Door {
    /// As [`super::Reactor::drop_syns`].
    pub fn drop_syns(&self) {
        if let Some(listener) = &self.listener {
            let _ = listener.drop_syns();
        }
    }
}

/// A connection.
pub(super) struct Socket {
    pub token: Token,
    pub stream: KernelStream,
    pub state: State,
    /// Not yet given to the kernel.
    pub output: Output,
    /// Given to the kernel, which may read it until the request is done; `sending[sent..]` is still to be sent.
    pub sending: Vec<u8>,
    pub sent: usize,
    pub send_runs: bool,
    pub receive_runs: bool,
    pub poll_runs: bool,
    /// The receive was asked to stop.
    pub stopping: bool,
    /// Completions noted and not yet acted on.
    pub pending: usize,
    /// Received while it was paused; `held[given..]` is still to be delivered.
    pub held: Vec<u8>,
    pub given: usize,
    /// The other side has ended, with this error if any; told when everything before is delivered.
    pub ended: Option<Option<io::Error>>,
    /// How a send went wrong; nothing is sent any more.
    pub failed: Option<io::Error>,
    /// [`crate::reactor::Reactor::queued`] was not zero, so an event is owed.
    pub blocked: bool,
    pub drained: bool,
    pub paused: bool,
    pub listed: bool,
    pub gathered: bool,
    pub said_goodbye: bool,
}

/// Where a connection is in its life.
pub(super) enum State {
    Connecting {
        refused: Option<io::Error>,
    },
    Open,
    Leaving {
        until: Duration,
    },
    /// Closed; only its requests are left.
    Dead,
}

/// What a completion was of, in its name: the slot in the low 32 bits, this above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Wake = 0,
    Cancel = 1,
    Accept = 2,
    Connect = 3,
    Receive = 4,
    Send = 5,
}

/// A completion to be acted on in a turn.
pub(super) enum Arrival {
    Woken,
    Accepted {
        slot: usize,
        result: io::Result<OwnedFd>,
    },
    Connected {
        slot: usize,
    },
    Data {
        slot: usize,
        buffer: u16,
        count: usize,
    },
    Ended {
        slot: usize,
        error: Option<io::Error>,
    },
}

pub(super) fn name(request: Request, slot: usize) -> u64 {
    debug_assert!(u32::try_from(slot).is_ok());
    (request as u64) << 32 | slot as u64
}

pub(super) fn named(name: u64) -> (Option<Request>, usize) {
    let slot = (name & u64::from(u32::MAX)) as usize;
    let requests = [
        Request::Wake,
        Request::Cancel,
        Request::Accept,
        Request::Connect,
        Request::Receive,
        Request::Send,
    ];
    (requests.get((name >> 32) as usize).copied(), slot)
}

impl Socket {
    pub fn new(token: Token, stream: KernelStream, state: State) -> Self {
        Self {
            token,
            stream,
            state,
            output: Output::default(),
            sending: Vec::new(),
            sent: 0,
            send_runs: false,
            receive_runs: false,
            poll_runs: false,
            stopping: false,
            pending: 0,
            held: Vec::new(),
            given: 0,
            ended: None,
            failed: None,
            blocked: false,
            drained: false,
            paused: false,
            listed: false,
            gathered: false,
            said_goodbye: false,
        }
    }

    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Nothing in the kernel and nothing on the way from it.
    pub fn is_idle(&self) -> bool {
        !(self.send_runs || self.receive_runs || self.poll_runs) && self.pending == 0
    }

    /// Closed, and nothing names it any more.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Dead) && self.is_idle() && !self.listed && !self.gathered
    }

    pub fn has_held(&self) -> bool {
        self.given < self.held.len()
    }

    pub fn unsent(&self) -> usize {
        self.output.len() + self.sending.len() - self.sent
    }

    /// Whether a receive should be running.
    pub fn wants_receive(&self) -> bool {
        let alive = match self.state {
            State::Open => !self.paused && self.failed.is_none(),
            State::Leaving { .. } => true,
            State::Connecting { .. } | State::Dead => false,
        };
        alive && !self.receive_runs && self.ended.is_none() && !self.has_held()
    }

    /// Notes that a send has ended, well or not.
    pub fn sent(&mut self, result: io::Result<usize>, spare: &mut Spare) {
        self.send_runs = false;
        match result {
            Ok(count) => {
                self.sent += count;
                if self.sent >= self.sending.len() {
                    self.sent = 0;
                    spare.give(std::mem::take(&mut self.sending));
                }
                if self.unsent() == 0 && std::mem::take(&mut self.blocked) {
                    self.drained = true;
                }
            }
            Err(error) => self.fail(error, spare),
        }
    }

    pub fn fail(&mut self, error: io::Error, spare: &mut Spare) {
        self.output.clear(spare);
        if !self.send_runs {
            self.sending = Vec::new();
            self.sent = 0;
        }
        self.blocked = false;
        self.drained = false;
        self.failed.get_or_insert(error);
    }
}
