//! The eight tables of TPC-W (clause 1.4), and what follows once they are filled: keys, indexes, numbers for new rows, statistics.
//!
//! Indexes are those its interactions look things up by. New Products and the searches find their fifty items in the index, so that Best
//! Seller stays the complex query it is in the paper.

use super::Scale;
use crate::fixture::load::settled;

/// A table: its name and its columns as SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns with their types.
    pub columns: &'static str,
    /// The columns of its primary key.
    pub key: &'static str,
}

impl Table {
    /// The statement that makes it, without keys.
    pub fn create(&self) -> String {
        format!("create table {} ({})", self.name, self.columns)
    }

    /// How many columns it has. Commas inside of types do not count.
    pub fn width(&self) -> usize {
        let mut depth = 0;
        let commas = self.columns.chars().filter(|character| {
            depth += i32::from(*character == '(') - i32::from(*character == ')');
            *character == ',' && depth == 0
        });
        commas.count() + 1
    }
}

const fn table(name: &'static str, key: &'static str, columns: &'static str) -> Table {
    Table { name, columns, key }
}

/// `item`.
pub const ITEM: Table = table(
    "item",
    "i_id",
    "i_id int not null, i_title varchar(60) not null, i_a_id int not null, i_pub_date date not null, \
     i_publisher varchar(60) not null, i_subject varchar(60) not null, i_desc varchar(500) not null, \
     i_related1 int not null, i_related2 int not null, i_related3 int not null, i_related4 int not null, \
     i_related5 int not null, i_thumbnail varchar(40) not null, i_image varchar(40) not null, \
     i_srp numeric(15, 2) not null, i_cost numeric(15, 2) not null, i_avail date not null, i_stock int not null, \
     i_isbn char(13) not null, i_page int not null, i_backing varchar(15) not null, i_dimensions varchar(25) not null",
);
/// `author`.
pub const AUTHOR: Table = table(
    "author",
    "a_id",
    "a_id int not null, a_fname varchar(20) not null, a_lname varchar(20) not null, a_mname varchar(20) not null, \
     a_dob date not null, a_bio varchar(500) not null",
);
/// `customer`.
pub const CUSTOMER: Table = table(
    "customer",
    "c_id",
    "c_id int not null, c_uname varchar(20) not null, c_passwd varchar(20) not null, c_fname varchar(17) not null, \
     c_lname varchar(17) not null, c_addr_id int not null, c_phone varchar(18) not null, c_email varchar(50) not null, \
     c_since date not null, c_last_login date not null, c_login timestamp not null, c_expiration timestamp not null, \
     c_discount numeric(3, 2) not null, c_balance numeric(15, 2) not null, c_ytd_pmt numeric(15, 2) not null, \
     c_birthdate date not null, c_data varchar(500) not null",
);
/// `address`.
pub const ADDRESS: Table = table(
    "address",
    "addr_id",
    "addr_id int not null, addr_street1 varchar(40) not null, addr_street2 varchar(40) not null, \
     addr_city varchar(30) not null, addr_state varchar(20) not null, addr_zip varchar(10) not null, \
     addr_co_id int not null",
);
/// `country`.
pub const COUNTRY: Table = table(
    "country",
    "co_id",
    "co_id int not null, co_name varchar(50) not null, co_exchange numeric(12, 6) not null, \
     co_currency varchar(18) not null",
);
/// `orders`; the specification's ORDER is a reserved word of SQL.
pub const ORDERS: Table = table(
    "orders",
    "o_id",
    "o_id int not null, o_c_id int not null, o_date timestamp not null, o_sub_total numeric(15, 2) not null, \
     o_tax numeric(15, 2) not null, o_total numeric(15, 2) not null, o_ship_type varchar(10) not null, \
     o_ship_date timestamp not null, o_bill_addr_id int not null, o_ship_addr_id int not null, \
     o_status varchar(16) not null",
);
/// `order_line`.
pub const ORDER_LINE: Table = table(
    "order_line",
    "ol_o_id, ol_id",
    "ol_id int not null, ol_o_id int not null, ol_i_id int not null, ol_qty int not null, \
     ol_discount numeric(3, 2) not null, ol_comments varchar(110) not null",
);
/// `cc_xacts`.
pub const CC_XACTS: Table = table(
    "cc_xacts",
    "cx_o_id",
    "cx_o_id int not null, cx_type varchar(10) not null, cx_num varchar(20) not null, cx_name varchar(30) not null, \
     cx_expiry date not null, cx_auth_id char(15) not null, cx_xact_amt numeric(15, 2) not null, \
     cx_xact_date timestamp not null, cx_co_id int not null",
);

/// All of them.
pub const TABLES: [Table; 8] = [
    ITEM, AUTHOR, CUSTOMER, ADDRESS, COUNTRY, ORDERS, ORDER_LINE, CC_XACTS,
];

/// Indexes beside the keys.
const INDEXES: [&str; 9] = [
    "item (i_subject, i_pub_date desc, i_title, i_id)",
    "item (i_subject, i_title, i_id)",
    "item (i_title, i_id)",
    "item (i_a_id)",
    "author (a_lname)",
    "customer (c_uname)",
    "address (addr_co_id)",
    "orders (o_c_id)",
    "order_line (ol_i_id)",
];

/// What is to be done once all rows are there, one statement each.
pub fn after_load(scale: Scale) -> Vec<String> {
    let keys = TABLES.map(|table| format!("alter table {} add primary key ({})", table.name, table.key));
    let indexes = INDEXES.map(|index| format!("create index on {index}"));
    let numbers = [
        ("orders_id", scale.orders()),
        ("customer_id", scale.customers),
        ("address_id", scale.addresses()),
    ];
    let numbers = numbers.map(|(name, last)| format!("create sequence {name} start {} cache 1", last + 1));
    let all = keys.into_iter().chain(indexes).chain(numbers);
    all.chain(settled(TABLES.map(|table| table.name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_counted_without_those_of_types() {
        let widths = TABLES.map(|table| table.width());
        assert_eq!(widths, [22, 6, 17, 7, 4, 11, 6, 9]);
    }
}
