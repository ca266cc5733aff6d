//! Rows and keys of every type against a naive filter: fields come back as set, the order of an index is the order of values,
//! and ranges hold exactly what their bounds say: values out of a column's range, NULLs, longer and shorter text.

use std::cmp::Ordering;
use std::ops::Bound;

use corun_store::{Direction, KeyRange, Lock, Options, Store, Table, TableDef, Type, Value};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Field {
    Null,
    Bool(bool),
    Int(i64),
    Wide(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Field {
    fn value(&self) -> Value<'_> {
        match self {
            Field::Null => Value::Null,
            Field::Bool(value) => (*value).into(),
            Field::Int(value) => (*value).into(),
            Field::Wide(value) => (*value).into(),
            Field::Float(value) => (*value).into(),
            Field::Text(value) => value.as_str().into(),
            Field::Bytes(value) => value.as_slice().into(),
        }
    }

    fn order(&self, other: &Field) -> Ordering {
        match (self, other) {
            (Field::Null, Field::Null) => Ordering::Equal,
            (Field::Null, _) => Ordering::Less,
            (_, Field::Null) => Ordering::Greater,
            (Field::Bool(a), Field::Bool(b)) => a.cmp(b),
            (Field::Int(a), Field::Int(b)) => a.cmp(b),
            (Field::Wide(a), Field::Wide(b)) => a.cmp(b),
            (Field::Wide(a), Field::Int(b)) => a.cmp(&i128::from(*b)),
            (Field::Int(a), Field::Wide(b)) => i128::from(*a).cmp(b),
            (Field::Float(a), Field::Float(b)) => a.total_cmp(b),
            (Field::Text(a), Field::Text(b)) => a.cmp(b),
            (Field::Bytes(a), Field::Bytes(b)) => a.cmp(b),
            (a, b) => unreachable!("{a:?} beside {b:?}"),
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Field::Null)
    }

    /// As a bound or a key of a column of this type is meant: fixed text is filled up with blanks.
    fn kept(self, of: Type) -> Field {
        match (self, of) {
            (Field::Text(text), Type::FixedText { bytes }) => Field::Text(format!(
                "{text:width$}",
                width = text.chars().count() + (bytes as usize).saturating_sub(text.len())
            )),
            (other, _) => other,
        }
    }

    /// As a column of this type keeps it.
    fn stored(self, of: Type) -> Field {
        match (self, of) {
            (Field::Int(value), of) if of.is_wide() => Field::Wide(value.into()),
            (Field::Wide(value), of) if !of.is_wide() => Field::Int(value as i64),
            (Field::Float(value), Type::F32) => Field::Float((value as f32).into()),
            (other, of) => other.kept(of),
        }
    }
}

const TYPES: [Type; 22] = [
    Type::Bool,
    Type::I8,
    Type::I16,
    Type::I32,
    Type::I64,
    Type::F32,
    Type::F64,
    Type::Decimal {
        precision: 19,
        scale: 2,
    },
    Type::Decimal {
        precision: 38,
        scale: 0,
    },
    Type::Decimal {
        precision: 3,
        scale: 1,
    },
    Type::Decimal {
        precision: 18,
        scale: 0,
    },
    Type::Date,
    Type::Timestamp,
    Type::TimestampTz,
    Type::Uuid,
    Type::Text { max: 4 },
    Type::Text { max: 12 },
    Type::Text { max: 80 },
    Type::FixedText { bytes: 70 },
    Type::FixedText { bytes: 4 },
    Type::Bytes { max: 4 },
    Type::FixedBytes { bytes: 3 },
];

/// Values of a type, whether or not a column can hold them.
fn any_field(of: Type) -> BoxedStrategy<Field> {
    let edges = [
        0,
        1,
        -1,
        127,
        128,
        -128,
        -129,
        999,
        1000,
        -999,
        -1000,
        32767,
        32768,
        -32769,
        i64::from(i32::MAX),
        i64::from(i32::MAX) + 1,
        i64::from(i32::MIN),
        i64::from(i32::MIN) - 1,
        999_999_999_999_999_999,
        1_000_000_000_000_000_000,
        i64::MIN,
        i64::MAX,
    ];
    let text = prop::sample::select(vec![
        "", "a", "a\0", "a\u{1}", "a ", "ab", "abc", "abcd", "abcd ", "abcda", "abce", "b", "ä", "aä",
        "abää", "\u{1}", "zzzzzz", "~",
    ]);
    // They share more than an index keeps.
    let long = prop::sample::select(vec!["", "a", "\0", "a\0", "ab", "b", "aaaaaaaaaaaaaaaaaaaa"]);
    match of {
        Type::Text { max: 80 } | Type::FixedText { bytes: 70 } => prop_oneof![
            1 => text.prop_map(|text| Field::Text(text.to_owned())),
            3 => (63_usize..67, long).prop_map(|(shared, end)| Field::Text("p".repeat(shared) + end)),
        ]
        .boxed(),
        Type::Bool => any::<bool>().prop_map(Field::Bool).boxed(),
        Type::F32 | Type::F64 => prop_oneof![
            prop::sample::select(vec![
                0.0,
                -0.0,
                1.0,
                -1.0,
                f64::NAN,
                -f64::NAN,
                f64::INFINITY,
                f64::MIN,
                f64::MIN_POSITIVE,
                0.1,
                0.1_f32.into(),
                f32::MAX.into(),
                1e39
            ]),
            any::<f64>()
        ]
        .prop_map(Field::Float)
        .boxed(),
        Type::Text { .. } | Type::FixedText { .. } => {
            text.prop_map(|text| Field::Text(text.to_owned())).boxed()
        }
        Type::Uuid => (
            prop::collection::vec(prop::sample::select(vec![0_u8, 1, 255]), 2),
            prop::sample::select(vec![13_usize, 14, 15]),
        )
            .prop_map(|(end, zeros)| Field::Bytes([vec![7; zeros], end].concat()))
            .boxed(),
        Type::Decimal { .. } => {
            let wide = [18, 19, 37, 38].map(|digits| 10_i128.pow(digits));
            let beside = wide.map(|value| [value - 1, value, 1 - value, -value]).concat();
            prop_oneof![
                prop::sample::select(edges.to_vec()).prop_map(Field::Int),
                (-5_i64..5).prop_map(Field::Int),
                prop::sample::select(beside).prop_map(Field::Wide),
                (-5_i128..5).prop_map(Field::Wide),
            ]
            .boxed()
        }
        Type::Bytes { .. } | Type::FixedBytes { .. } => {
            prop::collection::vec(prop::sample::select(vec![0_u8, 1, 32, 254, 255]), 0..6)
                .prop_map(Field::Bytes)
                .boxed()
        }
        _ => prop_oneof![prop::sample::select(edges.to_vec()), -5_i64..5]
            .prop_map(Field::Int)
            .boxed(),
    }
}

fn maybe_null(of: Type) -> BoxedStrategy<Field> {
    prop_oneof![1 => Just(Field::Null), 9 => any_field(of)].boxed()
}

fn bound(of: Type) -> impl Strategy<Value = Bound<Field>> {
    prop_oneof![
        1 => Just(Bound::Unbounded),
        4 => maybe_null(of).prop_map(Bound::Included),
        4 => maybe_null(of).prop_map(Bound::Excluded),
    ]
}

#[derive(Clone, Debug)]
struct Case {
    first: Type,
    second: Type,
    nullable: (bool, bool),
    rows: Vec<(Field, Field)>,
    prefix: Field,
    bounds: (Bound<Field>, Bound<Field>),
    bounds_of_second: (Bound<Field>, Bound<Field>),
}

fn case() -> impl Strategy<Value = Case> {
    let types = (
        prop::sample::select(TYPES.to_vec()),
        prop::sample::select(TYPES.to_vec()),
        any::<(bool, bool)>(),
    );
    types.prop_flat_map(|(first, second, nullable)| {
        (
            prop::collection::vec((maybe_null(first), maybe_null(second)), 1..40),
            maybe_null(first),
            (bound(first), bound(first)),
            (bound(second), bound(second)),
        )
            .prop_map(move |(rows, prefix, bounds, bounds_of_second)| Case {
                first,
                second,
                nullable,
                rows,
                prefix,
                bounds,
                bounds_of_second,
            })
    })
}

/// As the bound is meant for a column: fixed text is compared filled up.
fn meant(bound: &Bound<Field>, of: Type) -> Bound<Field> {
    match bound.clone() {
        Bound::Included(field) => Bound::Included(field.kept(of)),
        Bound::Excluded(field) => Bound::Excluded(field.kept(of)),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// What SQL says: NULL is within no bounds, and nothing is within bounds that are NULL.
fn within(field: &Field, low: &Bound<Field>, high: &Bound<Field>) -> bool {
    if matches!((low, high), (Bound::Unbounded, Bound::Unbounded)) {
        return true;
    }
    let above = match low {
        Bound::Unbounded => true,
        Bound::Included(low) => !low.is_null() && field.order(low).is_ge(),
        Bound::Excluded(low) => !low.is_null() && field.order(low).is_gt(),
    };
    let below = match high {
        Bound::Unbounded => true,
        Bound::Included(high) => !high.is_null() && field.order(high).is_le(),
        Bound::Excluded(high) => !high.is_null() && field.order(high).is_lt(),
    };
    !field.is_null() && above && below
}

fn borrowed(bound: &Bound<Field>) -> Bound<Value<'_>> {
    bound.as_ref().map(Field::value)
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::with_cases(ProptestConfig::default().cases.max(600)) })]

    #[test]
    fn ranges_hold_what_a_filter_lets_through(case in case()) {
        let store = Store::in_memory(Options::default()).unwrap();
        let add = |table: TableDef, name: &str, of, nullable| if nullable { table.nullable(name, of) } else { table.column(name, of) };
        let definition = TableDef::new("t").column("id", Type::I64);
        let definition = add(definition, "x", case.first, case.nullable.0);
        let definition = add(definition, "y", case.second, case.nullable.1).primary_key(&["id"]).index("by_x_y", &["x", "y"]);
        let table = store.create_table(definition).unwrap();
        let mut session = store.session_here().unwrap();
        let mut rows: Vec<(i64, Field, Field)> = Vec::new();
        let transaction = session.begin().unwrap();
        for (id, (x, y)) in case.rows.iter().enumerate() {
            let mut row = table.new_row();
            row.set(0, id as i64).unwrap();
            // What a column does not take is refused, and the row is as before.
            if row.set(1, x.value()).is_ok() && row.set(2, y.value()).is_ok() {
                transaction.insert(&table, &row).unwrap();
                rows.push((id as i64, x.clone().stored(case.first), y.clone().stored(case.second)));
                let same = |column: usize, field: &Field| match field {
                    Field::Float(value) => row.row().float(column).to_bits() == value.to_bits(),
                    other => row.row().value(column) == other.value(),
                };
                let (_, x, y) = rows.last().unwrap();
                prop_assert!(same(1, x) && same(2, y), "{:?} {:?} {:?}", row, x, y);
            }
        }
        transaction.commit().unwrap();
        rows.sort_by(|a, b| a.1.order(&b.1).then(a.2.order(&b.2)).then(a.0.cmp(&b.0)));
        let index = table.index("by_x_y").unwrap();
        let mut check = |what: &str, range: &KeyRange, keep: &dyn Fn(&Field, &Field) -> bool| {
            let kept = rows.iter().filter(|(_, x, y)| keep(x, y)).map(|(id, ..)| *id);
            let mut kept: Vec<i64> = kept.collect();
            for direction in [Direction::Ascending, Direction::Descending] {
                let snapshot = store.snapshot().unwrap();
                let found: Vec<i64> = snapshot.scan(&index, range, direction).unwrap().map(|found| found.row.int(0)).collect();
                assert_eq!(found, kept, "{what} {direction:?}, rows {rows:?}");
                let transaction = session.begin().unwrap();
                let mut scan = transaction.scan(&index, range, direction, Lock::Shared).unwrap();
                let found: Vec<i64> = std::iter::from_fn(|| scan.next().unwrap()).map(|found| found.row.int(0)).collect();
                assert_eq!(found, kept, "{what} {direction:?}, rows {rows:?}");
                drop(scan);
                let first = transaction.first(&index, range, direction, Lock::Shared).unwrap();
                assert_eq!(first.map(|found| found.row.int(0)), kept.first().copied(), "{what}");
                kept.reverse();
            }
        };
        let prefix = case.prefix.clone().kept(case.first);
        check("all", &index.all(), &|_, _| true);
        check("prefix", &index.prefix(&[case.prefix.value()]).unwrap(), &|x, _| x.order(&prefix).is_eq());
        let (low, high) = &case.bounds;
        let range = index.between(&[], borrowed(low), borrowed(high)).unwrap();
        let (low, high) = (meant(low, case.first), meant(high, case.first));
        check("between", &range, &|x, _| within(x, &low, &high));
        let (low, high) = &case.bounds_of_second;
        let range = index.between(&[case.prefix.value()], borrowed(low), borrowed(high)).unwrap();
        let (low, high) = (meant(low, case.second), meant(high, case.second));
        check("between behind a prefix", &range, &|x, y| x.order(&prefix).is_eq() && within(y, &low, &high));
        if let Bound::Included(second) = &case.bounds_of_second.0 {
            let range = index.point(&[case.prefix.value(), second.value()]).unwrap();
            let second = second.clone().kept(case.second);
            check("point", &range, &|x, y| x.order(&prefix).is_eq() && y.order(&second).is_eq());
        }
    }
}

#[test]
fn values_of_other_types_and_of_other_counts_make_no_key() {
    let store = Store::in_memory(Options::default()).unwrap();
    let definition = TableDef::new("t")
        .column("id", Type::I64)
        .column("name", Type::Text { max: 3 });
    let table: Table = store
        .create_table(definition.primary_key(&["id", "name"]))
        .unwrap();
    let primary = table.primary();
    let text = |result: Result<KeyRange, corun_store::KeyError>| result.unwrap_err().to_string();
    assert_eq!(
        text(primary.point(&[1.into()])),
        "index \"primary\": 1 values for 2 columns"
    );
    assert_eq!(
        text(primary.prefix(&["x".into()])),
        "index \"primary\": column \"id\" holds i64, not 'x'"
    );
    assert_eq!(
        text(primary.prefix(&[1.into(), "x".into(), 1.into()])),
        "index \"primary\": 3 values for 2 columns"
    );
    assert_eq!(
        text(primary.between(&[1.into(), "x".into()], Bound::Unbounded, Bound::Unbounded)),
        "index \"primary\": 3 values for 2 columns"
    );
    assert_eq!(
        text(primary.between(&[1.into()], Bound::Included(2.into()), Bound::Unbounded)),
        "index \"primary\": column \"name\" holds text(3), not 2"
    );
}
