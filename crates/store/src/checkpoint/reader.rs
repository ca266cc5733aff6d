//! [`CheckpointReader`]: reads the checkpoint in force, part by part, from several threads.
//!
//! ```text
//!   part   a range of rows: its newest whole chunk, and the deltas behind it, from the files in which they are
//! ```
//!
//! Order of calls: `open`, `head`, `part` in any order. Every byte it hands out was checked. What it is not: the replay of
//! the log after it.

use std::collections::HashMap;
use std::sync::Arc;

use super::bytes::{Fields, HEAD_BYTES, check_head, u32_at, u64_at};
use super::map::CheckpointMap;
use super::writer::{ENTRY_BYTES, MAGIC, TAIL_BYTES};
use super::{CheckpointError, CheckpointFile, ChunkName, Manifest, Role};
use crate::storage::{Failure, Storage, StorageFile, read_exact_at};
use crate::ts::Ts;

/// Bytes of an entry of the first format.
const ENTRY_BYTES_1: usize = 20;

/// Reads a checkpoint. See the module.
pub struct CheckpointReader {
    files: Vec<OpenFile>,
    head: Vec<u8>,
    parts: Vec<(u32, Vec<Place>)>,
    map: CheckpointMap,
}

/// What the checkpoint says of a range of rows, or of some rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of the table.
    pub table: u32,
    /// The chunks, the oldest first: how each stands to those before, the commit up to which it holds, and its bytes.
    pub chunks: Vec<(Role, Ts, Vec<u8>)>,
}

struct OpenFile {
    path: String,
    /// Of the format.
    version: u32,
    ts: Ts,
    file: Arc<dyn StorageFile>,
}

/// A chunk in a file, by the file's place in `files`.
#[derive(Copy, Clone)]
struct Place {
    file: usize,
    entry: Entry,
}

#[derive(Copy, Clone)]
struct Entry {
    offset: u64,
    length: u32,
    sum: u32,
    /// None in the first format, in which chunks are of no range.
    name: (u32, Option<ChunkName>),
}

impl CheckpointReader {
    /// Opens the files that the manifest names, reads their tables and the newest catalog. Without a checkpoint the catalog is empty
    /// and there are no parts.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`], [`CheckpointError::NewerVersion`], [`CheckpointError::OtherStore`],
    /// [`CheckpointError::Storage`].
    pub fn open(storage: &dyn Storage, manifest: &Manifest) -> Result<CheckpointReader, CheckpointError> {
        let mut reader = CheckpointReader {
            files: Vec::new(),
            head: Vec::new(),
            parts: Vec::new(),
            map: CheckpointMap::default(),
        };
        let mut ranges: HashMap<(u32, u32), usize> = HashMap::new();
        for file in &manifest.files {
            let (opened, entries) = open(storage, manifest, file)?;
            if opened.version > 1 {
                reader.map.add_file(file.clone());
            }
            reader.files.push(opened);
            let number = reader.files.len() - 1;
            let mut entries = entries.into_iter().map(|entry| Place { file: number, entry });
            if let Some(catalog) = entries.next() {
                reader.head = reader.read(catalog)?;
            }
            for place in entries {
                let (table, Some(name)) = place.entry.name else {
                    reader.parts.push((place.entry.name.0, vec![place]));
                    continue;
                };
                // False: of a table that was dropped, and what was before this is gone with it.
                let _ = reader.map.add_chunk(name, u64::from(place.entry.length));
                let part = *ranges.entry((table, name.range)).or_insert_with(|| {
                    reader.parts.push((table, Vec::new()));
                    reader.parts.len() - 1
                });
                let chunks = &mut reader.parts[part].1;
                match name.role {
                    Role::Whole => chunks.clear(),
                    Role::Delta => {}
                    Role::DeltaToWhole => chunks.retain(|place| role_of(place) == Role::Whole),
                }
                chunks.push(place);
            }
        }
        Ok(reader)
    }

    /// The catalog that was handed to [`super::CheckpointWriter::begin`]; empty without a checkpoint.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Which chunks count. Empty for a checkpoint of the first format.
    pub(crate) fn into_map(self) -> CheckpointMap {
        self.map
    }

    /// One part; parts are in no order.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`], [`CheckpointError::Storage`], [`CheckpointError::NoSuchPart`].
    pub fn part(&self, index: usize) -> Result<Part, CheckpointError> {
        let count = self.parts.len();
        let (table, places) = self
            .parts
            .get(index)
            .ok_or(CheckpointError::NoSuchPart { index, count })?;
        let chunk = |place: &Place| Ok((role_of(place), self.files[place.file].ts, self.read(*place)?));
        let chunks = places.iter().map(chunk).collect::<Result<_, _>>()?;
        Ok(Part {
            table: *table,
            chunks,
        })
    }

    fn damaged(&self, place: Place, what: String) -> CheckpointError {
        CheckpointError::Damaged {
            file: self.files[place.file].path.clone(),
            offset: place.entry.offset,
            what,
        }
    }

    fn read(&self, place: Place) -> Result<Vec<u8>, CheckpointError> {
        let Place { file, entry } = place;
        let OpenFile { path, file, .. } = &self.files[file];
        let mut bytes = vec![0; entry.length as usize];
        read_exact_at(&**file, entry.offset, &mut bytes).map_err(|error| {
            CheckpointError::Storage(Failure::new(
                format!("read {path} at byte {}", entry.offset),
                &error,
            ))
        })?;
        if crc32fast::hash(&bytes) != entry.sum {
            let what = format!(
                "the checksum of the chunk of {} bytes there is wrong",
                entry.length
            );
            return Err(self.damaged(place, what));
        }
        Ok(bytes)
    }
}

fn role_of(place: &Place) -> Role {
    place.entry.name.1.map_or(Role::Whole, |name| name.role)
}

/// Opens a file and reads its table; the first entry is the catalog's.
fn open(
    storage: &dyn Storage,
    manifest: &Manifest,
    of: &CheckpointFile,
) -> Result<(OpenFile, Vec<Entry>), CheckpointError> {
    let path = format!("{}/{}", storage.place(), of.name);
    let failure = |error| CheckpointError::Storage(Failure::new(format!("read {path}"), &error));
    let damaged = |offset: u64, what: &str| CheckpointError::Damaged {
        file: path.clone(),
        offset,
        what: what.to_string(),
    };
    let file = storage.open(&of.name).map_err(failure)?;
    let found = file.length().map_err(failure)?;
    if found != of.bytes || found < (HEAD_BYTES + TAIL_BYTES) as u64 {
        let what = format!("it has {found} bytes, and the manifest says {}", of.bytes);
        return Err(damaged(found.min(of.bytes), &what));
    }
    let mut bytes = vec![0; HEAD_BYTES];
    read_exact_at(&*file, 0, &mut bytes).map_err(failure)?;
    let head = check_head(&MAGIC, &bytes, 0, &path)?;
    if head.store_id != manifest.store_id {
        return Err(CheckpointError::OtherStore {
            file: path,
            found: head.store_id,
            wanted: manifest.store_id,
        });
    }
    if head.ts != of.ts {
        let what = format!(
            "it was made at commit {}, and the manifest says {}",
            head.ts, of.ts
        );
        return Err(damaged(24, &what));
    }
    let entry_bytes = match head.version {
        1 => ENTRY_BYTES_1,
        _ => ENTRY_BYTES,
    };
    let tail_at = found - TAIL_BYTES as u64;
    let mut tail = vec![0; TAIL_BYTES];
    read_exact_at(&*file, tail_at, &mut tail).map_err(failure)?;
    let (table_at, count) = (u64_at(&tail, 0), u64_at(&tail, 8));
    let table_bytes = count.checked_mul(entry_bytes as u64);
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
    let entries = table.chunks_exact(entry_bytes).map(|entry| match head.version {
        1 => entry_of_format_1(Fields(entry)),
        _ => entry_of(Fields(entry)),
    });
    let entries: Option<_> = entries.collect();
    let entries = entries.ok_or_else(|| damaged(table_at, "an entry of its table cannot be read"))?;
    let (version, ts) = (head.version, head.ts);
    Ok((
        OpenFile {
            path,
            version,
            ts,
            file,
        },
        entries,
    ))
}

fn entry_of(mut entry: Fields<'_>) -> Option<Entry> {
    let (offset, length, sum, table) = (entry.u64()?, entry.u32()?, entry.u32()?, entry.u32()?);
    let (range, role) = (entry.u32()?, Role::of_number(entry.u32()?)?);
    let name = (table, Some(ChunkName { table, range, role }));
    Some(Entry {
        offset,
        length,
        sum,
        name,
    })
}

fn entry_of_format_1(mut entry: Fields<'_>) -> Option<Entry> {
    let (offset, length, table, sum) = (entry.u64()?, entry.u32()?, entry.u32()?, entry.u32()?);
    let name = (table, None);
    Some(Entry {
        offset,
        length,
        sum,
        name,
    })
}
