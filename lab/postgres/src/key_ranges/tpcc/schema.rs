//! The nine tables of TPC-C (clause 1.3) in SQL. Columns stand in the order of the fields of `corun_workloads::tpcc::row`.

use corun_store::Type;
use corun_workloads::tpcc::TableName;

use crate::fixture::load::settled;

/// A table's columns with their types. Rates, money and times are integers, as the rows have them.
pub fn columns(table: TableName) -> Vec<(String, &'static str)> {
    let sql = |data_type| match data_type {
        Type::I8 | Type::I16 | Type::I32 | Type::Decimal { precision: ..=9, .. } => "int",
        Type::Bool => "bool",
        Type::Text { .. } | Type::FixedText { .. } => "text",
        _ => "bigint",
    };
    let columns = table.columns().into_iter();
    columns
        .map(|column| (column.name, sql(column.data_type)))
        .collect()
}

/// The statement that makes a table, without keys. Tables whose rows change all the time keep room for that in their pages.
pub fn create(table: TableName) -> String {
    let columns: Vec<String> = columns(table)
        .into_iter()
        .map(|(name, kind)| format!("{name} {kind}"))
        .collect();
    let filled = match table {
        TableName::Warehouse | TableName::District => " with (fillfactor = 10)",
        TableName::Customer | TableName::Stock => " with (fillfactor = 90)",
        _ => "",
    };
    format!("create table {table} ({}){filled}", columns.join(", "))
}

/// What is to be done once all rows are there, one statement each.
pub fn after_load() -> Vec<String> {
    let keyed = TableName::ALL.into_iter().filter(|table| !table.key().is_empty());
    let keys = keyed.map(|table| format!("alter table {table} add primary key ({})", table.key().join(", ")));
    let indexes = [
        "create index on customer (c_w_id, c_d_id, c_last, c_first, c_id)".to_owned(),
        "create index on orders (o_w_id, o_d_id, o_c_id, o_id)".to_owned(),
    ];
    keys.chain(indexes).chain(settled(TableName::ALL)).collect()
}

/// Old versions of rows go, so that no turn finds more of them than another.
pub const TIDY: [&str; 4] = [
    "vacuum warehouse",
    "vacuum district",
    "vacuum new_order",
    "vacuum customer",
];
