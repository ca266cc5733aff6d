//! Indexes over in-memory tables, and joins through them.
//!
//! ```text
//!   table     rows by number, indexes         source   its scan
//!   tree      codes ──▶ row numbers           codes    columns ──▶ codes
//!   choice    may a join use an index?        access   what lies between join and scan
//!   join      the operator                    stream   one of its streams
//!   statement CREATE INDEX, DROP INDEX    definitions  who changes tables, and when
//! ```
//!
//! Order of calls: [`IndexedTable::try_new`] (or `CREATE INDEX`), then plan joins over it; [`crate::rule`] asks [`choose`].
//! It is not a storage engine: indexed tables are read-only.

mod access;
mod choice;
mod codes;
pub(crate) mod definitions;
mod join;
mod source;
pub mod statement;
mod stream;
mod table;
mod tree;

pub use choice::choose;
pub use join::{IndexJoinExec, IndexedSide};
pub use source::IndexedSource;
pub use table::IndexedTable;
pub use tree::Lookup;
