//! The process that is killed: TPC-C's terminals on a folder, each of which reports its commits on standard output.
//!
//! ```text
//!   ready
//!   C client N warehouse district order tag                  a new order
//!   C client P warehouse district amount tag                 a payment
//!   C client D warehouse tag order ... (ten, 0 for none)     a delivery
//!   S client                                                 all before of this client is on disk
//!   B name ts                                                a backup is complete
//! ```
//!
//! The tag is the transaction's time, which no other has and which its rows keep.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use corun_store::{Archive, Durability, Options, Store};
use corun_workloads::corun::CorunTpcc;
use corun_workloads::engine::{TpccClient, TpccEngine, TxError};
use corun_workloads::tpcc::{Input, Mix, Scale, Terminal};

/// Seed of the population.
pub const LOAD_SEED: u64 = 5;

/// What a run of the child is told, through its environment.
#[derive(Clone, Debug)]
pub struct Orders {
    pub folder: PathBuf,
    pub durable: bool,
    pub clients: usize,
    pub warehouses: i16,
    pub seed: u64,
    pub first_tag: i64,
    pub checkpoint_log_bytes: u64,
    /// Milliseconds between checkpoints that are asked for, beside those the store makes; 0 for none.
    pub checkpoint_every: u64,
    /// Where backups go.
    pub copies: PathBuf,
    /// Whether the log is kept there, too.
    pub archive: bool,
}

const NAMES: [&str; 10] = [
    "CORUN_KILL_FOLDER",
    "CORUN_KILL_DURABLE",
    "CORUN_KILL_CLIENTS",
    "CORUN_KILL_WAREHOUSES",
    "CORUN_KILL_SEED",
    "CORUN_KILL_FIRST_TAG",
    "CORUN_KILL_LOG_BYTES",
    "CORUN_KILL_CHECKPOINT_EVERY",
    "CORUN_KILL_COPIES",
    "CORUN_KILL_ARCHIVE",
];

impl Orders {
    pub fn to_environment(&self) -> Vec<(&'static str, String)> {
        let values = [
            self.folder.display().to_string(),
            u8::from(self.durable).to_string(),
            self.clients.to_string(),
            self.warehouses.to_string(),
            self.seed.to_string(),
            self.first_tag.to_string(),
            self.checkpoint_log_bytes.to_string(),
            self.checkpoint_every.to_string(),
            self.copies.display().to_string(),
            u8::from(self.archive).to_string(),
        ];
        NAMES.into_iter().zip(values).collect()
    }

    fn from_environment() -> Orders {
        let get = |at: usize| std::env::var(NAMES[at]).unwrap_or_else(|_| panic!("{} is not set", NAMES[at]));
        let number = |at: usize| -> i64 { get(at).parse().expect("a number") };
        Orders {
            folder: get(0).into(),
            durable: number(1) == 1,
            clients: number(2) as usize,
            warehouses: number(3) as i16,
            seed: number(4) as u64,
            first_tag: number(5),
            checkpoint_log_bytes: number(6) as u64,
            checkpoint_every: number(7) as u64,
            copies: get(8).into(),
            archive: number(9) == 1,
        }
    }
}

/// Options of all who open the folder. `archive`: where the log is kept.
pub fn options(durable: bool, checkpoint_log_bytes: u64, archive: Option<PathBuf>) -> Options {
    Options {
        archive: archive.map(|folder| Archive::open(folder).unwrap()),
        workers: 2,
        durability: if durable {
            Durability::Durable
        } else {
            Durability::Asynchronous
        },
        checkpoint_log_bytes,
        ..Options::default()
    }
}

/// The archive beside backups.
pub fn archive_of(copies: &Path) -> PathBuf {
    copies.join("archive")
}

/// Writes a line with one write, which a pipe takes whole. Whoever reads is the reason to live.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

/// Runs until it is killed.
pub fn run() {
    let orders = Orders::from_environment();
    let store = Store::open(
        &orders.folder,
        options(
            orders.durable,
            orders.checkpoint_log_bytes,
            orders.archive.then(|| archive_of(&orders.copies)),
        ),
    )
    .unwrap();
    let engine = CorunTpcc::new(store).unwrap();
    // The test harness has begun a line.
    say("\nready\n");
    let tags = AtomicI64::new(orders.first_tag);
    std::thread::scope(|scope| {
        for client in 0..orders.clients {
            let (engine, orders, tags) = (&engine, &orders, &tags);
            scope.spawn(move || terminal(engine, orders, client, tags));
        }
        scope.spawn(|| backups(engine.store(), &orders));
        if orders.checkpoint_every > 0 {
            loop {
                std::thread::sleep(Duration::from_millis(orders.checkpoint_every));
                engine.store().checkpoint().unwrap();
            }
        }
    });
}

/// Makes one backup after the other.
fn backups(store: &Store, orders: &Orders) {
    for number in 0_u64.. {
        let name = format!("{}-{number}", orders.seed);
        let done = store.backup(orders.copies.join(&name)).unwrap();
        say(&format!("B {name} {}\n", done.ts));
        std::thread::sleep(Duration::from_millis(30));
        if orders.archive && number % 3 == 0 {
            store.archive_log().unwrap();
        }
    }
}

fn terminal(engine: &CorunTpcc, orders: &Orders, number: usize, tags: &AtomicI64) {
    let scale = Scale::hundredth(orders.warehouses);
    let mut terminal = Terminal::new(scale, Mix::STANDARD, LOAD_SEED, orders.seed, number);
    let mut client = engine.client(number % 2).unwrap();
    for count in 1_u64.. {
        // Relaxed: it hands out numbers and guards nothing else.
        let tag = tags.fetch_add(1, Ordering::Relaxed);
        let input = terminal.next(tag);
        let line = loop {
            match transaction(&mut *client, &input, tag) {
                Ok(line) => break line,
                Err(TxError::Retry(_)) => {}
                Err(error) => panic!("{error}"),
            }
        };
        if let Some(line) = line {
            say(&format!("C {number} {line}\n"));
        }
        if !orders.durable && count.is_multiple_of(64) {
            engine.store().flush().unwrap();
            say(&format!("S {number}\n"));
        }
    }
}

/// Runs a transaction; the line of one that committed changes.
fn transaction(client: &mut dyn TpccClient, input: &Input, tag: i64) -> Result<Option<String>, TxError> {
    Ok(match input {
        Input::NewOrder(input) => {
            let answer = client.new_order(input)?;
            let line = format!("N {} {} {} {tag}", input.warehouse, input.district, answer.order);
            (!answer.rolled_back).then_some(line)
        }
        Input::Payment(input) => {
            client.payment(input)?;
            let (warehouse, district) = (input.warehouse, input.district);
            Some(format!("P {warehouse} {district} {} {tag}", input.amount))
        }
        Input::Delivery(input) => {
            let answer = client.delivery(input)?;
            let orders: Vec<String> = answer
                .orders
                .iter()
                .map(|order| order.unwrap_or(0).to_string())
                .collect();
            Some(format!("D {} {tag} {}", input.warehouse, orders.join(" ")))
        }
        Input::OrderStatus(input) => {
            client.order_status(input)?;
            None
        }
        Input::StockLevel(input) => {
            client.stock_level(input)?;
            None
        }
    })
}
