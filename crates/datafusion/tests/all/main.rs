//! Answers, plans and decisions against stock DataFusion; with the feature `store`, the tables of a store, too.

mod aggregates;
#[path = "../common/mod.rs"]
mod common;
mod decisions;
mod groups;
mod index_answers;
mod index_statements;
mod join_answers;
mod join_order;
mod kept_columns;
mod plans;
mod rewrites;
mod scalar_aggregates;
mod shared_parts;
mod shared_work;
mod sql_files;
#[cfg(all(feature = "store", feature = "coordinator"))]
mod store;
