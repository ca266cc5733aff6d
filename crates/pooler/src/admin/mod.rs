//! The console and the metrics: what people and their tools ask a running proxy.
//!
//! Order of calls: a [`Console`] takes the messages of a client that has logged in and gives out [`Command`]s to run; event
//! loops fill the structs of rows, a [`Table`] of them is the console's [`Answer`]. [`prometheus`] makes the text of a scrape
//! out of the same rows; `corun_net::metrics` has its format, and as much HTTP as a scraper speaks. Not here: doing what a command
//! says, and the sockets.

mod command;
mod config_rows;
mod console;
mod own_rows;
mod prometheus;
mod rows;
mod stats;
mod table;

pub(crate) use command::CLIENT_IDS;
pub use command::{Command, ConsoleError, SHOWS, Show, Shutdown, help};
pub use config_rows::{config_rows, database_rows, user_row};
pub use console::{Answer, Console, Step, greeting};
pub use own_rows::{
    CohortRow, CoreRow, HostRow, KeyRow, PreparedRow, QueryRow, QueueRow, RangeRow, SlowdownRow, SplitRow,
};
pub use prometheus::{HeavyQueueTotals, Latencies, Snapshot, prometheus};
pub use rows::{
    ClientRow, ConfigRow, DatabaseRow, DnsHostRow, DnsZoneRow, ListRow, MemoryRow, PeerPoolRow, PeerRow,
    PoolRow, ServerRow, SocketRow, StateRow, UserRow, VersionRow, timestamp,
};
pub use stats::{AveragesRow, Stats, StatsRow, TotalRow, TotalsRow, overall};
pub use table::{Cell, Row, Table};
