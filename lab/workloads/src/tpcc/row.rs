//! The nine tables of TPC-C (clause 1.3), a struct for each row, with all columns.
//!
//! Money is in cents, rates (taxes, discounts) in ten-thousandths, times in microseconds since 1970. NULL is `None`.

use std::fmt;

use crate::text::Text;

/// A row of any table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::large_enum_variant, reason = "rows are handed over one at a time")]
pub enum Row {
    /// A row of `warehouse`; and so on.
    Warehouse(Warehouse),
    /// A row of `district`.
    District(District),
    /// A row of `customer`.
    Customer(Customer),
    /// A row of `history`.
    History(History),
    /// A row of `new_order`.
    NewOrder(NewOrder),
    /// A row of `orders`.
    Order(Order),
    /// A row of `order_line`.
    OrderLine(OrderLine),
    /// A row of `item`.
    Item(Item),
    /// A row of `stock`.
    Stock(Stock),
}

impl Row {
    /// The table it belongs to.
    pub fn table(&self) -> TableName {
        match self {
            Row::Warehouse(_) => TableName::Warehouse,
            Row::District(_) => TableName::District,
            Row::Customer(_) => TableName::Customer,
            Row::History(_) => TableName::History,
            Row::NewOrder(_) => TableName::NewOrder,
            Row::Order(_) => TableName::Orders,
            Row::OrderLine(_) => TableName::OrderLine,
            Row::Item(_) => TableName::Item,
            Row::Stock(_) => TableName::Stock,
        }
    }
}

/// The nine tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableName {
    /// W rows.
    Warehouse,
    /// 10 a warehouse.
    District,
    /// 3,000 a district.
    Customer,
    /// 1 a customer at first, 1 a payment.
    History,
    /// Orders not delivered yet: 900 a district at first.
    NewOrder,
    /// The specification's ORDER, a reserved word of SQL: 3,000 a district at first.
    Orders,
    /// 5 to 15 an order.
    OrderLine,
    /// 100,000, whatever the number of warehouses.
    Item,
    /// 100,000 a warehouse.
    Stock,
}

impl TableName {
    /// All of them.
    pub const ALL: [TableName; 9] = [
        TableName::Warehouse,
        TableName::District,
        TableName::Customer,
        TableName::History,
        TableName::NewOrder,
        TableName::Orders,
        TableName::OrderLine,
        TableName::Item,
        TableName::Stock,
    ];

    /// The name in SQL.
    pub fn as_str(self) -> &'static str {
        match self {
            TableName::Warehouse => "warehouse",
            TableName::District => "district",
            TableName::Customer => "customer",
            TableName::History => "history",
            TableName::NewOrder => "new_order",
            TableName::Orders => "orders",
            TableName::OrderLine => "order_line",
            TableName::Item => "item",
            TableName::Stock => "stock",
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where somebody or something is: part of warehouses, districts and customers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// First line.
    pub street_1: Text<20>,
    /// Second line.
    pub street_2: Text<20>,
    /// City.
    pub city: Text<20>,
    /// State, two letters.
    pub state: Text<2>,
    /// Postal code, nine digits.
    pub zip: Text<9>,
}

/// `warehouse`, key `(id)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warehouse {
    /// W_ID, from 1.
    pub id: i16,
    /// W_NAME.
    pub name: Text<10>,
    /// W_STREET_1 to W_ZIP.
    pub address: Address,
    /// W_TAX, ten-thousandths.
    pub tax: i16,
    /// W_YTD, cents.
    pub ytd: i64,
}

/// `district`, key `(warehouse, id)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct District {
    /// D_W_ID.
    pub warehouse: i16,
    /// D_ID, 1 to 10.
    pub id: i8,
    /// D_NAME.
    pub name: Text<10>,
    /// D_STREET_1 to D_ZIP.
    pub address: Address,
    /// D_TAX, ten-thousandths.
    pub tax: i16,
    /// D_YTD, cents.
    pub ytd: i64,
    /// D_NEXT_O_ID.
    pub next_order: i32,
}

/// `customer`, key `(warehouse, district, id)`, found by `(warehouse, district, last)` as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Customer {
    /// C_W_ID.
    pub warehouse: i16,
    /// C_D_ID.
    pub district: i8,
    /// C_ID, from 1.
    pub id: i32,
    /// C_FIRST.
    pub first: Text<16>,
    /// C_MIDDLE.
    pub middle: Text<2>,
    /// C_LAST.
    pub last: Text<16>,
    /// C_STREET_1 to C_ZIP.
    pub address: Address,
    /// C_PHONE, 16 digits.
    pub phone: Text<16>,
    /// C_SINCE.
    pub since: i64,
    /// C_CREDIT: `GC` (good) or `BC` (bad).
    pub credit: Text<2>,
    /// C_CREDIT_LIM, cents.
    pub credit_limit: i64,
    /// C_DISCOUNT, ten-thousandths.
    pub discount: i16,
    /// C_BALANCE, cents.
    pub balance: i64,
    /// C_YTD_PAYMENT, cents.
    pub ytd_payment: i64,
    /// C_PAYMENT_CNT.
    pub payments: i32,
    /// C_DELIVERY_CNT.
    pub deliveries: i32,
    /// C_DATA.
    pub data: Text<500>,
}

/// `history`, without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct History {
    /// H_C_W_ID, the customer's warehouse.
    pub customer_warehouse: i16,
    /// H_C_D_ID, the customer's district.
    pub customer_district: i8,
    /// H_C_ID.
    pub customer: i32,
    /// H_W_ID, where it was paid.
    pub warehouse: i16,
    /// H_D_ID, where it was paid.
    pub district: i8,
    /// H_DATE.
    pub date: i64,
    /// H_AMOUNT, cents.
    pub amount: i64,
    /// H_DATA.
    pub data: Text<24>,
}

/// `new_order`, key `(warehouse, district, order)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewOrder {
    /// NO_W_ID.
    pub warehouse: i16,
    /// NO_D_ID.
    pub district: i8,
    /// NO_O_ID.
    pub order: i32,
}

/// `orders`, key `(warehouse, district, id)`, found by `(warehouse, district, customer, id)` as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    /// O_W_ID.
    pub warehouse: i16,
    /// O_D_ID.
    pub district: i8,
    /// O_ID, from 1.
    pub id: i32,
    /// O_C_ID.
    pub customer: i32,
    /// O_ENTRY_D.
    pub entry: i64,
    /// O_CARRIER_ID; none until delivered.
    pub carrier: Option<i8>,
    /// O_OL_CNT.
    pub lines: i8,
    /// O_ALL_LOCAL.
    pub all_local: bool,
}

/// `order_line`, key `(warehouse, district, order, number)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderLine {
    /// OL_W_ID.
    pub warehouse: i16,
    /// OL_D_ID.
    pub district: i8,
    /// OL_O_ID.
    pub order: i32,
    /// OL_NUMBER, from 1.
    pub number: i8,
    /// OL_I_ID.
    pub item: i32,
    /// OL_SUPPLY_W_ID.
    pub supply_warehouse: i16,
    /// OL_DELIVERY_D; none until delivered.
    pub delivery: Option<i64>,
    /// OL_QUANTITY.
    pub quantity: i8,
    /// OL_AMOUNT, cents.
    pub amount: i64,
    /// OL_DIST_INFO.
    pub district_info: Text<24>,
}

/// `item`, key `(id)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// I_ID, from 1.
    pub id: i32,
    /// I_IM_ID.
    pub image: i32,
    /// I_NAME.
    pub name: Text<24>,
    /// I_PRICE, cents.
    pub price: i64,
    /// I_DATA.
    pub data: Text<50>,
}

/// `stock`, key `(warehouse, item)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stock {
    /// S_W_ID.
    pub warehouse: i16,
    /// S_I_ID.
    pub item: i32,
    /// S_QUANTITY.
    pub quantity: i32,
    /// S_DIST_01 to S_DIST_10.
    pub districts: [Text<24>; 10],
    /// S_YTD, pieces.
    pub ytd: i64,
    /// S_ORDER_CNT.
    pub orders: i32,
    /// S_REMOTE_CNT.
    pub remotes: i32,
    /// S_DATA.
    pub data: Text<50>,
}
