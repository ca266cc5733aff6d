//! The nine tables in the store: definitions, handles, and the positions of columns that transactions name.
//!
//! Keys of orders, customers, stocks and order lines take 8 bytes at most, the narrowest the store's indexes have.

use corun_store::{Index, RowBuf, Store, StoreError, Table, TableDef, Type};

use crate::tpcc::TableName;

const MONEY: Type = Type::Decimal {
    precision: 12,
    scale: 2,
};
/// Sums of payments: twelve digits are the least that clause 1.3.1 asks for, and without think times a warehouse outgrows them in a
/// minute of Payments alone.
const MONEY_SUM: Type = Type::Decimal {
    precision: 18,
    scale: 2,
};
const RATE: Type = Type::Decimal {
    precision: 4,
    scale: 4,
};
const COUNT: Type = Type::I32;

fn text(max: u32) -> Type {
    Type::Text { max }
}

fn address(table: TableDef, prefix: &str) -> TableDef {
    table
        .column(&format!("{prefix}_street_1"), text(20))
        .column(&format!("{prefix}_street_2"), text(20))
        .column(&format!("{prefix}_city"), text(20))
        .column(&format!("{prefix}_state"), Type::FixedText { bytes: 2 })
        .column(&format!("{prefix}_zip"), Type::FixedText { bytes: 9 })
}

/// What a table is made of. The order of columns is that of the row's fields, with one column before those of `history`.
pub(super) fn definition(table: TableName) -> TableDef {
    let new = TableDef::new(table.as_str());
    match table {
        TableName::Warehouse => address(new.column("w_id", Type::I16).column("w_name", text(10)), "w")
            .column("w_tax", RATE)
            .column("w_ytd", MONEY_SUM)
            .primary_key(&["w_id"]),
        TableName::District => address(
            new.column("d_w_id", Type::I16)
                .column("d_id", Type::I8)
                .column("d_name", text(10)),
            "d",
        )
        .column("d_tax", RATE)
        .column("d_ytd", MONEY_SUM)
        .column("d_next_o_id", Type::I32)
        .primary_key(&["d_w_id", "d_id"]),
        TableName::Customer => address(
            new.column("c_w_id", Type::I16)
                .column("c_d_id", Type::I8)
                .column("c_id", Type::I32)
                .column("c_first", text(16))
                .column("c_middle", Type::FixedText { bytes: 2 })
                .column("c_last", text(16)),
            "c",
        )
        .column("c_phone", Type::FixedText { bytes: 16 })
        .column("c_since", Type::Timestamp)
        .column("c_credit", Type::FixedText { bytes: 2 })
        .column("c_credit_lim", MONEY)
        .column("c_discount", RATE)
        .column("c_balance", MONEY)
        .column("c_ytd_payment", MONEY_SUM)
        .column("c_payment_cnt", COUNT)
        .column("c_delivery_cnt", COUNT)
        .column("c_data", text(500))
        .primary_key(&["c_w_id", "c_d_id", "c_id"])
        .index("by_name", &["c_w_id", "c_d_id", "c_last"]),
        TableName::History => new
            // The specification gives it no key; the store wants one.
            .column("h_id", Type::I64)
            .column("h_c_w_id", Type::I16)
            .column("h_c_d_id", Type::I8)
            .column("h_c_id", Type::I32)
            .column("h_w_id", Type::I16)
            .column("h_d_id", Type::I8)
            .column("h_date", Type::Timestamp)
            .column("h_amount", MONEY)
            .column("h_data", text(24))
            .primary_key(&["h_id"]),
        TableName::NewOrder => new
            .column("no_w_id", Type::I16)
            .column("no_d_id", Type::I8)
            .column("no_o_id", Type::I32)
            .primary_key(&["no_w_id", "no_d_id", "no_o_id"]),
        TableName::Orders => new
            .column("o_w_id", Type::I16)
            .column("o_d_id", Type::I8)
            .column("o_id", Type::I32)
            .column("o_c_id", Type::I32)
            .column("o_entry_d", Type::Timestamp)
            .nullable("o_carrier_id", Type::I8)
            .column("o_ol_cnt", Type::I8)
            .column("o_all_local", Type::Bool)
            .primary_key(&["o_w_id", "o_d_id", "o_id"])
            .unique("by_customer", &["o_w_id", "o_d_id", "o_c_id", "o_id"]),
        TableName::OrderLine => new
            .column("ol_w_id", Type::I16)
            .column("ol_d_id", Type::I8)
            .column("ol_o_id", Type::I32)
            .column("ol_number", Type::I8)
            .column("ol_i_id", Type::I32)
            .column("ol_supply_w_id", Type::I16)
            .nullable("ol_delivery_d", Type::Timestamp)
            .column("ol_quantity", Type::I8)
            .column("ol_amount", MONEY)
            .column("ol_dist_info", text(24))
            .primary_key(&["ol_w_id", "ol_d_id", "ol_o_id", "ol_number"]),
        TableName::Item => new
            .column("i_id", Type::I32)
            .column("i_im_id", Type::I32)
            .column("i_name", text(24))
            .column("i_price", MONEY)
            .column("i_data", text(50))
            .primary_key(&["i_id"]),
        TableName::Stock => {
            let table = new
                .column("s_w_id", Type::I16)
                .column("s_i_id", Type::I32)
                .column("s_quantity", COUNT);
            (1..=10)
                .fold(table, |table, number| {
                    table.column(&format!("s_dist_{number:02}"), text(24))
                })
                .column("s_ytd", Type::I64)
                .column("s_order_cnt", COUNT)
                .column("s_remote_cnt", COUNT)
                .column("s_data", text(50))
                .primary_key(&["s_w_id", "s_i_id"])
        }
    }
}

/// Positions in `warehouse`.
pub(super) mod warehouse {
    pub const NAME: usize = 1;
    pub const ADDRESS: usize = 2;
    pub const TAX: usize = 7;
    pub const YTD: usize = 8;
}

/// Positions in `district`.
pub(super) mod district {
    pub const NAME: usize = 2;
    pub const ADDRESS: usize = 3;
    pub const TAX: usize = 8;
    pub const YTD: usize = 9;
    pub const NEXT_ORDER: usize = 10;
}

/// Positions in `customer`.
pub(super) mod customer {
    pub const ID: usize = 2;
    pub const FIRST: usize = 3;
    pub const MIDDLE: usize = 4;
    pub const LAST: usize = 5;
    pub const ADDRESS: usize = 6;
    pub const PHONE: usize = 11;
    pub const SINCE: usize = 12;
    pub const CREDIT: usize = 13;
    pub const CREDIT_LIMIT: usize = 14;
    pub const DISCOUNT: usize = 15;
    pub const BALANCE: usize = 16;
    pub const YTD_PAYMENT: usize = 17;
    pub const PAYMENTS: usize = 18;
    pub const DELIVERIES: usize = 19;
    pub const DATA: usize = 20;
}

/// Positions in `history`.
pub(super) mod history {
    pub const ID: usize = 0;
}

/// Positions in `new_order`.
pub(super) mod new_order {
    pub const ORDER: usize = 2;
}

/// Positions in `orders`.
pub(super) mod orders {
    pub const ID: usize = 2;
    pub const CUSTOMER: usize = 3;
    pub const ENTRY: usize = 4;
    pub const CARRIER: usize = 5;
    pub const LINES: usize = 6;
}

/// Positions in `order_line`.
pub(super) mod line {
    pub const ITEM: usize = 4;
    pub const SUPPLY_WAREHOUSE: usize = 5;
    pub const DELIVERY: usize = 6;
    pub const QUANTITY: usize = 7;
    pub const AMOUNT: usize = 8;
}

/// Positions in `item`.
pub(super) mod item {
    pub const NAME: usize = 2;
    pub const PRICE: usize = 3;
    pub const DATA: usize = 4;
}

/// Positions in `stock`.
pub(super) mod stock {
    pub const QUANTITY: usize = 2;
    /// Of district 1; the others follow.
    pub const DISTRICTS: usize = 3;
    pub const YTD: usize = 13;
    pub const ORDERS: usize = 14;
    pub const REMOTES: usize = 15;
    pub const DATA: usize = 16;
}

/// A table with its primary key's index.
pub(super) struct Keyed {
    pub table: Table,
    pub primary: Index,
}

impl Keyed {
    /// The table of this definition; it is made unless it is there.
    pub fn new(store: &Store, definition: TableDef) -> Result<Self, StoreError> {
        let table = match store.table(&definition.name) {
            Ok(table) => table,
            Err(StoreError::NoTable { .. }) => store.create_table(definition)?,
            Err(error) => return Err(error),
        };
        let primary = table.primary();
        Ok(Self { table, primary })
    }

    fn index(&self, name: &str) -> Result<Index, StoreError> {
        self.table.index(name).ok_or_else(|| StoreError::NoIndex {
            table: self.table.name().to_owned(),
            name: name.to_owned(),
        })
    }
}

/// Handles of the nine tables.
pub(super) struct Tables {
    pub warehouse: Keyed,
    pub district: Keyed,
    pub customer: Keyed,
    pub customer_by_name: Index,
    pub history: Keyed,
    pub new_order: Keyed,
    pub orders: Keyed,
    pub orders_by_customer: Index,
    pub order_line: Keyed,
    pub item: Keyed,
    pub stock: Keyed,
}

impl Tables {
    /// Makes the tables that are not there.
    pub fn new(store: &Store) -> Result<Self, StoreError> {
        let keyed = |name| Keyed::new(store, definition(name));
        let (customer, orders) = (keyed(TableName::Customer)?, keyed(TableName::Orders)?);
        Ok(Self {
            warehouse: keyed(TableName::Warehouse)?,
            district: keyed(TableName::District)?,
            customer_by_name: customer.index("by_name")?,
            customer,
            history: keyed(TableName::History)?,
            new_order: keyed(TableName::NewOrder)?,
            orders_by_customer: orders.index("by_customer")?,
            orders,
            order_line: keyed(TableName::OrderLine)?,
            item: keyed(TableName::Item)?,
            stock: keyed(TableName::Stock)?,
        })
    }

    pub fn get(&self, name: TableName) -> &Keyed {
        match name {
            TableName::Warehouse => &self.warehouse,
            TableName::District => &self.district,
            TableName::Customer => &self.customer,
            TableName::History => &self.history,
            TableName::NewOrder => &self.new_order,
            TableName::Orders => &self.orders,
            TableName::OrderLine => &self.order_line,
            TableName::Item => &self.item,
            TableName::Stock => &self.stock,
        }
    }
}

/// Rows a client fills in again and again.
pub(super) struct Buffers {
    pub history: RowBuf,
    pub new_order: RowBuf,
    pub order: RowBuf,
    pub order_line: RowBuf,
}

impl Buffers {
    pub fn new(tables: &Tables) -> Self {
        Self {
            history: tables.history.table.new_row(),
            new_order: tables.new_order.table.new_row(),
            order: tables.orders.table.new_row(),
            order_line: tables.order_line.table.new_row(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_the_columns() {
        let names = |table, positions: &[(usize, &str)]| {
            let definition = definition(table);
            assert!(definition.check().is_ok());
            for &(position, name) in positions {
                assert_eq!(definition.position(name), Some(position), "{name}");
            }
        };
        names(
            TableName::Warehouse,
            &[
                (warehouse::NAME, "w_name"),
                (warehouse::ADDRESS, "w_street_1"),
                (warehouse::TAX, "w_tax"),
                (warehouse::YTD, "w_ytd"),
            ],
        );
        names(
            TableName::District,
            &[
                (district::NAME, "d_name"),
                (district::ADDRESS, "d_street_1"),
                (district::TAX, "d_tax"),
                (district::YTD, "d_ytd"),
                (district::NEXT_ORDER, "d_next_o_id"),
            ],
        );
        names(
            TableName::Customer,
            &[
                (customer::ID, "c_id"),
                (customer::FIRST, "c_first"),
                (customer::MIDDLE, "c_middle"),
                (customer::LAST, "c_last"),
                (customer::ADDRESS, "c_street_1"),
                (customer::PHONE, "c_phone"),
                (customer::SINCE, "c_since"),
                (customer::CREDIT, "c_credit"),
                (customer::CREDIT_LIMIT, "c_credit_lim"),
                (customer::DISCOUNT, "c_discount"),
                (customer::BALANCE, "c_balance"),
                (customer::YTD_PAYMENT, "c_ytd_payment"),
                (customer::PAYMENTS, "c_payment_cnt"),
                (customer::DELIVERIES, "c_delivery_cnt"),
                (customer::DATA, "c_data"),
            ],
        );
        names(TableName::History, &[(history::ID, "h_id")]);
        names(TableName::NewOrder, &[(new_order::ORDER, "no_o_id")]);
        names(
            TableName::Orders,
            &[
                (orders::ID, "o_id"),
                (orders::CUSTOMER, "o_c_id"),
                (orders::ENTRY, "o_entry_d"),
                (orders::CARRIER, "o_carrier_id"),
                (orders::LINES, "o_ol_cnt"),
            ],
        );
        names(
            TableName::OrderLine,
            &[
                (line::ITEM, "ol_i_id"),
                (line::SUPPLY_WAREHOUSE, "ol_supply_w_id"),
                (line::DELIVERY, "ol_delivery_d"),
                (line::QUANTITY, "ol_quantity"),
                (line::AMOUNT, "ol_amount"),
            ],
        );
        names(
            TableName::Item,
            &[
                (item::NAME, "i_name"),
                (item::PRICE, "i_price"),
                (item::DATA, "i_data"),
            ],
        );
        names(
            TableName::Stock,
            &[
                (stock::QUANTITY, "s_quantity"),
                (stock::DISTRICTS, "s_dist_01"),
                (stock::DISTRICTS + 9, "s_dist_10"),
                (stock::YTD, "s_ytd"),
                (stock::ORDERS, "s_order_cnt"),
                (stock::REMOTES, "s_remote_cnt"),
                (stock::DATA, "s_data"),
            ],
        );
    }
}
