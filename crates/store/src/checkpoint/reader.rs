//! [`CheckpointReader`]: reads the checkpoint in force, chunk by chunk, from several threads.
//!
//! Order of calls: `open`, `head`, `chunk` in any order. Every byte it hands out was checked. What it is not: the replay of
//! the log after it.

use std::sync::Arc;

use super::bytes::{HEAD_BYTES, check_head, u32_at, u64_at};
use super::writer::{ENTRY_BYTES, MAGIC, TAIL_BYTES};
use super::{CheckpointError, Manifest};
use crate::storage::{Failure, Storage, StorageFile, read_exact_at};

/// Reads a checkpoint. See the module.
pub struct CheckpointReader {
    path: String,
    /// `None`: there is no checkpoint, only the log.
    file: Option<Arc<dyn StorageFile>>,
    head: Vec<u8>,
    /// Without the catalog's.
    chunks: Vec<Entry>,
}

#[derive(Copy, Clone)]
struct Entry {
    offset: u64,
    length: u32,
    kind: u32,
    sum: u32,
}

impl CheckpointReader {
    /// Opens the checkpoint the manifest names and reads its catalog. Without a checkpoint the catalog is empty and there are
    /// no chunks.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`], [`CheckpointError::NewerVersion`], [`CheckpointError::OtherStore`],
    /// [`CheckpointError::Storage`].
    pub fn open(storage: &dyn Storage, manifest: &Manifest) -> Result<CheckpointReader, CheckpointError> {
        let Some((name, length)) = &manifest.checkpoint else {
            return Ok(CheckpointReader {
                path: String::new(),
                file: None,
                head: Vec::new(),
                chunks: Vec::new(),
            });
        };
        let path = format!("{}/{name}", storage.place());
        let failure = |error| CheckpointError::Storage(Failure::new(format!("read {path}"), &error));
        let damaged = |offset: u64, what: &str| CheckpointError::Damaged {
            file: path.clone(),
            offset,
            what: what.to_string(),
        };
        let file = storage.open(name).map_err(failure)?;
        let found = file.length().map_err(failure)?;
        if found != *length || found < (HEAD_BYTES + TAIL_BYTES) as u64 {
            let what = format!("it has {found} bytes, and the manifest says {length}");
            return Err(damaged(found.min(*length), &what));
        }
        let mut bytes = vec![0; HEAD_BYTES];
        read_exact_at(&*file, 0, &mut bytes).map_err(failure)?;
        let (store_id, ts) = check_head(&MAGIC, &bytes, 0, &path)?;
        if store_id != manifest.store_id {
            return Err(CheckpointError::OtherStore {
                file: path,
                found: store_id,
                wanted: manifest.store_id,
            });
        }
        if ts != manifest.ts {
            return Err(damaged(
                24,
                &format!(
                    "it was made at commit {ts}, and the manifest says {}",
                    manifest.ts
                ),
            ));
        }

        let tail_at = found - TAIL_BYTES as u64;
        let mut tail = vec![0; TAIL_BYTES];
        read_exact_at(&*file, tail_at, &mut tail).map_err(failure)?;
        let (table_at, count) = (u64_at(&tail, 0), u64_at(&tail, 8));
        let table_bytes = count.checked_mul(ENTRY_BYTES as u64);
        let fits = table_bytes.and_then(|bytes| table_at.checked_add(bytes)) == Some(tail_at);
        if tail[20..] != MAGIC || !fits || table_at < HEAD_BYTES as u64 || count == 0 {
            return Err(damaged(tail_at, "its tail is wrong"));
        }
        let mut table = vec![0; (tail_at - table_at) as usize];
        read_exact_at(&*file, table_at, &mut table).map_err(failure)?;
        table.extend_from_slice(&tail[..16]);
        if crc32fast::hash(&table) != u32_at(&tail, 16) {
            return Err(damaged(table_at, "the checksum of its table is wrong"));
        }
        table.truncate(table.len() - 16);
        let mut chunks: Vec<Entry> = table
            .chunks_exact(ENTRY_BYTES)
            .map(|entry| Entry {
                offset: u64_at(entry, 0),
                length: u32_at(entry, 8),
                kind: u32_at(entry, 12),
                sum: u32_at(entry, 16),
            })
            .collect();
        let catalog = chunks.remove(0);
        let mut reader = CheckpointReader {
            path: path.clone(),
            file: Some(file),
            head: Vec::new(),
            chunks,
        };
        reader.head = reader.read(catalog)?;
        Ok(reader)
    }

    /// The catalog that was handed to [`super::CheckpointWriter::begin`]; empty without a checkpoint.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// How many chunks there are.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes of all chunks, for a progress bar.
    pub fn bytes_total(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.length)).sum()
    }

    /// Kind and bytes of a chunk; chunks are numbered in the order in which they were written.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`], [`CheckpointError::Storage`], [`CheckpointError::NoSuchChunk`].
    pub fn chunk(&self, index: usize) -> Result<(u32, Vec<u8>), CheckpointError> {
        let count = self.chunks.len();
        let entry = *self
            .chunks
            .get(index)
            .ok_or(CheckpointError::NoSuchChunk { index, count })?;
        Ok((entry.kind, self.read(entry)?))
    }

    fn read(&self, entry: Entry) -> Result<Vec<u8>, CheckpointError> {
        let Some(file) = &self.file else {
            return Ok(Vec::new());
        };
        let mut bytes = vec![0; entry.length as usize];
        read_exact_at(&**file, entry.offset, &mut bytes).map_err(|error| {
            CheckpointError::Storage(Failure::new(
                format!("read {} at byte {}", self.path, entry.offset),
                &error,
            ))
        })?;
        if crc32fast::hash(&bytes) != entry.sum {
            let what = format!(
                "the checksum of the chunk of {} bytes there is wrong",
                entry.length
            );
            return Err(CheckpointError::Damaged {
                file: self.path.clone(),
                offset: entry.offset,
                what,
            });
        }
        Ok(bytes)
    }
}
