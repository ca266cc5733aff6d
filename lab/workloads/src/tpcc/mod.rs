//! TPC-C, revision 5.11: tables, initial population, inputs, answers, mixes, consistency conditions.
//!
//! Where an engine's way is left open by the specification, the choice is written at the engine. Deviations for all: no
//! think and keying times, and Delivery is executed when it is asked for, not queued.

mod answer;
mod check;
pub mod columns;
mod input;
mod kv;
mod mix;
mod population;
pub mod row;
mod scale;
mod tables;
mod terminal;

pub use answer::{
    Answer, DeliveryAnswer, NewOrderAnswer, NewOrderLineAnswer, OrderStatusAnswer, OrderStatusLine,
    PaymentAnswer, StockLevelAnswer, bad_credit_data, history_data, is_original, stock_after, total_amount,
};
pub use check::{Violation, check};
pub use input::{CustomerBy, Delivery, Input, NewOrder, NewOrderLine, OrderStatus, Payment, StockLevel};
pub use kv::KvTpcc;
pub use mix::{Kind, Mix, UnknownMix};
pub use population::{LOADED_AT, Rows, load};
pub use row::{Row, TableName};
pub use scale::{NuRand, Scale, last_name};
pub use terminal::Terminal;

/// Cents of one unit of money.
const UNIT: i64 = 100;

/// Districts of a warehouse.
pub const DISTRICTS: i8 = 10;

/// The tables of TPC-C in a key-value store, by their numbers.
pub const KV_TABLES: [&str; 11] = [
    "warehouse",
    "district",
    "customer",
    "history",
    "new_order",
    "orders",
    "order_line",
    "item",
    "stock",
    "customer_by_name",
    "orders_by_customer",
];
