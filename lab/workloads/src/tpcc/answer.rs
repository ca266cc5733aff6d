//! What a terminal shows: the answers of the five transactions, with every field the specification's screens have.
//!
//! Money is in cents, rates in ten-thousandths, times in microseconds since 1970.

use super::row::Address;
use crate::text::Text;

/// The answer to a transaction of any type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "made one at a time, to be compared")]
pub enum Answer {
    /// Clause 2.4.3.
    NewOrder(NewOrderAnswer),
    /// Clause 2.5.3.
    Payment(PaymentAnswer),
    /// Clause 2.6.3.
    OrderStatus(OrderStatusAnswer),
    /// Clause 2.7.3.
    Delivery(DeliveryAnswer),
    /// Clause 2.8.3.
    StockLevel(StockLevelAnswer),
}

/// Clause 2.4.3.3.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewOrderAnswer {
    /// The last line named an item that does not exist, and the transaction was rolled back. Then `total_amount` is zero and `lines` is
    /// empty, while the other fields hold what had been read (`order` the number it would have had).
    pub rolled_back: bool,
    /// C_LAST.
    pub customer_last: Text<16>,
    /// C_CREDIT.
    pub customer_credit: Text<2>,
    /// C_DISCOUNT.
    pub customer_discount: i16,
    /// W_TAX.
    pub warehouse_tax: i16,
    /// D_TAX.
    pub district_tax: i16,
    /// O_ID.
    pub order: i32,
    /// sum(OL_AMOUNT) x (1 - C_DISCOUNT) x (1 + W_TAX + D_TAX); see [`total_amount`].
    pub total_amount: i64,
    /// In the order of the input.
    pub lines: Vec<NewOrderLineAnswer>,
}

/// The total of an order in cents from the sum of its lines and the three rates, cut after the cents. All engines compute it here, so
/// that it cannot differ by rounding.
pub fn total_amount(lines_sum: i64, customer_discount: i16, warehouse_tax: i16, district_tax: i16) -> i64 {
    const ONE: i64 = 10_000;
    let taxed = ONE + i64::from(warehouse_tax) + i64::from(district_tax);
    lines_sum * (ONE - i64::from(customer_discount)) * taxed / (ONE * ONE)
}

/// One line of the order, as shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewOrderLineAnswer {
    /// OL_SUPPLY_W_ID.
    pub supply_warehouse: i16,
    /// OL_I_ID.
    pub item: i32,
    /// I_NAME.
    pub item_name: Text<24>,
    /// OL_QUANTITY.
    pub quantity: i8,
    /// S_QUANTITY after this line.
    pub stock_quantity: i32,
    /// brand-generic is `B`: I_DATA and S_DATA both include `ORIGINAL`. Otherwise it is `G`.
    pub brand: bool,
    /// I_PRICE.
    pub price: i64,
    /// OL_AMOUNT.
    pub amount: i64,
}

/// Clause 2.5.3.3; H_AMOUNT and H_DATE are the input's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaymentAnswer {
    /// W_STREET_1 to W_ZIP.
    pub warehouse_address: Address,
    /// D_STREET_1 to D_ZIP.
    pub district_address: Address,
    /// C_ID.
    pub customer: i32,
    /// C_FIRST.
    pub first: Text<16>,
    /// C_MIDDLE.
    pub middle: Text<2>,
    /// C_LAST.
    pub last: Text<16>,
    /// C_STREET_1 to C_ZIP.
    pub address: Address,
    /// C_PHONE.
    pub phone: Text<16>,
    /// C_SINCE.
    pub since: i64,
    /// C_CREDIT.
    pub credit: Text<2>,
    /// C_CREDIT_LIM.
    pub credit_limit: i64,
    /// C_DISCOUNT.
    pub discount: i16,
    /// C_BALANCE, after the payment.
    pub balance: i64,
    /// The first 200 characters of C_DATA, after the payment, of customers with bad credit; empty for others.
    pub data: Text<200>,
}

/// Clause 2.6.3.3.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderStatusAnswer {
    /// C_ID.
    pub customer: i32,
    /// C_FIRST.
    pub first: Text<16>,
    /// C_MIDDLE.
    pub middle: Text<2>,
    /// C_LAST.
    pub last: Text<16>,
    /// C_BALANCE.
    pub balance: i64,
    /// O_ID, the customer's largest.
    pub order: i32,
    /// O_ENTRY_D.
    pub entry: i64,
    /// O_CARRIER_ID.
    pub carrier: Option<i8>,
    /// In the order of OL_NUMBER.
    pub lines: Vec<OrderStatusLine>,
}

/// One line of the order, as shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderStatusLine {
    /// OL_SUPPLY_W_ID.
    pub supply_warehouse: i16,
    /// OL_I_ID.
    pub item: i32,
    /// OL_QUANTITY.
    pub quantity: i8,
    /// OL_AMOUNT.
    pub amount: i64,
    /// OL_DELIVERY_D.
    pub delivery: Option<i64>,
}

/// Clause 2.7.3: what the result file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryAnswer {
    /// O_ID delivered in district 1, 2, ..., 10; none where no order was waiting.
    pub orders: [Option<i32>; 10],
}

/// Clause 2.8.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StockLevelAnswer {
    /// Distinct items of the district's last 20 orders whose stock in the warehouse is below the threshold.
    pub low_stock: i32,
}

/// What a payment puts in front of C_DATA of a customer with bad credit (clause 2.5.2.2), cut to the column's 500 characters. All engines
/// compute it here.
pub fn bad_credit_data(input: &super::Payment, customer: i32, old: &str) -> Text<500> {
    let head = format!(
        "{} {} {} {} {} {}.{:02}|",
        customer,
        input.customer_district,
        input.customer_warehouse,
        input.district,
        input.warehouse,
        input.amount / 100,
        input.amount % 100
    );
    Text::cut(&(head + old))
}

/// H_DATA of a payment: the names of warehouse and district, four blanks between them.
pub fn history_data(warehouse_name: &str, district_name: &str) -> Text<24> {
    Text::cut(&format!("{warehouse_name}    {district_name}"))
}

/// S_QUANTITY after `quantity` were ordered: never below 10, refilled by 91 (clause 2.4.2.2).
pub fn stock_after(stock: i32, quantity: i8) -> i32 {
    let left = stock - i32::from(quantity);
    if left >= 10 { left } else { left + 91 }
}

/// Whether I_DATA or S_DATA includes `ORIGINAL`.
pub fn is_original(data: &[u8]) -> bool {
    const WORD: &[u8] = b"ORIGINAL";
    data.windows(WORD.len()).any(|window| window == WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::{CustomerBy, Payment};

    #[test]
    fn totals_are_cut_after_the_cents() {
        assert_eq!(total_amount(10_000, 0, 0, 0), 10_000);
        // 100.00 x 0.9 x 1.3 = 117.00
        assert_eq!(total_amount(10_000, 1_000, 1_000, 2_000), 11_700);
        // 0.99 x 0.5001 x 1.3999 = 0.693...
        assert_eq!(total_amount(99, 4_999, 1_999, 2_000), 69);
    }

    #[test]
    fn stock_is_refilled_before_it_falls_below_ten() {
        assert_eq!(stock_after(20, 10), 10);
        assert_eq!(stock_after(19, 10), 100);
        assert_eq!(stock_after(10, 1), 100);
    }

    #[test]
    fn bad_credit_is_noted_in_front() {
        let input = Payment {
            warehouse: 1,
            district: 2,
            customer_warehouse: 3,
            customer_district: 4,
            customer: CustomerBy::Id(5),
            amount: 12_05,
            now: 0,
        };
        assert_eq!(bad_credit_data(&input, 5, "old").as_str(), "5 4 3 2 1 12.05|old");
        let full = bad_credit_data(&input, 5, &"x".repeat(500));
        assert!(full.len() == 500 && full.as_str().starts_with("5 4 3 2 1 12.05|xxx"));
    }

    #[test]
    fn originals_are_found_anywhere() {
        for data in ["ORIGINAL", "xxORIGINAL", "ORIGINALxx", "xORIGINALx"] {
            assert!(is_original(data.as_bytes()));
        }
        for data in ["", "ORIGINA", "ORIGINAx", "original"] {
            assert!(!is_original(data.as_bytes()));
        }
    }
}
