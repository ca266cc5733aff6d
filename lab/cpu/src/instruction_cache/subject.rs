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
use std::time::Duration;

use corun_exec::teams::{self, Lost, Scheduler, TeamOptions};
use corun_model::teams::CtxProfile;
use corun_store::{Options, RowBuf, Session, Store};
use corun_workloads::corun::CorunTpcc;
use corun_workloads::tpcc::{self, Scale};

use super::job::{Done, Job, Mix, Mode, Operation, Pass, Points, TeamLine, Workload};
use super::marks::{InRound, Marks};
use super::table::PaperTable;
use super::transactions::{SEED, transactions};
use lab_core::error::BenchError;

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
            let profile: CtxProfile = text.parse().map_err(BenchError::store)?;
            teams::load_profile(&profile).map_err(BenchError::store)?;
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
        let store = Store::in_memory(options(patient)).map_err(BenchError::store)?;
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
                let engine = CorunTpcc::new(store).map_err(BenchError::store)?;
                let scale = Scale {
                    warehouses,
                    divisor: divisor.clamp(1, 100),
                };
                tpcc::load(&engine, scale, SEED, 1, &|_| ()).map_err(BenchError::store)?;
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
                let violations = tpcc::check(engine.as_ref(), *scale).map_err(BenchError::store)?;
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
        let client = |member: usize| -> Result<(&PaperTable, Session, RowBuf), BenchError> {
            let table = &tables[member % tables.len()];
            let session = store
                .session(0, corun_store::park::current())
                .map_err(BenchError::store)?;
            Ok((table, session, table.buffer()))
        };
        let run =
            |round: usize, member: usize, (table, session, row): &mut (&PaperTable, Session, RowBuf)| {
                let marked = InRound { marks: &marks, round };
                table.run(session, row, operation, number(round, member), &marked)
            };
        let mut done = Done {
            operations: (pass.rounds * members) as u64,
            ..Done::default()
        };
        match pass.mode {
            Mode::Serial => {
                let mut clients = (0..members).map(client).collect::<Result<Vec<_>, _>>()?;
                for round in 0..rounds {
                    for (member, client) in clients.iter_mut().enumerate() {
                        run(round, member, client)?;
                    }
                }
            }
            Mode::ToCompletion | Mode::Team => run_members(pass, "client", &mut done, |member| {
                let mut client = client(member)?;
                (0..rounds).try_for_each(|round| run(round, member, &mut client))
            })?,
            Mode::Held => run_members(pass, "client", &mut done, |member| {
                let (table, mut session, _) = client(member)?;
                let numbers = (0..rounds).map(|round| number(round, member));
                table.fetch_all(&mut session, numbers, &|round| marks.next(round), &|| marks.end())
            })?,
        }
        done.seconds = marks.seconds();
        Ok(done)
    }
}

/// Runs a client on each member of a scheduler; what they answer wrongly, and who entered and left which team, is in `done`.
pub(super) fn run_members(
    pass: &Pass,
    name: &str,
    done: &mut Done,
    client: impl Fn(usize) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let members = pass.members.max(1);
    let options = TeamOptions {
        team_size_max: members,
        ctx: pass.mode != Mode::ToCompletion,
        float: pass.float,
        ..TeamOptions::default()
    };
    let mut scheduler = Scheduler::new(options).map_err(BenchError::store)?;
    let wrong = RefCell::new(Vec::new());
    let ended = scheduler.scope(|scope| {
        for member in 0..members {
            let (client, wrong) = (&client, &wrong);
            scope.spawn(format!("{name} {member}"), move || {
                if let Err(error) = client(member) {
                    wrong.borrow_mut().push(format!("{name} {member}: {error}"));
                }
            });
        }
    });
    done.wrong = wrong.into_inner();
    done.wrong
        .extend(ended.into_iter().filter_map(Result::err).map(|lost| match lost {
            Lost::Overflowed { message } => message,
            Lost::Stack(error) => format!("a member got no stack: {error}"),
            _ => "a member panicked".to_owned(),
        }));
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
    Ok(())
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
