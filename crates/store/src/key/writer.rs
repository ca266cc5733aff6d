//! [`Writer`]: writes a key as an index keeps it: its first [`KEY_BYTES_MAX`] bytes, as words.
//!
//! What it is not: the order of columns, or what of a value is written; see `key`.

use super::{KEY_BYTES_MAX, WORDS_MAX, Words};

/// Where the bytes of a key go.
pub(in crate::key) trait Sink {
    fn push(&mut self, bytes: &[u8]);
    fn fill(&mut self, byte: u8, count: usize);
    /// Stands for NULL where a value would take that many bytes.
    fn null(&mut self, bytes: usize);
    /// A text(max) or bytes(max).
    fn text(&mut self, bytes: &[u8], max: u32);
}

/// A key being written.
pub(super) struct Writer {
    bytes: [u8; KEY_BYTES_MAX],
    at: usize,
}

impl Writer {
    pub(super) fn new() -> Self {
        Writer {
            bytes: [0; KEY_BYTES_MAX],
            at: 0,
        }
    }

    /// Whether some of what was written did not fit.
    pub(super) fn is_cut(&self) -> bool {
        self.at > KEY_BYTES_MAX
    }

    /// The key, its rest filled with zeros or with ones.
    pub(super) fn words(mut self, rest: u8) -> Words {
        if rest != 0
            && let Some(behind) = self.bytes.get_mut(self.at..)
        {
            behind.fill(rest);
        }
        let mut words = [0; WORDS_MAX];
        for (word, bytes) in words.iter_mut().zip(self.bytes.chunks_exact(8)) {
            *word = u64::from_be_bytes(bytes.try_into().expect("8 bytes"));
        }
        words
    }
}

impl Sink for Writer {
    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
        } else if let Some(place) = self.bytes.get_mut(self.at..) {
            place.copy_from_slice(&bytes[..place.len()]);
        }
        self.at += bytes.len();
    }

    fn fill(&mut self, byte: u8, count: usize) {
        let end = (self.at + count).min(KEY_BYTES_MAX);
        if let Some(place) = self.bytes.get_mut(self.at..end) {
            place.fill(byte);
        }
        self.at += count;
    }

    #[inline]
    fn null(&mut self, bytes: usize) {
        self.at += bytes;
    }

    #[inline]
    fn text(&mut self, bytes: &[u8], max: u32) {
        let end = self.at + max as usize;
        self.push(bytes);
        self.at = end;
        let length = (bytes.len() as u32).to_be_bytes();
        self.push(&length[4 - length_bytes(max)..]);
    }
}

/// Bytes of the length behind a text.
pub(super) fn length_bytes(max: u32) -> usize {
    match max {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}
