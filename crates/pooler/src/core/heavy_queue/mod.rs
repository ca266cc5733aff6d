//! The queue of heavy queries: which of them run at a time, beside whom, on which core, and in which form (paper 002, sections 5 and 6).
//!
//! ```text
//!  client, a Query or P B E S ─► takes long? (`heavy`, by shape) ── no ─► as ever
//!            │ yes
//!  plan known? (`known`, by text and values) ── no ─► a server as ever, and there the question (`question`): EXPLAIN, alternatives
//!            │ yes                                        │ then the queue is asked; the server is given back if it says wait
//!  queue of the machine (`queue_state`, corun_model::cache::coschedule) ─► Turn::Waits, without a server
//!            │ start: a message to the client's loop
//!  a server ─► its core and class (`place`), its workers after it (`follow`, `lend`) ─► [BEGIN; SET LOCAL ...] the client's messages [COMMIT] (`form`) ─► finish
//! ```
//!
//! A place in the queue, waiting or running, is a [`Ticket`]. Whoever drops it leaves the queue, so whatever happens to a client, a
//! server or an event loop, the scheduler hears of it once: a client that waits has it in its [`Turn`], a server that runs the query has it
//! itself.
//!
//! All of it is a hint for speed. What is not understood, cannot be asked, or finds the queue full runs as it would have run
//! without.
//!
//! What it is not: the decisions, which are `corun_model::cache::coschedule`, `corun_model::cache::plan_choice`, `corun_model::cache::slowdown`; reading plans, which is
//! [`estimate`]; the core pools of ranges of keys, which are `super::dispatch`.

mod auto;
mod estimate;
mod explained;
mod follow;
mod form;
mod heavy;
mod hint;
mod known;
mod lend;
mod machine_of;
mod place;
mod question;
mod queue;
mod rows;
mod ticket;
mod turn;

pub(super) use heavy::View;
pub(super) use machine_of::Machine;
pub(super) use question::Plan;
pub(super) use queue::{HeavyQueue, Setup};
pub(super) use ticket::Ticket;
pub(super) use turn::Turn;
