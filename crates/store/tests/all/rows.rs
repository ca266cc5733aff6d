//! Rows as a program sees them: columns by name, fields as Rust types, and rows that are not whole.

use std::sync::Arc;

use crate::refusal_support::text;
use corun_store::storage::Twin;
use corun_store::{Direction, FromField, Options, RowBuf, RowError, Store, Table, TableDef, Type, Value};

/// A store with a table that has a column of each kind, each of which may be NULL but the first two.
fn open() -> (Store, Table) {
    let store = Store::in_memory(Options::default()).unwrap();
    let definition = TableDef::new("t")
        .column("id", Type::I64)
        .column("name", Type::Text { max: 20 })
        .nullable("small", Type::I8)
        .nullable("ratio", Type::F64)
        .nullable("flag", Type::Bool)
        .nullable("code", Type::FixedText { bytes: 4 })
        .nullable("data", Type::Bytes { max: 20 })
        .primary_key(&["id"]);
    let table = store.create_table(definition).unwrap();
    (store, table)
}

/// A row with a value in each column.
fn full(table: &Table) -> RowBuf {
    let mut row = table.new_row();
    row.set("id", 5_000_000_000_i64).unwrap();
    row.set(&"name".to_owned(), "Ada").unwrap();
    row.set("small", -7).unwrap();
    row.set("ratio", 0.5).unwrap();
    row.set("flag", true).unwrap();
    row.set("code", "ab").unwrap();
    row.set("data", &[1, 2][..]).unwrap();
    row
}

fn refused<'a, T: FromField<'a> + std::fmt::Debug>(row: &'a RowBuf, column: &str) -> String {
    row.row().get::<T>(column).unwrap_err().to_string()
}

#[test]
fn columns_by_name_are_those_by_position() {
    let (store, table) = open();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let rid = transaction.insert(&table, &full(&table)).unwrap();
    transaction
        .update(&table, rid, |row| row.set("name", "Grace"))
        .unwrap();
    let unknown = "there is no column \"nme\"; the table has id, name, small, ratio, flag, code, data";
    assert_eq!(
        text(transaction.update(&table, rid, |row| row.set("nme", "Grace"))),
        unknown
    );
    transaction.commit().unwrap();
    let (snapshot, primary) = (store.snapshot().unwrap(), table.primary());
    let found = snapshot.fetch(&primary, &[5_000_000_000_i64.into()]).unwrap();
    let row = found.unwrap().row;
    assert_eq!((row.int("id"), row.int(0)), (5_000_000_000, 5_000_000_000));
    assert_eq!((row.text("name"), row.text(1)), ("Grace", "Grace"));
    assert_eq!((row.int("small"), row.float("ratio")), (-7, 0.5));
    assert!(row.boolean("flag") && !row.is_null("flag"));
    assert_eq!((row.bytes("data"), row.text("code")), (&[1, 2][..], "ab  "));
    assert_eq!(row.value("small"), Value::Int(-7));
    assert_eq!(row.data_type("ratio"), Type::F64);
    let columns = table.definition().columns;
    for (position, column) in columns.iter().enumerate() {
        assert_eq!(row.value(&column.name), row.value(position));
    }
    let panic = |column: &str| {
        let read = std::panic::AssertUnwindSafe(|| row.int(column));
        let panic = std::panic::catch_unwind(read).unwrap_err();
        panic.downcast_ref::<String>().unwrap().clone()
    };
    assert_eq!(panic("nme"), unknown);
    assert_eq!(panic("name"), "column 1 (\"name\") holds text(20), no integer");
}

#[test]
fn fields_are_read_as_rust_types() {
    let (_store, table) = open();
    let buffer = full(&table);
    let row = buffer.row();
    assert_eq!(row.get::<i64>("id").unwrap(), 5_000_000_000);
    assert_eq!(row.get::<u64>(0).unwrap(), 5_000_000_000);
    assert_eq!(row.get::<i32>("small").unwrap(), -7);
    assert_eq!(row.get::<Option<i8>>("small").unwrap(), Some(-7));
    assert_eq!(row.get::<f64>("ratio").unwrap(), 0.5);
    assert!(row.get::<bool>("flag").unwrap());
    assert_eq!(row.get::<&str>("name").unwrap(), "Ada");
    assert_eq!(row.get::<String>("name").unwrap(), "Ada");
    assert_eq!(row.get::<&[u8]>("data").unwrap(), [1, 2]);
    assert_eq!(row.get::<Vec<u8>>("data").unwrap(), [1, 2]);
    assert_eq!(row.get::<&[u8]>("name").unwrap(), b"Ada");
    assert_eq!(row.get::<Value<'_>>("name").unwrap(), Value::Text("Ada"));
    let id: i64 = row.get("id").unwrap();
    assert_eq!(id, 5_000_000_000);
}

#[test]
fn what_a_field_cannot_be_read_as() {
    let (_store, table) = open();
    let mut row = full(&table);
    assert_eq!(
        refused::<i64>(&row, "name"),
        "column \"name\" holds text(20), which cannot be read as i64"
    );
    assert_eq!(
        refused::<&str>(&row, "data"),
        "column \"data\" holds bytes(20), which cannot be read as &str"
    );
    assert_eq!(
        refused::<f64>(&row, "id"),
        "column \"id\" holds i64, which cannot be read as f64"
    );
    assert_eq!(
        refused::<i32>(&row, "id"),
        "column \"id\" is 5000000000, which is out of the range of i32"
    );
    assert_eq!(
        refused::<Option<u8>>(&row, "small"),
        "column \"small\" is -7, which is out of the range of u8"
    );
    assert!(refused::<i64>(&row, "nme").starts_with("there is no column \"nme\"; the table has id, name"));
    assert!(matches!(row.row().get::<i64>(7), Err(RowError::NoColumn { .. })));
    row.set("small", Value::Null).unwrap();
    assert_eq!(
        refused::<i32>(&row, "small"),
        "column \"small\" is NULL; read it as Option<i32>"
    );
    assert_eq!(row.row().get::<Option<i32>>("small").unwrap(), None);
    assert_eq!(row.row().get::<Value<'_>>("small").unwrap(), Value::Null);
    // A wrong type is one for NULL, too.
    assert_eq!(
        refused::<Option<&str>>(&row, "small"),
        "column \"small\" holds i8, which cannot be read as &str"
    );
}

#[test]
fn a_row_that_is_not_whole_is_refused() {
    let (store, table) = open();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let mut row = table.new_row();
    let said = "column \"id\" was not set, and cannot be NULL";
    assert_eq!(text(transaction.insert(&table, &row)), said);
    // What is refused is not set.
    row.set("id", "one").unwrap_err();
    row.set("id", Value::Null).unwrap_err();
    assert_eq!(text(transaction.insert(&table, &row)), said);
    row.set("id", 1).unwrap();
    let said = "column \"name\" was not set, and cannot be NULL";
    assert_eq!(text(transaction.insert(&table, &row)), said);
    row.set("name", "").unwrap();
    let rid = transaction.insert(&table, &row).unwrap();
    // A buffer that is used again keeps what it has, until it is cleared.
    row.set("id", 2).unwrap();
    transaction.insert(&table, &row).unwrap();
    row.clear();
    row.set("id", 3).unwrap();
    assert_eq!(text(transaction.insert(&table, &row)), said);
    // An update begins with a whole row.
    transaction
        .update(&table, rid, |row| row.set("small", 1))
        .unwrap();
    transaction.update(&table, rid, |_| Ok(())).unwrap();
    let cleared = transaction.update(&table, rid, |row| {
        row.clear();
        row.set("id", 1)
    });
    assert_eq!(text(cleared), said);
    let of_another = transaction.update(&table, rid, |old| {
        *old = row.clone();
        Ok(())
    });
    assert_eq!(text(of_another), said);
    transaction.commit().unwrap();
    let snapshot = store.snapshot().unwrap();
    let found = snapshot.rows(&table, 0..table.rid_end()).unwrap();
    let rows: Vec<(i64, Option<i64>)> = found
        .map(|found| (found.row.int(0), found.row.get("small").unwrap()))
        .collect();
    assert_eq!(rows, [(1, Some(1)), (2, None)]);
}

#[test]
fn rows_of_many_columns_know_what_was_not_set() {
    let store = Store::in_memory(Options::default()).unwrap();
    let columns = (0..200).fold(TableDef::new("wide"), |table, at| {
        table.column(&format!("c{at}"), Type::I8)
    });
    let table = store.create_table(columns.primary_key(&["c0"])).unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    for missing in [0, 63, 64, 127, 128, 199] {
        let mut row = table.new_row();
        for column in (0..200).filter(|&column| column != missing) {
            row.set(column, 1).unwrap();
        }
        assert_eq!(
            text(transaction.insert(&table, &row)),
            format!("column \"c{missing}\" was not set, and cannot be NULL")
        );
    }
}

#[test]
fn values_of_rust_types() {
    let large = i64::MAX as u64;
    assert_eq!(Value::try_from(large), Ok(Value::Int(i64::MAX)));
    assert_eq!(
        Value::try_from(large + 1),
        Err(RowError::Unsigned { value: large + 1 })
    );
    assert_eq!(Value::try_from(7_usize), Ok(Value::Int(7)));
    assert_eq!(
        Value::try_from(u64::MAX).unwrap_err().to_string(),
        "18446744073709551615 is out of the range of integers, which end at 9223372036854775807"
    );
    let (three, bytes) = ([1, 2, 3], vec![1, 2, 3]);
    assert_eq!(Value::from(&three), Value::from(&bytes));
    assert_eq!(Value::from(0.5_f32), Value::Float(0.5));
    assert_eq!(Value::from(Some(200_u8)), Value::Int(200));
}

/// Types that SQL has beyond Rust's: they come back from rows, from indexes and from the log.
#[test]
fn types_of_sql() {
    let disk = Twin::new(1);
    let digits = "12345678901234567890123456789012345678".parse::<i128>().unwrap();
    let (uuid, zone) = ([7_u8; 16], 1_767_225_600_000_000_i64);
    let definition = TableDef::new("t")
        .column("id", Type::Uuid)
        .column(
            "sum",
            Type::Decimal {
                precision: 38,
                scale: 4,
            },
        )
        .column("real", Type::F32)
        .column("at", Type::TimestampTz)
        .column("text", Type::TEXT)
        .nullable("more", Type::BYTES)
        .primary_key(&["id"])
        .unique("by_sum", &["sum"])
        .index("by_text", &["text"]);
    let store = Store::open_on(Arc::new(disk.clone()), Options::default()).unwrap();
    let table = store.create_table(definition).unwrap();
    let long = "x".repeat(1 << 20);
    let mut session = store.session_here().unwrap();
    for (at, sum) in [digits, -digits, 7].into_iter().enumerate() {
        let mut row = table.new_row();
        row.set("id", &[at as u8; 16]).unwrap();
        row.set("sum", sum).unwrap();
        row.set("real", 0.1).unwrap();
        row.set("at", zone).unwrap();
        row.set("text", &long).unwrap();
        session
            .run(|transaction| transaction.insert(&table, &row))
            .unwrap();
    }
    let mut row = table.new_row();
    assert_eq!(
        row.set("sum", 10_i128.pow(38)).unwrap_err().to_string(),
        "column \"sum\" holds decimal(38, 4); 100000000000000000000000000000000000000 is out of its range"
    );
    assert_eq!(
        row.set("real", 1e300).unwrap_err().to_string(),
        format!("column \"real\" holds f32, not {}", 1e300)
    );
    assert_eq!(
        row.set("id", &uuid[..15]).unwrap_err().to_string(),
        "column \"id\" takes uuid, not 15 bytes"
    );
    row.set("text", &"x".repeat(3 << 20)).unwrap();
    row.set("id", &uuid).unwrap();
    row.set("sum", digits - 1).unwrap();
    row.set("real", 1.0).unwrap();
    row.set("at", zone).unwrap();
    row.set("more", &vec![0; 2 << 20]).unwrap();
    let inserted = session.run(|transaction| transaction.insert(&table, &row));
    let said = inserted.unwrap_err().to_string();
    assert!(
        said.starts_with("the row takes 52429") && said.ends_with("; the most is 4194304"),
        "{said}"
    );
    drop((session, table));
    store.close().unwrap();

    let store = Store::open_on(Arc::new(disk), Options::default()).unwrap();
    let table = store.table("t").unwrap();
    let snapshot = store.snapshot().unwrap();
    let by_sum = table.index("by_sum").unwrap();
    let found: Vec<i128> = snapshot
        .scan(&by_sum, &by_sum.all(), Direction::Ascending)
        .unwrap()
        .map(|found| found.row.get("sum").unwrap())
        .collect();
    assert_eq!(found, [-digits, 7, digits]);
    let found = snapshot.fetch(&by_sum, &[Value::Int(7)]).unwrap().unwrap();
    assert_eq!(found.row.get::<&[u8]>("id").unwrap(), [2; 16]);
    assert_eq!(found.row.get::<i64>("sum").unwrap(), 7);
    assert_eq!(found.row.get::<f64>("real").unwrap(), f64::from(0.1_f32));
    assert_eq!(found.row.get::<i64>("at").unwrap(), zone);
    assert_eq!(found.row.get::<&str>("text").unwrap(), long);
    let large = snapshot.fetch(&by_sum, &[digits.into()]).unwrap().unwrap();
    assert_eq!(
        large.row.get::<i64>("sum").unwrap_err().to_string(),
        format!("column \"sum\" is {digits}, which is out of the range of i64")
    );
    let by_text = table.index("by_text").unwrap();
    let range = by_text.prefix(&[Value::Text(&long)]).unwrap();
    assert_eq!(
        snapshot
            .scan(&by_text, &range, Direction::Ascending)
            .unwrap()
            .count(),
        3
    );
}
