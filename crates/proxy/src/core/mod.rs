//! Event loops, pools, and the sessions between them: the proxy at work.
//!
//! Start at [`event_loop`]; a request's way is `entrance` (once), `serve`, `request`, `reply`. `connect` makes server connections,
//! `cancel` carries cancel requests, `limits` looks at the time, `ask` and `console` answer administrators, `run` starts it all; `simulated` starts
//! one event loop for tests.

mod ask;
mod batch;
mod bind;
mod cancel;
mod client;
mod cohorts;
mod connect;
mod console;
mod console_rows;
mod desk;
mod entrance;
mod event_loop;
mod expect;
mod fleet;
mod limits;
mod metrics;
mod pool;
mod repeats;
mod reply;
mod request;
mod resolve;
mod run;
mod secrets;
mod serve;
mod server;
mod shared;
mod simulated;
mod start;
mod statistics;
mod stopped;
mod tasks;
mod transport;
mod wish;
mod world;

pub use run::{Proxy, StartError};
pub use simulated::{Census, Simulated};
pub use statistics::Totals;
pub use world::{World, WorldError};
