//! TPC-W's database as PostgreSQL has it, and what the web interactions of its browsing mix ask of it.
//!
//! Order of calls: [`Scale`] says how many rows there are, [`load`] makes the tables of [`schema`] and fills them from [`population`],
//! [`scripts::write`] writes a script of `pgbench` for each of the 14 interactions, [`answers`] compares what each statement gives
//! through a proxy with what it gives directly, [`purchases`] looks at what the purchases left.
//!
//! Deviations from the specification: no web server, no think time and no sessions (customers and items are drawn evenly for each
//! interaction), a shopping cart is kept by its browser and not in a table, as in the paper's eight tables, user names are decimal, countries
//! have numbers for names, prices are not added up in orders of the initial population, and there are no foreign keys to check.

pub mod answers;
pub mod interactions;
pub mod population;
pub mod purchases;
mod scale;
pub mod schema;
pub mod scripts;
pub mod words;

pub use scale::{PAPER, Scale};

use crate::fixture::address::Address;
use crate::fixture::client::Client;
use crate::fixture::load::copy_parts;
use corun_model::progress::Progress;
use lab_core::error::BenchError;
use population::{Part, parts};

/// What the population is drawn from.
pub const SEED: u64 = 20_140_901;

/// Makes the tables of a database and fills them, with indexes and statistics.
pub fn load(address: &Address, scale: Scale, progress: &dyn Progress) -> Result<(), BenchError> {
    let mut client = Client::connect(address, super::PATIENCE)?;
    client.run_all(schema::TABLES.map(|table| table.create()))?;
    let parts = parts(scale);
    let lines = |part: &Part| (part.table.name, part.lines(scale, SEED));
    let what = "key-ranges: filling TPC-W's tables";
    copy_parts(what, address, super::PATIENCE, &parts, lines, progress)?;
    client.run_all(schema::after_load(scale))
}
