//! [`Kind`]: what values of a key domain are, and [`prefix_key`], the image of those that are longer than a key.
//!
//! A key is an `i64` that keeps the order of the values: of two values the smaller one never has the larger key. An integer is its
//! own key; a date is days since 2000-01-01; a timestamp is microseconds since then; a text or UUID is its [`prefix_key`].

use std::fmt;
use std::str::FromStr;

/// What the values of a key domain are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Whole numbers of up to 64 bits.
    Integer,
    /// Days.
    Date,
    /// Moments, with or without a time zone.
    Timestamp,
    /// Texts, in the order of their bytes (collation `C`).
    Text,
    /// UUIDs.
    Uuid,
}

impl Kind {
    /// All of them, in the order of their declaration.
    pub const ALL: [Kind; 5] = [Kind::Integer, Kind::Date, Kind::Timestamp, Kind::Text, Kind::Uuid];

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Integer => "integer",
            Kind::Date => "date",
            Kind::Timestamp => "timestamp",
            Kind::Text => "text",
            Kind::Uuid => "uuid",
        }
    }

    /// Whether different values have different keys. If not, what is above a value may have the same key as that value, so that
    /// `>` must be read as `>=`.
    pub fn is_exact(self) -> bool {
        matches!(self, Kind::Integer | Kind::Date | Kind::Timestamp)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No kind of key has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no kind of key {0:?}; there are integer, date, timestamp, text and uuid")]
pub struct UnknownKind(pub String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        Kind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownKind(name.to_owned()))
    }
}

/// The key of a text or a UUID: its first eight bytes, missing ones as zero, as a number that orders as the bytes do.
pub fn prefix_key(bytes: &[u8]) -> i64 {
    let mut first = [0; 8];
    let length = bytes.len().min(8);
    first[..length].copy_from_slice(&bytes[..length]);
    // Numbers with a sign order as those without once the sign bit is flipped.
    (u64::from_be_bytes(first) ^ (1 << 63)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_read_back() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!("int".parse::<Kind>(), Err(UnknownKind("int".to_owned())));
    }

    proptest! {
        #[test]
        fn prefixes_keep_the_order(a: Vec<u8>, b: Vec<u8>) {
            let (low, high) = if a <= b { (a, b) } else { (b, a) };
            prop_assert!(prefix_key(&low) <= prefix_key(&high));
        }
    }
}
