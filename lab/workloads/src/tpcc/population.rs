//! The initial population (clause 4.3.3), made row by row, and [`load`], which puts it into an engine.
//!
//! It comes in parts that share no rows: the items, then each warehouse with all that belongs to it. The same scale and
//! seed give the same rows.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::row::{
    Address, Customer, District, History, Item, NewOrder, Order, OrderLine, Row, Stock, Warehouse,
};
use super::scale::{NuRand, Scale};
use super::{DISTRICTS, UNIT};
use crate::engine::{TpccEngine, TxError};
use crate::random::Random;
use crate::text::Text;

/// C_SINCE, H_DATE and O_ENTRY_D of the population: the start of 2026, in microseconds.
pub const LOADED_AT: i64 = 1_767_225_600_000_000;

/// Puts the whole population into an empty engine, with `threads` threads. Calls `progress` with the number of rows handed
/// over so far, now and then.
///
/// # Errors
/// The first error of the engine.
pub fn load(
    engine: &dyn TpccEngine,
    scale: Scale,
    seed: u64,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), TxError> {
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, 64) {
            scope.spawn(|| {
                loop {
                    // Relaxed: the counter hands out numbers and guards nothing else.
                    let part = next.fetch_add(1, Ordering::Relaxed);
                    if part > u64::from(scale.warehouses.max(0).unsigned_abs()) || failed.lock().is_some() {
                        return;
                    }
                    let mut rows = Rows::part(scale, seed, part as i16).inspect(|_| {
                        let rows = done.fetch_add(1, Ordering::Relaxed) + 1;
                        if rows.is_multiple_of(4096) {
                            progress(rows);
                        }
                    });
                    if let Err(error) = engine.load(&mut rows) {
                        failed.lock().get_or_insert(error);
                    }
                }
            });
        }
    });
    progress(done.into_inner());
    failed.into_inner().map_or(Ok(()), Err)
}

/// The rows of one part.
#[derive(Debug)]
pub struct Rows {
    scale: Scale,
    warehouse: i16,
    random: Random,
    nurand: NuRand,
    /// What comes after `ready`.
    step: Step,
    /// The customers of the district's orders, which are a permutation.
    order_customers: Vec<i32>,
    /// Rows made and not yet handed over.
    ready: VecDeque<Row>,
}

/// What is made next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Item(i32),
    Warehouse,
    Stock(i32),
    District(i8),
    Customer(i8, i32),
    Order(i8, i32),
    End,
}

impl Rows {
    /// Part 0, the items, or the part of a warehouse.
    pub fn part(scale: Scale, seed: u64, part: i16) -> Self {
        Self {
            scale,
            warehouse: part,
            random: Random::new(seed, part as u64),
            nurand: NuRand::new(scale, seed),
            step: if part == 0 { Step::Item(1) } else { Step::Warehouse },
            order_customers: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    /// Makes the rows of one step and returns the step that follows.
    fn make(&mut self, step: Step) -> Step {
        match step {
            Step::Item(id) if id > self.scale.items() => Step::End,
            Step::Item(id) => {
                let item = self.item(id);
                self.ready.push_back(Row::Item(item));
                Step::Item(id + 1)
            }
            Step::Warehouse => {
                let warehouse = self.warehouse();
                self.ready.push_back(Row::Warehouse(warehouse));
                Step::Stock(1)
            }
            Step::Stock(item) if item > self.scale.items() => Step::District(1),
            Step::Stock(item) => {
                let stock = self.stock(item);
                self.ready.push_back(Row::Stock(stock));
                Step::Stock(item + 1)
            }
            Step::District(id) if id > DISTRICTS => Step::End,
            Step::District(id) => {
                let district = self.district(id);
                self.ready.push_back(Row::District(district));
                self.order_customers = (1..=self.scale.customers()).collect();
                self.random.shuffle(&mut self.order_customers);
                Step::Customer(id, 1)
            }
            Step::Customer(district, id) if id > self.scale.customers() => Step::Order(district, 1),
            Step::Customer(district, id) => {
                let customer = self.customer(district, id);
                let history = self.history(&customer);
                self.ready.push_back(Row::Customer(customer));
                self.ready.push_back(Row::History(history));
                Step::Customer(district, id + 1)
            }
            Step::Order(district, id) if id > self.scale.orders() => Step::District(district + 1),
            Step::Order(district, id) => {
                self.order(district, id);
                Step::Order(district, id + 1)
            }
            Step::End => Step::End,
        }
    }

    fn item(&mut self, id: i32) -> Item {
        Item {
            id,
            image: self.random.pick(1, 10_000),
            name: self.random.text(14, 24),
            price: self.random.between(UNIT, 100 * UNIT),
            data: self.data(),
        }
    }

    /// I_DATA or S_DATA: 26 to 50 characters, with `ORIGINAL` somewhere in every tenth.
    fn data(&mut self) -> Text<50> {
        const WORD: &str = "ORIGINAL";
        let text: Text<50> = self.random.text(26, 50);
        if !self.random.percent(10) {
            return text;
        }
        let at = self.random.between(0, (text.len() - WORD.len()) as i64) as usize;
        let (head, tail) = (&text.as_str()[..at], &text.as_str()[at + WORD.len()..]);
        Text::cut(&[head, WORD, tail].concat())
    }

    fn address(&mut self) -> Address {
        let digits = self.random.digits::<4>();
        Address {
            street_1: self.random.text(10, 20),
            street_2: self.random.text(10, 20),
            city: self.random.text(10, 20),
            state: self.random.text(2, 2),
            zip: Text::cut(&[digits.as_str(), "11111"].concat()),
        }
    }

    fn warehouse(&mut self) -> Warehouse {
        Warehouse {
            id: self.warehouse,
            name: self.random.text(6, 10),
            address: self.address(),
            tax: self.random.pick(0, 2_000),
            ytd: i64::from(DISTRICTS) * i64::from(self.scale.customers()) * 10 * UNIT,
        }
    }

    fn stock(&mut self, item: i32) -> Stock {
        Stock {
            warehouse: self.warehouse,
            item,
            quantity: self.random.pick(10, 100),
            districts: std::array::from_fn(|_| self.random.text(24, 24)),
            ytd: 0,
            orders: 0,
            remotes: 0,
            data: self.data(),
        }
    }

    fn district(&mut self, id: i8) -> District {
        District {
            warehouse: self.warehouse,
            id,
            name: self.random.text(6, 10),
            address: self.address(),
            tax: self.random.pick(0, 2_000),
            // 30,000.00 for 3,000 customers, each of whom has paid 10.00.
            ytd: i64::from(self.scale.customers()) * 10 * UNIT,
            next_order: self.scale.orders() + 1,
        }
    }

    fn customer(&mut self, district: i8, id: i32) -> Customer {
        Customer {
            warehouse: self.warehouse,
            district,
            id,
            first: self.random.text(8, 16),
            middle: Text::cut("OE"),
            last: self.nurand.last_name_loaded(id, &mut self.random),
            address: self.address(),
            phone: self.random.digits(),
            since: LOADED_AT,
            credit: Text::cut(if self.random.percent(10) { "BC" } else { "GC" }),
            credit_limit: 50_000 * UNIT,
            discount: self.random.pick(0, 5_000),
            balance: -10 * UNIT,
            ytd_payment: 10 * UNIT,
            payments: 1,
            deliveries: 0,
            data: self.random.text(300, 500),
        }
    }

    fn history(&mut self, customer: &Customer) -> History {
        History {
            customer_warehouse: customer.warehouse,
            customer_district: customer.district,
            customer: customer.id,
            warehouse: customer.warehouse,
            district: customer.district,
            date: LOADED_AT,
            amount: 10 * UNIT,
            data: self.random.text(12, 24),
        }
    }

    fn order(&mut self, district: i8, id: i32) {
        let delivered = id <= self.scale.delivered();
        let order = Order {
            warehouse: self.warehouse,
            district,
            id,
            customer: self.order_customers[id as usize - 1],
            entry: LOADED_AT,
            carrier: delivered.then(|| self.random.pick(1, 10)),
            lines: self.random.pick(5, 15),
            all_local: true,
        };
        self.ready.push_back(Row::Order(order));
        for number in 1..=order.lines {
            let line = OrderLine {
                warehouse: self.warehouse,
                district,
                order: id,
                number,
                item: self.random.pick(1, i64::from(self.scale.items())),
                supply_warehouse: self.warehouse,
                delivery: delivered.then_some(LOADED_AT),
                quantity: 5,
                amount: if delivered {
                    0
                } else {
                    self.random.between(1, 9_999 * UNIT + 99)
                },
                district_info: self.random.text(24, 24),
            };
            self.ready.push_back(Row::OrderLine(line));
        }
        if !delivered {
            self.ready.push_back(Row::NewOrder(NewOrder {
                warehouse: self.warehouse,
                district,
                order: id,
            }));
        }
    }
}

impl Iterator for Rows {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        while self.ready.is_empty() && self.step != Step::End {
            self.step = self.make(self.step);
        }
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::{TableName, is_original};
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn every_table_has_its_number_of_rows() {
        let scale = Scale {
            warehouses: 2,
            divisor: 10,
        };
        let mut counts = BTreeMap::new();
        for part in 0..=2 {
            for row in Rows::part(scale, 1, part) {
                *counts.entry(row.table()).or_insert(0) += 1;
            }
        }
        assert_eq!(counts[&TableName::Warehouse], 2);
        assert_eq!(counts[&TableName::District], 20);
        assert_eq!(counts[&TableName::Customer], 6_000);
        assert_eq!(counts[&TableName::History], 6_000);
        assert_eq!(counts[&TableName::NewOrder], 1_800);
        assert_eq!(counts[&TableName::Orders], 6_000);
        assert_eq!(counts[&TableName::Item], 10_000);
        assert_eq!(counts[&TableName::Stock], 20_000);
        let lines = counts[&TableName::OrderLine];
        assert!((57_000..63_000).contains(&lines), "{lines} order lines");
    }

    #[test]
    fn shares_are_as_the_rules_say() {
        let scale = Scale {
            warehouses: 1,
            divisor: 5,
        };
        let mut original = 0;
        let mut bad_credit = 0;
        let mut orders: BTreeMap<i8, Vec<i32>> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for row in Rows::part(scale, 9, 0).chain(Rows::part(scale, 9, 1)) {
            match row {
                Row::Item(item) => original += usize::from(is_original(item.data.as_bytes())),
                Row::Customer(customer) => {
                    bad_credit += usize::from(customer.credit == "BC");
                    assert!((300..=500).contains(&customer.data.len()));
                    names.insert(customer.last);
                }
                Row::Order(order) => {
                    assert_eq!(order.carrier.is_some(), order.id <= scale.delivered());
                    orders.entry(order.district).or_default().push(order.customer);
                }
                Row::OrderLine(line) => {
                    assert_eq!(line.delivery.is_some(), line.order <= scale.delivered());
                    assert_eq!(line.amount == 0, line.order <= scale.delivered());
                }
                _ => {}
            }
        }
        // A tenth of 20,000 items and of 6,000 customers, five standard deviations either way.
        assert!((1_788..2_212).contains(&original), "{original} originals");
        assert!((484..716).contains(&bad_credit), "{bad_credit} with bad credit");
        assert_eq!(names.len(), 200);
        assert_eq!(orders.len(), 10);
        for (district, mut customers) in orders {
            assert!(
                !customers.is_sorted(),
                "the customers of district {district} are not permuted"
            );
            customers.sort_unstable();
            assert!(customers.iter().copied().eq(1..=scale.customers()));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_rows() {
        let scale = Scale::hundredth(1);
        let rows = |seed| Rows::part(scale, seed, 1).collect::<Vec<_>>();
        assert_eq!(rows(4), rows(4));
        assert_ne!(rows(4), rows(5));
    }
}
