//! [`Negotiation`]: the packets before a session, and whether the connection becomes encrypted.
//!
//! ```text
//!  ── SSLRequest ──► S, handshake ─► StartupMessage over TLS
//!  ── SSLRequest ──► N ────────────► StartupMessage in clear text
//!  ── GSSENCRequest ► N ───────────► SSLRequest or StartupMessage
//!  ── ClientHello ─► handshake ────► StartupMessage over TLS, which must have named the protocol (ALPN)
//!  ── CancelRequest ► closed
//! ```

use crate::error::{Refusal, code};
use crate::startup::{Packet, Startup, StartupError};
use crate::tls::{TlsSession, negotiate};

/// What has been asked for on one connection. Nothing may be asked for twice, whatever came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negotiation {
    ssl: bool,
    gss: bool,
    direct: bool,
}

/// What to do about a first packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// Wait for more bytes.
    More,
    /// The client begins with TLS at once. What was received is left as it is: hand it, and all that follows, to a session of TLS, or
    /// close the connection where there is none.
    DirectTls,
    /// Answer `S`; whatever comes next belongs to a session of TLS.
    AcceptTls,
    /// Answer `N`.
    RefuseEncryption,
    /// A query is to be cancelled. There is no answer; the connection is closed.
    Cancel {
        /// The number the client was given.
        pid: u32,
        /// The secret it was given with it.
        secret: Vec<u8>,
    },
    /// A session is asked for.
    Startup(Startup),
}

impl Negotiation {
    /// Takes a packet off the start of `received`. `encrypted` tells whether these bytes came over TLS, `offers_tls` whether TLS may be
    /// had on this connection.
    ///
    /// # Errors
    /// What the client is told before the connection is closed: a packet that is none, encryption asked for twice, or bytes behind a
    /// request for it, which somebody in between may have put there.
    pub fn read(
        &mut self,
        received: &mut Vec<u8>,
        encrypted: bool,
        offers_tls: bool,
    ) -> Result<First, Refusal> {
        if !encrypted && !self.ssl && !self.direct && negotiate::is_direct(received) {
            self.direct = true;
            return Ok(First::DirectTls);
        }
        let broken = |error: StartupError| Refusal::new(code::PROTOCOL_VIOLATION, error.to_string());
        let Some((packet, used)) = Packet::read(received).map_err(broken)? else {
            return Ok(First::More);
        };
        received.drain(..used);
        let asked = match packet {
            Packet::Cancel { pid, secret } => return Ok(First::Cancel { pid, secret }),
            Packet::Startup(startup) => return Ok(First::Startup(startup)),
            Packet::Ssl => &mut self.ssl,
            Packet::Gss => &mut self.gss,
        };
        if encrypted || std::mem::replace(asked, true) {
            return Err(Refusal::new(
                code::PROTOCOL_VIOLATION,
                "encryption was asked for twice",
            ));
        }
        negotiate::after_request(received)?;
        Ok(if packet == Packet::Ssl && offers_tls {
            First::AcceptTls
        } else {
            First::RefuseEncryption
        })
    }

    /// Checks the encryption of a connection on which a session is asked for. `required`: there is none without TLS here.
    ///
    /// # Errors
    /// What the client is told before the connection is closed.
    pub fn check(&self, session: Option<&TlsSession>, required: bool) -> Result<(), Refusal> {
        match session {
            Some(session) if self.direct && !session.speaks_postgresql() => {
                Err(negotiate::direct_without_alpn())
            }
            None if required => Err(Refusal::new(code::PROTOCOL_VIOLATION, "SSL required")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build;

    const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30];

    fn read(negotiation: &mut Negotiation, bytes: &[u8]) -> Result<First, Refusal> {
        negotiation.read(&mut bytes.to_vec(), false, true)
    }

    #[test]
    fn nothing_is_asked_for_twice() {
        let mut negotiation = Negotiation::default();
        assert_eq!(read(&mut negotiation, &GSS_REQUEST), Ok(First::RefuseEncryption));
        assert_eq!(read(&mut negotiation, &build::SSL_REQUEST), Ok(First::AcceptTls));
        for again in [GSS_REQUEST, build::SSL_REQUEST] {
            let refusal = read(&mut negotiation.clone(), &again).expect_err("asked for twice");
            assert_eq!(refusal.code, code::PROTOCOL_VIOLATION);
        }
        let over_tls = Negotiation::default().read(&mut build::SSL_REQUEST.to_vec(), true, true);
        assert!(over_tls.is_err());
    }

    #[test]
    fn nothing_in_clear_text_rides_behind_a_request() {
        for request in [GSS_REQUEST, build::SSL_REQUEST] {
            let behind = [&request[..], b"Q"].concat();
            let refusal = read(&mut Negotiation::default(), &behind).expect_err("bytes behind it");
            assert!(refusal.message.contains("unencrypted data"), "{refusal:?}");
        }
    }

    #[test]
    fn tls_at_once() {
        let mut negotiation = Negotiation::default();
        let mut hello = vec![0x16, 3, 1];
        assert_eq!(negotiation.read(&mut hello, false, true), Ok(First::DirectTls));
        assert_eq!(hello.len(), 3);
        // It stays a client that began so, and its handshake is no packet.
        assert!(
            negotiation
                .read(&mut vec![0x16, 3, 1, 0, 0], false, true)
                .is_err()
        );
        assert!(negotiation.check(None, true).is_err());
        assert!(negotiation.check(None, false).is_ok());
    }

    #[test]
    fn a_startup_packet_byte_by_byte() {
        let mut packet = Vec::new();
        build::startup(&mut packet, [("user", "ann")].into_iter());
        let mut negotiation = Negotiation::default();
        for end in 0..packet.len() {
            assert_eq!(read(&mut negotiation, &packet[..end]), Ok(First::More));
        }
        let found = read(&mut negotiation, &packet);
        assert!(matches!(found, Ok(First::Startup(startup)) if startup.user() == "ann"));
    }
}
