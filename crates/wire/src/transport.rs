//! [`Transport`]: a socket with or without TLS.
//!
//! What arrives goes through [`Transport::open`], which returns the plain bytes; what is sent through [`Transport::send`].

use corun_net::reactor::{Reactor, Token};

use crate::tls::Progress;
use crate::tls::{TlsError, TlsSession};

/// Records of TLS are at most this many plain bytes; longer sends are cut, so that no large buffer is needed.
const RECORD_BYTES: usize = 16 * 1024;

/// One side of a connection.
#[derive(Default)]
pub struct Transport {
    /// Its socket in the reactor.
    pub token: Token,
    /// Its TLS session, once one has begun.
    pub tls: Option<Box<TlsSession>>,
}

/// What became of bytes that arrived over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// There is more to come.
    Open,
    /// The other side has said that it sends no more.
    Ended,
}

impl Transport {
    /// A socket without TLS.
    pub fn new(token: Token) -> Self {
        Self { token, tls: None }
    }

    /// Sends plain bytes.
    #[inline]
    pub fn send<R: Reactor>(&mut self, reactor: &mut R, bytes: &[u8]) {
        match &mut self.tls {
            None => reactor.send(self.token, bytes),
            Some(tls) => {
                let mut cipher = Vec::with_capacity(bytes.len().min(RECORD_BYTES) + 64);
                for part in bytes.chunks(RECORD_BYTES) {
                    cipher.clear();
                    tls.send(part, &mut cipher);
                    reactor.send(self.token, &cipher);
                }
            }
        }
    }

    /// Sends what the TLS session itself has to say.
    pub fn flush<R: Reactor>(&mut self, reactor: &mut R) {
        if let Some(tls) = &mut self.tls {
            let mut cipher = Vec::new();
            tls.flush(&mut cipher);
            if !cipher.is_empty() {
                reactor.send(self.token, &cipher);
            }
        }
    }

    /// Says that nothing more is sent.
    pub fn end<R: Reactor>(&mut self, reactor: &mut R) {
        if let Some(tls) = &mut self.tls {
            let mut cipher = Vec::new();
            tls.close(&mut cipher);
            reactor.send(self.token, &cipher);
        }
    }

    /// Takes what arrived over TLS and appends what it says to `plain`.
    ///
    /// # Errors
    /// When it is not what TLS expects; the connection is to be closed after what is queued.
    pub fn open<R: Reactor>(
        &mut self,
        reactor: &mut R,
        bytes: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<Opened, TlsError> {
        let Some(tls) = &mut self.tls else {
            plain.extend(bytes);
            return Ok(Opened::Open);
        };
        let mut cipher = Vec::new();
        let result = tls.received(bytes, plain, &mut cipher);
        if !cipher.is_empty() {
            reactor.send(self.token, &cipher);
        }
        Ok(match result? {
            Progress::PeerClosed => Opened::Ended,
            Progress::Handshaking | Progress::Open => Opened::Open,
        })
    }

    /// Whether a handshake is under way.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }
}
