//! One TLS session over byte slices.
//!
//! ```text
//!            received(cipher) ─► plain, and bytes that must go back (`reply`)
//! Handshaking ──────────────► Open ──────────────► PeerClosed
//!            send(plain) ─► cipher          close() ─► cipher
//! ```

use std::io::{self, Read, Write as _};

use rustls::Connection;

use super::server::TlsServer;
use super::{ALPN, TlsError, certificate};

/// Ciphertext after which the session's buffer for incoming records is made small again, in bytes.
const SHRINK_AFTER: usize = 4096;

/// How far a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The handshake goes on; what is sent meanwhile waits inside.
    Handshaking,
    /// Both sides may send.
    Open,
    /// The other side will send no more (close_notify). An end of the stream without it may be an attacker's doing.
    PeerClosed,
}

/// Who is at the other end.
pub(super) enum Peer {
    Client { server: TlsServer },
    Server,
}

/// A TLS session with a client or a server.
pub struct TlsSession {
    connection: Connection,
    peer: Peer,
    /// Ciphertext taken since the incoming buffer was last made small.
    taken: usize,
}

debug_shows!(TlsSession, this => { description: this.description() });

impl TlsSession {
    pub(super) fn new(mut connection: Connection, peer: Peer) -> Self {
        // What waits is bounded by the caller, who is told by the other side's back-pressure; a limit here would cut messages.
        connection.set_buffer_limit(None);
        Self {
            connection,
            peer,
            taken: 0,
        }
    }

    /// Takes ciphertext as it came, all of it; appends what it says to `plain`, and what must be sent back to `reply`. `plain`
    /// grows by no more than `cipher` has bytes, a record begun earlier (16 KiB) besides.
    ///
    /// # Errors
    /// The session is over. `reply` then holds the alert that tells the other side why; send it and close.
    pub fn received(
        &mut self,
        cipher: &[u8],
        plain: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<Progress, TlsError> {
        let mut rest = cipher;
        self.taken = self.taken.saturating_add(cipher.len());
        while !rest.is_empty() {
            let took = self
                .connection
                .read_tls(&mut rest)
                .map_err(|_| rustls::Error::General("a record is too large".into()));
            let state = took.and_then(|took| Ok((took, self.connection.process_new_packets()?)));
            let (took, state) = match state {
                Ok(state) => state,
                Err(error) => {
                    self.flush(reply);
                    return Err(error.into());
                }
            };
            let ready = state.plaintext_bytes_to_read();
            if ready > 0 {
                let before = plain.len();
                plain.resize(before + ready, 0);
                let read = self.connection.reader().read(&mut plain[before..]).unwrap_or(0);
                plain.truncate(before + read);
            }
            if took == 0 || state.peer_has_closed() {
                self.flush(reply);
                return Ok(Progress::PeerClosed); // what follows a close_notify belongs to no session
            }
        }
        self.flush(reply);
        self.shrink();
        Ok(if self.connection.is_handshaking() {
            Progress::Handshaking
        } else {
            Progress::Open
        })
    }

    /// Appends `plain`, encrypted, to `cipher`. During the handshake it waits inside instead.
    pub fn send(&mut self, plain: &[u8], cipher: &mut Vec<u8>) {
        // Writing into memory does not fail: there is no limit, and a closed session takes and drops.
        let _ = self.connection.writer().write_all(plain);
        self.flush(cipher);
    }

    /// Appends what waits to be sent: at the start of a session with a server its ClientHello.
    pub fn flush(&mut self, cipher: &mut Vec<u8>) {
        while self.connection.wants_write() {
            match self.connection.write_tls(cipher) {
                Ok(written) if written > 0 => {}
                _ => break,
            }
        }
    }

    /// Appends a close_notify: this side sends nothing more.
    pub fn close(&mut self, cipher: &mut Vec<u8>) {
        self.connection.send_close_notify();
        self.flush(cipher);
    }

    /// Lets go of the memory of a large record, which rustls keeps until the next one begins.
    fn shrink(&mut self) {
        struct Nothing;
        impl Read for Nothing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
        if self.taken > SHRINK_AFTER {
            let _ = self.connection.read_tls(&mut Nothing);
            self.taken = 0;
        }
    }

    /// Whether the handshake is not over.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the other side named our protocol (ALPN), as a client that began with TLS at once must; known after the handshake.
    pub fn speaks_postgresql(&self) -> bool {
        self.connection.alpn_protocol() == Some(ALPN)
    }

    /// Hash of the certificate that logins over this session are bound to: ours towards clients, the server's towards servers
    /// (after the handshake). `None` where it is not defined.
    pub fn end_point_hash(&self) -> Option<Vec<u8>> {
        match &self.peer {
            Peer::Client { server } => server.end_point_hash().map(<[u8]>::to_vec),
            Peer::Server => certificate::end_point_hash(self.connection.peer_certificates()?.first()?),
        }
    }

    /// Common name of the client's certificate, if it showed one that goes back to our authorities; checked at each call. `None`
    /// towards servers and before the end of the handshake.
    pub fn client_common_name(&self) -> Option<String> {
        match &self.peer {
            Peer::Client { server } if !self.connection.is_handshaking() => {
                server.verified_name(self.connection.peer_certificates()?)
            }
            _ => None,
        }
    }

    /// Version and cipher for people, such as `TLSv1.3/TLS13_AES_256_GCM_SHA384`; empty before they are agreed on.
    pub fn description(&self) -> String {
        let version = match self.connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => return String::new(),
        };
        let suite = self
            .connection
            .negotiated_cipher_suite()
            .map(|suite| format!("/{:?}", suite.suite()));
        format!("{version}{}", suite.unwrap_or_default())
    }
}
