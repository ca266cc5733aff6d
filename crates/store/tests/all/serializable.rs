//! Clients run random transactions on few keys; an independent checker ([`history`]) then looks for one order that explains all
//! they saw: serializable, in the order of real time, and of commit timestamps; and snapshots are prefixes of that order.
//!
//! `STORE_ROUNDS=100` makes it so many times as long.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::clients::{Clients, Gate, MEMBERS};
use crate::history::{History, Op, Txn, Value};
use corun_exec::teams;
use corun_store::{
    Direction, Found, Index, Lock, Options, Result, RowRef, Savepoint, Session, Snapshot, Store, StoreError,
    Table, TableDef, Transaction, Type,
};

fn rounds() -> u64 {
    std::env::var("STORE_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(1)
}

const GROUPS: i64 = 3;
const TAGS: i64 = 4;

/// What all threads share.
struct World {
    store: Store,
    table: Table,
    primary: Index,
    by_group: Index,
    by_tag: Index,
    /// What `primary` knows keys by, if not by their numbers: longer than an index keeps, and equal as far as it does.
    names: Vec<String>,
    keys: u32,
    clock: AtomicU64,
    numbers: AtomicU32,
    /// Transactions that went on from a savepoint after a lock was refused.
    recovered: AtomicU32,
    history: Mutex<History>,
}

impl World {
    /// Even keys are there at first. With `long`, rows are reached by texts that share more than an index keeps.
    fn new(keys: u32, workers: usize, long: bool) -> World {
        let store = Store::in_memory(Options {
            workers,
            lock_timeout: Duration::from_secs(20),
            detect_after: Duration::from_micros(200),
            ..Options::default()
        })
        .unwrap();
        let definition = TableDef::new("lists")
            .column("id", Type::I64)
            .column("group", Type::I64)
            .column("tag", Type::I64)
            .column("epoch", Type::I64)
            .column("items", Type::Bytes { max: 100_000 })
            .column("name", Type::Text { max: 200 })
            .primary_key(&["id"])
            .index("by_group", &["group", "id"])
            .index("by_tag", &["tag"]);
        let definition = match long {
            true => definition.unique("by_name", &["name"]),
            false => definition,
        };
        let name = |key| format!("{}{key:03}", "n".repeat(corun_store::KEY_BYTES_MAX));
        let table = store.create_table(definition).unwrap();
        let index = |name: &str| table.index(name).unwrap();
        let world = World {
            primary: index(if long { "by_name" } else { "primary" }),
            names: (0..if long { keys } else { 0 }).map(name).collect(),
            by_group: index("by_group"),
            by_tag: index("by_tag"),
            keys,
            clock: AtomicU64::new(1),
            numbers: AtomicU32::new(1),
            recovered: AtomicU32::new(0),
            history: Mutex::default(),
            table,
            store,
        };
        let mut session = world.store.session_here().unwrap();
        let setup = session.begin().unwrap();
        for key in (0..keys).step_by(2) {
            setup.insert(&world.table, &world.row(key, 0, &[])).unwrap();
            world.history.lock().unwrap().present.insert(key);
        }
        setup.commit().unwrap();
        world
    }

    fn row(&self, key: u32, epoch: i64, items: &[u32]) -> corun_store::RowBuf {
        let mut row = self.table.new_row();
        row.set(0, key).unwrap();
        row.set(1, i64::from(key) % GROUPS).unwrap();
        row.set(3, epoch).unwrap();
        let name = match self.key(key) {
            corun_store::Value::Text(name) => name,
            _ => "",
        };
        row.set(5, name).unwrap();
        set_items(&mut row, items).unwrap();
        row
    }

    /// A key as `primary` knows it.
    fn key(&self, key: u32) -> corun_store::Value<'_> {
        self.names
            .get(key as usize)
            .map_or(key.into(), |name| corun_store::Value::Text(name))
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&self, txn: Txn) {
        self.history.lock().unwrap().txns.push(txn);
    }

    /// Reads every key; through an index or the other, one way or the other.
    fn look(&self, snapshot: &Snapshot, random: &mut Random) -> Vec<Op> {
        let index = if random.below(2) == 0 {
            &self.primary
        } else {
            &self.by_group
        };
        let direction = random.direction();
        let rows = snapshot.scan(index, &index.all(), direction).unwrap();
        let found: BTreeMap<u32, Value> = rows
            .map(|found| (found.row.int(0) as u32, value(found.row)))
            .collect();
        let read = |key| Op::Read(key, found.get(&key).cloned().unwrap_or(Value::Absent));
        (0..self.keys).map(read).collect()
    }

    fn last(&self) -> BTreeMap<u32, Value> {
        let snapshot = self.store.snapshot().unwrap();
        let rows = snapshot
            .scan(&self.primary, &self.primary.all(), Direction::Ascending)
            .unwrap();
        rows.map(|found| (found.row.int(0) as u32, value(found.row)))
            .collect()
    }
}

fn set_items(row: &mut corun_store::RowBuf, items: &[u32]) -> std::result::Result<(), corun_store::RowError> {
    let bytes: Vec<u8> = items.iter().flat_map(|item| item.to_le_bytes()).collect();
    row.set(2, items.last().map_or(0, |last| i64::from(*last) % TAGS))?;
    row.set(4, &bytes[..])
}

fn value(row: RowRef<'_>) -> Value {
    let items = row
        .bytes(4)
        .chunks_exact(4)
        .map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
    Value::List {
        epoch: row.int(3) as u8,
        items: items.collect(),
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 20) % u64::from(below)) as u32
    }

    fn direction(&mut self) -> Direction {
        if self.below(2) == 0 {
            Direction::Ascending
        } else {
            Direction::Descending
        }
    }

    fn lock(&mut self) -> Lock {
        if self.below(4) == 0 {
            Lock::Exclusive
        } else {
            Lock::Shared
        }
    }
}

/// One transaction: what it knows of keys, and what it has written.
struct Run<'w, 't> {
    world: &'w World,
    transaction: Transaction<'t>,
    txn: Txn,
    /// What each key is to it now.
    known: BTreeMap<u32, Value>,
    written: BTreeSet<u32>,
    savepoints: Vec<Mark>,
}

/// What a transaction was when it made a savepoint.
struct Mark {
    savepoint: Savepoint,
    ops: usize,
    known: BTreeMap<u32, Value>,
    written: BTreeSet<u32>,
}

impl Run<'_, '_> {
    fn saw(&mut self, key: u32, now: Value) {
        match self.known.get(&key) {
            // Reads repeat, and one's own writes are seen.
            Some(before) => assert_eq!(*before, now, "key {key}"),
            None => {
                self.txn.ops.push(Op::Read(key, now.clone()));
                self.known.insert(key, now);
            }
        }
    }

    fn fetch(&mut self, key: u32, lock: Lock) -> Result<Option<corun_store::Rid>> {
        let found = match lock {
            Lock::Shared => self
                .transaction
                .fetch(&self.world.primary, &[self.world.key(key)])?,
            Lock::Exclusive => self
                .transaction
                .fetch_for_update(&self.world.primary, &[self.world.key(key)])?,
        };
        let rid = found.map(|found| found.rid);
        let now = found.map_or(Value::Absent, |found| value(found.row));
        self.saw(key, now);
        Ok(rid)
    }

    fn append(&mut self, key: u32, lock: Lock) -> Result<()> {
        let found = self.fetch(key, lock)?;
        let number = self.world.numbers.fetch_add(1, Ordering::Relaxed);
        let mut now = self.known[&key].clone();
        // Before it happens: if it fails, it must never be seen.
        self.txn.ops.push(Op::Append(key, number));
        match (&mut now, found) {
            (Value::List { items, .. }, Some(rid)) => {
                items.push(number);
                self.transaction
                    .update(&self.world.table, rid, |row| set_items(row, items))?;
            }
            _ => {
                self.transaction
                    .insert(&self.world.table, &self.world.row(key, 1, &[number]))?;
                now = Value::List {
                    epoch: 1,
                    items: vec![number],
                };
            }
        }
        self.known.insert(key, now);
        self.written.insert(key);
        Ok(())
    }

    fn delete(&mut self, key: u32, lock: Lock) -> Result<()> {
        let rid = self.fetch(key, lock)?;
        if self.written.contains(&key) {
            // Nobody could tell what the list was at last.
            return Ok(());
        }
        if let (Value::List { epoch: 0, .. }, Some(rid)) = (&self.known[&key], rid) {
            self.txn.ops.push(Op::Delete(key));
            assert!(self.transaction.delete(&self.world.table, rid)?);
            self.known.insert(key, Value::Absent);
            self.written.insert(key);
        }
        Ok(())
    }

    /// What a range of one index gave for the keys that `covers` says it covers.
    fn scanned(&mut self, found: &BTreeMap<u32, Value>, covers: impl Fn(u32) -> bool) {
        for key in (0..self.world.keys).filter(|key| covers(*key)) {
            self.saw(key, found.get(&key).cloned().unwrap_or(Value::Absent));
        }
    }

    fn scan(
        &mut self,
        index: &Index,
        range: &corun_store::KeyRange,
        random: &mut Random,
    ) -> Result<BTreeMap<u32, Value>> {
        let (direction, lock) = (random.direction(), random.lock());
        let mut scan = self.transaction.scan(index, range, direction, lock)?;
        let mut rows = BTreeMap::new();
        let mut order = Vec::new();
        while let Some(Found { row, .. }) = scan.next()? {
            order.push((row.int(if index.name() == "by_tag" { 2 } else { 0 })) * sign(direction));
            assert!(
                rows.insert(row.int(0) as u32, value(row)).is_none(),
                "a row twice"
            );
        }
        assert!(order.is_sorted());
        Ok(rows)
    }

    /// Takes back what was done after the first operations. Returns it.
    fn undo(&mut self, ops: usize) -> Vec<Op> {
        let since = self.txn.ops.split_off(ops);
        self.txn.undone.extend(since.iter().filter_map(|op| match op {
            Op::Append(_, number) => Some(*number),
            _ => None,
        }));
        since
    }

    /// Goes on from the last savepoint after a lock was refused. What was read since then is nothing any more. False: there is none.
    fn recover(&mut self) -> bool {
        let Some(mark) = self.savepoints.pop() else {
            return false;
        };
        self.transaction.rollback_to(&mark.savepoint).unwrap();
        self.undo(mark.ops);
        self.known = mark.known;
        self.written = mark.written;
        self.world.recovered.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn step(&mut self, random: &mut Random) -> Result<()> {
        let world = self.world;
        let key = random.below(world.keys);
        let (low, high) = (key.min(random.below(world.keys)), key);
        match random.below(20) {
            0..=2 => drop(self.fetch(key, random.lock())?),
            3..=8 => self.append(key, random.lock())?,
            9 | 10 => self.delete(key, random.lock())?,
            11..=13 => {
                let range = world.primary.between(
                    &[],
                    Bound::Included(world.key(low)),
                    Bound::Included(world.key(high)),
                )?;
                let found = self.scan(&world.primary, &range, random)?;
                self.scanned(&found, |key| (low..=high).contains(&key));
            }
            14 => {
                let group = random.below(GROUPS as u32);
                let found = self.scan(&world.by_group, &world.by_group.prefix(&[group.into()])?, random)?;
                self.scanned(&found, |key| key % GROUPS as u32 == group);
            }
            15 => {
                let tag = random.below(TAGS as u32);
                let found = self.scan(&world.by_tag, &world.by_tag.prefix(&[tag.into()])?, random)?;
                self.scanned(&found, |key| found.contains_key(&key));
                // All others have another tag, as far as they are known.
                for (key, now) in &self.known {
                    if let Value::List { items, .. } = now {
                        let theirs = items.last().map_or(0, |last| last % TAGS as u32);
                        assert_eq!(theirs == tag, found.contains_key(key), "key {key}");
                    }
                }
            }
            16 | 17 => {
                let range = world.primary.between(
                    &[],
                    Bound::Included(world.key(low)),
                    Bound::Included(world.key(high)),
                )?;
                let (direction, lock) = (random.direction(), random.lock());
                let first = self.transaction.first(&world.primary, &range, direction, lock)?;
                let first = first.map(|found| (found.row.int(0) as u32, value(found.row)));
                let stop = first.as_ref().map(|first| first.0);
                let passed = |key: u32| match (stop, direction) {
                    (None, _) => true,
                    (Some(stop), Direction::Ascending) => key <= stop,
                    (Some(stop), Direction::Descending) => key >= stop,
                };
                self.scanned(&first.into_iter().collect(), |key| {
                    (low..=high).contains(&key) && passed(key)
                });
            }
            18 => match random.below(2) {
                0 => self.savepoints.push(Mark {
                    savepoint: self.transaction.savepoint(),
                    ops: self.txn.ops.len(),
                    known: self.known.clone(),
                    written: self.written.clone(),
                }),
                _ => {
                    let Some(mark) = self.savepoints.pop() else {
                        return Ok(());
                    };
                    self.transaction.rollback_to(&mark.savepoint)?;
                    // Writes are undone; what was read stays read.
                    for op in self.undo(mark.ops) {
                        if let Op::Read(key, value) = op {
                            self.known.insert(key, value.clone());
                            self.txn.ops.push(Op::Read(key, value));
                        }
                    }
                    self.known.extend(mark.known);
                    self.written = mark.written;
                }
            },
            _ if random.below(8) == 0 => {
                self.transaction.lock_table(&world.table, random.lock())?;
                let found = self.scan(&world.primary, &world.primary.all(), random)?;
                self.scanned(&found, |_| true);
            }
            _ => teams::yield_now(),
        }
        Ok(())
    }
}

fn sign(direction: Direction) -> i64 {
    if direction == Direction::Ascending { 1 } else { -1 }
}

/// A transaction of up to `steps` steps.
fn transact(world: &World, session: &mut Session, random: &mut Random, steps: u32) {
    let from = world.now();
    let transaction = session.begin().unwrap();
    let mut run = Run {
        world,
        transaction,
        txn: Txn {
            from,
            ..Txn::default()
        },
        known: BTreeMap::new(),
        written: BTreeSet::new(),
        savepoints: Vec::new(),
    };
    let steps = 1 + random.below(steps);
    let mut outcome: Result<()> = Ok(());
    for _ in 0..steps {
        outcome = run.step(random);
        if matches!(&outcome, Err(error) if error.is_retryable()) && run.recover() {
            outcome = Ok(());
        }
        if outcome.is_err() {
            break;
        }
        if random.below(3) == 0 {
            teams::yield_now();
        }
    }
    let (mut txn, wrote, transaction) = (run.txn, !run.written.is_empty(), run.transaction);
    match outcome {
        Ok(()) if random.below(10) > 0 => {
            let ts = transaction.commit().unwrap();
            txn.committed = true;
            // Where everything was undone there is nothing to commit.
            txn.ts = wrote.then_some(ts.0);
        }
        Ok(()) => transaction.abort(),
        Err(error) => {
            assert!(
                matches!(error, StoreError::Lock(_)) && error.is_retryable(),
                "{error}"
            );
            drop(transaction);
        }
    }
    txn.to = world.now();
    world.note(txn);
}

fn check(world: &World, what: &str) {
    let mut random = Random(77);
    let from = world.now();
    let ops = world.look(&world.store.snapshot().unwrap(), &mut random);
    world.note(Txn {
        ops,
        committed: true,
        from,
        to: world.now(),
        ..Txn::default()
    });
    let history = world.history.lock().unwrap();
    let found = history.anomalies();
    assert!(
        found.is_empty(),
        "{what}: {found:?} in {} transactions: {history:?}",
        history.txns.len()
    );
}

#[test]
fn random_transactions_have_one_order() {
    random_transactions(Clients::Threads, 24 * rounds(), false);
}

#[test]
fn random_transactions_on_long_keys_have_one_order() {
    random_transactions(Clients::Threads, 12 * rounds(), true);
}

#[test]
fn random_transactions_on_teams_have_one_order() {
    random_transactions(MEMBERS, 16 * rounds(), false);
    random_transactions(Clients::Members { threads: 1, team: 3 }, 8 * rounds(), false);
    random_transactions(MEMBERS, 4 * rounds(), true);
}

fn random_transactions(clients: Clients, rounds: u64, long: bool) {
    let mut recovered = 0;
    for round in 0..rounds {
        let threads = 2 + (round % 7) as usize;
        let world = World::new([2, 4, 8, 30][(round % 4) as usize], threads, long);
        let gate = Gate::new(threads);
        let world_of_clients = &world;
        clients.run(
            threads,
            |thread| {
                let world = world_of_clients;
                let mut random =
                    Random((round + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ ((thread as u64 + 1) << 7));
                let mut session = world.store.session(thread, corun_store::park::current()).unwrap();
                gate.wait();
                for _ in 0..80 {
                    if random.below(6) > 0 {
                        transact(world, &mut session, &mut random, 6);
                        continue;
                    }
                    let from = world.now();
                    let snapshot = world.store.snapshot().unwrap();
                    let to = world.now();
                    // Others go on; it stays.
                    if random.below(2) == 0 {
                        transact(world, &mut session, &mut random, 6);
                    }
                    let ops = world.look(&snapshot, &mut random);
                    let ts = Some(snapshot.ts().0);
                    world.note(Txn {
                        ops,
                        committed: true,
                        snapshot: ts,
                        from,
                        to,
                        ..Txn::default()
                    });
                }
            },
            || (),
        );
        check(&world, &format!("round {round}, {threads} threads"));
        let committed = world
            .history
            .lock()
            .unwrap()
            .txns
            .iter()
            .filter(|txn| txn.ts.is_some())
            .count();
        // Transactions that add or miss long keys meet all that have them.
        assert!(
            committed > threads * if long { 2 } else { 5 },
            "round {round}: {committed} of {threads} threads"
        );
        recovered += world.recovered.load(Ordering::Relaxed);
    }
    assert!(recovered > 0, "nobody went on from a savepoint");
}

#[test]
fn three_small_transactions_are_as_if_one_after_the_other() {
    three_small_transactions(Clients::Threads, 300 * rounds());
}

#[test]
fn three_small_transactions_on_teams_are_as_if_one_after_the_other() {
    three_small_transactions(MEMBERS, 200 * rounds());
    three_small_transactions(Clients::Members { threads: 1, team: 3 }, 150 * rounds());
}

fn three_small_transactions(clients: Clients, rounds: u64) {
    let mut committed = [0; 4];
    for round in 0..rounds {
        let world = World::new(2, 3, false);
        let gate = Gate::new(3);
        clients.run(
            3,
            |thread| {
                let mut random =
                    Random((round + 1).wrapping_mul(0xD134_2543_DE82_EF95) ^ ((thread as u64 + 1) << 9));
                let mut session = world.store.session(thread, corun_store::park::current()).unwrap();
                gate.wait();
                transact(&world, &mut session, &mut random, 3);
            },
            || (),
        );
        let last = world.last();
        let history = world.history.lock().unwrap();
        assert!(
            history.has_serial_order(&last),
            "round {round}: {history:?} ends with {last:?}"
        );
        committed[history.txns.iter().filter(|txn| txn.committed).count()] += 1;
    }
    assert!(committed[3] as u64 > rounds / 3, "{committed:?}");
}
