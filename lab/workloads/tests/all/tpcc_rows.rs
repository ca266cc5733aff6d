//! What TPC-C's rows are where they are kept: keys and values of a key-value store, columns and tables of our own store. Sums of
//! all bytes and the definitions as text are held to what they were; whoever changes a column changes them here.

use std::fmt::Write;

use corun_workloads::Naive;
use corun_workloads::corun::{self, CorunTpcc};
use corun_workloads::driver::{TpccWorkload, compare_tpcc};
use corun_workloads::engine::{Durability, TpccEngine};
use corun_workloads::kv::{End, KvEngine};
use corun_workloads::tpcc::{self, KV_TABLES, KvTpcc, Mix, Row, Rows, Scale, TableName};

const LOAD_SEED: u64 = 11;

/// FNV-1a, with the length of every piece before it.
struct Sum(u64);

impl Sum {
    fn new() -> Self {
        Sum(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, piece: &[u8]) {
        for byte in (piece.len() as u32).to_le_bytes().iter().chain(piece) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// A line for each table: its name, its pairs, the sum of their bytes. Keys of `history` begin with the time of the load, which is
/// left out.
fn key_value_sums(engine: &KvTpcc<Naive>) -> String {
    let mut text = String::new();
    let mut client = engine.store().client(0).unwrap();
    for (number, name) in KV_TABLES.into_iter().enumerate() {
        let (mut sum, mut pairs) = (Sum::new(), 0);
        client
            .transaction(false, &mut |tx| {
                tx.scan(number as u8, &[], &[], false, &mut |key, value| {
                    sum.add(if name == "history" { &key[8..] } else { key });
                    sum.add(value);
                    pairs += 1;
                    true
                })?;
                Ok(End::Commit)
            })
            .unwrap();
        writeln!(text, "{name} {pairs} {:016x}", sum.0).unwrap();
    }
    text
}

/// A line for each table: its name, its rows, the sum of their fields as text.
fn store_sums(engine: &CorunTpcc) -> String {
    let mut text = String::new();
    let snapshot = engine.store().snapshot().unwrap();
    for table in engine.store().tables() {
        let (mut sum, mut rows) = (Sum::new(), 0);
        for found in snapshot.rows(&table, 0..table.rid_end()).unwrap() {
            for column in 0..table.definition().columns.len() {
                sum.add(found.row.value(column).to_string().as_bytes());
            }
            rows += 1;
        }
        writeln!(text, "{} {rows} {:016x}", table.name(), sum.0).unwrap();
    }
    text
}

fn sums(naive: &KvTpcc<Naive>, corun: &CorunTpcc) -> String {
    let (naive, corun) = (key_value_sums(naive), store_sums(corun));
    format!("key-value\n{naive}\nstore\n{corun}")
}

fn loaded() -> (KvTpcc<Naive>, CorunTpcc, Scale) {
    let scale = Scale::hundredth(1);
    let naive = KvTpcc::new(Naive::new(KV_TABLES.len()));
    let folder = tempfile::tempdir().unwrap();
    let corun = CorunTpcc::new(corun::open(Durability::None, folder.path(), 1).unwrap()).unwrap();
    tpcc::load(&naive, scale, LOAD_SEED, 1, &|_| ()).unwrap();
    tpcc::load(&corun, scale, LOAD_SEED, 1, &|_| ()).unwrap();
    (naive, corun, scale)
}

#[test]
fn rows_of_a_load_are_the_same_bytes_as_ever() {
    let (naive, corun, scale) = loaded();
    assert_eq!(sums(&naive, &corun), include_str!("tpcc_rows/loaded.txt"));
    let mut expected: Vec<Row> = (0..=scale.warehouses)
        .flat_map(|part| Rows::part(scale, LOAD_SEED, part))
        .collect();
    expected.sort_unstable();
    for engine in [&naive as &dyn TpccEngine, &corun] {
        let mut rows = Vec::with_capacity(expected.len());
        for table in TableName::ALL {
            engine.visit(table, &mut |row| rows.push(row.clone())).unwrap();
        }
        rows.sort_unstable();
        assert!(rows == expected, "{}", engine.name());
    }
}

#[test]
fn transactions_leave_the_same_bytes_as_ever() {
    let (naive, corun, scale) = loaded();
    let workload = TpccWorkload {
        scale,
        load_seed: LOAD_SEED,
        mix: Mix::STANDARD,
    };
    compare_tpcc(&naive, &corun, &workload, 5, 1000).unwrap();
    assert_eq!(sums(&naive, &corun), include_str!("tpcc_rows/left.txt"));
}

#[test]
fn tables_of_the_store_have_the_same_columns_and_indexes_as_ever() {
    let folder = tempfile::tempdir().unwrap();
    let store = corun::open(Durability::None, folder.path(), 1).unwrap();
    let engine = CorunTpcc::new(store).unwrap();
    let mut text = String::new();
    for table in engine.store().tables() {
        let definition = table.definition();
        writeln!(text, "{}", definition.name).unwrap();
        for column in &definition.columns {
            let null = if column.nullable { " or null" } else { "" };
            writeln!(text, "    {} {}{null}", column.name, column.data_type).unwrap();
        }
        for index in &definition.indexes {
            let unique = if index.unique { "unique index" } else { "index" };
            writeln!(text, "    {unique} {} ({})", index.name, index.columns.join(", ")).unwrap();
        }
    }
    assert_eq!(text, include_str!("tpcc_rows/store_tables.txt"));
}
