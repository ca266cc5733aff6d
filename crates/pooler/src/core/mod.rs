//! Event loops, pools, and the sessions between them: the proxy at work.
//!
//! ```text
//!  client ─► classify ─► route ─► pool ─► server ─► reply ─► client       a query's way
//!     listen ─► client                                                    notifications
//!     auto_prepare    ranges, heavy_queue, parts, explain                 what may change it (`stages`)
//!  console                                                                what administrators see and order
//! ```
//!
//! [`event_loop`] drives it all, event by event; `shared` is what the loops have in common, `files` the configuration, `limits` and `memory` look
//! at time and bytes. `run` starts everything, `shutdown` ends it; `peers` are other processes behind the same address; `simulated` starts event loops for tests.

mod auto_prepare;
mod classify;
mod client;
mod config_files;
mod console;
mod event_loop;
mod explain;
mod heavy_queue;
mod limits;
mod listen;
mod memory;
mod parts;
mod peers;
mod pool;
mod ranges;
mod reload;
mod reply;
mod route;
mod run;
mod server;
mod shared;
mod shutdown;
mod simulated;
mod stages;

pub use config_files::{ConfigFiles, ConfigFilesError};
pub use run::{Pooler, StartError};
pub use simulated::{Census, Simulated};
