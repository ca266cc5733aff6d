//! [`Transport`]: a socket with or without TLS.
//!
//! What arrives goes through [`Transport::open`], which answers the plain bytes; what is sent through [`Transport::send`].

use machine::reactor::{Reactor, Token};

use crate::tls::{TlsClient, TlsError, TlsServer};

/// Records of TLS are at most this many plain bytes; longer sends are cut, so that no large buffer is needed.
const RECORD_BYTES: usize = 16 * 1024;

/// One side of a connection.
pub(super) struct Transport {
    /// Its socket in the reactor.
    pub token: Token,
    pub tls: Option<Tls>,
}

/// A TLS session.
pub(super) enum Tls {
    /// With a client, whose server we are.
    Client(Box<TlsServer>),
    /// With a server, whose client we are.
    Server(Box<TlsClient>),
}

impl Transport {
    pub fn new(token: Token) -> Self {
        Self { token, tls: None }
    }

    /// Sends plain bytes.
    #[inline]
    pub fn send<R: Reactor>(&mut self, reactor: &mut R, bytes: &[u8]) {
        match &mut self.tls {
            None => reactor.send(self.token, bytes),
            Some(tls) => {
                let mut cipher = Vec::with_capacity(bytes.len() + 64);
                for part in bytes.chunks(RECORD_BYTES) {
                    cipher.clear();
                    tls.seal(part, &mut cipher);
                    reactor.send(self.token, &cipher);
                }
            }
        }
    }

    /// Takes what arrived. `Ok(true)`: `plain` has what it holds; `Ok(false)`: there is no TLS, it is plain as it came.
    ///
    /// # Errors
    /// When it is not what TLS expects; the connection is to be closed after what is queued.
    pub fn open<R: Reactor>(&mut self, reactor: &mut R, bytes: &[u8], plain: &mut Vec<u8>) -> Result<bool, TlsError> {
        let Some(tls) = &mut self.tls else {
            return Ok(false);
        };
        let mut cipher = Vec::new();
        let result = match tls {
            Tls::Client(session) => session.received(bytes, plain, &mut cipher),
            Tls::Server(session) => session.received(bytes, plain, &mut cipher),
        };
        if !cipher.is_empty() {
            reactor.send(self.token, &cipher);
        }
        result.map(|()| true)
    }

    /// Whether bytes sent now would go out protected, or as plain as intended.
    pub fn established(&self) -> bool {
        match &self.tls {
            None => true,
            Some(Tls::Client(session)) => !session.is_handshaking(),
            Some(Tls::Server(session)) => !session.is_handshaking(),
        }
    }
}

impl Tls {
    fn seal(&mut self, plain: &[u8], cipher: &mut Vec<u8>) {
        match self {
            Self::Client(session) => session.send(plain, cipher),
            Self::Server(session) => session.send(plain, cipher),
        }
    }
}
