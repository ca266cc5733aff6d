//! What stands behind an equals sign: plain values, durations, sizes, secrets.
//!
//! Every kind can be read from a TOML value of its own type and from text, because the console's `SET` and imported
//! files have text only. Not here: hosts (`host`) and words to choose from (`choices`).

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::settings::{Setting, quote, quote_list};

/// A value before its key gave it a meaning.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    /// A string.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// An array.
    List(Vec<Raw>),
    /// What no key takes, such as a date.
    Other,
}

impl Raw {
    /// The text of a string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Raw::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number, also written as text.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Raw::Integer(number) => Some(*number),
            Raw::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// Strings of an array, or of one string with commas between them; empty ones are left out.
    pub fn strings(&self) -> Option<Vec<String>> {
        match self {
            Raw::Text(text) => {
                let parts = text.split(',').map(str::trim);
                Some(parts.filter(|part| !part.is_empty()).map(str::to_owned).collect())
            }
            Raw::List(items) => items
                .iter()
                .map(|item| item.text().map(|text| text.trim().to_owned()))
                .collect(),
            _ => None,
        }
    }
}

/// Text that must not reach a log, a console or an error: passwords.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for the authentication code only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("****")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("****")
    }
}

impl Setting for Secret {
    const KIND: &'static str = "text, kept secret";

    fn read(raw: &Raw) -> Result<Self, String> {
        raw.text()
            .map(Secret::new)
            .ok_or_else(|| "text in quotes".to_owned())
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn toml(&self) -> String {
        quote(&self.0)
    }
}

/// An amount of memory or of traffic, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bytes(pub u64);

/// Units of sizes, the largest first; powers of 1024 as PostgreSQL has them.
const SIZE_UNITS: [(&str, u64); 5] = [
    ("TB", 1 << 40),
    ("GB", 1 << 30),
    ("MB", 1 << 20),
    ("KB", 1 << 10),
    ("B", 1),
];

impl Setting for Bytes {
    const KIND: &'static str = "size: bytes, or text such as \"16MB\"";
    const BARE: bool = true;

    fn read(raw: &Raw) -> Result<Self, String> {
        let expected =
            || "a number of bytes, or a size such as \"16MB\" (units B, kB, MB, GB, TB)".to_owned();
        if let Some(number) = raw.integer() {
            return u64::try_from(number).map(Bytes).map_err(|_| expected());
        }
        let text = raw.text().ok_or_else(expected)?.trim();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = text[digits.len()..].to_ascii_uppercase();
        let factor = SIZE_UNITS.iter().find(|(name, _)| *name == unit);
        let number = digits.trim().parse::<u64>().ok();
        match (number, factor) {
            (Some(number), Some((_, factor))) => number.checked_mul(*factor).map(Bytes).ok_or_else(expected),
            _ => Err(expected()),
        }
    }

    fn show(&self) -> String {
        match SIZE_UNITS
            .iter()
            .find(|(_, factor)| self.0 > 0 && *factor > 1 && self.0.is_multiple_of(*factor))
        {
            Some((unit, factor)) => {
                let unit = if *unit == "KB" { "kB" } else { unit };
                format!("{}{unit}", self.0 / factor)
            }
            None => self.0.to_string(),
        }
    }

    fn number(&self) -> Option<u64> {
        Some(self.0)
    }
}

/// Longest duration a key takes: a hundred years.
const SECONDS_MAX: f64 = 100.0 * 366.0 * 86_400.0;

/// Units of durations and the seconds in each; a number alone is in seconds.
const TIME_UNITS: [(&str, f64); 7] = [
    ("", 1.0),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("h", 3_600.0),
    ("d", 86_400.0),
];

impl Setting for Duration {
    const KIND: &'static str = "duration: seconds, or text such as \"250ms\"";
    const BARE: bool = true;

    fn read(raw: &Raw) -> Result<Self, String> {
        let expected = || {
            "a number of seconds, or a duration such as \"250ms\" (units us, ms, s, min, h, d), at most 100 years".to_owned()
        };
        let seconds = match raw {
            Raw::Integer(number) => *number as f64,
            Raw::Float(number) => *number,
            Raw::Text(text) => {
                let digits = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
                let unit = &text.trim()[digits.len()..];
                let number: f64 = digits.trim().parse().map_err(|_| expected())?;
                let known = TIME_UNITS.iter().find(|(name, _)| *name == unit);
                let (_, factor) = known.ok_or_else(expected)?;
                number * factor
            }
            _ => return Err(expected()),
        };
        if !(0.0..=SECONDS_MAX).contains(&seconds) {
            return Err(expected());
        }
        // To whole nanoseconds: a thousandth has no exact binary fraction.
        Ok(Duration::from_nanos((seconds * 1e9).round() as u64))
    }

    fn show(&self) -> String {
        let micros = self.as_micros();
        if micros.is_multiple_of(1_000_000) {
            self.as_secs().to_string()
        } else if micros.is_multiple_of(1_000) {
            format!("{}ms", self.as_millis())
        } else {
            format!("{micros}us")
        }
    }
}

impl Setting for bool {
    const KIND: &'static str = "true or false";
    const BARE: bool = true;

    fn read(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Boolean(value) => Ok(*value),
            Raw::Integer(0) => Ok(false),
            Raw::Integer(1) => Ok(true),
            Raw::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
                "1" | "true" | "on" | "yes" => Ok(true),
                "0" | "false" | "off" | "no" => Ok(false),
                _ => Err("true or false".to_owned()),
            },
            _ => Err("true or false".to_owned()),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

macro_rules! whole_numbers {
    ($($type:ty),*) => { $(
        impl Setting for $type {
            const KIND: &'static str = "whole number";
            const BARE: bool = true;

            fn read(raw: &Raw) -> Result<Self, String> {
                raw.integer()
                    .and_then(|number| <$type>::try_from(number).ok())
                    .ok_or_else(|| format!("a whole number from 0 to {}", <$type>::MAX))
            }

            fn show(&self) -> String {
                self.to_string()
            }

            fn number(&self) -> Option<u64> {
                Some(u64::from(*self))
            }
        }
    )* };
}
whole_numbers!(u16, u32);

impl Setting for String {
    const KIND: &'static str = "text";

    fn read(raw: &Raw) -> Result<Self, String> {
        let text = raw.text().ok_or_else(|| "text in quotes".to_owned())?;
        // Names and queries end with a zero byte on the wire.
        if text.contains('\0') {
            return Err("text without a zero byte".to_owned());
        }
        Ok(text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

/// What can stand in a list.
pub trait ListItem: Sized + fmt::Display {
    /// What a person writes for a list of these.
    const LIST_KIND: &'static str;
    /// What is expected where something else than a list stands.
    const LIST_EXPECTED: &'static str;

    /// Reads one item.
    ///
    /// # Errors
    /// Says what was expected.
    fn item(text: &str) -> Result<Self, String>;

    /// Reads a list: an array of texts, or one text with commas between the items.
    ///
    /// # Errors
    /// Says what was expected.
    fn list(raw: &Raw) -> Result<Vec<Self>, String> {
        let texts = raw.strings().ok_or_else(|| Self::LIST_EXPECTED.to_owned())?;
        texts.iter().map(|text| Self::item(text)).collect()
    }
}

impl<T: ListItem> Setting for Vec<T> {
    const KIND: &'static str = T::LIST_KIND;

    fn read(raw: &Raw) -> Result<Self, String> {
        T::list(raw)
    }

    fn show(&self) -> String {
        let texts: Vec<String> = self.iter().map(T::to_string).collect();
        texts.join(", ")
    }

    fn toml(&self) -> String {
        quote_list(self.iter().map(T::to_string))
    }
}

impl ListItem for String {
    const LIST_KIND: &'static str = "list: an array of texts, or one text with commas";
    const LIST_EXPECTED: &'static str = "an array of texts, or one text with commas";

    fn item(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

/// A key of a range as PostgreSQL writes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyValue(pub String);

impl fmt::Display for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Setting for KeyValue {
    const KIND: &'static str = "a key: a whole number, or text as PostgreSQL writes it";

    fn read(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Integer(number) => Ok(KeyValue(number.to_string())),
            Raw::Text(text) if !text.contains('\0') => Ok(KeyValue(text.clone())),
            _ => Err("a whole number, or text such as \"2026-01-31\"".to_owned()),
        }
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

impl ListItem for KeyValue {
    const LIST_KIND: &'static str = "list of keys, each a whole number or text";
    const LIST_EXPECTED: &'static str = "an array of whole numbers, or of texts";

    fn item(text: &str) -> Result<Self, String> {
        Ok(KeyValue(text.trim().to_owned()))
    }

    // Keys may be numbers, and an empty text between commas is a key.
    fn list(raw: &Raw) -> Result<Vec<Self>, String> {
        let items: Result<_, String> = match raw {
            Raw::List(items) => items.iter().map(KeyValue::read).collect(),
            Raw::Text(text) if text.is_empty() => Ok(Vec::new()),
            Raw::Text(text) => text.split(',').map(KeyValue::item).collect(),
            _ => Err(String::new()),
        };
        items.map_err(|_| Self::LIST_EXPECTED.to_owned())
    }
}

impl Setting for i64 {
    const KIND: &'static str = "whole number";
    const BARE: bool = true;

    fn read(raw: &Raw) -> Result<Self, String> {
        raw.integer().ok_or_else(|| "a whole number".to_owned())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for PathBuf {
    const KIND: &'static str = "path; relative to the folder of the file";

    fn read(raw: &Raw) -> Result<Self, String> {
        match raw.text() {
            Some(text) if !text.contains('\0') => Ok(PathBuf::from(text)),
            _ => Err("a path in quotes".to_owned()),
        }
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

impl Setting for SocketAddr {
    const KIND: &'static str = "address and port, such as \"127.0.0.1:9127\"";

    fn read(raw: &Raw) -> Result<Self, String> {
        raw.text()
            .and_then(|text| text.trim().parse().ok())
            .ok_or_else(|| "an address and a port, such as \"127.0.0.1:9127\" or \"[::1]:9127\"".to_owned())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// A key that may be absent; empty text unsets it, for `SET` and for PgBouncer's files, which write it so.
impl<T: Setting> Setting for Option<T> {
    const KIND: &'static str = T::KIND;

    fn read(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Text(text) if text.is_empty() => Ok(None),
            raw => T::read(raw).map(Some),
        }
    }

    fn show(&self) -> String {
        self.as_ref().map(T::show).unwrap_or_default()
    }

    fn toml(&self) -> String {
        self.as_ref().map_or_else(|| quote(""), T::toml)
    }

    fn number(&self) -> Option<u64> {
        self.as_ref().and_then(T::number)
    }
}

/// File mode bits, written in octal as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMode(pub u32);

impl Setting for FileMode {
    const KIND: &'static str = "file mode as octal text, such as \"0770\"";

    fn read(raw: &Raw) -> Result<Self, String> {
        raw.text()
            .and_then(|text| u32::from_str_radix(text.trim().trim_start_matches("0o"), 8).ok())
            .filter(|mode| *mode <= 0o777)
            .map(FileMode)
            .ok_or_else(|| "octal digits in quotes from \"0000\" to \"0777\"".to_owned())
    }

    fn show(&self) -> String {
        format!("{:04o}", self.0)
    }
}

/// A count that the proxy chooses by itself unless told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AutoCount {
    /// Chosen from the machine.
    #[default]
    Auto,
    /// As told; at least one.
    Count(u32),
}

impl Setting for AutoCount {
    const KIND: &'static str = "\"auto\" or a whole number";
    const BARE: bool = true;

    fn read(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Text(text) if text == "auto" => Ok(AutoCount::Auto),
            raw => raw
                .integer()
                .and_then(|number| u32::try_from(number).ok())
                .filter(|number| *number > 0)
                .map(AutoCount::Count)
                .ok_or_else(|| "\"auto\" or a whole number from 1".to_owned()),
        }
    }

    fn show(&self) -> String {
        match self {
            AutoCount::Auto => "auto".to_owned(),
            AutoCount::Count(count) => count.to_string(),
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            AutoCount::Auto => None,
            AutoCount::Count(count) => Some(u64::from(*count)),
        }
    }
}
