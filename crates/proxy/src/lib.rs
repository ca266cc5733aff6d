//! The PostgreSQL proxy.

pub mod hosts;
