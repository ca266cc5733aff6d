//! Copies of stores: [`Store::backup`] of one that is open, [`verify`] and [`restore`] of folders that nobody has open.
//!
//! ```text
//!   store ──backup──► folder ──verify──► Verified        a backup is a folder of a store, with one checkpoint and no log
//!                        └─────restore─► folder          which is opened like any other
//! ```
//!
//! A folder that is being written has no manifest yet, so that what an interrupted copy leaves is refused and never opened as an older or
//! emptier store.

use std::path::Path;
use std::sync::Arc;

use corun_exec::teams;

use crate::checkpoint::{CheckpointMap, Manifest};
use crate::counts::CheckpointDone;
use crate::error::{Result, StoreError};
use crate::foreign_key::verify_table as verify_foreign_keys;
use crate::image::{self, Target};
use crate::log::{Damage, Log, OnDamage};
use crate::memory::Memory;
use crate::options::Options;
use crate::recovery;
use crate::snapshot::Snapshot;
use crate::storage::{Folder, Storage, for_each_part};
use crate::store::{Store, own};
use crate::table::Table;
use crate::ts::Ts;

/// What [`verify`] found.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The newest commit.
    pub last: Ts,
    /// The tables by name, with their rows and indexes.
    pub tables: Vec<VerifiedTable>,
    /// Files and bytes of the checkpoint.
    pub checkpoint: (usize, u64),
    /// Commits of the log behind the checkpoint.
    pub log_commits: u64,
    /// What a crash left of the log's end and the next opening cuts off: nothing that was durable.
    pub torn: Option<Damage>,
}

/// A table that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedTable {
    /// Its name, with its schema's unless that is `public`.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// Its indexes, the primary key's too.
    pub indexes: usize,
}

impl Store {
    /// Writes a copy of the store as it is now into a folder, which is made, or is empty. Transactions go on meanwhile; definitions and
    /// checkpoints wait. The copy is durable when this returns, and opens as a store.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if there is a store; a folder with other files; files that cannot be written: what is there then is no store.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<CheckpointDone> {
        let to = to.as_ref();
        teams::blocking(|| self.backup_on(&folder(to)?))
    }

    /// The same into any storage.
    ///
    /// # Errors
    /// As [`Store::backup`].
    pub fn backup_on(&self, to: &Arc<dyn Storage>) -> Result<CheckpointDone> {
        let inner = &self.inner;
        inner.check_open()?;
        must_be_fresh(to)?;
        let _owner = own(&**to)?;
        let _defining = inner.defining.lock();
        let snapshot = Snapshot::new(inner, Log::last)?;
        let target = Target {
            storage: to,
            store_id: inner.store_id,
            threads: inner.options.writing_threads(),
            busy: inner.clients_commit(),
        };
        // What others are told is there must not be lost here by a crash.
        let flush = || Ok(inner.log.flush().map(drop)?);
        let catalog = inner.catalog.read().clone();
        image::write(&target, &catalog, &snapshot, &mut CheckpointMap::default(), flush)
    }
}

/// Reads all of a store's folder, which nobody has open: checksums of every chunk and commit that counts, rows, unique indexes, and
/// foreign keys. Changes nothing.
///
/// # Errors
/// [`StoreError::NoStore`]; [`StoreError::InUse`]; what is wrong with the files, the first that is found.
pub fn verify(folder_of: impl AsRef<Path>) -> Result<Verified> {
    verify_on(&existing(folder_of.as_ref())?)
}

/// The same of any storage.
///
/// # Errors
/// As [`verify`].
pub fn verify_on(storage: &Arc<dyn Storage>) -> Result<Verified> {
    let place = storage.place();
    let manifest = Manifest::read(&**storage)?.ok_or(StoreError::NoStore { place })?;
    let _owner = own(&**storage)?;
    let options = Options {
        on_damage: OnDamage::Refuse,
        ..Options::default()
    };
    let memory = Arc::new(Memory::new(0));
    let (content, end) = recovery::read(storage, &manifest, &options, &memory)?;
    let tables = content.catalog.tables.values();
    let tables: Result<Vec<VerifiedTable>> = tables.map(verify_table).collect();
    Ok(Verified {
        last: end.last(),
        tables: tables?,
        checkpoint: (
            manifest.files.len(),
            manifest.files.iter().map(|file| file.bytes).sum(),
        ),
        log_commits: content.recovered.commits,
        torn: content.damage,
    })
}

/// Compares the unique indexes and the foreign keys of a table with its rows.
fn verify_table(table: &Table) -> Result<VerifiedTable> {
    let mut indexes = 0;
    for (_, index) in table.0.indexes() {
        indexes += 1;
        if index.unique {
            let mut entries = recovery::entries(table, &index.layout, 0..table.rid_end());
            entries.sort_unstable();
            if let Some(twice) = recovery::twice(table, index, &entries) {
                return Err(recovery::duplicate(table, index, twice));
            }
        }
    }
    verify_foreign_keys(table)?;
    Ok(VerifiedTable {
        name: table.shown_name(),
        rows: table.rows(),
        indexes,
    })
}

/// Copies a store's folder, which nobody has open, into a folder that is made, or is empty; first it is verified. The copy is durable when
/// this returns.
///
/// # Errors
/// Those of [`verify`] and of [`Store::backup`].
pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Verified> {
    let from = existing(from.as_ref())?;
    let verified = verify_on(&from)?;
    restore_on(&from, &folder(to.as_ref())?)?;
    Ok(verified)
}

fn restore_on(from: &Arc<dyn Storage>, to: &Arc<dyn Storage>) -> Result<()> {
    must_be_fresh(to)?;
    let (_from, _to) = (own(&**from)?, own(&**to)?);
    let place = from.place();
    let manifest = Manifest::read(&**from)?.ok_or(StoreError::NoStore { place })?;
    let failed = |what, source| StoreError::Storage {
        what,
        place: to.place(),
        source,
    };
    let names = from
        .names()
        .map_err(|source| failed("list the files to copy into", source))?;
    for name in names.iter().filter(|name| *name != Manifest::NAME) {
        copy_file(&**from, &**to, name).map_err(|source| failed("copy files into", source))?;
    }
    to.sync_names().map_err(|source| failed("sync", source))?;
    Ok(manifest.put_in_force(&**to)?)
}

pub(crate) fn copy_file(from: &dyn Storage, to: &dyn Storage, name: &str) -> std::io::Result<()> {
    let (from, to) = (from.open(name)?, to.create(name)?);
    for_each_part(&*from, from.length()?, |bytes, _| to.append(bytes).map(|()| true))?;
    to.sync()
}

pub(crate) fn must_be_fresh(storage: &Arc<dyn Storage>) -> Result<()> {
    match Manifest::read(&**storage)? {
        None => Ok(()),
        Some(_) => Err(StoreError::Exists {
            what: "a store",
            name: storage.place(),
        }),
    }
}

pub(crate) fn folder(path: &Path) -> Result<Arc<dyn Storage>> {
    let folder = Folder::open(path).map_err(|source| StoreError::Storage {
        what: "open",
        place: path.display().to_string(),
        source,
    })?;
    Ok(Arc::new(folder))
}

pub(crate) fn existing(path: &Path) -> Result<Arc<dyn Storage>> {
    match path.is_dir() {
        true => folder(path),
        false => Err(StoreError::NoStore {
            place: path.display().to_string(),
        }),
    }
}
