//! The workload: clients that move money, make, change and delete items, and each count their transactions in a row of their
//! own; and one that makes checkpoints and definitions meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use corun_store::{Direction, Durability, Lock, Session, Store, StoreError, TableDef, Transaction};
use parking_lot::Mutex;

use crate::crash_twin::history::{Commit, Effect};
use crate::crash_twin::random::Random;
use crate::crash_twin::rows::{account, change, counter, item, put, text};

pub const ACCOUNTS: i64 = 20;
const BALANCE: i64 = 1000;
pub const CLIENTS: i64 = 5;
/// Items a client keeps, about.
const ITEMS: i64 = 12;

/// What was reported durable.
#[derive(Clone, Debug, Default)]
pub struct Acks {
    /// Newest commit.
    pub ts: u64,
    /// Newest count of each client: written, or only read.
    pub counts: Vec<i64>,
}

/// One run of the workload over one open store.
pub struct Bank<'a> {
    pub store: &'a Store,
    pub acks: &'a Mutex<Acks>,
    pub running: AtomicUsize,
}

/// Whether the log is gone, so that a client has nothing left to do.
pub fn is_over(error: &StoreError) -> bool {
    match error {
        StoreError::Log(_) | StoreError::Closed => true,
        StoreError::Checkpoint(_) | StoreError::Storage { .. } => true,
        other => panic!("unexpected: {other}"),
    }
}

/// Notes what one client did.
#[derive(Default)]
pub struct Notes {
    pub commits: Vec<Commit>,
}

impl Bank<'_> {
    fn last(&self) -> u64 {
        self.store.stats().last.0
    }

    fn acked(&self, ts: u64) {
        let mut acks = self.acks.lock();
        acks.ts = acks.ts.max(ts);
    }

    /// Commits and notes it.
    fn commit(
        &self,
        notes: &mut Notes,
        transaction: Transaction<'_>,
        durability: Durability,
        effects: Vec<Effect>,
    ) -> Result<(), StoreError> {
        let above = self.last();
        let done = transaction.commit_with(durability);
        notes.commits.push(Commit {
            ts: done.as_ref().ok().map(|ts| ts.0),
            above,
            most: u64::MAX,
            effects,
        });
        let ts = done?.0;
        if durability == Durability::Durable {
            self.acked(ts);
        }
        Ok(())
    }

    /// Changes definitions and notes it.
    fn define(
        &self,
        notes: &mut Notes,
        effect: Effect,
        define: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let above = self.last();
        let done = define();
        match &done {
            Ok(()) => self.acked(above + 1),
            // Another client has the table locked.
            Err(error) if error.is_retryable() => return Ok(()),
            Err(_) => {}
        }
        notes.commits.push(Commit {
            ts: None,
            above,
            most: if done.is_ok() { self.last() } else { u64::MAX },
            effects: vec![effect],
        });
        done
    }

    fn make(&self, notes: &mut Notes, definition: TableDef) -> Result<(), StoreError> {
        let indexes = definition.indexes.iter().map(|index| index.name.clone());
        let effect = Effect::CreateTable(definition.name.clone(), indexes.collect());
        self.define(notes, effect, || self.store.create_table(definition).map(drop))
    }

    /// Makes what is not there yet.
    pub fn set_up(&self, notes: &mut Notes) -> Result<(), StoreError> {
        for definition in [account(), counter(), item("item")] {
            if self.store.table(&definition.name).is_err() {
                self.make(notes, definition)?;
            }
        }
        let (account, counter) = (self.store.table("account")?, self.store.table("counter")?);
        let mut session = self.store.session_here()?;
        let transaction = session.begin()?;
        if transaction.fetch(&counter.primary(), &[0_i64.into()])?.is_some() {
            return Ok(());
        }
        let mut effects = Vec::new();
        for id in 0..ACCOUNTS {
            let mut row = account.new_row();
            row.set(0, id)?;
            row.set(1, BALANCE)?;
            put(&transaction, &mut effects, &account, &row)?;
        }
        for client in 0..CLIENTS {
            let mut row = counter.new_row();
            row.set(0, client)?;
            row.set("count", 0)?;
            put(&transaction, &mut effects, &counter, &row)?;
        }
        self.commit(notes, transaction, Durability::Durable, effects)
    }

    /// One client's transactions, until there were enough or the disk has stopped.
    pub fn client(&self, client: i64, transactions: u64, seed: u64) -> Notes {
        let mut random = Random::new(seed);
        /// Also where it panics.
        struct Ends<'a>(&'a AtomicUsize);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::AcqRel);
            }
        }
        let _ends = Ends(&self.running);
        let mut notes = Notes::default();
        let session = self.store.session(client as usize, corun_store::park::current());
        let mut session = match session {
            Ok(session) => session,
            Err(error) => {
                assert!(is_over(&error));
                return notes;
            }
        };
        for _ in 0..transactions {
            match self.transaction(client, &mut session, &mut random, &mut notes) {
                Ok(()) => {}
                Err(error) if error.is_retryable() => {}
                Err(
                    StoreError::Duplicate { .. } | StoreError::Dropped { .. } | StoreError::NoTable { .. },
                ) => {}
                Err(error) => {
                    assert!(is_over(&error));
                    break;
                }
            }
        }
        notes
    }

    fn transaction(
        &self,
        client: i64,
        session: &mut Session,
        random: &mut Random,
        notes: &mut Notes,
    ) -> Result<(), StoreError> {
        let durability = match random.below(3) {
            0 => Durability::Durable,
            _ => Durability::Asynchronous,
        };
        if random.once_in(12) {
            return self.look(session);
        }
        let mut transaction = session.begin()?;
        let mut effects = Vec::new();
        for _ in 0..=random.below(3) {
            let (savepoint, before) = (transaction.savepoint(), effects.len());
            let done = match random.below(6) {
                0..3 => self.transfer(&transaction, &mut effects, random),
                _ => self.items(client, &transaction, &mut effects, random),
            };
            match done {
                // It goes on without this part.
                Err(error) if error.is_retryable() => {
                    transaction.rollback_to(&savepoint)?;
                    effects.truncate(before);
                }
                done => done?,
            }
        }
        if random.once_in(8) {
            let savepoint = transaction.savepoint();
            let mut undone = Vec::new();
            self.transfer(&transaction, &mut undone, random)?;
            self.items(client, &transaction, &mut undone, random)?;
            transaction.rollback_to(&savepoint)?;
        }
        if random.once_in(10) {
            transaction.abort();
            return Ok(());
        }
        let counter = self.store.table("counter")?;
        let key = counter.primary();
        let found = transaction.fetch_for_update(&key, &[client.into()])?;
        let found = found.expect("every client has a counter");
        let count = found.row.int(1) + 1;
        change(&transaction, &mut effects, &counter, found.rid, |row| {
            row.set(1, count)
        })?;
        self.commit(notes, transaction, durability, effects)?;
        let mut acks = self.acks.lock();
        if durability == Durability::Durable {
            acks.counts[client as usize] = acks.counts[client as usize].max(count);
        }
        drop(acks);
        if random.once_in(20) {
            let ts = self.store.flush()?;
            self.acked(ts.0);
        }
        Ok(())
    }

    /// Reads all counters; if that was durable, so is what was read.
    fn look(&self, session: &mut Session) -> Result<(), StoreError> {
        let counter = self.store.table("counter")?;
        let key = counter.primary();
        let transaction = session.begin()?;
        let mut counts = vec![0; CLIENTS as usize];
        let mut scan = transaction.scan(&key, &key.all(), Direction::Ascending, Lock::Shared)?;
        while let Some(found) = scan.next()? {
            counts[found.row.int(0) as usize] = found.row.int(1);
        }
        drop(scan);
        transaction.commit_with(Durability::Durable)?;
        let mut acks = self.acks.lock();
        for (acked, count) in acks.counts.iter_mut().zip(counts) {
            *acked = (*acked).max(count);
        }
        Ok(())
    }

    fn transfer(
        &self,
        transaction: &Transaction<'_>,
        effects: &mut Vec<Effect>,
        random: &mut Random,
    ) -> Result<(), StoreError> {
        let account = self.store.table("account")?;
        let key = account.primary();
        let from = random.below(ACCOUNTS as u64) as i64;
        let to = (from + 1 + random.below(ACCOUNTS as u64 - 1) as i64) % ACCOUNTS;
        let amount = random.below(100) as i64;
        let note = text(random, 500);
        for (id, amount) in [(from.min(to), amount), (from.max(to), -amount)] {
            let found = transaction.fetch_for_update(&key, &[id.into()])?;
            let found = found.expect("accounts stay");
            let balance = found.row.int(1) + amount;
            change(transaction, effects, &account, found.rid, |row| {
                row.set(1, balance)?;
                match note.len() {
                    0..100 => Ok(()),
                    100..150 => row.set(2, corun_store::Value::Null),
                    _ => row.set(2, note.as_str()),
                }
            })?;
        }
        Ok(())
    }

    fn items(
        &self,
        client: i64,
        transaction: &Transaction<'_>,
        effects: &mut Vec<Effect>,
        random: &mut Random,
    ) -> Result<(), StoreError> {
        let table = if random.once_in(4) {
            // One that comes and goes.
            let tables = self.store.tables();
            tables.into_iter().find(|table| table.name().starts_with("side"))
        } else {
            None
        };
        let table = match table {
            Some(table) => table,
            None => self.store.table("item")?,
        };
        let key = table.primary();
        // Now and then somebody else's.
        let owner = if random.once_in(5) {
            random.below(CLIENTS as u64) as i64
        } else {
            client
        };
        let number = random.below(ITEMS as u64) as i64;
        let (label, note) = (format!("{owner}/{}", random.below(40)), text(random, 200));
        let found = transaction.fetch_for_update(&key, &[owner.into(), number.into()])?;
        match found {
            None => {
                let mut row = table.new_row();
                row.set(0, owner)?;
                row.set(1, number)?;
                row.set(2, label.as_str())?;
                row.set(3, number / 3)?;
                row.set(4, note.as_str())?;
                put(transaction, effects, &table, &row)
            }
            Some(found) if random.once_in(3) => {
                let rid = found.rid;
                assert!(transaction.delete(&table, rid)?);
                effects.push(Effect::Delete(table.name().to_owned(), rid.0));
                Ok(())
            }
            Some(found) => change(transaction, effects, &table, found.rid, |row| {
                row.set(2, label.as_str())?;
                row.set(4, note.as_str())?;
                row.set(3, number % 5)
            }),
        }
    }

    /// Checkpoints and definitions while the clients run.
    pub fn chores(&self, chores: u64, seed: u64) -> Notes {
        let mut random = Random::new(seed);
        let mut notes = Notes::default();
        for _ in 0..chores {
            // Not all at the beginning, and not after everything.
            let until = self.last() + random.below(40);
            while self.running.load(Ordering::Acquire) > 0 && self.last() < until {
                corun_exec::teams::blocking(|| std::thread::sleep(Duration::from_micros(100)));
            }
            if let Err(error) = self.chore(&mut random, &mut notes) {
                assert!(is_over(&error));
                break;
            }
        }
        notes
    }

    fn chore(&self, random: &mut Random, notes: &mut Notes) -> Result<(), StoreError> {
        let side = self
            .store
            .tables()
            .into_iter()
            .find(|table| table.name().starts_with("side"));
        match (random.below(8), side) {
            (0, None) => self.make(notes, item(&format!("side{}", random.below(1 << 30)))),
            (0 | 1, Some(table)) => {
                let name = table.name().to_owned();
                self.define(notes, Effect::DropTable(name.clone()), || {
                    self.store.drop_table(&name)
                })
            }
            (2 | 3, _) => {
                let table = self.store.table("account")?;
                let names: Vec<String> = table
                    .indexes()
                    .iter()
                    .map(|index| index.name().to_owned())
                    .collect();
                if let Some(name) = names.iter().find(|name| name.starts_with("extra")) {
                    return self.define(
                        notes,
                        Effect::DropIndex("account".to_owned(), name.clone()),
                        || self.store.drop_index(&table, name),
                    );
                }
                let name = format!("extra{}", random.below(1 << 30));
                let effect = Effect::CreateIndex("account".to_owned(), name.clone());
                match self.define(notes, effect, || {
                    self.store
                        .create_index(&table, &name, random.once_in(2), &["balance", "id"])
                }) {
                    // As many as a table can have until the store is opened again.
                    Err(StoreError::Schema(_)) => {
                        notes.commits.pop();
                        Ok(())
                    }
                    done => done,
                }
            }
            _ => self.store.checkpoint().map(drop),
        }
    }
}

/// A client of the bank is nothing but its number; kept here so that nobody makes more than there are counters.
pub fn clients(random: &mut Random) -> i64 {
    1 + random.below(CLIENTS as u64) as i64
}

/// What all accounts have together, unless none was made yet.
pub fn total() -> i64 {
    ACCOUNTS * BALANCE
}
