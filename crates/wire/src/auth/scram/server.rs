//! The side that asks for a password and checks the proof.
//!
//! Order of calls: [`ScramServer::mechanisms`] to tell the client what it may choose, then [`ScramServer::respond`] for each
//! of its messages until it is accepted or an error ends it. After either every further message is an error: an exchange
//! happens once, with a nonce nobody else had, so that a recorded proof is worth nothing.

use base64::Engine as _;

use super::message::{Malformed, attribute, expect, nonce_is_printable};
use super::{
    BASE64, ClientKeys, Key, NONCE_BYTES, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, Verifier, hmac_key, key, same,
    sha256, sign, xor,
};

/// Why an exchange ended without a login.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScramRefusal {
    /// The proof is not one of this password, or the user does not exist: the two look alike.
    #[error("the proof does not match the password")]
    WrongPassword,
    /// The client did not follow the protocol.
    #[error("malformed SCRAM message: {0}")]
    Malformed(&'static str),
    /// The client asked for a mechanism that was not offered.
    #[error("the client selected a SASL mechanism that was not offered")]
    Mechanism,
    /// The client believes that we cannot bind to the channel, though we offered to: somebody changed the offer on its way.
    #[error(
        "the client supports channel binding but did not see that it was offered: the offer was changed on its way"
    )]
    Downgraded,
    /// The client bound its proof to another TLS connection than ours: somebody sits in between.
    #[error("the proof is bound to another TLS connection than this one")]
    BoundElsewhere,
}

impl From<Malformed> for ScramRefusal {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error.0)
    }
}

/// What the server answers to a message.
#[derive(Debug, PartialEq, Eq)]
pub enum ScramReply {
    /// The body of an AuthenticationSASLContinue.
    Challenge(Vec<u8>),
    /// The client knows the password; the body of the AuthenticationSASLFinal, and what its proof gave away.
    Accepted {
        /// The server's own proof.
        last: Vec<u8>,
        /// With these the proxy can log in where the same verifier is stored.
        keys: ClientKeys,
    },
}

/// One exchange, from the server's side.
///
/// ```text
/// Initial ─► Last ─► Over
///    └─► First ─┘      (a client that sends no initial response gets an empty challenge)
/// ```
pub struct ScramServer {
    verifier: Verifier,
    /// The user does not exist or has no usable secret: all is computed as ever, and refused.
    doomed: bool,
    /// Hash of our certificate, where the channel can be bound to; then PLUS is offered.
    end_point: Option<Vec<u8>>,
    pub(super) nonce: String,
    state: State,
}

enum State {
    Initial,
    First { plus: bool },
    Last(Challenge),
    Over,
}

/// What the client's last message must go with.
struct Challenge {
    /// The client's first message without its GS2 header.
    first_bare: Vec<u8>,
    /// What we said to it.
    challenge: Vec<u8>,
    /// The client's nonce and ours behind it.
    nonce: Vec<u8>,
    /// GS2 header and, for PLUS, the hash of our certificate, in base64.
    binding: String,
    plus: bool,
}

debug_shows!(ScramServer, this => { binds: this.end_point.is_some() });

impl ScramServer {
    /// An exchange for the owner of `verifier`. With `doomed` it is refused at the end whatever the proof says. `end_point` is
    /// the hash of our certificate (tls-server-end-point), where the connection has TLS and the hash is defined. `nonce` must be
    /// random and used once.
    pub fn new(
        verifier: Verifier,
        doomed: bool,
        end_point: Option<Vec<u8>>,
        nonce: &[u8; NONCE_BYTES],
    ) -> Self {
        Self {
            verifier,
            doomed,
            end_point,
            nonce: super::nonce(nonce),
            state: State::Initial,
        }
    }

    /// The mechanisms offered, best first.
    pub fn mechanisms(&self) -> &'static [&'static str] {
        match self.end_point {
            Some(_) => &[SCRAM_SHA_256_PLUS, SCRAM_SHA_256],
            None => &[SCRAM_SHA_256],
        }
    }

    /// Takes the body of the client's next message: a SASLInitialResponse first, SASLResponses after it.
    ///
    /// # Errors
    /// The exchange is over; the client is refused.
    pub fn respond(&mut self, body: &[u8]) -> Result<ScramReply, ScramRefusal> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Initial => {
                let (mechanism, response) = initial_response(body)?;
                let plus = match mechanism {
                    m if m == SCRAM_SHA_256.as_bytes() => false,
                    m if m == SCRAM_SHA_256_PLUS.as_bytes() && self.end_point.is_some() => true,
                    _ => return Err(ScramRefusal::Mechanism),
                };
                match response {
                    Some(first) => self.challenge(first, plus),
                    None => {
                        self.state = State::First { plus };
                        Ok(ScramReply::Challenge(Vec::new()))
                    }
                }
            }
            State::First { plus } => self.challenge(body, plus),
            State::Last(challenge) => self.judge(body, &challenge),
            State::Over => Err(ScramRefusal::Malformed("The exchange is over.")),
        }
    }

    fn challenge(&mut self, first: &[u8], plus: bool) -> Result<ScramReply, ScramRefusal> {
        let (header, bare) = self.gs2_header(first, plus)?;
        let mut rest = bare;
        if bare.starts_with(b"m=") {
            return Err(Malformed("The client requires an extension that is not supported.").into());
        }
        // PostgreSQL takes the user from the startup packet; what is said here has no meaning.
        expect(&mut rest, b'n', "The user name is missing.")?;
        let client_nonce = expect(&mut rest, b'r', "The nonce is missing.")?;
        if !nonce_is_printable(client_nonce) {
            return Err(Malformed("The nonce has characters that are not printable.").into());
        }
        while !rest.is_empty() {
            attribute(&mut rest)?; // optional extensions are ignored, as RFC 5802 says
        }
        let nonce = [client_nonce, self.nonce.as_bytes()].concat();
        let tail = format!(
            ",s={},i={}",
            BASE64.encode(&self.verifier.salt),
            self.verifier.iterations
        );
        let challenge = [b"r=", nonce.as_slice(), tail.as_bytes()].concat();
        let bound = match (&self.end_point, plus) {
            (Some(hash), true) => [header, hash].concat(),
            _ => header.to_vec(),
        };
        self.state = State::Last(Challenge {
            first_bare: bare.to_vec(),
            challenge: challenge.clone(),
            nonce,
            binding: BASE64.encode(bound),
            plus,
        });
        Ok(ScramReply::Challenge(challenge))
    }

    /// Splits the first message into its GS2 header and the rest; refuses headers that do not go with the mechanism.
    fn gs2_header<'a>(&self, first: &'a [u8], plus: bool) -> Result<(&'a [u8], &'a [u8]), ScramRefusal> {
        let mut parts = first.splitn(3, |&b| b == b',');
        let (Some(flag), Some(somebody), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(ScramRefusal::Malformed("The header is incomplete."));
        };
        let problem = match (flag, plus) {
            (b"y", false) if self.end_point.is_some() => return Err(ScramRefusal::Downgraded),
            (b"n" | b"y", true) => "The mechanism binds to the channel but the message does not.",
            (b"n" | b"y", false) | (b"p=tls-server-end-point", true) if somebody.is_empty() => {
                return Ok((&first[..first.len() - bare.len()], bare));
            }
            (b"n" | b"y", false) | (b"p=tls-server-end-point", true) => {
                "The client wants to be somebody else (authzid), which is not supported."
            }
            (flag, true) if flag.starts_with(b"p=") => "The type of channel binding is not supported.",
            (flag, false) if flag.starts_with(b"p=") => {
                "The message binds to the channel but the mechanism does not."
            }
            _ => "The flag of channel binding is unknown.",
        };
        Err(ScramRefusal::Malformed(problem))
    }

    fn judge(&self, last: &[u8], said: &Challenge) -> Result<ScramReply, ScramRefusal> {
        let mut rest = last;
        let bound = expect(&mut rest, b'c', "The channel binding is missing.")?;
        if !same(bound, said.binding.as_bytes()) {
            // Only a client that bound itself to a certificate can differ without being wrong about its own header.
            return Err(if said.plus {
                ScramRefusal::BoundElsewhere
            } else {
                ScramRefusal::Malformed("The channel binding changed.")
            });
        }
        if !same(expect(&mut rest, b'r', "The nonce is missing.")?, &said.nonce) {
            return Err(Malformed("The nonce is not the one of this exchange.").into());
        }
        let (without_proof, proof) = loop {
            let before = last.len() - rest.len() - 1; // without the comma
            if let (b'p', proof) = attribute(&mut rest)? {
                break (&last[..before], proof);
            }
        };
        if !rest.is_empty() {
            return Err(ScramRefusal::Malformed("Something follows the proof."));
        }
        let proof: Key = key(proof).ok_or(ScramRefusal::Malformed("The proof is not 32 bytes in base64."))?;

        let spoken: [&[u8]; 5] = [&said.first_bare, b",", &said.challenge, b",", without_proof];
        let client_key = xor(&proof, &sign(&hmac_key(&self.verifier.stored_key), &spoken));
        let right = same(&sha256(&client_key), &self.verifier.stored_key);
        let signature = sign(&hmac_key(&self.verifier.server_key), &spoken);
        if !right || self.doomed {
            return Err(ScramRefusal::WrongPassword);
        }
        let keys = ClientKeys {
            iterations: self.verifier.iterations,
            salt: self.verifier.salt.clone(),
            client_key,
            server_key: self.verifier.server_key,
        };
        Ok(ScramReply::Accepted {
            last: format!("v={}", BASE64.encode(signature)).into_bytes(),
            keys,
        })
    }
}

/// A SASLInitialResponse: the mechanism, ended by a zero byte, and the response with its length, or -1 for none.
fn initial_response(body: &[u8]) -> Result<(&[u8], Option<&[u8]>), ScramRefusal> {
    let wrong = ScramRefusal::Malformed("The initial response is not complete.");
    let end = body.iter().position(|&b| b == 0).ok_or(wrong.clone())?;
    let (length, response) = body[end + 1..].split_first_chunk::<4>().ok_or(wrong.clone())?;
    match i32::from_be_bytes(*length) {
        -1 if response.is_empty() => Ok((&body[..end], None)),
        length if usize::try_from(length) == Ok(response.len()) => Ok((&body[..end], Some(response))),
        _ => Err(wrong),
    }
}
