//! The workloads over the naive store and over corun's, the bytes of TPC-C's rows, and TPC-C in a process that is killed.

mod corun;
mod kill;
mod naive;
mod tpcc_rows;
