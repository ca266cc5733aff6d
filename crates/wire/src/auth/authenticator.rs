//! The proxy as the server a client logs in to.
//!
//! Order of calls: [`Method::wants_user`] tells whether to look the user up first; [`Authenticator::start`] once, then
//! [`Authenticator::read`] with what the client sent until [`Step::Done`] or [`Step::Denied`]; or, where the caller finds messages itself,
//! [`Authenticator::message`] with the body of each `p` message and [`Authenticator::unexpected`] for one of another type.
//!
//! Users that do not exist go through the same steps as those that do, and are told the same at the end.

use ring::rand::SecureRandom;

use super::ident::IdentMap;
use super::md5::Md5Secret;
use super::scram::server::{ScramRefusal, ScramReply, ScramServer};
use super::scram::{ClientKeys, NONCE_BYTES, same};
use super::secret::{Lookup, Mock, Secret};
use crate::error::{Refusal, code};
use crate::{HEADER_BYTES, build, frontend, header};

/// Longest body of a client's message taken while it logs in, in bytes.
pub const BODY_BYTES_MAX: usize = 4096;

/// How a client shows who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Not at all, but the user must exist.
    Trust,
    /// Not at all, whoever it is: for databases that log in to the server as a user of their own.
    Any,
    /// Never.
    Reject,
    /// The password as it is.
    Password,
    /// An MD5 response, or SCRAM where a SCRAM verifier is stored.
    Md5,
    /// SCRAM-SHA-256, with or without channel binding.
    ScramSha256,
    /// A client certificate whose common name is the user.
    Cert,
    /// The operating system's word for who is at the other end of a Unix socket.
    Peer,
}

impl Method {
    /// Whether it must be known that there is such a user, and with which secret.
    pub fn wants_user(self) -> bool {
        self == Self::Trust || self.asks_for_secret()
    }

    /// Whether the client is asked for a secret, or for a proof that it has it.
    fn asks_for_secret(self) -> bool {
        matches!(self, Self::Password | Self::Md5 | Self::ScramSha256)
    }

    /// The name in configuration files.
    pub fn name(self) -> &'static str {
        let known = NAMES.iter().find(|(_, method)| *method == self);
        known.map_or("", |(name, _)| name)
    }

    /// The method of a name.
    pub fn of(name: &str) -> Option<Self> {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, method)| *method)
    }
}

/// Names of the methods, the usual one of each first; `plain` is PgBouncer's word for `password`.
const NAMES: [(&str, Method); 9] = [
    ("trust", Method::Trust),
    ("any", Method::Any),
    ("reject", Method::Reject),
    ("password", Method::Password),
    ("plain", Method::Password),
    ("md5", Method::Md5),
    ("scram-sha-256", Method::ScramSha256),
    ("cert", Method::Cert),
    ("peer", Method::Peer),
];

/// What is known of the connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'a> {
    /// Of its TLS session, where it has one.
    pub tls: Option<TlsFacts<'a>>,
    /// Name of the operating system's user at the other end of a Unix socket.
    pub os_user: Option<&'a str>,
    /// Which database users names of `cert` and `peer` may be; without it they must be the same.
    pub map: Option<&'a IdentMap>,
}

/// What is known of a client's TLS session.
#[derive(Debug, Clone, Copy, Default)]
pub struct TlsFacts<'a> {
    /// Hash of our certificate, where it is defined.
    pub end_point: Option<&'a [u8]>,
    /// Common name of the client's certificate, if one was sent and verified against our authorities.
    pub common_name: Option<&'a str>,
}

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Send these bytes and wait for an answer.
    Send(Vec<u8>),
    /// The client is who it says. Send these bytes (maybe none), then AuthenticationOk when nothing else speaks against it.
    Done {
        /// Whole messages.
        send: Vec<u8>,
        /// With these keys the proxy can log in where the same verifier is stored.
        learnt: Option<ClientKeys>,
    },
    /// The client does not get in.
    Denied(Denial),
}

/// What came of bytes of a client that is to prove who it is.
#[derive(Debug)]
pub enum Answer {
    /// Wait for more bytes.
    More,
    /// The client leaves.
    Terminate,
    /// It sent a message.
    Step(Step),
}

/// Why a client does not get in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// What the client is told; tells nothing about which users exist.
    pub refusal: Refusal,
    /// What really happened, for our log; no secrets in it.
    pub reason: String,
}

impl Denial {
    pub(crate) fn new(code: &'static str, message: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            refusal: Refusal::new(code, message),
            reason: reason.into(),
        }
    }
}

/// The login of one client.
///
/// ```text
/// Fresh ─ start ─► Password | Md5 | Scram ─ message ─► Over
///    └──────────────────── trust, cert, peer ───────────►┘
/// ```
pub struct Authenticator {
    user: String,
    state: State,
}

/// With `doomed` the user does not exist: everything is computed as for one who does, and refused.
enum State {
    /// The first step is known when the authenticator is made, and so is the state after it.
    Fresh(Box<(Step, State)>),
    Password {
        secret: Secret,
        doomed: bool,
    },
    Md5 {
        secret: Md5Secret,
        salt: [u8; 4],
        doomed: bool,
    },
    Scram(Box<ScramServer>),
    Over,
}

debug_shows!(Authenticator, this => { user: this.user });

impl Authenticator {
    /// A login of `user` by `method`. `lookup` matters only where the method [wants the user](Method::wants_user), and to
    /// `trust`, which refuses users that do not exist.
    pub fn new(
        method: Method,
        user: &str,
        lookup: Lookup<'_>,
        facts: Facts<'_>,
        mock: &Mock,
        random: &dyn SecureRandom,
    ) -> Self {
        let (mut nonce, mut salt) = ([0; NONCE_BYTES], [0; 4]);
        let mut filled = Ok(());
        if method.asks_for_secret() {
            filled = random.fill(&mut nonce).and_then(|()| random.fill(&mut salt));
        }
        if filled.is_ok() {
            return Self::with_nonce(method, user, lookup, facts, mock, &nonce, salt);
        }
        let (message, reason) = (
            "could not generate random nonce",
            "the system gives no random numbers",
        );
        Self::beginning(user, denied(Denial::new("XX000", message, reason)))
    }

    fn beginning(user: &str, first: (Step, State)) -> Self {
        Self {
            user: user.to_owned(),
            state: State::Fresh(Box::new(first)),
        }
    }

    /// A login with this nonce and salt, which must be random.
    pub(crate) fn with_nonce(
        method: Method,
        user: &str,
        lookup: Lookup<'_>,
        facts: Facts<'_>,
        mock: &Mock,
        nonce: &[u8; NONCE_BYTES],
        salt: [u8; 4],
    ) -> Self {
        let scram = |verifier, doomed| {
            let end_point = facts.tls.and_then(|tls| tls.end_point).map(<[u8]>::to_vec);
            let server = ScramServer::new(verifier, doomed, end_point, nonce);
            let mut names = Vec::with_capacity(64);
            for name in server.mechanisms() {
                names.extend(name.as_bytes());
                names.push(0);
            }
            names.push(0);
            (
                Step::Send(build::authentication(10, &names)),
                State::Scram(Box::new(server)),
            )
        };
        // Of a user who does not exist, or has no usable secret, one that nobody knows the password of.
        let stored = || match lookup {
            Lookup::Found(secret) => (secret.clone(), false),
            _ if mock.asks_md5() => (Secret::Md5(Md5Secret::of(nonce, user)), true),
            _ => (Secret::Scram(mock.verifier(user)), true),
        };
        let first = match (method, lookup) {
            (Method::Trust, Lookup::Unknown) => {
                denied(failed(method, user, "trusted, but the user does not exist"))
            }
            (Method::Trust | Method::Any, _) => (done(), State::Over),
            (Method::Reject, _) => denied(failed(method, user, "the method is reject")),
            (Method::Cert | Method::Peer, _) => match identity(method, user, facts) {
                Ok(()) => (done(), State::Over),
                Err(denial) => denied(denial),
            },
            (Method::Password, _) => {
                let (secret, doomed) = stored();
                let ask = build::authentication(3, b"");
                (Step::Send(ask), State::Password { secret, doomed })
            }
            (Method::Md5, _) => {
                let (secret, doomed) = stored();
                let md5 = |secret| {
                    let ask = build::authentication(5, &salt);
                    (Step::Send(ask), State::Md5 { secret, salt, doomed })
                };
                match secret {
                    Secret::Md5(secret) => md5(secret),
                    Secret::Plain(secret) => md5(Md5Secret::of(secret.password(), user)),
                    Secret::Scram(verifier) => scram(verifier, doomed),
                }
            }
            (Method::ScramSha256, Lookup::Found(Secret::Scram(verifier))) => scram(verifier.clone(), false),
            (Method::ScramSha256, Lookup::Found(Secret::Plain(secret))) => {
                scram(secret.verifier(user, mock), false)
            }
            (Method::ScramSha256, _) => scram(mock.verifier(user), true),
        };
        Self::beginning(user, first)
    }

    /// The first step.
    pub fn start(&mut self) -> Step {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Fresh(first) => {
                let (step, then) = *first;
                self.state = then;
                step
            }
            _ => violation("the login was started twice"),
        }
    }

    /// Takes a message off the start of `received`.
    ///
    /// # Errors
    /// A length that no message has: the client is told and the connection closed.
    pub fn read(&mut self, received: &mut Vec<u8>) -> Result<Answer, Refusal> {
        let head = match header(received) {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(Answer::More),
            Err(bad) => return Err(Refusal::new(code::PROTOCOL_VIOLATION, bad.to_string())),
        };
        if head.tag == frontend::TERMINATE {
            return Ok(Answer::Terminate);
        }
        if head.tag != frontend::PASSWORD || head.total > BODY_BYTES_MAX + HEADER_BYTES {
            return Ok(Answer::Step(Step::Denied(self.unexpected(head.tag))));
        }
        if received.len() < head.total {
            return Ok(Answer::More);
        }
        let step = self.message(&received[HEADER_BYTES..head.total]);
        received.drain(..head.total);
        Ok(Answer::Step(step))
    }

    /// Takes the body of a `p` message.
    pub fn message(&mut self, body: &[u8]) -> Step {
        let state = std::mem::replace(&mut self.state, State::Over);
        if body.len() > BODY_BYTES_MAX {
            return violation("a message of the login is too long");
        }
        match state {
            State::Scram(server) => self.scram(server, body),
            State::Password { secret, doomed } => self.judge(Method::Password, body, |password| {
                secret.matches(password, &self.user) && !doomed
            }),
            State::Md5 { secret, salt, doomed } => self.judge(Method::Md5, body, |response| {
                same(response, &secret.response(salt)) && !doomed
            }),
            State::Fresh(_) | State::Over => violation("a message of the login comes at the wrong time"),
        }
    }

    /// What to say when another message than `p` comes while one is awaited.
    pub fn unexpected(&mut self, tag: u8) -> Denial {
        self.state = State::Over;
        Denial::new(
            code::PROTOCOL_VIOLATION,
            format!("expected password response, got message type {tag}"),
            "a message of another kind during the login",
        )
    }

    /// Judges a password message: text ended by a zero byte.
    fn judge(&self, method: Method, body: &[u8], right: impl FnOnce(&[u8]) -> bool) -> Step {
        Step::Denied(match body.split_last() {
            Some((0, [])) => Denial::new(
                code::INVALID_PASSWORD,
                "empty password returned by client",
                "empty password",
            ),
            Some((0, text)) if !text.contains(&0) => {
                if right(text) {
                    return done();
                }
                failed(method, &self.user, WRONG_PASSWORD)
            }
            _ => Denial::new(
                code::PROTOCOL_VIOLATION,
                "invalid password packet size",
                "the password message is not one text",
            ),
        })
    }

    fn scram(&mut self, mut server: Box<ScramServer>, body: &[u8]) -> Step {
        match server.respond(body) {
            Ok(ScramReply::Challenge(data)) => {
                self.state = State::Scram(server);
                Step::Send(build::authentication(11, &data))
            }
            Ok(ScramReply::Accepted { last, keys }) => Step::Done {
                send: build::authentication(12, &last),
                learnt: Some(keys),
            },
            Err(error) => Step::Denied(self.scram_denial(&error)),
        }
    }

    fn scram_denial(&self, error: &ScramRefusal) -> Denial {
        let (code, message, detail) = match error {
            ScramRefusal::WrongPassword => return failed(Method::ScramSha256, &self.user, WRONG_PASSWORD),
            ScramRefusal::Malformed(what) => {
                (code::PROTOCOL_VIOLATION, "malformed SCRAM message", Some(*what))
            }
            ScramRefusal::Mechanism => (
                code::PROTOCOL_VIOLATION,
                "client selected an invalid SASL authentication mechanism",
                None,
            ),
            ScramRefusal::Downgraded => (
                code::INVALID_AUTHORIZATION,
                "SCRAM channel binding negotiation error",
                Some("The client supports channel binding and did not see that it is offered here."),
            ),
            ScramRefusal::BoundElsewhere => (
                code::INVALID_AUTHORIZATION,
                "SCRAM channel binding check failed",
                None,
            ),
        };
        let mut denial = Denial::new(code, message, error.to_string());
        denial.refusal.detail = detail.map(str::to_owned);
        denial
    }
}

/// The reason in our log, the same for users that do not exist.
const WRONG_PASSWORD: &str = "wrong password, or no such user";

fn done() -> Step {
    Step::Done {
        send: Vec::new(),
        learnt: None,
    }
}

fn denied(denial: Denial) -> (Step, State) {
    (Step::Denied(denial), State::Over)
}

/// Whether the certificate or the operating system says that this is `user`, or somebody who may be `user`.
fn identity(method: Method, user: &str, facts: Facts<'_>) -> Result<(), Denial> {
    let (name, says) = match method {
        Method::Cert => (
            facts.tls.and_then(|tls| tls.common_name),
            "the certificate is one of",
        ),
        _ => (facts.os_user, "the operating system says this is"),
    };
    match name.filter(|name| !name.is_empty()) {
        Some(name) if facts.map.map_or(name == user, |map| map.allows(name, user)) => Ok(()),
        Some(name) => Err(failed(method, user, &format!("{says} \"{name}\""))),
        None if method == Method::Cert => Err(Denial::new(
            code::INVALID_AUTHORIZATION,
            "connection requires a valid client certificate",
            "no verified client certificate",
        )),
        None => Err(failed(
            method,
            user,
            "the operating system does not say who this is",
        )),
    }
}

/// What a client is told whose login by `method` failed, as PgBouncer says it.
pub(crate) fn failed(method: Method, user: &str, reason: &str) -> Denial {
    let by = |what: &str| format!("{what} authentication failed for user \"{user}\"");
    let (code, message) = match method {
        Method::Password | Method::Md5 => (code::INVALID_PASSWORD, by("password")),
        Method::ScramSha256 => (code::INVALID_PASSWORD, by("SASL")),
        Method::Cert => (code::INVALID_AUTHORIZATION, by("certificate")),
        Method::Peer => (code::INVALID_AUTHORIZATION, by("Peer")),
        Method::Trust | Method::Any => (code::INVALID_AUTHORIZATION, by("\"trust\"")),
        Method::Reject => (
            code::INVALID_AUTHORIZATION,
            format!("authentication failed for user \"{user}\": host rejected"),
        ),
    };
    Denial::new(code, message, reason)
}

fn violation(reason: &str) -> Step {
    Step::Denied(Denial::new(
        code::PROTOCOL_VIOLATION,
        "unexpected message during authentication",
        reason,
    ))
}

#[cfg(test)]
mod tests;
