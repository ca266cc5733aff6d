//! The protocol of PostgreSQL between client and server, for whatever stands at either end: versions 3.0 and 3.2, logins, TLS, and what a
//! server keeps of a session. corun's pooler and its SQL server both stand on it.
//!
//! Order of calls: a connection's first packets go to [`server::Negotiation`] (over TLS through [`tls`] and [`transport`]), who the client
//! is to [`auth`]. From then on [`header`] finds message after message in a chunk. A pooler looks into those that matter with [`read`]; a
//! server decodes each with [`server::Message`], feeds it to a [`server::Session`], which says what the engine has to do, and writes rows with
//! [`values`]. [`build`] appends messages to a buffer, [`error`] shapes what a client is told when something is refused.
//!
//! What it is not: it reads no socket and no clock, knows no SQL and no engine.

/// Implements `Debug` for a type that has secrets, or more than anybody wants to see: only what is named is shown.
macro_rules! debug_shows {
    ($type:ident, $this:ident => { $($field:ident: $value:expr),* }) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $this = self;
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($field), &$value))*
                    .finish_non_exhaustive()
            }
        }
    };
}

pub mod auth;
pub mod build;
pub mod error;
pub mod read;
pub mod server;
pub mod startup;
pub mod tls;
pub mod transport;
pub mod values;

/// Message types a client sends.
#[expect(missing_docs, reason = "names without a comment are those of the protocol")]
pub mod frontend {
    pub const BIND: u8 = b'B';
    pub const CLOSE: u8 = b'C';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_FAIL: u8 = b'f';
    pub const DESCRIBE: u8 = b'D';
    pub const EXECUTE: u8 = b'E';
    pub const FLUSH: u8 = b'H';
    pub const FUNCTION_CALL: u8 = b'F';
    pub const PARSE: u8 = b'P';
    /// PasswordMessage and the SASL responses.
    pub const PASSWORD: u8 = b'p';
    pub const QUERY: u8 = b'Q';
    pub const SYNC: u8 = b'S';
    pub const TERMINATE: u8 = b'X';
}

/// Message types a server sends.
#[expect(missing_docs, reason = "names without a comment are those of the protocol")]
pub mod backend {
    /// Authentication requests.
    pub const AUTHENTICATION: u8 = b'R';
    /// BackendKeyData.
    pub const KEY_DATA: u8 = b'K';
    pub const BIND_COMPLETE: u8 = b'2';
    pub const CLOSE_COMPLETE: u8 = b'3';
    pub const COMMAND_COMPLETE: u8 = b'C';
    /// CopyBothResponse.
    pub const COPY_BOTH: u8 = b'W';
    /// CopyInResponse.
    pub const COPY_IN: u8 = b'G';
    /// CopyOutResponse.
    pub const COPY_OUT: u8 = b'H';
    pub const DATA_ROW: u8 = b'D';
    /// EmptyQueryResponse.
    pub const EMPTY_QUERY: u8 = b'I';
    /// ErrorResponse.
    pub const ERROR: u8 = b'E';
    /// NegotiateProtocolVersion.
    pub const NEGOTIATE: u8 = b'v';
    pub const NO_DATA: u8 = b'n';
    /// NoticeResponse.
    pub const NOTICE: u8 = b'N';
    /// NotificationResponse.
    pub const NOTIFICATION: u8 = b'A';
    pub const PARAMETER_DESCRIPTION: u8 = b't';
    pub const PARAMETER_STATUS: u8 = b'S';
    pub const PARSE_COMPLETE: u8 = b'1';
    pub const PORTAL_SUSPENDED: u8 = b's';
    /// ReadyForQuery.
    pub const READY: u8 = b'Z';
    pub const ROW_DESCRIPTION: u8 = b'T';
}

/// Bytes of a message before its body: type and length.
pub const HEADER_BYTES: usize = 5;

/// What the first five bytes of a message say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The message type.
    pub tag: u8,
    /// Bytes of the whole message, type and length included.
    pub total: usize,
}

/// A length no message can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid message length")]
pub struct BadLength;

/// The header at the start of `bytes`; `None` when fewer than five bytes are there.
///
/// # Errors
/// When the length is below the four bytes of itself or beyond `i32::MAX`.
#[inline]
pub fn header(bytes: &[u8]) -> Result<Option<Header>, BadLength> {
    let Some(&[tag, a, b, c, d]) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([a, b, c, d]);
    if length < 4 || length > i32::MAX as u32 {
        return Err(BadLength);
    }
    Ok(Some(Header {
        tag,
        total: length as usize + 1,
    }))
}

/// What a session says of its transaction in ReadyForQuery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TransactionStatus {
    /// No transaction.
    #[default]
    Idle,
    /// In a transaction.
    Open,
    /// In a transaction that failed.
    Failed,
}

impl TransactionStatus {
    /// From the byte of ReadyForQuery; `None` for one the protocol does not know.
    pub fn of(byte: u8) -> Option<Self> {
        match byte {
            b'I' => Some(Self::Idle),
            b'T' => Some(Self::Open),
            b'E' => Some(Self::Failed),
            _ => None,
        }
    }

    /// The byte of ReadyForQuery.
    pub fn byte(self) -> u8 {
        match self {
            Self::Idle => b'I',
            Self::Open => b'T',
            Self::Failed => b'E',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        assert_eq!(header(b"Q\0\0\0"), Ok(None));
        let found = header(b"Q\0\0\0\x05\0").expect("a length").expect("five bytes");
        assert_eq!(found, Header { tag: b'Q', total: 6 });
        assert_eq!(header(b"Q\0\0\0\x03"), Err(BadLength));
        assert_eq!(header(b"Q\xff\0\0\x03"), Err(BadLength));
    }
}

// The Rust block of this crate's README runs as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
