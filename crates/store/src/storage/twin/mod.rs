//! [`Twin`]: a disk in memory with the faults of real ones, from a seed.
//!
//! ```text
//!   write ──► what programs see ──sync──► what a crash leaves for sure
//!                      └────── crash(seed): each unsynced 512-byte sector, length and name may be there or not ──► a new Twin
//! ```
//!
//! Order of calls: [`Twin::new`], switches for faults at any time, use as [`Storage`]; then [`Twin::crash`] (power loss) or
//! [`Twin::kill`] (only the program died) is what the next start finds. What it is not: fast, or a model of one file system.
//! It allows whatever POSIX allows.

mod crash;
mod disk;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use self::disk::{Disk, FileId};
use super::{Storage, StorageFile};

/// A handle on a disk in memory; clones are handles on the same disk.
#[derive(Clone)]
pub struct Twin {
    seed: u64,
    disk: Arc<Mutex<Disk>>,
}

impl Twin {
    /// An empty disk without faults. `seed` is only shown in [`Storage::place`], so that messages of a failing test name it.
    pub fn new(seed: u64) -> Twin {
        Twin {
            seed,
            disk: Arc::new(Mutex::new(Disk::default())),
        }
    }

    /// What a restart finds if power fails now. This disk goes on as it was; switches for faults are off on the new one.
    pub fn crash(&self, seed: u64) -> Twin {
        Twin {
            seed,
            disk: Arc::new(Mutex::new(crash::crash(&self.disk.lock(), seed))),
        }
    }

    /// What a restart finds if only the program is killed now: all it wrote, synced or not, which a later power failure may
    /// still take. This disk goes on as it was; switches for faults are off on the new one.
    pub fn kill(&self) -> Twin {
        Twin {
            seed: self.seed,
            disk: Arc::new(Mutex::new(self.disk.lock().without_faults())),
        }
    }

    /// From now on the disk holds `bytes` at most, with what is reserved; a write that would go beyond writes what fits and
    /// fails, and a reservation fails as a whole. `None`: no limit.
    pub fn full_at(&self, bytes: Option<u64>) {
        self.disk.lock().bytes_max = bytes;
    }

    /// After `syncs` more good syncs of files, one fails and what it should have made durable never will be, although later
    /// syncs succeed: what Linux does with a page it could not write.
    pub fn fail_sync_after(&self, syncs: u64) {
        self.disk.lock().good_syncs = Some(syncs);
    }

    /// Each sync of a file takes this long.
    pub fn slow_sync(&self, time: Duration) {
        self.disk.lock().sync_time = time;
    }

    /// Syncs return without making anything durable, as a disk does that lies about its cache.
    pub fn lose_syncs(&self, lose: bool) {
        self.disk.lock().lose_syncs = lose;
    }

    /// Everything that would change the disk fails with [`ErrorKind::ReadOnlyFilesystem`].
    pub fn read_only(&self, read_only: bool) {
        self.disk.lock().read_only = read_only;
    }

    /// After `effects` more changes or syncs nothing works any more, as if power had failed at that point: a way to visit
    /// every crash point. The effect that fails first may have happened in part.
    pub fn stop_after(&self, effects: u64) {
        self.disk.lock().effects_left = Some(effects);
    }

    /// Nothing can be reserved, as on some file systems: who asks is told that all is well.
    pub fn reserve_nothing(&self, nothing: bool) {
        self.disk.lock().reserve_nothing = nothing;
    }

    /// Bytes the disk's files take, with what is reserved.
    pub fn used(&self) -> u64 {
        self.disk.lock().used()
    }

    /// How many syncs of files were asked for.
    pub fn syncs(&self) -> u64 {
        self.disk.lock().syncs
    }

    /// The bytes of a file as programs see it.
    pub fn bytes(&self, name: &str) -> io::Result<Vec<u8>> {
        let disk = self.disk.lock();
        Ok(disk.file(disk.find(name)?).seen.clone())
    }

    /// Puts a durable file there, or replaces its content.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        self.disk.lock().put(name, bytes);
    }

    /// Inverts one bit (0 to 7) of the byte at `offset`, durably: the rot of a medium.
    ///
    /// # Errors
    /// If there is no such file or byte.
    pub fn flip(&self, name: &str, offset: u64, bit: u8) -> io::Result<()> {
        let mut bytes = self.bytes(name)?;
        let byte = usize::try_from(offset)
            .ok()
            .and_then(|offset| bytes.get_mut(offset));
        *byte.ok_or(ErrorKind::UnexpectedEof)? ^= 1 << (bit % 8);
        self.put(name, &bytes);
        Ok(())
    }
}

impl Storage for Twin {
    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let id = self.disk.lock().create(name)?;
        Ok(Arc::new(TwinFile {
            id,
            disk: Arc::clone(&self.disk),
        }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let id = self.disk.lock().find(name)?;
        Ok(Arc::new(TwinFile {
            id,
            disk: Arc::clone(&self.disk),
        }))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.disk.lock().names.keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.lock().remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.lock().rename(from, to)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.disk.lock().sync_names()
    }

    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        let mut disk = self.disk.lock();
        if disk.read_only {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        if disk.owned {
            let what = format!("{} is in use by another store; close that first", self.place());
            return Err(io::Error::new(ErrorKind::WouldBlock, what));
        }
        disk.owned = true;
        Ok(Box::new(Owner(Arc::clone(&self.disk))))
    }

    fn place(&self) -> String {
        format!("twin-{}", self.seed)
    }
}

/// Gives the disk up when dropped.
struct Owner(Arc<Mutex<Disk>>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.lock().owned = false;
    }
}

struct TwinFile {
    id: FileId,
    disk: Arc<Mutex<Disk>>,
}

impl StorageFile for TwinFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.disk.lock();
        let end = disk.file(self.id).seen.len();
        disk.write_at(self.id, end, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(|_| ErrorKind::FileTooLarge)?;
        self.disk.lock().write_at(self.id, offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        let (until, time) = {
            let disk = self.disk.lock();
            (disk.file(self.id).written(), disk.sync_time)
        };
        if !time.is_zero() {
            std::thread::sleep(time);
        }
        self.disk.lock().sync(self.id, until)
    }

    fn write_out(&self, _: u64, _: u64) -> io::Result<()> {
        // A crash takes any part of what is not synced.
        Ok(())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let disk = self.disk.lock();
        let seen = &disk.file(self.id).seen;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(seen.len());
        let length = into.len().min(seen.len() - from);
        into[..length].copy_from_slice(&seen[from..from + length]);
        Ok(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.lock().file(self.id).seen.len() as u64)
    }

    fn reserve(&self, length: u64) -> io::Result<bool> {
        self.disk.lock().reserve(self.id, length)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.disk.lock().truncate(self.id, length)
    }
}

#[cfg(test)]
mod tests;
