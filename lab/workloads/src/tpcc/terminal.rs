//! [`Terminal`]: the inputs one terminal sends, one after the other (clauses 2.4.1 to 2.8.1).

use super::input::{CustomerBy, Delivery, Input, NewOrder, NewOrderLine, OrderStatus, Payment, StockLevel};
use super::mix::{Kind, Mix};
use super::scale::{NuRand, Scale};
use super::{DISTRICTS, UNIT};
use crate::random::Random;

/// A terminal of one warehouse and district. The same seeds and number give the same inputs.
#[derive(Debug)]
pub struct Terminal {
    scale: Scale,
    mix: Mix,
    warehouse: i16,
    district: i8,
    nurand: NuRand,
    random: Random,
}

impl Terminal {
    /// Terminal `number` (from 0) of a database that was loaded with `load_seed`. Terminals take warehouses in turns, and
    /// districts after that: with ten terminals a warehouse, each has a district of its own.
    pub fn new(scale: Scale, mix: Mix, load_seed: u64, seed: u64, number: usize) -> Self {
        let warehouses = scale.warehouses.max(1) as usize;
        Self {
            scale,
            mix,
            warehouse: (number % warehouses) as i16 + 1,
            district: (number / warehouses % DISTRICTS as usize) as i8 + 1,
            nurand: NuRand::new(scale, load_seed),
            random: Random::new(seed, number as u64),
        }
    }

    /// The next transaction, which carries the time `now` in microseconds.
    pub fn next(&mut self, now: i64) -> Input {
        let ticket = self.random.pick(0, i64::from(self.mix.total()) - 1);
        match self.mix.kind(ticket) {
            Kind::NewOrder => Input::NewOrder(self.new_order(now)),
            Kind::Payment => Input::Payment(self.payment(now)),
            Kind::OrderStatus => Input::OrderStatus(OrderStatus {
                warehouse: self.warehouse,
                district: self.any_district(),
                customer: self.customer(),
            }),
            Kind::Delivery => Input::Delivery(Delivery {
                warehouse: self.warehouse,
                carrier: self.random.pick(1, 10),
                now,
            }),
            Kind::StockLevel => Input::StockLevel(StockLevel {
                warehouse: self.warehouse,
                district: self.district,
                threshold: self.random.pick(10, 20),
            }),
        }
    }

    fn new_order(&mut self, now: i64) -> NewOrder {
        let district = self.any_district();
        let customer = self.nurand.customer(&mut self.random);
        let count = self.random.between(5, 15);
        let roll_back = self.random.percent(1);
        let mut lines: Vec<_> = (0..count)
            .map(|_| NewOrderLine {
                item: self.nurand.item(&mut self.random),
                supply_warehouse: if self.random.percent(1) {
                    self.other_warehouse()
                } else {
                    self.warehouse
                },
                quantity: self.random.pick(1, 10),
            })
            .collect();
        if roll_back && let Some(last) = lines.last_mut() {
            last.item = self.scale.items() + 1;
        }
        NewOrder {
            warehouse: self.warehouse,
            district,
            customer,
            lines,
            now,
        }
    }

    fn payment(&mut self, now: i64) -> Payment {
        let district = self.any_district();
        let (customer_warehouse, customer_district) = if self.random.percent(85) {
            (self.warehouse, district)
        } else {
            (self.other_warehouse(), self.any_district())
        };
        Payment {
            warehouse: self.warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: self.customer(),
            amount: self.random.between(UNIT, 5_000 * UNIT),
            now,
        }
    }

    fn any_district(&mut self) -> i8 {
        self.random.pick(1, i64::from(DISTRICTS))
    }

    /// Any warehouse but the terminal's; that one if there is no other.
    fn other_warehouse(&mut self) -> i16 {
        if self.scale.warehouses <= 1 {
            return self.warehouse;
        }
        let other: i16 = self.random.pick(1, i64::from(self.scale.warehouses) - 1);
        if other < self.warehouse { other } else { other + 1 }
    }

    /// By last name in 60 of 100 cases.
    fn customer(&mut self) -> CustomerBy {
        if self.random.percent(60) {
            CustomerBy::LastName(self.nurand.last_name(&mut self.random))
        } else {
            CustomerBy::Id(self.nurand.customer(&mut self.random))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(scale: Scale, mix: Mix, number: usize, count: usize) -> Vec<Input> {
        let mut terminal = Terminal::new(scale, mix, 1, 2, number);
        (0..count).map(|at| terminal.next(at as i64)).collect()
    }

    /// Whether `count` of `of` is `percent`, within five standard deviations.
    #[track_caller]
    fn assert_share(what: &str, count: usize, of: usize, percent: f64) {
        let share = percent / 100.0;
        let expected = of as f64 * share;
        let slack = 5.0 * (of as f64 * share * (1.0 - share)).sqrt();
        assert!(
            (count as f64 - expected).abs() <= slack,
            "{what}: {count} of {of}, not {percent} %"
        );
    }

    #[test]
    fn transactions_come_in_their_shares() {
        let count = |mix: Mix| {
            let mut counts = [0; 5];
            for input in inputs(Scale::standard(1), mix, 0, 20_000) {
                counts[input.kind() as usize] += 1;
            }
            counts
        };
        for (kind, percent) in Kind::ALL.into_iter().zip([45.0, 43.0, 4.0, 4.0, 4.0]) {
            assert_share(
                kind.as_str(),
                count(Mix::STANDARD)[kind as usize],
                20_000,
                percent,
            );
        }
        for (kind, percent) in
            Kind::ALL
                .into_iter()
                .zip([4500.0 / 96.0, 4300.0 / 96.0, 400.0 / 96.0, 0.0, 400.0 / 96.0])
        {
            assert_share(
                kind.as_str(),
                count(Mix::NO_DELIVERY)[kind as usize],
                20_000,
                percent,
            );
        }
        assert_eq!(count(Mix::only(Kind::Payment)), [0, 20_000, 0, 0, 0]);
    }

    #[test]
    fn orders_follow_their_rules() {
        let scale = Scale::standard(4);
        let (mut orders, mut lines, mut remote, mut rolled_back) = (0, 0, 0, 0);
        for input in inputs(scale, Mix::only(Kind::NewOrder), 5, 20_000) {
            let Input::NewOrder(order) = input else {
                panic!("not an order")
            };
            assert_eq!(order.warehouse, 2);
            assert!((1..=10).contains(&order.district));
            assert!((5..=15).contains(&order.lines.len()));
            orders += 1;
            lines += order.lines.len();
            remote += order
                .lines
                .iter()
                .filter(|line| line.supply_warehouse != 2)
                .count();
            let unused: Vec<_> = (0..order.lines.len())
                .filter(|&at| order.lines[at].item > scale.items())
                .collect();
            assert!(unused.is_empty() || unused == [order.lines.len() - 1]);
            rolled_back += unused.len();
            assert_eq!(
                order.all_local(),
                order.lines.iter().all(|line| line.supply_warehouse == 2)
            );
            for line in order.lines {
                assert!((1..=10).contains(&line.quantity) && (1..=4).contains(&line.supply_warehouse));
            }
        }
        assert_share("remote lines", remote, lines, 1.0);
        assert_share("orders with an unused item", rolled_back, orders, 1.0);
        assert!((195_000..205_000).contains(&lines), "{lines} lines");
    }

    #[test]
    fn payments_follow_their_rules() {
        let (mut remote, mut by_name) = (0, 0);
        for input in inputs(Scale::standard(3), Mix::only(Kind::Payment), 0, 20_000) {
            let Input::Payment(payment) = input else {
                panic!("not a payment")
            };
            assert!((UNIT..=5_000 * UNIT).contains(&payment.amount));
            remote += usize::from(payment.customer_warehouse != payment.warehouse);
            by_name += usize::from(matches!(payment.customer, CustomerBy::LastName(_)));
            assert!(
                payment.customer_warehouse != payment.warehouse
                    || payment.customer_district == payment.district
            );
        }
        assert_share("remote payments", remote, 20_000, 15.0);
        assert_share("payments by last name", by_name, 20_000, 60.0);
        // With one warehouse there is no other, but other districts.
        let other_district = inputs(Scale::standard(1), Mix::only(Kind::Payment), 0, 20_000)
            .iter()
            .filter(|input| matches!(input, Input::Payment(p) if p.customer_warehouse == 1 && p.customer_district != p.district))
            .count();
        assert_share("payments in another district", other_district, 20_000, 13.5);
    }

    #[test]
    fn terminals_have_places_and_sequences_of_their_own() {
        let scale = Scale::standard(2);
        let places: Vec<_> = (0..20)
            .map(|number| {
                let terminal = Terminal::new(scale, Mix::STANDARD, 1, 2, number);
                (terminal.warehouse, terminal.district)
            })
            .collect();
        let mut distinct = places.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 20);
        assert_eq!(
            inputs(scale, Mix::STANDARD, 3, 100),
            inputs(scale, Mix::STANDARD, 3, 100)
        );
        assert_ne!(
            inputs(scale, Mix::STANDARD, 3, 100),
            inputs(scale, Mix::STANDARD, 5, 100)
        );
    }
}
