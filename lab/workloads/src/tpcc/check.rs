//! [`check`]: the twelve consistency conditions (clause 3.3.2) over all rows of an engine.
//!
//! They hold after any sequence of whole transactions, whatever crashed in between. Condition 0 is ours: that the tables
//! whose sizes never change have them, because empty tables satisfy all others. Condition 11 is written by the
//! specification for a database in which nothing has been delivered since the load; here it counts deliveries.

use std::collections::BTreeMap;
use std::fmt;

use super::row::Row;
use super::scale::Scale;
use super::{DISTRICTS, TableName};
use crate::engine::{TpccEngine, TxError};

/// After so many the search ends: they have one cause.
const VIOLATIONS_MAX: usize = 20;

/// One thing that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// 1 to 12 as in clause 3.3.2; 0 for the number of rows.
    pub condition: u8,
    /// Which warehouse; 0 for items.
    pub warehouse: i16,
    /// Which district, if the condition is about one.
    pub district: Option<i8>,
    /// What was compared.
    pub what: String,
    /// The number that was found.
    pub found: i64,
    /// The number it must equal.
    pub expected: i64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "consistency condition {}: warehouse {}",
            self.condition, self.warehouse
        )?;
        if let Some(district) = self.district {
            write!(f, ", district {district}")?;
        }
        write!(f, ": {}: {} instead of {}", self.what, self.found, self.expected)
    }
}

/// Which district.
type Place = (i16, i8);

/// What the conditions need of an order.
#[derive(Default)]
struct OrderState {
    /// Rows of `orders` with this key.
    rows: i64,
    delivered: bool,
    customer: i32,
    lines_said: i64,
    lines: i64,
    lines_delivered: i64,
    /// Sum of the amounts of delivered lines.
    amount_delivered: i64,
    new_orders: i64,
}

/// What the conditions need of a customer.
#[derive(Default)]
struct CustomerState {
    rows: i64,
    balance: i64,
    ytd_payment: i64,
    deliveries: i64,
    paid: i64,
    delivered: i64,
}

#[derive(Default)]
struct DistrictState {
    rows: i64,
    ytd: i64,
    next_order: i64,
    paid: i64,
    orders: BTreeMap<i32, OrderState>,
    customers: BTreeMap<i32, CustomerState>,
}

#[derive(Default)]
struct WarehouseState {
    rows: i64,
    ytd: i64,
    paid: i64,
    stock: i64,
}

#[derive(Default)]
struct State {
    warehouses: BTreeMap<i16, WarehouseState>,
    districts: BTreeMap<Place, DistrictState>,
    items: i64,
}

impl State {
    fn take(&mut self, row: &Row) {
        match row {
            Row::Warehouse(row) => {
                let state = self.warehouses.entry(row.id).or_default();
                state.rows += 1;
                state.ytd += row.ytd;
            }
            Row::District(row) => {
                let state = self.district(row.warehouse, row.id);
                state.rows += 1;
                state.ytd += row.ytd;
                state.next_order = i64::from(row.next_order);
            }
            Row::Customer(row) => {
                let district = self.district(row.warehouse, row.district);
                let state = district.customers.entry(row.id).or_default();
                state.rows += 1;
                state.balance = row.balance;
                state.ytd_payment = row.ytd_payment;
                state.deliveries = i64::from(row.deliveries);
            }
            Row::History(row) => {
                self.warehouses.entry(row.warehouse).or_default().paid += row.amount;
                self.district(row.warehouse, row.district).paid += row.amount;
                let district = self.district(row.customer_warehouse, row.customer_district);
                district.customers.entry(row.customer).or_default().paid += row.amount;
            }
            Row::NewOrder(row) => self.order(row.warehouse, row.district, row.order).new_orders += 1,
            Row::Order(row) => {
                let state = self.order(row.warehouse, row.district, row.id);
                state.rows += 1;
                state.delivered = row.carrier.is_some();
                state.customer = row.customer;
                state.lines_said = i64::from(row.lines);
            }
            Row::OrderLine(row) => {
                let state = self.order(row.warehouse, row.district, row.order);
                state.lines += 1;
                if row.delivery.is_some() {
                    state.lines_delivered += 1;
                    state.amount_delivered += row.amount;
                }
            }
            Row::Item(_) => self.items += 1,
            Row::Stock(row) => self.warehouses.entry(row.warehouse).or_default().stock += 1,
        }
    }

    fn district(&mut self, warehouse: i16, district: i8) -> &mut DistrictState {
        self.districts.entry((warehouse, district)).or_default()
    }

    fn order(&mut self, warehouse: i16, district: i8, order: i32) -> &mut OrderState {
        self.district(warehouse, district)
            .orders
            .entry(order)
            .or_default()
    }
}

/// What was found so far.
struct Findings(Vec<Violation>);

impl Findings {
    /// Compares two numbers of a warehouse, or of a district of it.
    fn equal(
        &mut self,
        condition: u8,
        (warehouse, district): (i16, Option<i8>),
        (found, expected): (i64, i64),
        what: impl FnOnce() -> String,
    ) {
        if found != expected && self.0.len() < VIOLATIONS_MAX {
            self.0.push(Violation {
                condition,
                warehouse,
                district,
                what: what(),
                found,
                expected,
            });
        }
    }
}

/// Reads all rows and returns what is not as it must be, at most 20 findings, the smallest conditions of a district first.
///
/// # Errors
/// When the engine cannot show its rows.
pub fn check(engine: &dyn TpccEngine, scale: Scale) -> Result<Vec<Violation>, TxError> {
    let mut state = State::default();
    for table in TableName::ALL {
        engine.visit(table, &mut |row| state.take(row))?;
    }
    let mut findings = Findings(Vec::new());
    findings.equal(0, (0, None), (state.items, i64::from(scale.items())), || {
        "items".into()
    });
    for warehouse in 1..=scale.warehouses {
        // What is not there at all is found by its number of rows.
        state.warehouses.entry(warehouse).or_default();
        for district in 1..=DISTRICTS {
            state.district(warehouse, district);
        }
    }
    for (&warehouse, state_of) in &state.warehouses {
        let of = (warehouse, None);
        let exists = i64::from(warehouse >= 1 && warehouse <= scale.warehouses);
        findings.equal(0, of, (state_of.rows, exists), || "rows of the warehouse".into());
        findings.equal(0, of, (state_of.stock, exists * i64::from(scale.items())), || {
            "stocks".into()
        });
        let districts = state.districts.range((warehouse, i8::MIN)..=(warehouse, i8::MAX));
        let sum = districts.map(|(_, district)| district.ytd).sum();
        findings.equal(1, of, (state_of.ytd, sum), || "W_YTD against sum(D_YTD)".into());
        findings.equal(8, of, (state_of.ytd, state_of.paid), || {
            "W_YTD against sum(H_AMOUNT)".into()
        });
    }
    for (&place, district) in &mut state.districts {
        check_district(place, district, scale, &mut findings);
    }
    Ok(findings.0)
}

fn check_district(
    (warehouse, id): Place,
    district: &mut DistrictState,
    scale: Scale,
    findings: &mut Findings,
) {
    let of = (warehouse, Some(id));
    let exists = i64::from((1..=scale.warehouses).contains(&warehouse) && (1..=DISTRICTS).contains(&id));
    findings.equal(0, of, (district.rows, exists), || "rows of the district".into());
    let customers = district.customers.values().map(|customer| customer.rows).sum();
    findings.equal(0, of, (customers, exists * i64::from(scale.customers())), || {
        "customers".into()
    });

    let last = district.next_order - 1;
    let orders = || district.orders.iter().filter(|(_, order)| order.rows > 0);
    let waiting = || {
        district
            .orders
            .iter()
            .filter(|(_, order)| order.new_orders > 0)
            .map(|(&id, _)| i64::from(id))
    };
    let max_order = orders().map(|(&id, _)| i64::from(id)).max().unwrap_or(0);
    findings.equal(2, of, (last, max_order), || {
        "D_NEXT_O_ID - 1 against max(O_ID)".into()
    });
    // Conditions 2 and 3 leave out districts where nothing waits.
    if let (Some(min), Some(max)) = (waiting().min(), waiting().max()) {
        findings.equal(2, of, (last, max), || {
            "D_NEXT_O_ID - 1 against max(NO_O_ID)".into()
        });
        let count = district.orders.values().map(|order| order.new_orders).sum();
        findings.equal(3, of, (max - min + 1, count), || {
            "max(NO_O_ID) - min(NO_O_ID) + 1 against the rows of NEW-ORDER".into()
        });
    }
    let said = orders().map(|(_, order)| order.lines_said).sum();
    let lines = district.orders.values().map(|order| order.lines).sum();
    findings.equal(4, of, (said, lines), || {
        "sum(O_OL_CNT) against the rows of ORDER-LINE".into()
    });
    for (number, order) in &district.orders {
        let waits = i64::from(order.rows > 0 && !order.delivered);
        findings.equal(5, of, (order.new_orders, waits), || {
            format!("order {number}: rows of NEW-ORDER against O_CARRIER_ID being null")
        });
        findings.equal(6, of, (order.lines_said, order.lines), || {
            format!("order {number}: O_OL_CNT against the rows of ORDER-LINE")
        });
        let expected = if order.delivered { order.lines } else { 0 };
        findings.equal(7, of, (order.lines_delivered, expected), || {
            format!("order {number}: lines with OL_DELIVERY_D against O_CARRIER_ID being set")
        });
    }
    findings.equal(9, of, (district.ytd, district.paid), || {
        "D_YTD against sum(H_AMOUNT)".into()
    });

    for order in district.orders.values() {
        district.customers.entry(order.customer).or_default().delivered += order.amount_delivered;
    }
    for (number, customer) in &district.customers {
        let owed = customer.delivered - customer.paid;
        findings.equal(10, of, (customer.balance, owed), || {
            format!("customer {number}: C_BALANCE against sum(OL_AMOUNT) - sum(H_AMOUNT)")
        });
        findings.equal(
            12,
            of,
            (customer.balance + customer.ytd_payment, customer.delivered),
            || format!("customer {number}: C_BALANCE + C_YTD_PAYMENT against sum(OL_AMOUNT)"),
        );
    }
    let orders: i64 = district.orders.values().map(|order| order.rows).sum();
    let waiting: i64 = district.orders.values().map(|order| order.new_orders).sum();
    let delivered: i64 = district
        .customers
        .values()
        .map(|customer| customer.deliveries)
        .sum();
    let expected = exists * i64::from(scale.delivered()) + delivered;
    findings.equal(11, of, (orders - waiting, expected), || {
        "rows of ORDER - rows of NEW-ORDER against those loaded as delivered + sum(C_DELIVERY_CNT)".into()
    });
}

#[cfg(test)]
mod tests;
