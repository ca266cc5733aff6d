//! Which of the waiting queries runs next, and beside whom (paper 002, sections 5.2 and 6.3, for many cores).
//!
//! ```text
//!                    short ones                                        domain 0: cpu 0, cpu 1 ─ one LLC
//!   arrive ─┬────────────────────────────▶ bypass, at once
//!           │                                          dispatch ┌────▶ domain 1: cpu 2, cpu 3 ─ one LLC
//!           └─▶ waiting: strong and moderate (reusing) ─────────┤                │
//!                        weak (streaming) ──────────────────────┘                │ finish, leave
//!                          ▲                                                     ▼
//!                          └──────── the rule of the policy ◀──── slow-downs learnt from run times
//! ```
//!
//! Call order: [`llc_domains`] cuts the machine into cache domains, [`Scheduler::new`] takes them with a policy. Then, for every
//! event, [`Scheduler::arrive`], [`Scheduler::finish`], [`Scheduler::leave`] or [`Scheduler::change`], with the time it
//! happened; and after each, or after several that happened together, [`Scheduler::dispatch`], whose answer is to be
//! carried out.
//!
//! What holds whatever the policy and whatever arrives:
//!
//! - **No idle core.** After `dispatch`, a CPU is free only if nobody waits, or if it is left to others ([`Scheduler::limit`]; then at
//!   least one query runs on the scheduler's CPUs while any wait, and `n` below is the limit). There is no other exception: a policy chooses
//!   whom to start, never whether to. Two co-runners with slow-downs `a` and `b` get more done than one alone while
//!   `1/a + 1/b > 1`, as in every pair the paper reports: its worst is 1.56 beside less than 1.2.
//! - **No starvation.** Before a query starts, at most `ahead + overtakes_max` others start on the CPUs after its arrival,
//!   `ahead` being those that waited when it came. *Proof.* Of the starts before its own, those of queries that came earlier
//!   number at most `ahead`. A start of one that came later *overtakes* it. Every query that overtakes it also
//!   overtakes all that wait before it, so along the queue the number of times overtaken never rises, and those overtaken
//!   `overtakes_max` times or more, the *aged*, are the front of the queue. While there are any, the very first is started next;
//!   so once our query is aged nobody who came later starts before it, and the later ones that did are at most
//!   `overtakes_max`. ∎
//! - **Turns.** Queries have owners with weights ([`Query::owner`]). While several owners wait, the policy chooses among the queries of the one whose
//!   turn it is (`turns`), and *ahead*, *overtakes* and *aged* above are meant among the queries of one owner. Between two starts of an owner
//!   `u` that has queries waiting, each other owner `v` starts at most `⌈weight(v) / weight(u)⌉ + 1`, so nobody starves: the least share is one
//!   turn in a hundred and one of each other owner's. *Proof.* `u`'s tag grows by `S / weight(u)` from its start to its next; `v` starts only with a
//!   tag between these two, and each of its starts moves its own by `S / weight(v)`. ∎
//! - **In time**: if no query runs longer than `T` and there are `n` CPUs, it waits at most
//!   `T × ⌈(ahead + overtakes_max + 1) / n⌉`. While it waits no CPU is idle, so each CPU ends a query in any time `T` and starts
//!   another: at least `n` starts.
//! - **Width costs nobody a place.** With [`Config::widen`] a query gets all CPUs of its domain, but only on its arrival, while
//!   nobody else waits and nobody runs there. So no other is started wide while one waits, and the bounds above hold as they are: a wide
//!   query that ends frees each of its CPUs for a start of its own. Whoever comes while it runs may wait as long as it
//!   runs, `T`, even if it would have run beside it.
//! - **Nothing to gain, nothing done.** Under `auto` with [`Config::widen`], strong queries whose tables fit the cache together
//!   are let through at once ([`Admission::Free`]) while no other kind is about.
//! - **Same events, same schedule.** Nothing here is random, and time is what it is told.
//! - **Nothing stays behind.** A query that finished or left is in no list; what remains of it is what its run taught.
//!
//! Under every policy but `fifo` a query that reads what another is making ([`Query::parts`]) goes before those that merely do no harm.
//!
//! When a rule cannot be kept without an idle core, or against an aged query, it gives way: `sls` starts a query beside the
//! other kind only if none of the kind that fits waits; `mls` one beside its own kind only if none of the other waits.
//!
//! Not here: running anything, pinning, partitioning, and cutting short queries from long ones by other means than their
//! expected time.

mod choice;
mod config;
mod domain;
mod policy;
mod priority;
mod query;
mod scheduler;
mod turns;
mod wait;

pub use config::{Config, ScheduleError};
pub use domain::{DomainError, LlcDomain, llc_domains};
pub use policy::{Policy, PolicyError, PolicyName};
pub use priority::{Priority, UnknownPriority};
pub use query::{Admission, Query, QueryId, Running, Start, Waiting, Why};
pub use scheduler::Scheduler;
pub use turns::{Owner, Weight};
