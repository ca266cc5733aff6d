//! The server's side of a connection, as state machines on bytes.
//!
//! Order of calls: [`Login`] takes what a client sends until it has shown who it is (or a caller with its own order, such as a pooler, uses
//! [`Negotiation`] and an [`Authenticator`](crate::auth::Authenticator)); the caller decides whether there is room, sends [`welcome`], and
//! makes a [`Session`]. Then [`Message::read`] finds message after message, [`Session::message`] says what the engine has to do about each,
//! and the engine's outcome goes back into the session ([`Session::parsed`], [`Session::bound`], [`Session::executed`],
//! [`Session::query_done`], [`Session::ended`], [`Session::failed`]), which writes the answer and takes the next message.
//!
//! What it is not: it keeps no time. Whoever has the clock limits how long a login may take and how long a session may idle.

mod held;
mod login;
mod message;
mod negotiation;
mod session;

pub use held::{Column, ResultFormats};
pub use login::{Connection, Entered, Login, LoginAction, Policy, Users, database_asked_for, welcome};
pub use message::{Bind, Limits, Malformed, Message, Parse, Target};
pub use negotiation::{First, Negotiation};
pub use session::{Action, Executed, Session};

#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod session_tests;
