//! [`restore_to`]: a store as it was at one moment, made of a backup and of the log in an archive.
//!
//! ```text
//!   backup    checkpoint at commit b ──copied──────────────────────────────┐
//!   archive   log-..b-..  log-..  log-.. ──each checked, cut behind `until`┴─► a store's folder, verified
//! ```
//!
//! What it is not: a change of the backup or of the archive.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::backup::{Verified, copy_file, existing, folder, must_be_fresh, verify_on};
use crate::checkpoint::Manifest;
use crate::error::{Result, StoreError};
use crate::log::{Archive, LogError, LogReader, OnDamage, Segment, segment_name};
use crate::storage::Storage;
use crate::store::own;
use crate::ts::Ts;

/// The moment that [`restore_to`] goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// This commit is the last.
    Ts(Ts),
    /// The last commit is the newest that was surely there at this time. While commits come, times are known to a tenth of a second.
    Time(SystemTime),
    /// All that the archive has.
    Newest,
}

/// Makes a store, in a folder that is made, or is empty, of a backup and of the log in an archive: as it was at one moment. Reads and
/// checks all of it first to last; the new store is durable and verified when this returns. Opened, it goes on from there, with an archive
/// of its own.
///
/// ```
/// use corun_store::{Archive, Options, Store, TableDef, Type, Until, restore_to};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = std::env::temp_dir().join(format!("corun-store-restore-{}", std::process::id()));
/// # std::fs::create_dir(&place)?;
/// let (shop, backup, archive) = (place.join("shop"), place.join("backup"), place.join("archive"));
/// let options = Options {
///     archive: Some(Archive::open(&archive)?),
///     ..Options::default()
/// };
/// let store = Store::open(&shop, options)?;
/// let table = store.create_table(TableDef::new("t").column("id", Type::I64).primary_key(&["id"]))?;
/// store.backup(&backup)?;
/// let mut session = store.session_here()?;
/// let mut row = table.new_row();
/// let mut newest = Vec::new();
/// for id in 0..5_i64 {
///     row.set("id", id)?;
///     let transaction = session.begin()?;
///     transaction.insert(&table, &row)?;
///     newest.push(transaction.commit()?);
/// }
/// store.archive_log()?;
///
/// let restored = restore_to(&backup, &archive, Until::Ts(newest[2]), place.join("as-it-was"))?;
/// assert_eq!((restored.last, restored.tables[0].rows), (newest[2], 3));
/// # drop(session);
/// # store.close()?;
/// # std::fs::remove_dir_all(place)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`StoreError::Archive`], which names the file, where log is missing, damaged, or that of another moment than its name says, and where
/// the archive does not reach that far, or the backup is later; those of [`crate::restore`].
pub fn restore_to(
    backup: impl AsRef<Path>,
    archive: impl AsRef<Path>,
    until: Until,
    target: impl AsRef<Path>,
) -> Result<Verified> {
    let (backup, archive) = (existing(backup.as_ref())?, archive.as_ref());
    if !archive.is_dir() {
        return Err(StoreError::Archive {
            file: archive.display().to_string(),
            what: "there is no such folder; name that of an archive".to_owned(),
        });
    }
    let archive = Archive::on(folder(archive)?);
    restore_to_on(&backup, &archive, until, &folder(target.as_ref())?)
}

/// The same of any storage.
///
/// # Errors
/// As [`restore_to`].
pub fn restore_to_on(
    backup: &Arc<dyn Storage>,
    archive: &Archive,
    until: Until,
    target: &Arc<dyn Storage>,
) -> Result<Verified> {
    must_be_fresh(target)?;
    let owners = (own(&**backup)?, own(&**target)?);
    let place = backup.place();
    let manifest = Manifest::read(&**backup)?.ok_or(StoreError::NoStore { place })?;
    let chain = Chain {
        archive,
        store_id: manifest.store_id,
        from: manifest.ts,
    };
    let until = chain.end(until, &backup.place())?;
    let failed = |what, source| StoreError::Storage {
        what,
        place: target.place(),
        source,
    };
    for file in &manifest.files {
        copy_file(&**backup, &**target, &file.name).map_err(|source| failed("copy files into", source))?;
    }
    let copy = |segment: &Segment| {
        let Some((_, last)) = segment.blocks.iter().rfind(|(ts, _)| *ts <= until) else {
            return Ok(false);
        };
        let write = || {
            let file = target.create(&segment.name)?;
            file.append(&segment.bytes[..last.end])?;
            file.sync()
        };
        write().map_err(|source| failed("copy the archive into", source))?;
        Ok(segment.blocks.last().is_some_and(|(ts, _)| *ts < until))
    };
    if until > chain.from {
        chain.segments(copy)?;
    }
    target.sync_names().map_err(|source| failed("sync", source))?;
    manifest.put_in_force(&**target)?;
    drop(owners);
    let verified = verify_on(target)?;
    match verified.last {
        last if last == until => Ok(verified),
        last => Err(StoreError::Damaged {
            place: target.place(),
            what: format!("it was to end with commit {until}, and ends with {last}"),
        }),
    }
}

/// The log that follows a backup.
struct Chain<'a> {
    archive: &'a Archive,
    store_id: u64,
    /// The backup's commit.
    from: Ts,
}

impl Chain<'_> {
    /// Hands out one segment after the other, checked, as long as that returns true. Returns the newest commit that was handed out.
    fn segments(&self, mut each: impl FnMut(&Segment) -> Result<bool>) -> Result<Ts> {
        let mut last = self.from;
        let storage = Arc::clone(&self.archive.storage);
        let files = self.files()?;
        let mut reader = LogReader::open(storage, self.store_id, self.from, OnDamage::Refuse)?;
        while let Some(segment) = reader.next_segment().map_err(|error| self.explain(error))? {
            if let Some(damage) = reader.damage() {
                // Nothing in an archive is torn by a crash.
                return Err(self.explain(LogError::Damaged(damage.clone())));
            }
            last = segment.blocks.last().map_or(last, |(ts, _)| *ts);
            if !each(&segment)? {
                return Ok(last);
            }
            let after = files.iter().find(|(_, name)| *name > segment.name);
            if let Some((first, name)) = after.filter(|(first, _)| *first > last.next()) {
                return Err(self.missing(
                    last.next(),
                    &format!("/{}", segment_name(last.next())),
                    &format!("the next is {name}, from commit {first} on"),
                ));
            }
        }
        // Not before the archive knows to have more.
        reader.end().map_err(|error| self.explain(error))?;
        match reader.damage() {
            Some(damage) => Err(self.explain(LogError::Damaged(damage.clone()))),
            None => Ok(last),
        }
    }

    /// The commit that is to be the last.
    fn end(&self, until: Until, backup: &str) -> Result<Ts> {
        let from = self.from;
        if matches!(until, Until::Ts(ts) if ts < from) {
            return Err(StoreError::Archive {
                file: backup.to_owned(),
                what: format!("the backup was made at commit {from}, which is later; take an earlier one"),
            });
        }
        if until == Until::Ts(from) {
            return Ok(from);
        }
        self.check_beginning()?;
        match until {
            Until::Newest => self.segments(|_| Ok(true)),
            Until::Ts(ts) => {
                let last =
                    self.segments(|segment| Ok(segment.blocks.last().is_some_and(|(last, _)| *last < ts)))?;
                if last >= ts {
                    Ok(ts)
                } else {
                    Err(self.ends_at(last))
                }
            }
            Until::Time(time) => self.end_at(time, backup),
        }
    }

    fn end_at(&self, until: SystemTime, backup: &str) -> Result<Ts> {
        let until = until.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let (mut end, mut later) = (None, None);
        let last = self.segments(|segment| {
            for (ts, time) in &segment.times {
                if u128::from(*time) > until {
                    later = Some(*ts);
                    return Ok(false);
                }
                end = Some(*ts);
            }
            Ok(true)
        })?;
        match (end, later) {
            (_, None) => Err(self.ends_at(last)),
            // Whether the backup's commit was there then is not known.
            (end, Some(_)) => end
                .filter(|end| *end >= self.from)
                .ok_or_else(|| StoreError::Archive {
                    file: backup.to_owned(),
                    what: format!(
                        "the backup, made at commit {}, is later than that time; take an earlier one",
                        self.from
                    ),
                }),
        }
    }

    fn files(&self) -> Result<Vec<(Ts, String)>> {
        let files = self.archive.segments();
        Ok(files.map_err(|error| self.archive.failure("list", &error))?)
    }

    /// Whether there is the segment in which the log goes on behind the backup.
    fn check_beginning(&self) -> Result<()> {
        match self.files()?.first() {
            Some((first, _)) if *first <= self.from.next() => Ok(()),
            Some((first, name)) => Err(self.missing(
                self.from.next(),
                "",
                &format!("the first file is {name}, from commit {first} on"),
            )),
            None => Err(self.missing(self.from.next(), "", "the archive is empty")),
        }
    }

    fn ends_at(&self, last: Ts) -> StoreError {
        let what = format!(
            "the archive ends with commit {last}, before that; have the store archive its log, or restore to the newest"
        );
        StoreError::Archive {
            file: format!("{}/{}", self.archive.storage.place(), segment_name(last.next())),
            what: format!("there is no such file: {what}"),
        }
    }

    fn missing(&self, ts: Ts, file: &str, what: &str) -> StoreError {
        StoreError::Archive {
            file: format!("{}{file}", self.archive.storage.place()),
            what: format!("the file with commit {ts} is missing: {what}; find it, or take a later backup"),
        }
    }

    /// An error of the log's, said of an archive.
    fn explain(&self, error: LogError) -> StoreError {
        match error {
            LogError::Damaged(damage) => StoreError::Archive {
                file: damage.file,
                what: format!(
                    "it is damaged at byte {} ({}); commits from {} on cannot be restored without it: restore to one before, or find a \
                     copy of the file",
                    damage.offset, damage.what, damage.first_lost
                ),
            },
            error => error.into(),
        }
    }
}
