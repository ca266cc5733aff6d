//! Rows with every type the store has, NULLs among them, and engines that show them.

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
    TimestampMicrosecondArray,
};
use corun_datafusion::store::{LoadOptions, load};
use corun_datafusion::{Engine, EngineOptions, Joins};
use corun_store::{Options, Store, TableDef, Type};
use proptest::prelude::RngCore;
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::sync::Arc;

/// Texts of the data.
pub const TEXTS: &[&str] = &["", "a", "a ", "ab", "abc", "b", "ä", "zz", "A", "key 17"];
/// Fixed texts of the data; the blank at an end is lost.
pub const CODES: &[&str] = &["", "a", "ab", "abcd", "a\u{1}", "zz"];
/// Byte strings of the data.
pub const BYTES: &[&[u8]] = &[b"", b"\0", b"a", b"a\0", b"ab", b"\xff\xff"];
/// Floats of the data.
pub const FLOATS: &[f64] = &[
    -1.5,
    -0.0,
    0.0,
    1.5,
    2.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];
/// What the data's long decimals are multiples of: more than 18 digits, two of them behind the point.
pub const WIDE_STEP: i128 = 10_000_000_000_000_000_000_025;
/// First day of the data: 2020-01-01.
pub const DAY: i32 = 18_262;
/// First moment of the data in microseconds.
pub const MOMENT: i64 = DAY as i64 * 86_400_000_000;

/// The table, with some indexes or none but the primary key's.
pub fn definition(indexed: bool) -> TableDef {
    let table = TableDef::new("t")
        .column("id", Type::I64)
        .nullable("b", Type::Bool)
        .nullable("i8", Type::I8)
        .nullable("i16", Type::I16)
        .nullable("i32", Type::I32)
        .nullable("i64", Type::I64)
        .nullable("f", Type::F64)
        .nullable(
            "d",
            Type::Decimal {
                precision: 9,
                scale: 2,
            },
        )
        .nullable("day", Type::Date)
        .nullable("ts", Type::Timestamp)
        .nullable("s", Type::Text { max: 20 })
        .nullable("c", Type::FixedText { bytes: 4 })
        .nullable("y", Type::Bytes { max: 8 })
        .nullable("z", Type::FixedBytes { bytes: 2 })
        .column("n", Type::I32)
        .nullable("r", Type::F32)
        .nullable(
            "w",
            Type::Decimal {
                precision: 30,
                scale: 2,
            },
        )
        .nullable("tz", Type::TimestampTz)
        .nullable("u", Type::Uuid)
        .primary_key(&["id"]);
    if !indexed {
        return table;
    }
    table
        .index("by_b_i8", &["b", "i8"])
        .index("by_i16", &["i16"])
        .index("by_i32_day", &["i32", "day"])
        .index("by_i64_s_n", &["i64", "s", "n"])
        .index("by_f", &["f"])
        .index("by_d_i8", &["d", "i8"])
        .index("by_day_s", &["day", "s"])
        .index("by_ts", &["ts"])
        .index("by_s", &["s"])
        .index("by_c_n", &["c", "n"])
        .index("by_y", &["y"])
        .index("by_z", &["z"])
        .unique("by_n_id", &["n", "id"])
        .index("by_r", &["r"])
        .index("by_w_tz", &["w", "tz"])
        .index("by_tz", &["tz"])
        .index("by_u", &["u"])
}

/// Rows of [`definition`], about one NULL in ten.
pub fn rows(count: usize, seed: u8) -> RecordBatch {
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut draw = |domain: usize| -> Option<usize> {
        let value = rng.next_u32() as usize;
        (!value.is_multiple_of(10)).then(|| (value / 16) % domain)
    };
    let mut many = |domain: usize| -> Vec<Option<usize>> { (0..count).map(|_| draw(domain)).collect() };
    let ints = |drawn: Vec<Option<usize>>| drawn.into_iter().map(|value| value.map(|value| value as i64 - 7));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..count as i64))),
        (
            "b",
            Arc::new(BooleanArray::from_iter(
                many(2).into_iter().map(|value| value.map(|value| value == 1)),
            )),
        ),
        (
            "i8",
            Arc::new(Int8Array::from_iter(
                ints(many(20)).map(|value| value.map(|value| value as i8)),
            )),
        ),
        (
            "i16",
            Arc::new(Int16Array::from_iter(
                ints(many(30)).map(|value| value.map(|value| value as i16)),
            )),
        ),
        (
            "i32",
            Arc::new(Int32Array::from_iter(
                ints(many(40)).map(|value| value.map(|value| value as i32)),
            )),
        ),
        ("i64", Arc::new(Int64Array::from_iter(ints(many(30))))),
        (
            "f",
            Arc::new(Float64Array::from_iter(
                many(FLOATS.len())
                    .into_iter()
                    .map(|value| value.map(|at| FLOATS[at])),
            )),
        ),
        (
            "d",
            Arc::new(
                Decimal128Array::from_iter(
                    ints(many(40)).map(|value| value.map(|value| i128::from(value) * 25)),
                )
                .with_precision_and_scale(9, 2)
                .unwrap(),
            ),
        ),
        (
            "day",
            Arc::new(Date32Array::from_iter(
                ints(many(40)).map(|value| value.map(|value| DAY + value as i32)),
            )),
        ),
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from_iter(
                ints(many(40)).map(|value| value.map(|value| MOMENT + value * 500_000)),
            )),
        ),
        (
            "s",
            Arc::new(StringViewArray::from_iter(
                many(TEXTS.len())
                    .into_iter()
                    .map(|value| value.map(|at| TEXTS[at])),
            )),
        ),
        (
            "c",
            Arc::new(StringViewArray::from_iter(
                many(CODES.len())
                    .into_iter()
                    .map(|value| value.map(|at| CODES[at])),
            )),
        ),
        (
            "y",
            Arc::new(BinaryArray::from_iter(
                many(BYTES.len())
                    .into_iter()
                    .map(|value| value.map(|at| BYTES[at])),
            )),
        ),
        (
            "z",
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                    many(6)
                        .into_iter()
                        .map(|value| value.map(|value| [value as u8, 255 - value as u8])),
                    2,
                )
                .unwrap(),
            ),
        ),
        (
            "n",
            Arc::new(Int32Array::from_iter_values(
                (0..count as i32).map(|id| id * 7 % 50),
            )),
        ),
        (
            "r",
            Arc::new(Float32Array::from_iter(
                many(FLOATS.len())
                    .into_iter()
                    .map(|value| value.map(|at| (FLOATS[at] * 0.1) as f32)),
            )),
        ),
        (
            "w",
            Arc::new(
                Decimal128Array::from_iter(
                    ints(many(40)).map(|value| value.map(|value| i128::from(value) * WIDE_STEP)),
                )
                .with_precision_and_scale(30, 2)
                .unwrap(),
            ),
        ),
        (
            "tz",
            Arc::new(
                TimestampMicrosecondArray::from_iter(
                    ints(many(40)).map(|value| value.map(|value| MOMENT + value * 500_000)),
                )
                .with_timezone("UTC"),
            ),
        ),
        (
            "u",
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                    many(6)
                        .into_iter()
                        .map(|value| value.map(|value| [value as u8; 16])),
                    16,
                )
                .unwrap(),
            ),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| {
        let nullable = !matches!(name, "id" | "n");
        (name, array, nullable)
    }))
    .unwrap()
}

/// An engine of small batches.
pub fn engine(partitions: usize, batch_size: usize, joins: Joins) -> Engine {
    Engine::new(&EngineOptions {
        partitions,
        batch_size,
        joins,
        ..EngineOptions::default()
    })
    .unwrap()
}

/// A store in memory with these tables and rows.
pub fn store(tables: Vec<(TableDef, RecordBatch)>) -> Store {
    let store = Store::in_memory(Options::default()).unwrap();
    for (definition, rows) in tables {
        let name = definition.name.clone();
        store.create_table(definition).unwrap();
        let batches = [Ok(rows.clone())];
        let loaded = load(&store, &name, &rows.schema(), batches, &LoadOptions::default()).unwrap();
        assert_eq!(loaded, rows.num_rows() as u64);
    }
    store
}
