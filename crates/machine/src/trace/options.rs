//! What to trace, and within which bounds.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Where an operation begins and ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Between the marker instructions of kinds 1 and 2. Pairs may nest; the outermost counts.
    Marked,
    /// From a function's entry to its return. `name`, `file.so:name`, or `0xADDRESS` as the executable was linked. A name is one of
    /// the symbol table, or demangled, with or without parameters; a path's last parts do where they name one function only. Every
    /// entry counts as an occurrence, recursive ones too.
    Function(String),
}

/// Functions that take and release latches, by symbol name. Names that a program lacks do not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatchFunctions {
    /// A latch is held from the entry of one of these ...
    pub enter: Vec<String>,
    /// ... to the return of one of these.
    pub leave: Vec<String>,
}

impl LatchFunctions {
    /// None: only marker instructions tell of latches.
    pub fn none() -> Self {
        Self {
            enter: Vec::new(),
            leave: Vec::new(),
        }
    }
}

/// The mutexes of the C library, by the names it exports and those its own code calls.
impl Default for LatchFunctions {
    fn default() -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            enter: names(&[
                "pthread_mutex_lock",
                "__pthread_mutex_lock",
                "___pthread_mutex_lock",
            ]),
            leave: names(&[
                "pthread_mutex_unlock",
                "__pthread_mutex_unlock",
                "___pthread_mutex_unlock",
            ]),
        }
    }
}

/// What becomes of a program once its trace is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It ends now.
    Kill,
    /// It runs on by itself.
    LetRun,
}

/// How to trace.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// Which operation.
    pub target: Target,
    /// Occurrences that pass at full speed before the first that is traced.
    pub warm: u64,
    /// Operations to trace, at least 1.
    pub operations: u64,
    /// An operation longer than this is an error.
    pub instructions_max: u64,
    /// How long the tracer may be at work altogether; `None`: as long as it takes.
    pub time_max: Option<Duration>,
    /// Set it to true from another thread (or a signal handler) to give up.
    pub stop: Option<Arc<AtomicBool>>,
    /// Whether the other threads of the program stand still during a traced operation. If it waits for one of them, all run again
    /// until it ends.
    pub stop_others: bool,
    /// Which functions take and release latches.
    pub latches: LatchFunctions,
}

impl TraceOptions {
    /// The first operation of this target, up to 50 million instructions, without a limit of time.
    pub fn of(target: Target) -> Self {
        Self {
            target,
            warm: 0,
            operations: 1,
            instructions_max: 50_000_000,
            time_max: None,
            stop: None,
            stop_others: false,
            latches: LatchFunctions::default(),
        }
    }
}
