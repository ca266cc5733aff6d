//! What happens when a member uses up its stack: it alone ends.
//!
//! Touching the guard pages raises SIGSEGV. The handler runs on the thread's signal stack; if the address lies below the running
//! member's stack it lets the thread go on at the scheduler instead, which reports the member as lost. Every other fault goes to
//! the handler that was there before: the standard library's still reports an overflow of a plain thread.
//!
//! The member's frames are forgotten. That is as if it slept for ever, which no memory safety may depend on: its stack stays, what
//! it locked stays locked. A member that overflows inside the system's allocator may take its lock along; so engines look at
//! [`stack_left`](super::stack_left) where an operation begins and fail in time.

use std::io;

/// Installs the handler, once for the process, and gives the calling thread a signal stack if it has none.
pub(super) fn install() -> io::Result<()> {
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(miri)
    ))]
    return linux::install();
    #[cfg(not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(miri)
    )))]
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]
mod linux {
    use std::io;
    use std::mem::{MaybeUninit, zeroed};
    use std::ptr::{null, null_mut};
    use std::sync::OnceLock;

    use crate::teams::local;
    use crate::teams::member::Member;

    /// Bytes of a signal stack: the kernel's frame with all vector registers, and a handler after ours.
    const SIGNAL_STACK_BYTES: usize = 64 << 10;

    /// What handled SIGSEGV before.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    pub fn install() -> io::Result<()> {
        signal_stack()?;
        static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
        let installed = INSTALLED.get_or_init(|| {
            let code = || io::Error::last_os_error().raw_os_error().unwrap_or(0);
            let mut before = MaybeUninit::uninit();
            // SAFETY: plain system calls on locals; the handler is async-signal-safe. `BEFORE` is set before the handler is in.
            unsafe {
                if libc::sigaction(libc::SIGSEGV, null(), before.as_mut_ptr()) != 0 {
                    return Err(code());
                }
                let _ = BEFORE.set(before.assume_init());
                let mut action: libc::sigaction = zeroed();
                let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
                action.sa_sigaction = handler as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                if libc::sigaction(libc::SIGSEGV, &action, null_mut()) != 0 {
                    return Err(code());
                }
            }
            Ok(())
        });
        installed.map_err(io::Error::from_raw_os_error)
    }

    /// Threads that the standard library made have a signal stack.
    fn signal_stack() -> io::Result<()> {
        // SAFETY: asks; the structure is plain data.
        let there = unsafe {
            let mut stack: libc::stack_t = zeroed();
            libc::sigaltstack(null(), &mut stack) == 0 && stack.ss_flags & libc::SS_DISABLE == 0
        };
        if there {
            return Ok(());
        }
        // Never given back: the thread may be in a handler whenever this could be done.
        let memory: &mut [MaybeUninit<u8>] = Box::leak(Box::new_uninit_slice(SIGNAL_STACK_BYTES));
        let stack = libc::stack_t {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: SIGNAL_STACK_BYTES,
        };
        // SAFETY: the memory stays.
        if unsafe { libc::sigaltstack(&stack, null_mut()) } == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel gives valid pointers. The running member and its core exist, and nothing else of this thread is going
        // on: the fault is at the member's own access below its stack, and the functions that change lists do not come so far down
        // (`STACK_RESERVE`).
        unsafe {
            let address = (*info).si_addr() as usize;
            let member: *mut Member = local::with(|local| local.member.get()).cast();
            if !member.is_null() && (*member).stack.guards(address) {
                let core = (*member).core;
                (*core).overflowed = member;
                let root: *mut u64 = (*core).root.sp.cast();
                local::with(|local| local.member.set(null_mut()));
                go_on_at(&mut (*context.cast::<libc::ucontext_t>()).uc_mcontext, root);
                return;
            }
            pass_on(signal, info, context);
        }
    }

    /// Lets the thread go on, when the handler returns, as a switch to this stack would: its first word is where.
    ///
    /// # Safety
    /// The stack was left by a switch and is the scheduler's own.
    #[cfg(target_arch = "x86_64")]
    unsafe fn go_on_at(registers: &mut libc::mcontext_t, stack: *mut u64) {
        /// The direction flag, clear at every function call.
        const DIRECTION: i64 = 1 << 10;
        // SAFETY: the word that the switch pushed last; it takes it off before it jumps.
        let (address, stack) = unsafe { (*stack, stack.add(1)) };
        let registers = &mut registers.gregs;
        registers[libc::REG_RIP as usize] = address as i64;
        registers[libc::REG_RSP as usize] = stack as i64;
        registers[libc::REG_EFL as usize] &= !DIRECTION;
    }

    /// The same. Here whoever goes on takes the word off, and no flag means anything between instructions of the switch.
    ///
    /// # Safety
    /// As above.
    #[cfg(target_arch = "aarch64")]
    unsafe fn go_on_at(registers: &mut libc::mcontext_t, stack: *mut u64) {
        // SAFETY: the word at the stack pointer that the switch left.
        registers.pc = unsafe { *stack };
        registers.sp = stack as u64;
    }

    /// Does what would have happened without this handler.
    ///
    /// # Safety
    /// In a handler, with its arguments.
    unsafe fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let before = BEFORE.get();
        let handler = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            // The access is repeated after this handler and ends the process.
            // SAFETY: plain data, a plain system call.
            unsafe {
                let mut action: libc::sigaction = zeroed();
                action.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &action, null_mut());
            }
        } else if before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0) {
            // SAFETY: registered as a handler with three arguments.
            unsafe {
                let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
        } else {
            // SAFETY: registered as a handler with one argument.
            unsafe {
                let handler: extern "C" fn(i32) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}
