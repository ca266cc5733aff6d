//! The table of types: the manual's is the program's, names come back, and what there is not is refused with a hint.

use super::*;
use crate::catalog::pg_type_of;
use crate::write::column::{Column, ColumnDefault};
use arrow::datatypes::DataType as Arrow;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

const MANUAL: &str = include_str!("../../../../../docs/src/datafusion/server-types.md");

fn of_sql(text: &str) -> Result<(Declared, Type), Refusal> {
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text);
    let of = parser.and_then(|mut parser| parser.parse_data_type());
    store_type(&of.unwrap_or_else(|error| panic!("{text}: {error}")))
}

/// The rows of the manual's table under a heading.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, behind) = MANUAL.split_once(&format!("\n## {heading}\n")).expect(heading);
    let lines = behind.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// What stands in backticks.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_manual_s_table_is_what_tables_have() {
    let rows = table("Types");
    assert!(rows.len() >= 20, "{rows:?}");
    let mut told = Vec::new();
    for row in &rows {
        let [of, shown, kept, ..] = row.as_slice() else {
            panic!("too few cells: {row:?}");
        };
        for name in names(of) {
            let (declared, stored) = of_sql(name).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            assert_eq!(declared.to_string(), names(shown)[0], "{name}");
            assert_eq!(stored.to_string(), names(kept)[0], "{name}");
            told.push(declared.of.kind);
        }
    }
    // And all of them are told.
    for kind in (0..5000).filter_map(values::Type::of).map(|of| of.kind) {
        let has = of_sql(kind.name()).is_ok_and(|(declared, _)| declared.of.kind == kind);
        assert!(!has || told.contains(&kind), "{kind:?} is not in the manual");
    }
}

#[test]
fn what_there_is_not_says_what_to_use() {
    let rows = table("What there is not");
    assert!(rows.len() >= 8, "{rows:?}");
    for row in rows {
        for name in names(row[0]) {
            let refused = of_sql(name).expect_err(name);
            assert_eq!(refused.code, "0A000", "{name}");
            let hint = refused.hint.unwrap_or_else(|| panic!("{name}: no hint"));
            let known: Vec<&str> = names(row[1]);
            assert!(
                !known.is_empty() && known.iter().all(|word| hint.contains(word)),
                "{name}: {hint}"
            );
        }
    }
    for (name, code, message) in [
        ("foo", "42704", "type \"foo\" does not exist"),
        ("serial", "42704", "type \"serial\" does not exist"),
        ("citext", "42704", "type \"citext\" does not exist"),
        ("blob", "42704", "type \"blob\" does not exist"),
        (
            "varchar(0)",
            "22023",
            "length for type varchar must be at least 1",
        ),
        ("char(0)", "22023", "length for type char must be at least 1"),
        (
            "varchar(10485761)",
            "22023",
            "length for type varchar cannot exceed 10485760",
        ),
        (
            "numeric(0)",
            "22023",
            "NUMERIC precision 0 must be between 1 and 1000",
        ),
        (
            "numeric(1001)",
            "22023",
            "NUMERIC precision 1001 must be between 1 and 1000",
        ),
        (
            "numeric(39,2)",
            "0A000",
            "columns of type numeric(39,2) are not supported",
        ),
        (
            "numeric(5,-2)",
            "0A000",
            "columns of type numeric(5,-2) are not supported",
        ),
        (
            "float(54)",
            "22023",
            "precision for type float must be less than 54 bits",
        ),
        (
            "float(0)",
            "22023",
            "precision for type float must be at least 1 bit",
        ),
        ("cidr", "0A000", "columns of type cidr are not supported"),
        ("\"char\"", "0A000", "columns of type \"char\" are not supported"),
        (
            "time with time zone",
            "0A000",
            "columns of type time with time zone are not supported",
        ),
        (
            "interval year to month",
            "0A000",
            "columns of type interval with fields are not supported",
        ),
        ("public.thing", "42704", "type \"public.thing\" does not exist"),
    ] {
        let refused = of_sql(name).expect_err(name);
        assert_eq!((refused.code, refused.message.as_str()), (code, message));
    }
}

#[test]
fn names_of_sql_and_of_postgresql() {
    for (name, shown, stored) in [
        ("int", "integer", Type::I32),
        ("INT4", "integer", Type::I32),
        ("pg_catalog.int8", "bigint", Type::I64),
        ("float", "double precision", Type::F64),
        ("float(24)", "real", Type::F32),
        ("float8", "double precision", Type::F64),
        (
            "decimal(7)",
            "numeric(7,0)",
            Type::Decimal {
                precision: 7,
                scale: 0,
            },
        ),
        (
            "dec(7,3)",
            "numeric(7,3)",
            Type::Decimal {
                precision: 7,
                scale: 3,
            },
        ),
        (
            "numeric(3,5)",
            "numeric(3,5)",
            Type::Decimal {
                precision: 5,
                scale: 5,
            },
        ),
        ("varchar", "character varying", Type::TEXT),
        ("varchar(10)", "character varying(10)", Type::Text { max: 40 }),
        ("varchar(10485760)", "character varying(10485760)", Type::TEXT),
        ("char", "character(1)", Type::Text { max: 4 }),
        ("bpchar(3)", "character(3)", Type::Text { max: 12 }),
        ("bool", "boolean", Type::Bool),
        ("timestamptz", "timestamp with time zone", Type::TimestampTz),
        ("timestamp(3)", "timestamp(3) without time zone", Type::Timestamp),
        ("timestamptz(9)", "timestamp(6) with time zone", Type::TimestampTz),
        ("time(0)", "time(0) without time zone", Type::I64),
        ("interval(2)", "interval(2)", Type::FixedBytes { bytes: 16 }),
        ("int[]", "integer[]", Type::TEXT),
        ("int[3][2]", "integer[]", Type::TEXT),
        ("_int4", "integer[]", Type::TEXT),
        ("varchar(5)[]", "character varying(5)[]", Type::TEXT),
        ("oid", "oid", Type::I64),
        ("name", "name", Type::Text { max: 63 }),
    ] {
        let (declared, kept) = of_sql(name).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!((declared.to_string().as_str(), kept), (shown, stored), "{name}");
        assert_eq!(Declared::parse(shown), Some(declared), "{shown}");
    }
    for text in [
        "",
        "foo",
        "integer(3)",
        "numeric(",
        "numeric(a)",
        "character varying(0)",
        "timestamp(3) with",
        "[]",
    ] {
        assert_eq!(Declared::parse(text), None, "{text}");
    }
    assert_eq!(
        Declared::parse("character").map(|of| of.to_string()).as_deref(),
        Some("character(1)")
    );
    assert_eq!(
        Declared::parse("bpchar").map(|of| of.to_string()).as_deref(),
        Some("bpchar")
    );
}

#[test]
fn the_dictionary_keeps_what_the_store_does_not_tell() {
    for (name, needed) in [
        ("integer", false),
        ("bigint", false),
        ("numeric(12,2)", false),
        ("numeric(38,10)", false),
        ("numeric", true),
        ("text", false),
        ("varchar(10)", true),
        ("varchar", true),
        ("char(3)", true),
        ("uuid", false),
        ("jsonb", true),
        ("bytea", false),
        ("time", true),
        ("interval", true),
        ("timestamp(3)", true),
        ("timestamptz", false),
        ("oid", true),
        ("integer[]", true),
    ] {
        let (declared, stored) = of_sql(name).expect(name);
        assert_eq!(needs_entry(&declared, stored), needed, "{name}");
        assert_eq!(Declared::parse(&declared.to_string()), Some(declared), "{name}");
    }
    // What the store alone says needs no entry, and comes back.
    for stored in [
        Type::I8,
        Type::FixedText { bytes: 7 },
        Type::FixedBytes { bytes: 16 },
        Type::Bytes { max: 9 },
        Type::Text { max: 0 },
        Type::Text { max: 10 },
        Type::Decimal {
            precision: 3,
            scale: 3,
        },
    ] {
        let of = declared(stored);
        assert!(!needs_entry(&of, stored));
        assert_eq!(Declared::parse(&of.to_string()), Some(of));
    }
}

#[test]
fn the_planner_sees_what_was_declared() {
    for (name, oid, modifier) in [
        ("smallint", 21, -1),
        ("integer", 23, -1),
        ("bigint", 20, -1),
        ("real", 700, -1),
        ("double precision", 701, -1),
        ("boolean", 16, -1),
        ("text", 25, -1),
        ("varchar", 1043, -1),
        ("varchar(10)", 1043, 14),
        ("char(3)", 1042, 7),
        ("name", 19, -1),
        ("bytea", 17, -1),
        ("date", 1082, -1),
        ("time", 1083, -1),
        ("time(3)", 1083, 3),
        ("timestamp", 1114, -1),
        ("timestamp(0)", 1114, 0),
        ("timestamptz", 1184, -1),
        ("interval", 1186, -1),
        ("uuid", 2950, -1),
        ("json", 114, -1),
        ("jsonb", 3802, -1),
        ("oid", 26, -1),
        ("numeric", 1700, -1),
        ("numeric(10,2)", 1700, (10 << 16 | 2) + 4),
        ("numeric(3,5)", 1700, (3 << 16 | 5) + 4),
        ("integer[]", 1007, -1),
        ("varchar(4)[]", 1015, 8),
        ("timestamptz[]", 1185, -1),
    ] {
        let (declared, stored) = of_sql(name).expect(name);
        let column = Column {
            name: "c".to_owned(),
            declared,
            stored,
            nullable: false,
            default: ColumnDefault::None,
            identity: None,
        };
        let field = declared_arrow_field(&column);
        let of = pg_type_of(&field);
        assert_eq!((of.oid, of.modifier), (oid, modifier), "{name}");
        assert!(!field.is_nullable());
    }
    let (declared, stored) = of_sql("time").expect("a type");
    let column = Column {
        name: "c".to_owned(),
        declared,
        stored,
        nullable: true,
        default: ColumnDefault::None,
        identity: None,
    };
    assert!(matches!(
        declared_arrow_field(&column).data_type(),
        Arrow::Time64(_)
    ));
    // A dictionary that says it of another column changes nothing.
    let wrong = Column {
        stored: Type::I32,
        ..column
    };
    let of = pg_type_of(&declared_arrow_field(&wrong));
    assert_eq!(of.oid, 23);
}
