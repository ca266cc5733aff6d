//! Numbers, texts and definitions as bytes: what redo records and the checkpoint's head are made of.
//!
//! Lengths and numbers are LEB128: seven bits a byte, the lowest first. Reading checks every bound and gives `None` for what
//! cannot be.

use crate::constant::Constant;
use crate::schema::{ColumnDef, IndexDef, TableDef};
use crate::value::Type;

/// Appends a number.
#[inline]
pub(crate) fn put_number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends bytes after their length.
#[inline]
pub(crate) fn put_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    put_number(bytes, value.len() as u64);
    bytes.extend_from_slice(value);
}

pub(crate) fn put_text(bytes: &mut Vec<u8>, value: &str) {
    put_bytes(bytes, value.as_bytes());
}

/// Reads what the functions above wrote.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    #[inline]
    pub(crate) fn number32(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    #[inline]
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// What is not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    pub(crate) fn list<T>(&mut self, mut each: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        (0..count).map(|_| each(self)).collect()
    }
}

fn put_type(bytes: &mut Vec<u8>, data_type: Type) {
    let (code, first, second) = match data_type {
        Type::Bool => (0, 0, 0),
        Type::I8 => (1, 0, 0),
        Type::I16 => (2, 0, 0),
        Type::I32 => (3, 0, 0),
        Type::I64 => (4, 0, 0),
        Type::F64 => (5, 0, 0),
        Type::Decimal { precision, scale } => (6, u32::from(precision), u32::from(scale)),
        Type::Date => (7, 0, 0),
        Type::Timestamp => (8, 0, 0),
        Type::Text { max } => (9, max, 0),
        Type::FixedText { bytes } => (10, bytes, 0),
        Type::Bytes { max } => (11, max, 0),
        Type::FixedBytes { bytes } => (12, bytes, 0),
        Type::F32 => (13, 0, 0),
        Type::TimestampTz => (14, 0, 0),
        Type::Uuid => (15, 0, 0),
    };
    bytes.push(code);
    put_number(bytes, u64::from(first));
    put_number(bytes, u64::from(second));
}

fn read_type(reader: &mut Reader<'_>) -> Option<Type> {
    let (code, first, second) = (reader.byte()?, reader.number32()?, reader.number32()?);
    Some(match code {
        0 => Type::Bool,
        1 => Type::I8,
        2 => Type::I16,
        3 => Type::I32,
        4 => Type::I64,
        5 => Type::F64,
        6 => Type::Decimal {
            precision: u8::try_from(first).ok()?,
            scale: u8::try_from(second).ok()?,
        },
        7 => Type::Date,
        8 => Type::Timestamp,
        9 => Type::Text { max: first },
        10 => Type::FixedText { bytes: first },
        11 => Type::Bytes { max: first },
        12 => Type::FixedBytes { bytes: first },
        13 => Type::F32,
        14 => Type::TimestampTz,
        15 => Type::Uuid,
        _ => return None,
    })
}

/// Appends an index's definition.
pub(crate) fn put_index(bytes: &mut Vec<u8>, index: &IndexDef) {
    put_text(bytes, &index.name);
    bytes.push(u8::from(index.unique));
    put_number(bytes, index.columns.len() as u64);
    index.columns.iter().for_each(|column| put_text(bytes, column));
}

/// Reads an index's definition.
pub(crate) fn read_index(reader: &mut Reader<'_>) -> Option<IndexDef> {
    Some(IndexDef {
        name: reader.text()?,
        unique: reader.byte()? != 0,
        columns: reader.list(Reader::text)?,
    })
}

/// Bits of a column.
const NULLABLE: u8 = 1;
const HAS_DEFAULT: u8 = 2;

/// Appends a column's definition.
pub(crate) fn put_column(bytes: &mut Vec<u8>, column: &ColumnDef) {
    put_text(bytes, &column.name);
    put_type(bytes, column.data_type);
    let nullable = if column.nullable { NULLABLE } else { 0 };
    match &column.default {
        None => bytes.push(nullable),
        Some(default) => {
            bytes.push(nullable | HAS_DEFAULT);
            default.put(bytes);
        }
    }
}

/// Reads a column's definition.
pub(crate) fn read_column(reader: &mut Reader<'_>) -> Option<ColumnDef> {
    let (name, data_type, bits) = (reader.text()?, read_type(reader)?, reader.byte()?);
    let default = match bits & HAS_DEFAULT {
        0 => None,
        _ => Some(Constant::read(reader)?),
    };
    Some(ColumnDef {
        name,
        data_type,
        nullable: bits & NULLABLE != 0,
        default,
    })
}

/// Appends a table's definition, without its schema and its constraints ([`crate::schema::put_rest`]).
pub(crate) fn put_table(bytes: &mut Vec<u8>, id: u32, table: &TableDef) {
    put_number(bytes, u64::from(id));
    put_text(bytes, &table.name);
    put_number(bytes, table.columns.len() as u64);
    table.columns.iter().for_each(|column| put_column(bytes, column));
    put_number(bytes, table.indexes.len() as u64);
    table.indexes.iter().for_each(|index| put_index(bytes, index));
}

/// Reads that; one that no table can be made of is none.
pub(crate) fn read_table(reader: &mut Reader<'_>) -> Option<(u32, TableDef)> {
    let id = reader.number32()?;
    let name = reader.text()?;
    let columns = reader.list(read_column)?;
    let indexes = reader.list(read_index)?;
    let table = TableDef {
        columns,
        indexes,
        ..TableDef::new(&name)
    };
    table.check().is_ok().then_some((id, table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, value);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.number(), Some(value));
            assert!(reader.is_empty());
            assert_eq!(Reader::new(&bytes[..bytes.len() - 1]).number(), None);
        }
        assert_eq!(Reader::new(&[0xff; 10]).number(), None);
        assert_eq!(Reader::new(&[5, 1, 2]).bytes(), None);
    }

    #[test]
    fn definitions_come_back_and_nonsense_does_not() {
        let table = TableDef::new("t")
            .column("a", Type::I64)
            .nullable(
                "b",
                Type::Decimal {
                    precision: 12,
                    scale: 2,
                },
            )
            .column("c", Type::Text { max: 300 })
            .with_column(ColumnDef::new("d", Type::Text { max: 9 }).default_value("new"))
            .with_column(ColumnDef::new("e", Type::F64).nullable().default_value(-1.5))
            .primary_key(&["a"])
            .index("by_b", &["b", "a"]);
        let mut bytes = Vec::new();
        put_table(&mut bytes, 7, &table);
        assert_eq!(read_table(&mut Reader::new(&bytes)), Some((7, table)));
        for cut in 0..bytes.len() {
            assert_eq!(read_table(&mut Reader::new(&bytes[..cut])), None);
        }
    }
}
