//! Logins of clients at the proxy and of the proxy at servers: state machines on bytes.
//!
//! Order of calls for a client: [`hba::Rules::first_match`] where there are rules, else the method of the configuration; a
//! lookup of the user's [`Secret`] where the [`Method`] wants one ([`userlist`], or a question to the server); then an
//! [`Authenticator`]. For a server: a [`ServerLogin`] with the [`Credentials`] of the user.
//!
//! What it is not: it reads no socket and no clock, and draws random numbers only from the source it is handed. It does not
//! send AuthenticationOk: the caller may still have reasons to refuse.

pub mod authenticator;
pub mod hba;
pub mod ident;
pub mod md5;
pub mod scram;
pub mod secret;
pub mod server_login;
pub mod userlist;

mod tokens;

pub use authenticator::{Answer, Authenticator, Denial, Facts, Method, Step, TlsFacts};
pub use secret::{Credentials, Lookup, Mock, Secret};
pub use server_login::{LoginError, LoginStep, ServerLogin};
