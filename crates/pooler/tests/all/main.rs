//! The pooler against real PostgreSQL servers, against its own simulation of everything around it, and its parts one by one.
//!
//! One PostgreSQL serves all tests that do no harm to it, each in a database of its own. Beside this program stands `memory`.

mod admin;
mod admin_console;
mod auth;
mod auto_prepare;
mod common;
mod config;
mod config_import;
mod console;
mod differential;
#[path = "../../../net/tests/exposition/mod.rs"]
mod exposition;
mod faults;
mod heavy_queue;
mod key_ranges;
mod keys;
mod learn;
mod login;
mod packaging;
mod peers;
mod plans;
mod preflight;
mod replicas;
mod replicas_proxy;
mod session_mode;
mod simulated;
mod skipped;
mod split;
mod transaction_mode;
mod understand;
mod understand_keys;
mod understand_rough;
mod wire_values;
