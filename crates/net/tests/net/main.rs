//! Reactors over the kernel and simulated; processes of others.

mod process;
mod reactor;
mod skipped;
