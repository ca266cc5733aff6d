//! PostgreSQL's types of Arrow's.

use super::typed::{JSONB, declared, extension};
use arrow::datatypes::{DataType, Field};

/// A type as `pg_attribute` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PgType {
    /// Row of `pg_type`.
    pub oid: i32,
    /// `atttypmod`: precision and scale of numbers, else -1.
    pub modifier: i32,
}

/// Type and type of arrays of it, bytes (-1: any number), name in `information_schema`.
const TYPES: &[(i32, i32, i16, &str)] = &[
    (16, 1000, 1, "boolean"),
    (17, 1001, -1, "bytea"),
    (19, 1003, 64, "name"),
    (20, 1016, 8, "bigint"),
    (21, 1005, 2, "smallint"),
    (23, 1007, 4, "integer"),
    (25, 1009, -1, "text"),
    (26, 1028, 4, "oid"),
    (114, 199, -1, "json"),
    (700, 1021, 4, "real"),
    (701, 1022, 8, "double precision"),
    (869, 1041, -1, "inet"),
    (1042, 1014, -1, "character"),
    (1043, 1015, -1, "character varying"),
    (1082, 1182, 4, "date"),
    (1083, 1183, 8, "time without time zone"),
    (1114, 1115, 8, "timestamp without time zone"),
    (1184, 1185, 8, "timestamp with time zone"),
    (1186, 1187, 16, "interval"),
    (1700, 1231, -1, "numeric"),
    (2950, 2951, 16, "uuid"),
    (3802, 3807, -1, "jsonb"),
];

/// The type that clients are told for a column of this Arrow type. Numbers without sign get the next wider type with one; structures are
/// shown as JSON.
pub fn pg_type(of: &DataType) -> PgType {
    let plain = |oid| PgType { oid, modifier: -1 };
    match of {
        DataType::Boolean => plain(16),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => plain(21),
        DataType::Int32 | DataType::UInt16 => plain(23),
        DataType::Int64 | DataType::UInt32 => plain(20),
        DataType::UInt64 => plain(1700),
        DataType::Float16 | DataType::Float32 => plain(700),
        DataType::Float64 => plain(701),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => PgType {
            oid: 1700,
            modifier: (i32::from(*precision) << 16 | i32::from(*scale) & 0x7ff) + 4,
        },
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            plain(17)
        }
        DataType::Date32 | DataType::Date64 => plain(1082),
        DataType::Time32(_) | DataType::Time64(_) => plain(1083),
        DataType::Timestamp(_, None) => plain(1114),
        DataType::Timestamp(_, Some(_)) => plain(1184),
        DataType::Interval(_) | DataType::Duration(_) => plain(1186),
        DataType::Dictionary(_, value) => pg_type(value),
        DataType::RunEndEncoded(_, value) => pg_type(value.data_type()),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => {
            let element = pg_type(item.data_type()).oid;
            // Arrays of arrays are arrays of the same type.
            let array = TYPES
                .iter()
                .find(|known| known.0 == element)
                .map_or(element, |known| known.1);
            plain(array)
        }
        DataType::Struct(_) | DataType::Map(..) | DataType::Union(..) => plain(114),
        _ => plain(25),
    }
}

/// `int2vector` and `oidvector`: lists that clients are shown as texts.
const VECTORS: [i32; 2] = [22, 30];

/// Whether values of a PostgreSQL type come as this type of Arrow's. What casts a column keeps the field's metadata in places, which is then that
/// of another type.
fn comes_as(oid: i32, of: &DataType) -> bool {
    match of {
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => {
            matches!(oid, 19 | 869 | 1042 | 1043) || TYPES.iter().any(|known| known.1 == oid)
        }
        DataType::Int64 => oid == 26,
        DataType::List(_) if VECTORS.contains(&oid) => true,
        other => pg_type(other).oid == oid,
    }
}

/// The same of a field, which may say that its values are UUIDs or JSON, or what their type was declared as.
pub fn pg_type_of(field: &Field) -> PgType {
    let plain = |oid| PgType { oid, modifier: -1 };
    if let Some((oid, modifier)) = declared(field)
        && comes_as(oid, field.data_type())
    {
        return PgType { oid, modifier };
    }
    match (extension(field), field.data_type()) {
        (Some("arrow.uuid"), DataType::FixedSizeBinary(16)) => plain(2950),
        (Some("arrow.json"), _) if field.metadata().contains_key(JSONB) => plain(3802),
        (Some("arrow.json"), _) => plain(114),
        (_, of) => pg_type(of),
    }
}

/// Bytes of a value; -1: as many as it needs.
pub(crate) fn length(oid: i32) -> i16 {
    TYPES
        .iter()
        .find(|known| known.0 == oid)
        .map_or(-1, |known| known.2)
}

/// Name in `information_schema`.
pub(crate) fn name(oid: i32) -> &'static str {
    TYPES
        .iter()
        .find(|known| known.0 == oid)
        .map_or("ARRAY", |known| known.3)
}

/// Whether a type is of arrays.
pub(crate) fn is_array(oid: i32) -> bool {
    TYPES.iter().any(|known| known.1 == oid)
}

/// `attalign`
pub(crate) fn align(oid: i32) -> &'static str {
    match (oid, length(oid)) {
        (19 | 2950, _) | (_, 1) => "c",
        (_, 2) => "s",
        (_, 8 | 16) | (1016 | 1022 | 1115 | 1183 | 1185 | 1187, _) => "d",
        _ => "i",
    }
}

/// `attstorage`
pub(crate) fn storage(oid: i32) -> &'static str {
    match (oid, length(oid)) {
        (1700, _) => "m",
        (_, -1) => "x",
        _ => "p",
    }
}

/// `attcollation`: that of the database, or C.
pub(crate) fn collation(oid: i32) -> i32 {
    match oid {
        25 | 1009 | 1042 | 1014 | 1043 | 1015 => 100,
        19 | 1003 => 950,
        _ => 0,
    }
}

/// Types that only system tables have, and their names.
const OF_SYSTEM: &[(i32, &str)] = &[
    (18, "\"char\""),
    (22, "int2vector"),
    (24, "regproc"),
    (27, "tid"),
    (28, "xid"),
    (29, "cid"),
    (30, "oidvector"),
    (194, "pg_node_tree"),
    (1033, "aclitem"),
    (1266, "time with time zone"),
    (1560, "bit"),
    (1562, "bit varying"),
    (2202, "regprocedure"),
    (2205, "regclass"),
    (2206, "regtype"),
    (2249, "record"),
    (2275, "cstring"),
    (2276, "\"any\""),
    (2277, "anyarray"),
    (2278, "void"),
    (2281, "internal"),
    (2283, "anyelement"),
    (4089, "regnamespace"),
    (4096, "regrole"),
];

/// `format_type(oid, modifier)`.
pub(crate) fn format_type(oid: i32, modifier: Option<i32>) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    if let Some(of) = TYPES.iter().find(|known| known.1 == oid) {
        return format!("{}[]", format_type(of.0, modifier));
    }
    let limit = modifier.unwrap_or(-1);
    match oid {
        1042 if limit > 4 => format!("character({})", limit - 4),
        // A `character` without a length is one character long; this is not.
        1042 if modifier.is_some() => "bpchar".to_owned(),
        1043 if limit > 4 => format!("character varying({})", limit - 4),
        1700 if limit >= 4 => {
            let digits = limit - 4;
            format!("numeric({},{})", digits >> 16 & 0xffff, digits & 0x7ff)
        }
        1083 | 1114 | 1184 if limit >= 0 => {
            let (name, zone) = name(oid).split_once(' ').unwrap_or((name(oid), ""));
            format!("{name}({limit}) {zone}")
        }
        1186 if limit >= 0 && limit & 0xffff != 0xffff => format!("interval({})", limit & 0xffff),
        _ => {
            let own = TYPES.iter().find(|known| known.0 == oid).map(|known| known.3);
            let of_system = || OF_SYSTEM.iter().find(|known| known.0 == oid).map(|known| known.1);
            own.or_else(of_system).unwrap_or("???").to_owned()
        }
    }
}

/// Types and their own names (`udt_name`).
const NAMES: &[(i32, &str)] = &[
    (16, "bool"),
    (17, "bytea"),
    (19, "name"),
    (20, "int8"),
    (21, "int2"),
    (23, "int4"),
    (25, "text"),
    (26, "oid"),
    (114, "json"),
    (700, "float4"),
    (701, "float8"),
    (869, "inet"),
    (1042, "bpchar"),
    (1043, "varchar"),
    (1082, "date"),
    (1083, "time"),
    (1114, "timestamp"),
    (1184, "timestamptz"),
    (1186, "interval"),
    (1700, "numeric"),
    (2950, "uuid"),
    (3802, "jsonb"),
    (1000, "_bool"),
    (1001, "_bytea"),
    (1003, "_name"),
    (1016, "_int8"),
    (1005, "_int2"),
    (1007, "_int4"),
    (1009, "_text"),
    (1014, "_bpchar"),
    (1015, "_varchar"),
    (1021, "_float4"),
    (1022, "_float8"),
    (1028, "_oid"),
    (1182, "_date"),
    (1183, "_time"),
    (1187, "_interval"),
    (199, "_json"),
    (2951, "_uuid"),
    (3807, "_jsonb"),
    (1115, "_timestamp"),
    (1185, "_timestamptz"),
    (1231, "_numeric"),
];

/// The type's own name.
pub(crate) fn short_name(oid: i32) -> &'static str {
    NAMES
        .iter()
        .find(|known| known.0 == oid)
        .map_or("text", |known| known.1)
}

/// The type of a name, own or SQL's.
pub(crate) fn number(of: &str) -> Option<i32> {
    let own = NAMES.iter().find(|known| known.1 == of).map(|known| known.0);
    own.or_else(|| TYPES.iter().find(|known| known.3 == of).map(|known| known.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn types_are_postgresql_s() {
        assert_eq!(pg_type(&DataType::Utf8View).oid, 25);
        assert_eq!(pg_type(&DataType::Decimal128(10, 2)).modifier, (10 << 16 | 2) + 4);
        let list = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
        assert_eq!(pg_type(&list).oid, 1016);
    }

    #[test]
    fn types_are_written_as_postgresql_writes_them() {
        for (oid, modifier, text) in [
            (1043, Some(14), "character varying(10)"),
            (1043, Some(-1), "character varying"),
            (1015, Some(14), "character varying(10)[]"),
            (1042, Some(5), "character(1)"),
            (1042, Some(-1), "bpchar"),
            (1042, None, "character"),
            (1700, Some((10 << 16 | 2) + 4), "numeric(10,2)"),
            (1700, Some((10 << 16) + 4), "numeric(10,0)"),
            (1114, Some(3), "timestamp(3) without time zone"),
            (1184, Some(-1), "timestamp with time zone"),
            (1007, Some(-1), "integer[]"),
            (18, None, "\"char\""),
            (0, None, "-"),
            (999_999, None, "???"),
        ] {
            assert_eq!(format_type(oid, modifier), text);
        }
    }

    #[test]
    fn fields_say_what_they_were_declared_as() {
        use super::super::typed::metadata_of;
        let of = |data_type, oid, modifier| {
            let field = Field::new("c", data_type, true).with_metadata(metadata_of(oid, modifier));
            let of = pg_type_of(&field);
            (of.oid, of.modifier)
        };
        assert_eq!(of(DataType::Utf8View, 1043, 14), (1043, 14));
        assert_eq!(of(DataType::Utf8View, 1007, -1), (1007, -1));
        assert_eq!(of(DataType::Int64, 26, -1), (26, -1));
        assert_eq!(of(DataType::Decimal128(38, 10), 1700, -1), (1700, -1));
        assert_eq!(of(DataType::FixedSizeBinary(16), 2950, -1), (2950, -1));
        assert_eq!(
            (of(DataType::Utf8View, 114, -1), of(DataType::Utf8View, 3802, -1)),
            ((114, -1), (3802, -1))
        );
        // The metadata of a column that was cast.
        assert_eq!(of(DataType::Int32, 1043, 14), (23, -1));
    }
}
