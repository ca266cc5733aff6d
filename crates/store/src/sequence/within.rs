//! Sequences that a transaction makes and drops.
//!
//! ```text
//!   create_sequence ─► numbers without the log ─► commit: the log gets it, and how far its numbers may have been given ─► all are shown it
//!                                                 rollback: whoever has a handle is told that it was dropped
//!   drop_sequence ───► others still get numbers, with the log ─► commit: none gets one behind the end in the log
//! ```
//!
//! What it is not: a way to take numbers back. What a sequence has given out it has given out.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use corun_exec::teams;
use parking_lot::MutexGuard;

use super::{Places, Sequence, SequenceDef, SequenceInner};
use crate::definition::Definition;
use crate::error::{Result, StoreError};
use crate::lock::TableMode;
use crate::operations::check_stack;
use crate::park::Park;
use crate::schema::{PUBLIC, QualifiedName};
use crate::session::State;
use crate::store::Catalog;
use crate::transaction::Transaction;

/// Before the name of a sequence, where it is locked as that of a table would be.
const LOCKED_AS: char = '\0';
/// How often a user-level thread asks again whether nobody writes to the log about a sequence. Unmeasured.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl SequenceInner {
    /// One that a transaction makes.
    pub(crate) fn within(id: u32, definition: SequenceDef, base: i64, given: u64) -> Self {
        let mut sequence = SequenceInner::new(id, definition, base, given);
        sequence.places.get_mut().within = true;
        sequence
    }

    /// As [`Sequence::set`], if a transaction has made it and not committed. False if not.
    pub(crate) fn set_within(&self, base: i64, given: u64) -> bool {
        let mut places = self.places.lock();
        if places.within {
            *places = Places {
                base,
                next: given,
                ready: given,
                within: true,
            };
        }
        places.within
    }

    /// Its transaction commits: the number of its first place, and how many places may have been given out when others are shown it. The caller
    /// holds its `logging`, so that they do not become more.
    pub(crate) fn close(&self) -> (i64, u64) {
        let places = self.places.lock();
        self.logged.store(places.ready, Ordering::Release);
        (places.base, places.ready)
    }

    /// Its transaction has committed.
    pub(crate) fn show(&self) {
        self.places.lock().within = false;
    }

    /// Whoever has it gets no more numbers.
    pub(crate) fn end(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// Keeps others from writing to the log about it. On a user-level thread the others of its thread go on meanwhile.
    pub(crate) fn lock_logging(&self, park: &Arc<dyn Park>) -> MutexGuard<'_, ()> {
        if !teams::is_member() {
            return self.logging.lock();
        }
        loop {
            if let Some(guard) = self.logging.try_lock() {
                return guard;
            }
            park.park(Some(Instant::now() + LOOK_EVERY));
        }
    }
}

impl Catalog {
    /// A sequence by name.
    pub(crate) fn sequence(&self, name: &QualifiedName) -> Result<Arc<SequenceInner>> {
        let sequence = self.sequences.get(name).cloned();
        sequence.ok_or_else(|| StoreError::NoSequence {
            name: name.to_string(),
        })
    }

    pub(crate) fn sequence_of(&self, id: u32) -> Option<Arc<SequenceInner>> {
        let mut sequences = self.sequences.values();
        sequences.find(|sequence| sequence.id == id).cloned()
    }
}

/// Sequences are made and dropped within the transaction: it sees that at once, others when it has committed. What their numbers are belongs to
/// no transaction.
impl Transaction<'_> {
    /// Makes a sequence. Another transaction that makes or drops one of the name waits for the end of this one. Numbers may be taken at once;
    /// if the transaction does not commit, there never was such a sequence.
    ///
    /// ```
    /// # use corun_store::{Options, SequenceDef, Store};
    /// # let store = Store::in_memory(Options::default())?;
    /// # let mut session = store.session_here()?;
    /// let transaction = session.begin()?;
    /// let orders = transaction.create_sequence(SequenceDef::new("orders"))?;
    /// assert_eq!(orders.next_value()?, 1);
    /// assert!(store.sequence("orders").is_err(), "others do not see it yet");
    /// transaction.commit()?;
    /// assert_eq!(store.sequence("orders")?.next_value()?, 2);
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Sequence`] for a definition that cannot be, [`StoreError::Exists`], [`StoreError::NoSchema`], locks that are not granted.
    pub fn create_sequence(&self, definition: SequenceDef) -> Result<Sequence> {
        definition.check()?;
        let name = definition.qualified_name();
        self.change_definitions(|state| {
            if name.schema != PUBLIC {
                self.lock_schema(state, &name.schema, TableMode::S)?;
                self.catalog(state).check_schema(&name.schema)?;
            }
            self.lock_sequence(state, &name)?;
            if self.find_sequence(state, &name).is_ok() {
                return Err(StoreError::Exists {
                    what: "a sequence",
                    name: name.to_string(),
                });
            }
            let (id, base) = (self.session.store.new_id(), definition.start);
            let made = Definition::CreateSequence {
                id,
                definition,
                base,
                given: 0,
            };
            self.make(state, made)?;
            self.find_sequence(state, &name)
                .map(|inner| self.sequence_handle(inner))
        })
    }

    /// Drops a sequence of the schema `public`. Others may take numbers until the transaction has committed.
    ///
    /// # Errors
    /// [`StoreError::NoSequence`], locks that are not granted.
    pub fn drop_sequence(&self, name: &str) -> Result<()> {
        self.drop_sequence_in(PUBLIC, name)
    }

    /// Drops a sequence of a schema, as [`Transaction::drop_sequence`].
    ///
    /// # Errors
    /// As there.
    pub fn drop_sequence_in(&self, schema: &str, name: &str) -> Result<()> {
        let name = QualifiedName::new(schema, name);
        self.change_definitions(|state| {
            self.lock_sequence(state, &name)?;
            let id = self.find_sequence(state, &name)?.id;
            self.make(state, Definition::DropSequence(id)).map(drop)
        })
    }

    /// A sequence of the schema `public` by name, as this transaction sees it.
    ///
    /// # Errors
    /// [`StoreError::NoSequence`].
    pub fn sequence(&self, name: &str) -> Result<Sequence> {
        self.sequence_in(PUBLIC, name)
    }

    /// A sequence by the name of its schema and its own, as [`Transaction::sequence`].
    ///
    /// # Errors
    /// [`StoreError::NoSequence`].
    pub fn sequence_in(&self, schema: &str, name: &str) -> Result<Sequence> {
        check_stack()?;
        let name = QualifiedName::new(schema, name);
        let inner = self.go_on(|state| self.find_sequence(state, &name))?;
        Ok(self.sequence_handle(inner))
    }

    /// All sequences, by schema and name, as this transaction sees them.
    pub fn sequences(&self) -> Vec<Sequence> {
        let state = self.session.state.borrow();
        let sequences = self.catalog(&state).sequences.into_values();
        sequences.map(|inner| self.sequence_handle(inner)).collect()
    }

    fn find_sequence(&self, state: &State, name: &QualifiedName) -> Result<Arc<SequenceInner>> {
        match state.definitions.sequence(name) {
            Some(Some(sequence)) => Ok(Arc::clone(sequence)),
            Some(None) => Err(StoreError::NoSequence {
                name: name.to_string(),
            }),
            None => self.session.store.catalog.read().sequence(name),
        }
    }

    /// A sequence by number, as the transaction sees it.
    pub(crate) fn sequence_of(&self, state: &State, id: u32) -> Option<Arc<SequenceInner>> {
        self.catalog(state).sequence_of(id)
    }

    /// Keeps others from making or dropping a sequence of this name.
    fn lock_sequence(&self, state: &mut State, name: &QualifiedName) -> Result<()> {
        let locked = QualifiedName::new(&name.schema, &format!("{LOCKED_AS}{}", name.name));
        state
            .holder
            .table(&self.session.store.name_lock(&locked), TableMode::X)?;
        Ok(())
    }

    fn sequence_handle(&self, inner: Arc<SequenceInner>) -> Sequence {
        Sequence {
            inner,
            store: Arc::clone(&self.session.store),
        }
    }
}
