//! Redo records: what a transaction changed, as its block in the log has it.
//!
//! ```text
//! insert   1 table rid row           replace  2 table rid row
//! patch    3 table rid count { bytes unchanged before, bytes changed } ...
//! delete   4 table rid               sequence 13 id places that may have been given out
//! definitions 5..12: table made, table dropped, index made, index dropped, column added, table truncated, sequence made, sequence dropped
//!            32..39: table with schema and constraints made, foreign key added, check added, constraint dropped, schema made, schema
//!                    dropped, sequence set, sequence in a schema made
//! ```
//!
//! One record for each row a transaction changed, however often it did: the difference between the row before it and after
//! it. There is nothing to undo in a log of committed transactions only.

use crate::codec::{
    Reader, put_bytes, put_column, put_index, put_number, put_table, put_text, read_column, read_index,
    read_table,
};
use crate::row::RowRef;
use crate::schema::{
    CheckDef, ColumnDef, ForeignKeyDef, IndexDef, PUBLIC, TableDef, put_check, put_foreign_key, put_rest,
    read_check, read_foreign_key, read_rest,
};
use crate::sequence::SequenceDef;
use crate::slots::Rid;

/// A change, as read back.
#[derive(Debug, PartialEq)]
pub(crate) enum Record<'a> {
    /// A new row, or the whole row after an update.
    Row {
        table: u32,
        rid: Rid,
        row: &'a [u8],
    },
    /// Parts of a row.
    Patch {
        table: u32,
        rid: Rid,
        patch: Patch<'a>,
    },
    /// No row any more.
    Delete {
        table: u32,
        rid: Rid,
    },
    CreateTable(u32, TableDef),
    DropTable(u32),
    CreateIndex(u32, IndexDef),
    DropIndex(u32, String),
    AddColumn(u32, ColumnDef),
    /// The table goes, and one of its definition with another number comes.
    Truncate(u32, u32),
    CreateSequence(u32, SequenceDef),
    DropSequence(u32),
    /// Its places below may have been given out. No definition: it may come in any order with changes of rows.
    AdvanceSequence(u32, u64),
    AddForeignKey(u32, ForeignKeyDef),
    AddCheck(u32, CheckDef),
    DropConstraint(u32, String),
    CreateSchema(String),
    DropSchema(String),
    /// It counts from this number anew, and so many of its places have been given out.
    SetSequence(u32, i64, u64),
}

const INSERT: u8 = 1;
const REPLACE: u8 = 2;
const PATCH: u8 = 3;
const DELETE: u8 = 4;
const CREATE_TABLE: u8 = 5;
const DROP_TABLE: u8 = 6;
const CREATE_INDEX: u8 = 7;
const DROP_INDEX: u8 = 8;
const ADD_COLUMN: u8 = 9;
const TRUNCATE: u8 = 10;
const CREATE_SEQUENCE: u8 = 11;
const DROP_SEQUENCE: u8 = 12;
const ADVANCE_SEQUENCE: u8 = 13;
const CREATE_TABLE_WITH_REST: u8 = 32;
const ADD_FOREIGN_KEY: u8 = 33;
const ADD_CHECK: u8 = 34;
const DROP_CONSTRAINT: u8 = 35;
const CREATE_SCHEMA: u8 = 36;
const DROP_SCHEMA: u8 = 37;
const SET_SEQUENCE: u8 = 38;
const CREATE_SEQUENCE_IN: u8 = 39;

/// Whether a block changes definitions; such a block has this one record.
pub(crate) fn is_definition(block: &[u8]) -> bool {
    block
        .first()
        .is_some_and(|&code| code >= CREATE_TABLE && code != ADVANCE_SEQUENCE)
}

/// Whether a block changes rows, and nothing else.
pub(crate) fn changes_rows(block: &[u8]) -> bool {
    block.first().is_none_or(|&code| code < CREATE_TABLE)
}

fn head(bytes: &mut Vec<u8>, code: u8, table: u32, rid: Rid) {
    bytes.push(code);
    put_number(bytes, u64::from(table));
    put_number(bytes, u64::from(rid.0));
}

/// Appends the record of a row: `before` the transaction and `after` it.
pub(crate) fn put_row(
    bytes: &mut Vec<u8>,
    table: u32,
    rid: Rid,
    before: Option<RowRef<'_>>,
    after: Option<RowRef<'_>>,
) {
    // A patch leads from a row to one of the same layout.
    let alike = before
        .zip(after)
        .is_none_or(|(before, after)| before.layout_number() == after.layout_number());
    put_bytes_of_row(
        bytes,
        table,
        rid,
        before.map(RowRef::encoded),
        after.map(RowRef::encoded),
        alike,
    );
}

fn put_bytes_of_row(
    bytes: &mut Vec<u8>,
    table: u32,
    rid: Rid,
    before: Option<&[u8]>,
    after: Option<&[u8]>,
    alike: bool,
) {
    match (before, after) {
        (None, None) => {}
        (Some(_), None) => head(bytes, DELETE, table, rid),
        (None, Some(row)) => {
            head(bytes, INSERT, table, rid);
            put_bytes(bytes, row);
        }
        (Some(before), Some(after)) => {
            let start = bytes.len();
            if alike && before.len() == after.len() {
                head(bytes, PATCH, table, rid);
                put_patch(bytes, before, after);
                if bytes.len() - start < after.len() {
                    return;
                }
                bytes.truncate(start);
            }
            head(bytes, REPLACE, table, rid);
            put_bytes(bytes, after);
        }
    }
}

/// Appends the differences of two rows of one length. Equal bytes between two differences that are fewer than a pair of numbers
/// costs are written with them.
fn put_patch(bytes: &mut Vec<u8>, before: &[u8], after: &[u8]) {
    let mut at = 0;
    while let Some(first) = first_difference(before, after, at) {
        let mut end = first + 1;
        while let Some(next) = first_difference(before, after, end) {
            if next - end > 3 {
                break;
            }
            end = next + 1;
        }
        put_number(bytes, (first - at) as u64);
        put_bytes(bytes, &after[first..end]);
        at = end;
    }
    // No difference is an empty one at the end, which also ends the list.
    put_number(bytes, (after.len() - at) as u64);
    put_number(bytes, 0);
}

fn first_difference(before: &[u8], after: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    // Whole blocks first: most of a row is as it was.
    while at + 32 <= before.len() {
        let block = |bytes: &[u8]| <[u8; 32]>::try_from(&bytes[at..at + 32]).expect("32 bytes");
        if block(before) != block(after) {
            break;
        }
        at += 32;
    }
    while at + 8 <= before.len() {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let difference = word(before) ^ word(after);
        if difference != 0 {
            return Some(at + difference.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    (at..before.len()).find(|&at| before[at] != after[at])
}

/// Parts of a row that changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Patch<'a>(Reader<'a>);

impl Patch<'_> {
    /// Changes the row. False if the patch is not one of such a row; then the row may be half changed.
    pub(crate) fn apply(mut self, row: &mut [u8]) -> bool {
        let mut at = 0_usize;
        loop {
            let (Some(skip), Some(changed)) = (self.0.number(), self.0.bytes()) else {
                return false;
            };
            at = at.saturating_add(usize::try_from(skip).unwrap_or(usize::MAX));
            if changed.is_empty() {
                return at == row.len();
            }
            let Some(place) = row.get_mut(at..at + changed.len()) else {
                return false;
            };
            place.copy_from_slice(changed);
            at += changed.len();
        }
    }
}

/// A block with one definition.
pub(crate) fn create_table(id: u32, table: &TableDef) -> Vec<u8> {
    let has_rest = table.schema != PUBLIC || !table.foreign_keys.is_empty() || !table.checks.is_empty();
    let mut bytes = vec![if has_rest {
        CREATE_TABLE_WITH_REST
    } else {
        CREATE_TABLE
    }];
    put_table(&mut bytes, id, table);
    if has_rest {
        put_rest(&mut bytes, table);
    }
    bytes
}

fn of_table(code: u8, table: u32) -> Vec<u8> {
    let mut bytes = vec![code];
    put_number(&mut bytes, u64::from(table));
    bytes
}

pub(crate) fn add_foreign_key(table: u32, key: &ForeignKeyDef) -> Vec<u8> {
    let mut bytes = of_table(ADD_FOREIGN_KEY, table);
    put_foreign_key(&mut bytes, key);
    bytes
}

pub(crate) fn add_check(table: u32, check: &CheckDef) -> Vec<u8> {
    let mut bytes = of_table(ADD_CHECK, table);
    put_check(&mut bytes, check);
    bytes
}

pub(crate) fn drop_constraint(table: u32, name: &str) -> Vec<u8> {
    let mut bytes = of_table(DROP_CONSTRAINT, table);
    put_text(&mut bytes, name);
    bytes
}

pub(crate) fn create_schema(name: &str) -> Vec<u8> {
    let mut bytes = vec![CREATE_SCHEMA];
    put_text(&mut bytes, name);
    bytes
}

pub(crate) fn drop_schema(name: &str) -> Vec<u8> {
    let mut bytes = vec![DROP_SCHEMA];
    put_text(&mut bytes, name);
    bytes
}

pub(crate) fn drop_table(id: u32) -> Vec<u8> {
    let mut bytes = vec![DROP_TABLE];
    put_number(&mut bytes, u64::from(id));
    bytes
}

pub(crate) fn create_index(table: u32, index: &IndexDef) -> Vec<u8> {
    let mut bytes = vec![CREATE_INDEX];
    put_number(&mut bytes, u64::from(table));
    put_index(&mut bytes, index);
    bytes
}

pub(crate) fn drop_index(table: u32, name: &str) -> Vec<u8> {
    let mut bytes = vec![DROP_INDEX];
    put_number(&mut bytes, u64::from(table));
    put_bytes(&mut bytes, name.as_bytes());
    bytes
}

pub(crate) fn add_column(table: u32, column: &ColumnDef) -> Vec<u8> {
    let mut bytes = vec![ADD_COLUMN];
    put_number(&mut bytes, u64::from(table));
    put_column(&mut bytes, column);
    bytes
}

pub(crate) fn truncate_table(id: u32, new: u32) -> Vec<u8> {
    let mut bytes = vec![TRUNCATE];
    put_number(&mut bytes, u64::from(id));
    put_number(&mut bytes, u64::from(new));
    bytes
}

pub(crate) fn create_sequence(id: u32, sequence: &SequenceDef) -> Vec<u8> {
    let in_public = sequence.schema == PUBLIC;
    let mut bytes = of_table(
        if in_public {
            CREATE_SEQUENCE
        } else {
            CREATE_SEQUENCE_IN
        },
        id,
    );
    if !in_public {
        put_text(&mut bytes, &sequence.schema);
    }
    sequence.put(&mut bytes);
    bytes
}

/// A block of its own.
pub(crate) fn set_sequence(id: u32, base: i64, places: u64) -> Vec<u8> {
    let mut bytes = of_table(SET_SEQUENCE, id);
    put_number(&mut bytes, base.cast_unsigned());
    put_number(&mut bytes, places);
    bytes
}

pub(crate) fn drop_sequence(id: u32) -> Vec<u8> {
    let mut bytes = vec![DROP_SEQUENCE];
    put_number(&mut bytes, u64::from(id));
    bytes
}

/// A block of its own.
pub(crate) fn advance_sequence(id: u32, upto: u64) -> Vec<u8> {
    let mut bytes = vec![ADVANCE_SEQUENCE];
    put_number(&mut bytes, u64::from(id));
    put_number(&mut bytes, upto);
    bytes
}

/// The records of a block, in order. `Some(None)` stands for one that cannot be read; nothing follows it.
pub(crate) fn records(block: &[u8]) -> impl Iterator<Item = Option<Record<'_>>> {
    let mut reader = Reader::new(block);
    let mut broken = false;
    std::iter::from_fn(move || {
        if broken || reader.is_empty() {
            return None;
        }
        let record = record(&mut reader);
        broken = record.is_none();
        Some(record)
    })
}

#[inline]
fn record<'a>(reader: &mut Reader<'a>) -> Option<Record<'a>> {
    let code = reader.byte()?;
    Some(match code {
        CREATE_TABLE => {
            let (id, table) = read_table(reader)?;
            Record::CreateTable(id, table)
        }
        DROP_TABLE => Record::DropTable(reader.number32()?),
        CREATE_INDEX => Record::CreateIndex(reader.number32()?, read_index(reader)?),
        DROP_INDEX => Record::DropIndex(reader.number32()?, reader.text()?),
        ADD_COLUMN => Record::AddColumn(reader.number32()?, read_column(reader)?),
        TRUNCATE => Record::Truncate(reader.number32()?, reader.number32()?),
        CREATE_SEQUENCE => Record::CreateSequence(reader.number32()?, SequenceDef::read(reader)?),
        DROP_SEQUENCE => Record::DropSequence(reader.number32()?),
        ADVANCE_SEQUENCE => Record::AdvanceSequence(reader.number32()?, reader.number()?),
        CREATE_TABLE_WITH_REST => {
            let (id, table) = read_table(reader)?;
            Record::CreateTable(id, read_rest(reader, table)?)
        }
        ADD_FOREIGN_KEY => Record::AddForeignKey(reader.number32()?, read_foreign_key(reader)?),
        ADD_CHECK => Record::AddCheck(reader.number32()?, read_check(reader)?),
        DROP_CONSTRAINT => Record::DropConstraint(reader.number32()?, reader.text()?),
        CREATE_SCHEMA => Record::CreateSchema(reader.text()?),
        DROP_SCHEMA => Record::DropSchema(reader.text()?),
        SET_SEQUENCE => {
            let (id, base) = (reader.number32()?, reader.number()?.cast_signed());
            Record::SetSequence(id, base, reader.number()?)
        }
        CREATE_SEQUENCE_IN => {
            let (id, schema) = (reader.number32()?, reader.text()?);
            Record::CreateSequence(id, SequenceDef::read(reader)?.in_schema(&schema))
        }
        INSERT | REPLACE | PATCH | DELETE => {
            let (table, rid) = (reader.number32()?, Rid(reader.number32()?));
            match code {
                DELETE => Record::Delete { table, rid },
                PATCH => {
                    let patch = Patch(*reader);
                    loop {
                        reader.number()?;
                        if reader.bytes()?.is_empty() {
                            break;
                        }
                    }
                    Record::Patch { table, rid, patch }
                }
                _ => Record::Row {
                    table,
                    rid,
                    row: reader.bytes()?,
                },
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn patches_lead_from_before_to_after(before in prop::collection::vec(0_u8..4, 0..200), changes in prop::collection::vec((0_usize..200, 0_u8..4), 0..20)) {
            let mut after = before.clone();
            for (at, value) in changes {
                if let Some(place) = after.get_mut(at) {
                    *place = value;
                }
            }
            let mut bytes = Vec::new();
            put_bytes_of_row(&mut bytes, 3, Rid(9), Some(&before), Some(&after), true);
            put_bytes_of_row(&mut bytes, 3, Rid(10), Some(&before), None, true);
            let read: Vec<_> = records(&bytes).map(|record| record.expect("sound")).collect();
            prop_assert_eq!(read.len(), 2);
            match &read[0] {
                Record::Row { row, .. } => prop_assert_eq!(*row, &after[..]),
                Record::Patch { patch, .. } => {
                    let mut row = before.clone();
                    prop_assert!(patch.apply(&mut row));
                    prop_assert_eq!(row, after);
                }
                other => prop_assert!(false, "{:?}", other),
            }
            prop_assert_eq!(&read[1], &Record::Delete { table: 3, rid: Rid(10) });
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for record in records(&bytes).flatten() {
                if let Record::Patch { patch, .. } = record {
                    patch.apply(&mut [0; 50]);
                }
            }
        }
    }

    #[test]
    fn small_changes_of_long_rows_are_short() {
        let before = vec![7; 600];
        let mut after = before.clone();
        after[300] = 8;
        let mut bytes = Vec::new();
        put_bytes_of_row(&mut bytes, 1, Rid(1), Some(&before), Some(&after), true);
        assert!(bytes.len() < 16, "{}", bytes.len());
    }
}
