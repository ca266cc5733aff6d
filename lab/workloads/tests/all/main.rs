//! The workloads over the naive store and over corun's, and TPC-C in a process that is killed.

mod corun;
mod kill;
mod naive;
