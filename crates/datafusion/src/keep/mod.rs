//! Columns of Parquet files, decoded once and kept for the statements that read them next.
//!
//! ```text
//!   a row group:   column      read before?
//!                  date        kept       ┐
//!                  customer    kept       ├─ batches of this row group
//!                  price       no  ─ decoded, handed on and kept ┘
//! ```
//!
//! A physical plan's Parquet scans get a source of their own ([`source`]) that decides for each row group ([`file`]): all columns are
//! kept, then nothing is read; some are, or all are worth keeping, then the others are read, joined with those and kept; else DataFusion
//! reads the row group as it does without corun. What is left out by least and largest values, by pages or by Bloom filters is left out
//! here as well. [`columns`] is what sessions share: which columns there are, by file, version, row group and type, within a budget of
//! bytes (`corun_model::kept_columns`).

mod columns;
mod file;
mod source;

pub(crate) use columns::KeptColumns;
#[cfg(feature = "coordinator")]
pub(crate) use source::COLUMNS_TAKEN;
pub(crate) use source::keep_columns;
