//! The tracer on small programs, compiled here by the system's C compiler.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod errors;
mod fixture;
mod names;
mod operations;
mod recorded;
mod unharmed;
