//! [`run`]: the subject, which runs what a [`Job`] says. The suite runs it in its own process to measure time, and starts a copy of the
//! program that runs it under a tracer to count misses.
//!
//! ```text
//!   serial          client 0: [begin marker, operation, end marker], client 1: [...], ...        one after the other
//!   to completion   member 0: [begin marker, operation   member 1: operation ...  last: operation, end marker]
//!   team            the same, members switching at CTX points inside the operation
//!   held            members that stay one team for all rounds; the first to come to a round ends the one before
//! ```
//!
//! A round is one operation of every member. Members meet at a gate before it and at another one behind it, operations of their own, so
//! that all of a round are between the two markers and nothing else is: the operation, the wrapper it begins with, and of all members
//! but the last the wrapper it ends with.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use corun_exec::teams::{self, Lost, Scheduler, TeamOptions, mark};
use corun_model::teams::CtxProfile;
use corun_store::{Options, Store};
use corun_workloads::corun::CorunTpcc;
use corun_workloads::engine::{TpccClient, TpccEngine, TxError};
use corun_workloads::tpcc::{self, Input, Kind, Scale, Terminal};

use super::job::{Done, Job, Mix, Mode, Operation, Pass, Points, TeamLine, Workload};
use super::table::{Marked, PaperTable, failed};
use lab_core::error::BenchError;

/// Seed of TPC-C's rows and inputs.
const SEED: u64 = 0x7374_6570;
/// Where members meet before and behind the operation; the store does not get to such numbers.
const GATE_IN: teams::Operation = teams::Operation(corun_store::OPERATIONS_MAX as u16 + 100);
const GATE_OUT: teams::Operation = teams::Operation(corun_store::OPERATIONS_MAX as u16 + 101);
/// How often a transaction is run again because of others before the run fails.
const RETRIES_MAX: u32 = 10_000;

/// A loaded database, ready for passes.
pub struct Subject {
    data: Data,
    /// Operations so far: their numbers choose keys.
    number: Cell<u64>,
}

enum Data {
    Operation {
        store: Store,
        operation: Operation,
        tables: Vec<PaperTable>,
    },
    Tpcc {
        engine: Box<CorunTpcc>,
        scale: Scale,
        mix: Mix,
    },
}

/// Runs a job from its first pass to its last.
///
/// # Errors
/// When a database cannot be made or a pass cannot run; what was answered wrongly is in the [`Done`]s.
pub fn run(job: &Job) -> Result<Vec<Done>, BenchError> {
    let subject = Subject::load(job.workload, job.patient)?;
    job.passes.iter().map(|pass| subject.pass(pass)).collect()
}

fn options(patient: bool) -> Options {
    let options = Options {
        durability: corun_store::Durability::Asynchronous,
        ..Options::default()
    };
    match patient {
        true => Options {
            lock_timeout: Duration::from_secs(600),
            detect_after: Duration::from_secs(60),
            ..options
        },
        false => options,
    }
}

/// Turns on the points that `points` says, for all threads.
fn set_points(points: &Points) -> Result<(), BenchError> {
    match points {
        Points::Default => teams::default_points(),
        Points::All => teams::set_points(|_| true),
        Points::Profile(text) => {
            let profile: CtxProfile = text.parse().map_err(failed)?;
            teams::load_profile(&profile).map_err(failed)?;
        }
    }
    Ok(())
}

impl Subject {
    /// Makes and loads a database. A `patient` one leaves minutes to lock waits.
    ///
    /// # Errors
    /// The store's.
    pub fn load(workload: Workload, patient: bool) -> Result<Subject, BenchError> {
        let store = Store::in_memory(options(patient)).map_err(failed)?;
        let data = match workload {
            Workload::Operation {
                operation,
                rows,
                other_rows,
            } => {
                let mut tables = vec![PaperTable::load(&store, "paper", rows)?];
                if other_rows > 0 {
                    tables.push(PaperTable::load(&store, "other", other_rows)?);
                }
                Data::Operation {
                    store,
                    operation,
                    tables,
                }
            }
            Workload::Tpcc {
                mix,
                warehouses,
                divisor,
            } => {
                let engine = CorunTpcc::new(store).map_err(failed)?;
                let scale = Scale {
                    warehouses,
                    divisor: divisor.clamp(1, 100),
                };
                tpcc::load(&engine, scale, SEED, 1, &|_| ()).map_err(failed)?;
                Data::Tpcc {
                    engine: Box::new(engine),
                    scale,
                    mix,
                }
            }
        };
        Ok(Subject {
            data,
            number: Cell::new(0),
        })
    }

    /// Runs one pass.
    ///
    /// # Errors
    /// When it cannot run; what was answered wrongly is in the [`Done`].
    pub fn pass(&self, pass: &Pass) -> Result<Done, BenchError> {
        set_points(&pass.points)?;
        match &self.data {
            Data::Operation {
                store,
                operation,
                tables,
            } => {
                let mut done = self.operation(store, *operation, tables, pass)?;
                for table in tables {
                    done.wrong.extend(table.check(store)?);
                }
                Ok(done)
            }
            Data::Tpcc { engine, scale, mix } => {
                let mut done = transactions(engine, *scale, *mix, pass)?;
                let violations = tpcc::check(engine.as_ref(), *scale).map_err(failed)?;
                done.wrong.extend(violations.iter().map(ToString::to_string));
                Ok(done)
            }
        }
    }

    fn operation(
        &self,
        store: &Store,
        operation: Operation,
        tables: &[PaperTable],
        pass: &Pass,
    ) -> Result<Done, BenchError> {
        let members = pass.members.max(1);
        let rounds = pass.warm_up + pass.rounds;
        let first = self.number.get();
        self.number.set(first + (rounds * members) as u64);
        let number = |round: usize, member: usize| first + (round * members + member) as u64;
        let marks = Marks::new(pass, if pass.mode == Mode::Serial { 1 } else { members });
        let wrong = RefCell::new(Vec::new());
        let client = |member: usize| -> Result<(), BenchError> {
            let table = &tables[member % tables.len()];
            let mut session = store.session(0, corun_store::park::current()).map_err(failed)?;
            let mut row = table.buffer();
            if pass.mode == Mode::Held {
                let numbers = (0..rounds).map(|round| number(round, member));
                return table.fetch_all(&mut session, numbers, &|round| marks.next(round), &|| marks.end());
            }
            for round in 0..rounds {
                let marked = InRound { marks: &marks, round };
                table.run(&mut session, &mut row, operation, number(round, member), &marked)?;
            }
            Ok(())
        };
        let mut done = Done {
            operations: (pass.rounds * members) as u64,
            seconds: 0.0,
            wrong: Vec::new(),
            teams: Vec::new(),
            ready: None,
        };
        match pass.mode {
            Mode::Serial => {
                let mut clients = Vec::new();
                for member in 0..members {
                    let table = &tables[member % tables.len()];
                    let session = store.session(0, corun_store::park::current()).map_err(failed)?;
                    clients.push((table, session, table.buffer()));
                }
                for round in 0..rounds {
                    for (member, (table, session, row)) in clients.iter_mut().enumerate() {
                        let marked = InRound { marks: &marks, round };
                        table.run(session, row, operation, number(round, member), &marked)?;
                    }
                }
            }
            Mode::ToCompletion | Mode::Team | Mode::Held => {
                let mut scheduler = scheduler(pass, members)?;
                let lost = scheduler.scope(|scope| {
                    for member in 0..members {
                        let (client, wrong) = (&client, &wrong);
                        scope.spawn(&format!("client {member}"), move || {
                            if let Err(error) = client(member) {
                                wrong.borrow_mut().push(format!("client {member}: {error}"));
                            }
                        });
                    }
                });
                wrong.borrow_mut().extend(lost_members(lost));
                statistics(&scheduler, &mut done);
            }
        }
        done.seconds = marks.seconds.get();
        done.wrong = wrong.into_inner();
        Ok(done)
    }
}

/// The markers and the clock of a pass. Members of one scheduler take turns on one thread, so plain cells do.
struct Marks {
    /// Members of a round.
    members: usize,
    /// Rounds without markers.
    warm_up: usize,
    /// Rounds in all.
    rounds: usize,
    /// Whether there are markers and gates; else there is only the clock.
    marked: bool,
    entered: Cell<usize>,
    left: Cell<usize>,
    start: Cell<Option<Instant>>,
    seconds: Cell<f64>,
}

impl Marks {
    fn new(pass: &Pass, members: usize) -> Marks {
        Marks {
            members,
            warm_up: pass.warm_up,
            rounds: pass.warm_up + pass.rounds,
            marked: pass.marked,
            entered: Cell::new(0),
            left: Cell::new(0),
            start: Cell::new(None),
            seconds: Cell::new(0.0),
        }
    }

    /// A member of a held team comes to a round. The first of them all ends the round before: members are in step.
    fn next(&self, round: usize) {
        if round == 0 {
            teams::operation(GATE_IN);
            hold_team(true);
        }
        if self.entered.get() == round {
            self.entered.set(round + 1);
            if round > self.warm_up {
                mark::end();
            }
            if round >= self.warm_up {
                self.start_clock();
                mark::begin();
            }
        }
    }

    /// A member of a held team is behind the last round.
    fn end(&self) {
        let left = self.left.get() + 1;
        self.left.set(left);
        if left == self.members {
            mark::end();
            self.read_clock();
        }
        hold_team(false);
        teams::operation(GATE_OUT);
    }

    fn start_clock(&self) {
        if self.start.get().is_none() {
            self.start.set(Some(Instant::now()));
        }
    }

    fn read_clock(&self) {
        if let Some(start) = self.start.get() {
            self.seconds.set(start.elapsed().as_secs_f64());
        }
    }
}

fn hold_team(held: bool) {
    if let Some(control) = teams::control() {
        control.hold_team(held);
    }
}

/// One member in one round.
struct InRound<'m> {
    marks: &'m Marks,
    round: usize,
}

impl Marked for InRound<'_> {
    fn before(&self) {
        let marks = self.marks;
        if marks.marked {
            teams::operation(GATE_IN);
        }
        if self.round < marks.warm_up {
            return;
        }
        let entered = marks.entered.get() + 1;
        marks.entered.set(entered % marks.members);
        if entered == 1 {
            marks.start_clock();
            if marks.marked {
                mark::begin();
            }
        }
    }

    fn after(&self) {
        let marks = self.marks;
        if self.round >= marks.warm_up {
            let left = marks.left.get() + 1;
            marks.left.set(left % marks.members);
            if left == marks.members {
                if marks.marked {
                    mark::end();
                }
                if self.round + 1 == marks.rounds {
                    marks.read_clock();
                }
            }
        }
        if marks.marked {
            teams::operation(GATE_OUT);
        }
    }
}

/// A scheduler for a pass.
fn scheduler(pass: &Pass, members: usize) -> Result<Scheduler, BenchError> {
    Scheduler::new(TeamOptions {
        team_size_max: members,
        ctx: pass.mode != Mode::ToCompletion,
        float: pass.float,
        ..TeamOptions::default()
    })
    .map_err(failed)
}

fn lost_members<R>(members: Vec<Result<R, Lost>>) -> Vec<String> {
    let lost = members.into_iter().filter_map(Result::err);
    let text = |lost| match lost {
        Lost::Overflowed { message } => message,
        Lost::Stack(error) => format!("a member got no stack: {error}"),
        _ => "a member panicked".to_owned(),
    };
    lost.map(text).collect()
}

/// What TPC-C's clients share.
struct Desk {
    marks: Marks,
    finished: Cell<usize>,
    over: Cell<bool>,
    wrong: RefCell<Vec<String>>,
}

impl Desk {
    /// Notes that a transaction has ended, whoever ran it.
    fn finish(&self) {
        let finished = self.finished.get() + 1;
        self.finished.set(finished);
        if finished == self.marks.warm_up {
            if let Some(control) = teams::control() {
                control.reset_statistics();
            }
            self.marks.start_clock();
            if self.marks.marked {
                mark::begin();
            }
        }
        if finished == self.marks.rounds {
            if self.marks.marked {
                mark::end();
            }
            self.marks.read_clock();
            self.over.set(true);
        }
    }
}

/// A terminal and its client.
struct Caller<'e> {
    terminal: Terminal,
    client: Box<dyn TpccClient + 'e>,
    /// Transactions so far; stands for the time.
    now: i64,
}

impl Caller<'_> {
    /// Runs one transaction to its end, again as often as others are in the way.
    fn call(&mut self) -> Result<(), TxError> {
        self.now += 1;
        let input = self.terminal.next(tpcc::LOADED_AT + self.now);
        let client = self.client.as_mut();
        for _ in 0..RETRIES_MAX {
            let answer = match &input {
                Input::NewOrder(input) => client.new_order(input).map(drop),
                Input::Payment(input) => client.payment(input).map(drop),
                Input::OrderStatus(input) => client.order_status(input).map(drop),
                Input::Delivery(input) => client.delivery(input).map(drop),
                Input::StockLevel(input) => client.stock_level(input).map(drop),
            };
            match answer {
                Err(TxError::Retry(_)) => teams::yield_now(),
                other => return other,
            }
        }
        Err(TxError::failed(format!("gave up after {RETRIES_MAX} retries")))
    }
}

/// Runs TPC-C until enough transactions have ended.
fn transactions(engine: &CorunTpcc, scale: Scale, mix: Mix, pass: &Pass) -> Result<Done, BenchError> {
    let mix = match mix {
        Mix::Payment => tpcc::Mix::only(Kind::Payment),
        Mix::NoDelivery => tpcc::Mix::NO_DELIVERY,
    };
    let desk = Desk {
        marks: Marks::new(pass, 1),
        finished: Cell::new(0),
        over: Cell::new(false),
        wrong: RefCell::new(Vec::new()),
    };
    let caller = |number: usize| -> Result<Caller<'_>, TxError> {
        Ok(Caller {
            terminal: Terminal::new(scale, mix, SEED, SEED + 1, number),
            client: engine.client(0)?,
            now: 0,
        })
    };
    let mut done = Done {
        operations: pass.rounds as u64,
        seconds: 0.0,
        wrong: Vec::new(),
        teams: Vec::new(),
        ready: None,
    };
    if pass.mode == Mode::Serial {
        let callers = (0..pass.members).map(caller).collect::<Result<Vec<_>, _>>();
        let mut callers = callers.map_err(failed)?;
        'all: loop {
            for caller in &mut callers {
                caller.call().map_err(failed)?;
                desk.finish();
                if desk.over.get() {
                    break 'all;
                }
            }
        }
    } else {
        let mut scheduler = scheduler(pass, pass.members)?;
        let members = scheduler.scope(|scope| {
            for number in 0..pass.members {
                let (desk, caller) = (&desk, &caller);
                scope.spawn(&format!("terminal {number}"), move || {
                    let called = caller(number).and_then(|mut caller| {
                        while !desk.over.get() {
                            caller.call()?;
                            desk.finish();
                        }
                        Ok(())
                    });
                    if let Err(error) = called {
                        desk.over.set(true);
                        desk.wrong
                            .borrow_mut()
                            .push(format!("terminal {number}: {error}"));
                    }
                });
            }
        });
        desk.wrong.borrow_mut().extend(lost_members(members));
        statistics(&scheduler, &mut done);
    }
    done.seconds = desk.marks.seconds.get();
    done.wrong = desk.wrong.into_inner();
    Ok(done)
}

/// Who entered and left which team.
fn statistics(scheduler: &Scheduler, done: &mut Done) {
    let name = |number: u16| {
        corun_store::operation_name(teams::Operation(number)).unwrap_or_else(|| format!("operation {number}"))
    };
    let lines = scheduler.statistics().into_iter().map(|line| TeamLine {
        operation: name(line.operation),
        teams: line.teams,
        entered: line.in_,
        left: line.out,
    });
    done.teams = lines.collect();
    done.ready = Some(scheduler.ready_average());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(mode: Mode, members: usize, marked: bool) -> Pass {
        Pass {
            mode,
            members,
            points: Points::All,
            rounds: 3,
            warm_up: 2,
            float: false,
            marked,
        }
    }

    #[test]
    fn every_operation_is_right_in_every_mode() {
        for operation in Operation::ALL {
            let workload = Workload::Operation {
                operation,
                rows: 300,
                other_rows: 40,
            };
            let subject = Subject::load(workload, false).unwrap();
            for mode in [Mode::Serial, Mode::ToCompletion, Mode::Team] {
                for marked in [false, true] {
                    let done = subject.pass(&pass(mode, 4, marked)).unwrap();
                    assert_eq!(done.wrong, [""; 0], "{operation:?} {mode:?}");
                    assert_eq!(done.operations, 12);
                    assert!(done.seconds > 0.0);
                    // Neither has a barrier: beginning is too short, and so is the end of one that only read.
                    let barrier = !matches!(operation, Operation::Begin | Operation::Commit);
                    if mode == Mode::Serial || barrier {
                        assert_eq!(
                            done.teams.is_empty(),
                            mode == Mode::Serial,
                            "{operation:?} {mode:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_team_that_stays_together_fetches_right() {
        let workload = Workload::Operation {
            operation: Operation::Fetch,
            rows: 300,
            other_rows: 0,
        };
        let done = Subject::load(workload, false)
            .unwrap()
            .pass(&pass(Mode::Held, 5, true))
            .unwrap();
        assert_eq!((done.wrong, done.operations), (Vec::new(), 15));
        // Its members met at the two gates and to commit, but formed no team to fetch.
        assert!(
            done.teams.iter().all(|line| !line.operation.starts_with("fetch")),
            "{:?}",
            done.teams
        );
    }

    #[test]
    fn tpcc_stays_consistent_and_its_teams_are_counted() {
        let workload = Workload::Tpcc {
            mix: Mix::NoDelivery,
            warehouses: 1,
            divisor: 100,
        };
        let subject = Subject::load(workload, false).unwrap();
        for mode in [Mode::Serial, Mode::ToCompletion, Mode::Team] {
            let done = subject
                .pass(&Pass {
                    rounds: 60,
                    warm_up: 10,
                    ..pass(mode, 10, false)
                })
                .unwrap();
            assert_eq!(done.wrong, [""; 0], "{mode:?}");
            assert_eq!(done.operations, 60);
            let fetches = done
                .teams
                .iter()
                .filter(|line| line.operation == "fetch district.primary");
            assert_eq!(fetches.count(), usize::from(mode != Mode::Serial));
        }
    }

    #[test]
    fn a_profile_of_no_known_place_is_an_error() {
        let workload = Workload::Operation {
            operation: Operation::Begin,
            rows: 10,
            other_rows: 0,
        };
        let profile = "corun-ctx-profile 1\nl1i 32k/8/64\nknee 200,4\nsite nowhere.rs:1:1\n";
        let pass = Pass {
            points: Points::Profile(profile.to_owned()),
            ..pass(Mode::Team, 2, false)
        };
        let error = Subject::load(workload, false).unwrap().pass(&pass).unwrap_err();
        assert!(error.to_string().contains("nowhere.rs"), "{error}");
    }
}
