//! [`Axis`]: along what the rows of a table lie, and so which of its pages a key leads to.
//!
//! Every relation lies along one axis, from 0 to below 1: the row, leaf or inner page of a key is that part of the way into it. A database
//! with more rows is the same axis with more pages.
//!
//! Not here: which keys queries have; see [`super::workload`].

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// Accounts by number: point reads.
    Account,
    /// TPC-W: items by number.
    Item,
    /// Authors by number. An item's author lies anywhere.
    Author,
    /// Customers by number; orders by customer.
    Customer,
    /// Orders by number. A customer's last order lies anywhere.
    Order,
    /// Order lines in the order Best Seller reads them.
    LineScan,
    /// TPC-C: warehouses.
    Warehouse,
    /// Districts, by warehouse.
    District,
    /// What was inserted last of each district: the last leaf of its part of an index.
    DistrictEnd,
    /// Customers by warehouse and district.
    DistrictCustomer,
    /// Stock by warehouse and item.
    Stock,
    /// The items that all warehouses have: as many whatever the number of warehouses.
    CommonItem,
    /// Where rows are appended: each backend fills pages of its own.
    Tail,
}

/// Every axis with its name in recordings.
const NAMES: [(Axis, &str); 13] = [
    (Axis::Account, "account"),
    (Axis::Item, "item"),
    (Axis::Author, "author"),
    (Axis::Customer, "customer"),
    (Axis::Order, "order"),
    (Axis::LineScan, "line_scan"),
    (Axis::Warehouse, "warehouse"),
    (Axis::District, "district"),
    (Axis::DistrictEnd, "district_end"),
    (Axis::DistrictCustomer, "district_customer"),
    (Axis::Stock, "stock"),
    (Axis::CommonItem, "common_item"),
    (Axis::Tail, "tail"),
];

impl Axis {
    /// Its name in recordings.
    pub fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(axis, _)| *axis == self)
            .map_or("", |(_, name)| name)
    }

    /// The axis of a name.
    pub fn named(name: &str) -> Option<Axis> {
        NAMES
            .iter()
            .find(|(_, known)| *known == name)
            .map(|&(axis, _)| axis)
    }
}

/// The axis of a relation; `None` for those of which every query takes the same page.
pub fn of_relation(name: &str) -> Option<Axis> {
    Some(match name {
        "accounts" | "accounts_pkey" => Axis::Account,
        "item" | "item_pkey" => Axis::Item,
        "author" | "author_pkey" => Axis::Author,
        "customer" | "customer_pkey" | "orders_customer" => Axis::Customer,
        "orders" | "orders_pkey" => Axis::Order,
        "order_line" | "order_line_order" => Axis::LineScan,
        "warehouse" | "warehouse_pkey" => Axis::Warehouse,
        "district" | "district_pkey" => Axis::District,
        "corders_pkey" | "corder_line_pkey" => Axis::DistrictEnd,
        "ccustomer" | "ccustomer_pkey" => Axis::DistrictCustomer,
        "stock" | "stock_pkey" => Axis::Stock,
        "citem" | "citem_pkey" => Axis::CommonItem,
        "corders" | "corder_line" | "history" => Axis::Tail,
        _ => return None,
    })
}

/// Where a multiplication leads: a permutation of the numbers below `rows` where `factor` and `rows` have no common divisor.
pub fn permuted(number: u64, factor: u64, rows: u64) -> u64 {
    (u128::from(number) * u128::from(factor) % u128::from(rows.max(1))) as u64
}
