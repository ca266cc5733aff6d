//! One session does anything, in any order, beside a naive store of maps: after each commit every index says the same in both
//! directions, snapshots stay as they were, and a store that is opened again holds the same rows under the same numbers.
//!
//! `PROPTEST_CASES=20000` makes it a long run.

use crate::clients;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use corun_store::storage::Twin;
use corun_store::{
    Direction, Durability, Found, Index, Lock, Options, Rid, RowBuf, RowError, RowRef, Savepoint, Snapshot,
    Store, StoreError, Table, TableDef, Type, Value,
};
use proptest::prelude::*;
use proptest::sample::Index as Pick;

#[derive(Clone, Debug)]
struct Row {
    id: i64,
    a: i64,
    b: Option<&'static str>,
    c: Option<i32>,
    d: u8,
    f: f64,
}

/// A field of a key, ordered as the store orders it.
#[derive(Clone, Debug)]
enum Part {
    Null,
    Int(i64),
    Text(&'static str),
    Float(f64),
}

impl Part {
    fn order(&self, other: &Part) -> Ordering {
        match (self, other) {
            (Part::Null, Part::Null) => Ordering::Equal,
            (Part::Null, _) => Ordering::Less,
            (_, Part::Null) => Ordering::Greater,
            (Part::Int(a), Part::Int(b)) => a.cmp(b),
            (Part::Text(a), Part::Text(b)) => a.cmp(b),
            (Part::Float(a), Part::Float(b)) => a.total_cmp(b),
            _ => unreachable!("columns have one type"),
        }
    }
}

/// The indexes: name, columns. Their keys take 1, 2, 2, 4, 8 and 1 words.
const INDEXES: [(&str, &[usize]); 6] = [
    ("primary", &[0]),
    ("by_a_c", &[1, 3]),
    ("by_text", &[2]),
    ("by_wide", &[4, 3]),
    ("by_widest", &[4, 2, 1, 0]),
    ("by_float", &[5]),
];
const COLUMNS: [&str; 6] = ["id", "a", "b", "c", "d", "f"];

impl Row {
    fn part(&self, column: usize) -> Part {
        match column {
            0 => Part::Int(self.id),
            1 => Part::Int(self.a),
            2 => self.b.map_or(Part::Null, Part::Text),
            3 => self.c.map_or(Part::Null, |c| Part::Int(c.into())),
            4 => Part::Int(self.d.into()),
            _ => Part::Float(self.f),
        }
    }

    fn order(&self, other: &Row, columns: &[usize]) -> Ordering {
        let parts = columns
            .iter()
            .map(|&column| self.part(column).order(&other.part(column)));
        parts.fold(Ordering::Equal, Ordering::then)
    }

    fn fill(&self, row: &mut RowBuf) -> Result<(), RowError> {
        row.set(0, self.id)?;
        row.set(1, self.a)?;
        row.set(2, self.b)?;
        row.set(3, self.c)?;
        row.set(4, &[self.d; 20][..])?;
        row.set(5, self.f)
    }

    fn value(&self, column: usize, bytes: &mut [u8; 20]) -> Value<'_> {
        *bytes = [self.d; 20];
        match column {
            0 => self.id.into(),
            1 => self.a.into(),
            2 => self.b.into(),
            3 => self.c.into(),
            _ => self.f.into(),
        }
    }

    fn is(&self, row: RowRef<'_>) -> bool {
        row.int(0) == self.id
            && row.int(1) == self.a
            && row.value(2) == self.b.into()
            && row.value(3) == self.c.into()
            && row.bytes(4) == [self.d; 20]
            && row.float(5).to_bits() == self.f.to_bits()
    }
}

type Model = BTreeMap<u32, Row>;

/// What an index should say: the rows in the order of their keys, then of their numbers.
fn listing<'m>(model: &'m Model, columns: &[usize]) -> Vec<(u32, &'m Row)> {
    let mut rows: Vec<(u32, &Row)> = model.iter().map(|(rid, row)| (*rid, row)).collect();
    rows.sort_by(|a, b| a.1.order(b.1, columns).then(a.0.cmp(&b.0)));
    rows
}

fn definition() -> TableDef {
    let mut table = TableDef::new("t")
        .column("id", Type::I64)
        .column("a", Type::I64)
        .nullable("b", Type::Text { max: 10 })
        .nullable("c", Type::I32)
        .column("d", Type::FixedBytes { bytes: 20 })
        .column("f", Type::F64)
        .primary_key(&["id"])
        .unique("by_a_c", &["a", "c"]);
    for (name, columns) in &INDEXES[2..] {
        let columns: Vec<&str> = columns.iter().map(|&column| COLUMNS[column]).collect();
        table = table.index(name, &columns);
    }
    table
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Row),
    Update(Pick, Row, u8),
    UpdateFails(Pick),
    Delete(Pick),
    Fetch(Row, bool),
    Get(u32),
    /// In which index, from which row's first column, downwards, the first alone.
    Scan(Pick, Row, bool, bool),
    Savepoint,
    RollBack(Pick),
    Commit,
    Abort,
    Snapshot,
    EndSnapshot(Pick),
    Checkpoint,
}

fn row() -> impl Strategy<Value = Row> {
    let text = prop::sample::select(vec![
        None,
        Some(""),
        Some("a"),
        Some("a\0"),
        Some("ab"),
        Some("zzzzzzzzzz"),
    ]);
    let float = prop::sample::select(vec![0.0, -0.0, 1.5, f64::NAN, f64::NEG_INFINITY]);
    (
        0_i64..12,
        -2_i64..3,
        text,
        prop::option::of(-1_i32..2),
        0_u8..3,
        float,
    )
        .prop_map(|(id, a, b, c, d, f)| Row { id, a, b, c, d, f })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => row().prop_map(Op::Insert),
        8 => (any::<Pick>(), row(), any::<u8>()).prop_map(|(pick, row, what)| Op::Update(pick, row, what)),
        1 => any::<Pick>().prop_map(Op::UpdateFails),
        4 => any::<Pick>().prop_map(Op::Delete),
        3 => (row(), any::<bool>()).prop_map(|(row, lock)| Op::Fetch(row, lock)),
        1 => (0_u32..80).prop_map(Op::Get),
        6 => (any::<Pick>(), row(), any::<bool>(), any::<bool>())
            .prop_map(|(pick, row, down, first)| Op::Scan(pick, row, down, first)),
        2 => Just(Op::Savepoint),
        2 => any::<Pick>().prop_map(Op::RollBack),
        5 => Just(Op::Commit),
        1 => Just(Op::Abort),
        2 => Just(Op::Snapshot),
        1 => any::<Pick>().prop_map(Op::EndSnapshot),
        1 => Just(Op::Checkpoint),
    ]
}

fn indexes(table: &Table) -> Vec<Index> {
    INDEXES
        .iter()
        .map(|(name, _)| table.index(name).unwrap())
        .collect()
}

fn check_listing<'a>(
    what: &str,
    expected: impl Iterator<Item = (u32, &'a Row)>,
    found: impl Iterator<Item = Found<'a>>,
) {
    let (mut expected, mut found) = (expected, found);
    loop {
        match (expected.next(), found.next()) {
            (None, None) => return,
            (Some((rid, row)), Some(found)) if found.rid.0 == rid && row.is(found.row) => {}
            (expected, found) => panic!("{what}: {found:?} instead of {expected:?}"),
        }
    }
}

fn check_snapshot(snapshot: &Snapshot, table: &Table, model: &Model) {
    for (index, (name, columns)) in indexes(table).iter().zip(INDEXES) {
        let rows = listing(model, columns);
        let up = snapshot.scan(index, &index.all(), Direction::Ascending).unwrap();
        check_listing(name, rows.iter().copied(), up);
        let down = snapshot.scan(index, &index.all(), Direction::Descending).unwrap();
        check_listing(name, rows.iter().rev().copied(), down);
    }
    let by_number = snapshot.rows(table, 0..table.rid_end()).unwrap();
    check_listing("by number", model.iter().map(|(rid, row)| (*rid, row)), by_number);
}

fn clashes(model: &Model, rid: Option<u32>, row: &Row) -> bool {
    model.iter().any(|(other, there)| {
        let same = || row.c.is_some() && row.order(there, INDEXES[1].1).is_eq();
        Some(*other) != rid && (there.id == row.id || same())
    })
}

fn picked(model: &Model, pick: &Pick) -> Option<u32> {
    (!model.is_empty()).then(|| *pick.get(&model.keys().copied().collect::<Vec<_>>()))
}

/// Runs one transaction; leaves what it did in the model if it commits.
fn transact(
    session: &mut corun_store::Session,
    table: &Table,
    committed: &mut Model,
    ops: &mut impl Iterator<Item = Op>,
    aside: &mut impl FnMut(Op),
) {
    let indexes = indexes(table);
    let mut model = committed.clone();
    let mut savepoints: Vec<(Savepoint, Model)> = Vec::new();
    let mut transaction = session.begin().unwrap();
    for op in ops {
        match op {
            Op::Insert(row) => {
                let mut buffer = table.new_row();
                row.fill(&mut buffer).unwrap();
                let clash = clashes(&model, None, &row);
                match transaction.insert(table, &buffer) {
                    Ok(rid) => {
                        assert!(!clash, "{row:?} beside {model:?}");
                        assert!(model.insert(rid.0, row).is_none(), "{rid:?} is in use");
                    }
                    Err(StoreError::Duplicate { .. }) => assert!(clash, "{row:?} beside {model:?}"),
                    Err(error) => panic!("{error}"),
                }
            }
            Op::Update(pick, new, what) => {
                let Some(rid) = picked(&model, &pick) else {
                    continue;
                };
                let mut row = model[&rid].clone();
                // Some columns only, so that keys change and come back one by one.
                row.id = if what & 1 != 0 { new.id } else { row.id };
                row.a = if what & 2 != 0 { new.a } else { row.a };
                row.b = if what & 4 != 0 { new.b } else { row.b };
                row.c = if what & 8 != 0 { new.c } else { row.c };
                row.d = if what & 16 != 0 { new.d } else { row.d };
                row.f = if what & 32 != 0 { new.f } else { row.f };
                let clash = clashes(&model, Some(rid), &row);
                match transaction.update(table, Rid(rid), |buffer| row.fill(buffer)) {
                    Ok(()) => {
                        assert!(!clash, "{row:?} beside {model:?}");
                        model.insert(rid, row);
                    }
                    Err(StoreError::Duplicate { .. }) => assert!(clash, "{row:?} beside {model:?}"),
                    Err(error) => panic!("{error}"),
                }
            }
            Op::UpdateFails(pick) => {
                let Some(rid) = picked(&model, &pick) else {
                    continue;
                };
                let refused = transaction.update(table, Rid(rid), |buffer| {
                    buffer.set(0, 99_i64)?;
                    buffer.set(1, Value::Null)
                });
                assert!(matches!(refused, Err(StoreError::Row(RowError::Null { .. }))));
            }
            Op::Delete(pick) => {
                let Some(rid) = picked(&model, &pick) else {
                    continue;
                };
                assert!(transaction.delete(table, Rid(rid)).unwrap());
                assert!(!transaction.delete(table, Rid(rid)).unwrap());
                model.remove(&rid);
            }
            Op::Fetch(row, for_update) => {
                let mut bytes = [0; 20];
                for (index, (_, columns)) in indexes.iter().zip(INDEXES).take(2) {
                    let mut key = Vec::new();
                    for &column in columns {
                        key.push(row.value(column, &mut bytes));
                    }
                    let found = match for_update {
                        true => transaction.fetch_for_update(index, &key),
                        false => transaction.fetch(index, &key),
                    };
                    let expected = model.iter().find(|(_, there)| row.order(there, columns).is_eq());
                    check_listing(
                        "fetch",
                        expected.into_iter().map(|(rid, row)| (*rid, row)),
                        found.unwrap().into_iter(),
                    );
                }
            }
            Op::Get(rid) => {
                let found = transaction.get(table, Rid(rid), Lock::Shared).unwrap();
                match model.get(&rid) {
                    None => assert!(found.is_none()),
                    Some(row) => assert!(row.is(found.unwrap())),
                }
            }
            Op::Scan(pick, row, down, first) => {
                let number = pick.index(INDEXES.len());
                let (index, columns) = (&indexes[number], INDEXES[number].1);
                // The first column alone, which may be the whole key.
                let bytes = [row.d; 20];
                let value = match columns[0] {
                    4 => Value::Bytes(&bytes),
                    column => row.value(column, &mut [0; 20]),
                };
                let range = index.prefix(&[value]).unwrap();
                let mut expected: Vec<_> = listing(&model, columns)
                    .into_iter()
                    .filter(|(_, there)| row.order(there, &columns[..1]).is_eq())
                    .collect();
                let direction = if down {
                    expected.reverse();
                    Direction::Descending
                } else {
                    Direction::Ascending
                };
                if first {
                    let first = transaction
                        .first(index, &range, direction, Lock::Exclusive)
                        .unwrap();
                    check_listing("first", expected.into_iter().take(1), first.into_iter());
                } else {
                    let mut scan = transaction.scan(index, &range, direction, Lock::Shared).unwrap();
                    check_listing(
                        "scan",
                        expected.into_iter(),
                        std::iter::from_fn(|| scan.next().unwrap()),
                    );
                }
            }
            Op::Savepoint => savepoints.push((transaction.savepoint(), model.clone())),
            Op::RollBack(pick) => {
                if savepoints.is_empty() {
                    continue;
                }
                let at = pick.index(savepoints.len());
                transaction.rollback_to(&savepoints[at].0).unwrap();
                savepoints.truncate(at + 1);
                model = savepoints[at].1.clone();
            }
            Op::Commit => {
                transaction.commit().unwrap();
                *committed = model;
                return;
            }
            Op::Abort => {
                transaction.abort();
                return;
            }
            other => aside(other),
        }
    }
    // Dropped.
}

fn open(twin: &Twin) -> Store {
    let options = Options {
        durability: Durability::Asynchronous,
        recovery_threads: 2,
        ..Options::default()
    };
    Store::open_on(Arc::new(twin.clone()), options).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_maps_do(ops in prop::collection::vec(op(), 1..150), checkpoint in any::<bool>()) {
        compare(ops, checkpoint)?;
    }

    #[test]
    fn the_store_on_teams_does_what_maps_do(
        ops in prop::collection::vec(prop::collection::vec(op(), 1..50), 3),
        checkpoint in any::<bool>(),
    ) {
        let teams = clients::Clients::Members { threads: 1, team: 3 };
        for done in teams.run(3, |client| compare(ops[client].clone(), checkpoint), || ()) {
            done?;
        }
    }
}

/// Does the same to a store of its own and to maps.
fn compare(ops: Vec<Op>, checkpoint: bool) -> Result<(), TestCaseError> {
    let twin = Twin::new(0);
    let store = open(&twin);
    let table = store.create_table(definition()).unwrap();
    let mut model = Model::new();
    let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
    let mut ops = ops.into_iter().peekable();
    let mut session = store.session_here().unwrap();
    while ops.peek().is_some() {
        let before = model.clone();
        transact(&mut session, &table, &mut model, &mut ops, &mut |op| match op {
            // While the transaction runs: what it does is not seen.
            Op::Snapshot => snapshots.push((store.snapshot().unwrap(), before.clone())),
            Op::EndSnapshot(pick) if !snapshots.is_empty() => {
                let (snapshot, was) = snapshots.swap_remove(pick.index(snapshots.len()));
                check_snapshot(&snapshot, &table, &was);
            }
            Op::Checkpoint => drop(store.checkpoint().unwrap()),
            _ => {}
        });
        check_snapshot(&store.snapshot().unwrap(), &table, &model);
    }
    for (snapshot, was) in &snapshots {
        check_snapshot(snapshot, &table, was);
    }
    prop_assert_eq!(table.rows(), model.len() as u64);
    snapshots.clear();
    // Nothing is left of old states, once nobody can look at them and what replaced them is durable.
    store.flush().unwrap();
    for _ in 0..8 {
        session.begin().unwrap().commit().unwrap();
    }
    for index in indexes(&table) {
        prop_assert_eq!(index.entries(), model.len() as u64, "{:?}", index);
    }
    drop(session);
    if checkpoint {
        store.checkpoint().unwrap();
    }
    store.close().unwrap();
    drop(table);
    let store = open(&twin);
    let table = store.table("t").unwrap();
    check_snapshot(&store.snapshot().unwrap(), &table, &model);
    prop_assert_eq!(table.rows(), model.len() as u64);
    // It goes on, and numbers in use are not handed out again.
    let mut session = store.session_here().unwrap();
    let mut more = (100..110)
        .map(|id| {
            Op::Insert(Row {
                id,
                a: id,
                b: None,
                c: None,
                d: 1,
                f: 0.5,
            })
        })
        .chain([Op::Commit]);
    transact(&mut session, &table, &mut model, &mut more, &mut |_| ());
    check_snapshot(&store.snapshot().unwrap(), &table, &model);
    Ok(())
}
