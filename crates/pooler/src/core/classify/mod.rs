//! What a client's bytes ask for, read once: where a request may run, what it leaves, and its way to its server.
//!
//! Order of a request: [`request`] while the client has no server, then [`forward`] with one; [`carry`] for messages on prepared statements.

pub(in crate::core) mod batch;
pub(in crate::core) mod carry;
pub(in crate::core) mod classifier;
pub(in crate::core) mod forward;
pub(in crate::core) mod request;
