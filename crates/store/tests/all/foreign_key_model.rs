//! Foreign keys against a simple model: random tables that refer to each other, random changes, savepoints and aborts. And many clients at once,
//! after whom, and in whose every snapshot, no row refers to a row that is not there.
//!
//! `STORE_ROUNDS=50` makes it so many times as long.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use corun_store::storage::{Storage, Twin};
use corun_store::{
    Durability, ForeignKeyDef, Options, ReferentialAction, Result, Rid, RowBuf, Snapshot, Store, StoreError,
    Table, TableDef, Transaction, Type, verify_on,
};

use crate::clients::{Clients, MEMBERS};
use crate::crash_twin::random::Random;

const TABLES: usize = 3;
/// `id` and `key` can be referred to; all but `id` refer.
const COLUMNS: [&str; 4] = ["id", "key", "r0", "r1"];
/// Values of columns: few, so that they meet.
const VALUES: u64 = 8;

fn rounds(of: u64) -> u64 {
    let rounds = std::env::var("STORE_ROUNDS").ok();
    of * rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

/// A foreign key between columns of two tables.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Key {
    child: usize,
    column: usize,
    parent: usize,
    referenced: usize,
    on_delete: ReferentialAction,
    on_update: ReferentialAction,
}

impl Key {
    fn random(random: &mut Random) -> Key {
        let action = |random: &mut Random| match random.below(5) {
            0 => ReferentialAction::NoAction,
            1 => ReferentialAction::Restrict,
            2 => ReferentialAction::SetNull,
            _ => ReferentialAction::Cascade,
        };
        Key {
            child: random.below(TABLES as u64) as usize,
            column: 1 + random.below(3) as usize,
            parent: random.below(TABLES as u64) as usize,
            referenced: random.below(2) as usize,
            on_delete: action(random),
            on_update: action(random),
        }
    }

    fn definition(&self, at: usize) -> ForeignKeyDef {
        let (table, column) = (format!("t{}", self.parent), COLUMNS[self.referenced]);
        ForeignKeyDef::new(&format!("f{at}"), &[COLUMNS[self.column]], &table, &[column])
            .on_delete(self.on_delete)
            .on_update(self.on_update)
    }
}

fn definition(at: usize, indexed: bool) -> TableDef {
    let table = TableDef::new(&format!("t{at}"))
        .column("id", Type::I64)
        .nullable("key", Type::I64)
        .nullable("r0", Type::I64)
        .nullable("r1", Type::I64)
        .primary_key(&["id"])
        .unique("by_key", &["key"]);
    match indexed {
        true => table.index("by_r0", &["r0", "id"]).index("by_r1", &["r1"]),
        false => table,
    }
}

type Row = [Option<i64>; 4];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    ForeignKey,
    Duplicate,
}

fn refused(error: &StoreError) -> Refused {
    match error {
        StoreError::ForeignKey(_) => Refused::ForeignKey,
        StoreError::Duplicate { .. } => Refused::Duplicate,
        other => panic!("{other}"),
    }
}

/// The rows of all tables by number.
#[derive(Clone, Default, PartialEq, Debug)]
struct Model {
    tables: [BTreeMap<u32, Row>; TABLES],
}

impl Model {
    /// Sets or takes away a row, as long as its keys are unique.
    fn set(&mut self, table: usize, rid: u32, row: Option<Row>) -> Result<(), Refused> {
        let rows = &mut self.tables[table];
        if let Some(row) = row {
            let mut others = rows.iter().filter(|(other, _)| **other != rid);
            let is_same = |other: &Row| other[0] == row[0] || row[1].is_some() && other[1] == row[1];
            if others.any(|(_, other)| is_same(other)) {
                return Err(Refused::Duplicate);
            }
            rows.insert(rid, row);
        } else {
            rows.remove(&rid);
        }
        Ok(())
    }

    fn has(&self, table: usize, column: usize, value: i64) -> bool {
        self.tables[table].values().any(|row| row[column] == Some(value))
    }

    /// The first row that refers to none.
    fn orphan(&self, keys: &[Key]) -> Option<(Key, Row)> {
        keys.iter().find_map(|key| {
            let rows = self.tables[key.child].values();
            let mut orphans = rows.filter(|row| {
                row[key.column].is_some_and(|value| !self.has(key.parent, key.referenced, value))
            });
            orphans.next().map(|row| (*key, *row))
        })
    }

    /// Changes a row with all that comes of it, or nothing at all. `checks`: at the end no row refers to none.
    fn change(
        &mut self,
        keys: &[Key],
        table: usize,
        rid: u32,
        after: Option<Row>,
        checks: bool,
    ) -> Result<(), Refused> {
        let mut next = self.clone();
        let before = self.tables[table].get(&rid).copied();
        next.set(table, rid, after)?;
        let mut changed = VecDeque::from([(table, before, after)]);
        while let Some((table, before, after)) = changed.pop_front() {
            for key in keys.iter().filter(|key| key.parent == table) {
                let Some(value) = before.and_then(|row| row[key.referenced]) else {
                    continue;
                };
                let new = after.and_then(|row| row[key.referenced]);
                if new == Some(value) {
                    continue;
                }
                let action = match after {
                    None => key.on_delete,
                    Some(_) => key.on_update,
                };
                let rows = next.tables[key.child].iter();
                let children: Vec<u32> = rows
                    .filter(|(_, row)| row[key.column] == Some(value))
                    .map(|(rid, _)| *rid)
                    .collect();
                match action {
                    ReferentialAction::NoAction => {}
                    ReferentialAction::Restrict if children.is_empty() => {}
                    ReferentialAction::Restrict => return Err(Refused::ForeignKey),
                    ReferentialAction::Cascade | ReferentialAction::SetNull => {
                        for rid in children {
                            let child = next.tables[key.child][&rid];
                            let mut to = child;
                            to[key.column] = new.filter(|_| action == ReferentialAction::Cascade);
                            let goes = action == ReferentialAction::Cascade && after.is_none();
                            let to = Some(to).filter(|_| !goes);
                            next.set(key.child, rid, to)?;
                            changed.push_back((key.child, Some(child), to));
                        }
                    }
                }
            }
        }
        if checks && next.orphan(keys).is_some() {
            return Err(Refused::ForeignKey);
        }
        *self = next;
        Ok(())
    }

    fn of(snapshot: &Snapshot, tables: &[Table]) -> Model {
        let mut model = Model::default();
        for (table, rows) in tables.iter().zip(&mut model.tables) {
            let found = snapshot.rows(table, 0..table.rid_end()).unwrap();
            rows.extend(found.map(|found| {
                let row = [0, 1, 2, 3].map(|column| found.row.get(column).unwrap());
                (found.rid.0, row)
            }));
        }
        model
    }
}

fn fill(buffer: &mut RowBuf, row: Row) -> Result<(), corun_store::RowError> {
    (0..4).try_for_each(|column| buffer.set(column, row[column]))
}

fn random_row(random: &mut Random) -> Row {
    let mut value = |nulls: u64| match random.below(nulls + VALUES) {
        value if value < VALUES => Some(value as i64),
        _ => None,
    };
    [value(0), value(4), value(6), value(6)]
}

/// One change, of the store and of the model if there is one.
fn step(
    transaction: &Transaction<'_>,
    tables: &[Table],
    random: &mut Random,
    mut model: Option<(&mut Model, &[Key], bool)>,
    rids: &BTreeSet<(usize, u32)>,
) -> Result<()> {
    let at = random.below(TABLES as u64) as usize;
    let table = &tables[at];
    let there: Vec<u32> = match &model {
        Some((model, ..)) => model.tables[at].keys().copied().collect(),
        None => rids
            .iter()
            .filter(|(of, _)| *of == at)
            .map(|(_, rid)| *rid)
            .collect(),
    };
    let row = random_row(random);
    let mut buffer = table.new_row();
    fill(&mut buffer, row)?;
    let kind = random.below(10);
    let rid = there
        .get(random.below(there.len().max(1) as u64) as usize)
        .copied();
    let (done, rid, after) = match (kind, rid) {
        (0..5, _) | (_, None) => {
            let done = transaction.insert(table, &buffer);
            let rid = done.as_ref().map_or(u32::MAX, |rid| rid.0);
            (done.map(drop), rid, Some(row))
        }
        (5..8, Some(rid)) => {
            let done = transaction.update(table, Rid(rid), |buffer| fill(buffer, row));
            (done, rid, Some(row))
        }
        (_, Some(rid)) => (transaction.delete(table, Rid(rid)).map(drop), rid, None),
    };
    if let Some((model, keys, checks)) = &mut model {
        let expected = model.change(keys, at, rid, after, *checks);
        let found = done.as_ref().copied().map_err(refused);
        assert_eq!(found, expected, "t{at}, row {rid}: {after:?}");
    }
    done
}

fn make(store: &Store, random: &mut Random, indexed: bool) -> (Vec<Table>, Vec<Key>) {
    let tables: Vec<Table> = (0..TABLES)
        .map(|at| store.create_table(definition(at, indexed)).unwrap())
        .collect();
    let count = 1 + random.below(5) as usize;
    let keys: Vec<Key> = (0..count).map(|_| Key::random(random)).collect();
    for (at, key) in keys.iter().enumerate() {
        let child = &tables[key.child];
        store.add_foreign_key(child, key.definition(at)).unwrap();
    }
    (tables, keys)
}

#[test]
fn the_store_does_as_the_model() {
    let (mut done, mut refusals) = (0, 0);
    for seed in 0..rounds(400) {
        let mut random = Random::new(seed);
        let store = Store::in_memory(Options::default()).unwrap();
        let (tables, keys) = make(&store, &mut random, seed % 2 == 0);
        let mut session = store.session_here().unwrap();
        let mut model = Model::default();
        for _ in 0..40 {
            let before = model.clone();
            let mut transaction = session.begin().unwrap();
            let deferred = random.once_in(4);
            if deferred {
                transaction.defer_foreign_keys().unwrap();
            }
            let mut savepoint = (transaction.savepoint(), model.clone());
            for _ in 0..1 + random.below(8) {
                let known = Some((&mut model, &keys[..], !deferred));
                match step(&transaction, &tables, &mut random, known, &BTreeSet::new()) {
                    Ok(()) => done += 1,
                    Err(_) => refusals += 1,
                }
                match random.below(12) {
                    0 => savepoint = (transaction.savepoint(), model.clone()),
                    1 => {
                        transaction.rollback_to(&savepoint.0).unwrap();
                        model = savepoint.1.clone();
                    }
                    _ => {}
                }
            }
            let orphan = model.orphan(&keys);
            if deferred && random.once_in(2) {
                let checked = transaction.check_foreign_keys();
                assert_eq!(
                    checked.is_err(),
                    orphan.is_some(),
                    "seed {seed}: {orphan:?}, {checked:?}"
                );
            }
            if random.once_in(5) {
                transaction.abort();
                model = before;
            } else {
                let committed = transaction.commit();
                assert_eq!(
                    committed.is_err(),
                    orphan.is_some(),
                    "seed {seed}: {orphan:?}, {committed:?}"
                );
                if committed.is_err() {
                    model = before;
                }
            }
            let found = Model::of(&store.snapshot().unwrap(), &tables);
            assert_eq!(found, model, "seed {seed}, {keys:?}");
        }
    }
    assert!(done > 1000 && refusals > 1000, "{done} {refusals}");
}

/// What many clients do at once.
struct Crowd<'a> {
    store: &'a Store,
    tables: &'a [Table],
    stop: &'a AtomicBool,
    commits: AtomicU64,
    refusals: AtomicU64,
    gave_way: AtomicU64,
}

impl Crowd<'_> {
    fn client(&self, seed: u64, transactions: u64) {
        let mut random = Random::new(seed);
        let mut session = self.store.session_here().unwrap();
        session.set_durability(Durability::Asynchronous);
        for _ in 0..transactions {
            let rids: BTreeSet<(usize, u32)> = (0..TABLES)
                .flat_map(|at| (0..self.tables[at].rid_end().min(40)).map(move |rid| (at, rid)))
                .collect();
            let mut transaction = session.begin().unwrap();
            let deferred = random.once_in(5);
            if deferred {
                transaction.defer_foreign_keys().unwrap();
            }
            let savepoint = transaction.savepoint();
            let mut gave_way = false;
            for _ in 0..1 + random.below(5) {
                // So that transactions overlap, and others are in the middle of theirs.
                corun_exec::teams::yield_now();
                match step(&transaction, self.tables, &mut random, None, &rids) {
                    Ok(()) | Err(StoreError::NoRow { .. }) => {}
                    Err(error) if error.is_retryable() => {
                        self.gave_way.fetch_add(1, Ordering::Relaxed);
                        gave_way = true;
                        if random.once_in(2) {
                            break;
                        }
                        transaction.rollback_to(&savepoint).unwrap();
                        gave_way = false;
                    }
                    Err(error) => {
                        refused(&error);
                        self.refusals.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            corun_exec::teams::yield_now();
            if gave_way || random.once_in(6) {
                transaction.abort();
                continue;
            }
            match transaction.commit() {
                Ok(_) => drop(self.commits.fetch_add(1, Ordering::Relaxed)),
                Err(error) if error.is_retryable() => {}
                Err(error) => assert_eq!(refused(&error), Refused::ForeignKey),
            }
        }
    }

    /// Looks at one moment after the other.
    fn reader(&self, keys: &[Key]) -> Vec<Key> {
        while !self.stop.load(Ordering::Relaxed) {
            let model = Model::of(&self.store.snapshot().unwrap(), self.tables);
            assert_eq!(model.orphan(keys), None, "{keys:?}");
        }
        keys.to_vec()
    }

    /// Takes foreign keys away and puts them back, which waits for writers. Returns which there are in the end.
    fn definer(&self, keys: &[Key], seed: u64) -> Vec<Key> {
        let mut random = Random::new(seed);
        let mut there = vec![true; keys.len()];
        while !self.stop.load(Ordering::Relaxed) {
            let at = random.below(keys.len() as u64) as usize;
            let (key, table) = (&keys[at], &self.tables[keys[at].child]);
            let done = match there[at] {
                true => self.store.drop_constraint(table, &format!("f{at}")),
                false => self.store.add_foreign_key(table, key.definition(at)),
            };
            match done {
                Ok(()) => there[at] = !there[at],
                // Rows that refer to none came in between, and are there still.
                Err(StoreError::ForeignKey(_)) if !there[at] => {}
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        let keys = keys.iter().zip(there);
        keys.filter_map(|(key, there)| there.then_some(*key)).collect()
    }
}

fn crowd(clients: Clients, seed: u64, with_definitions: bool) -> (u64, u64, u64) {
    let mut random = Random::new(seed);
    let disk = Twin::new(seed);
    let options = Options {
        workers: 4,
        detect_after: Duration::from_micros(300),
        lock_timeout: Duration::from_secs(60),
        ..Options::default()
    };
    let store = Store::open_on(Arc::new(disk.clone()), options).unwrap();
    let (tables, keys) = make(&store, &mut random, seed.is_multiple_of(2));
    let stop = AtomicBool::new(false);
    let crowd = Crowd {
        store: &store,
        tables: &tables,
        stop: &stop,
        commits: AtomicU64::new(0),
        refusals: AtomicU64::new(0),
        gave_way: AtomicU64::new(0),
    };
    let keys = std::thread::scope(|scope| {
        let (crowd, keys) = (&crowd, &keys[..]);
        let other = scope.spawn(move || match with_definitions {
            true => crowd.definer(keys, seed),
            false => crowd.reader(keys),
        });
        /// The other ends with the clients, by a panic too.
        struct Ends<'a>(&'a AtomicBool);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let ends = Ends(crowd.stop);
        clients.run(6, |client| crowd.client(seed * 100 + client as u64, 100), || ());
        drop(ends);
        other.join().unwrap()
    });
    let model = Model::of(&store.snapshot().unwrap(), &tables);
    assert_eq!(model.orphan(&keys), None, "seed {seed}: {keys:?}");
    let counts = (
        crowd.commits.into_inner(),
        crowd.refusals.into_inner(),
        crowd.gave_way.into_inner(),
    );
    if seed.is_multiple_of(3) {
        store.checkpoint().unwrap();
    }
    drop(tables);
    store.close().unwrap();
    // Its unique indexes and its foreign keys, from the files.
    let storage: Arc<dyn Storage> = Arc::new(disk);
    verify_on(&storage).unwrap();
    counts
}

fn crowds(clients: Clients) {
    let (mut commits, mut refusals, mut gave_way) = (0, 0, 0);
    for seed in 0..rounds(16) {
        let counts = crowd(clients, seed, false);
        commits += counts.0;
        refusals += counts.1;
        gave_way += counts.2;
    }
    assert!(
        commits > 500 && refusals > 100 && gave_way > 0,
        "{commits} {refusals} {gave_way}"
    );
}

#[test]
fn many_clients_leave_no_row_without_the_row_it_refers_to() {
    crowds(Clients::Threads);
}

#[test]
fn nor_do_user_level_threads() {
    crowds(MEMBERS);
}

#[test]
fn foreign_keys_that_come_and_go_among_clients_hold_when_they_are_there() {
    for seed in 0..rounds(10) {
        crowd(Clients::Threads, seed + 1000, true);
        crowd(MEMBERS, seed + 2000, true);
    }
}
