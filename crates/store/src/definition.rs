//! [`Definition`]: one change of what a store has, as the log keeps it, and those who replay the log make it again.
//!
//! ```text
//! 5 id table      table made         6 id            table dropped       7 id index   index made      8 id name    index dropped
//! 9 id column     column added      10 id new        table emptied
//! 32 id table rest                  table with a schema or constraints made
//! 33 id key       foreign key added 34 id check      check added         35 id name    constraint dropped
//! 36 name         schema made       37 name          schema dropped
//! 40 id name      table renamed     41 id columns    columns have other names or defaults
//! 42 id new columns                 the table's rows are written again, in columns that are found by name
//! ```
//!
//! Those of sequences are beside them in [`redo`]: one is made by a record, and set by the next if numbers of it were given out by then.
//!
//! What it is not: how it is made. That is in `definitions.rs`, and for an opening store in [`crate::recovery`].

use crate::codec::{
    Reader, put_bytes, put_column, put_index, put_number, put_table, put_text, read_column, read_index,
    read_table,
};
use crate::redo;
use crate::schema::{
    CheckDef, ColumnDef, ForeignKeyDef, IndexDef, PUBLIC, TableDef, put_check, put_foreign_key, put_rest,
    read_check, read_foreign_key, read_rest,
};
use crate::sequence::SequenceDef;

/// A change of a definition. Tables go by number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Definition {
    CreateTable(u32, TableDef),
    DropTable(u32),
    CreateIndex(u32, IndexDef),
    DropIndex(u32, String),
    AddColumn(u32, ColumnDef),
    /// The table goes, and one of its definition with another number comes.
    Truncate(u32, u32),
    /// Within its schema.
    RenameTable(u32, String),
    /// As many columns as before, with other names and defaults.
    Columns(u32, Vec<ColumnDef>),
    /// The table goes, and one with another number comes, which has its rows and its indexes, and these columns of its columns.
    Rewrite(u32, u32, Vec<ColumnDef>),
    AddForeignKey(u32, ForeignKeyDef),
    AddCheck(u32, CheckDef),
    DropConstraint(u32, String),
    CreateSchema(String),
    DropSchema(String),
    /// Its first place has the number `base`, and so many may have been given out.
    CreateSequence {
        id: u32,
        definition: SequenceDef,
        base: i64,
        given: u64,
    },
    DropSequence(u32),
}

const CREATE_TABLE: u8 = 5;
const DROP_TABLE: u8 = 6;
const CREATE_INDEX: u8 = 7;
const DROP_INDEX: u8 = 8;
const ADD_COLUMN: u8 = 9;
const TRUNCATE: u8 = 10;
const CREATE_TABLE_WITH_REST: u8 = 32;
const ADD_FOREIGN_KEY: u8 = 33;
const ADD_CHECK: u8 = 34;
const DROP_CONSTRAINT: u8 = 35;
const CREATE_SCHEMA: u8 = 36;
const DROP_SCHEMA: u8 = 37;
const RENAME_TABLE: u8 = 40;
const COLUMNS: u8 = 41;
const REWRITE: u8 = 42;

impl Definition {
    /// Appends its record.
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        let mut head = |code, id: &u32| {
            bytes.push(code);
            put_number(bytes, u64::from(*id));
        };
        match self {
            Definition::CreateTable(id, table) => {
                let has_rest =
                    table.schema != PUBLIC || !table.foreign_keys.is_empty() || !table.checks.is_empty();
                bytes.push(if has_rest {
                    CREATE_TABLE_WITH_REST
                } else {
                    CREATE_TABLE
                });
                put_table(bytes, *id, table);
                if has_rest {
                    put_rest(bytes, table);
                }
            }
            Definition::DropTable(id) => head(DROP_TABLE, id),
            Definition::CreateIndex(id, index) => {
                head(CREATE_INDEX, id);
                put_index(bytes, index);
            }
            Definition::DropIndex(id, name) => {
                head(DROP_INDEX, id);
                put_bytes(bytes, name.as_bytes());
            }
            Definition::AddColumn(id, column) => {
                head(ADD_COLUMN, id);
                put_column(bytes, column);
            }
            Definition::Truncate(id, new) => {
                head(TRUNCATE, id);
                put_number(bytes, u64::from(*new));
            }
            Definition::RenameTable(id, name) => {
                head(RENAME_TABLE, id);
                put_text(bytes, name);
            }
            Definition::Columns(id, columns) => {
                head(COLUMNS, id);
                put_columns(bytes, columns);
            }
            Definition::Rewrite(id, new, columns) => {
                head(REWRITE, id);
                put_number(bytes, u64::from(*new));
                put_columns(bytes, columns);
            }
            Definition::AddForeignKey(id, key) => {
                head(ADD_FOREIGN_KEY, id);
                put_foreign_key(bytes, key);
            }
            Definition::AddCheck(id, check) => {
                head(ADD_CHECK, id);
                put_check(bytes, check);
            }
            Definition::DropConstraint(id, name) => {
                head(DROP_CONSTRAINT, id);
                put_text(bytes, name);
            }
            Definition::CreateSchema(name) => {
                bytes.push(CREATE_SCHEMA);
                put_text(bytes, name);
            }
            Definition::DropSchema(name) => {
                bytes.push(DROP_SCHEMA);
                put_text(bytes, name);
            }
            Definition::CreateSequence {
                id,
                definition,
                base,
                given,
            } => {
                bytes.extend(redo::create_sequence(*id, definition));
                if (*base, *given) != (definition.start, 0) {
                    bytes.extend(redo::set_sequence(*id, *base, *given));
                }
            }
            Definition::DropSequence(id) => bytes.extend(redo::drop_sequence(*id)),
        }
    }

    /// Reads what follows the code of a record. None if it cannot be, or the code is of no definition, or one of a sequence.
    pub(crate) fn read(code: u8, reader: &mut Reader<'_>) -> Option<Definition> {
        Some(match code {
            CREATE_TABLE => {
                let (id, table) = read_table(reader)?;
                Definition::CreateTable(id, table)
            }
            CREATE_TABLE_WITH_REST => {
                let (id, table) = read_table(reader)?;
                Definition::CreateTable(id, read_rest(reader, table)?)
            }
            ADD_FOREIGN_KEY => Definition::AddForeignKey(reader.number32()?, read_foreign_key(reader)?),
            ADD_CHECK => Definition::AddCheck(reader.number32()?, read_check(reader)?),
            DROP_CONSTRAINT => Definition::DropConstraint(reader.number32()?, reader.text()?),
            CREATE_SCHEMA => Definition::CreateSchema(reader.text()?),
            DROP_SCHEMA => Definition::DropSchema(reader.text()?),
            DROP_TABLE => Definition::DropTable(reader.number32()?),
            CREATE_INDEX => Definition::CreateIndex(reader.number32()?, read_index(reader)?),
            DROP_INDEX => Definition::DropIndex(reader.number32()?, reader.text()?),
            ADD_COLUMN => Definition::AddColumn(reader.number32()?, read_column(reader)?),
            TRUNCATE => Definition::Truncate(reader.number32()?, reader.number32()?),
            RENAME_TABLE => Definition::RenameTable(reader.number32()?, reader.text()?),
            COLUMNS => Definition::Columns(reader.number32()?, reader.list(read_column)?),
            REWRITE => Definition::Rewrite(reader.number32()?, reader.number32()?, reader.list(read_column)?),
            _ => return None,
        })
    }
}

fn put_columns(bytes: &mut Vec<u8>, columns: &[ColumnDef]) {
    put_number(bytes, columns.len() as u64);
    columns.iter().for_each(|column| put_column(bytes, column));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Type;

    #[test]
    fn definitions_come_back_and_parts_of_them_do_not() {
        let column = ColumnDef::new("b", Type::Text { max: 9 }).default_value("new");
        let table = TableDef::new("t").column("a", Type::I64).primary_key(&["a"]);
        let index = table.indexes[0].clone();
        let key = ForeignKeyDef::new("f", &["a"], "other", &["b"]).in_schema("sales");
        let rest = table.clone().in_schema("sales").with_foreign_key(key.clone());
        for definition in [
            Definition::CreateTable(7, table),
            Definition::CreateTable(7, rest.check_constraint("c", "a > 0")),
            Definition::AddForeignKey(7, key),
            Definition::AddCheck(7, CheckDef::new("c", "a > 0")),
            Definition::DropConstraint(7, "c".to_owned()),
            Definition::CreateSchema("sales".to_owned()),
            Definition::DropSchema("sales".to_owned()),
            Definition::DropTable(300),
            Definition::CreateIndex(7, index),
            Definition::DropIndex(7, "by_a".to_owned()),
            Definition::AddColumn(7, column.clone()),
            Definition::Truncate(7, 8),
            Definition::RenameTable(7, "other".to_owned()),
            Definition::Columns(7, vec![column.clone()]),
            Definition::Rewrite(7, 9, vec![column]),
        ] {
            let mut bytes = Vec::new();
            definition.put(&mut bytes);
            let read = |bytes: &[u8]| {
                let mut reader = Reader::new(bytes);
                let code = reader.byte()?;
                Definition::read(code, &mut reader).filter(|_| reader.is_empty())
            };
            assert_eq!(read(&bytes), Some(definition));
            for cut in 0..bytes.len() {
                assert_eq!(read(&bytes[..cut]), None);
            }
        }
    }
}
