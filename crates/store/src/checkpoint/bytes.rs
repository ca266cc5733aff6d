//! Numbers in files, and the head that checkpoint and manifest have in common.
//!
//! ```text
//!   magic 8 │ version 4 │ checksum 4 │ store id 8 │ ts 8          little endian; this layout stays in all versions
//!
//!   version 1: a checkpoint is one file whose chunks hold any rows of a table       version 2: files of chunks that hold ranges of rows
//!   version 3: columns have defaults, and were added by commits; there are sequences
//!   version 4: tables have constraints; there are schemas; sequences may count from another number than the first
//! ```
//!
//! What it is not: it knows no files.

use crc32fast::Hasher;

use super::CheckpointError;
use crate::ts::Ts;

/// The newest format; older ones are read.
pub(super) const VERSION: u32 = 4;
pub(super) const HEAD_BYTES: usize = 32;

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Numbers and texts one after the other; `None` where the bytes end before.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32_at(self.take(4)?, 0))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64_at(self.take(8)?, 0))
    }

    /// A text after its length.
    pub fn text(&mut self) -> Option<String> {
        let bytes = self.u32()? as usize;
        Some(std::str::from_utf8(self.take(bytes)?).ok()?.to_string())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a head says.
pub(super) struct Head {
    pub version: u32,
    pub store_id: u64,
    pub ts: Ts,
}

/// A head; its checksum covers `rest` too.
pub(super) fn head(magic: &[u8; 8], store_id: u64, ts: Ts, rest: &[u8]) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.extend_from_slice(magic);
    head.extend_from_slice(&VERSION.to_le_bytes());
    head.extend_from_slice(&[0; 4]);
    head.extend_from_slice(&store_id.to_le_bytes());
    head.extend_from_slice(&ts.0.to_le_bytes());
    let sum = sum(&head, rest);
    head[12..16].copy_from_slice(&sum.to_le_bytes());
    head
}

fn sum(head: &[u8], rest: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&head[..12]);
    hasher.update(&head[16..HEAD_BYTES]);
    hasher.update(rest);
    hasher.finalize()
}

/// Checks the head at the beginning of `bytes`; `rest` of them is under its checksum.
pub(super) fn check_head(
    magic: &[u8; 8],
    bytes: &[u8],
    rest: usize,
    file: &str,
) -> Result<Head, CheckpointError> {
    let damaged = |offset: usize, what: &str| {
        Err(CheckpointError::Damaged {
            file: file.to_string(),
            offset: offset as u64,
            what: what.to_string(),
        })
    };
    if bytes.len() < HEAD_BYTES + rest {
        return damaged(bytes.len(), "it is too short");
    }
    if bytes[..8] != *magic {
        return damaged(0, "its first bytes are not those of such a file");
    }
    if sum(bytes, &bytes[HEAD_BYTES..HEAD_BYTES + rest]) != u32_at(bytes, 12) {
        return damaged(0, "the checksum of its head is wrong");
    }
    match u32_at(bytes, 8) {
        version @ 1..=VERSION => Ok(Head {
            version,
            store_id: u64_at(bytes, 16),
            ts: Ts(u64_at(bytes, 24)),
        }),
        version => Err(CheckpointError::NewerVersion {
            file: file.to_string(),
            version,
            known: VERSION,
        }),
    }
}
