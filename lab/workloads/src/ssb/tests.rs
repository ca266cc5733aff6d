//! Tests of the generator as a whole: counts, keys, selectivities, independence of threads, recorded checksums.

use std::collections::HashSet;

use arrow::array::{AsArray, StringArray};
use arrow::datatypes::Int32Type;

use super::*;
use crate::answers::{Answer, fingerprint};
use crate::dataset::{TableData, part_file};
use corun_model::progress::Silent;

fn dataset(scale_factor: f64) -> Dataset {
    Ssb::new(scale_factor).unwrap().dataset(2, 2, &Silent)
}

fn ints(data: &Dataset, table: &str, column: &str) -> Vec<i32> {
    let table = data.table(table).unwrap();
    let index = table.schema.index_of(column).unwrap();
    let of = |batch: &RecordBatch| batch.column(index).as_primitive::<Int32Type>().values().to_vec();
    table.batches().flat_map(of).collect()
}

fn texts(data: &Dataset, table: &str, column: &str) -> Vec<String> {
    let table = data.table(table).unwrap();
    let index = table.schema.index_of(column).unwrap();
    let of = |batch: &RecordBatch| {
        let strings: &StringArray = batch.column(index).as_string();
        strings
            .iter()
            .map(|text| text.unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    table.batches().flat_map(of).collect()
}

fn content(table: &TableData) -> Answer {
    let batches: Vec<RecordBatch> = table.batches().cloned().collect();
    fingerprint(&table.schema, &batches)
}

#[test]
fn row_counts_follow_the_specification() {
    let data = dataset(0.01);
    let rows: Vec<usize> = data.tables.iter().map(TableData::rows).collect();
    assert_eq!(rows, [60_000, 300, 20, 2_000, 2_556]);
    assert_eq!(
        data.names(),
        ["lineorder", "customer", "supplier", "part", "date", "dates"]
    );
    let orders: HashSet<i32> = ints(&data, "lineorder", "lo_orderkey").into_iter().collect();
    assert!(orders.len().abs_diff(15_000) <= 7, "{}", orders.len());
}

#[test]
fn every_foreign_key_resolves() {
    let data = dataset(0.01);
    for (foreign, table, key) in [
        ("lo_custkey", "customer", "c_custkey"),
        ("lo_suppkey", "supplier", "s_suppkey"),
        ("lo_partkey", "part", "p_partkey"),
        ("lo_orderdate", "date", "d_datekey"),
        ("lo_commitdate", "date", "d_datekey"),
    ] {
        let keys: Vec<i32> = ints(&data, table, key);
        let distinct: HashSet<i32> = keys.iter().copied().collect();
        assert_eq!(distinct.len(), keys.len(), "{key} is a key");
        assert!(
            ints(&data, "lineorder", foreign)
                .iter()
                .all(|value| distinct.contains(value)),
            "{foreign}"
        );
    }
}

#[test]
fn lines_of_an_order_agree_and_money_adds_up() {
    let data = dataset(0.01);
    let column = |name| ints(&data, "lineorder", name);
    let (keys, lines, totals) = (
        column("lo_orderkey"),
        column("lo_linenumber"),
        column("lo_ordtotalprice"),
    );
    let (customers, dates) = (column("lo_custkey"), column("lo_orderdate"));
    let (extended, discounts, taxes) = (
        column("lo_extendedprice"),
        column("lo_discount"),
        column("lo_tax"),
    );
    let revenues = column("lo_revenue");
    let mut row = 0;
    while row < keys.len() {
        let end = (row..keys.len())
            .find(|&other| keys[other] != keys[row])
            .unwrap_or(keys.len());
        assert!(end - row <= 7);
        let mut total = 0;
        for line in row..end {
            assert_eq!(lines[line], (line - row) as i32 + 1);
            assert_eq!(
                (customers[line], dates[line], totals[line]),
                (customers[row], dates[row], totals[row])
            );
            assert_eq!(
                revenues[line],
                (i64::from(extended[line]) * i64::from(100 - discounts[line]) / 100) as i32
            );
            total += (i64::from(revenues[line]) * i64::from(100 + taxes[line]) / 100) as i32;
        }
        assert_eq!(total, totals[row]);
        row = end;
    }
}

/// The share of `lineorder` each query keeps, against the specification's filter factors (its table of section 3.4,
/// with order dates spread over 2,406 days rather than seven full years, and Q1.3's quantities at 2/10).
#[test]
fn selectivities_are_near_the_published_filter_factors() {
    // Dimensions large enough that their shares are near their expectation.
    let ssb = Ssb::with_sizes(Sizes {
        lineorder: 200_000,
        customer: 30_000,
        supplier: 20_000,
        part: 50_000,
    });
    let data = ssb.dataset(1, 2, &Silent);
    let share = |table: &str, column: &str, keep: &dyn Fn(&str) -> bool| {
        let values = texts(&data, table, column);
        values.iter().filter(|value| keep(value)).count() as f64 / values.len() as f64
    };
    let near = |actual: f64, expected: f64, what: &str| {
        assert!(
            (actual / expected - 1.0).abs() < 0.12,
            "{what}: {actual} instead of {expected}"
        );
    };
    near(
        share("customer", "c_region", &|r| r == "ASIA"),
        1.0 / 5.0,
        "c_region",
    );
    near(
        share("supplier", "s_nation", &|n| n == "UNITED STATES"),
        1.0 / 25.0,
        "s_nation",
    );
    near(
        share("supplier", "s_city", &|c| c == "UNITED KI1" || c == "UNITED KI5"),
        1.0 / 125.0,
        "s_city",
    );
    near(
        share("part", "p_mfgr", &|m| m == "MFGR#1" || m == "MFGR#2"),
        2.0 / 5.0,
        "p_mfgr",
    );
    near(
        share("part", "p_category", &|c| c == "MFGR#12"),
        1.0 / 25.0,
        "p_category",
    );
    let brands = |b: &str| ("MFGR#2221"..="MFGR#2228").contains(&b);
    near(share("part", "p_brand1", &brands), 8.0 / 1000.0, "p_brand1");
    assert_eq!(
        texts(&data, "part", "p_brand1")
            .into_iter()
            .collect::<HashSet<_>>()
            .len(),
        1000
    );

    let dates = ints(&data, "lineorder", "lo_orderdate");
    let (discounts, quantities) = (
        ints(&data, "lineorder", "lo_discount"),
        ints(&data, "lineorder", "lo_quantity"),
    );
    let rows = dates.len();
    let kept = |keep: &dyn Fn(usize) -> bool| (0..rows).filter(|&row| keep(row)).count() as f64 / rows as f64;
    let year = |row: usize| dates[row] / 10_000;
    near(kept(&|row| year(row) == 1993), 365.0 / 2406.0, "d_year");
    near(
        kept(&|row| dates[row] / 100 == 199_401),
        31.0 / 2406.0,
        "d_yearmonthnum",
    );
    near(kept(&|row| year(row) >= 1997), 579.0 / 2406.0, "1997 and 1998");
    near(
        kept(&|row| year(row) == 1993 && (1..=3).contains(&discounts[row]) && quantities[row] < 25),
        365.0 / 2406.0 * 3.0 / 11.0 * 24.0 / 50.0,
        "q1.1",
    );
    near(
        kept(&|row| (4..=6).contains(&discounts[row]) && (26..=35).contains(&quantities[row])),
        3.0 / 11.0 * 10.0 / 50.0,
        "q1.2 and q1.3 without their date",
    );
    // The joins draw keys independently of the dimensions' attributes: check one product, Q4.1's 2/125.
    let (customers, suppliers, parts) = (
        texts(&data, "customer", "c_region"),
        texts(&data, "supplier", "s_region"),
        texts(&data, "part", "p_mfgr"),
    );
    let (c, s, p) = (
        ints(&data, "lineorder", "lo_custkey"),
        ints(&data, "lineorder", "lo_suppkey"),
        ints(&data, "lineorder", "lo_partkey"),
    );
    let q41 = kept(&|row| {
        customers[c[row] as usize - 1] == "AMERICA"
            && suppliers[s[row] as usize - 1] == "AMERICA"
            && ["MFGR#1", "MFGR#2"].contains(&parts[p[row] as usize - 1].as_str())
    });
    near(q41, 2.0 / 125.0, "q4.1");
}

#[test]
fn content_depends_on_neither_threads_nor_partitions() {
    let ssb = Ssb::new(0.01).unwrap();
    let one = ssb.dataset(1, 1, &Silent);
    let seven = ssb.dataset(7, 3, &Silent);
    for (a, b) in one.tables.iter().zip(&seven.tables) {
        assert_eq!((a.partitions.len(), b.partitions.len()), (1, 7));
        assert!(a.batches().eq(b.batches()), "{}", a.name);
        assert!(b.repartitioned(2).batches().eq(a.batches()), "{}", a.name);
    }
    let other = ssb.with_seed(1).dataset(1, 1, &Silent);
    assert_ne!(content(&other.tables[0]), content(&one.tables[0]));
}

/// Recorded so that a change of the data is noticed: recorded answers and published numbers hold for these rows.
#[test]
fn checksums_are_as_recorded() {
    let recorded: [(&str, u64, u64); 5] = [
        ("lineorder", 60_000, 0xbfb8_8a7e_cdf2_8bdb),
        ("customer", 300, 0xa022_51e7_61af_3d5f),
        ("supplier", 20, 0x6b90_9456_cffa_5175),
        ("part", 2_000, 0x56a7_3d46_619b_21ad),
        ("date", 2_556, 0x8ea7_3628_fada_d52a),
    ];
    let data = dataset(0.01);
    let made: Vec<(&str, u64, u64)> = data
        .tables
        .iter()
        .map(|table| {
            let answer = content(table);
            (table.name, answer.rows, answer.checksum)
        })
        .collect();
    assert_eq!(made, recorded, "{made:#x?}");
}

#[test]
fn parquet_files_hold_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let ssb = Ssb::new(0.005).unwrap();
    let rows = ssb.write_parquet(folder.path(), 3, 2, &Silent).unwrap();
    let data = ssb.dataset(1, 2, &Silent);
    assert_eq!(rows, data.rows());
    for table in &data.tables {
        let mut batches = Vec::new();
        let mut part = 0;
        while let Ok(file) = std::fs::File::open(part_file(folder.path(), table.name, part)) {
            let reader =
                parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            batches.extend(reader.build().unwrap().map(Result::unwrap));
            part += 1;
        }
        assert!(part >= 1);
        assert_eq!(
            fingerprint(&table.schema, &batches),
            content(table),
            "{}",
            table.name
        );
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Ssb::new(0.001)
        .unwrap()
        .write_parquet(file.path(), 1, 1, &Silent)
        .unwrap_err();
    assert!(error.to_string().contains("cannot write"), "{error}");
}
