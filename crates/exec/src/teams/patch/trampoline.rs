//! What a patched entry calls: it looks like nothing to the function and to its caller.

use super::Prefetch;
use crate::teams::point::{Point, pass_on};

/// The address patched entries call.
pub(super) fn address(prefetch: Prefetch) -> usize {
    match prefetch {
        Prefetch::Nothing => plain as *const () as usize,
        Prefetch::FirstArgument => prefetching as *const () as usize,
    }
}

/// All patched entries are this point to the switch.
static ENTRY: Point = Point::new("", 0, 0, false);

/// Whether it switches is decided there, as for every point.
extern "C" fn ctx() {
    pass_on(&ENTRY, std::ptr::null());
}

/// The same; the first argument of the function is still where it was, and so it is the first argument here.
extern "C" fn ctx_prefetching(first: *const u8) {
    pass_on(&ENTRY, first);
}

/// Keeps what a function may find in registers when it is entered, passes the CPU on, and returns into the function.
///
/// ```text
///  on entry: rsp ─► return into the function     aligned to 16: the function was entered at 8 modulo 16
///                   return to its caller
///  then:     9 registers (72 bytes), 8 vectors (128) and 8 of padding: aligned to 16 again for the call
/// ```
///
/// `rax` counts vector arguments of variadic functions, `r10` is the static chain of nested functions, `r11` is kept because
/// some thunks use it. Callee-saved registers and control words are the switch's business. Flags hold nothing at an entry.
macro_rules! trampoline {
    ($ctx:path) => {
        core::arch::naked_asm!(
            "push rax",
            "push rcx",
            "push rdx",
            "push rsi",
            "push rdi",
            "push r8",
            "push r9",
            "push r10",
            "push r11",
            "sub rsp, 136",
            "movaps [rsp], xmm0",
            "movaps [rsp + 16], xmm1",
            "movaps [rsp + 32], xmm2",
            "movaps [rsp + 48], xmm3",
            "movaps [rsp + 64], xmm4",
            "movaps [rsp + 80], xmm5",
            "movaps [rsp + 96], xmm6",
            "movaps [rsp + 112], xmm7",
            "call {ctx}",
            "movaps xmm0, [rsp]",
            "movaps xmm1, [rsp + 16]",
            "movaps xmm2, [rsp + 32]",
            "movaps xmm3, [rsp + 48]",
            "movaps xmm4, [rsp + 64]",
            "movaps xmm5, [rsp + 80]",
            "movaps xmm6, [rsp + 96]",
            "movaps xmm7, [rsp + 112]",
            "add rsp, 136",
            "pop r11",
            "pop r10",
            "pop r9",
            "pop r8",
            "pop rdi",
            "pop rsi",
            "pop rdx",
            "pop rcx",
            "pop rax",
            "ret",
            ctx = sym $ctx,
        )
    };
}

/// The trampoline that asks for nothing.
#[unsafe(naked)]
unsafe extern "C" fn plain() {
    trampoline!(ctx)
}

/// The one that asks for the line the first argument points to.
#[unsafe(naked)]
unsafe extern "C" fn prefetching() {
    trampoline!(ctx_prefetching)
}
