//! Why a program could not be traced.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

/// How a program came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProgramEnd {
    /// It exited.
    #[error("exited with code {0}")]
    Exited(i32),
    /// A signal ended it.
    #[error("was killed by signal {0}")]
    Killed(i32),
}

/// Why a program could not be traced. The text is one line; [`TraceError::detail`] and [`TraceError::hint`] say more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// There is no such file.
    #[error("there is no program {}", path.display())]
    NoSuchProgram {
        /// As it was called.
        path: PathBuf,
    },
    /// It is there, but does not start.
    #[error("cannot start {}", path.display())]
    CannotStart {
        /// The program.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// Nothing runs under this number.
    #[error("there is no process {pid}")]
    NoSuchProcess {
        /// The number.
        pid: u32,
    },
    /// The system does not let this process be traced.
    #[error("no permission to trace {what}")]
    NotPermitted {
        /// Which program or process.
        what: String,
        /// What stands in the way.
        reason: String,
        /// What would help.
        hint: String,
    },
    /// Not a 64-bit x86 program.
    #[error("{} is not an x86-64 ELF program", path.display())]
    NotX86_64 {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        found: String,
    },
    /// The file names no functions at all.
    #[error("{} has no symbols, so `{symbol}` cannot be found in it", path.display())]
    Stripped {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        symbol: String,
    },
    /// No function has that name.
    #[error("there is no function `{symbol}` in {place}")]
    NoSymbol {
        /// What was looked for.
        symbol: String,
        /// Where.
        place: String,
        /// Names that come close, best first.
        nearest: Vec<String>,
    },
    /// No mapped file has that name.
    #[error("the program has not loaded `{name}`")]
    NoModule {
        /// What was looked for.
        name: String,
        /// What is loaded.
        loaded: Vec<String>,
    },
    /// Several functions have that name.
    #[error("{} functions are called `{symbol}`", matches.len())]
    Ambiguous {
        /// What was looked for.
        symbol: String,
        /// Each function's full name and address.
        matches: Vec<String>,
    },
    /// No marker where an operation begins or ends.
    #[error("no marker instruction says where an operation {edge} in {}", path.display())]
    NoMarker {
        /// The program.
        path: PathBuf,
        /// `begins` or `ends`.
        edge: &'static str,
    },
    /// The program ended before it came to the operation wanted.
    #[error("the program {end} before the operation began")]
    NotReached {
        /// How it ended.
        end: ProgramEnd,
        /// How many occurrences passed.
        seen: u64,
        /// How many were to pass before this one.
        warm: u64,
    },
    /// The program ended while the operation ran.
    #[error("the program {end} inside the operation, after {instructions} instructions")]
    EndedInside {
        /// How it ended.
        end: ProgramEnd,
        /// Instructions traced by then.
        instructions: u64,
    },
    /// The thread ended while it ran the operation.
    #[error("thread {thread} ended inside the operation, after {instructions} instructions")]
    ThreadEnded {
        /// The thread.
        thread: u32,
        /// Instructions traced by then.
        instructions: u64,
    },
    /// The program became another one while the operation ran.
    #[error("the program replaced itself (exec) inside the operation, after {instructions} instructions")]
    Replaced {
        /// Instructions traced by then.
        instructions: u64,
    },
    /// The operation is longer than allowed.
    #[error("the operation did not end within {instructions_max} instructions")]
    TooLong {
        /// The bound.
        instructions_max: u64,
    },
    /// Time is up.
    #[error("the trace did not end within {} s", time_max.as_secs_f64())]
    TimedOut {
        /// The bound.
        time_max: Duration,
        /// How many occurrences passed.
        seen: u64,
        /// Instructions of the operation under way, if one was.
        inside: Option<u64>,
    },
    /// Somebody asked the tracer to give up.
    #[error("the trace was given up as asked")]
    Interrupted,
    /// The program's code cannot be decoded.
    #[error("cannot decode the instruction at {address:#x}")]
    Undecodable {
        /// Where.
        address: u64,
        /// Its bytes, as far as they can be read.
        bytes: Vec<u8>,
    },
    /// A recorded trace cannot be read.
    #[error("{what} at byte {offset} of the recorded trace")]
    Recording {
        /// Where.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A recorded trace would become larger than allowed.
    #[error("the recorded trace is larger than {bytes_max} bytes")]
    RecordingTooLarge {
        /// The bound.
        bytes_max: usize,
    },
    /// Any other failure.
    #[error("cannot {doing}")]
    System {
        /// What was tried.
        doing: String,
        /// The system's words.
        reason: String,
    },
}

impl TraceError {
    /// What lies behind it: one line.
    pub fn detail(&self) -> Option<String> {
        Some(match self {
            Self::CannotStart { reason, .. }
            | Self::NotPermitted { reason, .. }
            | Self::System { reason, .. } => reason.clone(),
            Self::NotX86_64 { found, .. } => format!("it is {found}"),
            Self::Ambiguous { matches, .. } => matches.join(", "),
            Self::NoModule { loaded, .. } => format!("loaded are {}", loaded.join(", ")),
            Self::NotReached { seen, warm, .. } => {
                format!(
                    "{seen} occurrences ran, of which the first {warm} were to pass; entries that were inlined are not seen"
                )
            }
            Self::TimedOut { seen, inside, .. } => match inside {
                Some(instructions) => format!("inside the operation, after {instructions} instructions"),
                None => format!("{seen} occurrences had begun by then"),
            },
            Self::Undecodable { bytes, .. } => format!("its bytes are {bytes:02x?}"),
            _ => return None,
        })
    }

    /// What to do about it: one line.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoSuchProgram { .. } => "give a path, or a name that is found in PATH".to_owned(),
            Self::CannotStart { .. } => "check that it is an executable program: file PROGRAM".to_owned(),
            Self::NoSuchProcess { .. } => "give a living process; `pgrep -a NAME` names them".to_owned(),
            Self::NotPermitted { hint, .. } => hint.clone(),
            Self::NotX86_64 { .. } => "give a 64-bit x86 program".to_owned(),
            Self::Stripped { .. } => {
                "install its debug symbols, build it without `strip`, mark the operation, or give an address (0x...)".to_owned()
            }
            Self::NoSymbol { nearest, .. } if nearest.is_empty() => {
                "`nm -C` and `nm -D -C` list the names; an inlined function has none".to_owned()
            }
            Self::NoSymbol { nearest, .. } => format!("did you mean {}?", nearest.join(", ")),
            Self::NoModule { .. } => "libraries loaded later (dlopen) are seen when attaching".to_owned(),
            Self::Ambiguous { .. } => "give the full name, or the address (0x...)".to_owned(),
            Self::NoMarker { .. } => {
                "mark the operation (0F 1F 84 00 01 45 54 53 where it begins, kind 02 where it ends), or name a function"
                    .to_owned()
            }
            Self::NotReached { .. } => "make the program run the operation more often, or let fewer pass".to_owned(),
            Self::EndedInside { .. } | Self::ThreadEnded { .. } | Self::Replaced { .. } => {
                "choose an operation that returns".to_owned()
            }
            Self::TooLong { .. } => "choose a smaller operation, or allow more instructions".to_owned(),
            Self::TimedOut { .. } => "send the program work that runs the operation, or allow more time".to_owned(),
            Self::Recording { .. } => "record the trace again".to_owned(),
            Self::RecordingTooLarge { .. } => "record fewer operations".to_owned(),
            Self::Interrupted | Self::Undecodable { .. } | Self::System { .. } => return None,
        })
    }

    /// A failure of the system.
    pub(super) fn system(doing: impl Into<String>, error: &io::Error) -> Self {
        Self::System {
            doing: doing.into(),
            reason: error.to_string(),
        }
    }

    /// A file that cannot be read.
    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self::system(format!("read {}", path.display()), error)
    }
}
