//! Queries that run in parts on several servers at once (paper 004, section 3, Algorithm 1).
//!
//! ```text
//!  client ─► its server, the leader ── a target? ([splits.NAME], by shape) ── how many parts? (`corun_model::pooler::split`) ── 1: as ever
//!              │ once for a text: questions, descriptions ─► `crate::split` proves it, or the query runs whole
//!              ▼
//!  leader:  BEGIN; snapshot, values computed once ─► part 0 ──────────┐
//!  others:  idle servers of the same pool: BEGIN; SET SNAPSHOT; part i ┴─► merged ─► client; all: COMMIT, back to their core pools
//! ```
//!
//! Nothing goes to the client before the last part has answered. So whatever fails in between, the query can still run whole on the
//! leader, and does, unless somebody cancelled it, a time limit struck or a server was lost: then the client gets that one error. The
//! other parts are cancelled, and their servers serve again after a barrier.
//!
//! A job is found by its leader: whatever happens to a client happens to its server, and from there to the job.
//!
//! What it is not: the proof, the texts and the merge, which are `crate::split`.

mod answer;
mod ask;
mod asked;
mod end;
mod explained;
mod flight;
mod job;
mod rules;
mod run;

pub(super) use asked::{Asked, Form as AskedForm, asked};
pub(super) use flight::{bound, plain, sync};
pub(super) use job::{After, Step};
pub(super) use rules::Splits;
