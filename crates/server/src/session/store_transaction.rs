//! [`StoreTransaction`]: a client's transaction on the store that its database is.
//!
//! ```text
//!           first statement that writes, locks, or is not READ COMMITTED
//!   none ─────────────────────────────────► open ─── commit ──► none
//!                                           │  ▲ └── rollback, error without savepoint ──► none
//!                                 statement │  │ suspended between statements
//!                                           ▼  │
//!                                          runs ── a lock would be waited for ──► again, from its beginning, on a thread that may wait
//! ```
//!
//! What it is not: what clients call a transaction, which may be open while there is none here (`BEGIN` alone); the session knows that.

use super::cancel::CancelHandle;
use super::store_error::refusal_of;
use crate::data::{DICTIONARY, StoreView};
use crate::short::may_block;
use crate::write::{Deferrable, deferrable};
use corun_store::lock::LockError;
use corun_store::park::{self, Park};
use corun_store::{
    DeferredKeys, Durability, Lock, Savepoint, Session, Snapshot, Store, StoreError, Table, Transaction,
};
use corun_wire::error::{Refusal, code};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a statement waits for a lock where the session does not say: as long as it may run, as with PostgreSQL.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Levels of isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Isolation {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    /// By the setting's value.
    pub(super) fn of(setting: &str) -> Isolation {
        match setting {
            "serializable" => Isolation::Serializable,
            "repeatable read" => Isolation::RepeatableRead,
            _ => Isolation::ReadCommitted,
        }
    }
}

/// Why a part of a statement fails.
#[derive(Debug)]
pub(crate) enum StoreFailure {
    Store(StoreError),
    Told(Refusal),
}

impl From<StoreError> for StoreFailure {
    fn from(error: StoreError) -> Self {
        StoreFailure::Store(error)
    }
}

impl From<Refusal> for StoreFailure {
    fn from(refusal: Refusal) -> Self {
        StoreFailure::Told(refusal)
    }
}

impl From<corun_store::RowError> for StoreFailure {
    fn from(error: corun_store::RowError) -> Self {
        StoreFailure::Store(error.into())
    }
}

impl StoreFailure {
    pub(super) fn refusal(self) -> Refusal {
        match self {
            StoreFailure::Store(error) => refusal_of(&error),
            StoreFailure::Told(refusal) => refusal,
        }
    }

    /// A lock was not granted in the time that it had.
    fn is_timeout(&self) -> bool {
        matches!(
            self,
            StoreFailure::Store(StoreError::Lock(LockError::Timeout { .. }))
        )
    }
}

/// What ends the statement that runs, while it waits for a lock.
#[derive(Debug, Clone, Default)]
pub(super) struct StatementEnd {
    pub(super) cancel: CancelHandle,
    pub(super) until: Option<Instant>,
}

impl StatementEnd {
    fn is_reached(&self) -> bool {
        self.cancel.is_cancelled() || self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn refusal(&self) -> Refusal {
        let why = match self.cancel.is_cancelled() {
            true => "canceling statement due to user request",
            false => "canceling statement due to statement timeout",
        };
        Refusal::new(code::QUERY_CANCELED, why)
    }
}

/// A thread that waits for the locks of a statement, until the statement is to end.
struct StatementPark {
    thread: Arc<dyn Park>,
    end: StatementEnd,
}

impl Park for StatementPark {
    fn park(&self, deadline: Option<Instant>) {
        self.thread.park(deadline);
    }

    fn unpark(&self) {
        self.thread.unpark();
    }

    fn gives_up(&self) -> bool {
        self.end.is_reached()
    }
}

/// What nobody is told: on the event loop's thread a statement would have to wait for a lock. Nothing is left of what was tried, and it runs again
/// on a thread that may block.
pub(super) const WOULD_WAIT: &str = "corun: would wait";

/// A savepoint of the client's.
struct Mark {
    savepoint: Savepoint,
    wrote: bool,
    defined: bool,
}

/// How a transaction begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Modes {
    pub(super) isolation: Isolation,
    /// `None`: for ever.
    pub(super) lock_timeout: Option<Duration>,
}

/// See [`self`].
pub(crate) struct StoreTransaction {
    view: Arc<StoreView>,
    /// Made at the first need. The lock is never waited for: it makes this something that threads may share.
    session: Mutex<Option<Session>>,
    modes: Modes,
    end: StatementEnd,
    /// It has written or defined something.
    wrote: bool,
    defined: bool,
    /// What REPEATABLE READ reads.
    first: Option<Arc<Snapshot>>,
    /// In a lock for the same reason.
    savepoints: Mutex<Vec<Mark>>,
    /// What `SET CONSTRAINTS` has said, oldest first.
    constraints: Vec<SetConstraints>,
}

/// `SET CONSTRAINTS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetConstraints {
    /// Schema, table and name; `None`: all.
    pub(super) of: Option<(String, String, String)>,
    pub(super) deferred: bool,
}

impl SetConstraints {
    fn is_about(&self, key: &Deferrable) -> bool {
        self.of
            .as_ref()
            .is_none_or(|of| of.0 == key.schema && of.1 == key.table && of.2 == key.name)
    }
}

impl StoreTransaction {
    pub(super) fn new(view: Arc<StoreView>) -> Self {
        StoreTransaction {
            view,
            session: Mutex::new(None),
            modes: Modes {
                isolation: Isolation::ReadCommitted,
                lock_timeout: None,
            },
            end: StatementEnd::default(),
            wrote: false,
            defined: false,
            first: None,
            savepoints: Mutex::default(),
            constraints: Vec::new(),
        }
    }

    pub(crate) fn view(&self) -> &Arc<StoreView> {
        &self.view
    }

    pub(crate) fn store(&self) -> &Store {
        self.view.store()
    }

    pub(crate) fn isolation(&self) -> Isolation {
        self.modes.isolation
    }

    /// Of the transaction that begins, or, before its first statement, of the one that has begun.
    pub(super) fn set_modes(&mut self, modes: Modes) {
        self.modes = modes;
    }

    /// A statement begins, which ends so.
    pub(super) fn set_end(&mut self, end: StatementEnd) {
        self.end = end;
    }

    /// Whether there is one.
    pub(crate) fn is_open(&self) -> bool {
        self.session.lock().as_ref().is_some_and(Session::is_suspended)
    }

    /// Whether a statement has read or written in it: its modes are fixed.
    pub(super) fn is_used(&self) -> bool {
        self.first.is_some() || self.is_open()
    }

    /// Runs a part of a statement in the transaction, which begins if there is none. `work` is run twice where it would have to wait for a lock:
    /// what it has done to the store is undone before, and nothing else may be left of it. If it fails, the statement must fail.
    ///
    /// # Errors
    /// What `work` returns; 40P01, 55P03 of locks.
    pub(crate) fn run<R>(
        &mut self,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<R, StoreFailure>,
    ) -> Result<R, Refusal> {
        let wait = self.modes.lock_timeout.unwrap_or(WAIT_MAX);
        let slot = self.session.get_mut();
        let mut transaction = begun(slot, &self.view)?;
        let begin = transaction.savepoint();
        transaction.set_lock_timeout(Duration::ZERO);
        let mut answer = work(&mut transaction);
        if answer.as_ref().is_err_and(StoreFailure::is_timeout) {
            let gone_back = transaction.rollback_to(&begin);
            transaction.suspend();
            gone_back.map_err(|error| refusal_of(&error))?;
            if !may_block() {
                return Err(Refusal::new(WOULD_WAIT, "a lock would be waited for"));
            }
            transaction = waiting(slot, &self.view, &self.end)?;
            transaction.set_lock_timeout(wait);
            // Other sessions go on meanwhile: the runtime hands this thread's tasks to another.
            answer = tokio::task::block_in_place(|| work(&mut transaction));
        }
        match answer {
            Ok(value) => {
                transaction.suspend();
                self.wrote = true;
                Ok(value)
            }
            Err(failure) => {
                // `statement_failed` follows.
                transaction.suspend();
                if failure.is_timeout() && self.end.is_reached() {
                    return Err(self.end.refusal());
                }
                Err(failure.refusal())
            }
        }
    }

    /// As [`StoreTransaction::run`], but a lock that is not there at once is refused.
    ///
    /// # Errors
    /// As there; `refused` says what is told where a lock was not granted.
    pub(crate) fn run_without_waiting<R>(
        &mut self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<R, StoreFailure>,
        refused: impl FnOnce() -> Refusal,
    ) -> Result<R, Refusal> {
        let mut transaction = begun(self.session.get_mut(), &self.view)?;
        transaction.set_lock_timeout(Duration::ZERO);
        let answer = work(&mut transaction);
        transaction.suspend();
        self.wrote = true;
        answer.map_err(|failure| match failure.is_timeout() {
            true => refused(),
            false => failure.refusal(),
        })
    }

    /// As [`StoreTransaction::run`], of work that writes nothing.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn run_reading<R>(
        &mut self,
        work: impl FnMut(&mut Transaction<'_>) -> Result<R, StoreFailure>,
    ) -> Result<R, Refusal> {
        let before = self.wrote;
        let answer = self.run(work);
        self.wrote = before;
        answer
    }

    /// As [`StoreTransaction::run`], for definitions.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn define<R>(
        &mut self,
        work: impl FnMut(&mut Transaction<'_>) -> Result<R, StoreFailure>,
    ) -> Result<R, Refusal> {
        let answer = self.run(work)?;
        self.defined = true;
        self.show_definitions()?;
        self.defer_keys()?;
        Ok(answer)
    }

    /// The foreign keys that may be deferred, as the transaction sees them.
    ///
    /// # Errors
    /// A dictionary that cannot be read.
    pub(super) fn deferrable(&mut self) -> Result<Arc<Vec<Deferrable>>, Refusal> {
        if !self.defined {
            let committed = self.view.deferrable();
            return committed.map_err(|error| refusal_of(&error));
        }
        let own = self.run_reading(|transaction| {
            let dictionary = transaction.table_in(DICTIONARY.0, DICTIONARY.1);
            Ok(deferrable(dictionary, || transaction.snapshot())?)
        });
        own.map(Arc::new)
    }

    /// Tells the transaction which foreign keys wait: as they are declared, or as `SET CONSTRAINTS` has said.
    fn defer_keys(&mut self) -> Result<(), Refusal> {
        let mut keys = DeferredKeys::default();
        for key in self.deferrable()?.iter() {
            let said = self.constraints.iter().rev().find(|said| said.is_about(key));
            if said.map_or(key.initially, |said| said.deferred) {
                keys.insert(&key.schema, &key.table, &key.name);
            }
        }
        let keys = Arc::new(keys);
        self.run_reading(|transaction| Ok(transaction.set_deferred_keys(Arc::clone(&keys))?))
    }

    /// `SET CONSTRAINTS`. Those that are not deferred any more are checked now.
    ///
    /// # Errors
    /// A foreign key that is violated.
    pub(super) fn set_constraints(&mut self, said: Vec<SetConstraints>) -> Result<(), Refusal> {
        // What was said of all makes forgotten what was said before.
        match said.as_slice() {
            [SetConstraints { of: None, .. }] => self.constraints = said,
            _ => {
                self.constraints
                    .retain(|old| !said.iter().any(|new| new.of == old.of));
                self.constraints.extend(said);
            }
        }
        self.defer_keys()?;
        self.run_reading(|transaction| Ok(transaction.check_foreign_keys()?))
    }

    /// The session's statements see the transaction's definitions.
    fn show_definitions(&mut self) -> Result<(), Refusal> {
        let slot = self.session.get_mut();
        let transaction = begun(slot, &self.view)?;
        self.view.set_own(
            transaction.tables(),
            transaction.schemas(),
            transaction.sequences(),
        );
        transaction.suspend();
        Ok(())
    }

    /// The moment that the statement which begins now reads; `None`: the newest durable one. `tables` are those that it reads: SERIALIZABLE locks
    /// them.
    ///
    /// # Errors
    /// Locks that are not granted; too many snapshots.
    pub(crate) fn read_moment(&mut self, tables: &[Table]) -> Result<Option<Arc<Snapshot>>, Refusal> {
        let moment = match self.modes.isolation {
            Isolation::ReadCommitted if !self.wrote => None,
            Isolation::ReadCommitted => Some(self.run(|transaction| Ok(transaction.snapshot()?))?),
            Isolation::RepeatableRead => {
                let failed = |error: StoreError| refusal_of(&error);
                let first = match &self.first {
                    Some(first) => Arc::clone(first),
                    None => {
                        let first = Arc::new(self.store().durable_snapshot().map_err(failed)?);
                        self.first = Some(Arc::clone(&first));
                        first
                    }
                };
                match self.wrote {
                    false => {
                        self.view.set_moment(Some(Arc::clone(&first)));
                        return Ok(Some(first));
                    }
                    true => Some(self.run(|transaction| Ok(transaction.snapshot_at(&first)?))?),
                }
            }
            Isolation::Serializable => {
                let before = self.wrote;
                let moment = self.run(|transaction| {
                    for table in tables {
                        transaction.lock_table(table, Lock::Shared)?;
                    }
                    Ok(transaction.snapshot()?)
                })?;
                self.wrote = before;
                Some(moment)
            }
        };
        let moment = moment.map(Arc::new);
        self.view.set_moment(moment.clone());
        Ok(moment)
    }

    /// The statement failed: what the transaction has done since its newest savepoint is undone, and its locks are let go.
    pub(super) fn statement_failed(&mut self) {
        match self.savepoints.get_mut().len().checked_sub(1) {
            Some(last) if self.is_open() && self.rollback_to(last).is_ok() => {}
            _ => self.rollback(),
        }
    }

    /// `SAVEPOINT`.
    ///
    /// # Errors
    /// A store that is closed.
    pub(super) fn savepoint(&mut self) -> Result<(), Refusal> {
        let transaction = begun(self.session.get_mut(), &self.view)?;
        let savepoint = transaction.savepoint();
        transaction.suspend();
        self.savepoints.get_mut().push(Mark {
            savepoint,
            wrote: self.wrote,
            defined: self.defined,
        });
        Ok(())
    }

    /// `RELEASE SAVEPOINT`: those from this position on are gone.
    pub(super) fn release(&mut self, at: usize) {
        self.savepoints.get_mut().truncate(at);
    }

    /// `ROLLBACK TO SAVEPOINT` of this position; it stays.
    ///
    /// # Errors
    /// None that is known.
    pub(super) fn rollback_to(&mut self, at: usize) -> Result<(), Refusal> {
        let savepoints = self.savepoints.get_mut();
        savepoints.truncate(at + 1);
        let Some(mark) = savepoints.get(at) else {
            return Ok(());
        };
        let mut transaction = begun(self.session.get_mut(), &self.view)?;
        let gone_back = transaction.rollback_to(&mark.savepoint);
        transaction.suspend();
        gone_back.map_err(|error| refusal_of(&error))?;
        let had_defined = std::mem::replace(&mut self.defined, mark.defined);
        self.wrote = mark.wrote;
        self.view.set_moment(None);
        match (had_defined, self.defined) {
            (true, true) => self.show_definitions(),
            (true, false) => {
                self.view.ended(false);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Ends it; what it has done is there for all, and on disk when this returns, unless `wait` says otherwise.
    ///
    /// # Errors
    /// Foreign keys that were deferred; a log that takes nothing more. Nothing is left of the transaction then.
    pub(super) async fn commit(&mut self, wait: bool) -> Result<(), Refusal> {
        let handle = {
            let failed = |error: StoreError| refusal_of(&error);
            let Some(session) = self
                .session
                .get_mut()
                .as_mut()
                .filter(|session| session.is_suspended())
            else {
                self.clear(false);
                return Ok(());
            };
            let transaction = session.resume(waits(&self.end)).map_err(failed)?;
            transaction.set_lock_timeout(self.modes.lock_timeout.unwrap_or(WAIT_MAX));
            transaction.commit_async()
        };
        let handle = match handle {
            Ok(handle) => handle,
            Err(error) => {
                self.rolled_back();
                return Err(refusal_of(&error));
            }
        };
        let store = self.store().clone();
        self.clear(self.defined);
        if wait && store.durability() == Durability::Durable {
            handle.await.map_err(|error| refusal_of(&error))?;
        }
        Ok(())
    }

    /// Nothing is left of it.
    pub(super) fn rollback(&mut self) {
        if let Some(session) = self
            .session
            .get_mut()
            .as_mut()
            .filter(|session| session.is_suspended())
            && let Ok(transaction) = session.resume(park::current())
        {
            transaction.abort();
        }
        self.rolled_back();
    }

    fn rolled_back(&mut self) {
        self.clear(false);
    }

    fn clear(&mut self, published: bool) {
        self.wrote = false;
        self.defined = false;
        self.first = None;
        self.savepoints.get_mut().clear();
        self.constraints.clear();
        self.view.ended(published);
    }

    /// What a statement is told whose row somebody else has changed since its snapshot.
    pub(crate) fn changed_meanwhile() -> Refusal {
        Refusal::new(
            code::SERIALIZATION_FAILURE,
            "could not serialize access due to concurrent update",
        )
    }
}

thread_local! {
    static HERE: Arc<dyn Park> = park::current();
}

/// How this thread waits.
fn here() -> Arc<dyn Park> {
    HERE.with(Arc::clone)
}

/// How this thread waits for a statement's locks.
fn waits(end: &StatementEnd) -> Arc<dyn Park> {
    Arc::new(StatementPark {
        thread: here(),
        end: end.clone(),
    })
}

/// The open transaction, or a new one, which waits for no lock.
fn begun<'s>(slot: &'s mut Option<Session>, view: &StoreView) -> Result<Transaction<'s>, Refusal> {
    entered(slot, view, here())
}

/// The same, which waits for locks until the statement is to end.
fn waiting<'s>(
    slot: &'s mut Option<Session>,
    view: &StoreView,
    end: &StatementEnd,
) -> Result<Transaction<'s>, Refusal> {
    entered(slot, view, waits(end))
}

fn entered<'s>(
    slot: &'s mut Option<Session>,
    view: &StoreView,
    park: Arc<dyn Park>,
) -> Result<Transaction<'s>, Refusal> {
    let failed = |error: StoreError| refusal_of(&error);
    let session = match slot {
        Some(session) => session,
        None => slot.insert(view.store().session_here().map_err(failed)?),
    };
    match session.is_suspended() {
        true => session.resume(park).map_err(failed),
        false => {
            session.set_park(park);
            let transaction = session.begin().map_err(failed)?;
            if let Some(keys) = view.deferred().map_err(failed)? {
                transaction.set_deferred_keys(keys).map_err(failed)?;
            }
            Ok(transaction)
        }
    }
}

impl std::fmt::Debug for StoreTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreTransaction")
            .field("modes", &self.modes)
            .field("wrote", &self.wrote)
            .finish_non_exhaustive()
    }
}
