//! The PostgreSQL proxy.

pub mod auto_prepare;
pub mod understand;
