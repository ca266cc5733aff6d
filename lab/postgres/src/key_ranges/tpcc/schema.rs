//! The nine tables of TPC-C (clause 1.3) in SQL. Columns stand in the order of the fields of `corun_workloads::tpcc::row`.

use corun_workloads::tpcc::TableName;

const ADDRESS: [&str; 5] = ["street_1", "street_2", "city", "state", "zip"];

/// A table's columns with their types.
pub fn columns(table: TableName) -> Vec<(String, &'static str)> {
    let own = |columns: &[(&str, &'static str)]| -> Vec<(String, &'static str)> {
        columns
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), *kind))
            .collect()
    };
    let address = |letter: char| ADDRESS.map(|part| (format!("{letter}_{part}"), "text")).to_vec();
    match table {
        TableName::Warehouse => [
            own(&[("w_id", "int"), ("w_name", "text")]),
            address('w'),
            own(&[("w_tax", "int"), ("w_ytd", "bigint")]),
        ]
        .concat(),
        TableName::District => [
            own(&[("d_w_id", "int"), ("d_id", "int"), ("d_name", "text")]),
            address('d'),
            own(&[("d_tax", "int"), ("d_ytd", "bigint"), ("d_next_o_id", "int")]),
        ]
        .concat(),
        TableName::Customer => [
            own(&[
                ("c_w_id", "int"),
                ("c_d_id", "int"),
                ("c_id", "int"),
                ("c_first", "text"),
                ("c_middle", "text"),
                ("c_last", "text"),
            ]),
            address('c'),
            own(&[
                ("c_phone", "text"),
                ("c_since", "bigint"),
                ("c_credit", "text"),
                ("c_credit_lim", "bigint"),
                ("c_discount", "int"),
                ("c_balance", "bigint"),
                ("c_ytd_payment", "bigint"),
                ("c_payment_cnt", "int"),
                ("c_delivery_cnt", "int"),
                ("c_data", "text"),
            ]),
        ]
        .concat(),
        TableName::History => own(&[
            ("h_c_w_id", "int"),
            ("h_c_d_id", "int"),
            ("h_c_id", "int"),
            ("h_w_id", "int"),
            ("h_d_id", "int"),
            ("h_date", "bigint"),
            ("h_amount", "bigint"),
            ("h_data", "text"),
        ]),
        TableName::NewOrder => own(&[("no_w_id", "int"), ("no_d_id", "int"), ("no_o_id", "int")]),
        TableName::Orders => own(&[
            ("o_w_id", "int"),
            ("o_d_id", "int"),
            ("o_id", "int"),
            ("o_c_id", "int"),
            ("o_entry_d", "bigint"),
            ("o_carrier_id", "int"),
            ("o_ol_cnt", "int"),
            ("o_all_local", "bool"),
        ]),
        TableName::OrderLine => own(&[
            ("ol_w_id", "int"),
            ("ol_d_id", "int"),
            ("ol_o_id", "int"),
            ("ol_number", "int"),
            ("ol_i_id", "int"),
            ("ol_supply_w_id", "int"),
            ("ol_delivery_d", "bigint"),
            ("ol_quantity", "int"),
            ("ol_amount", "bigint"),
            ("ol_dist_info", "text"),
        ]),
        TableName::Item => own(&[
            ("i_id", "int"),
            ("i_im_id", "int"),
            ("i_name", "text"),
            ("i_price", "bigint"),
            ("i_data", "text"),
        ]),
        TableName::Stock => {
            let places = (1..=10).map(|district| (format!("s_dist_{district:02}"), "text"));
            [
                own(&[("s_w_id", "int"), ("s_i_id", "int"), ("s_quantity", "int")]),
                places.collect(),
                own(&[
                    ("s_ytd", "bigint"),
                    ("s_order_cnt", "int"),
                    ("s_remote_cnt", "int"),
                    ("s_data", "text"),
                ]),
            ]
            .concat()
        }
    }
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
    let keys = [
        ("warehouse", "w_id"),
        ("district", "d_w_id, d_id"),
        ("customer", "c_w_id, c_d_id, c_id"),
        ("new_order", "no_w_id, no_d_id, no_o_id"),
        ("orders", "o_w_id, o_d_id, o_id"),
        ("order_line", "ol_w_id, ol_d_id, ol_o_id, ol_number"),
        ("item", "i_id"),
        ("stock", "s_w_id, s_i_id"),
    ];
    let keys = keys.map(|(table, key)| format!("alter table {table} add primary key ({key})"));
    let indexes = [
        "create index on customer (c_w_id, c_d_id, c_last, c_first, c_id)".to_owned(),
        "create index on orders (o_w_id, o_d_id, o_c_id, o_id)".to_owned(),
    ];
    let statistics = TableName::ALL.map(|table| format!("vacuum (analyze, freeze) {table}"));
    keys.into_iter()
        .chain(indexes)
        .chain(statistics)
        .chain(["checkpoint".to_owned()])
        .collect()
}

/// Old versions of rows go, so that no turn finds more of them than another.
pub const TIDY: [&str; 4] = [
    "vacuum warehouse",
    "vacuum district",
    "vacuum new_order",
    "vacuum customer",
];
