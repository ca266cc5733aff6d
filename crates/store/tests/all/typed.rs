//! Rows as structs: the derived definition, what comes back, and what does not fit.

use corun_store::{Options, Row, RowError, Store, TableDef, Type, Value};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(
    table = "t",
    primary_key(r#type, id),
    index(by_small(small)),
    unique(by_text(text), by_real(real, id))
)]
struct Everything {
    r#type: String,
    id: i64,
    flag: bool,
    #[row(default = -7)]
    tiny: i8,
    small: Option<i16>,
    medium: i32,
    wide: i128,
    byte: u8,
    word: u16,
    long: u32,
    real: f64,
    #[row(name = "words", type = Type::Text { max: 12 })]
    text: Option<String>,
    data: Vec<u8>,
    three: [u8; 3],
    #[row(type = Type::Uuid)]
    uuid: Option<[u8; 16]>,
}

fn full() -> Everything {
    Everything {
        r#type: "a".to_owned(),
        id: i64::MIN,
        flag: true,
        tiny: -128,
        small: Some(7),
        medium: i32::MAX,
        wide: 10_i128.pow(38) - 1,
        byte: 255,
        word: u16::MAX,
        long: u32::MAX,
        real: 0.5,
        text: Some("twelve bytes".to_owned()),
        data: vec![0, 255],
        three: [1, 2, 3],
        uuid: Some([9; 16]),
    }
}

#[test]
fn a_struct_is_a_row_of_its_table() {
    let definition = Everything::definition();
    let names: Vec<&str> = definition.columns.iter().map(|column| &column.name[..]).collect();
    assert_eq!(names[..2], ["type", "id"]);
    assert_eq!(definition.columns[4].data_type, Type::I16);
    assert_eq!(definition.columns[3].default, Some(Value::Int(-7).into()));
    assert!(definition.columns[4].nullable && !definition.columns[3].nullable);
    let indexes: Vec<_> = definition
        .indexes
        .iter()
        .map(|index| (&index.name[..], index.columns.join(" "), index.unique))
        .collect();
    assert_eq!(
        indexes,
        [
            ("primary", "type id".to_owned(), true),
            ("by_small", "small".to_owned(), false),
            ("by_text", "words".to_owned(), true),
            ("by_real", "real id".to_owned(), true),
        ]
    );

    let store = Store::in_memory(Options::default()).unwrap();
    let table = store.create_table(definition).unwrap();
    let bare = Everything {
        id: 0,
        small: None,
        text: None,
        uuid: None,
        ..full()
    };
    let mut session = store.session_here().unwrap();
    for row in [full(), bare] {
        session
            .run(|transaction| transaction.insert(&table, &table.row(&row)?))
            .unwrap();
        let snapshot = store.snapshot().unwrap();
        let key = [row.r#type.as_str().into(), row.id.into()];
        let primary = table.primary();
        let found = snapshot.fetch(&primary, &key).unwrap().unwrap();
        assert_eq!(found.row.read::<Everything>().unwrap(), row);
    }
}

#[test]
fn what_a_struct_and_a_table_do_not_agree_on() {
    #[derive(Row)]
    #[row(table = "t", primary_key(id))]
    struct Small {
        id: i64,
        #[row(type = Type::Text { max: 2 })]
        name: String,
    }
    #[derive(Row, Debug)]
    #[row(table = "t", primary_key(id))]
    struct Other {
        id: i32,
        name: bool,
    }
    let store = Store::in_memory(Options::default()).unwrap();
    let definition = Small::definition().nullable("more", Type::I64);
    let table = store.create_table(definition).unwrap();
    let small = |id, name: &str| Small {
        id,
        name: name.to_owned(),
    };
    assert_eq!(
        table.row(&small(1, "long")).unwrap_err().to_string(),
        "column \"name\" takes text(2), not 4 bytes"
    );
    let row = table.row(&small(i64::MAX, "ab")).unwrap();
    assert!(
        row.row().is_null("more"),
        "a column that the struct does not have"
    );
    assert_eq!(
        row.row().read::<Other>().unwrap_err().to_string(),
        format!("column \"id\" is {}, which is out of the range of i32", i64::MAX)
    );
    let row = table.row(&small(1, "ab")).unwrap();
    assert_eq!(
        row.row().read::<Other>().unwrap_err().to_string(),
        "column \"name\" holds text(2), which cannot be read as bool"
    );
    let narrow = TableDef::new("narrow")
        .column("id", Type::I64)
        .primary_key(&["id"]);
    let narrow = store.create_table(narrow).unwrap();
    assert!(matches!(
        narrow.row(&small(1, "ab")),
        Err(RowError::NoColumn { column, .. }) if column == "\"name\""
    ));
    let other = Other { id: 1, name: true };
    assert_eq!((other.id, other.name), (1, true));
}
