//! One query as several, each over a range of a key (paper 004, section 3): the proof that this gives the same rows, the texts of
//! the parts, and the merge of what they answer.
//!
//! ```text
//!  text ─► plan ─► Plan ─ questions() ─► catalog ─► resolve ─► Resolved ─ describe(), leader() ─► types ─► confirm ─► Confirmed
//!                                                                                                                      │ kept for
//!  each execution:                                                                                                     ▼ the text
//!   leader:  BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;  leader()  ──► row ──► lead() ──► Lead: snapshot, values
//!   part i:  BEGIN ...; SET TRANSACTION SNAPSHOT ..;  parts(splits, lead)[i]  ──► rows ──► Merger ─┬─► drain(): rows of the client
//!   leader:                                                          final_sql() of a Final merge ─┴─► rows of the client
//! ```
//!
//! # Order of calls
//! Once for a text, under the settings and as the role it will be run under:
//! - [`plan`]: by the text alone.
//! - [`Plan::questions`] is asked of a server; [`Plan::resolve`] reads the rows.
//! - The original text, [`Resolved::describe`] and [`Resolved::leader`] are parsed and described, the latter two with the parameter
//!   types the original was described with; [`Resolved::confirm`] reads the types of their columns.
//!
//! For each execution:
//! - In its transaction the leader runs [`Confirmed::leader`] with result formats [`Confirmed::leader_formats`];
//!   [`Confirmed::lead`] reads its row.
//! - Each part runs a text of [`Confirmed::parts`] with [`Confirmed::part_formats`]; a [`Merger`] takes the rows.
//! - Where [`Confirmed::merge`] is [`MergeKind::Final`], the leader runs [`Merger::final_sql`] in its transaction with the client's
//!   own result formats, and its rows go to the client as they are.
//!
//! Everywhere parameters keep their numbers, so the client's values are bound to the leader's text, the parts and the final
//! statement alike; types are declared as the original was described, because a text may lack some.
//!
//! # What the caller sees to
//! - All texts run by one role and under the client's settings; at least those of
//!   [`SETTINGS_READ_WHEN_PARSED`](crate::auto_prepare::SETTINGS_READ_WHEN_PARSED) are equal everywhere.
//! - The client is in no transaction of its own that wrote, set an isolation level, or has something temporary.
//! - Where [`Confirmed::same_encoding`] says so, `client_encoding` is the encoding of the database.
//! - Parameters in text format pass [`reads_the_clock`], or the query runs whole.
//! - An error of the leader's text, or of anything before the first row of a part, is answered by running the query whole. A
//!   server evaluates what it likes first, so a query that fails may fail otherwise in parts.
//! - A plan is confirmed anew after a definition, and after a server has said 0A000 or 42xxx.
//!
//! # Why parts give the whole
//! The key's table stands once in FROM and no outer join adds rows without it, so every joined row has exactly one value of the
//! key, which is in exactly one range. So joined rows fall into parts, whatever the ranges. What is computed of them is put
//! together in one of three ways ([`MergeKind`]). Everything else in the statement reads the same snapshot and gives the same in
//! every part, because only functions, operators and types are admitted that do.
//!
//! What it is not: it sends nothing and knows no connection. It does not say whether splitting pays (`corun_model::pooler::split`).

mod allow;
mod catalog;
mod confirmed;
mod kinds;
mod merge;
mod names;
mod numeric;
mod partial;
mod plan;
mod refusal;
mod resolve;
mod scope;
mod text;
mod walk;

pub use crate::keys::Column as KeyColumn;
pub use crate::understand::reads_the_clock;
pub use confirmed::{Confirmed, Lead, LeadError, MergeKind, SplitsError};
pub use merge::{MergeError, Merger};
pub use plan::{Plan, plan};
pub use refusal::Refusal;
pub use resolve::Resolved;
pub(crate) use text::{qualified, quoted, quoted_name};
