//! One operation of any x86-64 Linux program, instruction by instruction, without recompiling it.
//!
//! ```text
//! Tracer::start(command) ─┐             ┌─► sink: Begin, instructions, latches, CTX points, End
//! Tracer::attach(pid) ────┼► next_operation ─► OperationTrace (how many, how it ended)
//! Recorded::open(file) ───┘      ▲      │
//!                                └──────┘ until it answers None; then Tracer::finish
//! modules(), ctx_points() ─► Lines: which function and source line an address is
//! ```
//!
//! A [`Tracer`] runs the program at full speed to the operation wanted ([`Target`]: between two marker instructions, or a function
//! from its entry to its return), steps the thread that runs it one instruction at a time (ptrace), and lets go of it again. Breakpoints
//! are in the program only while it is on its way to an operation, and every way out (errors and drop too) takes them out and detaches.
//! [`Recorded`] plays what a [`Recorder`] kept, without any program: both are a [`TraceSource`].
//!
//! Marker instructions are 8-byte no-operations, `nopl imm32(%rax,%rax,1)` with the bytes `0F 1F 84 00 kk 45 54 53`: kind `kk` 1 where
//! an operation begins, 2 where it ends, 3 where a latch was taken, 4 where it was released.
//!
//! Known limits: code that changes while an operation runs is decoded as it first was; gathers and scatters report one access at their
//! base; a SIGTRAP somebody sends to the thread being stepped is taken for a step, and a program's own handler of SIGTRAP is
//! lost where the operation blocks that signal (the kernel's doing); what the kernel runs is not seen.
//!
//! Not here: caches and cutting a trace into segments, see the simulator; printing.

mod demangle;
mod elf;
mod entries;
mod error;
mod functions;
mod lines;
mod modules;
mod options;
mod points;
mod recorded;
mod symbols;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod live;

use corun_model::teams::instructions::InstructionSink;

pub use entries::FunctionEntries;
pub use error::{ProgramEnd, TraceError};
pub(crate) use functions::Functions;
pub use lines::{Frame, Lines, Place};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use live::Tracer;
pub use modules::Module;
pub(crate) use modules::{Mapping, mappings};
pub use options::{After, LatchFunctions, Target, TraceOptions};
pub use points::CtxPoint;
pub use recorded::{Recorded, Recorder};

/// How a traced operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationEnd {
    /// At its end marker.
    Marked,
    /// The function returned.
    Returned,
    /// The function was left without returning: a long jump or an exception went past it.
    Unwound,
}

/// One operation that was traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationTrace {
    /// The thread of the program that ran it.
    pub thread: u32,
    /// How many instructions it ran.
    pub instructions: u64,
    /// How it ended.
    pub end: OperationEnd,
}

/// Traces of operations, one after the other: a live program's ([`Tracer`]) or a kept one's ([`Recorded`]).
pub trait TraceSource {
    /// Hands the next operation to the sink. `None` when all that were asked for have been.
    ///
    /// # Errors
    /// When the operation cannot be traced to its end. The sink may have seen a part of it.
    fn next_operation(
        &mut self,
        sink: &mut dyn InstructionSink,
    ) -> Result<Option<OperationTrace>, TraceError>;

    /// The files the program's code came from, and where they were in its memory. Complete once an operation was traced.
    fn modules(&self) -> &[Module];

    /// The CTX points compiled into the program, by the address of their record. Complete once an operation was traced.
    fn ctx_points(&self) -> &[CtxPoint];
}
