//! Clients as user-level threads: the same index fetches by one client alone, by as many clients as operating-system threads, and
//! by teams that pass the core on while a cache line is on its way.
//!
//! `cargo run --release -p corun-store --example teams [rows [bytes of a row [seconds of a run]]]`; 8000000 rows of 500 bytes, one
//! second by default. One core for all, as for one worker.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use corun_exec::teams::{Scheduler, TeamOptions};
use corun_store::{Durability, Index, Options, Store, Table, TableDef, Type};

/// Clients of the runs.
const CLIENTS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Rows of a transaction that loads.
const BATCH: u64 = 1000;

fn load(rows: u64, bytes: u32) -> Result<(Store, Table), corun_store::StoreError> {
    let store = Store::in_memory(Options {
        durability: Durability::Asynchronous,
        ..Options::default()
    })?;
    let definition = TableDef::new("usertable")
        .column("id", Type::I64)
        .column("value", Type::Bytes { max: bytes })
        .primary_key(&["id"]);
    let table = store.create_table(definition)?;
    let mut session = store.session_here()?;
    let value = vec![7_u8; bytes as usize];
    let mut row = table.new_row();
    for first in (0..rows).step_by(BATCH as usize) {
        let transaction = session.begin()?;
        for id in first..rows.min(first + BATCH) {
            row.set(0, id as i64)?;
            row.set(1, &value[..])?;
            transaction.insert(&table, &row)?;
        }
        transaction.commit()?;
    }
    Ok((store, table))
}

/// What all clients of one run share.
struct Run<'a> {
    store: &'a Store,
    index: &'a Index,
    rows: u64,
    stop: AtomicBool,
    fetched: AtomicU64,
}

impl Run<'_> {
    /// One client: transactions of one fetch each, until it is told to stop.
    fn client(&self, number: u64, until: Instant) -> Result<(), corun_store::StoreError> {
        let mut session = self.store.session_here()?;
        let mut random = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut fetched = 0;
        while !self.stop.load(Ordering::Relaxed) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let id = (random % self.rows) as i64;
            let transaction = session.begin()?;
            let found = transaction.fetch(self.index, &[id.into()])?;
            let row = found.expect("every id is there").row;
            assert!(row.int(0) == id && row.bytes(1)[0] == 7, "another row");
            transaction.commit()?;
            fetched += 1;
            if fetched % 64 == 0 && Instant::now() >= until {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        self.fetched.fetch_add(fetched, Ordering::Relaxed);
        Ok(())
    }
}

/// How clients run.
#[derive(Clone, Copy)]
enum Clients {
    Threads(usize),
    Members(usize),
}

/// Nanoseconds of one transaction.
fn measure(
    table: &Table,
    store: &Store,
    rows: u64,
    clients: Clients,
    time: Duration,
) -> Result<f64, Box<dyn std::error::Error>> {
    let run = Run {
        store,
        index: &table.primary(),
        rows,
        stop: AtomicBool::new(false),
        fetched: AtomicU64::new(0),
    };
    let begin = Instant::now();
    let until = begin + time;
    match clients {
        Clients::Threads(count) => std::thread::scope(|scope| {
            let threads: Vec<_> = (0..count)
                .map(|client| {
                    let run = &run;
                    scope.spawn(move || run.client(client as u64, until))
                })
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().expect("clients do not panic"))
        })?,
        Clients::Members(count) => {
            let mut scheduler = Scheduler::new(TeamOptions {
                team_size_max: count,
                ..TeamOptions::default()
            })?;
            let run = &run;
            let ended = scheduler.scope(|scope| {
                for client in 0..count {
                    scope.spawn(format!("client {client}"), move || {
                        run.client(client as u64, until)
                    });
                }
            });
            for client in ended {
                client.map_err(|lost| format!("{lost:?}"))??;
            }
        }
    }
    Ok(begin.elapsed().as_nanos() as f64 / run.fetched.load(Ordering::Relaxed) as f64)
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<f64>());
    let mut number = |default: f64| numbers.next().unwrap_or(Ok(default));
    let (rows, bytes, seconds) = (number(8e6)? as u64, number(500.0)? as u32, number(1.0)?);
    let time = Duration::from_secs_f64(seconds);
    let (store, table) = load(rows, bytes)?;
    println!(
        "{rows} rows, {} MiB with their index",
        (store.stats().row_bytes + table.primary().bytes()) >> 20
    );
    println!("clients   threads     team   serial/team   (nanoseconds of a transaction)");
    for clients in CLIENTS {
        // Beside each other, so that a busy machine is busy for all.
        let serial = measure(&table, &store, rows, Clients::Threads(1), time)?;
        let threads = measure(&table, &store, rows, Clients::Threads(clients), time)?;
        let team = measure(&table, &store, rows, Clients::Members(clients), time)?;
        println!("{clients:7} {threads:9.0} {team:8.0} {:13.2}", serial / team);
    }
    Ok(())
}
