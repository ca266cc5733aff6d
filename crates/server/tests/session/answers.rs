//! Rows and columns: types, values in text and binary.

use super::common::parquet;
use super::harness::{Collected, Server, fields, messages};
use arrow::array::*;
use arrow::datatypes::*;
use corun_wire::server::{Action, Message, ResultFormats, Session};
use corun_wire::values::{FixedOffset, Format, Value};
use std::sync::Arc;

#[test]
fn rows_of_files() {
    let server = Server::new();
    let mut session = server.session();
    assert_eq!(
        server.rows(
            &mut session,
            "SELECT n, word FROM t WHERE n < 2 ORDER BY n; SELECT count(*) FROM t;"
        ),
        ["0|row 0", "1|row 1", "=SELECT 2", "10", "=SELECT 1"]
    );
    assert_eq!(
        server.rows(&mut session, "SELECT * FROM sales.q1 ORDER BY region"),
        ["north|1.5", "south|NULL", "=SELECT 2"]
    );
    assert_eq!(server.rows(&mut session, " ; -- nothing\n"), ["I"]);
    assert_eq!(
        server.rows(&mut session, "VALUES (1, 'a'), (2, NULL)"),
        ["1|a", "2|NULL", "=SELECT 2"]
    );
}

#[test]
fn whether_there_are_rows_is_a_column() {
    let server = Server::new();
    let mut session = server.session();
    for (sql, row) in [
        (
            "SELECT EXISTS (SELECT 1 FROM t WHERE n = 3), EXISTS (SELECT * FROM t WHERE n = 33)",
            "t|f",
        ),
        (
            "SELECT NOT EXISTS (SELECT FROM t), EXISTS (SELECT max(n) FROM t WHERE n > 99)",
            "f|t",
        ),
        (
            "SELECT CASE WHEN EXISTS (SELECT n FROM t) THEN 'some' ELSE 'none' END",
            "some",
        ),
        (
            "SELECT string_agg(CASE WHEN e THEN 't' ELSE 'f' END, '' ORDER BY n) FROM \
                (SELECT n, EXISTS (SELECT 1 FROM t AS o WHERE o.n = t.n + 1) AS e FROM t WHERE n > 7) AS x",
            "tf",
        ),
        ("SELECT EXISTS (SELECT 1)", "t"),
    ] {
        assert_eq!(server.rows(&mut session, sql)[0], row, "{sql}");
    }
}

#[test]
fn differences_of_times_have_days() {
    let server = Server::new();
    let mut session = server.session();
    let sql = "SELECT timestamp '2001-09-29 03:00:00' - timestamp '2001-07-27 12:00:00', \
        timestamp '2001-09-28 11:00:00' - timestamp '2001-09-29 12:00:00'";
    // As PostgreSQL 15 writes them.
    assert_eq!(
        server.rows(&mut session, sql),
        ["63 days 15:00:00|-1 days -01:00:00", "=SELECT 1"]
    );
}

#[test]
fn the_time_now_is_in_the_time_zone_of_the_session() {
    let server = Server::new();
    let mut session = server.session();
    let sql = "SELECT arrow_typeof(now())";
    assert_eq!(
        server.rows(&mut session, sql),
        ["Timestamp(ns, \"UTC\")", "=SELECT 1"]
    );
    server.rows(&mut session, "SET TIME ZONE 'America/New_York'");
    let expected = ["Timestamp(ns, \"America/New_York\")", "=SELECT 1"];
    assert_eq!(server.rows(&mut session, sql), expected);
}

/// `LIMIT` takes a statement the long way, through optimizer and coordinator.
#[test]
fn a_row_without_tables_is_the_one_that_the_planner_makes() {
    let server = Server::new();
    let mut session = server.session();
    server.rows(&mut session, "SET TIME ZONE 'Asia/Tokyo'");
    let statements = [
        "SELECT 1",
        "SELECT 1 AS a, 'x' || 2 AS b, NULL, true AND NULL, 7 / 2, 7 / 2.0, -3 % 2, 1e300",
        "SELECT CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END, coalesce(NULL, 3), 2 IN (1, 2), 2 BETWEEN 1 AND 3",
        "SELECT date '2001-02-03' + interval '1 month', timestamptz '2001-02-03 04:05:06+00', now()::date",
        "SELECT array[1, 2, NULL], upper('straße'), length('é'), substr('abc', 2), 'abc' LIKE 'a%'",
        "SELECT version(), current_user, current_database(), current_schema(), current_setting('TimeZone')",
        "SELECT pg_typeof(1), cast('12' AS integer), '3'::bigint + 1, 1::numeric(10,2), 'abc'::bytea",
        "SELECT random() < 2, md5('a'), extract(year FROM date '2001-02-03'), to_char(date '2001-02-03', '%Y')",
        "SELECT (SELECT 1), 2 IN (SELECT 2)",
        "SELECT count(*), sum(1)",
        "SELECT unnest(array[1, 2])",
        "SELECT 1 / 0",
        "SELECT cast('x' AS integer)",
        "SELECT no_such(1)",
        "SELECT nowhere",
    ];
    for statement in statements {
        let (mut short, mut long) = (Collected::default(), Collected::default());
        let limited = format!("{statement} LIMIT 5");
        let answers = [(statement, &mut short), (limited.as_str(), &mut long)]
            .map(|(sql, sink)| server.block_on(session.simple(sql, sink)));
        // With descriptions of the columns, unlike `rows`.
        assert_eq!(messages(&short.0), messages(&long.0), "{statement}");
        assert_eq!(answers[0], answers[1], "{statement}");
    }
    let queries = || server.engine.statements().totals().by_class.iter().sum::<u64>();
    let before = queries();
    server.rows(&mut session, "SELECT 1, version()");
    assert_eq!(queries(), before, "it has met the coordinator");
    server.rows(&mut session, "SELECT count(*) FROM t");
    assert_eq!(queries(), before + 1);
}

#[test]
fn the_same_without_a_coordinator() {
    let server = Server::with(|_| {});
    let mut session = server.session();
    assert_eq!(
        server.rows(&mut session, "SELECT sum(n) FROM t"),
        ["45", "=SELECT 1"]
    );
}

/// One row of every type that has values here, and a row of nulls.
fn every_type() -> RecordBatch {
    let utf8: ArrayRef = Arc::new(StringArray::from(vec![Some("é"), None]));
    let dictionary: DictionaryArray<Int32Type> = vec![Some("red"), None].into_iter().collect();
    let mut list = ListBuilder::new(Int32Builder::new());
    list.append_value([Some(1), None, Some(3)]);
    list.append_null();
    let fields_of = vec![
        (
            Arc::new(Field::new("a", DataType::Int32, true)),
            Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("b", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec!["x", "y"])) as ArrayRef,
        ),
    ];
    let (struct_fields, struct_arrays): (Vec<_>, Vec<_>) = fields_of.into_iter().unzip();
    let structure = StructArray::new(
        struct_fields.into(),
        struct_arrays,
        Some(vec![true, false].into()),
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("i8", Arc::new(Int8Array::from(vec![Some(-8), None]))),
        ("i16", Arc::new(Int16Array::from(vec![Some(-16), None]))),
        ("i32", Arc::new(Int32Array::from(vec![Some(-32), None]))),
        ("i64", Arc::new(Int64Array::from(vec![Some(i64::MIN), None]))),
        ("u8", Arc::new(UInt8Array::from(vec![Some(255), None]))),
        ("u16", Arc::new(UInt16Array::from(vec![Some(65535), None]))),
        ("u32", Arc::new(UInt32Array::from(vec![Some(u32::MAX), None]))),
        ("u64", Arc::new(UInt64Array::from(vec![Some(u64::MAX), None]))),
        ("f32", Arc::new(Float32Array::from(vec![Some(0.1), None]))),
        ("f64", Arc::new(Float64Array::from(vec![Some(1e300), None]))),
        (
            "dec",
            Arc::new(
                Decimal128Array::from(vec![Some(-12345), None])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
        ),
        ("text", utf8),
        ("dict", Arc::new(dictionary)),
        (
            "bytes",
            Arc::new(BinaryArray::from(vec![Some(&b"\x00\xff"[..]), None])),
        ),
        ("date", Arc::new(Date32Array::from(vec![Some(19_782), None]))),
        (
            "time",
            Arc::new(Time64MicrosecondArray::from(vec![Some(3_723_000_004), None])),
        ),
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from(vec![
                Some(1_709_210_096_500_000),
                None,
            ])),
        ),
        (
            "tsz",
            Arc::new(
                TimestampMicrosecondArray::from(vec![Some(1_709_210_096_500_000), None]).with_timezone("UTC"),
            ),
        ),
        ("list", Arc::new(list.finish())),
        ("struct", Arc::new(structure)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

#[test]
fn every_type_as_text() {
    let server = Server::with(|_| {});
    parquet(&server.folder.path().join("types.parquet"), &[every_type()]);
    let mut session = server.session();
    let rows = server.rows(&mut session, "SELECT * FROM types");
    let first = "t|-8|-16|-32|-9223372036854775808|255|65535|4294967295|18446744073709551615|0.1|1e+300|-123.45|é|red|\\x00ff|\
                 2024-02-29|01:02:03.000004|2024-02-29 12:34:56.5|2024-02-29 12:34:56.5+00|{1,NULL,3}|{\"a\":1,\"b\":\"x\"}";
    assert_eq!(rows, [first, &["NULL"; 21].join("|"), "=SELECT 2"]);
    // Only the text of a moment depends on the time zone.
    server.rows(&mut session, "SET TIME ZONE 'America/New_York'");
    assert_eq!(
        server.rows(&mut session, "SELECT ts, tsz FROM types LIMIT 1")[0],
        "2024-02-29 12:34:56.5|2024-02-29 07:34:56.5-05"
    );
    let others = "SELECT INTERVAL '1 month 2 days 3 hours', arrow_cast('a', 'Utf8View'), arrow_cast(1, 'Decimal256(50, 3)'), \
                  make_array(make_array(1, 2), make_array(3, 4)), NULL";
    assert_eq!(
        server.rows(&mut session, others)[0],
        "1 mon 2 days 03:00:00|a|1.000|{{1,2},{3,4}}|NULL"
    );
}

#[test]
fn columns_are_described_with_postgresql_s_types() {
    let server = Server::with(|_| {});
    parquet(&server.folder.path().join("types.parquet"), &[every_type()]);
    let mut session = server.session();
    let statement = session.one("SELECT * FROM types").unwrap();
    let prepared = server.block_on(session.prepare(statement, &[])).unwrap();
    let columns = prepared.columns.as_ref().unwrap();
    let oids: Vec<u32> = columns.iter().map(|column| column.of.oid()).collect();
    assert_eq!(
        oids,
        [
            16, 21, 21, 23, 20, 21, 23, 20, 1700, 700, 701, 1700, 25, 25, 17, 1082, 1083, 1114, 1184, 1007,
            114
        ]
    );
    assert_eq!(
        (columns[11].name.as_str(), columns[11].modifier),
        ("dec", (10 << 16 | 2) + 4)
    );
}

/// What the client is told of a column is what it is sent.
#[test]
fn columns_have_the_type_that_all_parts_have() {
    let server = Server::new();
    let mut session = server.session();
    for (sql, oid) in [
        ("SELECT CASE WHEN n > 5 THEN 1 ELSE 2.5 END FROM t", 701),
        ("SELECT NULL AS x UNION ALL SELECT n FROM t", 20),
        ("SELECT 1 UNION ALL SELECT 2.5", 701),
        ("SELECT coalesce(NULL, n) FROM t", 20),
    ] {
        let statement = session.one(sql).unwrap();
        let prepared = server.block_on(session.prepare(statement, &[])).unwrap();
        let told = prepared.columns.as_ref().unwrap()[0].of;
        assert_eq!(told.oid(), oid, "{sql}");
        let mut sink = Collected::default();
        let mut portal = session.bind(&prepared, std::iter::empty()).unwrap();
        server
            .block_on(session.run(&mut portal, &ResultFormats::default(), None, &mut sink))
            .unwrap();
        for (_, body) in messages(&sink.0) {
            for field in fields(&body).into_iter().flatten() {
                let value = Value::read(told, Format::Text, &field, &FixedOffset::UTC);
                assert!(value.is_ok(), "{sql}: {field:?}");
            }
        }
    }
}

#[test]
fn ranks_have_postgresql_s_types() {
    let server = Server::new();
    let mut session = server.session();
    let sql = "SELECT row_number() OVER w, rank() OVER w, dense_rank() OVER (ORDER BY n / 4) AS d, ntile(2) OVER w \
        FROM t WINDOW w AS (ORDER BY n) ORDER BY 1 LIMIT 1";
    let statement = session.one(sql).unwrap();
    let prepared = server.block_on(session.prepare(statement, &[])).unwrap();
    let columns = prepared.columns.as_ref().unwrap().iter();
    let told: Vec<(&str, u32)> = columns
        .map(|column| (column.name.as_str(), column.of.oid()))
        .collect();
    assert_eq!(told, [("row_number", 20), ("rank", 20), ("d", 20), ("ntile", 23)]);
    assert_eq!(server.rows(&mut session, sql), ["1|1|1|1", "=SELECT 1"]);
    let first = "SELECT n FROM (SELECT n, row_number() OVER (PARTITION BY n % 5 ORDER BY n DESC) AS r FROM t) WHERE r = 1";
    assert_eq!(
        server.rows(&mut session, &format!("{first} ORDER BY n")),
        ["5", "6", "7", "8", "9", "=SELECT 5"]
    );
}

#[test]
fn every_type_in_binary() {
    let server = Server::with(|_| {});
    parquet(&server.folder.path().join("types.parquet"), &[every_type()]);
    let mut session = server.session();
    // A Bind that wants all columns in binary, as it comes over the wire.
    let mut wire = Session::<(), ()>::new(Default::default());
    let mut out = Vec::new();
    let statement = session
        .one("SELECT i32, i64, f64, dec, text, bytes, date, time, ts, tsz, list, bool FROM types")
        .unwrap();
    let prepared = server.block_on(session.prepare(statement, &[])).unwrap();
    let mut bytes = Vec::new();
    corun_wire::build::parse(&mut bytes, "", b"", &[0, 0]);
    let (message, _) = Message::read(&bytes, &Default::default()).unwrap().unwrap();
    assert!(matches!(wire.message(message, &mut out), Action::Parse(_)));
    wire.parsed(&mut out, (), Vec::new(), prepared.columns.clone());
    let mut bind = Vec::new();
    corun_wire::build::message(&mut bind, b'B', |out| out.extend(b"\0\0\0\0\0\0\0\x01\0\x01"));
    let (message, _) = Message::read(&bind, &Default::default()).unwrap().unwrap();
    let Action::Bind { formats, bind, .. } = wire.message(message, &mut out) else {
        panic!("a Bind");
    };
    let mut portal = session.bind(&prepared, bind.parameters()).unwrap();
    let mut sink = Collected::default();
    server
        .block_on(session.run(&mut portal, &formats, None, &mut sink))
        .unwrap();
    let rows = messages(&sink.0);
    let first: Vec<Vec<u8>> = fields(&rows[0].1)
        .into_iter()
        .map(|field| field.expect("no null"))
        .collect();
    let days = 19_782i32 - 10_957;
    let moment = 1_709_210_096_500_000i64 - 946_684_800_000_000;
    let list = [
        1i32.to_be_bytes(),
        1i32.to_be_bytes(),
        23i32.to_be_bytes(),
        3i32.to_be_bytes(),
        1i32.to_be_bytes(),
        4i32.to_be_bytes(),
        1i32.to_be_bytes(),
        (-1i32).to_be_bytes(),
        4i32.to_be_bytes(),
        3i32.to_be_bytes(),
    ]
    .concat();
    let expected: Vec<Vec<u8>> = vec![
        (-32i32).to_be_bytes().to_vec(),
        i64::MIN.to_be_bytes().to_vec(),
        1e300f64.to_be_bytes().to_vec(),
        // Two groups, weight 0, negative, two digits behind the point: 123 and 4500.
        vec![0, 2, 0, 0, 0x40, 0, 0, 2, 0, 123, 0x11, 0x94],
        "é".as_bytes().to_vec(),
        vec![0, 255],
        days.to_be_bytes().to_vec(),
        3_723_000_004i64.to_be_bytes().to_vec(),
        moment.to_be_bytes().to_vec(),
        moment.to_be_bytes().to_vec(),
        list,
        vec![1],
    ];
    assert_eq!(first, expected);
    assert!(fields(&rows[1].1).iter().all(Option::is_none));
}
