//! Clients that take turns on few servers in transaction mode find everything as they left it, and nothing of each other's.
//!
//! Every test also holds for clients connected directly (`CORUN_TEST_TARGET=direct`), which makes it a statement about PostgreSQL.

mod auto_prepare;
mod encodings;
mod leaks;
mod listen;
mod parameterize;
mod pins;
mod prepared;
mod prepared_many;
mod prepared_pipelines;
mod settings;
mod sharing;
mod stale;
