//! The system calls of a tracer, made safe: each acts on a thread that this thread traces, or fails with the system's error.
//!
//! The kernel ties a traced thread to the thread that traces it, so all of these must be called from one thread; from any other they
//! fail (ESRCH).

use std::io;
use std::mem;
use std::ptr;

use libc::{c_int, c_long, c_void, pid_t, user_regs_struct};

/// What a traced thread reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// It stands before a signal is delivered to it, which includes breakpoints and steps (SIGTRAP).
    Signal(c_int),
    /// It stands at an event of ptrace (`PTRACE_EVENT_*`), with the signal that goes with it.
    Event(c_int, c_int),
    /// It exited.
    Exited(c_int),
    /// A signal ended it.
    Killed(c_int),
}

/// What is reported beside signals.
const OPTIONS: c_int = libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC;

fn call(request: c_int, thread: u32, address: usize, data: usize) -> io::Result<c_long> {
    // SAFETY: for the requests of this file (seize, interrupt, listen, continue, step, detach) both words are numbers, not pointers,
    // or pointers that the callers below keep valid for the call and of the type the request writes or reads.
    let answer = unsafe {
        libc::ptrace(
            request as _,
            thread as pid_t,
            address as *mut c_void,
            data as *mut c_void,
        )
    };
    if answer == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(answer)
}

/// Traces a running thread. A program that must not outlive its tracer (breakpoints would kill it later) dies with it.
pub(super) fn seize(thread: u32, dies_with_tracer: bool) -> io::Result<()> {
    let exit_kill = if dies_with_tracer {
        libc::PTRACE_O_EXITKILL
    } else {
        0
    };
    call(libc::PTRACE_SEIZE as _, thread, 0, (OPTIONS | exit_kill) as usize).map(drop)
}

/// In a child before it becomes the program: lets its parent trace it.
pub(super) fn trace_me() -> io::Result<()> {
    call(libc::PTRACE_TRACEME as _, 0, 0, 0).map(drop)
}

/// Asks a running thread to stop.
pub(super) fn interrupt(thread: u32) -> io::Result<()> {
    call(libc::PTRACE_INTERRUPT as _, thread, 0, 0).map(drop)
}

/// Lets a stopped thread run, delivering `signal` if not 0.
pub(super) fn resume(thread: u32, signal: c_int) -> io::Result<()> {
    call(libc::PTRACE_CONT as _, thread, 0, signal as usize).map(drop)
}

/// Lets a stopped thread run one instruction, delivering `signal` first if not 0.
pub(super) fn step(thread: u32, signal: c_int) -> io::Result<()> {
    call(libc::PTRACE_SINGLESTEP as _, thread, 0, signal as usize).map(drop)
}

/// Leaves a thread stopped for its program's own reasons, but hears of what ends that.
pub(super) fn listen(thread: u32) -> io::Result<()> {
    call(libc::PTRACE_LISTEN as _, thread, 0, 0).map(drop)
}

/// Lets go of a stopped thread, delivering `signal` if not 0.
pub(super) fn detach(thread: u32, signal: c_int) -> io::Result<()> {
    call(libc::PTRACE_DETACH as _, thread, 0, signal as usize).map(drop)
}

/// The registers of a stopped thread.
pub(super) fn registers(thread: u32) -> io::Result<user_regs_struct> {
    // SAFETY: all zeroes is a value of this structure of integers.
    let mut registers: user_regs_struct = unsafe { mem::zeroed() };
    call(
        libc::PTRACE_GETREGS as _,
        thread,
        0,
        ptr::from_mut(&mut registers) as usize,
    )?;
    Ok(registers)
}

/// Sets the registers of a stopped thread.
pub(super) fn set_registers(thread: u32, registers: &user_regs_struct) -> io::Result<()> {
    call(
        libc::PTRACE_SETREGS as _,
        thread,
        0,
        ptr::from_ref(registers) as usize,
    )
    .map(drop)
}

/// The code of the signal a stopped thread reports (`si_code`).
pub(super) fn signal_code(thread: u32) -> io::Result<c_int> {
    // SAFETY: all zeroes is a value of this structure of integers.
    let mut information: libc::siginfo_t = unsafe { mem::zeroed() };
    call(
        libc::PTRACE_GETSIGINFO as _,
        thread,
        0,
        ptr::from_mut(&mut information) as usize,
    )?;
    Ok(information.si_code)
}

/// The number that goes with an event a thread reports: the new thread's, for one that made one.
pub(super) fn event_message(thread: u32) -> io::Result<u32> {
    let mut message: libc::c_ulong = 0;
    call(
        libc::PTRACE_GETEVENTMSG as _,
        thread,
        0,
        ptr::from_mut(&mut message) as usize,
    )?;
    Ok(message as u32)
}

/// What a thread reports next: of any thread that this thread traces or started, or of one. `None` where nothing is to be reported
/// and `block` is false, or a signal's handler ran meanwhile.
pub(super) fn wait(thread: Option<u32>, block: bool) -> io::Result<Option<(u32, Report)>> {
    let mut status = 0;
    let whose = thread.map_or(-1, |thread| thread as pid_t);
    let flags = libc::__WALL | libc::__WNOTHREAD | if block { 0 } else { libc::WNOHANG };
    // SAFETY: `status` is valid for the call.
    let answer = unsafe { libc::waitpid(whose, &mut status, flags) };
    if answer == -1 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::EINTR) {
            return Ok(None);
        }
        return Err(error);
    }
    if answer == 0 {
        return Ok(None);
    }
    let report = if libc::WIFEXITED(status) {
        Report::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Report::Killed(libc::WTERMSIG(status))
    } else {
        match status >> 16 {
            0 => Report::Signal(libc::WSTOPSIG(status)),
            event => Report::Event(event, libc::WSTOPSIG(status)),
        }
    };
    Ok(Some((answer as u32, report)))
}

/// Waits for a child that stops although nobody traces it, or ends.
pub(super) fn wait_stopped(process: u32) -> io::Result<bool> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid for the call.
        let answer = unsafe { libc::waitpid(process as pid_t, &mut status, libc::WUNTRACED) };
        if answer != -1 {
            return Ok(libc::WIFSTOPPED(status));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
}

/// Sends a signal to a process.
pub(super) fn kill(process: u32, signal: c_int) -> io::Result<()> {
    // SAFETY: no memory is involved.
    if unsafe { libc::kill(process as pid_t, signal) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Whether two processes share one memory. When the kernel does not say: no, which is what a fork makes.
pub(super) fn share_memory(a: u32, b: u32) -> bool {
    const KCMP_VM: c_long = 1;
    // SAFETY: numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, c_long::from(a), c_long::from(b), KCMP_VM, 0, 0) == 0 }
}

/// In a child before it becomes the program: the same addresses in every run, as far as the system lets us.
pub(super) fn same_addresses_every_run() {
    // SAFETY: numbers only; a refusal leaves the addresses random, which harms nothing.
    unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
}
