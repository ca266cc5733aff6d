//! Teams: user-level threads of one OS thread that run the same operation together and switch at CTX points (STEPS, paper 003,
//! sections 3 and 4.1).
//!
//! Many transactions on a core run the same functions one after the other, and each finds the instruction cache, and its own
//! data's lines, not there. Members that do the same operation form a team. At a CTX point ([`ctx!`](crate::ctx)) a member asks
//! for the line it needs next and passes the processor to the next of its team: that one finds the instructions in the cache, and
//! when the first goes on its line has come.
//!
//! Order of calls: [`Scheduler::new`] on each worker thread, [`Scheduler::scope`] with a [`Scope::spawn`] for each client. A client
//! calls [`operation`] where an operation begins, the engine has `ctx!` at levels of a tree and the like, takes latches under
//! [`latch()`], and waits through [`park`] and [`Token::unpark`]. Before that a program may [`load_profile`].
//!
//! ```text
//!   operation(fetch) ──▶ list of `fetch`: c1 c4 c5 ─┐ chosen: a team        strays: parked, yielded, new
//!   operation(update) ─▶ list of `update`: c2       │                         │ ready ones run before the next team
//!                                                   ▼                         ▼ is chosen, until they join a list
//!                              c1 ─ctx─▶ c4 ─ctx─▶ c5 ─ctx─▶ c1 …   each leaves at its next operation(…)
//! ```
//!
//! A member never moves to another OS thread, so thread-local state is shared by the members of a scheduler: nothing in it may
//! be in use across an operation, a park or a CTX point. In particular a member pins the epochs of indexes through [`pinned`],
//! which has a participant for each.
//!
//! What it is not: preemptive. A member that computes for long keeps the processor; one that blocks its OS thread blocks all, so
//! such work goes through [`blocking`].

mod blocking;
mod core;
mod latch;
mod lists;
mod local;
pub mod mark;
mod member;
mod overflow;
pub mod patch;
mod point;
mod profile;
mod ring;
mod scheduler;
mod stack;
mod switch;
mod token;

use std::num::NonZeroUsize;

use crossbeam_epoch::Guard;

use member::Member;

pub use blocking::{HELPERS_MAX, blocking};
pub use corun_model::teams::{NextTeam, OperationStatistics, TeamsMode};
pub use latch::{Latch, latch, latch_enter, latch_leave};
#[doc(hidden)]
pub use point::pass_on;
pub use point::{Point, default_points, points, set_points};
pub use profile::{LoadError, Loaded, load_profile};
pub use scheduler::{
    Control, Idle, Lost, STACK_BYTES, Scheduler, Scope, TEAM_SIZE_MAX, TeamError, TeamOptions,
};
pub use token::{Token, park};

/// What a member does next. Engines choose dense numbers: one for each operation that runs the same functions (paper 003, Table 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Operation(pub u16);

/// The running member; null on a plain thread.
#[inline(always)]
fn current() -> *mut Member {
    local::with(|local| local.member.get()).cast()
}

/// Whether the thread unwinds. The count of panics is the OS thread's, so another member must not run then.
#[inline(always)]
fn unwinding() -> bool {
    std::thread::panicking()
}

/// Ends the member's operation and begins another: the thin wrapper of paper 003, section 4.1.1. The member joins the operation's
/// list; this returns when its team runs. Nothing on a plain thread, in a latch, and while unwinding.
#[inline]
pub fn operation(operation: Operation) {
    let member = current();
    if !member.is_null() {
        join(member, operation);
    }
}

#[inline(never)]
fn join(member: *mut Member, Operation(operation): Operation) {
    if core::may_switch() {
        // SAFETY: the running member, on its own stack.
        unsafe { core::operation(member, operation) };
    }
}

/// Whether the caller is a member of a team scheduler.
#[inline]
pub fn is_member() -> bool {
    !current().is_null()
}

/// Who runs: no two members or plain threads that exist at the same time have the same. For engines whose mutexes know their owner:
/// the system's take all members of a thread for one.
#[inline]
pub fn identity() -> NonZeroUsize {
    let member = current();
    let address = match member.is_null() {
        true => local::with(|local| std::ptr::from_ref(local).addr()),
        false => member.addr(),
    };
    NonZeroUsize::new(address).unwrap_or(NonZeroUsize::MIN)
}

/// Gives the processor away. A member is a stray until its next operation. Nothing in a latch and while unwinding.
pub fn yield_now() {
    let member = current();
    if member.is_null() {
        std::thread::yield_now();
    } else if core::may_switch() {
        // SAFETY: the running member, on its own stack.
        unsafe { core::yield_now(member) };
    }
}

/// Calls with the epochs of indexes pinned: by the running member's own participant, or the OS thread's.
///
/// The guard stays within the call, as it ends with a member that uses up its stack:
///
/// ```compile_fail
/// let guard = corun_exec::teams::pinned(|guard| guard);
/// ```
pub fn pinned<R>(reads: impl FnOnce(&Guard) -> R) -> R {
    reads(&pin())
}

/// The guard of [`pinned`]. It must stay in the frames of who took it: it ends with a member that uses up its stack.
#[inline]
pub(crate) fn pin() -> Guard {
    let member = current();
    if member.is_null() {
        crossbeam_epoch::pin()
    } else {
        // SAFETY: the running member exists.
        unsafe { (*member).pin() }
    }
}

/// An address in the caller's frame, as low as it can be had: on aarch64, where the compiler puts small variables above the large ones
/// of a frame, the stack pointer itself.
#[inline(always)]
fn stack_pointer() -> usize {
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let here: usize;
        // SAFETY: reads a register.
        unsafe { ::core::arch::asm!("mov {}, sp", out(reg) here, options(nomem, nostack, preserves_flags)) };
        here
    }
    #[cfg(not(all(target_arch = "aarch64", not(miri))))]
    {
        let here = 0_u8;
        std::hint::black_box(&raw const here) as usize
    }
}

/// Bytes left of the member's stack; `None` on a plain thread. Engines compare it where an operation begins with what the
/// operation may need, and fail with an error of their own while they still can.
#[inline]
pub fn stack_left() -> Option<usize> {
    let member = current();
    // SAFETY: the running member exists.
    (!member.is_null()).then(|| stack_pointer().saturating_sub(unsafe { (*member).stack.limit() }))
}

/// Whether an engine should cut this operation into parts with operations of their own (paper 003, section 4.1.2), because its
/// teams are too thin; see [`Control::set_split`]. False on a plain thread.
#[inline]
pub fn split(Operation(operation): Operation) -> bool {
    let member = current();
    // SAFETY: the running member and its core exist; no other reference is alive.
    !member.is_null() && unsafe { (*(*member).core).split.contains(&operation) }
}

/// Settings and statistics of the scheduler whose member runs; `None` on a plain thread.
pub fn control() -> Option<Control> {
    let member = current();
    // SAFETY: as above.
    (!member.is_null()).then(|| unsafe { Control::of((*member).core) })
}
