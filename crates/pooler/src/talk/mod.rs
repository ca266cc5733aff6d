//! A conversation that waits for each answer: with a server or with the console of a proxy, for commands beside the proxy such as
//! `corun top` and `corun proxy preflight`. Never for an event loop.
//!
//! Order of calls: a [`Target`] says where to and as whom, [`Conversation::open`] connects, does TLS and logs in (the messages of
//! a login are [`ServerLogin`](corun_wire::auth::ServerLogin)'s, as they are in the proxy itself), [`Conversation::query`] runs one text
//! of the simple protocol. Every step has the target's time limit, every answer a limit of bytes.
//!
//! What it is not: a driver. There are no parameters, no binary formats, and no COPY.

mod conversation;
mod line;

use std::io;
use std::time::Duration;

pub use conversation::{Conversation, Rows};

use crate::config::Endpoint;
use corun_wire::auth::{Credentials, LoginError};
use corun_wire::error::Reported;
use corun_wire::tls::TlsClient;

/// Where to, and as whom.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where.
    pub endpoint: Endpoint,
    /// Database on the other side.
    pub database: String,
    /// User on the other side.
    pub user: String,
    /// What proves who we are.
    pub credentials: Credentials,
    /// TLS over TCP; `None`: in clear text.
    pub tls: Option<TlsClient>,
    /// Further parameters of the start-up packet.
    pub parameters: Vec<(String, String)>,
    /// Longest time of connecting and logging in, and of each answer.
    pub limit: Duration,
}

/// How the other side asked who we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Not at all: `trust`, `peer` or `cert`.
    Nothing,
    /// For the password as it is.
    ClearText,
    /// For an MD5 response.
    Md5,
    /// For SCRAM.
    Scram,
    /// For something else.
    Other,
}

impl Asked {
    /// The method as pg_hba.conf has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "no password",
            Self::ClearText => "password",
            Self::Md5 => "md5",
            Self::Scram => "scram-sha-256",
            Self::Other => "another method",
        }
    }
}

/// Why a conversation did not come about, or ended.
#[derive(Debug, thiserror::Error)]
pub enum TalkError {
    /// Nobody is there.
    #[error("cannot connect to {place}: {source}")]
    Unreachable {
        /// Where.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// No TLS, though it is wanted, or it failed.
    #[error("TLS with {place} failed: {why}")]
    Tls {
        /// Where.
        place: String,
        /// Why.
        why: String,
    },
    /// We have not what the other side asks for, or it did not prove itself.
    #[error("could not log in: {0}")]
    Login(#[from] LoginError),
    /// The other side said no while we logged in.
    #[error("{} (SQLSTATE {})", .0.message, .0.code)]
    Refused(Reported),
    /// A statement failed; the conversation goes on.
    #[error("{} (SQLSTATE {})", .0.message, .0.code)]
    Failed(Reported),
    /// No answer in time.
    #[error("no response from {place} within {limit:?}")]
    Timeout {
        /// Where.
        place: String,
        /// The time limit.
        limit: Duration,
    },
    /// The connection ended.
    #[error("the connection to {place} ended: {why}")]
    Lost {
        /// Where.
        place: String,
        /// Why.
        why: String,
    },
    /// The other side is no PostgreSQL.
    #[error("{place} does not speak PostgreSQL's protocol: {why}")]
    Protocol {
        /// Where.
        place: String,
        /// What was wrong.
        why: &'static str,
    },
}

impl TalkError {
    /// Whether a password, or its absence, is why we are not let in.
    pub fn is_password(&self) -> bool {
        match self {
            Self::Refused(said) => matches!(said.code.as_str(), "28P01" | "28000"),
            Self::Login(error) => matches!(error, LoginError::Missing(..) | LoginError::Scram(_)),
            _ => false,
        }
    }

    /// Whether the conversation can go on.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Self::Failed(said) if !said.is_fatal())
    }
}
