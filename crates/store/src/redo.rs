//! Redo records: what a transaction changed, as its block in the log has it.
//!
//! ```text
//! insert   1 table rid row           replace  2 table rid row
//! patch    3 table rid count { bytes unchanged before, bytes changed } ...
//! delete   4 table rid               sequence 13 id places that may have been given out
//! 11, 12, 38, 39: sequence made, dropped, set, made in a schema         5 to 10, 32 to 37, 40 to 42: [`Definition`]
//! 43: rows and definitions follow, in any order; only at a block's beginning
//! ```
//!
//! One record for each row a transaction changed, however often it did: the difference between the row before it and after
//! it. Of a transaction that also changes definitions, one for each change, in their order: so that whoever replays it meets each row in the
//! columns in which it was written. There is nothing to undo in a log of committed transactions only.

use crate::codec::{Reader, put_bytes, put_number, put_text};
use crate::definition::Definition;
use crate::row::RowRef;
use crate::schema::PUBLIC;
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
    Define(Definition),
    CreateSequence(u32, SequenceDef),
    DropSequence(u32),
    /// Its places below may have been given out. No definition: it may come in any order with changes of rows.
    AdvanceSequence(u32, u64),
    /// It counts from this number anew, and so many of its places have been given out.
    SetSequence(u32, i64, u64),
}

const INSERT: u8 = 1;
const REPLACE: u8 = 2;
const PATCH: u8 = 3;
const DELETE: u8 = 4;
/// The first code that is of no row.
const DEFINITIONS: u8 = 5;
const CREATE_SEQUENCE: u8 = 11;
const DROP_SEQUENCE: u8 = 12;
const ADVANCE_SEQUENCE: u8 = 13;
const SET_SEQUENCE: u8 = 38;
const CREATE_SEQUENCE_IN: u8 = 39;
const MIXED: u8 = 43;

/// Whether a block changes definitions, and perhaps rows besides.
pub(crate) fn defines(block: &[u8]) -> bool {
    block
        .first()
        .is_some_and(|&code| code >= DEFINITIONS && code != ADVANCE_SEQUENCE)
}

/// Where the records of a block begin.
pub(crate) fn begin(block: &[u8]) -> usize {
    usize::from(block.first() == Some(&MIXED))
}

/// Begins a block that changes rows and definitions.
pub(crate) fn put_mixed(bytes: &mut Vec<u8>) {
    debug_assert!(bytes.is_empty());
    bytes.push(MIXED);
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
pub(crate) fn definition(definition: &Definition) -> Vec<u8> {
    let mut bytes = Vec::new();
    definition.put(&mut bytes);
    bytes
}

fn of_sequence(code: u8, id: u32) -> Vec<u8> {
    let mut bytes = vec![code];
    put_number(&mut bytes, u64::from(id));
    bytes
}

pub(crate) fn create_sequence(id: u32, sequence: &SequenceDef) -> Vec<u8> {
    let in_public = sequence.schema == PUBLIC;
    let code = if in_public {
        CREATE_SEQUENCE
    } else {
        CREATE_SEQUENCE_IN
    };
    let mut bytes = of_sequence(code, id);
    if !in_public {
        put_text(&mut bytes, &sequence.schema);
    }
    sequence.put(&mut bytes);
    bytes
}

/// A block of its own, or behind the record that makes it.
pub(crate) fn set_sequence(id: u32, base: i64, places: u64) -> Vec<u8> {
    let mut bytes = of_sequence(SET_SEQUENCE, id);
    put_number(&mut bytes, base.cast_unsigned());
    put_number(&mut bytes, places);
    bytes
}

pub(crate) fn drop_sequence(id: u32) -> Vec<u8> {
    of_sequence(DROP_SEQUENCE, id)
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
    placed_records(block).map(|(_, record)| record)
}

/// The same, and for each the bytes of the block up to its end.
pub(crate) fn placed_records(block: &[u8]) -> impl Iterator<Item = (usize, Option<Record<'_>>)> {
    let mut reader = Reader::new(&block[begin(block)..]);
    let mut broken = false;
    std::iter::from_fn(move || {
        if broken || reader.is_empty() {
            return None;
        }
        let record = record(&mut reader);
        broken = record.is_none();
        Some((block.len() - reader.rest().len(), record))
    })
}

#[inline]
fn record<'a>(reader: &mut Reader<'a>) -> Option<Record<'a>> {
    let code = reader.byte()?;
    Some(match code {
        CREATE_SEQUENCE => Record::CreateSequence(reader.number32()?, SequenceDef::read(reader)?),
        DROP_SEQUENCE => Record::DropSequence(reader.number32()?),
        ADVANCE_SEQUENCE => Record::AdvanceSequence(reader.number32()?, reader.number()?),
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
        code => Record::Define(Definition::read(code, reader)?),
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
