//! The tables of a store in SQL: every type, filters and indexes against in-memory tables, one moment for each statement, plans,
//! and bulk loads with their errors.

mod answers;
mod data;
mod loads;
mod moments;
mod plans;
