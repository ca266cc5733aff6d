//! Event loops, pools, and the sessions between them: the proxy at work.
//!
//! Start at [`event_loop`]; a request's way is `entrance` (once), `serve`, `request`, `reply`. `connect` makes server connections,
//! `cancel` carries cancel requests, `limits` looks at the time, `ask` and `console` answer administrators, `run` starts it all; `simulated` starts
//! one event loop for tests.

mod ask;
mod balance;
mod batch;
mod bind;
mod cancel;
mod carry;
mod catalogues;
mod change;
mod client;
mod cohorts;
mod connect;
mod console;
mod console_rows;
mod copies;
mod desk;
mod dispatch;
mod entrance;
mod event_loop;
mod expect;
mod explain;
mod fleet;
mod free;
mod handover;
mod heavy_queue;
mod known_rows;
mod lifted;
mod limits;
mod look;
mod lost;
mod memory;
mod metrics;
mod os_users;
mod parts;
mod places;
mod pool;
mod pools;
mod prepared_look;
mod process_pool;
mod proof;
mod queries;
mod range_rows;
mod ranges;
mod reload;
mod repeats;
mod reply;
mod request;
mod resolve;
mod run;
mod secrets;
mod serve;
mod server;
mod shapes;
mod shared;
mod simple;
mod simulated;
mod start;
mod state;
mod statistics;
mod stats_log;
mod stopped;
mod tasks;
mod transport;
mod wish;
mod world;

pub use run::{Pooler, StartError};
pub use simulated::{Census, Simulated};
pub use statistics::Totals;
pub use world::{World, WorldError};
