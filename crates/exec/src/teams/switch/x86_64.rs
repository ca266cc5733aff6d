//! The switch on x86-64.
//!
//! ```text
//!   a member that was left                      one that is prepared         grows down ▼
//!   sp + 24  what it had on its stack           sp + 24  the member itself
//!   sp + 16  rbx                                sp + 16  unused
//!   sp +  8  rbp                                sp +  8  main; a multiple of 16
//!   sp       where it goes on (label 2)         sp       begin
//! ```
//!
//! The compiler saves the other callee-saved registers where they are in use, as the switch says that it destroys them. `rbx` and
//! `rbp` cannot be named so. The second form keeps 264 bytes more between `rbp` and where it goes on: control words, then `xmm0` to
//! `xmm15`.

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
}

/// Prepares an empty stack so that the first switch to it calls `main`, which never returns. Returns its stack pointer.
///
/// # Safety
/// The 64 bytes below `top`, a multiple of 16, are writable and nobody's.
pub(in crate::teams) unsafe fn prepare(top: *mut u8, main: extern "C" fn() -> !) -> *mut u8 {
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
