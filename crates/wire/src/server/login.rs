//! [`Login`]: a client from its first byte until it has shown who it is.
//!
//! ```text
//!  First ─► (AcceptTls, First again) ─► Proving ─► Entered
//!    └ Cancel, Refused: closed             └ Refused: closed
//! ```

use std::net::IpAddr;

use ring::rand::SecureRandom;

use super::negotiation::{First, Negotiation};
use crate::auth::hba::{Question, Rules};
use crate::auth::ident::IdentMaps;
use crate::auth::userlist::Userlist;
use crate::auth::{Answer, Authenticator, Denial, Facts, Lookup, Method, Mock, Step, TlsFacts};
use crate::error::{Refusal, code};
use crate::startup::{Kind, MINOR_MAX, Startup};
use crate::tls::TlsSession;
use crate::{TransactionStatus, build};

/// Bytes of a client that is not logged in that are kept at most.
pub const RECEIVED_BYTES_MAX: usize = 16 << 10;

/// Who may log in, with which secrets.
pub trait Users {
    /// What is stored for a user.
    fn lookup(&self, user: &str) -> Lookup<'_>;
}

impl Users for Userlist {
    fn lookup(&self, user: &str) -> Lookup<'_> {
        Self::lookup(self, user)
    }
}

/// Who may come in how. There is no default: without rules nobody gets in.
pub struct Policy<'a> {
    /// The rules; the first that fits decides, and where none fits nobody gets in.
    pub rules: &'a Rules,
    /// The maps that rules name.
    pub maps: &'a IdentMaps,
    /// The users.
    pub users: &'a dyn Users,
    /// The database that a client gets, which is what the rules are asked about: it may be another than the startup packet names, or none that
    /// it names. [`database_asked_for`] where there is no such choice.
    pub database: &'a dyn Fn(&Startup) -> String,
    /// What users that do not exist are shown.
    pub mock: &'a Mock,
    /// Random numbers for nonces.
    pub random: &'a dyn SecureRandom,
    /// Whether TLS is there for those who ask.
    pub offers_tls: bool,
    /// Whether connections over TCP without TLS are refused.
    pub requires_tls: bool,
}

/// The database that a startup packet asks for, as PostgreSQL reads it.
pub fn database_asked_for(startup: &Startup) -> String {
    startup.database().to_owned()
}

/// What is known of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connection<'a> {
    /// Where from; `None` over a Unix socket.
    pub address: Option<IpAddr>,
    /// Its TLS session, once one has begun.
    pub tls: Option<&'a TlsSession>,
    /// Name of the operating system's user at the other end of a Unix socket.
    pub os_user: Option<&'a str>,
}

/// What to do next.
#[derive(Debug)]
pub enum LoginAction {
    /// Wait for bytes of the client.
    More,
    /// Send these bytes, and call [`Login::next`] again.
    Send(Vec<u8>),
    /// Send `S` where `answer` says so, begin a session of TLS, and hand it `received` first: what the client sent of its handshake. What it
    /// says goes to [`Login::received`].
    BeginTls {
        /// Whether the client waits for the answer.
        answer: bool,
        /// What has come of the handshake.
        received: Vec<u8>,
    },
    /// Cancel a query, if number and secret are right, and close the connection without an answer.
    Cancel {
        /// The number that the client was given.
        pid: u32,
        /// The secret it was given with it.
        secret: Vec<u8>,
    },
    /// The client is who it says: check what else speaks against it, send [`welcome`] and make a session.
    Entered(Entered),
    /// Tell the client ([`build::fatal`]) and close the connection. The reason is for our log.
    Refused(Box<Denial>),
    /// The client left.
    Gone,
}

/// A client that has shown who it is.
#[derive(Debug)]
pub struct Entered {
    /// What it asked for.
    pub startup: Startup,
    /// What goes to the client ahead of [`welcome`], or of why it does not get in after all; maybe nothing.
    pub send: Vec<u8>,
    /// What it sent behind the login: the first messages of its session.
    pub rest: Vec<u8>,
}

/// The login of one client.
#[derive(Default)]
pub struct Login {
    received: Vec<u8>,
    negotiation: Negotiation,
    state: State,
}

#[derive(Default)]
enum State {
    #[default]
    First,
    Proving(Box<(Startup, Authenticator)>),
    Over,
}

debug_shows!(Login, this => { negotiation: this.negotiation, received: this.received.len() });

impl Login {
    /// A connection on which nothing was said yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes of the client: what it sent, or what its TLS session made of that.
    ///
    /// # Errors
    /// More than a login needs: the client is told and the connection closed.
    pub fn received(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        if self.received.len() + bytes.len() > RECEIVED_BYTES_MAX {
            let what = "too much was sent before logging in";
            return Err(Refusal::new(code::PROTOCOL_VIOLATION, what));
        }
        self.received.extend(bytes);
        Ok(())
    }

    /// What to do now; to be called again until it says to wait, or the login is over.
    pub fn next(&mut self, connection: &Connection<'_>, policy: &Policy<'_>) -> LoginAction {
        let done = match std::mem::take(&mut self.state) {
            State::First => self.first(connection, policy),
            State::Proving(proving) => {
                let (startup, mut authenticator) = *proving;
                match authenticator.read(&mut self.received) {
                    Ok(Answer::More) => {
                        self.state = State::Proving(Box::new((startup, authenticator)));
                        return LoginAction::More;
                    }
                    Ok(Answer::Terminate) => Ok(LoginAction::Gone),
                    Ok(Answer::Step(step)) => self.step(startup, authenticator, step),
                    Err(refusal) => Err(denial(refusal)),
                }
            }
            State::Over => Ok(LoginAction::Gone),
        };
        done.unwrap_or_else(|denial| {
            self.state = State::Over;
            LoginAction::Refused(Box::new(denial))
        })
    }

    fn first(&mut self, connection: &Connection<'_>, policy: &Policy<'_>) -> Result<LoginAction, Denial> {
        let over_tcp = connection.address.is_some();
        let offers_tls = policy.offers_tls && over_tcp;
        let first = self
            .negotiation
            .read(&mut self.received, connection.tls.is_some(), offers_tls)
            .map_err(denial)?;
        match first {
            First::More => Ok(LoginAction::More),
            First::RefuseEncryption => Ok(LoginAction::Send(b"N".to_vec())),
            First::AcceptTls => Ok(LoginAction::BeginTls {
                answer: true,
                received: Vec::new(),
            }),
            First::DirectTls if offers_tls => Ok(LoginAction::BeginTls {
                answer: false,
                received: std::mem::take(&mut self.received),
            }),
            First::DirectTls => {
                // Whoever begins so understands no message of ours.
                self.state = State::Over;
                Ok(LoginAction::Gone)
            }
            First::Cancel { pid, secret } => {
                self.state = State::Over;
                Ok(LoginAction::Cancel { pid, secret })
            }
            First::Startup(startup) => {
                let required = policy.requires_tls && over_tcp;
                self.negotiation.check(connection.tls, required).map_err(denial)?;
                let mut authenticator = authenticator(&startup, connection, policy)?;
                let step = authenticator.start();
                self.step(startup, authenticator, step)
            }
        }
    }

    fn step(
        &mut self,
        startup: Startup,
        authenticator: Authenticator,
        step: Step,
    ) -> Result<LoginAction, Denial> {
        match step {
            Step::Send(bytes) => {
                self.state = State::Proving(Box::new((startup, authenticator)));
                Ok(LoginAction::Send(bytes))
            }
            Step::Denied(denial) => Err(denial),
            Step::Done { send, .. } => {
                self.state = State::Over;
                let rest = std::mem::take(&mut self.received);
                Ok(LoginAction::Entered(Entered { startup, send, rest }))
            }
        }
    }
}

fn denial(refusal: Refusal) -> Denial {
    let reason = refusal.message.clone();
    Denial { refusal, reason }
}

/// How the client of a startup packet has to show who it is.
fn authenticator(
    startup: &Startup,
    connection: &Connection<'_>,
    policy: &Policy<'_>,
) -> Result<Authenticator, Denial> {
    if startup.kind() != Some(Kind::Queries) {
        let refusal = Refusal::new(code::NOT_SUPPORTED, "replication is not supported here");
        return Err(denial(refusal));
    }
    let user = startup.user();
    let rule = policy.rules.first_match(&Question {
        database: &(policy.database)(startup),
        user,
        address: connection.address.map(|address| address.to_canonical()),
        replication: false,
        tls: connection.tls.is_some(),
    })?;
    if rule.method == Method::Password && connection.address.is_some() && connection.tls.is_none() {
        let refusal = Refusal::new(
            code::INVALID_AUTHORIZATION,
            "a password in clear text is not taken over a connection without TLS",
        )
        .hint("Connect with sslmode=require, or use method scram-sha-256.");
        return Err(denial(refusal));
    }
    let end_point = connection.tls.and_then(TlsSession::end_point_hash);
    let common_name = connection.tls.and_then(TlsSession::client_common_name);
    let facts = Facts {
        tls: connection.tls.map(|_| TlsFacts {
            end_point: end_point.as_deref(),
            common_name: common_name.as_deref(),
        }),
        os_user: connection.os_user,
        map: rule.map.as_deref().map(|name| policy.maps.map(name)),
    };
    let lookup = policy.users.lookup(user);
    Ok(Authenticator::new(
        rule.method,
        user,
        lookup,
        facts,
        policy.mock,
        policy.random,
    ))
}

/// What every client that gets in is told, from the protocol on where nothing was said of it: parameters by name, and its key.
pub fn welcome<'a>(
    startup: &Startup,
    parameters: impl Iterator<Item = (&'a str, &'a str)>,
    pid: u32,
    secret: &[u8],
) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let unknown = startup.unknown_options();
    if startup.minor > MINOR_MAX || !unknown.is_empty() {
        build::negotiate(&mut out, startup.minor.min(MINOR_MAX), unknown.into_iter());
    }
    build::authentication_ok(&mut out);
    for (name, value) in parameters {
        build::parameter_status(&mut out, name, value);
    }
    build::key_data(&mut out, pid, secret);
    build::ready(&mut out, TransactionStatus::Idle);
    out
}

#[cfg(test)]
mod tests;
