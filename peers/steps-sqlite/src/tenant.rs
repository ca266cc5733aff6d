//! Tenants: each has a database of its own with the same tables and other rows; what they ask, and a naive oracle of the answers.

use crate::sqlite::{Connection, SqliteError, Statement, Step};

/// Orders of a customer, and so rows of a join.
const ORDERS: i64 = 3;
/// Bytes of stack SQLite may need for one of our requests, with room. Unmeasured.
const STACK_BYTES: usize = 64 << 10;

const UPDATE: &str = "UPDATE customer SET balance = balance + ?2 WHERE id = ?1";
const JOIN: &str = "SELECT c.name, o.id, i.price * o.count FROM customer c JOIN purchase o ON o.customer = c.id \
    JOIN item i ON i.id = o.item WHERE c.id = ?1 ORDER BY i.price * o.count DESC, o.id";

/// What a client asks of its tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Adds to one customer's balance, found by key; a transaction of its own.
    Update {
        /// Whose.
        customer: i64,
        /// How much.
        amount: i64,
    },
    /// One customer's three orders with their items, dearest first: three tables, sorted; prepared before.
    Join {
        /// Whose.
        customer: i64,
    },
    /// The same, its statement compiled for this one run.
    PrepareAndRun {
        /// Whose.
        customer: i64,
    },
}

/// The kinds of requests, as operations of teams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Request::Update`].
    Update,
    /// [`Request::Join`].
    Join,
    /// [`Request::PrepareAndRun`].
    PrepareAndRun,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Update, Self::Join, Self::PrepareAndRun];

    /// The name on the command line and in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Join => "join",
            Self::PrepareAndRun => "prepare-and-run",
        }
    }

    /// The `number`-th request of tenant `tenant`: the same whenever it is asked.
    pub fn request(self, tenant: u32, number: u32, customers: i64) -> Request {
        let word = mix(u64::from(tenant) << 32 | u64::from(number));
        let customer = (word % customers.max(1) as u64) as i64;
        match self {
            Self::Update => Request::Update {
                customer,
                amount: (word >> 40) as i64 % 1000 - 300,
            },
            Self::Join => Request::Join { customer },
            Self::PrepareAndRun => Request::PrepareAndRun { customer },
        }
    }
}

impl Request {
    /// Which kind it is.
    pub fn kind(self) -> Kind {
        match self {
            Self::Update { .. } => Kind::Update,
            Self::Join { .. } => Kind::Join,
            Self::PrepareAndRun { .. } => Kind::PrepareAndRun,
        }
    }
}

/// What came back, folded: for joins all columns of all rows in their order, for updates the rows changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// How many rows.
    pub rows: i64,
    /// A checksum of their contents and order.
    pub checksum: u64,
}

impl Answer {
    #[inline]
    fn row(&mut self, name: &[u8], order: i64, price: i64) {
        self.rows += 1;
        for &byte in name {
            self.fold(u64::from(byte));
        }
        self.fold(order as u64);
        self.fold(price as u64);
    }

    #[inline]
    fn fold(&mut self, word: u64) {
        self.checksum = (self.checksum ^ word)
            .wrapping_mul(0x0000_0100_0000_01B3)
            .rotate_left(7);
    }
}

/// A word that looks random.
fn mix(seed: u64) -> u64 {
    let mut word = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// The rows of one tenant as a formula, and its balances: what SQLite must answer.
#[derive(Clone, Debug)]
pub struct Oracle {
    tenant: u32,
    balances: Vec<i64>,
}

impl Oracle {
    /// The rows as [`Tenant::open`] makes them.
    pub fn new(tenant: u32, customers: i64) -> Self {
        let balances = (0..customers)
            .map(|customer| word(tenant, 1, customer) as i64 % 10_000)
            .collect();
        Self { tenant, balances }
    }

    fn customers(&self) -> i64 {
        self.balances.len() as i64
    }

    fn name(&self, customer: i64) -> String {
        format!(
            "customer {:x} of {}",
            word(self.tenant, 2, customer) % 0x1000_0000,
            self.tenant
        )
    }

    fn price(&self, item: i64) -> i64 {
        (word(self.tenant, 3, item) % 900) as i64 + 100
    }

    /// Customer, item and count of an order.
    fn order(&self, order: i64) -> (i64, i64, i64) {
        let word = word(self.tenant, 4, order);
        (
            order % self.customers(),
            (word % items(self.customers()) as u64) as i64,
            (word >> 32) as i64 % 9 + 1,
        )
    }

    /// The answer, and what it changes.
    pub fn run(&mut self, request: Request) -> Answer {
        let mut answer = Answer::default();
        match request {
            Request::Update { customer, amount } => {
                if let Some(balance) = self.balances.get_mut(customer as usize) {
                    *balance += amount;
                    answer.rows = 1;
                }
            }
            Request::Join { customer } | Request::PrepareAndRun { customer } => {
                let orders = (0..self.customers() * ORDERS).filter(|&order| self.order(order).0 == customer);
                let mut rows: Vec<(i64, i64)> = orders
                    .map(|order| {
                        let (_, item, count) = self.order(order);
                        (-self.price(item) * count, order)
                    })
                    .collect();
                rows.sort_unstable();
                for (price, order) in rows {
                    answer.row(self.name(customer).as_bytes(), order, -price);
                }
            }
        }
        answer
    }

    /// The balances, by customer.
    pub fn balances(&self) -> &[i64] {
        &self.balances
    }
}

fn word(tenant: u32, column: u64, row: i64) -> u64 {
    // One bit less, so that it is positive as a signed number too.
    mix(u64::from(tenant) << 40 ^ column << 36 ^ row as u64) >> 1
}

fn items(customers: i64) -> i64 {
    customers / 2 + 1
}

/// One tenant: a database of its own and the statements its client keeps.
#[derive(Debug)]
pub struct Tenant {
    connection: Connection,
    update: Statement,
    join: Statement,
}

impl Tenant {
    /// Its tables with `customers` customers, three orders each, and half as many items.
    ///
    /// # Errors
    /// SQLite's.
    pub fn open(tenant: u32, customers: i64) -> Result<Self, SqliteError> {
        let connection = Connection::memory()?;
        connection.execute(
            "CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT NOT NULL, balance INTEGER NOT NULL);
             CREATE TABLE purchase(id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, item INTEGER NOT NULL, count INTEGER NOT NULL);
             CREATE TABLE item(id INTEGER PRIMARY KEY, price INTEGER NOT NULL);
             BEGIN",
        )?;
        let oracle = Oracle::new(tenant, customers);
        for customer in 0..customers {
            let (name, balance) = (oracle.name(customer), oracle.balances[customer as usize]);
            connection.execute(&format!(
                "INSERT INTO customer VALUES({customer}, '{name}', {balance})"
            ))?;
        }
        let mut insert = connection.prepare("INSERT INTO purchase VALUES(?1, ?2, ?3, ?4)")?;
        for order in 0..customers * ORDERS {
            let (customer, item, count) = oracle.order(order);
            insert.bind(&[order, customer, item, count])?;
            insert.step()?;
            insert.reset();
        }
        let mut insert = connection.prepare("INSERT INTO item VALUES(?1, ?2)")?;
        for item in 0..items(customers) {
            insert.bind(&[item, oracle.price(item)])?;
            insert.step()?;
            insert.reset();
        }
        drop(insert);
        connection.execute("COMMIT; CREATE INDEX purchase_customer ON purchase(customer)")?;
        let (update, join) = (connection.prepare(UPDATE)?, connection.prepare(JOIN)?);
        Ok(Self {
            connection,
            update,
            join,
        })
    }

    /// Runs one request.
    ///
    /// # Errors
    /// SQLite's; [`SqliteError::Stack`] before SQLite is entered where the member's stack might not do.
    pub fn run(&mut self, request: Request) -> Result<Answer, SqliteError> {
        if let Some(left) = corun_exec::teams::stack_left().filter(|left| *left < STACK_BYTES) {
            return Err(SqliteError::Stack {
                left,
                needed: STACK_BYTES,
            });
        }
        match request {
            Request::Update { customer, amount } => {
                self.update.bind(&[customer, amount])?;
                let stepped = self.update.step();
                self.update.reset();
                stepped?;
                Ok(Answer {
                    rows: self.connection.changes(),
                    checksum: 0,
                })
            }
            Request::Join { customer } => joined(&mut self.join, customer),
            Request::PrepareAndRun { customer } => joined(&mut self.connection.prepare(JOIN)?, customer),
        }
    }

    /// The balances, by customer.
    ///
    /// # Errors
    /// SQLite's.
    pub fn balances(&self) -> Result<Vec<i64>, SqliteError> {
        let mut all = self
            .connection
            .prepare("SELECT balance FROM customer ORDER BY id")?;
        let mut balances = Vec::new();
        while all.step()? == Step::Row {
            balances.push(all.integer(0));
        }
        Ok(balances)
    }

    /// Its database, for other statements.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

fn joined(join: &mut Statement, customer: i64) -> Result<Answer, SqliteError> {
    let mut answer = Answer::default();
    join.bind(&[customer])?;
    let mut stepped = join.step();
    while stepped == Ok(Step::Row) {
        let (order, price) = (join.integer(1), join.integer(2));
        answer.row(join.text(0), order, price);
        stepped = join.step();
    }
    join.reset();
    stepped.map(|_| answer)
}
