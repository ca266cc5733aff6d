//! A place in PostgreSQL's write-ahead log.

use std::fmt;
use std::str::FromStr;

/// Bytes of the header of a page of the log (`SizeOfXLogShortPHD` on 64-bit machines).
const HEADER_OF_PAGE: u64 = 24;
/// Bytes of the header of the first page of a file of the log (`SizeOfXLogLongPHD`).
const HEADER_OF_FILE: u64 = 40;

/// A place in the write-ahead log, in bytes since its beginning. Places of one timeline compare as the log was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// How many bytes `self` is ahead of `other`; 0 if it is not.
    pub fn ahead_of(self, other: Self) -> u64 {
        self.0.saturating_sub(other.0)
    }

    /// Where the record before this place ended, for a place at which the next record will be inserted, in a log of pages
    /// of `page` bytes in files of `segment` bytes.
    ///
    /// PostgreSQL names the insertion place after the header of a page that has nothing else in it yet. No replica reaches
    /// that place before the next record is written, so an idle server would look as if it had a replica behind.
    pub fn end_of_record(self, page: u64, segment: u64) -> Self {
        // Records and their ends are multiples of 8 and longer than a header, so none ends right behind one.
        let behind = |unit: u64, header: u64| unit > 0 && self.0 % unit == header;
        let header = if behind(segment, HEADER_OF_FILE) {
            HEADER_OF_FILE
        } else if behind(page, HEADER_OF_PAGE) {
            HEADER_OF_PAGE
        } else {
            0
        };
        Self(self.0 - header)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

/// A text that is no place in the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no place in a write-ahead log: two hexadecimal numbers of at most 8 digits with a slash between them"
)]
pub struct LsnError(String);

impl FromStr for Lsn {
    type Err = LsnError;

    /// Reads PostgreSQL's `16/B374D848`.
    ///
    /// # Errors
    /// A text of another form.
    fn from_str(text: &str) -> Result<Self, LsnError> {
        let half = |digits: &str| {
            let fits = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
            fits.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
        };
        text.split_once('/')
            .and_then(|(high, low)| Some(Self(half(high)? << 32 | half(low)?)))
            .ok_or_else(|| LsnError(text.chars().take(32).collect()))
    }
}
