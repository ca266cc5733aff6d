//! [`Store`]: tables, their definitions, and the folder they live in.
//!
//! Order of calls: [`Store::open`] (or [`Store::in_memory`]), [`Store::create_table`] once, [`Store::session`] for each client,
//! [`Store::close`]. A store that is dropped is closed, too; only errors of its last writes go unnoticed then.
//!
//! Tables and indexes are made and dropped in `definitions.rs`. Definitions, checkpoints, opening and closing take long and need a deep stack:
//! called on a user-level thread they run on a thread of their own ([`teams::blocking`]) while its team goes on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use corun_exec::teams;
use parking_lot::{Mutex, RwLock};

use crate::checkpoint::Manifest;
use crate::checkpointer::Checkpointer;
use crate::counts::{CheckpointDone, Recovered, Stats};
use crate::error::{Result, StoreError};
use crate::garbage::Orphans;
use crate::horizon::Horizon;
use crate::lock::{LockOptions, Locks, TableLock};
use crate::log::{Archive, Damage, Log, LogOptions};
use crate::memory::Memory;
use crate::options::Options;
use crate::park::{self, Park};
use crate::pool::Pool;
use crate::recovery::{self, Content};
use crate::schema::{PUBLIC, QualifiedName};
use crate::sequence::SequenceInner;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::storage::{Folder, Storage};
use crate::table::Table;
use crate::ts::Ts;

/// The tables and sequences of a store by name.
#[derive(Clone, Default)]
pub(crate) struct Catalog {
    pub(crate) tables: BTreeMap<QualifiedName, Table>,
    /// By name, too.
    pub(crate) sequences: BTreeMap<QualifiedName, Arc<SequenceInner>>,
    /// All but `public`.
    pub(crate) schemas: BTreeSet<String>,
    /// The highest number of a table or a sequence so far.
    pub(crate) next_id: u32,
}

/// Where a store is kept.
pub(crate) struct Home {
    pub(crate) storage: Arc<dyn Storage>,
    /// Keep other owners away, from the archive too, until the store is closed.
    owners: Mutex<Vec<Box<dyn Send + Sync>>>,
}

/// What the handles of a store share.
pub(crate) struct StoreInner {
    // Fixed.
    pub(crate) options: Options,
    pub(crate) home: Option<Home>,
    /// Tells its files from those of other stores. A follower has that of the store it follows.
    pub(crate) store_id: u64,
    pub(crate) damage: Option<Damage>,
    pub(crate) recovered: Recovered,
    // Changing; each guards itself. Order: `defining` before `catalog`.
    pub(crate) locks: Arc<Locks>,
    pub(crate) log: Log,
    pub(crate) memory: Arc<Memory>,
    pub(crate) horizon: Horizon,
    pub(crate) catalog: RwLock<Catalog>,
    /// Held while definitions are published, and while a checkpoint is written: never while a lock is waited for.
    pub(crate) defining: Mutex<()>,
    /// Locks of names of tables and schemas, by who makes, drops or renames them.
    pub(crate) names: Mutex<HashMap<QualifiedName, Arc<TableLock>>>,
    /// Grows when a table is dropped.
    pub(crate) definitions: AtomicU64,
    closed: AtomicBool,
    /// Garbage of sessions that ended.
    pub(crate) orphans: Orphans,
    /// By worker.
    pools: Box<[Pool]>,
    pub(crate) checkpointer: Checkpointer,
}

/// An in-memory transactional store. Cheap to clone; all clones are the same store.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<StoreInner>,
    /// Closes the store when the last handle goes; sessions and snapshots have none.
    _closer: Arc<Closer>,
}

struct Closer {
    inner: Arc<StoreInner>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.place())
    }
}

impl Store {
    /// Opens the store in a folder; makes both if they are not there.
    ///
    /// # Errors
    /// [`StoreError::InUse`], [`StoreError::Storage`], what is wrong with the files, [`StoreError::Option`].
    pub fn open(folder: impl AsRef<Path>, options: Options) -> Result<Store> {
        let path = folder.as_ref();
        let storage = Folder::open(path).map_err(|source| StoreError::Storage {
            what: "open",
            place: path.display().to_string(),
            source,
        })?;
        Store::open_on(Arc::new(storage), options)
    }

    /// Whether there is a store in a folder, by the file that each has. Nothing is opened.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(Manifest::NAME).is_file()
    }

    /// Opens the store in any storage.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_on(storage: Arc<dyn Storage>, options: Options) -> Result<Store> {
        teams::blocking(|| {
            options.check()?;
            // A folder of somebody else's stays as it is, without a lock's file.
            Manifest::read(&*storage)?;
            let mut owners = vec![own(&*storage)?];
            let manifest = match Manifest::read(&*storage)? {
                Some(manifest) => manifest,
                None => Manifest::create(&*storage, new_id())?,
            };
            let memory = Arc::new(Memory::new(options.memory_max));
            let (content, end) = recovery::read(&storage, &manifest, &options, &memory)?;
            if let Some(archive) = &options.archive {
                owners.push(own(&*archive.storage)?);
                check_archive(archive, manifest.store_id, end.last())?;
            }
            let log_options = LogOptions {
                flush_every: options.flush_every,
                bytes_max: options.log_bytes_max,
                segment_bytes: match options.checkpoint_log_bytes {
                    0 => 64 << 20,
                    bytes => (bytes / 4).clamp(4 << 10, 64 << 20),
                },
                // While a sync takes its time, asynchronous commits go on into the buffer.
                buffer_bytes: 32 << 20,
                archive: options.archive.clone(),
            };
            let log = Log::start(Arc::clone(&storage), manifest.store_id, end, log_options)?;
            let home = Home {
                storage,
                owners: Mutex::new(owners),
            };
            let store = Store::new(options, Some(home), manifest.store_id, log, content, memory);
            store.start_checkpointer()?;
            Ok(store)
        })
    }

    /// A store without a folder: what it holds is gone when it is closed.
    ///
    /// # Errors
    /// [`StoreError::Option`].
    pub fn in_memory(options: Options) -> Result<Store> {
        options.check()?;
        let memory = Arc::new(Memory::new(options.memory_max));
        let log = Log::memory(Ts::ZERO);
        Ok(Store::new(
            options,
            None,
            new_id(),
            log,
            Content::default(),
            memory,
        ))
    }

    /// A store without a folder that goes on behind what it has read.
    pub(crate) fn in_memory_of(
        options: Options,
        read: &Manifest,
        content: Content,
        memory: Arc<Memory>,
    ) -> Store {
        Store::new(
            options,
            None,
            read.store_id,
            Log::memory(read.ts),
            content,
            memory,
        )
    }

    fn new(
        options: Options,
        home: Option<Home>,
        store_id: u64,
        log: Log,
        content: Content,
        memory: Arc<Memory>,
    ) -> Store {
        let locks = Locks::new(LockOptions {
            transactions_max: options.sessions_max,
            locks_max: match options.locks_max {
                0 => u64::MAX,
                limit => limit,
            },
            locks_per_transaction_max: match options.locks_per_transaction_max {
                0 => u32::MAX,
                limit => limit,
            },
            timeout: options.lock_timeout,
            detect_after: options.detect_after,
        });
        let locks = Arc::new(locks);
        let of_log = Arc::clone(&locks);
        log.set_others(move || of_log.open());
        let inner = Arc::new(StoreInner {
            home,
            store_id,
            damage: content.damage,
            recovered: content.recovered,
            locks,
            log,
            memory,
            horizon: Horizon::new(options.snapshots_max),
            catalog: RwLock::new(content.catalog),
            defining: Mutex::new(()),
            names: Mutex::default(),
            definitions: AtomicU64::new(1),
            closed: AtomicBool::new(false),
            orphans: Orphans::default(),
            pools: (0..options.workers).map(|_| Pool::new()).collect(),
            checkpointer: Checkpointer::new(content.checkpoint),
            options,
        });
        Store {
            _closer: Arc::new(Closer {
                inner: Arc::clone(&inner),
                thread: Mutex::new(None),
            }),
            inner,
        }
    }

    /// Where it is kept.
    pub fn place(&self) -> String {
        match &self.inner.home {
            None => "memory".to_owned(),
            Some(home) => home.storage.place(),
        }
    }

    /// What opening it read.
    pub fn recovered(&self) -> Recovered {
        self.inner.recovered
    }

    /// What was cut off its log when it was opened: the torn end a crash left, or damage that [`Options::on_damage`] let pass.
    pub fn damage(&self) -> Option<&Damage> {
        self.inner.damage.as_ref()
    }

    /// A client that belongs to a worker and waits through `park`.
    ///
    /// # Errors
    /// If there are as many as there can be; [`StoreError::Closed`].
    pub fn session(&self, worker: usize, park: Arc<dyn Park>) -> Result<Session> {
        self.inner.check_open()?;
        Session::new(Arc::clone(&self.inner), worker % self.inner.options.workers, park)
    }

    /// A client of the first worker that waits as [`park::current`] does, and is used by the caller only.
    ///
    /// # Errors
    /// As [`Store::session`].
    pub fn session_here(&self) -> Result<Session> {
        self.session(0, park::current())
    }

    /// The store as it is now, to be read only. It may show commits that are not on disk yet.
    ///
    /// # Errors
    /// [`StoreError::TooManySnapshots`].
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::new(&self.inner, Log::last)
    }

    /// The store as it would be found after a crash now, to be read only: without the newest commits if they are not on disk yet.
    /// Every durable commit that has returned is in it. The first such snapshot of a store waits for the disk.
    ///
    /// # Errors
    /// As [`Store::snapshot`]; errors of the log.
    pub fn durable_snapshot(&self) -> Result<Snapshot> {
        let log = &self.inner.log;
        let from = self.inner.horizon.keep_durable(|| log.last());
        if from > log.durable() {
            log.wait_durable(from, &park::current())?;
        }
        Snapshot::new(&self.inner, Log::durable)
    }

    /// What commits of new sessions wait for.
    pub fn durability(&self) -> crate::Durability {
        self.inner.options.durability
    }

    /// A table of the schema `public` by name.
    ///
    /// # Errors
    /// [`StoreError::NoTable`].
    pub fn table(&self, name: &str) -> Result<Table> {
        self.table_in(PUBLIC, name)
    }

    /// A table by the name of its schema and its own.
    ///
    /// # Errors
    /// [`StoreError::NoTable`].
    pub fn table_in(&self, schema: &str, name: &str) -> Result<Table> {
        let catalog = self.inner.catalog.read();
        catalog.table(&QualifiedName::new(schema, name))
    }

    /// All tables, by schema and name.
    pub fn tables(&self) -> Vec<Table> {
        self.inner.catalog.read().tables.values().cloned().collect()
    }

    /// Writes all that has changed since the last checkpoint, and lets go of the log before it. Transactions go on meanwhile; definitions
    /// wait. A store in memory has nothing to write.
    ///
    /// # Errors
    /// If files cannot be written; then the last checkpoint and the log stay as they are.
    pub fn checkpoint(&self) -> Result<Option<CheckpointDone>> {
        teams::blocking(|| {
            self.inner.check_open()?;
            self.inner.checkpoint()
        })
    }

    /// Returns when everything committed so far is on disk.
    ///
    /// # Errors
    /// Errors of the log.
    pub fn flush(&self) -> Result<Ts> {
        Ok(self.inner.log.flush()?)
    }

    /// Makes everything committed so far durable and copies the log of it into [`Options::archive`], which otherwise gets a part of the log
    /// once that is full (a quarter of [`Options::checkpoint_log_bytes`], 64 MiB at most). Returns the newest commit this covers: a backup
    /// can be brought to it and to any before.
    ///
    /// # Errors
    /// [`StoreError::Option`] without an archive; errors of the log; files that cannot be copied.
    pub fn archive_log(&self) -> Result<Ts> {
        if self.inner.options.archive.is_none() {
            return Err(StoreError::Option {
                name: "archive",
                why: "the store has none; open it with one".to_owned(),
            });
        }
        teams::blocking(|| {
            self.inner.check_open()?;
            Ok(self.inner.log.archive()?)
        })
    }

    /// Counts of now.
    pub fn stats(&self) -> Stats {
        let inner = &self.inner;
        Stats {
            last: inner.log.last(),
            durable: inner.log.durable(),
            row_bytes: inner.memory.rows(),
            structure_bytes: inner.memory.structures(),
            bytes_max: inner.memory.limit(),
            log_bytes: inner.log.bytes(),
            snapshots: inner.horizon.open(),
            locks: inner.locks.counts(),
            checkpoint_failure: inner.checkpointer.failure(),
        }
    }

    /// Ends it: everything committed is on disk when this returns without an error. Sessions that are left cannot begin
    /// transactions any more. A store that is dropped is closed, too, whatever its sessions do. A transaction that another thread begins
    /// at the same moment may go unnoticed; its commit then gets an error.
    ///
    /// # Errors
    /// [`StoreError::TransactionsOpen`], and then the store is as before; errors of the log.
    pub fn close(&self) -> Result<()> {
        let open = self.inner.locks.open();
        if open > 0 && !self.inner.is_closed() {
            return Err(StoreError::TransactionsOpen { open });
        }
        teams::blocking(|| self._closer.stop())
    }

    fn start_checkpointer(&self) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || inner.keep_checkpoints())
            .map_err(|source| StoreError::Storage {
                what: "start the checkpoint thread for",
                place: self.place(),
                source,
            })?;
        *self._closer.thread.lock() = Some(thread);
        Ok(())
    }
}

impl Closer {
    fn stop(&self) -> Result<()> {
        self.inner.closed.store(true, Ordering::Release);
        self.inner.checkpointer.stop();
        if let Some(thread) = self.thread.lock().take() {
            // It only ends by itself; a panic there was reported by the runtime.
            let _ = thread.join();
        }
        let closed = self.inner.log.close();
        // What it does not take now it gets when the store is open again.
        let _ = self.inner.log.archive_closed();
        if let Some(home) = &self.inner.home {
            // From now on somebody else may open the folder.
            home.owners.lock().clear();
        }
        Ok(closed?)
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.stop();
    }
}

impl StoreInner {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            Err(StoreError::Closed)
        } else {
            Ok(())
        }
    }

    /// A table by number.
    pub(crate) fn table_of(&self, id: u32) -> Option<Table> {
        let catalog = self.catalog.read();
        catalog.tables.values().find(|table| table.0.id == id).cloned()
    }

    /// As of now.
    pub(crate) fn definitions(&self) -> u64 {
        self.definitions.load(Ordering::Acquire)
    }

    /// The memory a worker's sessions share.
    #[inline]
    pub(crate) fn pool(&self, worker: usize) -> &Pool {
        &self.pools[worker % self.pools.len()]
    }

    /// Whether a table is this store's, be it in use or dropped.
    pub(crate) fn owns(&self, table: &Table) -> bool {
        Arc::ptr_eq(&self.memory, &table.0.memory)
    }
}

/// Whether a store may go on with an archive.
fn check_archive(archive: &Archive, store_id: u64, last: Ts) -> Result<()> {
    match archive.last(store_id)? {
        kept if kept <= last => Ok(()),
        kept => Err(StoreError::Archive {
            file: archive.storage.place(),
            what: format!(
                "the archive goes on to commit {kept}, and the store ends with commit {last}: it was restored to an earlier \
                 moment, or lost commits, and has another history from here on; give it a new archive, and make a backup"
            ),
        }),
    }
}

/// Makes the caller the only owner of a store's folder.
pub(crate) fn own(storage: &dyn Storage) -> Result<Box<dyn Send + Sync>> {
    storage.lock().map_err(|source| match source.kind() {
        std::io::ErrorKind::WouldBlock => StoreError::InUse {
            place: storage.place(),
        },
        _ => StoreError::Storage {
            what: "lock",
            place: storage.place(),
            source,
        },
    })
}

/// A number no other store has, as good as certainly: from the clock, the process and the allocator's addresses.
pub(crate) fn new_id() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}
