//! Discovery and measuring on machines that exist only as files and models.

mod activity;
mod campaign;
mod counters;
mod fixture;
mod monitor;
mod partition;
mod process;
mod resctrl;
mod sampling;
mod smt;
mod topology;
