//! Discovery and measuring on machines that exist only as files and models.

mod campaign;
mod counters;
mod fixture;
mod partition;
mod resctrl;
mod topology;
