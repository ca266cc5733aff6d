//! TPC-W's database as PostgreSQL has it, and what the web interactions of its browsing mix ask of it.
//!
//! Order of calls: [`Scale`] says how many rows there are, [`load`] makes the tables of [`schema`] and fills them from [`population`],
//! [`interactions::write`] writes a script of `pgbench` for each of the 14 interactions, [`answers`] compares what each statement gives
//! through a proxy with what it gives directly, [`books`] looks at what the purchases left.
//!
//! Deviations from the specification: no web server, no think time and no sessions (customers and items are drawn evenly for each
//! interaction), a shopping cart is kept by its browser and not in a table, as in the paper's eight tables, user names are decimal, countries
//! have numbers for names, prices are not added up in orders of the initial population, and there are no foreign keys to check.

pub mod answers;
pub mod books;
pub mod interactions;
pub mod population;
mod scale;
pub mod schema;
pub mod statements;
pub mod words;

pub use scale::{PAPER, Scale};

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::pooler::address::Address;
use crate::pooler::client::Client;
use corun_model::progress::Progress;
use lab_core::error::BenchError;
use population::parts;

/// What the population is drawn from.
pub const SEED: u64 = 20_140_901;
/// Connections that load at once.
const LOADERS: usize = 2;

/// Makes the tables of a database and fills them, with indexes and statistics.
///
/// # Errors
/// When the server refuses.
pub fn load(address: &Address, scale: Scale, progress: &dyn Progress) -> Result<(), BenchError> {
    let connect = || Client::connect(address, super::PATIENCE);
    let mut client = connect()?;
    for table in schema::TABLES {
        client.run(&table.create())?;
    }
    let parts = parts(scale);
    progress.begin("key-ranges: filling TPC-W's tables", parts.len() as u64);
    let next = AtomicUsize::new(0);
    let results: Vec<Result<(), BenchError>> = std::thread::scope(|scope| {
        let loader = || -> Result<(), BenchError> {
            let mut client = connect()?;
            loop {
                // Relaxed: the counter hands out numbers and guards nothing else.
                let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) else {
                    return Ok(());
                };
                let lines = part.lines(scale, SEED);
                client.copy_in(&format!("copy {} from stdin", part.table.name), &lines)?;
            }
        };
        let loaders: Vec<_> = (0..LOADERS).map(|_| scope.spawn(loader)).collect();
        let join = |loader: std::thread::ScopedJoinHandle<'_, _>| match loader.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        loaders.into_iter().map(join).collect()
    });
    progress.end();
    results.into_iter().collect::<Result<Vec<()>, _>>()?;
    for statement in schema::after_load(scale) {
        client.run(&statement)?;
    }
    Ok(())
}
