//! The proxy as the server a client logs in to.
//!
//! Order of calls: [`Method::wants_user`] tells whether to look the user up first; [`Authenticator::start`] once, then
//! [`Authenticator::message`] with the body of each `p` message until [`Step::Done`] or [`Step::Denied`]. A message of another
//! type than `p` meanwhile is the caller's to refuse ([`Authenticator::unexpected`]).
//!
//! Users that do not exist go through the same steps as those that do, and are told the same at the end.

use std::fmt;

use ring::rand::SecureRandom;

use super::ident::IdentMap;
use super::md5::Md5Secret;
use super::scram::server::{ScramRefusal, ScramReply, ScramServer};
use super::scram::{ClientKeys, NONCE_BYTES, same};
use super::secret::{Lookup, Mock, Secret};
use crate::wire::error::{Refusal, code};
use crate::wire::{backend, build};

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
        matches!(self, Self::Trust | Self::Password | Self::Md5 | Self::ScramSha256)
    }

    /// The name in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Any => "any",
            Self::Reject => "reject",
            Self::Password => "password",
            Self::Md5 => "md5",
            Self::ScramSha256 => "scram-sha-256",
            Self::Cert => "cert",
            Self::Peer => "peer",
        }
    }

    /// The method of a name; `plain` is PgBouncer's word for `password`.
    pub fn of(name: &str) -> Option<Self> {
        let all = [
            Self::Trust,
            Self::Any,
            Self::Reject,
            Self::Password,
            Self::Md5,
            Self::ScramSha256,
            Self::Cert,
            Self::Peer,
        ];
        all.into_iter()
            .find(|m| m.name() == name)
            .or((name == "plain").then_some(Self::Password))
    }
}

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

/// Why a client does not get in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// What the client is told; tells nothing about which users exist.
    pub refusal: Refusal,
    /// What really happened, for our log; no secrets in it.
    pub reason: String,
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

enum State {
    Fresh(Box<Prepared>),
    Password {
        secret: Option<Secret>,
        mock: Option<super::scram::Verifier>,
    },
    Md5 {
        secret: Md5Secret,
        salt: [u8; 4],
        doomed: bool,
    },
    Scram(Box<ScramServer>),
    Over,
}

/// The first step is known when the authenticator is made.
struct Prepared {
    step: Step,
    then: State,
}

/// Nothing secret.
impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

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
        let mut nonce = [0; NONCE_BYTES];
        let mut salt = [0; 4];
        let step = if random
            .fill(&mut nonce)
            .and_then(|()| random.fill(&mut salt))
            .is_err()
        {
            let told = Refusal::new("XX000", "could not generate random nonce");
            Self::prepared(
                Step::Denied(Denial {
                    refusal: told,
                    reason: "the system gives no random numbers".into(),
                }),
                State::Over,
            )
        } else {
            Self::prepare(method, user, lookup, facts, mock, &nonce, salt)
        };
        Self {
            user: user.to_owned(),
            state: State::Fresh(Box::new(step)),
        }
    }

    /// The same with nonce and salt given: for tests.
    #[cfg(test)]
    pub(crate) fn with_nonce(
        method: Method,
        user: &str,
        lookup: Lookup<'_>,
        facts: Facts<'_>,
        mock: &Mock,
        nonce: &[u8; NONCE_BYTES],
        salt: [u8; 4],
    ) -> Self {
        Self {
            user: user.to_owned(),
            state: State::Fresh(Box::new(Self::prepare(
                method, user, lookup, facts, mock, nonce, salt,
            ))),
        }
    }

    fn prepared(step: Step, then: State) -> Prepared {
        Prepared { step, then }
    }

    fn prepare(
        method: Method,
        user: &str,
        lookup: Lookup<'_>,
        facts: Facts<'_>,
        mock: &Mock,
        nonce: &[u8; NONCE_BYTES],
        salt: [u8; 4],
    ) -> Prepared {
        let done = || {
            Self::prepared(
                Step::Done {
                    send: Vec::new(),
                    learnt: None,
                },
                State::Over,
            )
        };
        let over = |denial| Self::prepared(Step::Denied(denial), State::Over);
        let scram = |verifier, doomed| {
            let end_point = facts.tls.and_then(|tls| tls.end_point).map(<[u8]>::to_vec);
            let server = ScramServer::new(verifier, doomed, end_point, nonce);
            let mut offer = Vec::with_capacity(64);
            build::message(&mut offer, backend::AUTHENTICATION, |out| {
                out.extend(10u32.to_be_bytes());
                for name in server.mechanisms() {
                    out.extend(name.as_bytes());
                    out.push(0);
                }
                out.push(0);
            });
            Self::prepared(Step::Send(offer), State::Scram(Box::new(server)))
        };
        let md5 = |secret, doomed| {
            let mut ask = Vec::with_capacity(13);
            build::message(&mut ask, backend::AUTHENTICATION, |out| {
                out.extend(5u32.to_be_bytes());
                out.extend(salt);
            });
            Self::prepared(Step::Send(ask), State::Md5 { secret, salt, doomed })
        };
        match (method, lookup) {
            (Method::Trust, Lookup::Unknown) => over(Denial {
                refusal: Refusal::new(
                    code::INVALID_AUTHORIZATION,
                    format!("role \"{user}\" does not exist"),
                ),
                reason: "trusted, but the user does not exist".into(),
            }),
            (Method::Trust | Method::Any, _) => done(),
            (Method::Reject, _) => over(failed(method, user, "the method is reject")),
            (Method::Cert, _) => match identity(user, facts.tls.and_then(|tls| tls.common_name), facts.map) {
                Ok(()) => done(),
                Err(Identity::Missing) => over(Denial {
                    refusal: Refusal::new(
                        code::INVALID_AUTHORIZATION,
                        "connection requires a valid client certificate",
                    ),
                    reason: "no verified client certificate".into(),
                }),
                Err(Identity::Other(name)) => over(failed(
                    method,
                    user,
                    &format!("the certificate is one of \"{name}\""),
                )),
            },
            (Method::Peer, _) => match identity(user, facts.os_user, facts.map) {
                Ok(()) => done(),
                Err(Identity::Missing) => over(failed(
                    method,
                    user,
                    "the operating system does not say who this is",
                )),
                Err(Identity::Other(name)) => over(failed(
                    method,
                    user,
                    &format!("the operating system says this is \"{name}\""),
                )),
            },
            (Method::Password, lookup) => {
                let mut ask = Vec::with_capacity(9);
                build::message(&mut ask, backend::AUTHENTICATION, |out| {
                    out.extend(3u32.to_be_bytes())
                });
                let secret = if let Lookup::Found(secret) = lookup {
                    Some(secret.clone())
                } else {
                    None
                };
                let mock = (secret.is_none() && !mock.asks_md5()).then(|| mock.verifier(user));
                Self::prepared(Step::Send(ask), State::Password { secret, mock })
            }
            (_, Lookup::Found(Secret::Scram(verifier))) => scram(verifier.clone(), false),
            (Method::ScramSha256, Lookup::Found(Secret::Plain(secret))) => {
                scram(secret.verifier(user, mock), false)
            }
            (Method::ScramSha256, _) => scram(mock.verifier(user), true),
            (Method::Md5, Lookup::Found(Secret::Md5(secret))) => md5(secret.clone(), false),
            (Method::Md5, Lookup::Found(Secret::Plain(secret))) => {
                md5(Md5Secret::of(secret.password(), user), false)
            }
            (Method::Md5, _) if mock.asks_md5() => md5(Md5Secret::of(nonce, user), true),
            (Method::Md5, _) => scram(mock.verifier(user), true),
        }
    }

    /// The first step.
    pub fn start(&mut self) -> Step {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Fresh(prepared) => {
                self.state = prepared.then;
                prepared.step
            }
            _ => Step::Denied(violation("the login was started twice")),
        }
    }

    /// Takes the body of a `p` message.
    pub fn message(&mut self, body: &[u8]) -> Step {
        let state = std::mem::replace(&mut self.state, State::Over);
        if body.len() > BODY_BYTES_MAX {
            return Step::Denied(violation("a message of the login is too long"));
        }
        match state {
            State::Scram(server) => self.scram(server, body),
            State::Password { secret, mock } => {
                self.judge(Method::Password, body, |password, user| match (secret, mock) {
                    (Some(secret), _) => secret.matches(password, user),
                    (None, Some(mock)) => {
                        // Takes the time it takes for a user who exists; the answer is no.
                        mock.matches(password);
                        false
                    }
                    (None, None) => false,
                })
            }
            State::Md5 { secret, salt, doomed } => self.judge(Method::Md5, body, |response, _| {
                same(response, &secret.response(salt)) && !doomed
            }),
            State::Fresh(_) | State::Over => {
                Step::Denied(violation("a message of the login comes at the wrong time"))
            }
        }
    }

    /// What to say when another message than `p` comes while one is awaited.
    pub fn unexpected(&mut self, tag: u8) -> Denial {
        self.state = State::Over;
        Denial {
            refusal: Refusal::new(
                code::PROTOCOL_VIOLATION,
                format!("expected password response, got message type {tag}"),
            ),
            reason: "a message of another kind during the login".into(),
        }
    }

    /// Judges a password message: text ended by a zero byte.
    fn judge(&self, method: Method, body: &[u8], right: impl FnOnce(&[u8], &str) -> bool) -> Step {
        match body.split_last() {
            Some((0, text)) if !text.contains(&0) => {
                if text.is_empty() {
                    return Step::Denied(Denial {
                        refusal: Refusal::new(code::INVALID_PASSWORD, "empty password returned by client"),
                        reason: "empty password".into(),
                    });
                }
                if right(text, &self.user) {
                    Step::Done {
                        send: Vec::new(),
                        learnt: None,
                    }
                } else {
                    Step::Denied(failed(method, &self.user, "wrong password, or no such user"))
                }
            }
            _ => Step::Denied(Denial {
                refusal: Refusal::new(code::PROTOCOL_VIOLATION, "invalid password packet size"),
                reason: "the password message is not one text".into(),
            }),
        }
    }

    fn scram(&mut self, mut server: Box<ScramServer>, body: &[u8]) -> Step {
        let authentication = |kind: u32, data: &[u8]| {
            let mut out = Vec::with_capacity(data.len() + 9);
            build::message(&mut out, backend::AUTHENTICATION, |out| {
                out.extend(kind.to_be_bytes());
                out.extend(data);
            });
            out
        };
        match server.respond(body) {
            Ok(ScramReply::Challenge(data)) => {
                self.state = State::Scram(server);
                Step::Send(authentication(11, &data))
            }
            Ok(ScramReply::Accepted { last, keys }) => Step::Done {
                send: authentication(12, &last),
                learnt: Some(keys),
            },
            Err(error) => Step::Denied(self.scram_denial(&error)),
        }
    }

    fn scram_denial(&self, error: &ScramRefusal) -> Denial {
        let reason = error.to_string();
        let refusal = match error {
            ScramRefusal::WrongPassword => {
                return failed(Method::ScramSha256, &self.user, "wrong password, or no such user");
            }
            ScramRefusal::Malformed(what) => {
                Refusal::new(code::PROTOCOL_VIOLATION, "malformed SCRAM message").detail(*what)
            }
            ScramRefusal::Mechanism => Refusal::new(
                code::PROTOCOL_VIOLATION,
                "client selected an invalid SASL authentication mechanism",
            ),
            ScramRefusal::Downgraded => Refusal::new(
                code::INVALID_AUTHORIZATION,
                "SCRAM channel binding negotiation error",
            )
            .detail("The client supports channel binding and did not see that it is offered here."),
            ScramRefusal::BoundElsewhere => {
                Refusal::new(code::INVALID_AUTHORIZATION, "SCRAM channel binding check failed")
            }
        };
        Denial { refusal, reason }
    }
}

enum Identity<'a> {
    Missing,
    Other(&'a str),
}

fn identity<'a>(user: &str, name: Option<&'a str>, map: Option<&IdentMap>) -> Result<(), Identity<'a>> {
    let name = name.filter(|name| !name.is_empty()).ok_or(Identity::Missing)?;
    let same = map.map_or(name == user, |map| map.allows(name, user));
    if same { Ok(()) } else { Err(Identity::Other(name)) }
}

/// What PostgreSQL tells a client whose login by `method` failed.
pub(crate) fn failed(method: Method, user: &str, reason: &str) -> Denial {
    let (code, what) = match method {
        Method::Password | Method::Md5 | Method::ScramSha256 => (code::INVALID_PASSWORD, "password"),
        Method::Cert => (code::INVALID_AUTHORIZATION, "certificate"),
        Method::Peer => (code::INVALID_AUTHORIZATION, "Peer"),
        Method::Trust | Method::Any => (code::INVALID_AUTHORIZATION, "\"trust\""),
        Method::Reject => {
            let refusal = Refusal::new(
                code::INVALID_AUTHORIZATION,
                format!("authentication failed for user \"{user}\": host rejected"),
            );
            return Denial {
                refusal,
                reason: reason.to_owned(),
            };
        }
    };
    Denial {
        refusal: Refusal::new(code, format!("{what} authentication failed for user \"{user}\"")),
        reason: reason.to_owned(),
    }
}

fn violation(reason: &str) -> Denial {
    Denial {
        refusal: Refusal::new(
            code::PROTOCOL_VIOLATION,
            "unexpected message during authentication",
        ),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests;
