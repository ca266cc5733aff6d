//! The proxy as a client that logs in to PostgreSQL.
//!
//! Order of calls: after the startup packet, [`ServerLogin::message`] with the body of each `R` message, until
//! [`LoginStep::Done`]. Errors of the server (`E`) are the caller's to read. A server that wants nothing of us is done at its
//! first AuthenticationOk; one that began SCRAM must first prove that it knows the password.

use ring::rand::SecureRandom;

use super::scram::client::{ScramClient, ScramClientError};
use super::scram::{ClientKeys, NONCE_BYTES};
use super::secret::Credentials;
use crate::{build, frontend};

/// Longest body of an `R` message taken, in bytes.
pub const BODY_BYTES_MAX: usize = 8192;

/// Why we cannot log in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The server asks for something the user's credentials cannot answer.
    #[error(
        "wrong password type: the server asks for {0}, and what corun has of this user's password is not enough for that; store {1} in auth_file"
    )]
    Missing(&'static str, &'static str),
    /// The server asks for the password in clear text over a connection anybody can read.
    #[error(
        "the server asks for the password in clear text over a connection without TLS: use scram-sha-256 in the server's \
         pg_hba.conf, or have TLS required (sslmode require)"
    )]
    ClearText,
    /// The server wants a method we do not have.
    #[error(
        "the server asks for an authentication method that is not supported (code {0}): use scram-sha-256, md5, cert or trust there"
    )]
    Unsupported(u32),
    /// The server broke the protocol.
    #[error("unexpected authentication message from the server: {0}")]
    Malformed(&'static str),
    /// SCRAM failed on our side.
    #[error(transparent)]
    Scram(#[from] ScramClientError),
    /// No random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

/// What to do next.
#[derive(Debug)]
pub enum LoginStep {
    /// Send these bytes and wait.
    Send(Vec<u8>),
    /// There is nothing to send; the server's next message decides.
    Wait,
    /// The server accepted the login.
    Done {
        /// With these the next login of this user needs no key derivation.
        learnt: Option<ClientKeys>,
    },
}

/// What is known of the connection and wanted of it.
#[derive(Debug, Clone, Default)]
pub struct LoginOptions {
    /// Whether the connection has TLS.
    pub tls: bool,
    /// Hash of the server's certificate, where it is defined.
    pub end_point: Option<Vec<u8>>,
    /// Whether the password may be sent in clear text where there is no TLS (to a Unix socket, to this machine).
    pub clear_text: bool,
}

/// The login to one server connection.
///
/// ```text
/// Fresh ─┬─ Ok ────────────────────────────────────────► Over
///        ├─ clear text, MD5 ─► Sent ──────────── Ok ───►┘
///        └─ SASL ─► Scram ─ continue, final ─► Proved ─ Ok ►┘
/// ```
pub struct ServerLogin {
    user: String,
    credentials: Credentials,
    options: LoginOptions,
    nonce: [u8; NONCE_BYTES],
    state: State,
}

enum State {
    Fresh,
    Sent,
    Scram(Box<ScramClient>),
    Proved(ClientKeys),
    Over,
}

debug_shows!(ServerLogin, this => { user: this.user, credentials: this.credentials });

impl ServerLogin {
    /// A login as `user`.
    ///
    /// # Errors
    /// [`LoginError::Random`].
    pub fn new(
        user: &str,
        credentials: Credentials,
        options: LoginOptions,
        random: &dyn SecureRandom,
    ) -> Result<Self, LoginError> {
        let mut nonce = [0; NONCE_BYTES];
        random.fill(&mut nonce).map_err(|_| LoginError::Random)?;
        Ok(Self {
            user: user.to_owned(),
            credentials,
            options,
            nonce,
            state: State::Fresh,
        })
    }

    /// Takes the body of an `R` message.
    ///
    /// # Errors
    /// The login failed on our side; the connection is to be closed.
    pub fn message(&mut self, body: &[u8]) -> Result<LoginStep, LoginError> {
        let state = std::mem::replace(&mut self.state, State::Over);
        if body.len() > BODY_BYTES_MAX {
            return Err(LoginError::Malformed("it is too long"));
        }
        let (kind, data) = body
            .split_first_chunk::<4>()
            .ok_or(LoginError::Malformed("it is too short"))?;
        match (u32::from_be_bytes(*kind), state) {
            (0, state) if data.is_empty() => self.accepted(state),
            (3, State::Fresh) if data.is_empty() => {
                if !self.options.tls && !self.options.clear_text {
                    return Err(LoginError::ClearText);
                }
                let password = self.credentials.password.as_ref().ok_or(LoginError::Missing(
                    "a password in clear text",
                    "the plain password",
                ))?;
                let answer = password_message(password);
                self.sent(answer)
            }
            (5, State::Fresh) => {
                let salt: [u8; 4] = data
                    .try_into()
                    .map_err(|_| LoginError::Malformed("the salt of MD5 is not 4 bytes"))?;
                let missing = LoginError::Missing("an MD5 password", "the md5 secret or the plain password");
                let answer =
                    password_message(&self.credentials.md5(&self.user).ok_or(missing)?.response(salt));
                self.sent(answer)
            }
            (10, State::Fresh) => self.begin_scram(data),
            (11, State::Scram(mut client)) => {
                let proof = client.prove(data)?;
                self.state = State::Scram(client);
                Ok(LoginStep::Send(response(|out| out.extend(proof))))
            }
            (12, State::Scram(mut client)) => {
                self.state = State::Proved(client.check(data)?);
                Ok(LoginStep::Wait)
            }
            (0 | 3 | 5 | 10 | 11 | 12, _) => Err(LoginError::Malformed("it comes at the wrong time")),
            (other, _) => Err(LoginError::Unsupported(other)),
        }
    }

    fn accepted(&mut self, state: State) -> Result<LoginStep, LoginError> {
        match state {
            State::Fresh | State::Sent => Ok(LoginStep::Done { learnt: None }),
            State::Proved(keys) => Ok(LoginStep::Done { learnt: Some(keys) }),
            State::Scram(_) => Err(LoginError::Malformed(
                "the server lets us in without having proved that it knows the password",
            )),
            State::Over => Err(LoginError::Malformed("it comes at the wrong time")),
        }
    }

    fn sent(&mut self, answer: Vec<u8>) -> Result<LoginStep, LoginError> {
        self.state = State::Sent;
        Ok(LoginStep::Send(answer))
    }

    fn begin_scram(&mut self, list: &[u8]) -> Result<LoginStep, LoginError> {
        let list = list
            .strip_suffix(&[0])
            .ok_or(LoginError::Malformed("the list of mechanisms has no end"))?;
        let offered: Vec<&[u8]> = list.split(|&b| b == 0).filter(|name| !name.is_empty()).collect();
        if self.credentials.password.is_none() && self.credentials.keys.is_none() {
            return Err(LoginError::Missing(
                "a SCRAM login",
                "the server's SCRAM verifier or the plain password",
            ));
        }
        let client = ScramClient::choose(
            &offered,
            self.options.tls,
            self.options.end_point.as_deref(),
            self.credentials.clone(),
            &self.nonce,
        )?;
        let first = client.first();
        let answer = response(|out| {
            out.extend(client.mechanism().as_bytes());
            out.push(0);
            out.extend((first.len() as u32).to_be_bytes());
            out.extend(&first);
        });
        self.state = State::Scram(Box::new(client));
        Ok(LoginStep::Send(answer))
    }
}

fn response(body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    build::message(&mut out, frontend::PASSWORD, body);
    out
}

fn password_message(password: &[u8]) -> Vec<u8> {
    response(|out| {
        out.extend(password);
        out.push(0);
    })
}

#[cfg(test)]
mod tests;
