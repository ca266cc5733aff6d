//! The nine tables in the store: definitions and handles.
//!
//! Keys of orders, customers, stocks and order lines take 8 bytes at most, the narrowest the store's indexes have.

use corun_store::{Index, RowBuf, Store, StoreError, Table, TableDef, Type};

use crate::tpcc::TableName;

/// Position of the key of `history`, before the columns of TPC-C.
pub(super) const HISTORY_KEY: usize = 0;

/// What a table is made of. The order of columns is that of the row's fields, with one column before those of `history`.
fn definition(table: TableName) -> TableDef {
    let mut definition = TableDef::new(table.as_str());
    definition = match table {
        // The specification gives it no key; the store wants one.
        TableName::History => definition.column("h_id", Type::I64).primary_key(&["h_id"]),
        _ => definition.primary_key(table.key()),
    };
    definition.columns.extend(table.columns());
    match table {
        TableName::Customer => definition.index("by_name", &["c_w_id", "c_d_id", "c_last"]),
        TableName::Orders => definition.unique("by_customer", &["o_w_id", "o_d_id", "o_c_id", "o_id"]),
        _ => definition,
    }
}

/// A table with its primary key's index.
pub(super) struct Keyed {
    pub table: Table,
    pub primary: Index,
}

impl Keyed {
    /// The table of this definition; it is made unless it is there.
    pub fn new(store: &Store, definition: TableDef) -> Result<Self, StoreError> {
        let table = store.create_table_if_missing(definition)?;
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
