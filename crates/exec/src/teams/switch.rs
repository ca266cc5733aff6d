//! The switch: the processor goes from one member to another by exchanging stacks.
//!
//! What a member has pushed on its stack when it is left is drawn beside each machine's assembly. The word its stack pointer leads to
//! is always the address at which it goes on, which is jumped to through a register: the return predictor keeps the callers of members
//! that run in step, which are the same for all of them, and all members of a team resume at one address, so that the jump is
//! predicted too.
//!
//! Measured with `examples/teams_switch.rs` (Sapphire Rapids, busy machine, CPU ns a turn: loop, point and switch) for teams of 2, 4,
//! 10, 16, 32 and 64: 3.6, 3.5, 3.5, 3.7, 3.9, 4.3; the same turns through corosensei 0.3.4, whose switch is compiled into the loop but
//! goes back to a caller each time: 2.7, 3.5, 4.3, 5.1, 6.4, 7.1. So ours is kept: teams have about ten members. A point that is on
//! costs 2 in a stray, one that is off 0.05; an [`operation`](super::operation()) 12 to 17.
//!
//! The second form (7.3 a turn) also exchanges the control words of the floating-point units and saves the vector registers, as a switch
//! must that can come anywhere (paper 003, Figs. 6 and 7, "float on"); at a call nothing in them is live, so the first form may
//! leave that out. All members then share the control words.

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
mod aarch64;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod unsupported;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod x86_64;

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
pub(super) use aarch64::{prepare, switch, switch_float};
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(super) use unsupported::{prepare, switch, switch_float};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) use x86_64::{prepare, switch, switch_float};

/// Whether a scheduler can be made: there is a switch, and a checker that has no assembly does not run this.
pub(super) const SUPPORTED: bool = cfg!(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
));
