//! What is known of a user's password: the forms PostgreSQL stores and the plain one.

use std::num::NonZeroU32;
use std::sync::OnceLock;

use ring::hmac;
use ring::rand::SecureRandom;

use super::md5::Md5Secret;
use super::scram::{ClientKeys, ITERATIONS_DEFAULT, Verifier, same, sign};

/// What is stored for a user.
#[derive(Debug, Clone)]
pub enum Secret {
    /// The password itself.
    Plain(PlainSecret),
    /// Hash of password and user name.
    Md5(Md5Secret),
    /// SCRAM verifier.
    Scram(Verifier),
}

impl Secret {
    /// Tells the forms apart as PostgreSQL does; what is neither an MD5 nor a SCRAM secret is a password. `None` for an empty
    /// text, with which nobody may log in.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        if let Some(secret) = Md5Secret::parse(text) {
            return Some(Self::Md5(secret));
        }
        match std::str::from_utf8(text).ok().and_then(Verifier::parse) {
            Some(verifier) => Some(Self::Scram(verifier)),
            None => Some(Self::Plain(PlainSecret::new(text))),
        }
    }

    /// Whether `password` is the one behind this secret.
    pub fn matches(&self, password: &[u8], user: &str) -> bool {
        match self {
            Self::Plain(secret) => same(&secret.password, password),
            Self::Md5(secret) => secret.matches(password, user),
            Self::Scram(verifier) => verifier.matches(password),
        }
    }
}

/// A password, and what was derived from it once.
#[derive(Clone)]
pub struct PlainSecret {
    password: Vec<u8>,
    keys: OnceLock<ClientKeys>,
}

debug_shows!(PlainSecret, _this => {});

impl PlainSecret {
    /// A password.
    pub fn new(password: &[u8]) -> Self {
        Self {
            password: password.to_vec(),
            keys: OnceLock::new(),
        }
    }

    /// The password.
    pub fn password(&self) -> &[u8] {
        &self.password
    }

    /// The verifier offered to clients; derived at the first call, a millisecond. [`Mock::prepare`] calls it ahead of time.
    pub fn verifier(&self, user: &str, mock: &Mock) -> Verifier {
        let derive = || ClientKeys::derive(&self.password, &mock.salt(user), mock.iterations);
        self.keys.get_or_init(derive).verifier()
    }
}

/// What was found of a user before anything is asked of the client.
#[derive(Debug, Clone, Copy)]
pub enum Lookup<'a> {
    /// The user exists, with this secret.
    Found(&'a Secret),
    /// The user exists without a usable secret: no password lets it in.
    NoSecret,
    /// There is no such user.
    Unknown,
}

/// What users that do not exist are shown: always the same for the same name, and of the same shape as the others.
#[derive(Clone)]
pub struct Mock {
    seed: hmac::Key,
    md5: bool,
    iterations: NonZeroU32,
}

// Who has the seed can tell which users do not exist.
debug_shows!(Mock, this => { md5: this.md5 });

impl Mock {
    /// From bytes nobody outside knows and which stay the same over restarts (the user list with its secrets will do), so that
    /// an unknown user's salt does not change when a real one's stays. With `md5`, method `md5` asks unknown users for an MD5
    /// password: right where most users have one.
    pub fn from_secret(bytes: &[u8], md5: bool) -> Self {
        Self {
            seed: hmac::Key::new(hmac::HMAC_SHA256, bytes),
            md5,
            iterations: ITERATIONS_DEFAULT,
        }
    }

    /// The same with another count of iterations for SCRAM: of passwords known in plain, and shown for users that do not exist.
    #[must_use]
    pub fn with_iterations(&self, iterations: NonZeroU32) -> Self {
        Self {
            iterations,
            ..self.clone()
        }
    }

    /// From random bytes; `None` where the system has none to give.
    pub fn random(random: &dyn SecureRandom, md5: bool) -> Option<Self> {
        let mut bytes = [0; 32];
        random.fill(&mut bytes).ok()?;
        Some(Self::from_secret(&bytes, md5))
    }

    pub(crate) fn asks_md5(&self) -> bool {
        self.md5
    }

    pub(crate) fn verifier(&self, user: &str) -> Verifier {
        Verifier::mock(&self.seed, user, self.iterations)
    }

    /// The salt of users whose password is known in plain.
    fn salt(&self, user: &str) -> Vec<u8> {
        sign(&self.seed, &[b"salt:", user.as_bytes()])[..16].to_vec()
    }

    /// Derives the verifiers of plain passwords ahead of time, so that the first login of a user takes no longer than that of
    /// one who does not exist. A millisecond a user: not for an event loop.
    pub fn prepare<'a>(&self, users: impl Iterator<Item = (&'a str, &'a Secret)>) {
        for (user, secret) in users {
            if let Secret::Plain(secret) = secret {
                secret.verifier(user, self);
            }
        }
    }
}

/// What the proxy has to log in to a server as a user; any part may be missing.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The password.
    pub password: Option<Vec<u8>>,
    /// Hash of password and user name.
    pub md5: Option<Md5Secret>,
    /// SCRAM keys: learnt from a client, or from an earlier login to the server.
    pub keys: Option<ClientKeys>,
}

// What is known, not what it is.
debug_shows!(Credentials, this => {
    password: this.password.is_some(), md5: this.md5.is_some(), keys: this.keys.is_some()
});

impl Credentials {
    /// What a user's stored secret, and what was learnt while the user logged in, are good for.
    pub fn new(secret: Option<&Secret>, learnt: Option<ClientKeys>) -> Self {
        let mut all = Self {
            keys: learnt,
            ..Self::default()
        };
        match secret {
            Some(Secret::Plain(secret)) => all.password = Some(secret.password.clone()),
            Some(Secret::Md5(secret)) => all.md5 = Some(secret.clone()),
            Some(Secret::Scram(_)) | None => {}
        }
        all
    }

    /// The MD5 secret, made from the password where only that is known.
    pub(crate) fn md5(&self, user: &str) -> Option<Md5Secret> {
        let made = || Some(Md5Secret::of(self.password.as_ref()?, user));
        self.md5.clone().or_else(made)
    }
}
