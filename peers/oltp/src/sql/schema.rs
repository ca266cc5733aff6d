//! The TPC-C and YCSB tables in SQL, and how their keys are packed.
//!
//! Rows of SQLite, and of engines with its file format, lie in the B-tree of their rowid: 64-bit integers compared as such, payloads
//! only in the leaves. A `WITHOUT ROWID` table with a key of several columns compares records and keeps whole rows in the inner pages:
//! with rows of 100 to 650 bytes its tree is two levels deeper and every search slower. So every key of TPC-C, which fits 63 bits, is
//! packed into one integer that is the rowid; the columns it is made of are not stored twice.

/// The tables of TPC-C. Columns that transactions read or change most come first: SQLite finds a column by walking those before it.
pub const TPCC: &str = "
create table warehouse (w integer primary key, w_ytd int, w_tax int, w_name text, w_street_1 text, w_street_2 text, w_city text,
    w_state text, w_zip text);
create table district (d integer primary key, d_next_o_id int, d_ytd int, d_tax int, d_name text, d_street_1 text, d_street_2 text,
    d_city text, d_state text, d_zip text);
create table customer (c integer primary key, c_d int, c_balance int, c_ytd_payment int, c_payment_cnt int, c_delivery_cnt int,
    c_discount int, c_credit_lim int, c_credit text, c_first text, c_middle text, c_last text, c_street_1 text, c_street_2 text,
    c_city text, c_state text, c_zip text, c_phone text, c_since int, c_data text);
create table history (h integer primary key, h_c int, h_d int, h_date int, h_amount int, h_data text);
create table new_order (o integer primary key);
create table orders (o integer primary key, o_c int, o_carrier_id int, o_ol_cnt int, o_all_local int, o_entry_d int);
create table order_line (ol integer primary key, ol_i_id int, ol_supply_w_id int, ol_quantity int, ol_amount int, ol_delivery_d int,
    ol_dist_info text);
create table item (i integer primary key, i_price int, i_name text, i_im_id int, i_data text);
create table stock (s integer primary key, s_quantity int, s_ytd int, s_order_cnt int, s_remote_cnt int, s_data text, s_dist_01 text,
    s_dist_02 text, s_dist_03 text, s_dist_04 text, s_dist_05 text, s_dist_06 text, s_dist_07 text, s_dist_08 text, s_dist_09 text,
    s_dist_10 text);
";

/// The indexes of TPC-C, made before loading like the other engines' are.
pub const TPCC_INDEXES: &str = "
create index customer_by_name on customer (c_d, c_last, c_first);
create index orders_by_customer on orders (o_c);
";

/// The table of YCSB.
pub const YCSB: &str = "
create table record (k integer primary key, f0 blob, f1 blob, f2 blob, f3 blob, f4 blob, f5 blob, f6 blob, f7 blob, f8 blob, f9 blob);
";

/// A district: warehouse above 4 bits of the district (1..=10).
pub fn district(w: i16, d: i8) -> i64 {
    i64::from(w) << 4 | i64::from(d)
}

/// A customer, or an order: its district above 32 bits.
pub fn in_district(w: i16, d: i8, number: i32) -> i64 {
    district(w, d) << 32 | i64::from(number)
}

/// The first and the last order line an order can have: 4 bits below the order.
pub fn lines(order: i64) -> (i64, i64) {
    (order << 4, order << 4 | 15)
}

/// A stock row: warehouse above 32 bits of the item.
pub fn stock(w: i16, item: i32) -> i64 {
    i64::from(w) << 32 | i64::from(item)
}
