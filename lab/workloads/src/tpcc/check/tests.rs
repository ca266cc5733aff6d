//! The conditions see what they are for: each fails on data made wrong for it.

use super::*;
use crate::Naive;
use crate::tpcc::row::{Customer, District, History, NewOrder, Order, OrderLine, Warehouse};
use crate::tpcc::{KV_TABLES, KvTpcc, load};

/// Shows the rows of an engine after `change`, which returns false for rows to leave out.
struct Changed<'a> {
    engine: &'a KvTpcc<Naive>,
    change: &'a (dyn Fn(&mut Row) -> bool + Sync),
}

impl TpccEngine for Changed<'_> {
    fn name(&self) -> String {
        "changed".into()
    }

    fn load(&self, part: &mut dyn Iterator<Item = Row>) -> Result<(), TxError> {
        self.engine.load(part)
    }

    fn client(&self, worker: usize) -> Result<Box<dyn crate::engine::TpccClient + '_>, TxError> {
        self.engine.client(worker)
    }

    fn visit(&self, table: TableName, each: &mut dyn FnMut(&Row)) -> Result<(), TxError> {
        self.engine.visit(table, &mut |row| {
            let mut row = row.clone();
            if (self.change)(&mut row) {
                each(&row);
            }
        })
    }

    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}

#[test]
fn every_condition_can_fail() {
    let scale = Scale::hundredth(2);
    let engine = KvTpcc::new(Naive::new(KV_TABLES.len()));
    load(&engine, scale, 1, 1, &|_| ()).unwrap();
    assert_eq!(check(&engine, scale), Ok(Vec::new()));

    type Change = fn(&mut Row) -> bool;
    // Each change of one row of warehouse 2, district 3, with the conditions that must notice it.
    let changes: [(&[u8], Change); 12] = [
        (
            &[0],
            |row| !matches!(row, Row::Stock(stock) if stock.warehouse == 2 && stock.item == 7),
        ),
        (&[0], |row| !matches!(row, Row::Item(item) if item.id == 7)),
        (&[1, 8], |row| {
            if let Row::Warehouse(Warehouse { id: 2, ytd, .. }) = row {
                *ytd += 1;
            }
            true
        }),
        (&[1, 9], |row| {
            if let Row::District(District {
                warehouse: 2,
                id: 3,
                ytd,
                ..
            }) = row
            {
                *ytd += 1;
            }
            true
        }),
        (&[2], |row| {
            if let Row::District(District {
                warehouse: 2,
                id: 3,
                next_order,
                ..
            }) = row
            {
                *next_order += 1;
            }
            true
        }),
        (&[3, 5, 11], |row| {
            !matches!(
                row,
                Row::NewOrder(NewOrder {
                    warehouse: 2,
                    district: 3,
                    order: 25
                })
            )
        }),
        (&[4, 6], |row| {
            if let Row::Order(Order {
                warehouse: 2,
                district: 3,
                id: 5,
                lines,
                ..
            }) = row
            {
                *lines += 1;
            }
            true
        }),
        (&[5, 7], |row| {
            if let Row::Order(Order {
                warehouse: 2,
                district: 3,
                id: 25,
                carrier,
                ..
            }) = row
            {
                *carrier = Some(1);
            }
            true
        }),
        (&[7, 10, 12], |row| {
            if let Row::OrderLine(OrderLine {
                warehouse: 2,
                district: 3,
                order: 25,
                number: 2,
                delivery,
                ..
            }) = row
            {
                *delivery = Some(1);
            }
            true
        }),
        (&[8, 9, 10], |row| {
            if let Row::History(History {
                warehouse: 2,
                district: 3,
                customer: 9,
                amount,
                ..
            }) = row
            {
                *amount += 1;
            }
            true
        }),
        (&[10, 12], |row| {
            if let Row::Customer(Customer {
                warehouse: 2,
                district: 3,
                id: 9,
                balance,
                ..
            }) = row
            {
                *balance += 1;
            }
            true
        }),
        (&[11], |row| {
            if let Row::Customer(Customer {
                warehouse: 2,
                district: 3,
                id: 9,
                deliveries,
                ..
            }) = row
            {
                *deliveries += 1;
            }
            true
        }),
    ];
    let mut seen = 0u32;
    for (conditions, change) in changes {
        let changed = Changed {
            engine: &engine,
            change: &change,
        };
        let findings = check(&changed, scale).unwrap();
        let mut failed: Vec<u8> = findings.iter().map(|finding| finding.condition).collect();
        failed.sort_unstable();
        failed.dedup();
        assert_eq!(failed, conditions, "{findings:?}");
        for finding in &findings {
            assert!(finding.warehouse == 2 || finding.what == "items");
            assert!(finding.district.is_none_or(|district| district == 3), "{finding}");
            assert_ne!(finding.found, finding.expected);
            seen |= 1 << finding.condition;
        }
    }
    assert_eq!(seen, 0b1_1111_1111_1111, "a condition was never seen to fail");
}

#[test]
fn nothing_at_all_is_not_consistent() {
    let engine = KvTpcc::new(Naive::new(KV_TABLES.len()));
    let findings = check(&engine, Scale::hundredth(1)).unwrap();
    assert!(findings.iter().any(|finding| finding.condition == 0));
    assert!(findings.len() <= VIOLATIONS_MAX);
}

#[test]
fn a_finding_says_what_and_where() {
    let violation = Violation {
        condition: 9,
        warehouse: 1,
        district: Some(4),
        what: "D_YTD against sum(H_AMOUNT)".into(),
        found: 3,
        expected: 5,
    };
    assert_eq!(
        violation.to_string(),
        "consistency condition 9: warehouse 1, district 4: D_YTD against sum(H_AMOUNT): 3 instead of 5"
    );
}
