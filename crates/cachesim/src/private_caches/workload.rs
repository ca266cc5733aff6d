//! [`Workload`]: which statements come, with which keys; from the kept recording to the [`Query`]s that cores run.
//!
//! ```text
//!   point, point_simple     one read of an account by its number: prepared, or as text
//!   tpcw                    the browsing mix: items with their authors, customers, last orders, 5 % updates; Best Seller if asked for
//!   tpcc                    New Order and Payment, half each, inside transactions: a warehouse's keys
//! ```
//!
//! A query's key comes from its range: it is drawn evenly from a part, `from` to `to`, of all askings. What other keys follow from it is
//! a fixed permutation (an item's author), what does not is drawn (the items of an order). Which execution of the recording stands for a
//! statement is drawn by its key.
//!
//! Not here: which core runs it; see [`super::run`].

use super::axis::{Axis, permuted};
use super::keys::Keys;
use super::layout::{Layout, scatter};
use super::recording::{Block, Recording, RecordingError};
use super::touch::BLOCK_LINES;
use crate::random::SplitMix64;

/// The recording in the repository.
const KEPT: &str = include_str!("kept.jsonl");
/// Rows that grow with accounts, items and customers, in the recording.
pub const ROWS: u64 = 200_000;
/// Warehouses in the recording, and of each the districts, stock, and of each district the customers.
pub const WAREHOUSES: u64 = 4;
const DISTRICTS: u64 = 10;
const ITEMS: u64 = 100_000;
const CUSTOMERS: u64 = 3_000;
/// Lines of an order.
const LINES: usize = 10;
/// Where the lines that Best Seller reads begin: the last twentieth.
const RECENT: f64 = 0.95;
/// Best Sellers of a hundred queries: TPC-W's browsing mix.
const BEST_SELLER_SHARE: u64 = 11;
/// Most steps of one Best Seller: the paper's 3,333 orders have 10,000 lines.
pub const STEPS_MAX: usize = 100_000;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads of accounts, prepared.
    Point,
    /// Reads of accounts, parsed and planned each time.
    PointSimple,
    /// TPC-W's browsing mix.
    Tpcw,
    /// TPC-C's two commonest transactions.
    Tpcc,
}

impl Kind {
    /// Names, in the order of the kinds.
    pub const NAMES: [&'static str; 4] = ["point", "point_simple", "tpcw", "tpcc"];

    /// The kind of a name.
    pub fn named(name: &str) -> Option<Kind> {
        let at = Kind::NAMES.iter().position(|known| *known == name)?;
        Some([Kind::Point, Kind::PointSimple, Kind::Tpcw, Kind::Tpcc][at])
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Kind::NAMES[self as usize]
    }

    /// Statements whose keys are dispatched by.
    fn statements(self) -> &'static [&'static str] {
        match self {
            Kind::Point => &["point"],
            Kind::PointSimple => &["point_simple"],
            Kind::Tpcw => &["item", "customer", "last_order", "item_update"],
            Kind::Tpcc => &[
                "warehouse",
                "district_order",
                "ccustomer",
                "stock_update",
                "order_insert",
                "line_insert",
                "history_insert",
            ],
        }
    }
}

/// How large the database is, and what is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// Accounts, or items of TPC-W.
    pub items: u64,
    /// Customers of TPC-W.
    pub customers: u64,
    /// Warehouses of TPC-C.
    pub warehouses: u64,
    /// How uneven keys are: 0 for all alike, 0.99 as usual in benchmarks.
    pub skew: f64,
    /// Steps of one Best Seller; 0: there is none in the mix.
    pub best_seller_steps: usize,
}

/// One statement of a query: an execution of the recording and the pages that stand for its.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Which execution.
    pub execution: usize,
    /// Its pages.
    pub blocks: Vec<Block>,
}

/// What one backend runs in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Whether it is a Best Seller, or a part of one.
    pub complex: bool,
    /// Its statements.
    pub statements: Vec<Statement>,
}

/// A database and the queries that come to it.
#[derive(Clone, Debug)]
pub struct Workload {
    kind: Kind,
    sizes: Sizes,
    recording: Recording,
    layout: Layout,
    items: Keys,
    customers: Keys,
    districts: Keys,
    /// The executions of each statement name.
    samples: Vec<(String, Vec<usize>)>,
}

/// Which keys may be drawn: a part of all askings, in the order of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// From this part, 0 to 1.
    pub from: f64,
    /// To this part.
    pub to: f64,
}

impl Range {
    /// Every key.
    pub const ALL: Range = Range { from: 0.0, to: 1.0 };

    /// The `nth` of `all` ranges that are asked for equally often.
    pub fn of(nth: usize, all: usize) -> Range {
        let all = all.max(1) as f64;
        Range {
            from: nth as f64 / all,
            to: (nth as f64 + 1.0) / all,
        }
    }

    fn draw(self, random: &mut SplitMix64) -> f64 {
        self.from + (self.to - self.from) * unit(random)
    }
}

/// A number from 0 to below 1.
fn unit(random: &mut SplitMix64) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Where the keys of a statement lie: an entry for each axis that its relations lie along.
pub type At<'a> = &'a [(Axis, f64)];

impl Workload {
    /// The workload over the kept recording.
    ///
    /// # Errors
    /// [`RecordingError`] if the kept recording cannot be read, which a test excludes.
    pub fn kept(kind: Kind, sizes: Sizes) -> Result<Workload, RecordingError> {
        Ok(Workload::new(kind, sizes, Recording::parse(KEPT)?))
    }

    /// The workload over any recording.
    pub fn new(kind: Kind, sizes: Sizes, recording: Recording) -> Workload {
        let factor = |axis| match axis {
            Axis::Account | Axis::Item | Axis::Author => sizes.items as f64 / ROWS as f64,
            Axis::Customer | Axis::Order | Axis::LineScan => sizes.customers as f64 / ROWS as f64,
            Axis::CommonItem => 1.0,
            _ => sizes.warehouses as f64 / WAREHOUSES as f64,
        };
        let layout = Layout::new(&recording, factor);
        let mut samples: Vec<(String, Vec<usize>)> = Vec::new();
        for (at, execution) in recording.executions.iter().enumerate() {
            match samples.iter_mut().find(|(name, _)| *name == execution.statement) {
                Some((_, executions)) => executions.push(at),
                None => samples.push((execution.statement.clone(), vec![at])),
            }
        }
        let used = |used: bool, rows: u64| Keys::new(rows, if used { sizes.skew } else { 0.0 });
        Workload {
            kind,
            sizes,
            layout,
            items: used(kind != Kind::Tpcc, sizes.items),
            customers: used(kind == Kind::Tpcw, sizes.customers),
            districts: used(kind == Kind::Tpcc, sizes.warehouses.saturating_mul(DISTRICTS)),
            samples,
            recording,
        }
    }

    /// What is replayed.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Where lines lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Bytes of the relations that keys of this workload lead to.
    pub fn bytes(&self) -> u64 {
        let mut used: Vec<u32> = Vec::new();
        for name in self.kind.statements() {
            for execution in self.recording.of(name) {
                used.extend(execution.blocks.iter().map(|block| block.relation));
            }
        }
        used.sort_unstable();
        used.dedup();
        let pages = used.iter().map(|&relation| self.layout.pages_of(relation));
        pages.sum::<u64>() * u64::from(BLOCK_LINES * 64)
    }

    /// Whether there are Best Sellers.
    pub fn has_best_seller(&self) -> bool {
        self.kind == Kind::Tpcw && self.sizes.best_seller_steps > 0
    }

    /// The next query with a key in `range`, for `backend`. Without `complex`, Best Sellers run elsewhere.
    pub(crate) fn query(&self, range: Range, complex: bool, random: &mut SplitMix64, backend: u32) -> Query {
        if complex && self.has_best_seller() && random.below(100) < BEST_SELLER_SHARE {
            return self.best_seller(0, 1, random, backend);
        }
        match self.kind {
            Kind::Point => self.point("point", range, random, backend),
            Kind::PointSimple => self.point("point_simple", range, random, backend),
            Kind::Tpcw => self.browse(range, random, backend),
            Kind::Tpcc => self.order(range, random, backend),
        }
    }

    /// Part `part` of `parts` of a Best Seller: all of its scan, and the steps whose items lie in that part.
    pub(crate) fn best_seller(
        &self,
        part: usize,
        parts: usize,
        random: &mut SplitMix64,
        backend: u32,
    ) -> Query {
        let range = Range::of(part, parts);
        let steps = self.sizes.best_seller_steps.min(STEPS_MAX) / parts.max(1);
        let mut statements = Vec::with_capacity(steps + 2);
        let scan = |done: f64| (Axis::LineScan, RECENT + (1.0 - RECENT) * done);
        self.push(&mut statements, "best_seller_open", 0, &[scan(0.0)], backend);
        for step in 0..steps {
            // What is sold lately has nothing to do with what is looked at: items are drawn evenly.
            let item = (range.draw(random) * self.sizes.items as f64) as u64;
            let at = [
                scan(step as f64 / steps as f64),
                self.item(item),
                self.author(item),
            ];
            self.push(&mut statements, "best_seller_step", item, &at, backend);
        }
        self.push(
            &mut statements,
            "best_seller_close",
            0,
            &[scan(1.0 - 1e-9)],
            backend,
        );
        Query {
            complex: true,
            statements,
        }
    }

    fn point(&self, statement: &str, range: Range, random: &mut SplitMix64, backend: u32) -> Query {
        let row = self.items.row(range.draw(random));
        let at = (row as f64 + 0.5) / self.items.rows() as f64;
        let mut statements = Vec::new();
        self.push(&mut statements, statement, row, &[(Axis::Account, at)], backend);
        simple(statements)
    }

    fn item(&self, row: u64) -> (Axis, f64) {
        (Axis::Item, (row as f64 + 0.5) / self.items.rows() as f64)
    }

    fn author(&self, item: u64) -> (Axis, f64) {
        let authors = (self.sizes.items / 4).max(1);
        let author = permuted(item + 1, 7919, authors);
        (Axis::Author, (author as f64 + 0.5) / authors as f64)
    }

    /// Shares of the mix in hundredths of all, Best Seller's left out. The paper has 95 % reads; what reads there are is TPC-W's browsing mix in outline: items
    /// (Product Detail, Home, lists) before customers (Home) and orders.
    fn browse(&self, range: Range, random: &mut SplitMix64, backend: u32) -> Query {
        let part = range.draw(random);
        let (item, customer) = (self.items.row(part), self.customers.row(part));
        let at_customer = (
            Axis::Customer,
            (customer as f64 + 0.5) / self.customers.rows() as f64,
        );
        let mut statements = Vec::new();
        match random.below(89) {
            0..52 => {
                let at = [self.item(item), self.author(item)];
                self.push(&mut statements, "item", item, &at, backend);
            }
            52..78 => self.push(&mut statements, "customer", customer, &[at_customer], backend),
            78..84 => {
                let order = scatter(customer) % self.customers.rows();
                let at_order = (Axis::Order, (order as f64 + 0.5) / self.customers.rows() as f64);
                self.push(
                    &mut statements,
                    "last_order",
                    customer,
                    &[at_customer, at_order],
                    backend,
                );
            }
            _ => self.push(&mut statements, "item_update", item, &[self.item(item)], backend),
        }
        simple(statements)
    }

    /// New Order or Payment of a district.
    fn order(&self, range: Range, random: &mut SplitMix64, backend: u32) -> Query {
        let district = self.districts.row(range.draw(random));
        let (districts, warehouses) = (self.districts.rows() as f64, self.sizes.warehouses);
        let warehouse = district / DISTRICTS;
        let customer = random.below(CUSTOMERS);
        let at_warehouse = (Axis::Warehouse, (warehouse as f64 + 0.5) / warehouses as f64);
        let at_district = (Axis::District, (district as f64 + 0.5) / districts);
        let at_end = (Axis::DistrictEnd, (district as f64 + 1.0 - 1e-6) / districts);
        let in_district = (customer as f64 + 0.5) / CUSTOMERS as f64;
        let at_customer = (
            Axis::DistrictCustomer,
            (district as f64 + in_district) / districts,
        );
        let customer = district * CUSTOMERS + customer;
        let mut statements = Vec::new();
        let mut push = |name: &str, key: u64, at: At<'_>| self.push(&mut statements, name, key, at, backend);
        push("begin", 0, &[]);
        if random.below(2) == 0 {
            push("warehouse", warehouse, &[at_warehouse]);
            push("district_order", district, &[at_district]);
            push("ccustomer", customer, &[at_customer]);
            push("order_insert", district, &[at_end]);
            for _ in 0..LINES {
                let item = random.below(ITEMS);
                let part = (item as f64 + 0.5) / ITEMS as f64;
                let at_stock = (Axis::Stock, (warehouse as f64 + part) / warehouses as f64);
                push("citem", item, &[(Axis::CommonItem, part)]);
                push("stock_update", warehouse * ITEMS + item, &[at_stock]);
                push("line_insert", district, &[at_end]);
            }
        } else {
            push("warehouse_payment", warehouse, &[at_warehouse]);
            push("district_payment", district, &[at_district]);
            push("customer_payment", customer, &[at_customer]);
            push("history_insert", district, &[at_end]);
        }
        push("commit", 0, &[]);
        simple(statements)
    }

    /// A statement of this name: the execution drawn by its key, and the pages for where its keys lie. `None` if none was recorded.
    pub fn statement(&self, name: &str, key: u64, at: At<'_>, backend: u32) -> Option<Statement> {
        let (_, samples) = self.samples.iter().find(|(known, _)| known == name)?;
        let execution = samples[(scatter(key) % samples.len() as u64) as usize];
        let on = |axis: Axis| {
            let found = at.iter().find(|(known, _)| *known == axis);
            found.map_or(0.0, |&(_, at)| at)
        };
        Some(Statement {
            execution,
            blocks: self
                .layout
                .blocks(&self.recording.executions[execution], on, backend),
        })
    }

    fn push(&self, statements: &mut Vec<Statement>, name: &str, key: u64, at: At<'_>, backend: u32) {
        statements.extend(self.statement(name, key, at, backend));
    }
}

fn simple(statements: Vec<Statement>) -> Query {
    Query {
        complex: false,
        statements,
    }
}
