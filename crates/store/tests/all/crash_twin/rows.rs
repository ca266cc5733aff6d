//! The bank's tables, and changes of rows that note what they leave.

use corun_store::{RowBuf, RowError, StoreError, Table, TableDef, Transaction, Type};

use crate::crash_twin::history::Effect;
use crate::crash_twin::random::Random;

pub fn account() -> TableDef {
    TableDef::new("account")
        .column("id", Type::I64)
        .column("balance", Type::I64)
        .nullable("note", Type::Text { max: 600 })
        .primary_key(&["id"])
        .index("by_balance", &["balance", "id"])
}

pub fn counter() -> TableDef {
    TableDef::new("counter")
        .column("client", Type::I64)
        .column("count", Type::I64)
        .primary_key(&["client"])
}

pub fn item(name: &str) -> TableDef {
    TableDef::new(name)
        .column("owner", Type::I64)
        .column("number", Type::I32)
        .column("label", Type::Text { max: 40 })
        .nullable("part_of", Type::I32)
        .column("note", Type::Text { max: 300 })
        .primary_key(&["owner", "number"])
        .unique("by_label", &["label"])
        .index("by_part", &["part_of", "owner"])
}

/// Text of up to so many bytes.
pub fn text(random: &mut Random, bytes: u64) -> String {
    let length = random.below(bytes) as usize;
    let letter = (b'a' + random.below(26) as u8) as char;
    std::iter::repeat_n(letter, length).collect()
}

pub fn put(
    transaction: &Transaction<'_>,
    effects: &mut Vec<Effect>,
    table: &Table,
    row: &RowBuf,
) -> Result<(), StoreError> {
    let rid = transaction.insert(table, row)?;
    effects.push(Effect::Put(
        table.name().to_owned(),
        rid.0,
        row.row().encoded().to_vec(),
    ));
    Ok(())
}

pub fn change(
    transaction: &Transaction<'_>,
    effects: &mut Vec<Effect>,
    table: &Table,
    rid: corun_store::Rid,
    set: impl FnOnce(&mut RowBuf) -> Result<(), RowError>,
) -> Result<(), StoreError> {
    let mut after = Vec::new();
    transaction.update(table, rid, |row| {
        set(row)?;
        after = row.row().encoded().to_vec();
        Ok(())
    })?;
    effects.push(Effect::Put(table.name().to_owned(), rid.0, after));
    Ok(())
}
