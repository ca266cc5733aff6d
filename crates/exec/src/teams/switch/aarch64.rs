//! The switch on aarch64 (AAPCS64).
//!
//! ```text
//!   a member that was left                         one that is prepared         grows down ▼
//!   sp + 32  what it had on its stack              sp + 32  the member itself
//!   sp + 24  unused: sp is a multiple of 16        sp + 24  unused
//!   sp + 16  x19                                   sp + 16  unused
//!   sp +  8  x29, the frame pointer                sp +  8  main
//!   sp       where it goes on (label 2)            sp       begin
//! ```
//!
//! The compiler saves the other callee-saved registers where they are in use, as the switch says that it destroys them: `x20` to
//! `x28`, the link register `x30`, and `v8` to `v15`, whose lower halves `d8` to `d15` a function keeps for its caller. `x19` and `x29`
//! cannot be named so. Whoever goes on takes its frame off itself. There is no red zone below `sp` on Linux.
//!
//! The second form has its state behind `x19`, 560 bytes in all:
//!
//! ```text
//!   sp + 48  q0 … q31
//!   sp + 40  fpsr
//!   sp + 32  fpcr
//! ```
//!
//! Tested under emulation only; what a turn takes is unmeasured.

use std::cell::Cell;

use crate::teams::ring::Node;

/// Leaves `from`, which goes on when somebody switches to it, for `to`. `running` becomes `member` once nothing can fail any more.
///
/// # Safety
/// The caller runs on the stack of `from`. `to` was left by a switch or prepared by [`prepare`]. Both nodes and `running` are valid.
#[inline(always)]
pub(in crate::teams) unsafe fn switch(
    from: *mut Node,
    to: *mut Node,
    running: &Cell<*mut Node>,
    member: *mut Node,
) {
    // SAFETY: everything AAPCS64 keeps across a call is saved below `sp` or listed as destroyed; the stack is as it was when the
    // switch returns here. `sp` is the first field of a node.
    unsafe {
        core::arch::asm!(
            "adr x8, 2f",
            "stp x8, x29, [sp, #-32]!",
            "str x19, [sp, #16]",
            "mov x9, sp",
            "str x9, [x0]",
            "str x3, [x2]",
            "ldr x9, [x1]",
            "ldr x8, [x9]",
            "mov sp, x9",
            "br x8",
            "2:",
            "ldr x19, [sp, #16]",
            "ldp x8, x29, [sp], #32",
            inout("x0") from => _, inout("x1") to => _, inout("x2") running.as_ptr() => _, inout("x3") member => _,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _, out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            clobber_abi("C"),
        );
    }
}

/// [`switch`] that also exchanges floating-point state.
///
/// # Safety
/// As for [`switch`].
#[inline(never)]
pub(in crate::teams) unsafe fn switch_float(
    from: *mut Node,
    to: *mut Node,
    running: &Cell<*mut Node>,
    member: *mut Node,
) {
    // SAFETY: as in `switch`; 528 bytes above the saved registers hold the floating-point state.
    unsafe {
        core::arch::asm!(
            "sub sp, sp, #560",
            "adr x8, 2f",
            "stp x8, x29, [sp]",
            "str x19, [sp, #16]",
            "mrs x8, fpcr",
            "mrs x9, fpsr",
            "stp x8, x9, [sp, #32]",
            "stp q0, q1, [sp, #48]",
            "stp q2, q3, [sp, #80]",
            "stp q4, q5, [sp, #112]",
            "stp q6, q7, [sp, #144]",
            "stp q8, q9, [sp, #176]",
            "stp q10, q11, [sp, #208]",
            "stp q12, q13, [sp, #240]",
            "stp q14, q15, [sp, #272]",
            "stp q16, q17, [sp, #304]",
            "stp q18, q19, [sp, #336]",
            "stp q20, q21, [sp, #368]",
            "stp q22, q23, [sp, #400]",
            "stp q24, q25, [sp, #432]",
            "stp q26, q27, [sp, #464]",
            "stp q28, q29, [sp, #496]",
            "stp q30, q31, [sp, #528]",
            "mov x9, sp",
            "str x9, [x0]",
            "str x3, [x2]",
            "ldr x9, [x1]",
            "ldr x8, [x9]",
            "mov sp, x9",
            "br x8",
            "2:",
            "ldp x8, x9, [sp, #32]",
            "msr fpcr, x8",
            "msr fpsr, x9",
            "ldp q0, q1, [sp, #48]",
            "ldp q2, q3, [sp, #80]",
            "ldp q4, q5, [sp, #112]",
            "ldp q6, q7, [sp, #144]",
            "ldp q8, q9, [sp, #176]",
            "ldp q10, q11, [sp, #208]",
            "ldp q12, q13, [sp, #240]",
            "ldp q14, q15, [sp, #272]",
            "ldp q16, q17, [sp, #304]",
            "ldp q18, q19, [sp, #336]",
            "ldp q20, q21, [sp, #368]",
            "ldp q22, q23, [sp, #400]",
            "ldp q24, q25, [sp, #432]",
            "ldp q26, q27, [sp, #464]",
            "ldp q28, q29, [sp, #496]",
            "ldp q30, q31, [sp, #528]",
            "ldr x19, [sp, #16]",
            "ldr x29, [sp, #8]",
            "add sp, sp, #560",
            inout("x0") from => _, inout("x1") to => _, inout("x2") running.as_ptr() => _, inout("x3") member => _,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _, out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            clobber_abi("C"),
        );
    }
}

/// Prepares an empty stack so that the first switch to it calls `main`, which never returns. Returns its stack pointer.
///
/// # Safety
/// The 64 bytes below `top`, a multiple of 16, are writable and nobody's.
pub(in crate::teams) unsafe fn prepare(top: *mut u8, main: extern "C" fn() -> !) -> *mut u8 {
    // SAFETY: within the 64 bytes.
    unsafe {
        let words = top.cast::<usize>();
        // The switch leaves `sp` where it found the first word; it must be a multiple of 16 whenever it is used.
        let entry: unsafe extern "C" fn() = begin;
        words.sub(3).write(main as usize);
        words.sub(4).write(entry as usize);
        words.sub(4).cast()
    }
}

/// Calls the function whose address lies beside the stack pointer. The first frame of every member: nothing unwinds past it.
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined x30",
        "mov x29, xzr",
        "ldr x8, [sp, #8]",
        "blr x8",
        "brk #1",
        ".cfi_endproc",
    );
}
