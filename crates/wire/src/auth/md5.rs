//! MD5 passwords as PostgreSQL has them: `md5` and the hash of password and user; on the wire hashed once more with a salt.
//!
//! Old and weak, but still found in servers and in PgBouncer's user lists.

use md5::{Digest, Md5};

/// The stored form without its `md5`: 32 hexadecimal digits. It is all a server needs to let somebody in: as secret as the
/// password.
#[derive(Clone, PartialEq, Eq)]
pub struct Md5Secret(String);

debug_shows!(Md5Secret, _this => {});

impl Md5Secret {
    /// Reads `md5` and 32 hexadecimal digits in lower case; `None` where the text is anything else.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits = std::str::from_utf8(text.strip_prefix(b"md5")?).ok()?;
        let is_digit = |b| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        (digits.len() == 32 && digits.bytes().all(is_digit)).then(|| Self(digits.to_owned()))
    }

    /// The stored form of a user's password.
    pub fn of(password: &[u8], user: &str) -> Self {
        Self(hex_hash(&[password, user.as_bytes()]))
    }

    /// What a client answers to a salt: `md5` and 32 digits, without the zero byte behind it.
    pub fn response(&self, salt: [u8; 4]) -> Vec<u8> {
        format!("md5{}", hex_hash(&[self.0.as_bytes(), &salt])).into_bytes()
    }

    /// Whether this is the stored form of `password`.
    pub fn matches(&self, password: &[u8], user: &str) -> bool {
        super::scram::same(Self::of(password, user).0.as_bytes(), self.0.as_bytes())
    }
}

fn hex_hash(parts: &[&[u8]]) -> String {
    let mut hash = Md5::new();
    parts.iter().for_each(|part| hash.update(part));
    format!("{:x}", hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // md5sum of "secretu", and of its digits with the salt "salt" behind them.
        let secret = Md5Secret::of(b"secret", "u");
        assert_eq!(
            Some(&secret),
            Md5Secret::parse(b"md514ac701963725e89bfe34a2219d114a2").as_ref()
        );
        assert_eq!(secret.response(*b"salt"), b"md5f0e7c406521852962c8b0cf264d8bcbd");
        assert!(Md5Secret::parse(b"md514ac701963725e89bfe34a2219d114a20").is_none());
        assert!(Md5Secret::parse(&b"md514ac701963725e89bfe34a2219d114a2".to_ascii_uppercase()).is_none());
        assert!(secret.matches(b"secret", "u"));
        assert!(!secret.matches(b"Secret", "u"));
        assert!(!secret.matches(b"secret", "v"));
    }
}
