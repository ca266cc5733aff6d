//! Table `lineorder`: 1 to 7 lines an order, uniform, as in the reference generator.
//!
//! Any thread must find the order of any row without counting the rows before it. So orders come in groups of seven
//! whose line counts are a random permutation of 1..=7: 28 rows a group, exactly uniform, and
//!
//! ```text
//! row r -> group r / 28 -> orders 7 * group .. 7 * group + 7 -> lines
//! ```
//!
//! Values of an order (customer, date, priority, total) are drawn by order number, values of a line by row number.
//! Money is in cents in 32 bits: the largest value, an order's total, is below 80 million, half the memory traffic
//! of 64 bits; sums are 64-bit in SQL anyway.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Int32Array, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::date::DAYS;
use super::part::price_cents;
use super::random::Stream;
use super::sizes::Sizes;

/// Number of this table in the random streams.
const TABLE: u64 = 1;

/// Orders in a group, and most lines of an order.
const GROUP_ORDERS: usize = 7;
/// Rows in a group: 1 + 2 + ... + 7.
const GROUP_ROWS: usize = 28;

/// Order dates run from 1992-01-01 to 1998-08-02, as in TPC-H, so that every commit date has its row in `date`.
const ORDER_DAYS: u32 = 2406;
/// A line is committed 30 to 90 days after its order.
const COMMIT_DAYS: (i32, i32) = (30, 90);
const _: () = assert!(ORDER_DAYS as usize + COMMIT_DAYS.1 as usize <= super::sizes::DATES);

const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];
const SHIP_MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];

pub(super) static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let field = |name: &str, kind| Field::new(name, kind, false);
    Arc::new(Schema::new(vec![
        field("lo_orderkey", DataType::Int32),
        field("lo_linenumber", DataType::Int32),
        field("lo_custkey", DataType::Int32),
        field("lo_partkey", DataType::Int32),
        field("lo_suppkey", DataType::Int32),
        field("lo_orderdate", DataType::Int32),
        field("lo_orderpriority", DataType::Utf8),
        field("lo_shippriority", DataType::Utf8),
        field("lo_quantity", DataType::Int32),
        field("lo_extendedprice", DataType::Int32),
        field("lo_ordtotalprice", DataType::Int32),
        field("lo_discount", DataType::Int32),
        field("lo_revenue", DataType::Int32),
        field("lo_supplycost", DataType::Int32),
        field("lo_tax", DataType::Int32),
        field("lo_commitdate", DataType::Int32),
        field("lo_shipmode", DataType::Utf8),
    ]))
});

/// The random columns.
struct Streams {
    line_counts: Stream,
    customer: Stream,
    order_date: Stream,
    priority: Stream,
    part: Stream,
    supplier: Stream,
    quantity: Stream,
    discount: Stream,
    tax: Stream,
    commit: Stream,
    ship_mode: Stream,
}

impl Streams {
    fn new(seed: u64) -> Self {
        let stream = |column| Stream::new(seed, TABLE, column);
        Streams {
            line_counts: stream(1),
            customer: stream(2),
            order_date: stream(3),
            priority: stream(4),
            part: stream(5),
            supplier: stream(6),
            quantity: stream(7),
            discount: stream(8),
            tax: stream(9),
            commit: stream(10),
            ship_mode: stream(11),
        }
    }
}

/// What a line contributes beyond its order.
#[derive(Clone, Copy, Default)]
struct Line {
    part: i32,
    quantity: i32,
    price: i32,
    extended: i32,
    discount: i32,
    tax: i32,
}

impl Line {
    fn draw(streams: &Streams, parts: u32, row: u64) -> Line {
        let part = 1 + streams.part.below(row, parts) as i32;
        let quantity = streams.quantity.between(row, 1, 50);
        let price = price_cents(part);
        Line {
            part,
            quantity,
            price,
            extended: price * quantity,
            discount: streams.discount.between(row, 0, 10),
            tax: streams.tax.between(row, 0, 8),
        }
    }

    /// Price after discount, in cents, rounded down.
    fn revenue(&self) -> i32 {
        (i64::from(self.extended) * i64::from(100 - self.discount) / 100) as i32
    }

    /// What the line adds to its order's total: revenue plus tax, rounded down.
    fn charge(&self) -> i32 {
        (i64::from(self.revenue()) * i64::from(100 + self.tax) / 100) as i32
    }
}

/// Line counts of the orders of `group`: a permutation of 1..=7.
fn line_counts(streams: &Streams, group: u64) -> [usize; GROUP_ORDERS] {
    let mut counts = [1, 2, 3, 4, 5, 6, 7];
    let mut bits = streams.line_counts.bits(group);
    // Fisher-Yates with the digits of one random number in mixed base 7, 6, ..., 2 (7! = 5,040 of 2^64).
    for last in (1..GROUP_ORDERS).rev() {
        let choices = last as u64 + 1;
        counts.swap(last, (bits % choices) as usize);
        bits /= choices;
    }
    counts
}

/// Key of order number `order` (from 0): TPC-H's sparse keys, the first 8 of every 32.
fn order_key(order: u64) -> i32 {
    let number = order + 1;
    ((number >> 3) << 5 | (number & 7)) as i32
}

/// Columns of rows `rows` under `seed`.
pub(super) fn columns(seed: u64, sizes: &Sizes, rows: Range<usize>) -> Vec<ArrayRef> {
    let streams = Streams::new(seed);
    let count = rows.len();
    let ints = || Vec::<i32>::with_capacity(count);
    let (mut order_keys, mut line_numbers, mut customers, mut parts) = (ints(), ints(), ints(), ints());
    let (mut suppliers, mut order_dates, mut quantities, mut extended) = (ints(), ints(), ints(), ints());
    let (mut totals, mut discounts, mut revenues, mut costs) = (ints(), ints(), ints(), ints());
    let (mut taxes, mut commits) = (ints(), ints());
    let mut priorities = StringBuilder::with_capacity(count, count * 10);
    let mut ship_priorities = StringBuilder::with_capacity(count, count);
    let mut ship_modes = StringBuilder::with_capacity(count, count * 5);

    let first_group = rows.start / GROUP_ROWS;
    let mut row = first_group * GROUP_ROWS;
    'all: for group in first_group as u64.. {
        for (member, lines) in line_counts(&streams, group).into_iter().enumerate() {
            if row >= rows.end {
                break 'all;
            }
            // The last order of the table may be cut short; its total then covers the lines there are.
            let order_rows = row..(row + lines).min(sizes.lineorder);
            row += lines;
            if order_rows.end <= rows.start {
                continue;
            }
            let order = group * GROUP_ORDERS as u64 + member as u64;
            let mut drawn = [Line::default(); GROUP_ORDERS];
            let mut total = 0;
            for (line, line_row) in drawn.iter_mut().zip(order_rows.clone()) {
                *line = Line::draw(&streams, sizes.part as u32, line_row as u64);
                total += line.charge();
            }
            let key = order_key(order);
            let customer = 1 + streams.customer.below(order, sizes.customer as u32) as i32;
            let day = streams.order_date.below(order, ORDER_DAYS) as usize;
            let date = DAYS[day].key();
            let priority = streams.priority.pick(order, &PRIORITIES);
            for (number, line_row) in order_rows.enumerate() {
                if !rows.contains(&line_row) {
                    continue;
                }
                let line = drawn[number];
                let at = line_row as u64;
                order_keys.push(key);
                line_numbers.push(number as i32 + 1);
                customers.push(customer);
                parts.push(line.part);
                suppliers.push(1 + streams.supplier.below(at, sizes.supplier as u32) as i32);
                order_dates.push(date);
                priorities.append_value(priority);
                ship_priorities.append_value("0");
                quantities.push(line.quantity);
                extended.push(line.extended);
                totals.push(total);
                discounts.push(line.discount);
                revenues.push(line.revenue());
                // Six tenths of the price of one piece, as the reference generator has it.
                costs.push(6 * line.price / 10);
                taxes.push(line.tax);
                let commit = day + streams.commit.between(at, COMMIT_DAYS.0, COMMIT_DAYS.1) as usize;
                commits.push(DAYS[commit].key());
                ship_modes.append_value(streams.ship_mode.pick(at, &SHIP_MODES));
            }
        }
    }
    debug_assert_eq!(order_keys.len(), count);
    let ints = |values: Vec<i32>| -> ArrayRef { Arc::new(Int32Array::from(values)) };
    vec![
        ints(order_keys),
        ints(line_numbers),
        ints(customers),
        ints(parts),
        ints(suppliers),
        ints(order_dates),
        Arc::new(priorities.finish()),
        Arc::new(ship_priorities.finish()),
        ints(quantities),
        ints(extended),
        ints(totals),
        ints(discounts),
        ints(revenues),
        ints(costs),
        ints(taxes),
        ints(commits),
        Arc::new(ship_modes.finish()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_counts_are_a_permutation_and_vary() {
        let streams = Streams::new(5);
        let mut firsts = [0; 8];
        for group in 0..7_000 {
            let counts = line_counts(&streams, group);
            let mut sorted = counts;
            sorted.sort_unstable();
            assert_eq!(sorted, [1, 2, 3, 4, 5, 6, 7]);
            firsts[counts[0]] += 1;
        }
        // 1,000 expected each.
        assert!(
            firsts[1..].iter().all(|&count| (850..1150).contains(&count)),
            "{firsts:?}"
        );
    }

    #[test]
    fn order_keys_are_the_first_eight_of_every_32() {
        let keys: Vec<i32> = (0..10).map(order_key).collect();
        assert_eq!(keys, [1, 2, 3, 4, 5, 6, 7, 32, 33, 34]);
        // The largest supported scale fits.
        assert!(order_key(350 * 1_500_000) > 0);
    }
}
