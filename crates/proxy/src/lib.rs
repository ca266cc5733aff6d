//! The PostgreSQL proxy.
