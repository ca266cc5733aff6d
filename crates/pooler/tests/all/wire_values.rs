//! Values and rows of COPY as `corun-wire` writes and reads them, beside a real server's. They stand here because the fixture does.

use corun_wire::error::Refusal;
use corun_wire::values::{CopyFormat, CopyIn, CopyOptions, CopyOut, FixedOffset, Format, Kind, Type, Value};

use crate::common::message::{self, Message, bind, copy_data, copy_done, execute, parse, query, sync};
use crate::common::postgres;
use crate::common::random::Random;
use crate::common::raw::Raw;

/// Half an hour off, so that minutes count.
const ZONE: FixedOffset = FixedOffset(5 * 3600 + 30 * 60);

/// A client of a server that does as ours does.
fn client() -> Raw {
    let mut client = postgres::shared().client("app", "app");
    for setting in [
        "set timezone = '<+05:30>-05:30'",
        "set datestyle = iso",
        "set intervalstyle = postgres",
    ] {
        client.lines(setting);
    }
    client
}

fn single_values(messages: &[Message]) -> Vec<Vec<u8>> {
    let rows = messages.iter().filter(|message| message.tag == b'D');
    rows.map(|row| message::values(&row.body).remove(0).expect("not NULL"))
        .collect()
}

/// What the server writes of an expression as text and in binary.
fn of_server(client: &mut Raw, expression: &str) -> (Vec<u8>, Vec<u8>) {
    let parts = [
        parse("", &format!("select {expression}"), &[]),
        bind("", "", &[], false),
        execute("", 0),
        bind("", "", &[], true),
        execute("", 0),
        sync(),
    ];
    client.send(&parts.concat());
    let answer = client.until_ready();
    let mut values = single_values(&answer);
    assert_eq!(values.len(), 2, "{expression}: {answer:#?}");
    let binary = values.pop().expect("two");
    (values.pop().expect("one"), binary)
}

fn written(value: &Value<'_>, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    value.write(&mut out, format, &ZONE);
    out
}

/// What the server writes is read, and written again as the server wrote it, from either format in either.
fn assert_same(client: &mut Raw, of: Type, expression: &str) {
    let (text, binary) = of_server(client, expression);
    for (format, bytes) in [(Format::Text, &text), (Format::Binary, &binary)] {
        let value = Value::read(of, format, bytes, &ZONE)
            .unwrap_or_else(|refusal| panic!("{expression} as {format:?}: {refusal:?}"));
        let shown = written(&value, Format::Text);
        assert_eq!(
            String::from_utf8_lossy(&shown),
            String::from_utf8_lossy(&text),
            "{expression}"
        );
        assert_eq!(written(&value, Format::Binary), binary, "{expression} {value:?}");
    }
}

fn kind_of(name: &str) -> Type {
    let single = |kind| Type::single(kind);
    match name {
        "bool" => Type::BOOL,
        "int2" => Type::INT2,
        "int4" => Type::INT4,
        "int8" => Type::INT8,
        "text" => Type::TEXT,
        "varchar" => single(Kind::Varchar),
        "bpchar" => single(Kind::Bpchar),
        "name" => single(Kind::Name),
        "oid" => single(Kind::Oid),
        "float4" => single(Kind::Float4),
        "float8" => single(Kind::Float8),
        "numeric" => single(Kind::Numeric),
        "bytea" => single(Kind::Bytea),
        "date" => single(Kind::Date),
        "time" => single(Kind::Time),
        "timestamp" => single(Kind::Timestamp),
        "timestamptz" => single(Kind::Timestamptz),
        "interval" => single(Kind::Interval),
        "uuid" => single(Kind::Uuid),
        "json" => single(Kind::Json),
        "jsonb" => single(Kind::Jsonb),
        name => {
            let element = kind_of(name.strip_suffix("[]").expect("a type"));
            Type::array_of(element.kind).expect("arrays of it")
        }
    }
}

/// Texts of values by type, all of which the server takes.
const VALUES: &[(&str, &[&str])] = &[
    ("bool", &["true", "off"]),
    ("int2", &["-32768", "32767", "0"]),
    ("int4", &["-2147483648", "2147483647"]),
    ("int8", &["-9223372036854775808", "9223372036854775807"]),
    ("oid", &["0", "4294967295", "-1"]),
    ("text", &["", "a b", "\u{e9}\u{20ac}\u{1f980}", "a\\b"]),
    ("varchar", &["x"]),
    ("bpchar", &["x "]),
    ("name", &["pg_class"]),
    ("json", &["{\"a\": [1,  2]}"]),
    ("jsonb", &["{\"b\": 1, \"a\": [1,  null, \"x\"]}"]),
    ("bytea", &["", "\\x00ff10", "abc\\\\\\001"]),
    ("uuid", &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    (
        "float4",
        &[
            "0",
            "-0",
            "1.5",
            "1e6",
            "999999",
            "1e-5",
            "0.0001",
            "3.4028235e38",
            "1e-45",
            "NaN",
            "Infinity",
            "16777216",
        ],
    ),
    (
        "float8",
        &[
            "0",
            "-0",
            "1",
            "0.1",
            "1e15",
            "999999999999999",
            "1e-5",
            "0.0001",
            "1e23",
            "9007199254740993",
            "5e-324",
            "1.7976931348623157e308",
            "2.2250738585072014e-308",
            "NaN",
            "-Infinity",
            "123456.789",
        ],
    ),
    (
        "numeric",
        &[
            "0",
            "0.00",
            "-1",
            "1.50",
            "10000",
            "100000000",
            "0.0001",
            "0.00001",
            "123456789012345678901234567890.123456789",
            "1e50",
            "1e-50",
            "9999.9999",
            "NaN",
            "-1000000000000.00000000010",
        ],
    ),
    (
        "date",
        &[
            "2000-01-01",
            "1970-01-01",
            "2024-02-29",
            "0001-01-01",
            "0001-12-31 BC",
            "4713-01-01 BC",
            "5874897-12-31",
            "infinity",
            "-infinity",
            "12345-06-07",
        ],
    ),
    (
        "time",
        &[
            "00:00",
            "23:59:59.999999",
            "24:00:00",
            "04:05:06.7",
            "12:00:00.000001",
        ],
    ),
    (
        "timestamp",
        &[
            "2000-01-01 00:00:00",
            "1999-12-31 23:59:59.999999",
            "2024-02-29T04:05:06.700",
            "0044-03-15 10:00:00 BC",
            "294276-12-31 23:59:59.999999",
            "4713-01-01 00:00:00 BC",
            "infinity",
            "-infinity",
            "epoch",
        ],
    ),
    (
        "timestamptz",
        &[
            "2000-01-01 00:00:00",
            "2024-02-29 04:05:06.789+00",
            "2024-02-29 04:05:06-08",
            "0044-03-15 10:00:00+00 BC",
            "infinity",
            "epoch",
            "1883-01-01 00:00:00Z",
        ],
    ),
    (
        "interval",
        &[
            "0",
            "1 year",
            "-1 year",
            "1 mon",
            "14 mons",
            "-14 mons +3 days",
            "3 days -04:05:06.789",
            "-1 day +1 second",
            "1 year 2 mons 3 days 04:05:06",
            "100:00:00",
            "-00:00:00.000001",
            "1 year -1 day",
            "1.5 days",
            "2 weeks ago",
            "P1Y2M3DT4H5M6S",
        ],
    ),
    (
        "int4[]",
        &[
            "{}",
            "{1,2,NULL}",
            "{{1,2},{3,4}}",
            "[0:2]={7,8,9}",
            "[-1:0][3:3]={{1},{2}}",
        ],
    ),
    (
        "text[]",
        &["{a,\"b c\",\"\",\"NULL\",NULL,\"q\\\"u\\\\o\",\"{}\",\"x,y\"}"],
    ),
    ("timestamptz[]", &["{\"2024-02-29 04:05:06+00\",infinity}"]),
    ("numeric[]", &["{1.10,-2}"]),
    ("interval[]", &["{\"1 day\",\"2 mons 00:00:01\"}"]),
    ("bytea[]", &["{\"\\\\x00ff\"}"]),
    ("float8[]", &["{1e15,-0}"]),
    ("bool[]", &["{t,f}"]),
    ("uuid[]", &["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"]),
    ("date[]", &["{2024-02-29,\"0001-12-31 BC\"}"]),
];

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[test]
fn values_have_the_server_s_bytes() {
    let mut client = client();
    for (name, texts) in VALUES {
        let of = kind_of(name);
        for text in *texts {
            let expression = format!("{}::{name}", quoted(text));
            assert_same(&mut client, of, &expression);
            // What a client writes is read as the server reads it.
            let value = Value::read(of, Format::Text, text.as_bytes(), &ZONE);
            let value = value.unwrap_or_else(|refusal| panic!("{expression}: {refusal:?}"));
            if !matches!(*name, "jsonb") {
                let (_, binary) = of_server(&mut client, &expression);
                assert_eq!(written(&value, Format::Binary), binary, "{expression}");
            }
        }
    }
    assert_eq!(of_server(&mut client, "''::text").0, b"");
    assert_same(&mut client, Type::single(Kind::Void), "pg_sleep(0)");
    if postgres::version() >= 14 {
        for text in ["Infinity", "-inf"] {
            assert_same(&mut client, kind_of("numeric"), &format!("'{text}'::numeric"));
        }
    }
}

#[test]
fn random_floats_and_numerics_have_the_server_s_digits() {
    let mut client = client();
    let mut random = Random::new(11);
    let mut bits = || random.bits();
    let doubles: Vec<f64> = (0..3_000)
        .map(|at| match at % 3 {
            0 => f64::from_bits(bits()),
            // Few digits, and powers of two, whose neighbour below is nearer.
            1 => (bits() % 100_000) as f64 / 1000.0,
            _ => f64::from_bits(bits() & !((1 << 52) - 1)),
        })
        .filter(|value| value.is_finite())
        .collect();
    let list: Vec<String> = doubles.iter().map(|value| format!("{value:e}")).collect();
    let array = format!("'{{{}}}'", list.join(","));
    let rows = client.rows(&format!("select unnest({array}::float8[])"));
    assert_eq!(rows.len(), doubles.len());
    for (row, value) in rows.iter().zip(&doubles) {
        let ours = written(&Value::Float8(*value), Format::Text);
        assert_eq!(row[0].as_deref(), std::str::from_utf8(&ours).ok());
    }
    let singles: Vec<f32> = (0..3_000)
        .map(|_| f32::from_bits(bits() as u32))
        .filter(|value| value.is_finite())
        .collect();
    let list: Vec<String> = singles.iter().map(|value| format!("{value:e}")).collect();
    let rows = client.rows(&format!("select unnest('{{{}}}'::float4[])", list.join(",")));
    assert_eq!(rows.len(), singles.len());
    for (row, value) in rows.iter().zip(&singles) {
        let ours = written(&Value::Float4(*value), Format::Text);
        assert_eq!(row[0].as_deref(), std::str::from_utf8(&ours).ok());
    }
    for at in 0..200 {
        let text = format!(
            "{}{}.{}",
            ["", "-"][at % 2],
            bits() >> (at % 60),
            bits() >> (at % 50)
        );
        assert_same(&mut client, kind_of("numeric"), &format!("'{text}'::numeric"));
    }
}

#[test]
fn what_the_server_refuses_is_refused_alike() {
    let mut client = client();
    for (name, text) in [
        ("bool", "o"),
        ("int2", "32768"),
        ("int4", "1.5"),
        ("int4", ""),
        ("int8", "9223372036854775808"),
        ("oid", "4294967296"),
        ("float4", "1e39"),
        ("float8", "1e400"),
        ("float8", "1e-400"),
        ("float8", "abc"),
        ("numeric", "1.2.3"),
        ("numeric", "1e131073"),
        ("bytea", "\\x1"),
        ("bytea", "\\xzz"),
        ("bytea", "a\\9"),
        ("uuid", "a0eebc99"),
        ("date", "2023-02-29"),
        ("date", "2023-13-01"),
        ("time", "25:00"),
        ("timestamp", "2024-01-01 nonsense"),
        ("timestamp", "300000-01-01"),
        ("interval", "1 fortnight"),
        ("int4[]", "{1"),
        ("int4[]", "{{1},{2,3}}"),
        ("int4[]", "{x}"),
        ("int4[]", "[1:3]={1}"),
    ] {
        let refusal = Value::read(kind_of(name), Format::Text, text.as_bytes(), &ZONE).expect_err(text);
        client.assert_fails(&format!("select {}::{name}", quoted(text)), refusal.code);
    }
}

/// Rows with all that has a meaning in some format of COPY.
fn rows() -> Vec<Vec<Option<Vec<u8>>>> {
    let texts: &[Option<&str>] = &[
        None,
        Some(""),
        Some("plain"),
        Some("tab\there"),
        Some("line\nbreak\r"),
        Some("back\\slash"),
        Some("\\N"),
        Some("\\."),
        Some("a,b"),
        Some("say \"hi\""),
        Some("\u{e9}\u{b}\u{c}\u{8}"),
        Some(" blank "),
        Some("NULL"),
    ];
    let row = |at: usize| {
        let text = |at: usize| texts[at % texts.len()].map(|text| text.as_bytes().to_vec());
        vec![text(at), text(at * 5 + 1)]
    };
    (0..texts.len()).map(row).collect()
}

fn collected(options: &CopyOptions, parts: &[Vec<u8>]) -> Result<Vec<Vec<Option<Vec<u8>>>>, Refusal> {
    let mut reader = CopyIn::new(options.clone(), 2, 1 << 20);
    let mut found = Vec::new();
    let mut row = |fields: &[Option<Vec<u8>>]| {
        found.push(fields.to_vec());
        Ok(())
    };
    for part in parts {
        reader.data(part, &mut row)?;
    }
    reader.done(&mut row)?;
    Ok(found)
}

#[test]
fn copies_have_the_server_s_bytes() {
    let mut client = client();
    client.lines("create temp table copied (at serial, a text, b text)");
    let rows = rows();
    for (format, sql) in [
        (CopyFormat::Text, "format text"),
        (CopyFormat::Csv, "format csv, header"),
        (CopyFormat::Binary, "format binary"),
    ] {
        let mut options = CopyOptions::of(format);
        options.header = format == CopyFormat::Csv;
        let writer = CopyOut::new(options.clone());
        let mut ours = Vec::new();
        writer.begin(&mut ours, ["a", "b"].into_iter());
        for row in &rows {
            writer.row(&mut ours, row.iter().map(|field| field.as_deref()));
        }
        writer.end(&mut ours);
        // The server reads what is written here, and writes the same.
        client.lines("truncate copied restart identity");
        client.send(&query(&format!("copy copied (a, b) from stdin ({sql})")));
        client.until(|seen| seen.last().is_some_and(|message| message.tag == b'G'));
        client.send(&[copy_data(&ours), copy_done()].concat());
        let answer = client.until_ready();
        assert_eq!(message::errors(&answer), Vec::<String>::new(), "{sql}");
        client.send(&query(&format!(
            "copy (select a, b from copied order by at) to stdout ({sql})"
        )));
        let answer = client.until_ready();
        let parts: Vec<Vec<u8>> = answer
            .into_iter()
            .filter(|message| message.tag == b'd')
            .map(|message| message.body)
            .collect();
        assert_eq!(
            String::from_utf8_lossy(&parts.concat()),
            String::from_utf8_lossy(&ours),
            "{sql}"
        );
        assert_eq!(collected(&options, &parts), Ok(rows.clone()), "{sql}");
    }
}
