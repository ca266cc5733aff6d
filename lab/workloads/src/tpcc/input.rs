//! What a terminal sends: the inputs of the five transactions.
//!
//! The time of each comes with it, so that two engines given the same inputs end in the same state.

use super::mix::Kind;
use crate::text::Text;

/// One transaction of any type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Clause 2.4.
    NewOrder(NewOrder),
    /// Clause 2.5.
    Payment(Payment),
    /// Clause 2.6.
    OrderStatus(OrderStatus),
    /// Clause 2.7.
    Delivery(Delivery),
    /// Clause 2.8.
    StockLevel(StockLevel),
}

impl Input {
    /// Its type.
    pub fn kind(&self) -> Kind {
        match self {
            Input::NewOrder(_) => Kind::NewOrder,
            Input::Payment(_) => Kind::Payment,
            Input::OrderStatus(_) => Kind::OrderStatus,
            Input::Delivery(_) => Kind::Delivery,
            Input::StockLevel(_) => Kind::StockLevel,
        }
    }
}

/// How a transaction names its customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CustomerBy {
    /// By C_ID.
    Id(i32),
    /// By C_LAST. Of the n customers of the district with that name, ordered by C_FIRST (and C_ID where those are equal),
    /// it means number ceil(n / 2), counted from 1. There is at least one.
    LastName(Text<16>),
}

/// Clause 2.4.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// The terminal's warehouse.
    pub warehouse: i16,
    /// 1 to 10.
    pub district: i8,
    /// C_ID, of the same district.
    pub customer: i32,
    /// What is ordered: 5 to 15 lines. The same item may occur twice.
    pub lines: Vec<NewOrderLine>,
    /// O_ENTRY_D, microseconds.
    pub now: i64,
}

impl NewOrder {
    /// O_ALL_LOCAL: whether everything comes from the order's own warehouse.
    pub fn all_local(&self) -> bool {
        self.lines
            .iter()
            .all(|line| line.supply_warehouse == self.warehouse)
    }
}

/// One line of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrderLine {
    /// OL_I_ID. In one of a hundred orders the last line's item does not exist: the transaction must be rolled back.
    pub item: i32,
    /// OL_SUPPLY_W_ID.
    pub supply_warehouse: i16,
    /// OL_QUANTITY, 1 to 10.
    pub quantity: i8,
}

/// Clause 2.5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payment {
    /// The terminal's warehouse: where it is paid.
    pub warehouse: i16,
    /// Where it is paid.
    pub district: i8,
    /// The customer's warehouse.
    pub customer_warehouse: i16,
    /// The customer's district.
    pub customer_district: i8,
    /// The customer.
    pub customer: CustomerBy,
    /// H_AMOUNT, cents.
    pub amount: i64,
    /// H_DATE, microseconds.
    pub now: i64,
}

/// Clause 2.6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatus {
    /// The terminal's warehouse.
    pub warehouse: i16,
    /// The customer's district.
    pub district: i8,
    /// The customer.
    pub customer: CustomerBy,
}

/// Clause 2.7.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The terminal's warehouse.
    pub warehouse: i16,
    /// O_CARRIER_ID, 1 to 10.
    pub carrier: i8,
    /// OL_DELIVERY_D, microseconds.
    pub now: i64,
}

/// Clause 2.8.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevel {
    /// The terminal's warehouse.
    pub warehouse: i16,
    /// The terminal's district.
    pub district: i8,
    /// Stock below it counts as low, 10 to 20.
    pub threshold: i32,
}
