//! A pooler for PostgreSQL that clients reach where they reached the server: sessions, pools, and a queue for each core that runs
//! alike statements one after the other.
//!
//! Folders follow the journey of a query: [`wire`] (bytes).

pub mod auth;
pub mod tls;
pub mod wire;
