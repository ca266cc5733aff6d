//! Strict two-phase locking: who may touch which row, table or interval of an index, and who waits for whom.
//!
//! Order of calls: [`Locks::new`] once for a store; [`Locks::begin`] once for a session, which keeps the [`Holder`]; for each
//! transaction [`Holder::table`], [`Holder::row`], [`Holder::range`] and [`Holder::pass`] as its operations need them, and
//! [`Holder::release_all`] at its end. There is no single release: a transaction only ever takes, then lets go of everything; or goes back to
//! what it held at a [`Holder::mark`] ([`Holder::release_to`]).
//!
//! ```text
//!   row       LockWord in the row's slot ── taken and let go by one atomic step each; only if somebody must wait:
//!               └─ queue of the row, in a sharded table (`rows`)
//!   table     TableLock: intentions counted in shards, one per group of holders; strong modes and the queue under a mutex
//!   interval  RangeLocks of an index: intervals under a mutex, and a count that lets inserters pass with one load
//! ```
//!
//! *Waiting.* Queues are first come, first served: nobody is granted a lock that conflicts with a request ahead of it, except
//! that a holder who asks for more goes first. Who lets go hands the lock over (`settle`), so that whoever wakes has it. Nothing
//! is held while a client is parked. Several holders may take turns on one thread; who would wait for a row that another transaction of
//! its own thread has exclusively is refused.
//!
//! *Deadlocks.* Whoever has waited for a while looks for the circle of waits that keeps it (`detect`). It costs those who do not
//! wait nothing: a client hands the list of what it holds over for as long as it waits, and only clients that wait can be part
//! of a circle.
//!
//! Order of mutexes: the detector's before all others; all others alone.
//!
//! What it is not: it knows no rows, indexes or logs. Names and words are handed in.

mod detect;
mod error;
mod held;
mod holder;
mod locks;
mod mark;
mod mode;
mod range;
mod rows;
mod slot;
mod table;
mod wait;
mod word;

pub use error::{HeldBy, LockError, LockName};
pub use holder::Holder;
pub use locks::{LockCounts, LockOptions, Locks};
pub use mark::LockMark;
pub use mode::{Got, RowMode, RowName, TableMode};
pub use range::{RangeKey, RangeLocks};
pub use table::TableLock;
pub use word::LockWord;
