//! Answers computed the slow, obvious way, without the engine: what the fast paths are held against at tiny scale.
//!
//! [`Database::read`] turns a generated SSB data set into plain structs; [`ssb_answer`] answers one of the 13 queries
//! with nested loops over them, row by row, in sorted text form (see [`crate::answers::sorted_rows`]). It shares
//! neither code nor plan with the SQL engine, and uses no index or hash table to find a partner row: only the group
//! sums live in an ordered map. Time grows with fact rows times dimension rows, so keep the data small.

mod database;
mod ssb;

pub use database::{Customer, Database, Day, Lineorder, Part, Supplier};
pub use ssb::ssb_answer;
