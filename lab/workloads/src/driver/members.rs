//! The clients of one worker as members of one scheduler, on one thread.
//!
//! ```text
//! thread of the worker: pin -> scheduler -> scope ┬ client 0: make, arrive, transactions ...
//!                                                 ├ client 1: make, arrive, transactions ...
//!                                                 └ ...       all arrived: wait for the other workers, then go
//! ```
//!
//! A client that panics or outgrows its stack fails the run; what it held is given back first, so that no other waits for it.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use corun_exec::teams::{self, Control, Lost, Operation, Scheduler, TeamsMode, Token};
use corun_model::teams::AutoTeams;

use super::client::{Done, MakeWork, Place, Shared, Work, run_client};
use super::options::RunError;
use super::run::place;
use super::team_outcome::{OperationOutcome, TeamOutcome};
use super::teams::Teams;
use super::turns::{SLICE, Turn, Turns};

/// What an engine calls its operations.
pub(super) type OperationName<'a> = dyn Fn(Operation) -> String + 'a;

/// Runs all clients of a worker to their end.
pub(super) fn run_worker(
    shared: &Shared<'_>,
    worker: usize,
    clients: &[usize],
    make: &MakeWork<'_>,
) -> (Vec<Done>, Option<TeamOutcome>) {
    let placed = place(shared.options, worker).map_err(|error| RunError::Pin {
        client: clients.first().copied().unwrap_or_default(),
        error,
    });
    let made = placed.and_then(|pinned| Ok((pinned, scheduler(shared, worker)?)));
    let (_pinned, mut scheduler) = match made {
        Ok(made) => made,
        Err(error) => {
            shared.ready.wait();
            shared.fail(error);
            return (Vec::new(), None);
        }
    };
    let here = Here {
        control: scheduler.control(),
        turns: Turns::new(shared.options.team.transactions_max),
        start: Start::new(clients.len()),
        trials: (shared.options.teams == Teams::Auto).then(|| RefCell::new(Trials::new())),
    };
    // Outside of the members' stacks: a client whose stack is lost still has its transaction rolled back.
    let works: Vec<RefCell<Option<Box<dyn Work + '_>>>> =
        clients.iter().map(|_| RefCell::default()).collect();
    let ended = scheduler.scope(|scope| {
        let here = &here;
        scope.on_lost(move |at, lost| {
            here.lost(shared, clients.get(at).copied().unwrap_or(at), &reason(lost));
        });
        for (&client, work) in clients.iter().zip(&works) {
            scope.spawn(format!("client {client}"), move || {
                here.run_member(shared, client, worker, make, work)
            });
        }
    });
    let mut done = Vec::with_capacity(clients.len());
    for (&client, ended) in clients.iter().zip(ended) {
        match ended {
            Ok(Some(of_client)) => done.push(of_client),
            Ok(None) => {}
            Err(lost) => shared.fail(RunError::Lost {
                client,
                reason: reason(&lost),
            }),
        }
    }
    (done, Some(statistics(&scheduler)))
}

fn scheduler(shared: &Shared<'_>, worker: usize) -> Result<Scheduler, RunError> {
    let team = shared.options.team;
    let options = teams::TeamOptions {
        team_size_max: team.size_max,
        stack_bytes: team.stack_bytes,
        next_team: team.next,
        repeats_max: team.repeats_max,
        ..teams::TeamOptions::default()
    };
    let scheduler = Scheduler::new(options).map_err(|error| RunError::Scheduler {
        worker,
        reason: error.to_string(),
    })?;
    scheduler.set_mode(match shared.options.teams {
        Teams::On => TeamsMode::Teams,
        Teams::Off | Teams::Serial | Teams::Auto => TeamsMode::Serial,
    });
    Ok(scheduler)
}

/// Why a member has no result, in words.
pub(super) fn reason(lost: &Lost) -> String {
    match lost {
        Lost::Panicked(panic) => format!("it panicked: {}", text(panic.as_ref())),
        Lost::Overflowed { message } => message.clone(),
        other => format!("{other:?}"),
    }
}

/// What the clients of a worker share.
struct Here {
    control: Control,
    turns: Turns,
    start: Start,
    /// Where teams are on trial.
    trials: Option<RefCell<Trials>>,
}

/// One client among those of its worker.
struct Member<'h> {
    here: &'h Here,
    turn: Turn,
    /// Where members run one after the other: since when this one has.
    since: Cell<Option<Instant>>,
}

impl Place for Member<'_> {
    fn enter(&self) {
        self.here.turns.enter(&self.turn);
    }

    fn leave(&self, now: Instant) {
        let here = self.here;
        here.turns.leave(&self.turn, Some(now));
        if let Some(trials) = &here.trials
            && let Some(mode) = trials.borrow_mut().transaction(here.control.mode(), now)
        {
            here.control.set_mode(mode);
        }
        if here.control.mode() == TeamsMode::Teams {
            return;
        }
        let since = self.since.get().unwrap_or(now);
        if now.saturating_duration_since(since) < SLICE {
            self.since.set(Some(since));
        } else {
            self.since.set(None);
            teams::yield_now();
        }
    }

    fn end(&self) {
        self.here.turns.leave(&self.turn, None);
    }
}

impl Here {
    fn run_member<'w>(
        &self,
        shared: &Shared<'_>,
        client: usize,
        worker: usize,
        make: &MakeWork<'w>,
        work: &RefCell<Option<Box<dyn Work + 'w>>>,
    ) -> Option<Done> {
        let ended = catch_unwind(AssertUnwindSafe(|| make(client, worker)));
        self.start.wait(|| {
            shared.ready.wait();
        });
        let ended = ended.and_then(|made| match made {
            Ok(made) => {
                let mut work = work.borrow_mut();
                let work = work.insert(made).as_mut();
                let member = Member {
                    here: self,
                    turn: Turn::default(),
                    since: Cell::new(None),
                };
                catch_unwind(AssertUnwindSafe(|| run_client(shared, client, work, &member))).map(Ok)
            }
            Err(error) => Ok(Err(RunError::Client { client, error })),
        });
        match ended {
            Ok(Ok(done)) => return Some(done),
            Ok(Err(error)) => shared.fail(error),
            Err(panic) => self.lost(shared, client, &reason(&Lost::Panicked(panic))),
        }
        None
    }

    /// Ends the run because of a client that will not come to its end, in its turn or on the way to the start.
    fn lost(&self, shared: &Shared<'_>, client: usize, reason: &str) {
        shared.fail(RunError::Lost {
            client,
            reason: reason.to_owned(),
        });
        self.turns.open();
    }
}

/// What a panic says.
fn text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a text")
}

/// Finds out by short trials whether teams pay.
struct Trials {
    auto: AutoTeams,
    /// When the interval began; `None` before the first transaction has ended.
    since: Option<Instant>,
    transactions: u64,
}

/// Length of an interval of a trial. Unmeasured; some hundred transactions.
const INTERVAL: Duration = Duration::from_millis(3);

impl Trials {
    fn new() -> Self {
        Self {
            auto: AutoTeams::new(),
            since: None,
            transactions: 0,
        }
    }

    /// Takes in the end of a transaction at `now`; the mode to go on in, at the end of an interval.
    fn transaction(&mut self, mode: TeamsMode, now: Instant) -> Option<TeamsMode> {
        self.transactions += 1;
        let since = *self.since.get_or_insert(now);
        let time = now.saturating_duration_since(since);
        if time < INTERVAL {
            return None;
        }
        let next = self
            .auto
            .interval(mode, self.transactions, time.as_nanos() as u64);
        self.since = Some(now);
        self.transactions = 0;
        Some(next)
    }
}

/// Holds the members of one thread until all of them are there.
struct Start {
    missing: Cell<usize>,
    waiting: RefCell<Vec<Token>>,
}

impl Start {
    fn new(members: usize) -> Self {
        Self {
            missing: Cell::new(members),
            waiting: RefCell::default(),
        }
    }

    /// Returns when all members are here and the last of them has called `all_here`.
    fn wait(&self, all_here: impl FnOnce()) {
        let missing = self.missing.get() - 1;
        if missing == 0 {
            all_here();
            self.missing.set(0);
            for token in self.waiting.take() {
                token.unpark();
            }
            return;
        }
        self.missing.set(missing);
        if let Some(token) = Token::current() {
            self.waiting.borrow_mut().push(token);
        }
        while self.missing.get() > 0 {
            teams::park(None);
        }
    }
}

fn statistics(scheduler: &Scheduler) -> TeamOutcome {
    let mut outcome = TeamOutcome::default();
    for one in scheduler.statistics() {
        outcome.choices += one.teams;
        outcome.operations.push(OperationOutcome {
            operation: Operation(one.operation),
            name: String::new(),
            teams: one.teams,
            entered: one.in_,
            left: one.out,
        });
    }
    outcome.ready = (scheduler.ready_average() * outcome.choices as f64).round() as u64;
    outcome
}
