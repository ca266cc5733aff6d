//! [`CheckpointWriter`]: writes the file of one checkpoint and puts it in force, beside those files of earlier ones that still count.
//!
//! ```text
//!   file   head (see `bytes`) │ chunks, one after the other │ table │ tail
//!   table  for each chunk, the catalog first:  offset 8 │ length 4 │ checksum 4 │ table 4 │ range 4 │ role 4
//!   tail   table offset 8 │ entries 8 │ checksum of table and tail 4 │ magic 8
//! ```
//!
//! Order of calls: `begin`, `chunk` from any threads, `finish`. Dropped before `finish`, it leaves a file that does not count
//! and that the next checkpoint removes. What it is not: safe to have twice at a time.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::bytes::{HEAD_BYTES, head};
use super::manifest::{checkpoint_name, is_checkpoint};
use super::{CheckpointError, CheckpointFile, ChunkName, Manifest, Role};
use crate::storage::{Failure, Storage, StorageFile};
use crate::ts::Ts;

pub(super) const MAGIC: [u8; 8] = *b"corunchk";
pub(super) const ENTRY_BYTES: usize = 28;
pub(super) const TAIL_BYTES: usize = 28;

/// Bytes that the disk is given at a time while clients commit: a commit waits behind them.
const STEP: u64 = 64 << 10;
/// And while nobody does.
const STEP_ALONE: u64 = 1 << 20;
/// While clients commit, the disk is left to them for that many times as long as the last step took.
const REST: u32 = 2;
/// A longer rest would only make the checkpoint long.
const REST_MAX: Duration = Duration::from_millis(50);

/// Whether clients commit now.
pub(crate) type Busy = Arc<dyn Fn() -> bool + Send + Sync>;

/// Writes one checkpoint. See the module.
pub struct CheckpointWriter {
    storage: Arc<dyn Storage>,
    store_id: u64,
    ts: Ts,
    name: String,
    file: Arc<dyn StorageFile>,
    at: Mutex<Position>,
    busy: Busy,
}

/// How far it has come; the mutex also keeps the appends in order.
struct Position {
    offset: u64,
    /// Up to here the disk has it, but for what makes it durable.
    written_out: u64,
    table: Vec<u8>,
    /// A chunk could not be written, so that offsets are not known any more.
    failure: Option<CheckpointError>,
}

impl CheckpointWriter {
    /// Begins the checkpoint of all commits up to `ts`; `catalog` comes back as [`super::CheckpointReader::head`]. Removes
    /// what earlier attempts left, but no file of `in_use`: after an attempt whose very end failed, the manifest may name others.
    ///
    /// # Errors
    /// [`CheckpointError::Storage`], [`CheckpointError::Older`], and those of [`Manifest::read`].
    pub fn begin(
        storage: Arc<dyn Storage>,
        store_id: u64,
        ts: Ts,
        catalog: &[u8],
        in_use: &[CheckpointFile],
    ) -> Result<CheckpointWriter, CheckpointError> {
        let manifest = Manifest::read(&*storage)?;
        if let Some(newest) = manifest
            .as_ref()
            .map(|manifest| manifest.ts)
            .filter(|newest| *newest > ts)
        {
            return Err(CheckpointError::Older {
                ts: ts.0,
                newest: newest.0,
            });
        }
        if let Some(manifest) = &manifest {
            // What is seen need not be durable: the program before may have been killed, or the last sync may have failed, right
            // after the rename. It must be before the checkpoint of the manifest before it goes.
            manifest.put_in_force(&*storage)?;
        }
        let mut kept = manifest.map_or_else(Vec::new, |manifest| manifest.files);
        kept.extend_from_slice(in_use);
        remove_others(&*storage, &kept)
            .map_err(|error| failure("remove old checkpoints in", &storage.place(), &error))?;
        let name = [0, 1]
            .map(|number| checkpoint_name(ts, number))
            .into_iter()
            .find(|name| kept.iter().all(|file| file.name != *name))
            .expect("two names, and one of them at most is taken: of one commit there is one file in force");
        let path = format!("{}/{name}", storage.place());
        let head = head(&MAGIC, store_id, ts, &[]);
        let create = || {
            let file = storage.create(&name)?;
            file.append(&head)?;
            Ok(file)
        };
        let file = create().map_err(|error| failure("make", &path, &error))?;
        let at = Position {
            offset: HEAD_BYTES as u64,
            written_out: 0,
            table: Vec::new(),
            failure: None,
        };
        let writer = CheckpointWriter {
            store_id,
            ts,
            name,
            file,
            at: Mutex::new(at),
            busy: Arc::new(|| false),
            storage,
        };
        let (table, range, role) = (0, 0, Role::Whole);
        writer.chunk(ChunkName { table, range, role }, catalog)?;
        Ok(writer)
    }

    /// Writes a chunk; from several threads in any order. A crash never shows a part of it.
    ///
    /// # Errors
    /// [`CheckpointError::Storage`], [`CheckpointError::TooLarge`]. After the first the checkpoint cannot be finished.
    pub fn chunk(&self, name: ChunkName, bytes: &[u8]) -> Result<(), CheckpointError> {
        let length =
            u32::try_from(bytes.len()).map_err(|_| CheckpointError::TooLarge { bytes: bytes.len() })?;
        let sum = crc32fast::hash(bytes);
        // The mutex is held while the disk writes, and rests: all threads write in one place.
        let mut at = self.at.lock();
        if let Some(failure) = &at.failure {
            return Err(failure.clone());
        }
        let offset = at.offset;
        for part in bytes.chunks(STEP as usize) {
            if let Err((what, error)) = self.part(&mut at, part) {
                let failure = failure(what, &self.path(), &error);
                at.failure = Some(failure.clone());
                return Err(failure);
            }
        }
        at.table.extend_from_slice(&offset.to_le_bytes());
        for word in [length, sum, name.table, name.range, name.role.number()] {
            at.table.extend_from_slice(&word.to_le_bytes());
        }
        Ok(())
    }

    /// Appends some bytes, has the disk write what has gathered, and leaves the disk to clients.
    fn part(&self, at: &mut Position, bytes: &[u8]) -> Result<(), (&'static str, io::Error)> {
        self.file.append(bytes).map_err(|error| ("write", error))?;
        at.offset += bytes.len() as u64;
        let gathered = at.offset - at.written_out;
        if gathered < STEP {
            return Ok(());
        }
        let busy = (self.busy)();
        if !busy && gathered < STEP_ALONE {
            return Ok(());
        }
        let begun = Instant::now();
        let written = self.file.write_out(at.written_out, gathered);
        written.map_err(|error| ("write out", error))?;
        at.written_out = at.offset;
        if busy {
            std::thread::sleep((begun.elapsed() * REST).min(REST_MAX));
        }
        Ok(())
    }

    /// Writes slowly while that returns true.
    pub(crate) fn beside(self, busy: Busy) -> CheckpointWriter {
        CheckpointWriter { busy, ..self }
    }

    /// Makes the file durable, puts it in force together with the older files `kept`, and removes all others. Returns the new manifest.
    ///
    /// # Errors
    /// [`CheckpointError::Storage`]: the checkpoint before is still in force, unless the very last sync failed; then it is
    /// this one or that, and both are there.
    pub fn finish(self, kept: &[CheckpointFile]) -> Result<Manifest, CheckpointError> {
        let bytes = {
            let mut at = self.at.lock();
            if let Some(failure) = &at.failure {
                return Err(failure.clone());
            }
            let mut end = std::mem::take(&mut at.table);
            let entries = (end.len() / ENTRY_BYTES) as u64;
            end.extend_from_slice(&at.offset.to_le_bytes());
            end.extend_from_slice(&entries.to_le_bytes());
            let sum = crc32fast::hash(&end);
            end.extend_from_slice(&sum.to_le_bytes());
            end.extend_from_slice(&MAGIC);
            self.file
                .append(&end)
                .map_err(|error| failure("write", &self.path(), &error))?;
            at.offset + end.len() as u64
        };
        self.sync()?;
        self.storage
            .sync_names()
            .map_err(|error| failure("sync the name of", &self.path(), &error))?;
        let manifest = Manifest {
            store_id: self.store_id,
            ts: self.ts,
            files: [kept, &[self.file_of(bytes)]].concat(),
        };
        manifest.put_in_force(&*self.storage)?;
        // From here on the new one counts. What cannot be removed now is removed by the next checkpoint.
        let _ = remove_others(&*self.storage, &manifest.files);
        Ok(manifest)
    }

    /// The file it writes; its length is not known before the end.
    pub(crate) fn file(&self) -> CheckpointFile {
        self.file_of(0)
    }

    fn file_of(&self, bytes: u64) -> CheckpointFile {
        CheckpointFile {
            name: self.name.clone(),
            ts: self.ts,
            bytes,
        }
    }

    fn path(&self) -> String {
        format!("{}/{}", self.storage.place(), self.name)
    }

    fn sync(&self) -> Result<(), CheckpointError> {
        self.file.sync().map_err(|error| {
            let failure = failure("sync", &self.path(), &error);
            // A later sync that succeeds would prove nothing.
            self.at.lock().failure = Some(failure.clone());
            failure
        })
    }
}

fn failure(what: &str, path: &str, error: &io::Error) -> CheckpointError {
    CheckpointError::Storage(Failure::new(format!("{what} {path}"), error))
}

/// Removes all files of checkpoints but those.
fn remove_others(storage: &dyn Storage, kept: &[CheckpointFile]) -> io::Result<()> {
    for name in storage.names()? {
        if is_checkpoint(&name) && kept.iter().all(|file| file.name != name) {
            storage.remove(&name)?;
        }
    }
    Ok(())
}
