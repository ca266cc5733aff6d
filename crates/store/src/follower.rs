//! [`Follower`]: a copy of a store that another process has open, which follows it through the files of its folder.
//!
//! ```text
//!   the store's folder   checkpoint ──read once──► rows, indexes ─┐
//!                        log ──every few milliseconds──► commits ─┴─► versions, under the same numbers ─► snapshots
//! ```
//!
//! It applies each commit as a transaction of its own store in memory, so that its snapshots show whole commits in their order, and only
//! those that the store's disk has. It writes nothing into the folder. What it is not: a store that could take over; a program that wants
//! one restores a backup, or opens the folder once nobody else has it.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::backup::existing;
use crate::checkpoint::{CheckpointError, Manifest};
use crate::counts::{CheckpointDone, Stats};
use crate::definition::Definition;
use crate::error::{Result, StoreError};
use crate::known::Reach;
use crate::lock::{RowMode, RowName};
use crate::log::{LogTail, Look};
use crate::memory::Memory;
use crate::operations::UPDATE;
use crate::options::{Durability, Options, TRANSACTION_BYTES_MAX};
use crate::recovery;
use crate::redo::{self, Record};
use crate::row::RowRef;
use crate::session::Session;
use crate::slots::Rid;
use crate::snapshot::Snapshot;
use crate::storage::Storage;
use crate::store::Store;
use crate::table::Table;
use crate::transaction::Transaction;
use crate::ts::Ts;

/// How often a follower looks at the log. Unmeasured.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How often it begins again where a checkpoint takes away the files that it reads.
const TRIES: usize = 20;

/// How far a follower is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Its newest commit.
    pub applied: Ts,
    /// The newest commit that the store's log is known to have on disk.
    pub durable: Ts,
}

/// A copy of a store that follows it. See the module.
pub struct Follower {
    store: Store,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    lag: Lag,
    stopped: bool,
    failure: Option<String>,
}

impl Follower {
    /// Reads the store in a folder, which another process may have open, and follows it from then on. Of the options those of memory,
    /// locks and snapshots count.
    ///
    /// # Errors
    /// [`StoreError::NoStore`]; files that cannot be read or are damaged; [`StoreError::NotFollowing`] if checkpoints take log away faster
    /// than it is read.
    pub fn open(folder: impl AsRef<Path>, options: Options) -> Result<Follower> {
        Follower::open_on(&existing(folder.as_ref())?, options)
    }

    /// The same of any storage.
    ///
    /// # Errors
    /// As [`Follower::open`].
    pub fn open_on(storage: &Arc<dyn Storage>, options: Options) -> Result<Follower> {
        let shared = Arc::new(Shared {
            progress: Mutex::default(),
            changed: Condvar::new(),
        });
        let mut tries = 0;
        let replay = loop {
            tries += 1;
            // What is there already is there when this returns.
            let opened = Replay::open(storage, options.clone());
            match opened.and_then(|mut replay| replay.go_on(&shared).map(|()| replay)) {
                Ok(replay) => break replay,
                // A checkpoint has just taken away what was to be read.
                Err(
                    StoreError::NotFollowing { .. } | StoreError::Checkpoint(CheckpointError::Storage(_)),
                ) if tries < TRIES => {}
                Err(error) => return Err(error),
            }
        };
        let store = replay.store.clone();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("store-follower".to_owned());
        let thread = thread.spawn(move || follow(replay, &of_thread));
        let thread = thread.map_err(|source| StoreError::Storage {
            what: "start a thread that follows",
            place: storage.place(),
            source,
        })?;
        Ok(Follower {
            store,
            shared,
            thread: Some(thread),
        })
    }

    /// The store as the follower has it now, to be read only.
    ///
    /// # Errors
    /// [`StoreError::TooManySnapshots`]; [`StoreError::NotFollowing`] if it has stopped.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.check()?;
        self.store.snapshot()
    }

    /// A table of the schema `public` by name.
    ///
    /// # Errors
    /// [`StoreError::NoTable`].
    pub fn table(&self, name: &str) -> Result<Table> {
        self.store.table(name)
    }

    /// A table by the name of its schema and its own.
    ///
    /// # Errors
    /// [`StoreError::NoTable`].
    pub fn table_in(&self, schema: &str, name: &str) -> Result<Table> {
        self.store.table_in(schema, name)
    }

    /// The names of all schemas: `public`, then the others in order.
    pub fn schemas(&self) -> Vec<String> {
        self.store.schemas()
    }

    /// All tables, by schema and name.
    pub fn tables(&self) -> Vec<Table> {
        self.store.tables()
    }

    /// Counts of the copy.
    pub fn stats(&self) -> Stats {
        self.store.stats()
    }

    /// How far it is behind.
    ///
    /// # Errors
    /// [`StoreError::NotFollowing`] if it has stopped.
    pub fn lag(&self) -> Result<Lag> {
        self.check()?;
        Ok(self.shared.progress.lock().lag)
    }

    /// Waits until it has a commit; false if that takes longer than `patience`.
    ///
    /// # Errors
    /// [`StoreError::NotFollowing`] if it stops.
    pub fn wait_for(&self, ts: Ts, patience: Duration) -> Result<bool> {
        let until = Instant::now() + patience;
        let mut progress = self.shared.progress.lock();
        while progress.lag.applied < ts {
            if let Some(why) = &progress.failure {
                return Err(StoreError::NotFollowing { why: why.clone() });
            }
            if self.shared.changed.wait_until(&mut progress, until).timed_out() {
                return Ok(progress.lag.applied >= ts);
            }
        }
        Ok(true)
    }

    /// Writes a copy of what it has into a folder, as [`Store::backup`] does, without a cost to the store that it follows.
    ///
    /// # Errors
    /// As there.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<CheckpointDone> {
        self.check()?;
        self.store.backup(to)
    }

    fn check(&self) -> Result<()> {
        match &self.shared.progress.lock().failure {
            None => Ok(()),
            Some(why) => Err(StoreError::NotFollowing { why: why.clone() }),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.progress.lock().stopped = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by the runtime.
            let _ = thread.join();
        }
    }
}

/// The follower's thread.
fn follow(mut replay: Replay, shared: &Shared) {
    loop {
        if let Err(error) = replay.go_on(shared) {
            let why = match error {
                StoreError::NotFollowing { why } => why,
                error => error.to_string(),
            };
            shared.progress.lock().failure = Some(why);
            shared.changed.notify_all();
            return;
        }
        let mut progress = shared.progress.lock();
        if !progress.stopped {
            shared.changed.wait_for(&mut progress, LOOK_EVERY);
        }
        if progress.stopped {
            return;
        }
    }
}

/// A store in memory, and the log that it takes its commits from.
struct Replay {
    store: Store,
    session: Session,
    tail: LogTail,
    storage: Arc<dyn Storage>,
    place: String,
}

impl Replay {
    fn open(storage: &Arc<dyn Storage>, options: Options) -> Result<Replay> {
        let place = storage.place();
        let options = Options {
            durability: Durability::Asynchronous,
            transaction_bytes_max: TRANSACTION_BYTES_MAX,
            ..options
        };
        options.check()?;
        let none = || StoreError::NoStore { place: place.clone() };
        let manifest = Manifest::read(&**storage)?.ok_or_else(none)?;
        let memory = Arc::new(Memory::new(options.memory_max));
        let content = recovery::read_checkpoint(storage, &manifest, &options, &memory)?;
        let store = Store::in_memory_of(options, &manifest, content, memory);
        Ok(Replay {
            session: store.session_here()?,
            tail: LogTail::new(Arc::clone(storage), manifest.store_id, manifest.ts),
            store,
            storage: Arc::clone(storage),
            place,
        })
    }

    /// Applies what the log has more.
    fn go_on(&mut self, shared: &Shared) -> Result<()> {
        let mut look = self.tail.look()?;
        let mut checkpoint = Ts::ZERO;
        if look == Look::NoLog {
            checkpoint = Manifest::read(&*self.storage)?.map_or(Ts::ZERO, |manifest| manifest.ts);
            // What was written just before the last segment was removed; the file is still open here.
            look = self.tail.look()?;
        }
        shared.progress.lock().lag.durable = self.tail.durable();
        while let Some((ts, block)) = self.tail.next() {
            self.apply(ts, &block)?;
            let mut progress = shared.progress.lock();
            progress.lag.applied = ts;
            if progress.stopped {
                return Ok(());
            }
        }
        shared.progress.lock().lag.applied = self.store.inner.log.last();
        shared.changed.notify_all();
        match look {
            Look::End | Look::NoLog if checkpoint <= self.store.inner.log.last() => Ok(()),
            _ => Err(StoreError::NotFollowing {
                why: format!(
                    "a checkpoint removed log of {} that the follower had not read; open it again",
                    self.place
                ),
            }),
        }
    }

    /// Applies a commit.
    fn apply(&mut self, ts: Ts, block: &[u8]) -> Result<()> {
        let first = redo::records(block).next();
        match first {
            Some(Some(record @ (Record::AdvanceSequence(..) | Record::SetSequence(..)))) => {
                self.change_sequence(ts, record)
            }
            // It put a row in and took it out again.
            None => self.store.inner.append_definition(block).map(drop),
            _ => self.change(ts, block),
        }?;
        match self.store.inner.log.last() {
            last if last == ts => Ok(()),
            last => Err(damaged(&self.place, ts, &format!("became commit {last}"))),
        }
    }

    /// Applies a commit of rows and definitions, in their order.
    fn change(&mut self, ts: Ts, block: &[u8]) -> Result<()> {
        let wrong = |what: &str| damaged(&self.place, ts, what);
        let transaction = self.session.begin()?;
        let mut known: Option<Table> = None;
        for record in redo::records(block) {
            let record = record.ok_or_else(|| wrong("cannot be read"))?;
            let id = match record {
                Record::Row { table, .. } | Record::Patch { table, .. } | Record::Delete { table, .. } => {
                    table
                }
                Record::Define(definition) => {
                    known = None;
                    transaction.go_on(|state| transaction.make(state, definition))?;
                    continue;
                }
                Record::CreateSequence(id, definition) => {
                    let base = definition.start;
                    let made = Definition::CreateSequence {
                        id,
                        definition,
                        base,
                        given: 0,
                    };
                    transaction.go_on(|state| transaction.make(state, made))?;
                    continue;
                }
                Record::DropSequence(id) => {
                    transaction.go_on(|state| transaction.make(state, Definition::DropSequence(id)))?;
                    continue;
                }
                // Of one that the transaction has just made.
                Record::SetSequence(id, base, given) => {
                    let sequence = transaction.go_on(|state| Ok(transaction.sequence_of(state, id)))?;
                    match sequence.is_some_and(|sequence| sequence.set_within(base, given)) {
                        true => continue,
                        false => return Err(wrong("is about a sequence that it did not make")),
                    }
                }
                Record::AdvanceSequence(..) => return Err(wrong("mixes rows and numbers of sequences")),
            };
            if known.as_ref().is_none_or(|table| table.0.id != id) {
                known = transaction.go_on(|state| Ok(transaction.table_of(state, id)))?;
            }
            let table = known
                .as_ref()
                .ok_or_else(|| wrong("changes a table that is not there"))?;
            if !transaction.apply(table, &record)? {
                return Err(wrong("changes a row that is not there, or into what cannot be"));
            }
        }
        transaction.commit().map(drop)
    }

    fn change_sequence(&self, ts: Ts, record: Record<'_>) -> Result<()> {
        let known = match record {
            Record::AdvanceSequence(id, upto) => self.store.advance_sequence(id, upto)?,
            Record::SetSequence(id, base, given) => self.store.set_sequence_of(id, base, given)?,
            _ => false,
        };
        match known {
            true => Ok(()),
            false => Err(damaged(&self.place, ts, "is about a sequence that is not there")),
        }
    }
}

fn damaged(place: &str, ts: Ts, what: &str) -> StoreError {
    StoreError::Damaged {
        place: place.to_owned(),
        what: format!("commit {ts} {what}"),
    }
}

impl Transaction<'_> {
    /// Changes a row as another store did, under its number. Whether keys are unique that store has seen to: within a transaction they need
    /// not be. False if there is no such row, or it would be none of the table.
    fn apply(&self, table: &Table, record: &Record<'_>) -> Result<bool> {
        let (Record::Row { rid, .. } | Record::Patch { rid, .. } | Record::Delete { rid, .. }) = record
        else {
            return Ok(false);
        };
        let rid: Rid = *rid;
        self.operate(UPDATE, |state| {
            self.reach(state, table, Reach::WriteRows)?;
            let Some(slot) = table.0.slots.claim(rid) else {
                return Ok(false);
            };
            let name = RowName {
                table: table.0.id,
                rid: rid.0,
            };
            state.holder.row(name, &slot.lock, RowMode::X)?;
            // Perhaps that of a row that was deleted, of which snapshots know.
            let before = state.newest(slot);
            let layout = table.0.layouts.newest();
            // SAFETY: locked; what the transaction replaces is kept to its end.
            let old = before.and_then(|version| unsafe { table.0.layouts.row(version) });
            let mut patched = Vec::new();
            let after: Option<&[u8]> = match (record, old) {
                (Record::Row { row, .. }, _) => Some(*row),
                (Record::Patch { patch, .. }, Some(old)) if old.has_layout(layout) => {
                    patched.extend_from_slice(old.encoded());
                    if !patch.apply(&mut patched) {
                        return Ok(false);
                    }
                    Some(&patched)
                }
                (Record::Delete { .. }, Some(_)) => None,
                _ => return Ok(false),
            };
            if after.is_some_and(|row| !layout.accepts(row)) {
                return Ok(false);
            }
            let after = after.map(|row| RowRef::new(layout, row));
            self.change(state, table, (rid, slot), before, after, None)?;
            Ok(true)
        })
    }
}
