//! SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677, RFC 5929) as PostgreSQL speaks them: keys, verifiers and both sides.
//!
//! ```text
//!  client                                   server
//!    ── n,,n=,r=CNONCE ───────────────────────►      `client::ScramClient::first`
//!    ◄──────── r=CNONCE SNONCE,s=SALT,i=COUNT ──     `server::ScramServer::respond` (challenge)
//!    ── c=BINDING,r=...,p=PROOF ──────────────►      `client::ScramClient::prove`
//!    ◄───────────────────────── v=SIGNATURE ────     `server::ScramServer::respond` (accepted), `ScramClient::check`
//! ```
//!
//! A server stores a [`Verifier`], from which nobody can log in. From a proof that was right it learns the client's key; with
//! these [`ClientKeys`] a pooler logs in to a PostgreSQL that has the same verifier, without ever knowing the password.
//!
//! What it is not: the framing of PostgreSQL's `Authentication` messages, which [`super::authenticator`] and
//! [`super::server_login`] do.

pub mod client;
pub mod server;

mod message;
mod prep;

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};

pub use prep::normalized;

/// Name of the mechanism without channel binding.
pub const SCRAM_SHA_256: &str = "SCRAM-SHA-256";
/// Name of the mechanism with channel binding.
pub const SCRAM_SHA_256_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// Iterations of the key derivation where nobody says otherwise; PostgreSQL's default too.
pub const ITERATIONS_DEFAULT: NonZeroU32 = NonZeroU32::new(4096).expect("4096 is not zero");
/// Most iterations done on behalf of a server: half a second of an event loop. A server that wants more is refused.
pub const ITERATIONS_MAX: u32 = 1_000_000;
/// Longest salt taken, in bytes.
pub const SALT_BYTES_MAX: usize = 1024;
/// Random bytes behind a nonce of ours; PostgreSQL's number.
pub const NONCE_BYTES: usize = 18;

/// Length of SHA-256 and of all keys, in bytes.
pub(crate) const KEY_BYTES: usize = 32;
pub(crate) type Key = [u8; KEY_BYTES];

/// What a server keeps of a password: enough to check a proof, not enough to make one.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

debug_shows!(Verifier, this => { iterations: this.iterations });

impl Verifier {
    /// Reads PostgreSQL's text form, `SCRAM-SHA-256$iterations:salt$stored:server`. `None` where the text is anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("SCRAM-SHA-256$")?;
        let (count_salt, keys) = rest.split_once('$')?;
        let (count, salt) = count_salt.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        if !count.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let salt = BASE64
            .decode(salt)
            .ok()
            .filter(|s| !s.is_empty() && s.len() <= SALT_BYTES_MAX)?;
        Some(Self {
            iterations: count.parse().ok()?,
            salt,
            stored_key: key(stored.as_bytes())?,
            server_key: key(server.as_bytes())?,
        })
    }

    /// The verifier of a password; takes `iterations` times two SHA-256 blocks, a millisecond at the usual 4,096.
    pub fn derive(password: &[u8], salt: &[u8], iterations: NonZeroU32) -> Self {
        ClientKeys::derive(password, salt, iterations).verifier()
    }

    /// Whether this is the verifier of `password`; takes as long as [`Verifier::derive`].
    pub fn matches(&self, password: &[u8]) -> bool {
        self.keys(password).is_some()
    }

    /// The keys of `password` here; `None` where this is not its verifier.
    pub fn keys(&self, password: &[u8]) -> Option<ClientKeys> {
        let keys = ClientKeys::derive(password, &self.salt, self.iterations);
        same(&keys.server_key, &self.server_key).then_some(keys)
    }

    /// PostgreSQL's text form. It is a secret: never for a log.
    pub fn to_secret_text(&self) -> String {
        let b64 = |bytes: &[u8]| BASE64.encode(bytes);
        format!(
            "SCRAM-SHA-256${}:{}${}:{}",
            self.iterations,
            b64(&self.salt),
            b64(&self.stored_key),
            b64(&self.server_key)
        )
    }

    /// A verifier nobody can satisfy on purpose, for users that do not exist: salt and keys from `seed`, so that each user name
    /// keeps its salt from one attempt to the next.
    pub(crate) fn mock(seed: &hmac::Key, user: &str, iterations: NonZeroU32) -> Self {
        let part = |purpose: &[u8]| sign(seed, &[purpose, user.as_bytes()]);
        Self {
            iterations,
            salt: part(b"salt:")[..16].to_vec(),
            stored_key: part(b"stored:"),
            server_key: part(b"server:"),
        }
    }
}

/// The keys of somebody who knows the password under one salt and iteration count: enough to log in wherever the same verifier
/// is stored. As secret as the password.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientKeys {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    client_key: Key,
    server_key: Key,
}

debug_shows!(ClientKeys, this => { iterations: this.iterations });

impl ClientKeys {
    /// The keys of a password (RFC 5802, section 3), after SASLprep as PostgreSQL applies it.
    pub fn derive(password: &[u8], salt: &[u8], iterations: NonZeroU32) -> Self {
        let mut salted = [0; KEY_BYTES];
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            iterations,
            salt,
            &normalized(password),
            &mut salted,
        );
        let salted = hmac::Key::new(hmac::HMAC_SHA256, &salted);
        Self {
            iterations,
            salt: salt.to_vec(),
            client_key: sign(&salted, &[b"Client Key"]),
            server_key: sign(&salted, &[b"Server Key"]),
        }
    }

    /// Whether these are the keys a server with this salt and count expects.
    pub fn fits(&self, salt: &[u8], iterations: NonZeroU32) -> bool {
        self.salt == salt && self.iterations == iterations
    }

    /// What a server would store for them.
    pub fn verifier(&self) -> Verifier {
        Verifier {
            iterations: self.iterations,
            salt: self.salt.clone(),
            stored_key: sha256(&self.client_key),
            server_key: self.server_key,
        }
    }
}

/// A nonce of ours: printable, without a comma.
pub(crate) fn nonce(random: &[u8; NONCE_BYTES]) -> String {
    BASE64.encode(random)
}

fn key(text: &[u8]) -> Option<Key> {
    BASE64.decode(text).ok()?.try_into().ok()
}

pub(crate) fn sha256(bytes: &[u8]) -> Key {
    let mut out = [0; KEY_BYTES];
    out.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    out
}

fn hmac_key(key: &Key) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key)
}

pub(crate) fn sign(key: &hmac::Key, parts: &[&[u8]]) -> Key {
    let mut context = hmac::Context::with_key(key);
    parts.iter().for_each(|part| context.update(part));
    let mut out = [0; KEY_BYTES];
    out.copy_from_slice(context.sign().as_ref());
    out
}

fn xor(a: &Key, b: &Key) -> Key {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// Equality in a time that depends on the lengths only.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    let differences = a
        .iter()
        .zip(b)
        .fold(0, |all, (x, y)| std::hint::black_box(all | (x ^ y)));
    a.len() == b.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests;
