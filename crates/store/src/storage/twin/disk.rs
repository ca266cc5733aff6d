//! [`Disk`]: the state behind a twin: what programs see, what is durable, and what lies between.
//!
//! What it is not: the crash itself, see `crash`.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// Names a file whatever it is called; an index that is never used again.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct FileId(usize);

/// A change of a file that is not durable yet.
#[derive(Clone)]
pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { length: usize },
}

/// A change of names that is not durable yet.
#[derive(Clone)]
pub(super) enum NameChange {
    Create { name: String, id: FileId },
    Remove { name: String },
    Rename { from: String, to: String, id: FileId },
}

#[derive(Clone, Default)]
pub(super) struct FileState {
    /// What programs read.
    pub(super) seen: Vec<u8>,
    /// What a crash leaves for sure.
    pub(super) durable: Vec<u8>,
    /// How long it may become on a full disk. A crash takes it.
    reserved: u64,
    /// What lies between, oldest first.
    pub(super) pending: Vec<Change>,
    /// How many changes left `pending` so far: with its length, the number of all changes.
    settled: u64,
}

impl FileState {
    /// Number of changes so far.
    pub(super) fn written(&self) -> u64 {
        self.settled + self.pending.len() as u64
    }

    /// Bytes of the disk it takes.
    fn taken(&self) -> u64 {
        self.reserved.max(self.seen.len() as u64)
    }

    /// Takes the changes up to number `until` out of `pending`.
    fn settle(&mut self, until: u64) -> Vec<Change> {
        let count = (until.saturating_sub(self.settled) as usize).min(self.pending.len());
        self.settled += count as u64;
        self.pending.drain(..count).collect()
    }
}

/// Applies a change in full.
pub(super) fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes } => {
            let end = offset + bytes.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[*offset..end].copy_from_slice(bytes);
        }
        Change::Truncate { length } => content.resize(*length, 0),
    }
}

/// Applies a change of names in full.
pub(super) fn apply_name(names: &mut BTreeMap<String, FileId>, change: &NameChange) {
    match change {
        NameChange::Create { name, id } => {
            names.insert(name.clone(), *id);
        }
        NameChange::Remove { name } => {
            names.remove(name);
        }
        NameChange::Rename { from, to, id } => {
            if names.get(from) == Some(id) {
                names.remove(from);
            }
            names.insert(to.clone(), *id);
        }
    }
}

#[derive(Default)]
pub(super) struct Disk {
    pub(super) files: Vec<FileState>,
    pub(super) names: BTreeMap<String, FileId>,
    pub(super) durable_names: BTreeMap<String, FileId>,
    pub(super) pending_names: Vec<NameChange>,
    pub(super) owned: bool,
    pub(super) syncs: u64,
    // The switches; see the methods of `Twin`.
    pub(super) bytes_max: Option<u64>,
    pub(super) good_syncs: Option<u64>,
    pub(super) sync_time: Duration,
    pub(super) lose_syncs: bool,
    pub(super) read_only: bool,
    pub(super) reserve_nothing: bool,
    pub(super) effects_left: Option<u64>,
}

impl Disk {
    /// A copy without owner and faults.
    pub(super) fn without_faults(&self) -> Disk {
        Disk {
            files: self.files.clone(),
            names: self.names.clone(),
            durable_names: self.durable_names.clone(),
            pending_names: self.pending_names.clone(),
            ..Disk::default()
        }
    }

    pub(super) fn file(&self, id: FileId) -> &FileState {
        &self.files[id.0]
    }

    pub(super) fn find(&self, name: &str) -> io::Result<FileId> {
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| io::Error::new(ErrorKind::NotFound, format!("there is no file {name:?}")))
    }

    /// Counts an effect; an error if the disk takes none.
    fn effect(&mut self) -> io::Result<()> {
        if let Some(left) = &mut self.effects_left {
            if *left == 0 {
                return Err(io::Error::other("the disk has stopped"));
            }
            *left -= 1;
        }
        if self.read_only {
            Err(ErrorKind::ReadOnlyFilesystem.into())
        } else {
            Ok(())
        }
    }

    fn add(&mut self, state: FileState) -> FileId {
        self.files.push(state);
        FileId(self.files.len() - 1)
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<FileId> {
        self.effect()?;
        if self.names.contains_key(name) {
            return Err(io::Error::new(
                ErrorKind::AlreadyExists,
                format!("there is a file {name:?}"),
            ));
        }
        let id = self.add(FileState::default());
        self.change_names(NameChange::Create {
            name: name.to_string(),
            id,
        });
        Ok(id)
    }

    pub(super) fn put(&mut self, name: &str, bytes: &[u8]) {
        let state = FileState {
            seen: bytes.to_vec(),
            durable: bytes.to_vec(),
            ..FileState::default()
        };
        match self.names.get(name) {
            Some(&id) => self.files[id.0] = state,
            None => {
                let id = self.add(state);
                self.names.insert(name.to_string(), id);
                self.durable_names.insert(name.to_string(), id);
            }
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.effect()?;
        self.find(name)?;
        self.change_names(NameChange::Remove {
            name: name.to_string(),
        });
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.effect()?;
        let id = self.find(from)?;
        self.change_names(NameChange::Rename {
            from: from.to_string(),
            to: to.to_string(),
            id,
        });
        Ok(())
    }

    fn change_names(&mut self, change: NameChange) {
        apply_name(&mut self.names, &change);
        self.pending_names.push(change);
    }

    pub(super) fn sync_names(&mut self) -> io::Result<()> {
        self.effect()?;
        if !self.lose_syncs {
            self.durable_names = self.names.clone();
            self.pending_names.clear();
        }
        Ok(())
    }

    pub(super) fn write_at(&mut self, id: FileId, offset: usize, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.effect() {
            if !self.read_only {
                self.write(id, offset, &bytes[..bytes.len() / 2]);
            }
            return Err(error);
        }
        let end = self.free().saturating_add(self.file(id).taken());
        let room = usize::try_from(end).unwrap_or(usize::MAX).saturating_sub(offset);
        if bytes.len() <= room {
            self.write(id, offset, bytes);
            return Ok(());
        }
        self.write(id, offset, &bytes[..room]);
        Err(ErrorKind::StorageFull.into())
    }

    /// Bytes of all files.
    pub(super) fn used(&self) -> u64 {
        self.names.values().map(|id| self.file(*id).taken()).sum()
    }

    /// Bytes that are left.
    fn free(&self) -> u64 {
        self.bytes_max
            .map_or(u64::MAX, |max| max.saturating_sub(self.used()))
    }

    pub(super) fn reserve(&mut self, id: FileId, length: u64) -> io::Result<bool> {
        self.effect()?;
        if self.reserve_nothing {
            return Ok(false);
        }
        if length.saturating_sub(self.file(id).taken()) > self.free() {
            return Err(ErrorKind::StorageFull.into());
        }
        let file = &mut self.files[id.0];
        file.reserved = file.reserved.max(length);
        Ok(true)
    }

    fn write(&mut self, id: FileId, offset: usize, bytes: &[u8]) {
        let file = &mut self.files[id.0];
        let change = Change::Write {
            offset,
            bytes: bytes.to_vec(),
        };
        apply(&mut file.seen, &change);
        file.pending.push(change);
    }

    pub(super) fn truncate(&mut self, id: FileId, length: u64) -> io::Result<()> {
        self.effect()?;
        let file = &mut self.files[id.0];
        file.reserved = 0;
        if length == file.seen.len() as u64 {
            return Ok(());
        }
        let change = Change::Truncate {
            length: usize::try_from(length).map_err(|_| ErrorKind::FileTooLarge)?,
        };
        apply(&mut file.seen, &change);
        file.pending.push(change);
        Ok(())
    }

    /// Makes the changes up to number `until` durable, unless a fault says otherwise.
    pub(super) fn sync(&mut self, id: FileId, until: u64) -> io::Result<()> {
        self.effect()?;
        self.syncs += 1;
        let fails = match &mut self.good_syncs {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        if self.lose_syncs && !fails {
            return Ok(());
        }
        let file = &mut self.files[id.0];
        let changes = file.settle(until);
        if fails {
            self.good_syncs = None;
            return Err(io::Error::other("the disk reports an error of the medium (EIO)"));
        }
        for change in &changes {
            apply(&mut file.durable, change);
        }
        Ok(())
    }
}
