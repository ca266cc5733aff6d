//! Assignments against what PostgreSQL says (`tests/write/types.txt`, which another test holds against a real one), and what no file tells.

use super::*;
use crate::session::Zone;
use crate::write::column::ColumnDefault;
use crate::write::types::{declared, store_type};
use corun_store::{Options, RowBuf, Store, TableDef};
use corun_wire::values::{Date, FixedOffset, Interval, Numeric, Timestamp};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

const CASES: &str = include_str!("../../../tests/write/types.txt");

fn column(declared: &str) -> Column {
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(declared);
    let of = parser
        .and_then(|mut parser| parser.parse_data_type())
        .expect(declared);
    let (declared, stored) = store_type(&of).expect("it is supported");
    Column {
        name: "c".to_owned(),
        declared,
        stored,
        nullable: true,
        default: ColumnDefault::None,
        identity: None,
    }
}

fn kept_column(stored: corun_store::Type) -> Column {
    Column {
        declared: declared(stored),
        stored,
        ..column("text")
    }
}

fn row_of(column: &Column) -> (Store, RowBuf) {
    let store = Store::in_memory(Options::default()).expect("a store");
    let definition = TableDef::new("t").column("k", corun_store::Type::I64);
    let definition = definition.nullable("c", column.stored).primary_key(&["k"]);
    let table = store.create_table(definition).expect("a table");
    let mut row = table.new_row();
    row.set("k", 1).expect("an integer");
    (store, row)
}

fn text(value: &Value<'_>, zone: &dyn TimeZone) -> String {
    let mut text = Vec::new();
    value.write(&mut text, Format::Text, zone);
    String::from_utf8(text).expect("a text")
}

/// What becomes of a value: its text, or the refusal.
fn assigned(column: &Column, value: Option<&Value<'_>>, zone: &dyn TimeZone) -> Result<String, Refusal> {
    let (_store, mut row) = row_of(column);
    assign(column, 1, value, zone, &mut row)?;
    if let Some(value) = value {
        let constant = store_value(column, value, zone)?;
        let kept = row.row().value(1);
        match (constant.value(), kept) {
            // Rounded by the row.
            (corun_store::Value::Float(_), corun_store::Value::Float(_)) => {}
            (corun_store::Value::Decimal(constant), corun_store::Value::Int(kept)) => {
                assert_eq!(constant, i128::from(kept));
            }
            // Filled up by the row.
            (corun_store::Value::Text(constant), corun_store::Value::Text(kept)) => {
                assert_eq!(
                    constant,
                    kept.trim_end_matches(' ').get(..constant.len()).unwrap_or(kept)
                );
            }
            (constant, kept) => assert_eq!(constant, kept),
        }
    }
    let value = value_of(column, 1, row.row());
    Ok(value.map_or("NULL".to_owned(), |value| text(&value, zone)))
}

fn unescaped(field: &str) -> String {
    let (mut out, mut rest) = (String::new(), field.chars());
    while let Some(c) = rest.next() {
        out.push(match c {
            '\\' => match rest.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                _ => '\\',
            },
            c => c,
        });
    }
    out
}

#[test]
fn as_postgresql_assigns() {
    let zone = Zone::of("Europe/Berlin").expect("a zone").0;
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in CASES.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<String> = line.split('\t').map(unescaped).collect();
        let [of, source, given, rest @ ..] = fields.as_slice() else {
            panic!("too few fields: {line}");
        };
        let wanted = rest.last().unwrap_or_else(|| panic!("no result: {line}"));
        let value = match source.as_str() {
            "unknown" => Value::Text(given.into()),
            source => {
                let source = Declared::parse(source).unwrap_or_else(|| panic!("no type: {source}"));
                read(source.of, given, &zone).unwrap_or_else(|error| panic!("{line}: {error:?}"))
            }
        };
        let found = match assigned(&column(of), Some(&value), &zone) {
            Ok(text) => text,
            Err(refusal) => format!("!{} {}", refusal.code, refusal.message),
        };
        count += 1;
        if found != *wanted {
            wrong.push(format!(
                "{of} <- {source} {given:?}:\n  wanted {wanted}\n  found  {found}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(count > 600, "the file has its cases: {count}");
}

#[test]
fn null_and_the_limits_of_the_store() {
    let utc = FixedOffset::UTC;
    for of in [
        "integer",
        "character(3)",
        "numeric",
        "integer[]",
        "interval",
        "uuid",
    ] {
        assert_eq!(assigned(&column(of), None, &utc), Ok("NULL".to_owned()));
    }
    let not_null = Column {
        nullable: false,
        ..column("integer")
    };
    let store = Store::in_memory(Options::default()).expect("a store");
    let table = store.create_table(
        TableDef::new("t")
            .column("c", corun_store::Type::I32)
            .primary_key(&["c"]),
    );
    let mut row = table.expect("a table").new_row();
    let refused = assign(&not_null, 0, None, &utc, &mut row).expect_err("NULL");
    let what = "null value in column \"c\" violates not-null constraint";
    assert_eq!((refused.code, refused.message.as_str()), ("23502", what));
    // Columns that were made without SQL.
    use corun_store::Type as T;
    let said =
        |stored: T, value: &str| match assigned(&kept_column(stored), Some(&Value::Text(value.into())), &utc)
        {
            Ok(text) => text,
            Err(refusal) => format!("!{} {}", refusal.code, refusal.message),
        };
    assert_eq!(said(T::I8, "127"), "127");
    assert_eq!(said(T::I8, "128"), "!22003 smallint out of range");
    assert_eq!(said(T::Text { max: 4 }, "abcd"), "abcd");
    assert_eq!(
        said(T::Text { max: 4 }, "abcde"),
        "!22001 value too long for type character varying(4)"
    );
    assert_eq!(
        said(T::Text { max: 4 }, "\u{e4}\u{e4}\u{e4}"),
        "!22001 value too long for type character varying(4)"
    );
    assert_eq!(said(T::FixedText { bytes: 4 }, "ab"), "ab  ");
    assert_eq!(said(T::FixedText { bytes: 4 }, "ab    "), "ab  ");
    assert_eq!(
        said(T::FixedText { bytes: 3 }, "\u{e4}\u{e4}"),
        "!22001 value too long for type character(3)"
    );
    assert_eq!(said(T::FixedText { bytes: 3 }, "\u{e4}"), "\u{e4}  ");
    assert_eq!(said(T::FixedBytes { bytes: 2 }, "\\x0102"), "\\x0102");
    assert_eq!(
        said(T::FixedBytes { bytes: 2 }, "\\x01"),
        "!22001 value too short for type bytea"
    );
    assert_eq!(
        said(T::FixedBytes { bytes: 2 }, "\\x010203"),
        "!22001 value too long for type bytea"
    );
    assert_eq!(
        said(
            T::Decimal {
                precision: 4,
                scale: 1
            },
            "999.96"
        ),
        "!22003 numeric field overflow"
    );
    let long = "x".repeat(corun_store::ROW_BYTES_MAX + 1);
    let refused = said(T::TEXT, &long);
    assert!(
        refused.starts_with("!54000 value of column \"c\" is too big"),
        "{}",
        &refused[..80]
    );
}

#[test]
fn details_are_postgresql_s() {
    let refused = |of: &str, text: &str| {
        let refused = assigned(&column(of), Some(&Value::Text(text.into())), &FixedOffset::UTC);
        let refused = refused.expect_err(text);
        (
            refused.detail.unwrap_or_default(),
            refused.hint.unwrap_or_default(),
        )
    };
    let detail = |of, text| refused(of, text).0;
    for (of, text, wanted) in [
        (
            "numeric(5,2)",
            "1000",
            "A field with precision 5, scale 2 must round to an absolute value less than 10^3.",
        ),
        (
            "numeric(2,2)",
            "1",
            "A field with precision 2, scale 2 must round to an absolute value less than 1.",
        ),
        (
            "numeric(3,5)",
            "1",
            "A field with precision 3, scale 5 must round to an absolute value less than 10^-2.",
        ),
        (
            "numeric(5,2)",
            "Infinity",
            "A field with precision 5, scale 2 cannot hold an infinite value.",
        ),
        ("json", "{a}", "Token \"a\" is invalid."),
    ] {
        assert_eq!(detail(of, text), wanted);
    }
    let of_numeric = refused("numeric", "0.00000000001");
    assert!(
        of_numeric.0.contains("28 before the point and 10 behind it"),
        "{of_numeric:?}"
    );
    let refused =
        assigned(&column("integer"), Some(&Value::Bool(true)), &FixedOffset::UTC).expect_err("a mismatch");
    assert_eq!(
        refused.hint.as_deref(),
        Some("You will need to rewrite or cast the expression.")
    );
}

#[test]
fn integers_and_texts_are_not_copied() {
    let utc = FixedOffset::UTC;
    for of in ["text", "character varying(9)", "character(9)", "name", "json"] {
        let given = Value::Text("\"abc\"".into());
        let column = column(of);
        let kept = stored(&column, &given, &utc).expect("it fits");
        let (Stored::Text(std::borrow::Cow::Borrowed(kept)), Value::Text(given)) = (&kept, &given) else {
            panic!("{of}: a copy was made");
        };
        assert_eq!(kept.as_ptr(), given.as_ptr());
    }
    let bytea = column("bytea");
    let given = Value::Bytea(vec![1, 2].into());
    let kept = stored(&bytea, &given, &utc).expect("bytes");
    assert!(matches!(kept, Stored::Bytes(std::borrow::Cow::Borrowed(_))));
    // A field is not copied either, but for the blanks of `char(n)`.
    for (of, copied) in [
        ("text", false),
        ("character varying(9)", false),
        ("character(5)", false),
        ("character(9)", true),
    ] {
        let column = column(of);
        let (_store, mut row) = row_of(&column);
        assign(&column, 1, Some(&Value::Text("abcde".into())), &utc, &mut row).expect("it fits");
        let Some(Value::Text(found)) = value_of(&column, 1, row.row()) else {
            panic!("{of}: a text");
        };
        assert_eq!(matches!(found, std::borrow::Cow::Owned(_)), copied, "{of}");
    }
}

#[test]
fn what_a_dictionary_says_wrongly_is_not_believed() {
    let utc = FixedOffset::UTC;
    let kept = kept_column(corun_store::Type::I64);
    let (_store, mut row) = row_of(&kept);
    assign(&kept, 1, Some(&Value::Int8(i64::MIN)), &utc, &mut row).expect("an integer");
    for wrong in [
        "integer",
        "uuid",
        "text",
        "time",
        "numeric(3,1)",
        "oid",
        "integer[]",
        "boolean",
    ] {
        let said = Column {
            declared: Declared::parse(wrong).expect(wrong),
            ..kept.clone()
        };
        assert_eq!(
            value_of(&said, 1, row.row()),
            Some(Value::Int8(i64::MIN)),
            "{wrong}"
        );
    }
    let kept = kept_column(corun_store::Type::TEXT);
    let (_store, mut row) = row_of(&kept);
    assign(&kept, 1, Some(&Value::Text("{1,".into())), &utc, &mut row).expect("a text");
    let said = Column {
        declared: Declared::parse("integer[]").expect("a type"),
        ..kept.clone()
    };
    assert_eq!(value_of(&said, 1, row.row()), Some(Value::Text("{1,".into())));
}

#[test]
fn ends_of_the_calendar() {
    let utc = FixedOffset::UTC;
    let last = Timestamp::from_unix_microseconds(i64::MAX - 1).expect("a moment");
    for (of, value, wanted) in [
        ("date", Value::Date(Date::LAST), Ok("5874897-12-31")),
        ("date", Value::Date(Date::FIRST), Ok("4714-11-24 BC")),
        ("date", Value::Date(Date::INFINITY), Ok("infinity")),
        (
            "timestamp",
            Value::Timestamp(Timestamp::NEGATIVE_INFINITY),
            Ok("-infinity"),
        ),
        (
            "timestamp",
            Value::Timestamp(Timestamp::FIRST),
            Ok("4714-11-24 00:00:00 BC"),
        ),
        (
            "timestamp",
            Value::Timestamp(last),
            Ok("294247-01-10 04:00:54.775806"),
        ),
        ("timestamp", Value::Timestamp(Timestamp(last.0 + 1)), Err("22008")),
        (
            "timestamp",
            Value::Timestamp(Timestamp(Timestamp::END.0 - 1)),
            Err("22008"),
        ),
        ("timestamp(0)", Value::Timestamp(last), Err("22008")),
    ] {
        let found = assigned(&column(of), Some(&value), &utc);
        match wanted {
            Ok(text) => assert_eq!(found.as_deref(), Ok(text), "{of} {value:?}"),
            Err(code) => assert_eq!(found.map_err(|refusal| refusal.code), Err(code), "{of} {value:?}"),
        }
    }
    // The zone does not lead beyond the calendar.
    let east = FixedOffset(15 * 3600);
    let first = Value::Timestamp(Timestamp::FIRST);
    let refused = assigned(&column("timestamptz"), Some(&first), &east).expect_err("it is before");
    assert_eq!(refused.code, "22008");
}

/// Numbers that look random, the same in each run.
fn numbers(count: usize) -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
    .take(count)
}

#[test]
fn intervals_and_numbers_come_back() {
    let of = column("interval");
    let (_store, mut row) = row_of(&of);
    for number in numbers(2000) {
        let value = Value::Interval(Interval {
            months: number as i32,
            days: (number >> 32) as i32,
            microseconds: number.cast_signed() / 1024,
        });
        assign(&of, 1, Some(&value), &FixedOffset::UTC, &mut row).expect("it fits");
        assert_eq!(value_of(&of, 1, row.row()), Some(value));
    }
    for scale in 0..=38u8 {
        let of = column(&format!("numeric(38,{scale})"));
        let (_store, mut row) = row_of(&of);
        for number in numbers(50) {
            let unscaled = (i128::from(number.cast_signed()) << (number % 64)) % 10i128.pow(38);
            let value = Value::Numeric(Numeric::from_i128(unscaled, scale));
            assign(&of, 1, Some(&value), &FixedOffset::UTC, &mut row).expect("it fits");
            assert_eq!(value_of(&of, 1, row.row()), Some(value));
        }
    }
}

#[test]
fn any_text_is_taken_or_refused() {
    const TYPES: [&str; 24] = [
        "smallint",
        "integer",
        "bigint",
        "real",
        "double precision",
        "numeric",
        "numeric(5,2)",
        "boolean",
        "text",
        "varchar(3)",
        "char(3)",
        "name",
        "bytea",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "interval",
        "uuid",
        "json",
        "jsonb",
        "oid",
        "integer[]",
        "text[]",
    ];
    const PARTS: [&str; 24] = [
        "1",
        "-",
        ".",
        "e",
        " ",
        "\u{e4}",
        "{",
        "}",
        "[",
        "]",
        "\"",
        ",",
        ":",
        "2024",
        "01",
        "\\",
        "x",
        "t",
        "+",
        "null",
        "day",
        "9999999999",
        "\u{1f600}",
        "BC",
    ];
    for of in TYPES {
        let of = column(of);
        let (_store, mut row) = row_of(&of);
        let mut taken = 0;
        for number in numbers(3000) {
            let parts = (0..number % 7).map(|at| PARTS[(number >> (8 * at + 3)) as usize % PARTS.len()]);
            let text: String = parts.collect();
            if assign(
                &of,
                1,
                Some(&Value::Text(text.into())),
                &FixedOffset::UTC,
                &mut row,
            )
            .is_ok()
            {
                assert!(value_of(&of, 1, row.row()).is_some());
                taken += 1;
            }
        }
        // Few texts are values of these.
        let rare = of.declared.of.array
            || matches!(
                of.declared.of.kind,
                Kind::Uuid | Kind::Interval | Kind::Date | Kind::Time | Kind::Timestamp | Kind::Timestamptz
            );
        assert!(taken > 0 || rare, "{}: none was taken", of.declared);
    }
}
