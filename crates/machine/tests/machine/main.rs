//! Discovery and measuring on machines that exist only as files and models.

mod campaign;
mod counters;
mod fixture;
mod partition;
mod process;
mod resctrl;
mod topology;
