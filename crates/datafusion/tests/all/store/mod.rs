//! The tables of a store in SQL: every type, filters and indexes against in-memory tables, one moment for each statement, plans,
//! bulk loads with their errors, numbers of rows, and sessions that read what they have written.

mod answers;
mod data;
mod loads;
mod moments;
mod numbers;
mod plans;
mod sessions;
