//! The tracer of a live program.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::marker::PhantomData;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

use corun_model::teams::instructions::InstructionSink;

use super::decode::Decoding;
use super::image::{self, BEGIN, Image};
use super::process::{Limits, Process, Stepped, gone_is_fine};
use super::ptrace::{self, Report};
use super::refusal;
use super::step::{Code, Stepping, Until, frame};
use crate::trace::elf::{Elf, MARKER_BYTES, marker_kind};
use crate::trace::points::points;
use crate::trace::{
    After, CtxPoint, Module, OperationTrace, ProgramEnd, Target, TraceError, TraceOptions, TraceSource,
};

/// What the child answers when it may not be traced: an error no `exec` gives.
const MAY_NOT_BE_TRACED: i32 = libc::EHWPOISON;

/// Traces operations of a live program.
///
/// Belongs to the thread that made it. That thread must not wait for other children of its own meanwhile: reports about those could be
/// taken by either.
pub struct Tracer {
    process: Process,
    options: TraceOptions,
    code: Code,
    /// Where operations begin.
    begins: Vec<u64>,
    modules: Vec<Module>,
    points: Vec<CtxPoint>,
    /// Occurrences passed at full speed.
    seen: u64,
    /// Operations traced.
    traced: u64,
    /// An operation failed, and the program was let go.
    failed: bool,
    /// The kernel knows one thread as the tracer.
    _one_thread: PhantomData<*const ()>,
}

impl Tracer {
    /// Starts a program, up to where its libraries are loaded and its own code begins. It dies with its tracer.
    ///
    /// # Errors
    /// When it cannot be started or traced, or the operation wanted is not in it.
    pub fn start(mut command: Command, options: TraceOptions) -> Result<Self, TraceError> {
        let name = PathBuf::from(command.get_program());
        let shown = name.display().to_string();
        check_file(&command)?;
        // SAFETY: between fork and exec only system calls are made, and an error without allocation is returned.
        unsafe {
            command.pre_exec(|| {
                ptrace::same_addresses_every_run();
                ptrace::trace_me().map_err(|_| io::Error::from_raw_os_error(MAY_NOT_BE_TRACED))
            });
        }
        let child = command.spawn().map_err(|error| match error.raw_os_error() {
            Some(MAY_NOT_BE_TRACED) => refusal::start(&shown),
            Some(libc::ENOENT) => TraceError::NoSuchProgram { path: name.clone() },
            Some(libc::ENOEXEC) => TraceError::NotX86_64 {
                path: name.clone(),
                found: "nothing the system can run".to_owned(),
            },
            _ => TraceError::CannotStart {
                path: name.clone(),
                reason: error.to_string(),
            },
        })?;
        let id = child.id();
        let cannot = |doing: &str, error: io::Error| TraceError::system(doing, &error);
        let taken_over = take_over(id).map_err(|error| cannot("trace the program from its start", error));
        let process = taken_over.and_then(|()| {
            Process::stopped(id, None, limits(&options))
                .map_err(|error| cannot("open the program's memory", error))
        });
        let mut process = match process {
            Ok(process) => process,
            Err(error) => {
                let _ = ptrace::kill(id, libc::SIGKILL);
                let _ = { child }.wait();
                return Err(error);
            }
        };
        process.child = Some(child);
        let mut tracer = Self::of(process, options);
        tracer.or_let_go(|tracer| {
            tracer.run_to_entry()?;
            tracer.look_around()
        })?;
        Ok(tracer)
    }

    /// Attaches to a running process, all its threads. It runs on when the tracer is done.
    ///
    /// # Errors
    /// When there is none, it may not be traced, or the operation wanted is not in it.
    pub fn attach(pid: u32, options: TraceOptions) -> Result<Self, TraceError> {
        let no_such = |error: io::Error| match error.raw_os_error() {
            Some(libc::ESRCH) => TraceError::NoSuchProcess { pid },
            Some(libc::EPERM | libc::EACCES) => refusal::attach(pid),
            _ => TraceError::system(format!("attach to process {pid}"), &error),
        };
        if !PathBuf::from(format!("/proc/{pid}/task/{pid}")).exists() {
            return Err(TraceError::NoSuchProcess { pid });
        }
        ptrace::seize(pid, false).map_err(no_such)?;
        let process = Process::stopped(pid, None, limits(&options));
        let mut process = match process {
            Ok(process) => process,
            Err(error) => {
                // Nothing was changed yet: stop it once, let it go.
                let _ = ptrace::interrupt(pid);
                let _ = ptrace::wait(Some(pid), true);
                let _ = ptrace::detach(pid, 0);
                return Err(no_such(error));
            }
        };
        process.expect_again(pid);
        let mut tracer = Self::of(process, options);
        tracer.or_let_go(|tracer| {
            tracer.seize_all(pid)?;
            tracer.process.hold_others(0)?;
            if let Some(end) = tracer.process.ended {
                return Err(tracer.not_reached(end));
            }
            image::check_program(pid)?;
            tracer.look_around()
        })?;
        Ok(tracer)
    }

    /// The program this tracer started: its standard streams, for one.
    pub fn child(&mut self) -> Option<&mut Child> {
        self.process.child.as_mut()
    }

    /// Ends the trace. A program that was attached to always runs on; the handle of one that was started, and still runs, is given
    /// out, so that it can be waited for.
    pub fn finish(mut self, after: After) -> Option<Child> {
        let after = if self.process.child.is_none() {
            After::LetRun
        } else {
            after
        };
        self.process.let_go(after);
        self.process
            .child
            .take()
            .filter(|_| self.process.ended.is_none() && after == After::LetRun)
    }

    fn of(process: Process, options: TraceOptions) -> Self {
        Self {
            process,
            options,
            code: Code {
                decoding: Decoding::new(),
                latches: HashMap::new(),
                ctx_sections: Vec::new(),
            },
            begins: Vec::new(),
            modules: Vec::new(),
            points: Vec::new(),
            seen: 0,
            traced: 0,
            failed: false,
            _one_thread: PhantomData,
        }
    }

    /// Does something; if that fails, lets go of the program.
    fn or_let_go<T>(
        &mut self,
        doing: impl FnOnce(&mut Self) -> Result<T, TraceError>,
    ) -> Result<T, TraceError> {
        let done = doing(self);
        if done.is_err() {
            self.failed = true;
            self.let_go();
        }
        done.map_err(|error| match error {
            TraceError::TimedOut { time_max, inside, .. } => TraceError::TimedOut {
                time_max,
                seen: self.seen,
                inside,
            },
            other => other,
        })
    }

    fn let_go(&mut self) {
        let after = if self.process.child.is_some() {
            After::Kill
        } else {
            After::LetRun
        };
        self.process.let_go(after);
    }

    /// Traces every thread of the process, new ones that appear meanwhile too.
    fn seize_all(&mut self, pid: u32) -> Result<(), TraceError> {
        // Threads made by traced ones are traced by themselves, so this comes to an end.
        loop {
            let mut found_new = false;
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(|error| {
                TraceError::unreadable(&PathBuf::from(format!("/proc/{pid}/task")), &error)
            })?;
            for task in tasks.flatten() {
                let Some(thread) = task.file_name().to_str().and_then(|name| name.parse().ok()) else {
                    continue;
                };
                if self.process.knows(thread) {
                    continue;
                }
                found_new = true;
                match ptrace::seize(thread, false) {
                    Ok(()) => self.process.expect(thread),
                    // Traced already, as a child of one that is; or gone.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM)) => {
                        self.process.expect(thread)
                    }
                    Err(error) => gone_is_fine(Err(error), "attach to a thread")?,
                }
            }
            if !found_new {
                return Ok(());
            }
        }
    }

    fn not_reached(&self, end: ProgramEnd) -> TraceError {
        TraceError::NotReached {
            end,
            seen: self.seen,
            warm: self.options.warm,
        }
    }

    /// Lets a program that has just been started run to its own first instruction: its libraries are loaded then.
    fn run_to_entry(&mut self) -> Result<(), TraceError> {
        image::check_program(self.process.id)?;
        let entry = image::entry(self.process.id)?;
        self.plant(&[entry])?;
        self.process.replaced = false;
        self.process.resume_all()?;
        let thread = self.process.run()?;
        self.process.breakpoints.lift_all();
        match (thread, self.process.ended) {
            (Some(_), _) => Ok(()),
            (None, Some(end)) => Err(self.not_reached(end)),
            (None, None) => self.run_to_entry(),
        }
    }

    fn plant(&mut self, addresses: &[u64]) -> Result<(), TraceError> {
        self.process
            .breakpoints
            .plant(addresses)
            .map_err(|error| TraceError::system("set a breakpoint", &error))
    }

    /// Finds everything that is looked for in the program as it is now.
    fn look_around(&mut self) -> Result<(), TraceError> {
        let image = Image::of(self.process.id)?;
        self.modules = image.modules();
        self.begins = image.begins(&self.options.target)?;
        self.code.latches = image.latches(&self.options.latches);
        self.code.ctx_sections = image.ctx_sections();
        let breakpoints = &self.process.breakpoints;
        self.points = self
            .code
            .ctx_sections
            .iter()
            .flat_map(|&(start, bytes)| points(start, bytes, |address, into| breakpoints.read(address, into)))
            .collect();
        Ok(())
    }

    /// Lets the program run to the next operation to be traced; the thread that is about to run it.
    fn reach(&mut self) -> Result<u32, TraceError> {
        let begins = self.begins.clone();
        self.plant(&begins)?;
        self.process.resume_all()?;
        loop {
            let Some(thread) = self.process.run()? else {
                if let Some(end) = self.process.ended {
                    return Err(self.not_reached(end));
                }
                // Another program now: look for the operation there.
                self.run_to_entry()?;
                self.look_around()?;
                let begins = self.begins.clone();
                self.plant(&begins)?;
                self.process.resume_all()?;
                continue;
            };
            if self.process.is_guest(thread) {
                self.pass(thread)?;
                continue;
            }
            if self.traced > 0 || self.seen >= self.options.warm {
                return Ok(thread);
            }
            self.seen += 1;
            self.process.check_limits()?;
            self.pass(thread)?;
        }
    }

    /// Lets a thread at a breakpoint run on.
    fn pass(&mut self, thread: u32) -> Result<(), TraceError> {
        let Ok(mut registers) = ptrace::registers(thread) else {
            return Ok(());
        };
        let address = registers.rip;
        let mut bytes = [0; 15];
        let there = self.process.breakpoints.code(address, &mut bytes);
        if let Some(after) = emulate(&bytes[..there], &mut registers, |at, word| {
            self.process.breakpoints.write(at, &word.to_le_bytes())
        }) {
            registers.rip = after;
            gone_is_fine(ptrace::set_registers(thread, &registers), "set registers")?;
            return self.process.resume(thread);
        }
        // Another thread that comes here in this moment is not noticed.
        let lift = self.process.breakpoints.lift(address);
        lift.map_err(|error| TraceError::system("take out a breakpoint", &error))?;
        match self.process.step(thread, 0, false)? {
            Stepped::Signal(signal) => self.process.set_signal(thread, signal),
            Stepped::Ended(_) | Stepped::Replaced => return Ok(()),
            Stepped::Done => {}
        }
        self.plant(&[address])?;
        self.process.resume(thread)
    }

    /// Traces the operation a thread is about to begin.
    fn trace(&mut self, thread: u32, sink: &mut dyn InstructionSink) -> Result<OperationTrace, TraceError> {
        self.process.breakpoints.lift_all();
        self.code.decoding.clear();
        let cannot = |error: io::Error| TraceError::system("read registers", &error);
        let mut registers = ptrace::registers(thread).map_err(cannot)?;
        let until = match self.options.target {
            Target::Marked => {
                registers.rip += MARKER_BYTES;
                ptrace::set_registers(thread, &registers).map_err(cannot)?;
                Until::Marker { depth: 1 }
            }
            Target::Function(_) => frame(&self.process, &registers)?,
        };
        if self.options.stop_others {
            self.process.hold_others(thread)?;
        } else {
            self.process.resume_hits()?;
        }
        let mut instructions = 0;
        let traced = Stepping {
            process: &mut self.process,
            code: &mut self.code,
            sink,
            thread,
            until,
            instructions_max: self.options.instructions_max,
            instructions: &mut instructions,
            leaving: Vec::new(),
        }
        .run();
        match traced {
            Err(TraceError::TimedOut { time_max, seen, .. }) => Err(TraceError::TimedOut {
                time_max,
                seen,
                inside: Some(instructions),
            }),
            other => other,
        }
    }
}

impl TraceSource for Tracer {
    /// After an error the program was let go, and there is nothing more to trace.
    fn next_operation(
        &mut self,
        sink: &mut dyn InstructionSink,
    ) -> Result<Option<OperationTrace>, TraceError> {
        if self.failed || self.traced >= self.options.operations {
            return Ok(None);
        }
        self.or_let_go(|tracer| {
            let thread = tracer.reach()?;
            tracer.seen += 1;
            let operation = tracer.trace(thread, sink)?;
            tracer.traced += 1;
            if tracer.traced == tracer.options.operations && tracer.process.child.is_none() {
                tracer.let_go();
            }
            Ok(Some(operation))
        })
    }

    fn modules(&self) -> &[Module] {
        &self.modules
    }

    fn ctx_points(&self) -> &[CtxPoint] {
        &self.points
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Looks at the file a command would run, as far as it can be read: what is no program would be handed to a shell.
fn check_file(command: &Command) -> Result<(), TraceError> {
    let name = Path::new(command.get_program());
    let found = if name.components().count() > 1 || name.is_absolute() {
        let folder = command.get_current_dir().unwrap_or(Path::new(""));
        Some(folder.join(name))
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())
    };
    match found {
        Some(file)
            if fs::File::open(&file).is_ok_and(|file| file.metadata().is_ok_and(|data| data.is_file())) =>
        {
            Elf::open(&file, &file).map(drop)
        }
        _ => Ok(()),
    }
}

fn limits(options: &TraceOptions) -> Limits {
    Limits {
        until: options
            .time_max
            .and_then(|time_max| Some((Instant::now().checked_add(time_max)?, time_max))),
        stop: options.stop.clone(),
    }
}

/// Makes a child that stands at its exec a seized one, which can be interrupted; it still stands there afterwards.
fn take_over(id: u32) -> io::Result<()> {
    let ended = || io::Error::other("it ended at once");
    match ptrace::wait(Some(id), true)? {
        Some((_, Report::Signal(_))) => {}
        _ => return Err(ended()),
    }
    // Being stopped keeps it where it is while nobody traces it.
    ptrace::detach(id, libc::SIGSTOP)?;
    if !ptrace::wait_stopped(id)? {
        return Err(ended());
    }
    ptrace::seize(id, true)?;
    ptrace::kill(id, libc::SIGCONT)?;
    loop {
        match ptrace::wait(Some(id), true)? {
            // Kept from the program.
            Some((_, Report::Signal(libc::SIGCONT))) => return Ok(()),
            Some((_, Report::Signal(signal))) => ptrace::resume(id, signal)?,
            Some((_, Report::Event(..))) => ptrace::resume(id, 0)?,
            Some((_, Report::Exited(_) | Report::Killed(_))) => return Err(ended()),
            None => {}
        }
    }
}

/// Does what the first instruction of a function does, for the usual ones; the address behind it.
fn emulate(
    bytes: &[u8],
    registers: &mut libc::user_regs_struct,
    write: impl FnOnce(u64, u64) -> bool,
) -> Option<u64> {
    let next = |length: u64| Some(registers.rip + length);
    if marker_kind(bytes) == Some(BEGIN) {
        return next(MARKER_BYTES);
    }
    match bytes {
        // endbr64
        [0xf3, 0x0f, 0x1e, 0xfa, ..] => next(4),
        [0x90, ..] => next(1),
        [0x55, ..] => {
            // push rbp
            let stack = registers.rsp.wrapping_sub(8);
            write(stack, registers.rbp).then(|| {
                registers.rsp = stack;
                registers.rip + 1
            })
        }
        _ => None,
    }
}
