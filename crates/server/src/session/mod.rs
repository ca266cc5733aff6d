//! One client's SQL: statements, settings, transactions, cursors, and rows in PostgreSQL's formats. No sockets.
//!
//! ```text
//!  text ─► split (statement) ─► prepare (plan: parse, gate, plan, gate again) ─► bind ─► run ─► Sink
//!                                                                                        │
//!                    queries of tables: the coordinator; the rest: the session ◄─────────┘
//! ```
//!
//! Order of calls: [`Engine::start`] once, [`Engine::session`] for each client. Of a simple query [`ClientSession::simple`] does everything;
//! with the extended protocol [`ClientSession::one`], [`ClientSession::prepare`], [`ClientSession::bind`], [`ClientSession::run`] and, at each
//! Sync, [`ClientSession::end_pipeline`]. All futures are polled on [`Engine::runtime`]. After each call [`ClientSession::take_effects`] says
//! what else the client has to hear. What it is not: a place for logins or rights; [`Rights`] answers what a user may do.

mod backup;
mod bounded;
mod cancel;
mod client;
mod commands;
mod copying;
mod engine;
mod error;
mod one_row;
mod owner;
mod parameters;
mod plan;
mod portal;
mod settings;
mod share;
mod shared;
mod statement;
mod store_error;
mod store_transaction;
mod typing;
mod values;
mod writing;
mod zone;

pub use cancel::CancelHandle;
pub use client::{ClientSession, Effect, Identity, Prepared};
pub use copying::{CopyDone, CopyWanted};
pub use engine::{Engine, EngineConfig, FullRights, MakeEngine, Rights, ServerError};
pub(crate) use error::refusal as refusal_of_datafusion;
pub(crate) use parameters::{SCALE as NUMERIC_SCALE, read_scalar};
pub use portal::{Gone, Portal, Ran, Sink};
pub use statement::Parsed;
pub(crate) use statement::byte_of;
pub(crate) use store_error::refusal_of;
pub(crate) use store_transaction::{Isolation, StoreFailure, StoreTransaction};
#[cfg(test)]
pub(crate) use typing::function_of;
pub(crate) use typing::{operator_of, planned_moments};
pub(crate) use values::{Cells, as_told, cells_as, columns_of, padded, plain as plain_columns};
pub(crate) use writing::names;
pub(crate) use zone::Zone;
