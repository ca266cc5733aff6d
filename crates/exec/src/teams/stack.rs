//! [`Stack`]: the memory a member runs on, with pages below it that end the member that reaches them.
//!
//! ```text
//!   base            limit                                    head           top        end
//!    │  guard pages  │              stack, grows down  ◀────── │ the member  │  colour   │
//! ```
//!
//! Stacks begin at page boundaries, so without the colour the tops of all stacks, which is what runs in a team touch, would lie in
//! the same few sets of the level-one cache.

use std::io;

/// Bytes below a stack that may not be touched. Compiled Rust touches every page on its way; foreign code with larger frames
/// than this may step over it.
const GUARD_BYTES: usize = 64 << 10;
/// Lines of a page, over which the tops are spread.
const COLOURS: usize = 64;
/// Lines between the tops of one stack and the next: odd, so that all colours come up, and about what a team member touches.
const COLOUR_STEP: usize = 13;
const LINE_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
/// Bytes above the stack for the member itself; a multiple of a line.
pub(super) const HEAD_BYTES: usize = 384;
/// A smaller stack could not even report a panic.
pub(super) const STACK_BYTES_MIN: usize = 32 << 10;

/// Mapped memory; given back when dropped.
#[derive(Debug)]
pub(super) struct Stack {
    base: *mut u8,
    mapped: usize,
    top: usize,
}

impl Stack {
    /// A stack of at least `bytes`, the `number`th of its scheduler.
    pub fn new(bytes: usize, number: usize) -> io::Result<Stack> {
        let wanted = bytes.max(STACK_BYTES_MIN).checked_next_multiple_of(PAGE_BYTES);
        let mapped = wanted.and_then(|bytes| bytes.checked_add(GUARD_BYTES + 2 * PAGE_BYTES));
        let mapped = mapped.ok_or(io::ErrorKind::InvalidInput)?;
        let base = pages::reserve(mapped)?;
        let colour = number.wrapping_mul(COLOUR_STEP) % COLOURS;
        let stack = Stack {
            base,
            mapped,
            top: base as usize + mapped - colour * LINE_BYTES,
        };
        // SAFETY: within the mapping above, which nobody uses yet.
        unsafe { pages::open(base.add(GUARD_BYTES), mapped - GUARD_BYTES) }?;
        Ok(stack)
    }

    /// Where the stack begins and, above that, [`HEAD_BYTES`] lie for its member; a multiple of 64.
    pub fn head(&self) -> *mut u8 {
        self.base.with_addr(self.top - HEAD_BYTES)
    }

    /// The lowest address that may be used.
    pub fn limit(&self) -> usize {
        self.base as usize + GUARD_BYTES
    }

    /// Whether an address lies in the pages that end a member. Only the handler of overflows asks.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub fn guards(&self, address: usize) -> bool {
        (self.base as usize..self.limit()).contains(&address)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping made above; whoever drops a stack says that nothing runs on it and nothing on it is used.
        unsafe { pages::release(self.base, self.mapped) };
    }
}

/// The system's part. All sizes and addresses are multiples of 4 KiB; where pages are larger the system rounds the end of a range up,
/// and the guard's 64 KiB are a multiple of every page there is.
#[cfg(target_os = "linux")]
mod pages {
    use std::io;
    use std::ptr::null_mut;

    /// Addresses that nobody may touch yet.
    pub(super) fn reserve(bytes: usize) -> io::Result<*mut u8> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: a fresh mapping at an address the system chooses.
        let base = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(base.cast())
    }

    /// Lets a part of them be used.
    ///
    /// # Safety
    /// It is part of a mapping of the caller's that nobody uses yet.
    pub(super) unsafe fn open(start: *mut u8, bytes: usize) -> io::Result<()> {
        // SAFETY: as the caller says.
        match unsafe { libc::mprotect(start.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Gives them back.
    ///
    /// # Safety
    /// It is a whole mapping of the caller's that nobody uses any more.
    pub(super) unsafe fn release(base: *mut u8, bytes: usize) {
        // SAFETY: as the caller says.
        unsafe { libc::munmap(base.cast(), bytes) };
    }
}

/// Where there are no schedulers there are no stacks.
#[cfg(not(target_os = "linux"))]
mod pages {
    use std::io;

    pub(super) fn reserve(_bytes: usize) -> io::Result<*mut u8> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// # Safety
    /// None is needed.
    pub(super) unsafe fn open(_start: *mut u8, _bytes: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// # Safety
    /// None is needed.
    pub(super) unsafe fn release(_base: *mut u8, _bytes: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "Miri maps no protected pages")]
    fn stacks_hold_what_was_asked_for_and_spread_their_tops() {
        let stacks: Vec<Stack> = (0..16)
            .map(|number| Stack::new(100_000, number).unwrap())
            .collect();
        let mut sets = HashSet::new();
        for stack in &stacks {
            assert!(stack.head() as usize - stack.limit() >= 100_000, "{stack:?}");
            assert_eq!(stack.head() as usize % LINE_BYTES, 0);
            assert!(stack.guards(stack.limit() - 1) && !stack.guards(stack.limit()));
            sets.insert(stack.head() as usize % PAGE_BYTES / LINE_BYTES);
            // SAFETY: the first and last word of a stack nobody runs on.
            unsafe {
                stack.head().sub(8).cast::<u64>().write(7);
                stack.base.add(GUARD_BYTES).cast::<u64>().write(7);
            }
        }
        assert_eq!(sets.len(), 16);
        assert!(Stack::new(usize::MAX - 5000, 0).is_err());
        assert!(Stack::new(1 << 60, 0).is_err());
    }
}
