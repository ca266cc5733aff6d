//! Constraints and schemas beside a model of definitions: transactions by chance, with savepoints, aborts, crashes and a follower.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use corun_store::storage::{Storage, Twin};
use corun_store::{
    CheckDef, Durability, Follower, ForeignKeyDef, ReferentialAction, Result, Snapshot, Store, StoreError,
    Table, TableDef, Transaction, Type, Value, verify_on,
};

use super::{open, options, rows, sorted};
use crate::crash_twin::random::Random;

type Name = (String, String);
/// Schemas; definitions and rows of tables by schema and name.
type Dump = (Vec<String>, BTreeMap<Name, (TableDef, Vec<Vec<String>>)>);

/// What tables should be defined as.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    schemas: BTreeSet<String>,
    tables: BTreeMap<Name, TableDef>,
}

fn dump(snapshot: &Snapshot, schemas: Vec<String>, tables: &[Table]) -> Dump {
    let table = |table: &Table| {
        let definition = sorted(table.definition());
        let name = (definition.schema.clone(), definition.name.clone());
        (name, (definition, rows(snapshot, table)))
    };
    (schemas, tables.iter().map(table).collect())
}

fn committed(store: &Store) -> Dump {
    dump(&store.snapshot().unwrap(), store.schemas(), &store.tables())
}

fn within(transaction: &Transaction<'_>) -> Dump {
    let snapshot = transaction.snapshot().unwrap();
    dump(&snapshot, transaction.schemas(), &transaction.tables())
}

/// Whether the definitions are the model's, and no row refers to a row that is not there.
fn check((schemas, tables): &Dump, model: &Model) {
    let known: Vec<&str> = schemas.iter().map(String::as_str).skip(1).collect();
    assert_eq!(known, model.schemas.iter().collect::<Vec<_>>());
    let definitions: BTreeMap<_, _> = tables.iter().map(|(name, table)| (name, &table.0)).collect();
    assert_eq!(definitions, model.tables.iter().collect());
    for (definition, rows) in tables.values() {
        for key in &definition.foreign_keys {
            let (parent, of_parent) = &tables[&(key.schema.clone(), key.table.clone())];
            let at = |table: &TableDef, name: &String| {
                let columns = table.columns.iter().map(|column| &column.name);
                columns.into_iter().position(|column| column == name).unwrap()
            };
            let (column, referenced) = (at(definition, &key.columns[0]), at(parent, &key.referenced[0]));
            let keys: BTreeSet<&String> = of_parent.iter().map(|row| &row[referenced]).collect();
            let orphan = rows
                .iter()
                .find(|row| row[column] != "NULL" && !keys.contains(&row[column]));
            assert_eq!(orphan, None, "{key:?}");
        }
    }
}

fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.below(from.len() as u64) as usize]
}

impl Model {
    fn rename_columns(&mut self, name: &Name, from: &str, to: &str) {
        let change = |names: &mut Vec<String>| {
            let found = names.iter_mut().filter(|name| *name == from);
            found.for_each(|name| to.clone_into(name));
        };
        for (of, table) in &mut self.tables {
            if of == name {
                let column = table.columns.iter_mut().find(|column| column.name == from);
                to.clone_into(&mut column.unwrap().name);
                table
                    .indexes
                    .iter_mut()
                    .for_each(|index| change(&mut index.columns));
                table
                    .foreign_keys
                    .iter_mut()
                    .for_each(|key| change(&mut key.columns));
            }
            for key in &mut table.foreign_keys {
                if (&key.schema, &key.table) == (&name.0, &name.1) {
                    change(&mut key.referenced);
                }
            }
        }
    }

    fn rename_table(&mut self, name: &Name, to: &str) {
        let mut table = self.tables.remove(name).unwrap();
        to.clone_into(&mut table.name);
        self.tables.insert((name.0.clone(), to.to_owned()), table);
        let keys = self.tables.values_mut().flat_map(|table| &mut table.foreign_keys);
        let keys = keys.filter(|key| (&key.schema, &key.table) == (&name.0, &name.1));
        keys.for_each(|key| to.clone_into(&mut key.table));
    }

    /// One step by chance. What the store refuses changes nothing.
    fn step(&mut self, transaction: &Transaction<'_>, random: &mut Random) -> Result<()> {
        let schema = pick(random, &["public", "public", "s"]);
        let (name, other) = (pick(random, &["a", "b", "c"]), pick(random, &["a", "b", "c"]));
        let (column, to) = (pick(random, &["id", "x", "y"]), pick(random, &["x", "y", "z"]));
        let place = (schema.to_owned(), name.to_owned());
        let key = ForeignKeyDef::new(
            pick(random, &["f", "g"]),
            &[column],
            other,
            &[pick(random, &["id", "x"])],
        )
        .in_schema(pick(random, &["public", "public", "s"]))
        .on_delete(match random.below(4) {
            0 => ReferentialAction::Cascade,
            1 => ReferentialAction::SetNull,
            _ => ReferentialAction::NoAction,
        });
        let check = CheckDef::new(pick(random, &["c", "d"]), "id > 0");
        match random.below(40) {
            0 => {
                transaction.create_schema("s")?;
                self.schemas.insert("s".to_owned());
            }
            1 => {
                transaction.drop_schema("s")?;
                self.schemas.remove("s");
            }
            2..6 => {
                let mut table = TableDef::new(name)
                    .in_schema(schema)
                    .column("id", Type::I64)
                    .nullable("x", Type::I64)
                    .nullable("y", Type::I64)
                    .primary_key(&["id"])
                    .unique("by_x", &["x"]);
                if random.once_in(2) {
                    table = table.with_foreign_key(key);
                }
                if random.once_in(3) {
                    table.checks.push(check);
                }
                transaction.create_table(table.clone())?;
                self.tables.insert(place, sorted(table));
            }
            6 => {
                transaction.drop_table_in(schema, name)?;
                self.tables.remove(&place);
            }
            7 => {
                transaction.truncate_table_in(schema, name)?;
            }
            8..10 => {
                transaction.rename_table_in(schema, name, other)?;
                self.rename_table(&place, other);
            }
            kind => {
                let table = transaction.table_in(schema, name)?;
                match kind {
                    10..12 => {
                        transaction.rename_column(&table, column, to)?;
                        self.rename_columns(&place, column, to);
                    }
                    12 => {
                        transaction.drop_column(&table, column)?;
                        let table = self.tables.get_mut(&place).unwrap();
                        table.columns.retain(|known| known.name != column);
                    }
                    13 | 14 => {
                        let nullable = kind == 14;
                        match nullable {
                            true => transaction.drop_not_null(&table, column)?,
                            false => transaction.set_not_null(&table, column)?,
                        };
                        let table = self.tables.get_mut(&place).unwrap();
                        let found = table.columns.iter_mut().find(|known| known.name == column);
                        found.unwrap().nullable = nullable;
                    }
                    15 => {
                        transaction.drop_index(&table, "by_x")?;
                        let table = self.tables.get_mut(&place).unwrap();
                        table.indexes.retain(|index| index.name != "by_x");
                    }
                    16..20 => {
                        transaction.add_foreign_key(&table, key.clone())?;
                        self.tables.get_mut(&place).unwrap().foreign_keys.push(key);
                    }
                    20 => {
                        transaction.add_check(&table, check.clone())?;
                        self.tables.get_mut(&place).unwrap().checks.push(check);
                    }
                    21 => {
                        let name = pick(random, &["f", "g", "c"]);
                        transaction.drop_constraint(&table, name)?;
                        let table = self.tables.get_mut(&place).unwrap();
                        table.foreign_keys.retain(|key| key.name != name);
                        table.checks.retain(|check| check.name != name);
                    }
                    22..26 => {
                        let key = random.below(9) as i64;
                        transaction.delete_by_key(&table, &[key.into()])?;
                    }
                    _ => {
                        let mut row = table.new_row();
                        for column in 0..table.definition().columns.len() {
                            let value = random.below(9) as i64;
                            match column > 0 && random.once_in(2) {
                                true => row.set(column, Value::Null)?,
                                false => row.set(column, value)?,
                            }
                        }
                        transaction.upsert(&table, &row)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn is_refusal(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Exists { .. }
            | StoreError::NoTable { .. }
            | StoreError::NoSchema { .. }
            | StoreError::SchemaInUse { .. }
            | StoreError::Referenced { .. }
            | StoreError::NoConstraint { .. }
            | StoreError::NoIndex { .. }
            | StoreError::ColumnInForeignKey { .. }
            | StoreError::ColumnInIndex { .. }
            | StoreError::PendingChecks { .. }
            | StoreError::ForeignKey(_)
            | StoreError::Duplicate { .. }
            | StoreError::Schema(_)
            | StoreError::Row(_)
    )
}

#[test]
fn a_store_and_a_model_agree_on_constraints() {
    let (mut keys, mut refused) = (0, 0);
    for seed in 0..25 {
        let mut random = Random::new(seed);
        let mut disk = Twin::new(seed);
        let mut store = open(&disk);
        let mut follower: Option<Follower> = None;
        let mut model = Model::default();
        for round in 0..50 {
            let before = committed(&store);
            match random.below(12) {
                0 => drop(store.checkpoint().unwrap()),
                1 => {
                    follower = None;
                    drop(store);
                    disk = disk.crash(seed * 1000 + round);
                    verify_on(&(Arc::new(disk.crash(1)) as Arc<dyn Storage>)).unwrap();
                    store = open(&disk);
                    assert_eq!(committed(&store), before, "seed {seed}, round {round}");
                }
                2 => {
                    store.flush().unwrap();
                    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
                    follower = Some(Follower::open_on(&storage, options()).unwrap());
                }
                _ => {}
            }
            let mut session = store.session_here().unwrap();
            let mut transaction = session.begin().unwrap();
            let deferred = random.once_in(4);
            if deferred {
                transaction.defer_foreign_keys().unwrap();
            }
            let mut changed = model.clone();
            let mut savepoints = Vec::new();
            for _ in 0..random.below(25) {
                match random.below(14) {
                    0 => savepoints.push((transaction.savepoint(), changed.clone(), within(&transaction))),
                    1 if !savepoints.is_empty() => {
                        savepoints.truncate(1 + random.below(savepoints.len() as u64) as usize);
                        let (savepoint, of_then, seen) = savepoints.last().unwrap();
                        transaction.rollback_to(savepoint).unwrap();
                        changed = of_then.clone();
                        assert_eq!(within(&transaction), *seen, "seed {seed}, round {round}");
                    }
                    2 => assert_eq!(committed(&store), before, "seed {seed}, round {round}"),
                    _ => {
                        let seen = random.once_in(4).then(|| within(&transaction));
                        if let Err(error) = changed.step(&transaction, &mut random) {
                            assert!(is_refusal(&error), "seed {seed}, round {round}: {error}");
                            refused += 1;
                            assert!(seen.is_none_or(|seen| seen == within(&transaction)));
                        }
                    }
                }
            }
            let seen = within(&transaction);
            let committing = !random.once_in(4);
            let done = match committing {
                false => {
                    transaction.abort();
                    false
                }
                true => match transaction.commit_with(Durability::Durable) {
                    Ok(_) => true,
                    Err(StoreError::ForeignKey(_)) if deferred => false,
                    Err(error) => panic!("{error}"),
                },
            };
            drop(session);
            let now = committed(&store);
            match done {
                true => model = changed,
                false => assert_eq!(now, before, "seed {seed}, round {round}"),
            }
            assert!(!done || now == seen, "seed {seed}, round {round}");
            check(&now, &model);
            keys += model
                .tables
                .values()
                .map(|table| table.foreign_keys.len())
                .sum::<usize>();
            if let Some(follower) = &follower {
                let last = store.flush().unwrap();
                assert!(follower.wait_for(last, Duration::from_secs(60)).unwrap());
                let found = dump(
                    &follower.snapshot().unwrap(),
                    follower.schemas(),
                    &follower.tables(),
                );
                assert_eq!(found, now, "seed {seed}, round {round}");
            }
        }
    }
    assert!(keys > 300 && refused > 1000, "{keys} {refused}");
}
