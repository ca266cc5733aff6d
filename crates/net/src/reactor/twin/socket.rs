//! What a simulated reactor remembers of one connection.

use std::io;
use std::time::Duration;

use super::End;
use super::network::{Answer, Inner};
use crate::reactor::Address;
use crate::reactor::output::{DIRECT_BYTES, GATHERED_BYTES_MAX};

/// One connection.
#[derive(Debug)]
pub(super) struct Socket {
    /// None while it connects.
    pub end: Option<End>,
    pub state: State,
    pub failed: Option<io::Error>,
    pub paused: bool,
    /// Output is queued because the kernel refused some, or because it is not connected yet.
    pub blocked: bool,
    output: Vec<u8>,
    said_goodbye: bool,
}

/// Where it is in its life.
#[derive(Debug)]
pub(super) enum State {
    Connecting(Address),
    Open,
    Leaving { until: Duration },
}

/// What a read found.
pub(super) enum Received {
    Nothing,
    Bytes(Vec<u8>),
    End(Option<io::Error>),
}

impl Socket {
    pub fn open(end: End) -> Self {
        Self {
            end: Some(end),
            state: State::Open,
            failed: None,
            paused: false,
            blocked: false,
            output: Vec::new(),
            said_goodbye: false,
        }
    }

    pub fn connecting(address: Address) -> Self {
        Self {
            end: None,
            state: State::Connecting(address),
            failed: None,
            paused: false,
            blocked: true,
            output: Vec::new(),
            said_goodbye: false,
        }
    }

    pub fn has_work(&self, inner: &Inner) -> bool {
        if let State::Connecting(address) = &self.state {
            let served = inner.servers.iter().find(|served| served.address == *address);
            return served.is_none_or(|served| served.answer != Answer::Silence);
        }
        let Some(connection) = self.end.as_ref().and_then(|end| inner.connections.get(&end.id)) else {
            return false;
        };
        let room = connection.outward.len() < connection.room || connection.gone;
        let input = !connection.inward.is_empty() || connection.finished || connection.reset;
        match self.state {
            State::Leaving { until } => {
                // The end of one that still sends is no news.
                let news = !connection.inward.is_empty() || connection.reset || (input && !self.blocked);
                inner.now >= until || (self.blocked && room) || !(self.blocked || self.said_goodbye) || news
            }
            _ => self.failed.is_some() || (!self.output.is_empty() && room) || (input && !self.paused),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        if self.failed.is_some() || bytes.is_empty() {
            return;
        }
        self.output.extend_from_slice(bytes);
        if bytes.len() >= DIRECT_BYTES || self.output.len() > GATHERED_BYTES_MAX {
            self.flush();
        }
    }

    pub fn queued(&self) -> usize {
        if self.blocked { self.output.len() } else { 0 }
    }

    /// Writes what was gathered.
    pub fn flush(&mut self) {
        if !self.blocked && !self.output.is_empty() {
            self.write();
        }
    }

    /// Writes until the kernel takes no more.
    pub fn write(&mut self) {
        let Some(end) = &self.end else {
            return;
        };
        let mut inner = end.network.lock();
        while !self.output.is_empty() {
            let unlucky = inner.once_in(8);
            let Some(connection) = inner.connections.get(&end.id) else {
                return;
            };
            if connection.reset || connection.gone {
                let kind = if connection.reset {
                    io::ErrorKind::ConnectionReset
                } else {
                    io::ErrorKind::BrokenPipe
                };
                self.failed = Some(kind.into());
                self.output.clear();
                break;
            }
            let room = connection.room.saturating_sub(connection.outward.len());
            let count = self.output.len().min(room);
            if count == 0 || unlucky {
                break;
            }
            let count = inner.piece(count);
            if let Some(connection) = inner.connections.get_mut(&end.id) {
                connection.outward.extend(self.output.drain(..count));
            }
        }
        self.blocked = !self.output.is_empty();
    }

    pub fn receive(&mut self, bytes_max: usize) -> Received {
        let Some(end) = &self.end else {
            return Received::Nothing;
        };
        let mut inner = end.network.lock();
        let available = inner.connections.get(&end.id).map_or(0, |c| c.inward.len());
        let count = inner.piece(available.min(bytes_max));
        let Some(connection) = inner.connections.get_mut(&end.id) else {
            return Received::Nothing;
        };
        if self.paused {
            return match self.failed.take() {
                Some(error) => Received::End(Some(error)),
                None => Received::Nothing,
            };
        }
        if count > 0 {
            return Received::Bytes(connection.inward.drain(..count).collect());
        }
        match self.failed.take() {
            Some(error) => Received::End(Some(error)),
            None if connection.reset => Received::End(Some(io::ErrorKind::ConnectionReset.into())),
            None if connection.finished => Received::End(None),
            None => Received::Nothing,
        }
    }

    /// Begins to say goodbye; false when there is nobody to hear it.
    pub fn leave(&mut self, until: Duration) -> bool {
        if !matches!(self.state, State::Open) || self.failed.is_some() {
            return false;
        }
        self.state = State::Leaving { until };
        self.blocked = !self.output.is_empty();
        true
    }

    /// Whether it has left.
    pub fn serve_leaving(&mut self) -> bool {
        self.write();
        let Some(end) = &self.end else {
            return true;
        };
        let mut inner = end.network.lock();
        let late = matches!(self.state, State::Leaving { until } if inner.now >= until);
        let Some(connection) = inner.connections.get_mut(&end.id) else {
            return true;
        };
        connection.inward.clear();
        if !self.blocked {
            connection.shut = true;
            self.said_goodbye = true;
        }
        late || self.failed.is_some() || connection.reset || (self.said_goodbye && connection.finished)
    }
}
