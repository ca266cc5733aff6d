//! [`Sequence`]: numbers that are given out once each, whatever becomes of the transaction that asked.
//!
//! ```text
//! the log:  upto 32            upto 64                    a crash here: 64 is the next
//! given:    0 1 2 ... 31 │ 32 33 ... 40 ─┘                41 to 63 nobody gets
//! ```
//!
//! Before the first number of a block is given out, the log has on disk that the whole block may have been (PostgreSQL does so, too). A
//! record counts from the sequence's beginning and never goes back, so that its order among other commits does not matter. Only
//! [`Sequence::set`] begins anew: its record is read alone, as that of a definition.
//!
//! A transaction makes and drops sequences among its other changes ([`within`]). Until it commits the log has nothing of one that it has made.
//!
//! What it is not: without gaps. Numbers of transactions that were aborted, and the rest of a block when the store is opened again, are lost.

mod within;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use corun_exec::teams;
use parking_lot::Mutex;

use crate::codec::{Reader, put_number, put_text};
use crate::error::{Result, StoreError};
use crate::park;
use crate::redo;
use crate::schema::{PUBLIC, QualifiedName};
use crate::store::{Store, StoreInner};

/// What a sequence is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceDef {
    /// Its schema's name: [`PUBLIC`] unless said otherwise.
    pub schema: String,
    /// Its name, unique among the sequences of its schema.
    pub name: String,
    /// The first number.
    pub start: i64,
    /// What is added for the next; not 0.
    pub increment: i64,
    /// Numbers of a block, for which the disk is waited for once: at least 1.
    pub cache: u32,
}

impl SequenceDef {
    /// Of numbers from 1, in blocks of 32.
    pub fn new(name: &str) -> Self {
        SequenceDef {
            schema: PUBLIC.to_owned(),
            name: name.to_owned(),
            start: 1,
            increment: 1,
            cache: 32,
        }
    }

    /// In this schema, which is there when the sequence is made.
    #[must_use]
    pub fn in_schema(self, schema: &str) -> Self {
        SequenceDef {
            schema: schema.to_owned(),
            ..self
        }
    }

    pub(crate) fn qualified_name(&self) -> QualifiedName {
        QualifiedName::new(&self.schema, &self.name)
    }

    fn refused(&self, why: &'static str) -> StoreError {
        StoreError::Sequence {
            name: self.qualified_name().to_string(),
            why,
        }
    }

    fn check(&self) -> Result<()> {
        let why = match self {
            _ if self.name.is_empty() || self.name.len() > 255 => {
                "its name is empty or longer than 255 bytes"
            }
            _ if self.increment == 0 => "its increment is 0; it must count up or down",
            _ if self.cache == 0 => "its cache is 0; a block has at least one number",
            _ => return Ok(()),
        };
        Err(self.refused(why))
    }

    /// Without its schema.
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        put_text(bytes, &self.name);
        put_number(bytes, self.start.cast_unsigned());
        put_number(bytes, self.increment.cast_unsigned());
        put_number(bytes, u64::from(self.cache));
    }

    /// One that cannot be is none.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let definition = SequenceDef {
            schema: PUBLIC.to_owned(),
            name: reader.text()?,
            start: reader.number()?.cast_signed(),
            increment: reader.number()?.cast_signed(),
            cache: reader.number32()?,
        };
        definition.check().is_ok().then_some(definition)
    }
}

/// Numbers by their place: the first has place 0.
#[derive(Debug)]
struct Places {
    /// The number of place 0.
    base: i64,
    /// The next that is given out.
    next: u64,
    /// Those below may be: the log has that on disk.
    ready: u64,
    /// A transaction has made the sequence and not committed, so that the numbers are its alone, and the log has none of them.
    within: bool,
}

/// What the handles of a sequence share.
#[derive(Debug)]
pub(crate) struct SequenceInner {
    pub(crate) id: u32,
    pub(crate) definition: SequenceDef,
    /// The places below may have been given out, as the log has it, perhaps not on disk yet.
    logged: AtomicU64,
    places: Mutex<Places>,
    /// Held while the log gets a record of the sequence. Never on a user-level thread, since it waits for the disk.
    logging: Mutex<()>,
    dropped: AtomicBool,
}

impl SequenceInner {
    /// One whose first place is `base`, and whose places below `logged` may have been given out.
    pub(crate) fn new(id: u32, definition: SequenceDef, base: i64, logged: u64) -> Self {
        SequenceInner {
            id,
            definition,
            logged: AtomicU64::new(logged),
            places: Mutex::new(Places {
                base,
                next: logged,
                ready: logged,
                within: false,
            }),
            logging: Mutex::new(()),
            dropped: AtomicBool::new(false),
        }
    }

    pub(crate) fn logged(&self) -> u64 {
        // Acquire: a checkpoint has seen the commit, in whose order this was stored.
        self.logged.load(Ordering::Acquire)
    }

    fn check(&self) -> Result<()> {
        match self.dropped.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(self.definition.refused("it was dropped")),
        }
    }

    /// The number of its first place. It changes with definitions.
    pub(crate) fn base(&self) -> i64 {
        self.places.lock().base
    }

    /// The number of a place, which may be beyond those that can be given out.
    fn number(&self, base: i64, place: u64) -> i128 {
        i128::from(base) + i128::from(self.definition.increment) * i128::from(place)
    }

    /// The next number that is ready; none if the log must have more first.
    fn ready(&self) -> Result<Option<i64>> {
        let mut places = self.places.lock();
        let number = i64::try_from(self.number(places.base, places.next)).map_err(|_| {
            self.definition
                .refused("it has reached the end of the 64-bit integers")
        })?;
        if places.next == places.ready {
            return Ok(None);
        }
        places.next += 1;
        Ok(Some(number))
    }

    /// Whether so many numbers are ready.
    fn has(&self, count: u64) -> bool {
        let places = self.places.lock();
        places.ready - places.next >= count
    }

    /// Gets so many numbers ready, and no fewer than a block, if they are not.
    fn prepare(&self, store: &StoreInner, count: u64) -> Result<()> {
        let _logging = self.logging.lock();
        self.check()?;
        let block = u64::from(self.definition.cache);
        // Not where the places that are ready end: after an error of the disk the log may have more.
        let logged = self.logged();
        let more = {
            let mut places = self.places.lock();
            let left = places.ready - places.next;
            if left >= count {
                return Ok(());
            }
            if places.within {
                places.ready = places.next.saturating_add(count.max(block));
                return Ok(());
            }
            match places.ready == logged {
                true => count - left,
                false => count,
            }
        };
        let ready = logged.saturating_add(more.max(block));
        self.log(store, ready)?;
        let mut places = self.places.lock();
        if places.ready != logged {
            places.next = logged;
        }
        places.ready = ready;
        Ok(())
    }

    /// Begins anew: place 0 has the number `base`, and so many places have been given out. The caller holds `logging`, or is alone.
    fn log_base(&self, store: &StoreInner, base: i64, given: u64) -> Result<()> {
        let park = park::current();
        let block = redo::set_sequence(self.id, base, given);
        let ts = store.log.append(&block, &park, |_| {
            let mut places = self.places.lock();
            self.logged.store(given, Ordering::Release);
            *places = Places {
                base,
                next: given,
                ready: given,
                within: false,
            };
        })?;
        Ok(store.log.wait_durable(ts, &park)?)
    }

    /// Writes to the log that places below `upto` may have been given out, and waits until the disk has it.
    fn log(&self, store: &StoreInner, upto: u64) -> Result<()> {
        let park = park::current();
        let block = redo::advance_sequence(self.id, upto);
        let ts = store.log.append(&block, &park, |_| {
            self.logged.fetch_max(upto, Ordering::AcqRel);
        })?;
        Ok(store.log.wait_durable(ts, &park)?)
    }
}

/// A sequence of a store. Cheap to clone.
#[derive(Clone)]
pub struct Sequence {
    inner: Arc<SequenceInner>,
    store: Arc<StoreInner>,
}

impl std::fmt::Debug for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sequence({})", self.name())
    }
}

impl Sequence {
    /// Its name, without its schema's.
    pub fn name(&self) -> &str {
        &self.inner.definition.name
    }

    /// Its definition.
    pub fn definition(&self) -> &SequenceDef {
        &self.inner.definition
    }

    /// The next number. It belongs to no transaction: nobody gets it again, whether the caller uses it or not, and after a crash neither.
    /// Once in a block the call waits for the disk; see [`Sequence::reserve`].
    ///
    /// # Errors
    /// [`StoreError::Sequence`] if it was dropped or has come to the end of the integers; errors of the log, and then no number was given.
    pub fn next_value(&self) -> Result<i64> {
        loop {
            self.inner.check()?;
            if let Some(number) = self.inner.ready()? {
                return Ok(number);
            }
            teams::blocking(|| self.inner.prepare(&self.store, 1))?;
        }
    }

    /// Gets numbers ready for so many calls of [`Sequence::next_value`]: unless others take some, those do not wait for the disk. Those of them
    /// that nobody takes are lost when the store is opened again, as the rest of a block is.
    ///
    /// ```
    /// # use corun_store::{Options, SequenceDef, Store};
    /// # let store = Store::in_memory(Options::default())?;
    /// let sequence = store.create_sequence(SequenceDef::new("s"))?;
    /// sequence.reserve(1000)?;
    /// assert_eq!((sequence.next_value()?, sequence.next_value()?), (1, 2));
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Sequence`] if it was dropped; errors of the log.
    pub fn reserve(&self, count: u32) -> Result<()> {
        self.inner.check()?;
        match self.inner.has(count.into()) {
            true => Ok(()),
            false => teams::blocking(|| self.inner.prepare(&self.store, count.into())),
        }
    }

    /// Sets it, as PostgreSQL's `setval`: with `called` the next number is the one behind `value`, else `value` itself. It belongs to no
    /// transaction, and is durable when this returns. Waits for definitions and for a checkpoint that is being written.
    ///
    /// ```
    /// # use corun_store::{Options, SequenceDef, Store};
    /// # let store = Store::in_memory(Options::default())?;
    /// let sequence = store.create_sequence(SequenceDef { increment: 10, ..SequenceDef::new("s") })?;
    /// assert_eq!(sequence.last(), (1, false));
    /// sequence.set(7, true)?;
    /// assert_eq!((sequence.next_value()?, sequence.last()), (17, (17, true)));
    /// sequence.set(7, false)?;
    /// assert_eq!(sequence.next_value()?, 7);
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Sequence`] if it was dropped; errors of the log.
    pub fn set(&self, value: i64, called: bool) -> Result<()> {
        teams::blocking(|| {
            let _defining = self.store.defining.lock();
            let _logging = self.inner.logging.lock();
            self.inner.check()?;
            match self.inner.set_within(value, u64::from(called)) {
                true => Ok(()),
                false => self.inner.log_base(&self.store, value, u64::from(called)),
            }
        })
    }

    /// The number given out last, and true; before the first, that one, and false: PostgreSQL's `last_value` and `is_called`, with which
    /// [`Sequence::set`] leaves it as it is. After it was opened again it is the last that may have been given out.
    pub fn last(&self) -> (i64, bool) {
        let places = self.inner.places.lock();
        let number = self.inner.number(places.base, places.next.saturating_sub(1));
        // Of a block that is cut by the end of the integers not all can be given out.
        let number = number.clamp(i64::MIN.into(), i64::MAX.into());
        (number as i64, places.next > 0)
    }
}

impl Store {
    /// Makes a sequence. It is durable when this returns.
    ///
    /// ```
    /// use corun_store::{Options, SequenceDef, Store};
    ///
    /// let store = Store::in_memory(Options::default())?;
    /// let orders = store.create_sequence(SequenceDef { start: 100, ..SequenceDef::new("orders") })?;
    /// assert_eq!((orders.next_value()?, orders.next_value()?), (100, 101));
    /// assert_eq!(store.sequence("orders")?.next_value()?, 102);
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::create_sequence`](crate::Transaction::create_sequence); errors of the log.
    pub fn create_sequence(&self, definition: SequenceDef) -> Result<Sequence> {
        self.define(|transaction| transaction.create_sequence(definition))
    }

    /// A sequence of the schema `public` by name.
    ///
    /// # Errors
    /// [`StoreError::NoSequence`].
    pub fn sequence(&self, name: &str) -> Result<Sequence> {
        self.sequence_in(PUBLIC, name)
    }

    /// A sequence by the name of its schema and its own.
    ///
    /// # Errors
    /// [`StoreError::NoSequence`].
    pub fn sequence_in(&self, schema: &str, name: &str) -> Result<Sequence> {
        let name = QualifiedName::new(schema, name);
        let sequence = self.inner.catalog.read().sequence(&name)?;
        Ok(self.handle(sequence))
    }

    /// All sequences, by schema and name.
    pub fn sequences(&self) -> Vec<Sequence> {
        let catalog = self.inner.catalog.read();
        let sequences = catalog.sequences.values().cloned();
        sequences.map(|sequence| self.handle(sequence)).collect()
    }

    /// Drops a sequence of the schema `public`. That is durable when this returns.
    ///
    /// # Errors
    /// As [`Transaction::drop_sequence`](crate::Transaction::drop_sequence); errors of the log.
    pub fn drop_sequence(&self, name: &str) -> Result<()> {
        self.drop_sequence_in(PUBLIC, name)
    }

    /// Drops a sequence of a schema, as [`Store::drop_sequence`].
    ///
    /// # Errors
    /// As there.
    pub fn drop_sequence_in(&self, schema: &str, name: &str) -> Result<()> {
        self.define(|transaction| transaction.drop_sequence_in(schema, name))
    }

    /// Notes what another store gave out. False if there is no such sequence.
    pub(crate) fn advance_sequence(&self, id: u32, upto: u64) -> Result<bool> {
        match self.sequence_of(id) {
            None => Ok(false),
            Some(sequence) => sequence.log(&self.inner, upto).map(|()| true),
        }
    }

    /// Sets the sequence of a number, as another store did. False if there is none.
    pub(crate) fn set_sequence_of(&self, id: u32, base: i64, given: u64) -> Result<bool> {
        match self.sequence_of(id) {
            None => Ok(false),
            Some(sequence) => sequence.log_base(&self.inner, base, given).map(|()| true),
        }
    }

    fn sequence_of(&self, id: u32) -> Option<Arc<SequenceInner>> {
        self.inner.catalog.read().sequence_of(id)
    }

    fn handle(&self, inner: Arc<SequenceInner>) -> Sequence {
        Sequence {
            inner,
            store: Arc::clone(&self.inner),
        }
    }
}
