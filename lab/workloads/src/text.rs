//! [`Text`]: a short text of bounded length that lives where its owner lives, so that rows and answers need no allocation.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str;

use thiserror::Error;

/// A text that does not fit its column.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a text of {bytes} bytes where at most {max} fit")]
pub struct TextTooLong {
    /// Its length.
    pub bytes: usize,
    /// What would fit.
    pub max: usize,
}

/// UTF-8 text of at most `MAX` bytes; `MAX` is below 65,536.
#[derive(Clone, Copy)]
pub struct Text<const MAX: usize> {
    length: u16,
    bytes: [u8; MAX],
}

impl<const MAX: usize> Text<MAX> {
    /// Copies a text.
    ///
    /// # Errors
    /// When it is longer than `MAX` bytes.
    pub fn new(text: &str) -> Result<Self, TextTooLong> {
        const { assert!(MAX <= u16::MAX as usize) };
        let mut copy = Self::default();
        let too_long = TextTooLong {
            bytes: text.len(),
            max: MAX,
        };
        copy.bytes
            .get_mut(..text.len())
            .ok_or(too_long)?
            .copy_from_slice(text.as_bytes());
        copy.length = text.len() as u16;
        Ok(copy)
    }

    /// The bytes of a text, which the caller knows to be UTF-8 (others show as empty in [`Text::as_str`]).
    ///
    /// # Errors
    /// When there are more than `MAX`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TextTooLong> {
        let mut copy = Self::default();
        let too_long = TextTooLong {
            bytes: bytes.len(),
            max: MAX,
        };
        copy.bytes
            .get_mut(..bytes.len())
            .ok_or(too_long)?
            .copy_from_slice(bytes);
        copy.length = bytes.len() as u16;
        Ok(copy)
    }

    /// The text as far as it fits, cut between characters.
    pub fn cut(text: &str) -> Self {
        let end = text.floor_char_boundary(MAX);
        Self::new(&text[..end]).unwrap_or_default()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The text's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        usize::from(self.length)
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl<const MAX: usize> Default for Text<MAX> {
    fn default() -> Self {
        Self {
            length: 0,
            bytes: [0; MAX],
        }
    }
}

impl<const MAX: usize> TryFrom<&str> for Text<MAX> {
    type Error = TextTooLong;

    fn try_from(text: &str) -> Result<Self, TextTooLong> {
        Self::new(text)
    }
}

impl<const MAX: usize> AsRef<str> for Text<MAX> {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl<const MAX: usize> fmt::Display for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<const MAX: usize> fmt::Debug for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl<const MAX: usize> PartialEq for Text<MAX> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl<const MAX: usize> Eq for Text<MAX> {}

impl<const MAX: usize> PartialEq<str> for Text<MAX> {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl<const MAX: usize> PartialEq<&str> for Text<MAX> {
    fn eq(&self, other: &&str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl<const MAX: usize> PartialOrd for Text<MAX> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<const MAX: usize> Ord for Text<MAX> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl<const MAX: usize> Hash for Text<MAX> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_or_are_refused() {
        assert_eq!(Text::<4>::new("abcd").unwrap().as_str(), "abcd");
        assert_eq!(Text::<4>::new("abcde"), Err(TextTooLong { bytes: 5, max: 4 }));
        assert_eq!(Text::<4>::cut("abcde"), "abcd");
        assert_eq!(Text::<4>::cut("abcé"), "abc");
        assert!(Text::<4>::new("").unwrap().is_empty());
        assert!(Text::<4>::new("ab").unwrap() < Text::new("b").unwrap());
        assert_eq!(Text::<4>::new("ab").unwrap().len(), 2);
    }
}
