//! The nine tables of TPC-C (clause 1.3) with all columns, and a struct for each row.
//!
//! Money is in cents, rates (taxes, discounts) in ten-thousandths, times in microseconds since 1970. NULL is `None`.

use std::fmt;

use corun_store::{ColumnDef, Type};

use super::columns::{ColumnReader, ColumnWriter, Field, Integer};
use super::kv::{KeyValue, KeyValueReader, ValueWriter};
use super::tables::tables;
use crate::engine::TxError;
use crate::text::Text;

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
const TIME: Type = Type::Timestamp;

/// Text that always has so many bytes.
const fn fixed(bytes: u32) -> Type {
    Type::FixedText { bytes }
}

tables! {
    /// W rows, key `(id)`.
    Warehouse = "warehouse", Warehouse, key [id], value [ytd tax name address] {
        "w_id" id: i16, "from 1";
        "w_name" name: Text<10>;
        "w_" address: Address, "street_1 to zip";
        "w_tax" tax: i16 as RATE, "ten-thousandths";
        "w_ytd" ytd: i64 as MONEY_SUM, "cents";
    }

    /// 10 a warehouse, key `(warehouse, id)`.
    District = "district", District, key [warehouse id], value [next_order ytd tax name address] {
        "d_w_id" warehouse: i16;
        "d_id" id: i8, "1 to 10";
        "d_name" name: Text<10>;
        "d_" address: Address, "street_1 to zip";
        "d_tax" tax: i16 as RATE, "ten-thousandths";
        "d_ytd" ytd: i64 as MONEY_SUM, "cents";
        "d_next_o_id" next_order: i32;
    }

    /// 3,000 a district, key `(warehouse, district, id)`, found by `(warehouse, district, last)` as well.
    Customer = "customer", Customer, key [warehouse district id], value [
        balance ytd_payment payments deliveries credit_limit since discount last credit first middle address phone data
    ] {
        "c_w_id" warehouse: i16;
        "c_d_id" district: i8;
        "c_id" id: i32, "from 1";
        "c_first" first: Text<16>;
        "c_middle" middle: Text<2> as fixed(2);
        "c_last" last: Text<16>;
        "c_" address: Address, "street_1 to zip";
        "c_phone" phone: Text<16> as fixed(16), "16 digits";
        "c_since" since: i64 as TIME;
        "c_credit" credit: Text<2> as fixed(2), "`GC` (good) or `BC` (bad)";
        "c_credit_lim" credit_limit: i64 as MONEY, "cents";
        "c_discount" discount: i16 as RATE, "ten-thousandths";
        "c_balance" balance: i64 as MONEY, "cents";
        "c_ytd_payment" ytd_payment: i64 as MONEY_SUM, "cents";
        "c_payment_cnt" payments: i32;
        "c_delivery_cnt" deliveries: i32;
        "c_data" data: Text<500>;
    }

    /// 1 a customer at first, 1 a payment, without a key.
    History = "history", History, key [], value [
        customer_warehouse customer_district customer warehouse district date amount data
    ] {
        "h_c_w_id" customer_warehouse: i16, "the customer's warehouse";
        "h_c_d_id" customer_district: i8, "the customer's district";
        "h_c_id" customer: i32;
        "h_w_id" warehouse: i16, "where it was paid";
        "h_d_id" district: i8, "where it was paid";
        "h_date" date: i64 as TIME;
        "h_amount" amount: i64 as MONEY, "cents";
        "h_data" data: Text<24>;
    }

    /// Orders not delivered yet: 900 a district at first, key `(warehouse, district, order)`.
    NewOrder = "new_order", NewOrder, key [warehouse district order], value [] {
        "no_w_id" warehouse: i16;
        "no_d_id" district: i8;
        "no_o_id" order: i32;
    }

    /// The specification's ORDER, a reserved word of SQL: 3,000 a district at first, key `(warehouse, district, id)`, found by
    /// `(warehouse, district, customer, id)` as well.
    Orders = "orders", Order, key [warehouse district id], value [carrier customer entry lines all_local] {
        "o_w_id" warehouse: i16;
        "o_d_id" district: i8;
        "o_id" id: i32, "from 1";
        "o_c_id" customer: i32;
        "o_entry_d" entry: i64 as TIME;
        "o_carrier_id" carrier: Option<i8>, "none until delivered";
        "o_ol_cnt" lines: i8;
        "o_all_local" all_local: bool;
    }

    /// 5 to 15 an order, key `(warehouse, district, order, number)`.
    OrderLine = "order_line", OrderLine, key [warehouse district order number], value [
        delivery amount item supply_warehouse quantity district_info
    ] {
        "ol_w_id" warehouse: i16;
        "ol_d_id" district: i8;
        "ol_o_id" order: i32;
        "ol_number" number: i8, "from 1";
        "ol_i_id" item: i32;
        "ol_supply_w_id" supply_warehouse: i16;
        "ol_delivery_d" delivery: Option<i64> as TIME, "none until delivered";
        "ol_quantity" quantity: i8;
        "ol_amount" amount: i64 as MONEY, "cents";
        "ol_dist_info" district_info: Text<24>;
    }

    /// 100,000, whatever the number of warehouses, key `(id)`.
    Item = "item", Item, key [id], value [image price name data] {
        "i_id" id: i32, "from 1";
        "i_im_id" image: i32;
        "i_name" name: Text<24>;
        "i_price" price: i64 as MONEY, "cents";
        "i_data" data: Text<50>;
    }

    /// 100,000 a warehouse, key `(warehouse, item)`.
    Stock = "stock", Stock, key [warehouse item], value [quantity ytd orders remotes districts data] {
        "s_w_id" warehouse: i16;
        "s_i_id" item: i32;
        "s_quantity" quantity: i32;
        "s_dist_" districts: [Text<24>; 10], "01 to 10";
        "s_ytd" ytd: i64, "pieces";
        "s_order_cnt" orders: i32;
        "s_remote_cnt" remotes: i32;
        "s_data" data: Text<50>;
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

impl Field for Address {
    const COLUMNS: usize = 5;
    const BYTES: usize = usize::MAX;

    fn describe(name: &str, _: Option<Type>, columns: &mut Vec<ColumnDef>) {
        let parts = [
            ("street_1", None),
            ("street_2", None),
            ("city", None),
            ("state", Some(fixed(2))),
            ("zip", Some(fixed(9))),
        ];
        for (part, data_type) in parts {
            Text::<20>::describe(&format!("{name}{part}"), data_type, columns);
        }
    }

    #[inline]
    fn write<W: ColumnWriter>(&self, to: &mut W) -> Result<(), W::Error> {
        self.street_1.write(to)?;
        self.street_2.write(to)?;
        self.city.write(to)?;
        self.state.write(to)?;
        self.zip.write(to)
    }

    #[inline]
    fn read<R: ColumnReader>(from: &mut R) -> Result<Self, TxError> {
        Ok(Self {
            street_1: Field::read(from)?,
            street_2: Field::read(from)?,
            city: Field::read(from)?,
            state: Field::read(from)?,
            zip: Field::read(from)?,
        })
    }
}
