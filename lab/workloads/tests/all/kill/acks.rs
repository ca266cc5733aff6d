//! [`Run`]: what a killed process reported, and [`Found`]: what is in its folder.
//!
//! Durable: everything reported is there. Asynchronous: of each client everything up to its last `S` is there, and of the
//! rest nothing behind the first that is missing. In both: at most one transaction of each client is there that was not reported.

use std::collections::{HashMap, HashSet};

use corun_store::Ts;
use corun_workloads::engine::TpccEngine;
use corun_workloads::tpcc::{Row, TableName};

/// A transaction that was reported.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ack {
    NewOrder {
        warehouse: i16,
        district: i8,
        order: i32,
        tag: i64,
    },
    Payment {
        warehouse: i16,
        district: i8,
        amount: i64,
        tag: i64,
    },
    Delivery {
        warehouse: i16,
        tag: i64,
        orders: Vec<i32>,
    },
}

/// One client's reports.
#[derive(Clone, Debug, Default)]
struct Client {
    acks: Vec<Ack>,
    /// So many of them are on disk for sure.
    sure: usize,
}

/// All reports of one process.
#[derive(Clone, Debug)]
pub struct Run {
    durable: bool,
    clients: Vec<Client>,
    pub was_ready: bool,
    /// The newest backup that is complete: its name, and its commit.
    pub backup: Option<(String, Ts)>,
}

impl Run {
    pub fn new(durable: bool, clients: usize) -> Run {
        Run {
            durable,
            clients: vec![Client::default(); clients],
            was_ready: false,
            backup: None,
        }
    }

    /// Takes a line; lines of the test harness are none of ours.
    pub fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["ready"] => self.was_ready = true,
            ["B", name, ts] => self.backup = Some((name.to_owned(), Ts(number(ts) as u64))),
            ["S", client] => {
                let client = &mut self.clients[number(client) as usize];
                client.sure = client.acks.len();
            }
            ["C", client, "N", warehouse, district, order, tag] => {
                let ack = Ack::NewOrder {
                    warehouse: number(warehouse) as i16,
                    district: number(district) as i8,
                    order: number(order) as i32,
                    tag: number(tag),
                };
                self.push(client, ack);
            }
            ["C", client, "P", warehouse, district, amount, tag] => {
                let ack = Ack::Payment {
                    warehouse: number(warehouse) as i16,
                    district: number(district) as i8,
                    amount: number(amount),
                    tag: number(tag),
                };
                self.push(client, ack);
            }
            ["C", client, "D", warehouse, tag, ref orders @ ..] => {
                let ack = Ack::Delivery {
                    warehouse: number(warehouse) as i16,
                    tag: number(tag),
                    orders: orders.iter().map(|order| number(order) as i32).collect(),
                };
                self.push(client, ack);
            }
            _ => {}
        }
    }

    fn push(&mut self, client: &str, ack: Ack) {
        let client = &mut self.clients[number(client) as usize];
        client.acks.push(ack);
        if self.durable {
            client.sure = client.acks.len();
        }
    }

    pub fn acks(&self) -> usize {
        self.clients.iter().map(|client| client.acks.len()).sum()
    }
}

fn number(word: &str) -> i64 {
    word.parse().unwrap_or_else(|_| panic!("{word:?} is no number"))
}

/// What the tables say of tagged transactions.
#[derive(Default)]
pub struct Found {
    /// Warehouse, district, order of each tag.
    orders: HashMap<i64, (i16, i8, i32)>,
    /// Warehouse, district, amount of each tag.
    payments: HashMap<i64, (i16, i8, i64)>,
    /// Warehouse, district, order that was delivered.
    deliveries: HashMap<i64, HashSet<(i16, i8, i32)>>,
}

/// What is wrong with a folder.
#[derive(Debug, Default)]
pub struct Wrong {
    pub lost: Vec<String>,
    pub half_applied: Vec<String>,
}

impl Found {
    /// Reads everything of `first_tag` and later.
    pub fn read(engine: &dyn TpccEngine, first_tag: i64) -> Found {
        let mut found = Found::default();
        for table in [TableName::Orders, TableName::History, TableName::OrderLine] {
            let mut each = |row: &Row| match row {
                Row::Order(order) if order.entry >= first_tag => {
                    let place = (order.warehouse, order.district, order.id);
                    assert!(
                        found.orders.insert(order.entry, place).is_none(),
                        "two orders of one transaction"
                    );
                }
                Row::History(paid) if paid.date >= first_tag => {
                    let what = (paid.warehouse, paid.district, paid.amount);
                    assert!(
                        found.payments.insert(paid.date, what).is_none(),
                        "two payments of one transaction"
                    );
                }
                Row::OrderLine(line) => {
                    if let Some(tag) = line.delivery.filter(|tag| *tag >= first_tag) {
                        let place = (line.warehouse, line.district, line.order);
                        found.deliveries.entry(tag).or_default().insert(place);
                    }
                }
                _ => {}
            };
            engine.visit(table, &mut each).unwrap();
        }
        found
    }

    /// The newest tag.
    pub fn newest(&self) -> i64 {
        let tags = self
            .orders
            .keys()
            .chain(self.payments.keys())
            .chain(self.deliveries.keys());
        tags.copied().max().unwrap_or(0)
    }

    /// Whether a transaction is there; `Err` if only a part of it or something else is.
    fn has(&self, ack: &Ack) -> Result<bool, String> {
        let (found, whole) = match ack {
            Ack::NewOrder {
                warehouse,
                district,
                order,
                tag,
            } => {
                let found = self.orders.get(tag);
                (found.is_some(), found == Some(&(*warehouse, *district, *order)))
            }
            Ack::Payment {
                warehouse,
                district,
                amount,
                tag,
            } => {
                let found = self.payments.get(tag);
                (found.is_some(), found == Some(&(*warehouse, *district, *amount)))
            }
            Ack::Delivery {
                warehouse,
                tag,
                orders,
            } => {
                let wanted: HashSet<_> = (1_i8..)
                    .zip(orders)
                    .filter(|(_, order)| **order != 0)
                    .map(|(district, order)| (*warehouse, district, *order))
                    .collect();
                let found = self.deliveries.get(tag);
                // One that found nothing to deliver leaves nothing.
                (
                    found.is_some() || wanted.is_empty(),
                    found.unwrap_or(&HashSet::new()) == &wanted,
                )
            }
        };
        if found && !whole {
            return Err(format!("{ack:?} is there in part or as something else"));
        }
        Ok(found)
    }

    /// What is in it, and not in `other`, which is to have all of it and more.
    pub fn beyond(&self, other: &Found) -> Vec<String> {
        let orders = self
            .orders
            .iter()
            .filter(|(tag, of)| other.orders.get(tag) != Some(of));
        let payments = self
            .payments
            .iter()
            .filter(|(tag, of)| other.payments.get(tag) != Some(of));
        let deliveries = self
            .deliveries
            .iter()
            .filter(|(tag, of)| other.deliveries.get(tag) != Some(of));
        let orders = orders.map(|of| format!("order {of:?}"));
        let payments = payments.map(|of| format!("payment {of:?}"));
        orders
            .chain(payments)
            .chain(deliveries.map(|of| format!("delivery {of:?}")))
            .collect()
    }

    /// Compares with what was reported by all runs since `first_tag`.
    pub fn compare(&self, runs: &[Run]) -> Wrong {
        let mut wrong = Wrong::default();
        let mut reported = HashSet::new();
        for run in runs {
            for (number, client) in run.clients.iter().enumerate() {
                let mut missing = None;
                for (at, ack) in client.acks.iter().enumerate() {
                    reported.insert(match ack {
                        Ack::NewOrder { tag, .. } | Ack::Payment { tag, .. } | Ack::Delivery { tag, .. } => {
                            *tag
                        }
                    });
                    let is_empty =
                        matches!(ack, Ack::Delivery { orders, .. } if orders.iter().all(|order| *order == 0));
                    match self.has(ack) {
                        Err(why) => wrong.half_applied.push(why),
                        Ok(false) if at < client.sure => wrong.lost.push(format!("client {number}: {ack:?}")),
                        Ok(false) => missing = missing.or(Some(ack)),
                        Ok(true) => {
                            if let Some(before) = missing.filter(|_| !is_empty) {
                                wrong
                                    .lost
                                    .push(format!("client {number}: {before:?}, but not {ack:?} after it"));
                            }
                        }
                    }
                }
            }
        }
        let tags = self
            .orders
            .keys()
            .chain(self.payments.keys())
            .chain(self.deliveries.keys());
        let unreported = tags.filter(|tag| !reported.contains(tag)).count();
        let most: usize = runs.iter().map(|run| run.clients.len()).sum();
        if unreported > most {
            wrong.half_applied.push(format!(
                "{unreported} transactions are there that nobody reported, of {most} clients"
            ));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two clients of one process, and all that they reported.
    fn reported(durable: bool) -> (Run, Found) {
        let mut run = Run::new(durable, 2);
        for line in [
            "C 0 N 1 2 31 100",
            "C 1 P 1 3 500 101",
            "S 0",
            "test child ... ready",
            "C 0 P 1 4 700 102",
            "C 0 D 1 103 22 0 0 0 0 0 0 0 0 23",
            "C 0 N 1 2 32 104",
        ] {
            run.take(line);
        }
        let found = Found {
            orders: HashMap::from([(100, (1, 2, 31)), (104, (1, 2, 32))]),
            payments: HashMap::from([(101, (1, 3, 500)), (102, (1, 4, 700))]),
            deliveries: HashMap::from([(103, HashSet::from([(1, 1, 22), (1, 10, 23)]))]),
        };
        (run, found)
    }

    /// How many were lost and half applied after something was done to what is there.
    fn wrong(durable: bool, change: impl FnOnce(&mut Found)) -> (usize, usize) {
        let (run, mut found) = reported(durable);
        change(&mut found);
        let wrong = found.compare(&[run]);
        (wrong.lost.len(), wrong.half_applied.len())
    }

    #[test]
    fn what_is_missing_or_half_there_is_found() {
        for durable in [false, true] {
            assert_eq!(wrong(durable, |_| ()), (0, 0));
            assert_eq!(
                wrong(durable, |found| {
                    found.orders.remove(&100);
                })
                .1,
                0
            );
            assert_ne!(
                wrong(durable, |found| {
                    found.orders.remove(&100);
                })
                .0,
                0,
                "it was durable"
            );
            assert_ne!(
                wrong(durable, |found| {
                    found.payments.remove(&102);
                })
                .0,
                0,
                "a hole"
            );
            let half = |found: &mut Found| {
                let delivered = found.deliveries.get_mut(&103).unwrap();
                delivered.remove(&(1, 10, 23));
            };
            assert_eq!(wrong(durable, half), (0, 1));
            let other = |found: &mut Found| {
                found.payments.insert(101, (1, 3, 501));
            };
            assert_eq!(wrong(durable, other), (0, 1));
            // Two clients may have been about to report; three cannot.
            let more = |count: i64| {
                move |found: &mut Found| found.payments.extend((0..count).map(|at| (200 + at, (1, 1, 1))))
            };
            assert_eq!(wrong(durable, more(2)), (0, 0));
            assert_eq!(wrong(durable, more(3)), (0, 1));
        }
        // The newest may be missing where nothing said that it is on disk.
        let newest = |found: &mut Found| {
            found.orders.remove(&104);
        };
        assert_eq!(wrong(false, newest), (0, 0));
        assert_eq!(wrong(true, newest), (1, 0));
    }
}
