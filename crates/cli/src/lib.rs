//! What the command lines of corun's programs have in common: arguments, errors in three parts, output, progress bars, sibling programs.
//!
//! Everything a program prints goes through [`out`]; every error becomes lines and an exit code in [`failure`]. [`siblings`] finds the
//! program that has a command this one has not; [`documents`] makes man pages and completions. Not here: any other command.

pub mod arguments;
pub mod documents;
pub mod failure;
mod log_lines;
pub mod number;
pub mod out;
pub mod plain;
pub mod progress;
pub mod siblings;

// The Rust block of this crate's README runs as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
