//! What a client's session is beyond its socket: settings, prepared statements. They follow the client from server to server.
//!
//! Order of calls: while a client has a server, its messages change what is noted here; when it gets another server,
//! [`settings::change`] says what must be set there first, and [`prepared::ServerStatements`] whether a statement must be parsed there.
//!
//! What it is not: the pins, which say that a server must be kept because something cannot follow; `understand` finds those.

pub mod catalogue;
pub mod prepared;
pub mod settings;
