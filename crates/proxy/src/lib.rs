//! The PostgreSQL proxy.

pub mod understand;
