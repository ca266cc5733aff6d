//! The side that logs in: from a password, or from keys learnt while a client logged in with the same verifier.
//!
//! Order of calls: [`ScramClient::choose`] with the mechanisms the server offers, [`ScramClient::first`],
//! [`ScramClient::prove`], [`ScramClient::check`]. Only after `check` has the server shown that it knows the password too.

use std::num::NonZeroU32;

use base64::Engine as _;

use super::message::{Malformed, expect, nonce_is_printable};
use super::{
    BASE64, ClientKeys, ITERATIONS_MAX, Key, NONCE_BYTES, SALT_BYTES_MAX, SCRAM_SHA_256, SCRAM_SHA_256_PLUS,
    hmac_key, key, same, sha256, sign, xor,
};
use crate::auth::Credentials;

/// Why a login towards a server failed on our side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScramClientError {
    /// The server does not speak a SCRAM mechanism we do.
    #[error("the server offers none of the SASL mechanisms SCRAM-SHA-256 and SCRAM-SHA-256-PLUS")]
    NoMechanism,
    /// The server broke the protocol.
    #[error("malformed SCRAM message from the server: {0}")]
    Malformed(&'static str),
    /// The server wants more work than is reasonable.
    #[error("the server wants {0} iterations of the password's hash, more than the {ITERATIONS_MAX} allowed")]
    Iterations(u64),
    /// Only keys are known, and they belong to another verifier.
    #[error(
        "the verifier this server stores is not the one the client logged in with: give corun the same verifier as the server's \
         pg_authid, or the password"
    )]
    OtherVerifier,
    /// The server could not prove that it knows the password.
    #[error("the server's signature is wrong: it does not know the password, or somebody sits in between")]
    NotTheServer,
    /// The server refused in its last message.
    #[error("the server refused the SCRAM exchange")]
    Refused,
}

impl From<Malformed> for ScramClientError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error.0)
    }
}

/// One exchange, from the client's side.
///
/// ```text
/// Chosen ─ prove ─► Proved ─ check ─► Over
/// ```
pub struct ScramClient {
    credentials: Credentials,
    plus: bool,
    /// GS2 header and, for PLUS, the hash of the server's certificate behind it.
    bound: Vec<u8>,
    header: &'static str,
    nonce: String,
    state: State,
}

enum State {
    Chosen,
    Proved { keys: ClientKeys, signature: Key },
    Over,
}

debug_shows!(ScramClient, this => { mechanism: this.mechanism() });

impl ScramClient {
    /// Chooses a mechanism among those the server offers, bound to the TLS connection where both sides can. `tls` tells whether the connection has TLS, `end_point` the hash of
    /// the server's certificate where it is defined. Keys in `credentials` that fit are preferred, because they cost no key
    /// derivation.
    ///
    /// # Errors
    /// No mechanism in common.
    pub fn choose(
        offered: &[&[u8]],
        tls: bool,
        end_point: Option<&[u8]>,
        credentials: Credentials,
        nonce: &[u8; NONCE_BYTES],
    ) -> Result<Self, ScramClientError> {
        let offers = |name: &str| offered.contains(&name.as_bytes());
        let hash = end_point.filter(|_| tls);
        let plus = hash.is_some() && offers(SCRAM_SHA_256_PLUS);
        if !plus && !offers(SCRAM_SHA_256) {
            return Err(ScramClientError::NoMechanism);
        }
        // "y" says that we could have bound ourselves; a server that did offer it then knows that its offer was tampered with.
        let header = match (plus, hash) {
            (true, _) => "p=tls-server-end-point,,",
            (false, Some(_)) => "y,,",
            (false, None) => "n,,",
        };
        let bound = [header.as_bytes(), hash.filter(|_| plus).unwrap_or_default()].concat();
        Ok(Self {
            credentials,
            plus,
            bound,
            header,
            nonce: super::nonce(nonce),
            state: State::Chosen,
        })
    }

    /// The mechanism chosen.
    pub fn mechanism(&self) -> &'static str {
        if self.plus {
            SCRAM_SHA_256_PLUS
        } else {
            SCRAM_SHA_256
        }
    }

    /// The first message. The user name stays empty: PostgreSQL has it from the startup packet.
    pub fn first(&self) -> Vec<u8> {
        format!("{}{}", self.header, self.first_bare()).into_bytes()
    }

    fn first_bare(&self) -> String {
        format!("n=,r={}", self.nonce)
    }

    /// Answers the server's challenge with the proof.
    ///
    /// # Errors
    /// A challenge that is not one, or a secret that does not fit; the exchange is over.
    pub fn prove(&mut self, challenge: &[u8]) -> Result<Vec<u8>, ScramClientError> {
        let State::Chosen = std::mem::replace(&mut self.state, State::Over) else {
            return Err(ScramClientError::Malformed("a challenge comes at the wrong time"));
        };
        if challenge.starts_with(b"e=") {
            return Err(ScramClientError::Refused);
        }
        let mut rest = challenge;
        let nonce = expect(&mut rest, b'r', "the challenge has no nonce")?;
        let salt = expect(&mut rest, b's', "the challenge has no salt")?;
        let count = expect(&mut rest, b'i', "the challenge has no iteration count")?;
        if !rest.is_empty() {
            return Err(Malformed("something follows the iteration count").into());
        }
        let added = nonce.strip_prefix(self.nonce.as_bytes()).unwrap_or_default();
        if !nonce_is_printable(added) {
            return Err(ScramClientError::Malformed("the nonce does not continue ours"));
        }
        let salt = BASE64
            .decode(salt)
            .ok()
            .filter(|s| !s.is_empty() && s.len() <= SALT_BYTES_MAX);
        let salt = salt.ok_or(ScramClientError::Malformed("the salt is not a salt in base64"))?;
        let keys = self.keys(&salt, iterations(count)?)?;

        let without_proof = [format!("c={},r=", BASE64.encode(&self.bound)).as_bytes(), nonce].concat();
        let first_bare = self.first_bare();
        let spoken: [&[u8]; 5] = [first_bare.as_bytes(), b",", challenge, b",", &without_proof];
        let proof = xor(
            &keys.client_key,
            &sign(&hmac_key(&sha256(&keys.client_key)), &spoken),
        );
        let signature = sign(&hmac_key(&keys.server_key), &spoken);
        self.state = State::Proved { keys, signature };
        Ok([without_proof.as_slice(), b",p=", BASE64.encode(proof).as_bytes()].concat())
    }

    fn keys(&self, salt: &[u8], iterations: NonZeroU32) -> Result<ClientKeys, ScramClientError> {
        match (&self.credentials.keys, &self.credentials.password) {
            (Some(keys), _) if keys.fits(salt, iterations) => Ok(keys.clone()),
            (_, Some(password)) => Ok(ClientKeys::derive(password, salt, iterations)),
            (_, None) => Err(ScramClientError::OtherVerifier),
        }
    }

    /// Checks the server's own proof in its last message; returns the keys used, with which the next login needs no derivation.
    ///
    /// # Errors
    /// Whoever is there does not know the password; nothing may be sent to it.
    pub fn check(&mut self, last: &[u8]) -> Result<ClientKeys, ScramClientError> {
        let State::Proved { keys, signature } = std::mem::replace(&mut self.state, State::Over) else {
            return Err(Malformed("the last message comes at the wrong time").into());
        };
        if last.starts_with(b"e=") {
            return Err(ScramClientError::Refused);
        }
        let mut rest = last;
        let claimed = expect(&mut rest, b'v', "the last message has no signature")?;
        if !rest.is_empty() {
            return Err(ScramClientError::Malformed("something follows the signature"));
        }
        let claimed = key(claimed).ok_or(Malformed("the signature is not 32 bytes in base64"))?;
        if same(&claimed, &signature) {
            Ok(keys)
        } else {
            Err(ScramClientError::NotTheServer)
        }
    }
}

fn iterations(text: &[u8]) -> Result<NonZeroU32, ScramClientError> {
    let wrong = ScramClientError::Malformed("the iteration count is not a number above zero");
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return Err(wrong);
    }
    let count = text
        .iter()
        .fold(0u64, |n, digit| n * 10 + u64::from(digit - b'0'));
    if count > u64::from(ITERATIONS_MAX) {
        return Err(ScramClientError::Iterations(count));
    }
    u32::try_from(count).ok().and_then(NonZeroU32::new).ok_or(wrong)
}
