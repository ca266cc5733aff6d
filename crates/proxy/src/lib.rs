//! The PostgreSQL proxy.

pub mod config;
