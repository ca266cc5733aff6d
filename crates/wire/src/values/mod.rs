//! Values as PostgreSQL writes and reads them, in its text and binary formats.
//!
//! Rows are written with [`Row`] and the functions of [`write`], one for each type, into a buffer that is used again; nothing else is
//! allocated. Parameters are read with [`Value::read`]. Dates are in ISO style, intervals in PostgreSQL's own, `bytea` in hexadecimal
//! digits, floats in the fewest digits that read back as the same number: what a server says it does with `DateStyle = ISO`,
//! `IntervalStyle = postgres`, `bytea_output = hex` and `extra_float_digits = 1`, PostgreSQL's defaults.
//!
//! Not here: Arrow, which the SQL server maps to these, and whether JSON is JSON, which the engine knows. The encodings are a few bytes
//! each; `postgres-types` has most of the binary ones but no `numeric`, `interval` or text, and would bring its own types for each.

mod array;
mod calendar;
mod copy;
mod float;
mod inet;
mod interval;
mod kind;
mod numeric;
mod read_binary;
mod read_moments;
mod read_text;
mod row;
mod value;
pub mod write;
mod zone;

pub use array::{Array, Dimension};
pub use calendar::{Date, Time, Timestamp};
pub use copy::{CopyFormat, CopyIn, CopyOptions, CopyOut};
pub use inet::normal as normal_inet;
pub use interval::Interval;
pub use kind::{Format, Kind, Type};
pub use numeric::{Decimal, Numeric};
pub use row::Row;
pub use value::Value;
pub use zone::{FixedOffset, TimeZone};

#[cfg(test)]
mod tests;
