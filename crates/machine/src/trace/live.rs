//! Traces a program that runs, by ptrace: x86-64 Linux only.
//!
//! [`tracer`] decides when what is traced, [`step`] follows one operation, [`process`] looks after the program's threads, and
//! [`ptrace`] holds the system calls.

mod breakpoints;
mod decode;
mod image;
mod process;
mod ptrace;
mod refusal;
mod step;
mod tracer;

pub use tracer::Tracer;
