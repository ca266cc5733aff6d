//! Small programs, and a sink that keeps what it is told.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use corun_machine::trace::{OperationTrace, Target, TraceError, TraceOptions, TraceSource, Tracer};
use corun_model::teams::instructions::{DataAccess, Event, Flow, InstructionSink};

/// Declarations every C program here begins with: the marker instructions.
pub const PRELUDE: &str = r#"
#define MARK(kind) __asm__ volatile(".byte 0x0f,0x1f,0x84,0x00," #kind ",0x45,0x54,0x53" ::: "memory")
#define BEGIN MARK(1)
#define END MARK(2)
#define LATCH_ENTER MARK(3)
#define LATCH_LEAVE MARK(4)
#define NOINLINE __attribute__((noinline, noipa))
"#;

/// A compiled program in a folder that vanishes with it.
pub struct Program {
    pub folder: tempfile::TempDir,
    pub path: PathBuf,
}

/// Runs a tool of the C toolchain.
pub fn run(tool: &str, arguments: &[&str]) {
    let output = Command::new(tool)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{tool}: {error}; scripts/bootstrap installs it"));
    assert!(
        output.status.success(),
        "{tool} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Compiles a C program.
pub fn compiled(source: &str, flags: &[&str]) -> Program {
    compiled_as("c", source, flags)
}

/// Compiles a program in a language `cc` knows by its file name's ending.
pub fn compiled_as(ending: &str, source: &str, flags: &[&str]) -> Program {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(format!("program.{ending}"));
    std::fs::write(&file, format!("{PRELUDE}{source}")).expect("written");
    let path = folder.path().join("program");
    let text = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let (file, program) = (text(&file), text(&path));
    let mut arguments = vec!["-O1", "-o", &program, &file];
    arguments.extend(flags);
    run("cc", &arguments);
    Program { folder, path }
}

impl Program {
    pub fn command(&self) -> Command {
        Command::new(&self.path)
    }

    /// Starts it for a trace of the first call of a function.
    pub fn call_of(&self, function: &str) -> Result<Tracer, TraceError> {
        Tracer::start(self.command(), function_options(function))
    }
}

/// Options of tests: never hang for long.
pub fn options(target: Target) -> TraceOptions {
    TraceOptions {
        time_max: Some(Duration::from_secs(60)),
        ..TraceOptions::of(target)
    }
}

pub fn function_options(name: &str) -> TraceOptions {
    options(Target::Function(name.to_owned()))
}

/// An instruction as the tests look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    pub thread: u32,
    pub address: u64,
    pub bytes: u8,
    pub flow: Flow,
    pub accesses: Vec<DataAccess>,
}

/// Anything but an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    Begin,
    End,
    LatchEnter,
    LatchLeave,
    Ctx(u64),
}

/// Keeps everything.
#[derive(Debug, Default)]
pub struct Kept {
    pub ran: Vec<Ran>,
    /// With the number of instructions before.
    pub others: Vec<(usize, Other)>,
}

impl InstructionSink for Kept {
    fn event(&mut self, event: &Event<'_>) {
        let other = match event {
            Event::Instruction(instruction) => {
                self.ran.push(Ran {
                    thread: instruction.thread,
                    address: instruction.address,
                    bytes: instruction.bytes,
                    flow: instruction.flow,
                    accesses: instruction.accesses.to_vec(),
                });
                return;
            }
            Event::Begin { .. } => Other::Begin,
            Event::End { .. } => Other::End,
            Event::LatchEnter { .. } => Other::LatchEnter,
            Event::LatchLeave { .. } => Other::LatchLeave,
            Event::Ctx { site_address, .. } => Other::Ctx(*site_address),
        };
        self.others.push((self.ran.len(), other));
    }
}

impl Kept {
    /// Checks that each instruction follows from the one before.
    pub fn check_continuous(&self) {
        for pair in self.ran.windows(2) {
            let behind = pair[0].address + u64::from(pair[0].bytes);
            let next = match pair[0].flow {
                Flow::Conditional { taken: true, target }
                | Flow::Jump { target }
                | Flow::IndirectJump { target }
                | Flow::Call { target }
                | Flow::IndirectCall { target }
                | Flow::Return { target } => target,
                // A repeated string instruction stays.
                Flow::Next if pair[1].address == pair[0].address => pair[0].address,
                Flow::Next | Flow::Conditional { taken: false, .. } | Flow::System => behind,
            };
            assert_eq!(next, pair[1].address, "after {:x?}", pair[0]);
        }
    }
}

/// The next operation, which must be there.
pub fn next(source: &mut dyn TraceSource) -> (OperationTrace, Kept) {
    let mut kept = Kept::default();
    let operation = source
        .next_operation(&mut kept)
        .unwrap_or_else(|error| panic!("{error}: {:?}", error.detail()))
        .expect("one more operation");
    assert_eq!(operation.instructions as usize, kept.ran.len());
    assert_eq!(kept.others.first(), Some(&(0, Other::Begin)));
    assert_eq!(kept.others.last(), Some(&(kept.ran.len(), Other::End)));
    assert!(kept.ran.iter().all(|ran| ran.thread == operation.thread));
    (operation, kept)
}

/// The error of the next operation.
pub fn fails(source: Result<Tracer, TraceError>) -> TraceError {
    match source {
        Err(error) => error,
        Ok(mut tracer) => {
            let error = tracer.next_operation(&mut Kept::default()).expect_err("an error");
            assert_eq!(
                tracer.next_operation(&mut Kept::default()),
                Ok(None),
                "nothing more after {error}"
            );
            error
        }
    }
}
