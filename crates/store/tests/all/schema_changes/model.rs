//! A store beside a model of maps: definitions, rows, savepoints, commits, aborts, restarts and crashes, by chance.

use std::collections::BTreeMap;

use corun_store::storage::Twin;
use corun_store::{
    ColumnDef, Constant, Durability, IndexDef, Result, Table, TableDef, Transaction, Type, Value,
};

use super::{Dump, dump, dump_of, open, sorted};
use crate::crash_twin::random::Random;

type Field = Option<i64>;

#[derive(Clone, Debug, PartialEq)]
struct Column {
    name: String,
    nullable: bool,
    default: Field,
}

/// A table: column 0 is the key.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rows {
    columns: Vec<Column>,
    /// With the position of its column.
    indexes: BTreeMap<String, (bool, usize)>,
    rows: BTreeMap<i64, Vec<Field>>,
}

impl Rows {
    fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    fn is_unique(&self, at: usize) -> bool {
        let mut values: Vec<i64> = self.rows.values().filter_map(|row| row[at]).collect();
        let count = values.len();
        values.sort_unstable();
        values.dedup();
        values.len() == count
    }

    /// Whether NULLs and unique indexes are as they must be.
    fn is_sound(&self) -> bool {
        let unique = self.indexes.values().filter(|(unique, _)| *unique);
        let mut columns = self.columns.iter().enumerate();
        unique.into_iter().all(|(_, at)| self.is_unique(*at))
            && columns.all(|(at, column)| column.nullable || self.rows.values().all(|row| row[at].is_some()))
    }

    fn definition(&self, name: &str) -> TableDef {
        let mut table = TableDef::new(name);
        for column in &self.columns {
            table = table.with_column(ColumnDef {
                nullable: column.nullable,
                default: column.default.map(|value| Constant::from(Value::Int(value))),
                ..ColumnDef::new(&column.name, Type::I64)
            });
        }
        table = table.primary_key(&[&self.columns[0].name]);
        for (index, (unique, at)) in &self.indexes {
            table.indexes.push(IndexDef {
                name: index.clone(),
                columns: vec![self.columns[*at].name.clone()],
                unique: *unique,
            });
        }
        sorted(table)
    }
}

/// Which steps are taken.
#[derive(Clone, Copy, PartialEq)]
pub enum Picked {
    Both,
    Rows,
}

/// What a store should have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    tables: BTreeMap<String, Rows>,
}

fn text(value: Field) -> String {
    value.map_or("NULL".to_owned(), |value| value.to_string())
}

fn value(value: Field) -> Value<'static> {
    value.map_or(Value::Null, Value::Int)
}

impl Model {
    pub fn dump(&self) -> Dump {
        let table = |(name, table): (&String, &Rows)| {
            let mut rows: Vec<Vec<String>> = (table.rows.values())
                .map(|row| row.iter().copied().map(text).collect())
                .collect();
            rows.sort();
            (name.clone(), (table.definition(name), rows))
        };
        self.tables.iter().map(table).collect()
    }

    /// One step by chance, in the store and here; both refuse it, or neither.
    pub fn step(&mut self, transaction: &Transaction<'_>, random: &mut Random, picked: Picked) {
        let name = ["a", "b", "c"][random.below(3) as usize];
        let other = ["a", "b", "c"][random.below(3) as usize];
        let column = ["id", "x", "y", "z", "v"][random.below(5) as usize];
        let to = ["x", "y", "z", "v"][random.below(4) as usize];
        let (id, number) = (random.below(12) as i64, random.below(9) as i64);
        let field = (!random.once_in(4)).then_some(number);
        let mut after = self.clone();
        let kind = match picked {
            Picked::Rows => 100,
            Picked::Both if self.tables.len() < 2 => random.below(4) * 30,
            Picked::Both => random.below(40),
        };
        let unique = random.once_in(3);
        let (went, expected) = match kind {
            0 | 1 => (transaction_create(transaction, name), after.create(name)),
            2 => (transaction.drop_table(name), after.tables.remove(name).is_some()),
            3 => (
                transaction.truncate_table(name).map(drop),
                after.with(name, |table| {
                    table.rows.clear();
                    true
                }),
            ),
            4 | 5 => (transaction.rename_table(name, other), after.rename(name, other)),
            _ => match transaction.table(name) {
                Err(error) => (Err(error), after.tables.contains_key(name)),
                Ok(table) => {
                    let went = in_table(transaction, &table, (kind, id, field, unique), column, to);
                    let expected = after.with(name, |table| {
                        in_model(table, (kind, id, field, unique), column, to) && table.is_sound()
                    });
                    (went, expected)
                }
            },
        };
        assert_eq!(
            went.is_ok(),
            expected,
            "{kind} {name} {other} {column} {to} {id} {field:?} {unique}: {went:?}\n{self:#?}"
        );
        if expected {
            *self = after;
        }
    }

    fn create(&mut self, name: &str) -> bool {
        if self.tables.contains_key(name) {
            return false;
        }
        let column = |name: &str, nullable| Column {
            name: name.to_owned(),
            nullable,
            default: None,
        };
        let table = Rows {
            columns: vec![column("id", false), column("x", true)],
            ..Rows::default()
        };
        self.tables.insert(name.to_owned(), table);
        true
    }

    fn rename(&mut self, name: &str, to: &str) -> bool {
        if self.tables.contains_key(to) {
            return false;
        }
        let table = self.tables.remove(name);
        table.is_some_and(|table| self.tables.insert(to.to_owned(), table).is_none())
    }

    fn with(&mut self, name: &str, change: impl FnOnce(&mut Rows) -> bool) -> bool {
        self.tables.get_mut(name).is_some_and(change)
    }
}

fn transaction_create(transaction: &Transaction<'_>, name: &str) -> Result<()> {
    let definition = TableDef::new(name)
        .column("id", Type::I64)
        .nullable("x", Type::I64)
        .primary_key(&["id"]);
    transaction.create_table(definition).map(drop)
}

type Drawn = (u64, i64, Field, bool);

fn in_table(
    transaction: &Transaction<'_>,
    table: &Table,
    (kind, id, field, unique): Drawn,
    column: &str,
    to: &str,
) -> Result<()> {
    match kind {
        6 | 7 => {
            let column = ColumnDef {
                nullable: unique,
                default: field.map(|field| Constant::from(Value::Int(field))),
                ..ColumnDef::new(to, Type::I64)
            };
            transaction.add_column(table, column)
        }
        8 => transaction.drop_column(table, column).map(drop),
        9 => transaction.rename_column(table, column, to),
        10 => transaction.set_not_null(table, column).map(drop),
        11 => transaction.drop_not_null(table, column).map(drop),
        12 => transaction
            .set_default(table, column, field.unwrap_or(3))
            .map(drop),
        13 => transaction.drop_default(table, column).map(drop),
        14 | 15 => transaction.create_index(table, &format!("by_{to}"), unique, &[column]),
        16 => transaction.drop_index(table, &format!("by_{to}")),
        17..24 => match transaction.delete_by_key(table, &[id.into()])? {
            true => Ok(()),
            false => Err(corun_store::StoreError::Closed),
        },
        24..30 => {
            match transaction.update_by_key(table, &[id.into()], |row| row.set(column, value(field)))? {
                true => Ok(()),
                false => Err(corun_store::StoreError::Closed),
            }
        }
        _ => {
            let mut row = table.new_row();
            row.set(0, id)?;
            row.set(to, value(field))?;
            transaction.upsert(table, &row).map(drop)
        }
    }
}

fn in_model(table: &mut Rows, (kind, id, field, unique): Drawn, column: &str, to: &str) -> bool {
    let at = table.position(column);
    let is_indexed = |at: usize| at == 0 || table.indexes.values().any(|(_, of)| *of == at);
    match kind {
        6 | 7 => {
            if table.position(to).is_some() || !unique && field.is_none() {
                return false;
            }
            table.columns.push(Column {
                name: to.to_owned(),
                nullable: unique,
                default: field,
            });
            table.rows.values_mut().for_each(|row| row.push(field));
            true
        }
        8 => match at {
            Some(at) if !is_indexed(at) => {
                table.columns.remove(at);
                table.rows.values_mut().for_each(|row| {
                    row.remove(at);
                });
                let indexes = table.indexes.values_mut();
                indexes.for_each(|(_, of)| *of -= usize::from(*of > at));
                true
            }
            _ => false,
        },
        9 => match at {
            Some(at) if column == to || table.position(to).is_none() => {
                to.clone_into(&mut table.columns[at].name);
                true
            }
            _ => false,
        },
        10 => at.is_some_and(|at| {
            table.columns[at].nullable = false;
            true
        }),
        11 => at.is_some_and(|at| {
            table.columns[at].nullable = at > 0;
            at > 0
        }),
        12 => at.is_some_and(|at| {
            table.columns[at].default = Some(field.unwrap_or(3));
            true
        }),
        13 => at.is_some_and(|at| {
            table.columns[at].default = None;
            true
        }),
        14 | 15 => match at {
            Some(at) if !table.indexes.contains_key(&format!("by_{to}")) => {
                table.indexes.insert(format!("by_{to}"), (unique, at));
                true
            }
            _ => false,
        },
        16 => table.indexes.remove(&format!("by_{to}")).is_some(),
        17..24 => table.rows.remove(&id).is_some(),
        24..30 => match (at, table.rows.remove(&id)) {
            (Some(at), Some(mut row)) => {
                row[at] = field;
                let key = row[0];
                // A key that is there is one of another row.
                key.is_some_and(|key| table.rows.insert(key, row).is_none())
            }
            _ => false,
        },
        _ => {
            let mut row: Vec<Field> = table.columns.iter().map(|column| column.default).collect();
            let Some(at) = table.position(to) else {
                return false;
            };
            row[0] = Some(id);
            row[at] = field;
            row[0].is_some_and(|key| {
                table.rows.insert(key, row.clone());
                true
            })
        }
    }
}

/// What a transaction sees of all tables.
fn check_within(transaction: &Transaction<'_>, model: &Model) {
    let snapshot = transaction.snapshot().unwrap();
    assert_eq!(dump_of(&snapshot, &transaction.tables()), model.dump());
    for name in model.tables.keys() {
        assert_eq!(transaction.table(name).unwrap().name(), name);
    }
}

#[test]
fn a_store_and_a_model_agree() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut disk = Twin::new(seed);
        let mut store = open(&disk);
        let mut committed = Model::default();
        for round in 0..60 {
            match random.below(14) {
                0 => drop(store.checkpoint().unwrap()),
                1 => {
                    store.close().unwrap();
                    store = open(&disk);
                }
                2 => {
                    drop(store);
                    disk = disk.crash(seed * 1000 + round);
                    store = open(&disk);
                }
                _ => {}
            }
            let mut session = store.session_here().unwrap();
            let mut transaction = session.begin().unwrap();
            let mut model = committed.clone();
            let mut savepoints = Vec::new();
            let picked = if random.once_in(3) {
                Picked::Rows
            } else {
                Picked::Both
            };
            for _ in 0..random.below(25) {
                match random.below(12) {
                    0 => savepoints.push((transaction.savepoint(), model.clone())),
                    1 if !savepoints.is_empty() => {
                        savepoints.truncate(1 + random.below(savepoints.len() as u64) as usize);
                        let (savepoint, of_then) = savepoints.last().unwrap();
                        transaction.rollback_to(savepoint).unwrap();
                        model = of_then.clone();
                    }
                    2 => {
                        check_within(&transaction, &model);
                        assert_eq!(dump(&store), committed.dump(), "seed {seed}, round {round}");
                    }
                    _ => model.step(&transaction, &mut random, picked),
                }
            }
            check_within(&transaction, &model);
            match random.once_in(3) {
                true => transaction.abort(),
                false => {
                    transaction.commit_with(Durability::Durable).unwrap();
                    committed = model;
                }
            }
            drop(session);
            assert_eq!(dump(&store), committed.dump(), "seed {seed}, round {round}");
        }
    }
}
