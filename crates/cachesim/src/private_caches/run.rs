//! [`Plan::run`]: many backends on many cores, for each way of dispatching queries, and what their private caches miss.
//!
//! ```text
//!   os       a backend for each client. Whichever hardware thread is free takes the backend that has waited longest (`Free`), or each
//!            thread keeps backends of its own and takes them in turn (`Sticky`)
//!   random   a backend for each hardware thread, bound to it; queries come to any
//!   range    the same; a query comes to the backend that owns its key
//! ```
//!
//! Clients do not think, so every thread has work: Linux would put a woken backend on its previous core if that is idle, else on any idle one,
//! and with more clients than threads none is idle; what then happens lies between the two schedulers. Ranges are asked for equally
//! often, and no query overflows to another worker. Threads take turns of some touches each, and a run is over when each has made as many as asked
//! for: equal time, if touches take equal time.
//!
//! Best Sellers run as any other query, or by themselves on cores reserved for them: whole, or in parts by items. Of the paper's two placements
//! [`Placement::Spread`] (CARIC-DA-1) gives each thread a part of its own and [`Placement::Siblings`] (CARIC-DA-2) the same part
//! of two queries to the two threads of a core.
//!
//! Not here: time ([`super::cost`]).

use std::collections::VecDeque;

use super::cores::Cores;
use super::platform::Platform;
use super::touch::{Place, Use};
use super::workload::{Query, Range, Workload};
use crate::random::SplitMix64;

/// Touches of one turn of a thread, some hundredth of a query: fine enough to mix siblings, and long enough that simulating is not all
/// changing cores. Unmeasured.
const TURN: usize = 256;
/// Touches of a query that count before counting: what fills the caches is a statement, of which a transaction has dozens.
const WARM_UP_LENGTH_MAX: usize = 16_000;
/// Queries whose length is taken for the mean.
const MEASURED_FOR_LENGTH: usize = 200;
/// Most clients.
pub const CLIENTS_MAX: usize = 100_000;
/// Most queries of each thread, before and while counting.
pub const QUERIES_MAX: usize = 1_000_000;

/// How a query comes to a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// The operating system moves backends.
    Os(Scheduler),
    /// Bound backends, any of them.
    Random,
    /// Bound backends, the one that owns the key.
    Range,
}

/// What the operating system does with more backends than threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// A free thread takes the backend that has waited longest.
    Free,
    /// Backends stay with their thread.
    Sticky,
}

impl Dispatch {
    /// The key `dispatch` of rows.
    pub fn name(self) -> &'static str {
        match self {
            Dispatch::Os(_) => "os",
            Dispatch::Random => "random",
            Dispatch::Range => "range",
        }
    }
}

/// Where parts of a query go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Each hardware thread has another part.
    Spread,
    /// The threads of a core have the same part, of different queries.
    Siblings,
}

/// Cores for Best Sellers alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// How many, the last ones.
    pub cores: usize,
    /// Parts of each Best Seller; 1: whole.
    pub parts: usize,
    /// Where they go.
    pub placement: Placement,
}

/// A simulation.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The machine.
    pub platform: Platform,
    /// Who runs what where.
    pub dispatch: Dispatch,
    /// Backends under [`Dispatch::Os`]; the others have one a thread.
    pub clients: usize,
    /// Cores for Best Sellers; `None`: they run as any query.
    pub reserved: Option<Reserved>,
    /// Queries of each thread before counting begins, of mean length but at most 16,000 touches.
    pub warm_up: usize,
    /// Queries of each thread that are counted, likewise.
    pub counted: usize,
    /// Seed.
    pub seed: u64,
}

/// Whose lines are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// The backend's own memory.
    Private,
    /// Instructions.
    Code,
    /// Shared, whatever the key.
    Common,
    /// Pages that the key leads to, with their descriptors, entries and locks.
    Keyed,
}

impl Region {
    /// All of them, in the order of [`Counted::regions`].
    pub const ALL: [Region; 4] = [Region::Private, Region::Code, Region::Common, Region::Keyed];

    /// Its name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Region::Private => "private",
            Region::Code => "code",
            Region::Common => "common",
            Region::Keyed => "keyed",
        }
    }

    fn of(place: Place) -> Region {
        match place {
            Place::Private { .. } => Region::Private,
            Place::Code { .. } => Region::Code,
            Place::Common { .. } => Region::Common,
            _ => Region::Keyed,
        }
    }
}

/// Touches and misses of one region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Touches that the recording has.
    pub touches: u64,
    /// Of these, misses of the first level.
    pub l1: u64,
    /// Of these, misses of the second.
    pub l2: u64,
    /// Of these, because another core wrote the line.
    pub invalidated: u64,
}

/// What was counted of one kind of queries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// Queries, or steps; one that was under way at the end counts as far as it got.
    pub queries: f64,
    /// Instructions.
    pub instructions: u64,
    /// By region, as in [`Region::ALL`].
    pub regions: [Misses; 4],
}

impl Counted {
    /// All regions.
    pub fn all(&self) -> Misses {
        self.regions.iter().fold(Misses::default(), |sum, region| Misses {
            touches: sum.touches + region.touches,
            l1: sum.l1 + region.l1,
            l2: sum.l2 + region.l2,
            invalidated: sum.invalidated + region.invalidated,
        })
    }

    /// A count for each query; 0 if there was none.
    pub fn per_query(&self, count: u64) -> f64 {
        if self.queries > 0.0 {
            count as f64 / self.queries
        } else {
            0.0
        }
    }
}

/// What came out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// All queries but Best Sellers.
    pub simple: Counted,
    /// Steps of Best Sellers: an order line, its item, and its author if it is of the subject.
    pub step: Counted,
    /// What a Best Seller, or each part of one, takes besides: parsing and planning at its begin, sorting at its end.
    pub ends: Counted,
}

/// A hardware thread and what it runs.
struct Thread {
    core: usize,
    range: Range,
    /// The part of Best Seller it runs and of how many, if it runs nothing else.
    part: Option<(usize, usize)>,
    /// Backends of its own, unless there is one queue for all.
    waiting: VecDeque<u32>,
    backend: Option<u32>,
    query: Query,
    statement: usize,
    touch: usize,
}

impl Plan {
    /// Runs it. Equal plans and workloads come to equal outcomes.
    pub fn run(&self, workload: &Workload) -> Outcome {
        let mut random = SplitMix64::new(self.seed);
        let length = mean_length(workload, &mut random);
        let [warm_up, counted] = [
            (self.warm_up, length.min(WARM_UP_LENGTH_MAX)),
            (self.counted, length),
        ]
        .map(|(queries, length)| length * queries.clamp(1, QUERIES_MAX));
        let mut state = State {
            workload,
            cores: Cores::new(&self.platform),
            // Only where backends move can another core come to their memory.
            private_moves: self.dispatch == Dispatch::Os(Scheduler::Free),
            random,
            waiting: VecDeque::new(),
            complex_elsewhere: self.reserved.is_some(),
            outcome: Outcome::default(),
        };
        let mut threads = self.threads(&mut state.waiting);
        for count in [warm_up, counted] {
            state.outcome = Outcome::default();
            for _ in 0..count.div_ceil(TURN) {
                for thread in &mut threads {
                    state.turn(thread);
                }
            }
        }
        state.outcome
    }

    fn threads(&self, shared: &mut VecDeque<u32>) -> Vec<Thread> {
        let all = self.platform.threads();
        let per_core = self.platform.threads_per_core;
        let reserved = self
            .reserved
            .map_or(0, |reserved| reserved.cores.min(self.platform.cores) * per_core);
        let simple = all - reserved;
        let mut threads: Vec<Thread> = (0..all)
            .map(|thread| Thread {
                core: self.platform.core_of(thread),
                range: match self.dispatch {
                    Dispatch::Range => Range::of(thread.min(simple.saturating_sub(1)), simple),
                    _ => Range::ALL,
                },
                part: self.reserved.and_then(|reserved| {
                    let own = thread.checked_sub(simple)?;
                    let turn = match reserved.placement {
                        Placement::Spread => own,
                        Placement::Siblings => own / per_core,
                    };
                    Some((turn % reserved.parts.max(1), reserved.parts.max(1)))
                }),
                waiting: VecDeque::new(),
                backend: None,
                query: Query {
                    complex: false,
                    statements: Vec::new(),
                },
                statement: 0,
                touch: 0,
            })
            .collect();
        match self.dispatch {
            Dispatch::Os(Scheduler::Free) => shared.extend(0..self.clients.clamp(1, CLIENTS_MAX) as u32),
            Dispatch::Os(Scheduler::Sticky) => {
                for client in 0..self.clients.clamp(1, CLIENTS_MAX) {
                    threads[client % all].waiting.push_back(client as u32);
                }
            }
            Dispatch::Random | Dispatch::Range => {
                for (number, thread) in threads.iter_mut().enumerate() {
                    thread.waiting.push_back(number as u32);
                }
            }
        }
        threads
    }
}

/// Touches of a query that is no Best Seller, on average.
fn mean_length(workload: &Workload, random: &mut SplitMix64) -> usize {
    let mut touches = 0;
    for _ in 0..MEASURED_FOR_LENGTH {
        let query = workload.query(Range::ALL, false, random, 0);
        touches += length(workload, &query);
    }
    (touches / MEASURED_FOR_LENGTH).max(1)
}

fn length(workload: &Workload, query: &Query) -> usize {
    let executions = &workload.recording().executions;
    let lengths = query
        .statements
        .iter()
        .map(|statement| executions[statement.execution].touches.len());
    lengths.sum()
}

/// What threads share.
struct State<'w> {
    workload: &'w Workload,
    cores: Cores,
    private_moves: bool,
    random: SplitMix64,
    /// Backends that wait for any thread, the longest first.
    waiting: VecDeque<u32>,
    complex_elsewhere: bool,
    outcome: Outcome,
}

impl State<'_> {
    /// Some touches of one thread.
    fn turn(&mut self, thread: &mut Thread) {
        let mut left = TURN;
        while left > 0 {
            let Some(backend) = thread.backend else {
                if !self.next(thread) {
                    return;
                }
                continue;
            };
            let Some(statement) = thread.query.statements.get(thread.statement) else {
                thread.backend = None;
                match thread.waiting.is_empty() && thread.part.is_none() && self.shares() {
                    true => self.waiting.push_back(backend),
                    false => thread.waiting.push_back(backend),
                }
                continue;
            };
            let execution = &self.workload.recording().executions[statement.execution];
            let statements = thread.query.statements.len();
            let (counted, share) = match (thread.query.complex, thread.statement) {
                (false, _) => (&mut self.outcome.simple, 1.0 / statements as f64),
                (true, at) if at == 0 || at + 1 == statements => (&mut self.outcome.ends, 0.5),
                (true, _) => (&mut self.outcome.step, 1.0),
            };
            let end = (thread.touch + left).min(execution.touches.len());
            left -= end - thread.touch;
            for touch in &execution.touches[thread.touch..end] {
                let region = Region::of(touch.place);
                let shared = region != Region::Private || self.private_moves;
                let address = self
                    .workload
                    .layout()
                    .address(touch.place, &statement.blocks, backend);
                let missed = self.cores.access(
                    thread.core,
                    address,
                    touch.what,
                    shared && touch.what != Use::Fetch,
                );
                let misses = &mut counted.regions[region as usize];
                misses.touches += 1;
                misses.l1 += u64::from(missed.l1);
                misses.l2 += u64::from(missed.l2);
                misses.invalidated += u64::from(missed.invalidated);
            }
            thread.touch = end;
            if end == execution.touches.len() {
                counted.queries += share;
                counted.instructions += execution.instructions;
                thread.touch = 0;
                thread.statement += 1;
            }
        }
    }

    /// Whether backends wait in one queue for all threads.
    fn shares(&self) -> bool {
        self.private_moves
    }

    /// Gives a thread its next backend and query; false if no backend waits.
    fn next(&mut self, thread: &mut Thread) -> bool {
        let backend = thread.waiting.pop_front().or_else(|| self.waiting.pop_front());
        let Some(backend) = backend else {
            return false;
        };
        thread.backend = Some(backend);
        thread.query = match thread.part {
            Some((part, parts)) => self.workload.best_seller(part, parts, &mut self.random, backend),
            None => {
                let complex = !self.complex_elsewhere;
                self.workload
                    .query(thread.range, complex, &mut self.random, backend)
            }
        };
        thread.statement = 0;
        thread.touch = 0;
        true
    }
}
