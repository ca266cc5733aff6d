//! Around the handshake: what may come before it, and what may not.
//!
//! TLS is asked for in clear text. Whoever sits in between could send bytes of its own behind the request, or behind the answer,
//! hoping that they are taken for part of the encrypted conversation (CVE-2021-23214 towards clients, CVE-2021-23222 towards
//! servers). Therefore nothing that arrived in clear text outlives the request:
//!
//! - Towards clients: after an SSLRequest call [`after_request`] with what else is in the buffer, answer `S`, and hand every
//!   later byte to the session. No honest client sends its ClientHello before it has our answer.
//! - Towards servers: after our SSLRequest call [`answer`] with what came.

use crate::error::{Refusal, code};

/// The first byte of a TLS handshake record: a client that begins with it wants TLS at once (`sslnegotiation=direct`). No startup
/// packet begins with it: its length would be beyond any limit.
pub const FIRST_BYTE: u8 = 0x16;

/// Whether a client's first bytes are a ClientHello instead of a startup packet.
pub fn is_direct(first: &[u8]) -> bool {
    first.first() == Some(&FIRST_BYTE)
}

/// Checks what the buffer holds behind an SSLRequest: nothing, or the connection is to be closed.
///
/// # Errors
/// What to tell the client.
pub fn after_request(rest: &[u8]) -> Result<(), Refusal> {
    if rest.is_empty() {
        return Ok(());
    }
    let told = Refusal::new(
        code::PROTOCOL_VIOLATION,
        "received unencrypted data after SSL request",
    );
    Err(told.detail("Either the client does not wait for the response to its request, or somebody in between added bytes to it."))
}

/// What a client is told that began with TLS at once but did not name the protocol.
pub fn direct_without_alpn() -> Refusal {
    Refusal::new(
        code::PROTOCOL_VIOLATION,
        "received direct SSL connection request without ALPN protocol negotiation extension",
    )
}

/// What a server answered to an SSLRequest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Begin the handshake.
    Tls,
    /// It has no TLS: go on in clear text, if the mode allows.
    Plain,
}

/// Why a server's answer to an SSLRequest is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// Bytes behind the answer.
    #[error(
        "the server, or somebody in between, sent unencrypted data behind its response to the request for TLS"
    )]
    Injected,
    /// Something else than an answer. What it says is not shown: it cannot be trusted.
    #[error(
        "the server did not respond to the request for TLS with S or N; this may be no PostgreSQL server, or a server without a free connection"
    )]
    Unknown,
}

/// Reads a server's answer to an SSLRequest from all bytes that came. `Ok(None)`: none came yet.
///
/// # Errors
/// The connection is to be closed.
pub fn answer(bytes: &[u8]) -> Result<Option<Answer>, AnswerError> {
    match bytes {
        [] => Ok(None),
        [b'S'] => Ok(Some(Answer::Tls)),
        [b'N'] => Ok(Some(Answer::Plain)),
        [b'S' | b'N', ..] => Err(AnswerError::Injected),
        _ => Err(AnswerError::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_rides_along() {
        assert!(after_request(b"").is_ok());
        assert_eq!(after_request(b"\x16\x03\x01").unwrap_err().code, "08P01");
        assert_eq!(answer(b""), Ok(None));
        assert_eq!(answer(b"S"), Ok(Some(Answer::Tls)));
        assert_eq!(answer(b"N"), Ok(Some(Answer::Plain)));
        assert_eq!(answer(b"SR"), Err(AnswerError::Injected));
        assert_eq!(answer(b"NR"), Err(AnswerError::Injected));
        assert_eq!(answer(b"E\0\0\0"), Err(AnswerError::Unknown));
        assert!(is_direct(&[0x16, 3, 1]));
        assert!(!is_direct(&[0, 0, 0, 8]));
    }
}
