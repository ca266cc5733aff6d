//! TLS on both sides of the proxy, over byte slices: rustls sessions that never see a socket.
//!
//! Order of calls: a [`TlsServer`] or [`TlsClient`] is loaded from files when the configuration is read, and again at a reload
//! (sessions keep what they began with). [`TlsServer::accept`] or [`TlsClient::connect`] make a [`TlsSession`];
//! [`TlsSession::received`] takes what came, [`TlsSession::send`] what is to go. Around the handshake, [`negotiate`] says what
//! the bytes before it may be.
//!
//! Modes are PgBouncer's: `require` and `prefer` encrypt but believe any certificate, `verify-ca` wants one that a known
//! authority signed, `verify-full` one for the host besides. Sessions are not resumed and tickets not sent, as PostgreSQL does
//! it: certificates are checked each time, and nothing is kept.

pub mod certificate;
pub mod negotiate;

mod client;
mod files;
mod mode;
mod server;
mod session;
mod verify;

use std::path::{Path, PathBuf};

pub use client::TlsClient;
pub use files::{TlsFiles, readable_by_others};
pub use mode::{TlsMode, TlsProtocols};
pub use server::TlsServer;
pub use session::{Progress, TlsSession};

/// The protocol name of direct TLS (`sslnegotiation=direct` in PostgreSQL 17).
pub const ALPN: &[u8] = b"postgresql";

/// What is wrong with TLS files, or with a session.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{what} {path}: {source}; check the path and that corun's user may read it")]
    File {
        /// Setting or kind of file.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{what} {path}: {problem}")]
    Content {
        /// Setting or kind of file.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A setting is missing.
    #[error("{setting} is missing: {why}")]
    Missing {
        /// The setting.
        setting: String,
        /// What needs it.
        why: String,
    },
    /// A value of a setting.
    #[error("{0}")]
    Value(String),
    /// The session failed; bytes for the other side may still be there to send.
    #[error("TLS: {0}")]
    Session(#[from] rustls::Error),
}

impl TlsError {
    fn content(what: &'static str, path: &Path, problem: impl Into<String>) -> Self {
        Self::Content {
            what,
            path: path.to_owned(),
            problem: problem.into(),
        }
    }

    fn missing(setting: String, why: String) -> Self {
        Self::Missing { setting, why }
    }
}

#[cfg(test)]
mod tests;
