//! The switch: the processor goes from one member to another by exchanging stacks.
//!
//! What is pushed on the stack that is left, from above: rbx, rbp, the address at which it goes on; the compiler saves the other
//! callee-saved registers where they are in use, as the switch says that it destroys them. The new stack's address is jumped to
//! through a register: the return predictor keeps the callers of members that run in step, which are the same for all of them,
//! and all members of a team resume at one address, so that the jump is predicted too.
//!
//! Measured with `examples/teams_switch.rs` (Sapphire Rapids, busy machine, CPU ns a turn: loop, point and switch) for teams of 2, 4,
//! 10, 16, 32 and 64: 3.6, 3.5, 3.5, 3.7, 3.9, 4.3; the same turns through corosensei 0.3.4, whose switch is compiled into the loop but
//! goes back to a caller each time: 2.7, 3.5, 4.3, 5.1, 6.4, 7.1. So ours is kept: teams have about ten members. A point that is on
//! costs 1.7 on a plain thread, one that is off 0.05; an [`operation`](super::operation()) 12 to 17.
//!
//! The second form (7.3 a turn) also exchanges the control words of the floating-point units and saves the vector registers, as a switch
//! must that can come anywhere (paper 003, Figs. 6 and 7, "float on"); at a call nothing in them is live, so the first form may
//! leave that out. All members then share the control words.

use super::ring::Node;
use std::cell::Cell;

/// Leaves `from`, which goes on when somebody switches to it, for `to`. `running` becomes `member` once nothing can fail any more.
///
/// # Safety
/// The caller runs on the stack of `from`. `to` was left by a switch or prepared by [`prepare`]. Both nodes and `running` are valid.
#[inline(always)]
pub(super) unsafe fn switch(from: *mut Node, to: *mut Node, running: &Cell<*mut Node>, member: *mut Node) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: everything the ABI keeps across a call is saved above or listed as destroyed; the stack is as it was when the switch
    // returns here. `sp` is the first field of a node.
    unsafe {
        core::arch::asm!(
            "push rbx",
            "push rbp",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rdi], rsp",
            "mov [rdx], rcx",
            "mov rsp, [rsi]",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbp",
            "pop rbx",
            inout("rdi") from => _, inout("rsi") to => _, inout("rdx") running.as_ptr() => _, inout("rcx") member => _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("C"),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (from, to, running, member);
        unreachable!("no scheduler can be made here");
    }
}

/// [`switch`] that also exchanges floating-point state.
///
/// # Safety
/// As for [`switch`].
#[inline(never)]
pub(super) unsafe fn switch_float(
    from: *mut Node,
    to: *mut Node,
    running: &Cell<*mut Node>,
    member: *mut Node,
) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in `switch`; 264 bytes below the pushed registers hold the floating-point state.
    unsafe {
        core::arch::asm!(
            "push rbx",
            "push rbp",
            "sub rsp, 264",
            "stmxcsr [rsp]",
            "fnstcw [rsp + 4]",
            "movups [rsp + 8], xmm0",
            "movups [rsp + 24], xmm1",
            "movups [rsp + 40], xmm2",
            "movups [rsp + 56], xmm3",
            "movups [rsp + 72], xmm4",
            "movups [rsp + 88], xmm5",
            "movups [rsp + 104], xmm6",
            "movups [rsp + 120], xmm7",
            "movups [rsp + 136], xmm8",
            "movups [rsp + 152], xmm9",
            "movups [rsp + 168], xmm10",
            "movups [rsp + 184], xmm11",
            "movups [rsp + 200], xmm12",
            "movups [rsp + 216], xmm13",
            "movups [rsp + 232], xmm14",
            "movups [rsp + 248], xmm15",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rdi], rsp",
            "mov [rdx], rcx",
            "mov rsp, [rsi]",
            "pop rax",
            "jmp rax",
            "2:",
            "ldmxcsr [rsp]",
            "fldcw [rsp + 4]",
            "movups xmm0, [rsp + 8]",
            "movups xmm1, [rsp + 24]",
            "movups xmm2, [rsp + 40]",
            "movups xmm3, [rsp + 56]",
            "movups xmm4, [rsp + 72]",
            "movups xmm5, [rsp + 88]",
            "movups xmm6, [rsp + 104]",
            "movups xmm7, [rsp + 120]",
            "movups xmm8, [rsp + 136]",
            "movups xmm9, [rsp + 152]",
            "movups xmm10, [rsp + 168]",
            "movups xmm11, [rsp + 184]",
            "movups xmm12, [rsp + 200]",
            "movups xmm13, [rsp + 216]",
            "movups xmm14, [rsp + 232]",
            "movups xmm15, [rsp + 248]",
            "add rsp, 264",
            "pop rbp",
            "pop rbx",
            inout("rdi") from => _, inout("rsi") to => _, inout("rdx") running.as_ptr() => _, inout("rcx") member => _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("C"),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as the caller says.
    unsafe {
        switch(from, to, running, member);
    }
}

/// Prepares an empty stack so that the first switch to it calls `main`, which never returns. Returns its stack pointer.
///
/// # Safety
/// The 64 bytes below `top`, a multiple of 16, are writable and nobody's.
pub(super) unsafe fn prepare(top: *mut u8, main: extern "C" fn() -> !) -> *mut u8 {
    // SAFETY: within the 64 bytes.
    unsafe {
        let words = top.cast::<usize>();
        // The switch takes the first word off; `begin` finds the second at its stack pointer, a multiple of 16.
        let entry: unsafe extern "C" fn() = begin;
        words.sub(2).write(main as usize);
        words.sub(3).write(entry as usize);
        words.sub(3).cast()
    }
}

/// Calls the function whose address lies at the stack pointer. The first frame of every member: nothing unwinds past it.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "xor ebp, ebp",
        "call [rsp]",
        "ud2",
        ".cfi_endproc",
    );
}

#[cfg(not(target_arch = "x86_64"))]
unsafe extern "C" fn begin() {}
