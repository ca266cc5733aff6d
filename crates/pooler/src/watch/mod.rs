//! A running proxy seen from outside, through its console: what `corun top` shows.
//!
//! Order of calls: an [`Address`] is made from a text or from the proxy's own configuration, [`Console::connect`] logs in there,
//! [`Console::sample`] asks for the tables once, and [`Rates::between`] two samples says how fast the counters went. All but
//! [`Console`] is pure.
//!
//! Rows are the console's own structs ([`crate::admin`]), read back by their column names: a proxy that is a little older or newer
//! is understood as far as names are the same.

mod address;
mod console;
mod rates;
mod sample;

pub use address::{Address, AddressError};
pub use console::{Console, WatchError};
pub use rates::{CohortRate, CoreRate, RangeRate, Rates, Speed, SplitRate};
pub use sample::{Sample, Totals};
