//! Where the files of a store live. Every effect of durability goes through [`Storage`] and [`StorageFile`].
//!
//! [`Folder`] is a real directory; [`Twin`] is a disk in memory that loses, tears and reorders what was not synced, fills up,
//! and fails, from a seed. What is written is sure to outlive a crash only after two calls: [`StorageFile::sync`] for the
//! bytes, [`Storage::sync_names`] for the file's name. What it is not: a cache, and it knows nothing of what files hold.

mod failure;
mod folder;
mod twin;

pub use failure::Failure;
pub use folder::Folder;
pub use twin::Twin;

use std::io;
use std::sync::Arc;

/// One flat folder of files.
pub trait Storage: Send + Sync {
    /// Makes an empty file. Fails with [`io::ErrorKind::AlreadyExists`] if there is one of that name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// The names of all files, sorted, without the file that serves [`Storage::lock`].
    fn names(&self) -> io::Result<Vec<String>>;

    /// Takes a name away; open handles stay valid.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Gives the file `from` the name `to`; a file that had it is replaced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Returns when all creations, removals and renames so far would survive a crash.
    fn sync_names(&self) -> io::Result<()>;

    /// Makes the caller the only owner of the folder while the guard lives. [`io::ErrorKind::WouldBlock`] if another
    /// process, or another store of this one, has it.
    fn lock(&self) -> io::Result<Box<dyn Send + Sync>>;

    /// What messages call this folder.
    fn place(&self) -> String;
}

/// One open file.
pub trait StorageFile: Send + Sync {
    /// Writes all bytes at the end of the file, which nobody else writes to meanwhile. After an error any part of them may stand there.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Writes all bytes from `offset` on, over what stands there or, at the end, behind it. After an error any part of them may stand
    /// there.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns when all that was written before the call would survive a crash. After an error nobody knows what of it
    /// would; a second call proves nothing.
    fn sync(&self) -> io::Result<()>;

    /// Has the disk write `length` bytes from `offset` on, and waits for that: so that a sync later has little to do. It makes nothing
    /// durable. After an error, as after one of a sync, nobody knows what was written.
    fn write_out(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Reads from `offset` (bytes) on; returns how many bytes were read, 0 at the end of the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Sees to it that writes find room on the disk until the file has `length` bytes; its length stays as it is. Fails with
    /// [`io::ErrorKind::StorageFull`] or [`io::ErrorKind::QuotaExceeded`] if there is no room. Where the file system reserves
    /// nothing this promises nothing and returns false: then a write may still find the disk full.
    fn reserve(&self, length: u64) -> io::Result<bool>;

    /// Cuts the file to `length` bytes, and gives back what was reserved behind.
    fn truncate(&self, length: u64) -> io::Result<()>;
}

/// Reads exactly `into.len()` bytes from `offset` on.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] if the file is shorter; else what the file says.
pub(crate) fn read_exact_at(file: &dyn StorageFile, offset: u64, into: &mut [u8]) -> io::Result<()> {
    match read_up_to(file, offset, into)? == into.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Reads `into.len()` bytes from `offset` on, or fewer where the file ends. Returns how many.
pub(crate) fn read_up_to(file: &dyn StorageFile, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < into.len() {
        match file.read_at(offset + read as u64, &mut into[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Bytes that are copied at a time. Unmeasured.
const COPIED: usize = 1 << 20;

/// Hands out the first `length` bytes of a file in parts of at most [`COPIED`], with their offsets, as long as that returns true. Returns
/// whether it always did.
///
/// # Errors
/// As [`read_exact_at`]; those of `each`.
pub(crate) fn for_each_part(
    file: &dyn StorageFile,
    length: u64,
    mut each: impl FnMut(&[u8], u64) -> io::Result<bool>,
) -> io::Result<bool> {
    let mut bytes = vec![0; (COPIED as u64).min(length) as usize];
    for at in (0..length).step_by(COPIED) {
        let part = &mut bytes[..(length - at).min(COPIED as u64) as usize];
        read_exact_at(file, at, part)?;
        if !each(part, at)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes a name away, if it is there.
pub(crate) fn remove_if_there(storage: &dyn Storage, name: &str) -> io::Result<()> {
    match storage.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Replaces a file as a whole, atomically and durably: it is written as `new`, synced, and renamed.
pub(crate) fn replace(storage: &dyn Storage, new: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    remove_if_there(storage, new)?;
    let file = storage.create(new)?;
    file.append(bytes)?;
    file.sync()?;
    storage.rename(new, name)?;
    storage.sync_names()
}

/// All bytes of a file.
pub(crate) fn read_all(file: &dyn StorageFile) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.length()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; length];
    read_exact_at(file, 0, &mut bytes)?;
    Ok(bytes)
}
