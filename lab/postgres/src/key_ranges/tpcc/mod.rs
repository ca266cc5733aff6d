//! TPC-C on PostgreSQL: an engine for the inputs, the driver and the checks of `corun-workloads`.
//!
//! Order of calls: [`Server::create`], `corun_workloads::tpcc::load`, [`Server::index`], then `corun_workloads::driver::run_tpcc` with a [`Server`] for each way
//! to reach it, and `corun_workloads::tpcc::check`.
//!
//! Every transaction begins with a statement whose key is the terminal's warehouse, which is also the key of its ranges. Statements are
//! prepared, and lines of an order are handed over together as arrays: about ten messages back and forth for a New Order. Deviations: money
//! is in cents and times in microseconds, as integers, and Delivery steps over orders that another one is delivering.

mod engine;
mod rows;
mod schema;
mod session;
mod statements;
mod transactions;

pub use engine::Server;

#[cfg(test)]
mod tests;
