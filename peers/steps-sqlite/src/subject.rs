//! This program as the traced one: a child runs one kind of request between marker instructions ([`run`]), its parent steps through
//! that and keeps the instructions ([`trace`]).
//!
//! What it is not: the tracer (`corun_machine::trace`) and the simulated caches (`corun_cachesim::instruction_cache`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use corun_cachesim::instruction_cache::{Fetch, Operation, Recorder, RecorderLimits, InstructionCacheError};
use corun_exec::teams::patch::{Entries, PatchError, Prefetch, patch};
use corun_exec::teams::{Lost, Scheduler, TeamError, TeamOptions};
use corun_machine::trace::{LatchFunctions, Target, TraceError, TraceOptions, TraceSource, Tracer};

use crate::run::{self, Answers, Marks};
use crate::sqlite::SqliteError;
use crate::tenant::{Kind, Oracle, Request, Tenant};

/// Requests of each tenant before the traced one.
const WARM_REQUESTS: u32 = 20;
/// A team of twenty that prepares and runs has 2 million.
const INSTRUCTIONS_MAX: usize = 1 << 24;

/// How the tenants' requests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One after the other; the last of all tenants is traced as one.
    Serial,
    /// Tenant after tenant, as members that are alone; the last of each is traced by itself.
    Each,
    /// As a team; its last round is traced.
    Team,
}

impl Mode {
    /// The name on the command line and in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::Each => "each",
            Self::Team => "team",
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Serial, Self::Each, Self::Team];
        all.into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| format!("{text:?} is not serial, each or team"))
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Which requests.
    pub kind: Kind,
    /// How.
    pub mode: Mode,
    /// How many tenants.
    pub tenants: u32,
    /// Customers of each.
    pub customers: i64,
    /// Functions that are CTX points.
    pub entries: Vec<String>,
}

/// Why it could not be run or traced.
#[derive(Debug, thiserror::Error)]
pub enum SubjectError {
    /// SQLite's.
    #[error(transparent)]
    Sqlite(#[from] SqliteError),
    /// A function cannot be a CTX point.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// There are no teams here.
    #[error(transparent)]
    Teams(#[from] TeamError),
    /// The tracer's.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The simulator's.
    #[error(transparent)]
    Steps(#[from] InstructionCacheError),
    /// A member was lost.
    #[error("a tenant's member was lost: {0}")]
    Lost(String),
    /// SQLite and the oracle disagree.
    #[error("tenant {tenant}, request {number} ({request:?}): {found:?} instead of {right:?}")]
    Wrong {
        /// Which tenant.
        tenant: u32,
        /// Which of its requests.
        number: usize,
        /// What was asked.
        request: Request,
        /// What came.
        found: String,
        /// What is right.
        right: String,
    },
    /// A file of the child's could not be used.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Compares answers with the oracle's.
///
/// # Errors
/// [`SubjectError::Wrong`], the first.
pub fn check(
    tenant: u32,
    customers: i64,
    requests: &[Request],
    answers: &Answers,
) -> Result<(), SubjectError> {
    let mut oracle = Oracle::new(tenant, customers);
    for (number, (&request, found)) in requests.iter().zip(answers).enumerate() {
        let right = Ok(oracle.run(request));
        if *found != right {
            let (found, right) = (format!("{found:?}"), format!("{right:?}"));
            return Err(SubjectError::Wrong {
                tenant,
                number,
                request,
                found,
                right,
            });
        }
    }
    Ok(())
}

/// The child's part. `map` is where it writes its patchable functions: address and name.
///
/// # Errors
/// All but those of tracing.
pub fn run(subject: &Subject, map: &Path) -> Result<(), SubjectError> {
    let entries = Entries::of_this_process()?;
    let mut lines = String::new();
    for entry in entries.as_slice() {
        if let Some(name) = entry.names.first() {
            lines.push_str(&format!("{:x} {name}\n", entry.address));
        }
    }
    std::fs::write(map, lines).map_err(|source| SubjectError::File {
        path: map.to_path_buf(),
        source,
    })?;

    let tenants: Result<Vec<Tenant>, SqliteError> = (0..subject.tenants)
        .map(|tenant| Tenant::open(tenant, subject.customers))
        .collect();
    let mut tenants = tenants?;
    let requests = run::requests(
        subject.kind,
        subject.tenants,
        0,
        WARM_REQUESTS + 1,
        subject.customers,
    );
    // SAFETY: this is the only thread.
    let _patched = unsafe { patch(&entries, &subject.entries, Prefetch::Nothing) }?;
    let options = TeamOptions {
        team_size_max: subject.tenants as usize,
        ..TeamOptions::default()
    };
    let mut scheduler = Scheduler::new(options)?;
    let answers = match subject.mode {
        Mode::Serial => run::serial(&mut tenants, &requests, Marks::LastRound)
            .into_iter()
            .map(Ok)
            .collect(),
        Mode::Each => run::each(&mut scheduler, &mut tenants, &requests),
        Mode::Team => run::team(&mut scheduler, &mut tenants, &requests, Marks::LastRound),
    };
    let answers: Result<Vec<Answers>, Lost> = answers.into_iter().collect();
    let answers = answers.map_err(|lost| SubjectError::Lost(format!("{lost:?}")))?;
    for (tenant, (requests, answers)) in (0..).zip(requests.iter().zip(&answers)) {
        check(tenant, subject.customers, requests, answers)?;
    }
    Ok(())
}

/// What was traced of a child.
#[derive(Debug)]
pub struct Traced {
    /// The traced operations: one, or one for each tenant.
    pub operations: Vec<Operation>,
    /// Patchable functions by the address of their entry in the child.
    pub names: BTreeMap<u64, String>,
}

impl Traced {
    /// How often these functions were entered, all together.
    pub fn entered(&self, names: &[String]) -> u64 {
        let fetches = self.operations.iter().flat_map(|operation| operation.fetches());
        let at = |address: u64| self.names.get(&address).is_some_and(|name| names.contains(name));
        fetches.filter(|fetch| at(fetch.address)).count() as u64
    }
}

/// The code that runs between two members: everything from the call at a patched entry to the function's own first instruction, in
/// a trace of a team. In the order of its lines; empty where nothing is patched.
pub fn switch_code(traced: &Traced, line_bytes: u64) -> Vec<Fetch> {
    const CALL_BYTES: u64 = 5;
    let mut lines = BTreeSet::new();
    for operation in &traced.operations {
        let mut inside = false;
        for fetch in operation.fetches() {
            let bytes = u64::from(fetch.bytes);
            // An entry that is not patched holds one-byte instructions.
            if bytes == CALL_BYTES && traced.names.contains_key(&fetch.address) {
                inside = true;
            } else if traced.names.contains_key(&fetch.address.wrapping_sub(CALL_BYTES)) {
                inside = false;
            } else if inside {
                lines.insert(fetch.address / line_bytes);
                lines.insert((fetch.address + bytes.max(1) - 1) / line_bytes);
            }
        }
    }
    let fetch = |line: u64| Fetch {
        address: line * line_bytes,
        bytes: 1,
        latched: false,
        entry: false,
    };
    lines.into_iter().map(fetch).collect()
}

/// The parent's part: starts this program anew and steps through its marked part.
///
/// # Errors
/// The tracer's and the recorder's; [`SubjectError::File`] where the child died before it wrote its map.
pub fn trace(subject: &Subject) -> Result<Traced, SubjectError> {
    let map = std::env::temp_dir().join(format!("steps-sqlite-{}.entries", std::process::id()));
    let mut command = Command::new("/proc/self/exe");
    command.arg("subject").arg("--map").arg(&map);
    command.args(["--kind", subject.kind.name(), "--mode", subject.mode.name()]);
    command.args([
        "--tenants",
        &subject.tenants.to_string(),
        "--customers",
        &subject.customers.to_string(),
    ]);
    for entry in &subject.entries {
        command.args(["--entry", entry]);
    }
    let operations = match subject.mode {
        Mode::Serial | Mode::Team => 1,
        Mode::Each => subject.tenants,
    };
    let options = TraceOptions {
        operations: u64::from(operations),
        instructions_max: INSTRUCTIONS_MAX as u64,
        latches: LatchFunctions::none(),
        ..TraceOptions::of(Target::Marked)
    };
    let mut tracer = Tracer::start(command, options)?;
    let mut recorder = Recorder::new(RecorderLimits {
        instructions_max: INSTRUCTIONS_MAX,
    });
    while tracer.next_operation(&mut recorder)?.is_some() {}
    drop(tracer);
    let text = std::fs::read_to_string(&map).map_err(|source| SubjectError::File {
        path: map.clone(),
        source,
    })?;
    let _ = std::fs::remove_file(&map);
    let named = text.lines().filter_map(|line| {
        let (address, name) = line.split_once(' ')?;
        Some((u64::from_str_radix(address, 16).ok()?, name.to_string()))
    });
    Ok(Traced {
        operations: recorder.finish()?,
        names: named.collect(),
    })
}
