//! [`Member`]: one user-level thread.
//!
//! ```text
//!              spawn                 operation(op)            chosen
//!   (idle) ───────────▶ stray, ready ─────────────▶ waiting ───────────▶ running (linked in the team)
//!     ▲                  ▲   ▲  │ park                 ▲ operation(op)     │   │
//!     │ end              │   │  ▼                      └───────────────────┘   │ park, yield
//!     └──────────────────┤  parked ◀─────────────────────────────────────────── ┘ (a stray until its next operation)
//! ```
//!
//! Members are reused: their stack, their place in the epochs of the indexes.

use std::cell::OnceCell;
use std::time::Instant;

use crossbeam_epoch::{Guard, LocalHandle};

use super::core::Core;
use super::ring::Node;
use super::stack::{HEAD_BYTES, Stack};
use super::switch::prepare;
use super::token::Token;

/// What a member does. Its scope waits until it is done, so it lives long enough.
pub(super) type Body = Box<dyn FnOnce()>;

/// When a parked member wakes by itself: by time, then by the number of the park.
pub(super) type Alarm = (Instant, u64);

/// Where a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In no ring: it is ready, parked, or it runs alone.
    Stray,
    /// In the list of an operation.
    Waiting,
    /// In the team that runs.
    Running,
}

/// One user-level thread.
#[repr(C)]
pub(super) struct Member {
    /// First, so that a node's address is its member's.
    pub node: Node,
    pub core: *mut Core,
    pub place: Place,
    /// The list it is or was in last.
    pub list: u16,
    /// Operations since it gave the processor away, in serial mode.
    pub serial_operations: u32,
    /// Operations in a row that it began without leaving its team.
    pub repeats: u32,
    pub stack: Stack,
    pub token: Token,
    pub alarm: Option<Alarm>,
    pub body: Option<Body>,
    pub name: String,
    /// Which of its scope it is.
    pub index: usize,
    epoch: OnceCell<LocalHandle>,
}

const _: () = assert!(size_of::<Member>() <= HEAD_BYTES);

impl Member {
    /// A member without work. It lies at the top of its stack, so that a switch touches one page for each member: the processor
    /// remembers few pages that are written.
    pub fn new(core: *mut Core, stack: Stack, token: Token) -> *mut Member {
        let place: *mut Member = stack.head().cast();
        let member = Member {
            node: Node::new(),
            core,
            place: Place::Stray,
            list: 0,
            serial_operations: 0,
            repeats: 0,
            stack,
            token,
            alarm: None,
            body: None,
            name: String::new(),
            index: 0,
            epoch: OnceCell::new(),
        };
        // SAFETY: `HEAD_BYTES` of a fresh stack, aligned to 64, are there for it.
        unsafe { place.write(member) };
        place
    }

    /// Takes a member off its stack.
    ///
    /// # Safety
    /// Nothing runs on its stack, and the pointer is not used any more.
    pub unsafe fn take_down(member: *mut Member) -> Member {
        // SAFETY: written by `new`; this is the one time that it is moved out.
        unsafe { member.read() }
    }

    /// Makes it begin at the top of its stack with `main`.
    ///
    /// # Safety
    /// Nothing runs on its stack or uses what lies there.
    pub unsafe fn rewind(member: *mut Member, main: extern "C" fn() -> !) {
        // SAFETY: the member lies on top of a stack that nobody uses.
        unsafe { (*member).node.sp = prepare((*member).stack.head(), main) };
    }

    /// Pins the member's own participant of the epochs.
    pub fn pin(&self) -> Guard {
        let handle = self
            .epoch
            .get_or_init(|| crossbeam_epoch::default_collector().register());
        handle.pin()
    }

    /// Ends what was pinned by frames that are forgotten.
    ///
    /// # Safety
    /// No guard of this member is ever used or dropped again.
    pub unsafe fn unpin(&self) {
        let Some(handle) = self.epoch.get() else { return };
        let guard = handle.pin();
        while handle.is_pinned() {
            // SAFETY: a guard is a pointer to the participant; dropping it counts one off. Those that are counted are this one,
            // which is forgotten below, and the forgotten ones.
            drop(unsafe { std::ptr::read(&guard) });
        }
        std::mem::forget(guard);
    }

    /// What became of a member that used all of its stack.
    pub fn overflow_message(&self) -> String {
        // SAFETY: a member's core is there as long as it is.
        let bytes = unsafe { (*self.core).options.stack_bytes };
        format!(
            "member {:?} used all of its stack and was ended; TeamOptions::stack_bytes is {bytes}: give its scheduler larger stacks",
            self.name,
        )
    }

    /// Gives up everything but the stack.
    pub fn into_stack(self) -> Stack {
        self.stack
    }
}
