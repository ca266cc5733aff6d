//! Values: written, read back, and what is refused. What PostgreSQL itself writes is compared in the pooler's tests, which start one.

use proptest::prelude::*;

use super::*;
use crate::error::code;

const EAST: FixedOffset = FixedOffset(5 * 3600 + 30 * 60);

fn text(value: &Value<'_>) -> String {
    let mut out = Vec::new();
    value.write(&mut out, Format::Text, &EAST);
    String::from_utf8(out).expect("UTF-8")
}

fn read(kind: Kind, text: &str) -> Result<Value<'_>, crate::error::Refusal> {
    Value::read(Type::single(kind), Format::Text, text.as_bytes(), &EAST)
}

/// What is written of a text that was read.
fn again(kind: Kind, given: &str) -> String {
    text(&read(kind, given).unwrap_or_else(|refusal| panic!("{kind:?} {given}: {refusal:?}")))
}

#[test]
fn texts_that_postgresql_takes() {
    for (kind, given, shown) in [
        (Kind::Bool, " TRU ", "t"),
        (Kind::Bool, "of", "f"),
        (Kind::Int2, " -32768 ", "-32768"),
        (Kind::Int8, "+9223372036854775807", "9223372036854775807"),
        (Kind::Oid, "-1", "4294967295"),
        (Kind::Float4, "1e10", "1e+10"),
        (Kind::Float8, " -Infinity ", "-Infinity"),
        (Kind::Bytea, "\\xDE AD", "\\xdead"),
        (Kind::Bytea, "a\\\\\\001", "\\x615c01"),
        (
            Kind::Uuid,
            "{A0EEBC99-9c0b4ef8-bb6d6bb9bd380a11}",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        (Kind::Date, "20240229", "2024-02-29"),
        (Kind::Date, "0044-03-15 BC", "0044-03-15 BC"),
        (Kind::Date, "-infinity", "-infinity"),
        (Kind::Date, "epoch", "1970-01-01"),
        (Kind::Time, "24:00:00", "24:00:00"),
        (Kind::Time, "04:05", "04:05:00"),
        (
            Kind::Timestamp,
            "2024-02-29T04:05:06.7890",
            "2024-02-29 04:05:06.789",
        ),
        (Kind::Timestamp, "2024-02-29", "2024-02-29 00:00:00"),
        (Kind::Timestamp, "2024-02-29 23:59:60", "2024-03-01 00:00:00"),
        (
            Kind::Timestamptz,
            "2024-02-29 04:05:06",
            "2024-02-29 04:05:06+05:30",
        ),
        (
            Kind::Timestamptz,
            "2024-02-29 04:05:06Z",
            "2024-02-29 09:35:06+05:30",
        ),
        (
            Kind::Timestamptz,
            "2024-02-29 04:05:06 -01:30:15",
            "2024-02-29 11:05:21+05:30",
        ),
        (
            Kind::Timestamptz,
            "0001-01-01 00:00:00+00 BC",
            "0001-01-01 05:30:00+05:30 BC",
        ),
        (
            Kind::Interval,
            "1 year 2 mons -3 days 04:05:06.7",
            "1 year 2 mons -3 days +04:05:06.7",
        ),
        (Kind::Interval, "@ 1 week ago", "-7 days"),
        (
            Kind::Interval,
            "P1Y2M3DT4H5M6.7S",
            "1 year 2 mons 3 days 04:05:06.7",
        ),
        (Kind::Interval, "1.5 days 2h", "1 day 14:00:00"),
        (Kind::Interval, "90", "00:01:30"),
        (Kind::Interval, "0", "00:00:00"),
    ] {
        assert_eq!(again(kind, given), shown, "{kind:?} {given}");
    }
}

#[test]
fn texts_that_are_refused() {
    for (kind, given, sqlstate) in [
        (Kind::Bool, "o", code::INVALID_TEXT_REPRESENTATION),
        (Kind::Int2, "32768", code::NUMERIC_VALUE_OUT_OF_RANGE),
        (Kind::Int4, "1.5", code::INVALID_TEXT_REPRESENTATION),
        (Kind::Int4, "", code::INVALID_TEXT_REPRESENTATION),
        (
            Kind::Int8,
            "99999999999999999999",
            code::NUMERIC_VALUE_OUT_OF_RANGE,
        ),
        (Kind::Oid, "4294967296", code::NUMERIC_VALUE_OUT_OF_RANGE),
        (Kind::Float8, "1e400", code::NUMERIC_VALUE_OUT_OF_RANGE),
        (Kind::Float8, "1e-400", code::NUMERIC_VALUE_OUT_OF_RANGE),
        (Kind::Float8, "abc", code::INVALID_TEXT_REPRESENTATION),
        (Kind::Bytea, "\\x1", code::INVALID_PARAMETER_VALUE),
        (Kind::Bytea, "a\\9", code::INVALID_TEXT_REPRESENTATION),
        (Kind::Uuid, "a0eebc99", code::INVALID_TEXT_REPRESENTATION),
        (Kind::Date, "2023-02-29", code::DATETIME_FIELD_OVERFLOW),
        (Kind::Date, "0000-01-01", code::DATETIME_FIELD_OVERFLOW),
        (Kind::Date, "Feb 29, 2024", code::INVALID_DATETIME_FORMAT),
        (Kind::Time, "25:00", code::DATETIME_FIELD_OVERFLOW),
        (Kind::Time, "24:00:01", code::DATETIME_FIELD_OVERFLOW),
        (
            Kind::Timestamp,
            "2024-01-01 nonsense",
            code::INVALID_DATETIME_FORMAT,
        ),
        (Kind::Timestamp, "300000-01-01", code::DATETIME_FIELD_OVERFLOW),
        (Kind::Interval, "1 fortnight", code::INVALID_DATETIME_FORMAT),
        (Kind::Interval, "", code::INVALID_DATETIME_FORMAT),
        (Kind::Interval, "99999999999 years", "22015"),
    ] {
        let refusal = read(kind, given).expect_err(given);
        assert_eq!(refusal.code, sqlstate, "{kind:?} {given}: {refusal:?}");
    }
    let not_text = Value::read(Type::TEXT, Format::Text, b"a\xff", &EAST).expect_err("no UTF-8");
    assert_eq!(not_text.code, code::CHARACTER_NOT_IN_REPERTOIRE);
}

#[test]
fn arrays_as_text() {
    let of = Type::array_of(Kind::Text).expect("there are arrays of text");
    let again = |given: &str| {
        let value = Value::read(of, Format::Text, given.as_bytes(), &EAST);
        value.map(|value| text(&value))
    };
    for (given, shown) in [
        ("{}", "{}"),
        (
            " { a , \"b c\" ,NULL, \"NULL\", \"\" } ",
            "{a,\"b c\",NULL,\"NULL\",\"\"}",
        ),
        ("{{1,2},{3,4}}", "{{1,2},{3,4}}"),
        ("[0:1]={x,y}", "[0:1]={x,y}"),
        ("[-1:0][2:2]={{a},{b}}", "[-1:0][2:2]={{a},{b}}"),
        ("{a\\,b,\"c\\\"d\\\\\"}", "{\"a,b\",\"c\\\"d\\\\\"}"),
        ("{{},{}}", "{}"),
    ] {
        assert_eq!(again(given).as_deref(), Ok(shown), "{given}");
    }
    for wrong in [
        "",
        "a",
        "{",
        "{a",
        "{a}}",
        "{a,}",
        "{,a}",
        "{{a},b}",
        "{b,{a}}",
        "{{a},{b,c}}",
        "[1:2]={a}",
        "[2:1]={}",
        "[1:1]{a}",
        "{\"a}",
        "{a\\",
        "{{{{{{{1}}}}}}}",
        "[1:9223372036854775807]={a}",
    ] {
        assert!(again(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn binary_that_is_refused() {
    let read =
        |of: Type, bytes: &[u8]| Value::read(of, Format::Binary, bytes, &EAST).map(|value| text(&value));
    for (of, bytes) in [
        (Type::INT4, &[0, 0, 1][..]),
        (Type::INT4, &[0, 0, 0, 0, 1]),
        (Type::single(Kind::Jsonb), b"\x02{}"),
        (Type::single(Kind::Jsonb), b""),
        (Type::single(Kind::Time), &[0x7f; 8]),
        (Type::single(Kind::Date), &[0x7f, 0xff, 0xff, 0xfe]),
        (
            Type::single(Kind::Timestamp),
            &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe],
        ),
        (Type::TEXT, b"\xff"),
    ] {
        assert!(read(of, bytes).is_err(), "{of} {bytes:?}");
    }
    let of = Type::array_of(Kind::Int4).expect("there are such arrays");
    // Two thousand million elements in a message of 20 bytes, of another type, of seven dimensions.
    let head = |words: &[u32]| {
        words
            .iter()
            .flat_map(|word| word.to_be_bytes())
            .collect::<Vec<u8>>()
    };
    for wrong in [
        head(&[1, 0, 23, 0x7fff_fff0, 1]),
        head(&[2, 0, 23, 0x7fff_fff0, 1, 0x7fff_fff0, 1]),
        head(&[1, 0, 25, 0, 1]),
        head(&[7, 0, 23]),
        head(&[1, 2, 23, 0, 1]),
        head(&[1, 0, 23, 1, 1, 4, 5, 6]),
        head(&[1, 0, 23, 1, 0x7fff_ffff, 4, 5]),
    ] {
        assert!(read(of, &wrong).is_err(), "{wrong:?}");
    }
    assert_eq!(read(of, &head(&[1, 0, 23, 1, 1, 4, 5])).as_deref(), Ok("{5}"));
    assert_eq!(read(of, &head(&[0, 0, 23])).as_deref(), Ok("{}"));
}

#[test]
fn a_row_frames_its_fields() {
    let mut out = Vec::new();
    let mut row = Row::begin(&mut out);
    row.field(|out| write::int4(out, Format::Text, -7));
    row.null();
    row.field(|out| write::text(out, ""));
    row.finish();
    assert_eq!(
        crate::read::data_row(&out[crate::HEADER_BYTES..]),
        Some(vec![Some(&b"-7"[..]), None, Some(&b""[..])])
    );
    assert_eq!(
        crate::header(&out).expect("a length").expect("whole").total,
        out.len()
    );
}

/// A value of any type.
fn any_single() -> impl Strategy<Value = (Kind, Value<'static>)> {
    let day = Date::FIRST.0..=Date::LAST.0;
    let moment = Timestamp::FIRST.0..Timestamp::END.0;
    // Local time must exist as well.
    let inner = Timestamp::FIRST.0 + 86_400_000_000..Timestamp::END.0 - 86_400_000_000;
    let small = -1_000_000_000i32..1_000_000_000;
    prop_oneof![
        any::<bool>().prop_map(|value| (Kind::Bool, Value::Bool(value))),
        any::<i16>().prop_map(|value| (Kind::Int2, Value::Int2(value))),
        any::<i32>().prop_map(|value| (Kind::Int4, Value::Int4(value))),
        any::<i64>().prop_map(|value| (Kind::Int8, Value::Int8(value))),
        any::<u32>().prop_map(|value| (Kind::Oid, Value::Oid(value))),
        any::<f32>()
            .prop_filter("equal to itself", |value| !value.is_nan())
            .prop_map(|value| (Kind::Float4, Value::Float4(value))),
        any::<f64>()
            .prop_filter("equal to itself", |value| !value.is_nan())
            .prop_map(|value| (Kind::Float8, Value::Float8(value))),
        (any::<i128>(), 0u8..50)
            .prop_map(|(value, scale)| (Kind::Numeric, Value::Numeric(Numeric::from_i128(value, scale)))),
        "[^\0]{0,20}".prop_map(|value| (Kind::Text, Value::Text(value.into()))),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|value| (Kind::Bytea, Value::Bytea(value.into()))),
        day.prop_map(|value| (Kind::Date, Value::Date(Date(value)))),
        (0i64..=86_400_000_000).prop_map(|value| (Kind::Time, Value::Time(Time(value)))),
        moment.prop_map(|value| (Kind::Timestamp, Value::Timestamp(Timestamp(value)))),
        inner.prop_map(|value| (Kind::Timestamptz, Value::Timestamptz(Timestamp(value)))),
        (small.clone(), small, -(1i64 << 60)..1 << 60).prop_map(|(months, days, microseconds)| {
            (
                Kind::Interval,
                Value::Interval(Interval {
                    months,
                    days,
                    microseconds,
                }),
            )
        }),
        any::<[u8; 16]>().prop_map(|value| (Kind::Uuid, Value::Uuid(value))),
        "[^\0]{0,20}".prop_map(|value| (Kind::Json, Value::Json(value.into()))),
        "[^\0]{0,20}".prop_map(|value| (Kind::Jsonb, Value::Jsonb(value.into()))),
    ]
}

fn any_value() -> impl Strategy<Value = (Type, Value<'static>)> {
    let single = any_single().prop_map(|(kind, value)| (Type::single(kind), value));
    let array = (
        prop::collection::vec(any_single(), 1..6),
        -3i32..4,
        prop::bool::ANY,
        prop::bool::ANY,
    )
        .prop_map(|(values, lower, square, null)| {
            let kind = values[0].0;
            let of_kind = values.into_iter().filter(|(of, _)| *of == kind);
            let mut elements: Vec<_> = of_kind.map(|(_, value)| Some(value)).collect();
            if null {
                elements.push(None);
            }
            let length = elements.len() as u32;
            let mut dimensions = vec![Dimension { length, lower }];
            if square {
                dimensions.insert(0, Dimension { length: 1, lower: 1 });
            }
            (
                Type { kind, array: true },
                Value::Array(Array {
                    kind,
                    dimensions,
                    elements,
                }),
            )
        });
    prop_oneof![single, array]
}

proptest! {
    #[test]
    fn values_are_read_back((of, value) in any_value(), binary: bool) {
        let format = if binary { Format::Binary } else { Format::Text };
        let mut out = Vec::new();
        value.write(&mut out, format, &EAST);
        let found = Value::read(of, format, &out, &EAST);
        prop_assert_eq!(found.map(Value::into_owned), Ok(value));
    }

    #[test]
    fn any_bytes_are_values_or_refused(
        oid in prop::sample::select((0u32..4000).filter(|oid| Type::of(*oid).is_some()).collect::<Vec<_>>()),
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            "[-+ 0-9a-z:.{},\"\\\\\\[\\]=NT/P]{0,40}".prop_map(String::into_bytes),
        ],
        binary: bool,
    ) {
        let format = if binary { Format::Binary } else { Format::Text };
        let of = Type::of(oid).expect("a type");
        if let Ok(value) = Value::read(of, format, &bytes, &EAST) {
            for format in [Format::Text, Format::Binary] {
                value.write(&mut Vec::new(), format, &EAST);
            }
        }
    }
}
