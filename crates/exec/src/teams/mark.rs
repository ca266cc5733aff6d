//! Marker instructions: places of a program that a tracer of instructions recognises, without any effect.
//!
//! Eight bytes, `0F 1F 84 00 kk 45 54 53`: a long no-operation of x86-64 whose displacement is a kind and the letters "ETS". Kinds:
//! 01 an operation begins, 02 it ends, 03 a latch is entered, 04 it is left. On other machines these functions are empty.

/// A marker of one kind. No `nomem`: what is written before it stays before it.
macro_rules! marker {
    ($kind:literal) => {{
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a no-operation; its memory operand is not accessed.
        unsafe {
            core::arch::asm!(
                concat!(".byte 0x0f, 0x1f, 0x84, 0x00, ", $kind, ", 0x45, 0x54, 0x53"),
                options(nostack, preserves_flags)
            );
        }
    }};
}

/// An operation to be traced begins.
#[inline(always)]
pub fn begin() {
    marker!("0x01");
}

/// The operation to be traced ends.
#[inline(always)]
pub fn end() {
    marker!("0x02");
}

/// A latch is entered; see [`latch`](super::latch()).
#[inline(always)]
pub(super) fn latch_enter() {
    marker!("0x03");
}

/// A latch is left.
#[inline(always)]
pub(super) fn latch_leave() {
    marker!("0x04");
}
