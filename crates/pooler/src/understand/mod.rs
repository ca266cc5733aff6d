//! What a text of SQL would do: its shape, what it reads and writes, and what stays behind on the server connection.
//!
//! Order of calls: one [`Understanding`] for each event loop; [`Understanding::of`] with every text that arrives, simple query or
//! Parse message; the answer, an [`Understood`], is shared and stays valid. Texts that differ in literals and comments only are
//! looked up without being parsed again ([`rough`]).
//!
//! The grammar is PostgreSQL's own, through `pg_query`. A text it does not accept is no error: it may be meant for a server with
//! another grammar, so it counts as a write that may have changed anything, and the server says what is wrong with it.
//!
//! What it is not: a proof. It sees names, not what they stand for. A view may call a volatile function, an operator or a cast may
//! be the user's own, a trigger may take a lock, a function may change settings. [`Understood::names`] are what such code is known by:
//! what hides behind them in a database says [`crate::session::catalogue`].

mod cache;
mod constant;
mod effects;
mod explained;
mod functions;
mod hint;
pub mod keys;
pub(crate) mod oid;
mod parse;
mod pins;
mod relations;
pub mod rough;
mod statement;
mod tokens;
mod transaction;
mod tree;
mod understood;
mod words;

pub use cache::{Limits, Statistics, Understanding};
pub use effects::Effects;
pub(crate) use functions::{change_session, only_reads, runs_in_parts};
pub use hint::{HeavyQueueHint, Hint};
pub(crate) use parse::guarded_parse;
pub use pins::Pins;
pub(crate) use tree::{Below, Tree, children, children_mut, names, own_operator};
pub use understood::{
    Access, Discard, Isolation, Shape, StatementKind, TableName, TransactionEffect, Understood,
};
pub use words::reads_the_clock;
pub(crate) use words::{Words, contains_word};
