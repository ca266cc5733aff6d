//! A traced process: its threads, what they report, and letting go of it unharmed.
//!
//! ```text
//!            seize, clone              stops for a signal, an event, a breakpoint
//! Expected ───────────► Running ◄────────────────────────────────────────────► Stopped
//!                          │  resume (with the signal, so that the program gets what is its own)
//!                          └─► gone: it exited, or was detached
//! ```
//!
//! Whatever a thread reports that is the program's own business (signals, new threads, forks, stops by its terminal) is passed on
//! as if nobody were looking. A forked copy of the process gets its code back as it was and is let go; one that shares the memory
//! (vfork) stays traced until it has become another program.
//!
//! Not here: stepping, and what a breakpoint means.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libc::c_int;

use super::breakpoints::Breakpoints;
use super::ptrace::{self, Report};
use super::refusal::status;
use crate::trace::{After, ProgramEnd, TraceError};

/// `si_code` of a SIGTRAP that an `int3` raised.
const SI_KERNEL: c_int = 0x80;
/// `si_code` of a SIGTRAP behind a system call that was stepped.
const TRAP_BRKPT: c_int = 1;
/// `si_code` of a SIGTRAP behind any other instruction that was stepped.
const TRAP_TRACE: c_int = 2;
/// Times a report is looked for at once before sleeping between looks.
const LOOKS_AT_ONCE: u32 = 300;
/// Longest sleep between two looks.
const SLEEP_MAX: Duration = Duration::from_millis(2);
/// How long threads are given to stop when the process is let go of. One that sleeps uninterruptibly in the kernel takes its time.
const STOP_MAX: Duration = Duration::from_secs(5);
/// How long a thread that is stepped may wait before those held for it are let go. Unmeasured; far longer than a system call takes.
const HELD_MAX: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The kernel traces it already, but it has not reported yet.
    Expected,
    Running,
    Stopped,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    state: State,
    /// The signal it stopped for, if that is the program's own.
    signal: c_int,
    /// It stopped with its process, as a stop signal wants, and is not to run on before that ends.
    at_rest: bool,
    /// It was stepped since it last ran freely.
    stepped: bool,
    /// Of another process that shares this one's memory for now.
    guest: bool,
}

impl Thread {
    fn new(state: State, guest: bool) -> Self {
        Self {
            state,
            signal: 0,
            at_rest: false,
            stepped: false,
            guest,
        }
    }
}

/// When to give up.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    pub until: Option<(Instant, Duration)>,
    pub stop: Option<Arc<AtomicBool>>,
}

/// What a step of one thread led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stepped {
    /// It stands at the next instruction.
    Done,
    /// It stands before a signal is delivered to it.
    Signal(c_int),
    /// The thread, or the whole program, has ended.
    Ended(ProgramEnd),
    /// The program became another one.
    Replaced,
}

/// A process traced by this thread.
pub(super) struct Process {
    pub id: u32,
    /// The handle of a process that this program started.
    pub child: Option<Child>,
    pub breakpoints: Breakpoints,
    /// Threads that stand at a breakpoint, in the order they came there.
    pub hits: VecDeque<u32>,
    /// How the program ended, once it has.
    pub ended: Option<ProgramEnd>,
    /// Set when the program became another one (exec); its first thread then stands at that event.
    pub replaced: bool,
    /// How often the tracer's own limits were exceeded is asked of these.
    limits: Limits,
    /// Threads that stop for any reason stay stopped, except this one.
    held_for: Option<u32>,
    /// All threads that stop stay stopped.
    letting_go: bool,
    threads: BTreeMap<u32, Thread>,
}

impl Process {
    /// A process whose first thread is traced and stands still.
    pub fn stopped(id: u32, child: Option<Child>, limits: Limits) -> io::Result<Self> {
        let thread = Thread::new(State::Stopped, false);
        Ok(Self {
            id,
            child,
            breakpoints: Breakpoints::new(id)?,
            hits: VecDeque::new(),
            ended: None,
            replaced: false,
            limits,
            held_for: None,
            letting_go: false,
            threads: BTreeMap::from([(id, thread)]),
        })
    }

    /// Takes up a thread that was seized and is to report that it stopped.
    pub fn expect(&mut self, thread: u32) {
        self.threads
            .entry(thread)
            .or_insert(Thread::new(State::Expected, false));
    }

    /// A thread taken for stopped runs, and is to report that it stopped.
    pub fn expect_again(&mut self, thread: u32) {
        if let Some(known) = self.threads.get_mut(&thread) {
            known.state = State::Running;
        }
    }

    /// Whether a thread belongs to another process that shares this one's memory for now.
    pub fn is_guest(&self, thread: u32) -> bool {
        self.threads.get(&thread).is_some_and(|known| known.guest)
    }

    /// Whether a thread is known.
    pub fn knows(&self, thread: u32) -> bool {
        self.threads.contains_key(&thread)
    }

    /// Says whether time is up or somebody asked to give up.
    pub fn check_limits(&self) -> Result<(), TraceError> {
        // Relaxed: nothing is read that the other thread wrote before; seeing it a moment later is fine.
        if let Some(stop) = &self.limits.stop
            && stop.load(Ordering::Relaxed)
        {
            return Err(TraceError::Interrupted);
        }
        match self.limits.until {
            Some((until, time_max)) if Instant::now() >= until => Err(TraceError::TimedOut {
                time_max,
                seen: 0,
                inside: None,
            }),
            _ => Ok(()),
        }
    }

    /// The next report of any thread. Looks for it again and again, sleeping longer and longer, so that limits are kept.
    fn report(&self) -> Result<(u32, Report), TraceError> {
        loop {
            if let Some(report) = self.report_until(None)? {
                return Ok(report);
            }
        }
    }

    /// The next report; `None` once `until` has passed.
    fn report_until(&self, until: Option<Instant>) -> Result<Option<(u32, Report)>, TraceError> {
        let mut looks = 0_u32;
        loop {
            match ptrace::wait(None, false) {
                Ok(Some(report)) => return Ok(Some(report)),
                Ok(None) => {}
                Err(error) => return Err(TraceError::system("wait for the program", &error)),
            }
            if looks < LOOKS_AT_ONCE {
                thread::yield_now();
            } else {
                self.check_limits()?;
                if until.is_some_and(|until| Instant::now() >= until) {
                    return Ok(None);
                }
                let sleep = Duration::from_micros(20) * (looks - LOOKS_AT_ONCE + 1);
                thread::sleep(sleep.min(SLEEP_MAX));
            }
            looks = looks.saturating_add(1);
        }
    }

    /// Waits until a thread stands at a breakpoint, the program ended, or it became another one.
    pub fn run(&mut self) -> Result<Option<u32>, TraceError> {
        loop {
            if let Some(thread) = self.hits.pop_front() {
                return Ok(Some(thread));
            }
            if self.ended.is_some() || self.replaced {
                return Ok(None);
            }
            let (thread, report) = self.report()?;
            self.react(thread, report)?;
        }
    }

    /// Steps a stopped thread by one instruction, delivering `signal` first if not 0. `waits`: the instruction may wait for others.
    pub fn step(&mut self, thread: u32, signal: c_int, waits: bool) -> Result<Stepped, TraceError> {
        if let Some(known) = self.threads.get_mut(&thread) {
            known.stepped = true;
        }
        let mut resume = ptrace::step(thread, signal);
        loop {
            if let Err(error) = resume
                && error.raw_os_error() != Some(libc::ESRCH)
            {
                return Err(TraceError::system("step the program", &error));
            }
            // A thread that was killed meanwhile (ESRCH) still reports that.
            let (who, report) = if waits {
                self.report_letting_go(thread)?
            } else {
                match ptrace::wait(None, true) {
                    Ok(Some(report)) => report,
                    Ok(None) => {
                        self.check_limits()?;
                        resume = Ok(());
                        continue;
                    }
                    Err(error) => return Err(TraceError::system("wait for the program", &error)),
                }
            };
            resume = Ok(());
            if who != thread {
                self.react(who, report)?;
                if self.replaced {
                    return Ok(Stepped::Replaced);
                }
                continue;
            }
            match report {
                Report::Signal(libc::SIGTRAP) => return Ok(Stepped::Done),
                Report::Signal(signal) => return Ok(Stepped::Signal(signal)),
                Report::Event(libc::PTRACE_EVENT_EXEC, _) => {
                    self.react(who, report)?;
                    return Ok(Stepped::Replaced);
                }
                Report::Event(libc::PTRACE_EVENT_STOP, signal) if is_stop(signal) => {
                    resume = ptrace::listen(thread);
                }
                Report::Event(event, _) => {
                    if event != libc::PTRACE_EVENT_STOP {
                        self.note_child(thread);
                    }
                    resume = ptrace::step(thread, 0);
                }
                Report::Exited(code) => {
                    self.react(who, report)?;
                    return Ok(Stepped::Ended(ProgramEnd::Exited(code)));
                }
                Report::Killed(signal) => {
                    self.react(who, report)?;
                    return Ok(Stepped::Ended(ProgramEnd::Killed(signal)));
                }
            }
        }
    }

    /// The next report. If others are held and none comes, the stepped thread may wait for one of them: they are let go then.
    fn report_letting_go(&mut self, stepped: u32) -> Result<(u32, Report), TraceError> {
        if self.held_for.is_some() {
            if let Some(report) = self.report_until(Some(Instant::now() + HELD_MAX))? {
                return Ok(report);
            }
            self.resume_hits()?;
            self.resume_all_but(stepped)?;
        }
        self.report()
    }

    /// A thread made another, or a process, which the kernel traces too.
    fn note_child(&mut self, thread: u32) {
        if let Ok(child) = ptrace::event_message(thread) {
            self.expect(child);
        }
    }

    /// Lets a stopped thread run on at full speed, with the signal it stopped for.
    pub fn resume(&mut self, thread: u32) -> Result<(), TraceError> {
        let Some(known) = self.threads.get_mut(&thread) else {
            return Ok(());
        };
        let signal = std::mem::take(&mut known.signal);
        known.state = State::Running;
        if std::mem::take(&mut known.stepped) {
            forget_steps(thread);
        }
        if std::mem::take(&mut known.at_rest) {
            return gone_is_fine(ptrace::listen(thread), "leave the program stopped");
        }
        gone_is_fine(ptrace::resume(thread, signal), "let the program run")
    }

    /// Says which signal a stopped thread is to get when it runs on.
    pub fn set_signal(&mut self, thread: u32, signal: c_int) {
        if let Some(known) = self.threads.get_mut(&thread) {
            known.signal = signal;
        }
    }

    /// Lets all stopped threads run, except those at a breakpoint.
    pub fn resume_all(&mut self) -> Result<(), TraceError> {
        self.resume_all_but(0)
    }

    /// As [`Process::resume_all`], without the thread that is stepped (0: none is).
    fn resume_all_but(&mut self, stepped: u32) -> Result<(), TraceError> {
        self.held_for = None;
        let stopped: Vec<u32> = self
            .threads
            .iter()
            .filter(|&(&thread, known)| {
                thread != stepped && known.state == State::Stopped && !self.hits.contains(&thread)
            })
            .map(|(&thread, _)| thread)
            .collect();
        stopped.into_iter().try_for_each(|thread| self.resume(thread))
    }

    /// Stops all threads but one, and keeps them and new ones stopped until [`Process::resume_all`].
    pub fn hold_others(&mut self, thread: u32) -> Result<(), TraceError> {
        self.held_for = Some(thread);
        self.stop_all(|who| who != thread)
    }

    /// Lets threads that came to a breakpoint, which is gone now, run on.
    pub fn resume_hits(&mut self) -> Result<(), TraceError> {
        std::mem::take(&mut self.hits)
            .into_iter()
            .try_for_each(|thread| self.resume(thread))
    }

    /// Stops the threads that run; waits until those and the ones expected have stopped or ended.
    pub fn stop_all(&mut self, which: impl Fn(u32) -> bool) -> Result<(), TraceError> {
        let stop = |threads: &BTreeMap<u32, Thread>| -> Vec<u32> {
            threads
                .iter()
                .filter(|(who, known)| known.state != State::Stopped && which(**who))
                .map(|(&who, _)| who)
                .collect()
        };
        for thread in stop(&self.threads) {
            // One that has just been created stops by itself; one that ends says so.
            let _ = ptrace::interrupt(thread);
        }
        self.react_while(|process| !stop(&process.threads).is_empty())
    }

    /// Passes on reports as long as `waits` says so and the program has not ended, for [`STOP_MAX`] at most.
    fn react_while(&mut self, waits: impl Fn(&Self) -> bool) -> Result<(), TraceError> {
        let until = Instant::now() + STOP_MAX;
        while waits(self) && self.ended.is_none() {
            match ptrace::wait(None, false) {
                Ok(Some((thread, report))) => self.react(thread, report)?,
                Ok(None) if Instant::now() >= until => break,
                Ok(None) => thread::sleep(Duration::from_micros(50)),
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => break,
                Err(error) => return Err(TraceError::system("wait for the program", &error)),
            }
        }
        Ok(())
    }

    /// Takes the SIGTRAPs of stopped threads that have not been delivered: a thread may have run into a breakpoint, or done its step,
    /// and be told to stop before it could report that. Nobody else would take the signal, and it ends a program.
    fn take_traps(&mut self) -> Result<(), TraceError> {
        for thread in self.threads.keys().copied().collect::<Vec<_>>() {
            if !trap_is_pending(thread) {
                continue;
            }
            // It runs no instruction before it reports the signal.
            gone_is_fine(ptrace::resume(thread, 0), "take a signal")?;
            self.expect_again(thread);
            self.react_while(|process| {
                let known = process.threads.get(&thread);
                known.is_some_and(|known| known.state != State::Stopped)
            })?;
        }
        Ok(())
    }

    /// Passes on what a thread reports, or notes that it stands at a breakpoint.
    fn react(&mut self, thread: u32, report: Report) -> Result<(), TraceError> {
        match report {
            Report::Exited(code) => self.gone(thread, ProgramEnd::Exited(code)),
            Report::Killed(signal) => self.gone(thread, ProgramEnd::Killed(signal)),
            Report::Event(libc::PTRACE_EVENT_EXEC, _) => return self.executed(thread),
            Report::Event(libc::PTRACE_EVENT_STOP, signal) => {
                let known = self.threads.get(&thread).copied();
                if known.is_none_or(|known| known.state == State::Expected) {
                    return self.adopt(thread);
                }
                if let Some(known) = self.threads.get_mut(&thread) {
                    known.at_rest = is_stop(signal);
                }
                return self.stopped_for(thread, 0);
            }
            Report::Event(..) => {
                self.note_child(thread);
                return self.stopped_for(thread, 0);
            }
            Report::Signal(libc::SIGTRAP) => return self.trapped(thread),
            Report::Signal(signal) => return self.stopped_for(thread, signal),
        }
        Ok(())
    }

    /// A thread stopped for something that is the program's own business.
    fn stopped_for(&mut self, thread: u32, signal: c_int) -> Result<(), TraceError> {
        let Some(known) = self.threads.get_mut(&thread) else {
            return Ok(());
        };
        known.state = State::Stopped;
        known.signal = signal;
        if self.letting_go || self.held_for.is_some_and(|except| except != thread) {
            return Ok(());
        }
        self.resume(thread)
    }

    /// A thread got a SIGTRAP: from a breakpoint of ours, or the program's own.
    fn trapped(&mut self, thread: u32) -> Result<(), TraceError> {
        let code = match ptrace::signal_code(thread) {
            Ok(code) => code,
            Err(error) => return gone_is_fine(Err(error), "read a signal"),
        };
        if code != SI_KERNEL {
            let stepped = self.threads.get(&thread).is_some_and(|known| known.stepped);
            let own = stepped && matches!(code, TRAP_BRKPT | TRAP_TRACE);
            return self.stopped_for(thread, if own { 0 } else { libc::SIGTRAP });
        }
        let mut registers = match ptrace::registers(thread) {
            Ok(registers) => registers,
            Err(error) => return gone_is_fine(Err(error), "read registers"),
        };
        let address = registers.rip.wrapping_sub(1);
        if !self.breakpoints.is_known(address) {
            return self.stopped_for(thread, libc::SIGTRAP);
        }
        // It runs the instruction that belongs there next.
        registers.rip = address;
        gone_is_fine(ptrace::set_registers(thread, &registers), "set registers")?;
        if !self.breakpoints.is_planted(address) {
            return self.stopped_for(thread, 0);
        }
        if let Some(known) = self.threads.get_mut(&thread) {
            known.state = State::Stopped;
            known.signal = 0;
            self.hits.push_back(thread);
        }
        Ok(())
    }

    /// A thread reported for the first time: one of the process, or of a process it made.
    fn adopt(&mut self, thread: u32) -> Result<(), TraceError> {
        let group = thread_group(thread);
        let guest = group != Some(self.id);
        if guest && !ptrace::share_memory(self.id, thread) {
            self.breakpoints.lift_from_copy(thread);
            self.threads.remove(&thread);
            return gone_is_fine(ptrace::detach(thread, 0), "let go of a forked process");
        }
        let new = Thread::new(State::Stopped, guest);
        self.threads.insert(thread, new);
        self.stopped_for(thread, 0)
    }

    fn executed(&mut self, thread: u32) -> Result<(), TraceError> {
        if self.threads.get(&thread).is_some_and(|known| known.guest) {
            self.threads.remove(&thread);
            return gone_is_fine(ptrace::detach(thread, 0), "let go of a forked process");
        }
        // Only the thread that became the program is left, under the process's number.
        self.threads.retain(|_, known| known.guest);
        let only = Thread::new(State::Stopped, false);
        self.threads.insert(self.id, only);
        self.hits.clear();
        self.held_for = None;
        self.replaced = true;
        self.breakpoints = Breakpoints::new(self.id)
            .map_err(|error| TraceError::system("open the program's memory", &error))?;
        Ok(())
    }

    /// A thread is no more. The first thread of a process reports last.
    fn gone(&mut self, thread: u32, end: ProgramEnd) {
        self.threads.remove(&thread);
        self.hits.retain(|who| *who != thread);
        if thread == self.id {
            self.ended = Some(end);
        }
    }

    /// Lets go of the process: no breakpoint is left, no thread stands still because of us. Does nothing the second time.
    pub fn let_go(&mut self, after: After) {
        if self.letting_go {
            return;
        }
        self.letting_go = true;
        self.breakpoints.lift_all();
        if self.ended.is_some() {
            return;
        }
        if after == After::Kill {
            let _ = ptrace::kill(self.id, libc::SIGKILL);
            // Reaped here, where reports of its threads arrive too; a bounded wait, should the system be stuck.
            let until = Instant::now() + STOP_MAX;
            while self.ended.is_none() && Instant::now() < until {
                match ptrace::wait(None, false) {
                    Ok(Some((thread, Report::Exited(code)))) => self.gone(thread, ProgramEnd::Exited(code)),
                    Ok(Some((thread, Report::Killed(signal)))) => {
                        self.gone(thread, ProgramEnd::Killed(signal))
                    }
                    Ok(Some((thread, _))) if self.threads.get(&thread).is_none_or(|known| known.guest) => {
                        let _ = self.react(thread, Report::Event(libc::PTRACE_EVENT_STOP, 0));
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => thread::sleep(Duration::from_micros(50)),
                    Err(_) => return,
                }
            }
            return;
        }
        let _ = self.stop_all(|_| true).and_then(|()| self.take_traps());
        for (thread, known) in std::mem::take(&mut self.threads) {
            if known.stepped {
                forget_steps(thread);
            }
            let _ = ptrace::detach(thread, known.signal);
        }
    }
}

/// Clears the flag that makes the processor step. The kernel does so itself, unless the program loaded its flags meanwhile (`popf`):
/// it then takes the flag for the program's own.
fn forget_steps(thread: u32) {
    const TRAP_FLAG: u64 = 1 << 8;
    if let Ok(mut registers) = ptrace::registers(thread)
        && registers.eflags & TRAP_FLAG != 0
    {
        registers.eflags &= !TRAP_FLAG;
        // A thread that is gone has no flags either.
        let _ = ptrace::set_registers(thread, &registers);
    }
}

/// Whether a signal stops a process.
fn is_stop(signal: c_int) -> bool {
    matches!(
        signal,
        libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU
    )
}

/// The process a thread belongs to.
fn thread_group(thread: u32) -> Option<u32> {
    status(&thread.to_string(), "Tgid")?.parse().ok()
}

/// Whether a stopped thread has a SIGTRAP of its own that has not been delivered.
fn trap_is_pending(thread: u32) -> bool {
    let pending = status(&thread.to_string(), "SigPnd");
    let pending = pending.and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    pending.is_some_and(|mask| mask & 1 << (libc::SIGTRAP - 1) != 0)
}

/// A thread may be killed at any moment; it will report that itself.
pub(super) fn gone_is_fine(done: io::Result<()>, doing: &str) -> Result<(), TraceError> {
    match done {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(TraceError::system(doing, &error)),
        _ => Ok(()),
    }
}
