//! The console and the metrics: what people and their tools ask a running proxy.
//!
//! Order of calls: [`Command::parse`] reads a line of the console; event loops fill the structs of [`rows`]; [`Table`] turns
//! them into messages, [`prometheus`] into the text a scraper reads. Not here: doing what a command says, and the sockets.

mod command;
mod config_rows;
mod histogram;
mod own_rows;
mod prometheus;
mod rows;
mod stats;
mod table;

pub use command::{Command, ConsoleError, SHOWS, Show, Shutdown, help};
pub use config_rows::{config_rows, database_rows, user_rows};
pub use histogram::Histogram;
pub use own_rows::{CohortRow, CoreRow, HostRow, PreparedRow};
pub use prometheus::{CONTENT_TYPE, Latencies, Snapshot, prometheus};
pub use rows::{
    ClientRow, ConfigRow, DatabaseRow, DnsHostRow, DnsZoneRow, FdRow, ListRow, MemoryRow, PeerPoolRow,
    PeerRow, PoolRow, ServerRow, SocketRow, StateRow, UserRow, VersionRow, timestamp,
};
pub use stats::{AveragesRow, Stats, StatsRow, TotalRow, TotalsRow, overall};
pub use table::{Cell, Row, Table};
