//! Many tenants on one core: their requests one after the other as they come ([`serial`]), or by a team ([`team`]).

use std::cell::Cell;

use corun_exec::teams::{self, Lost, Operation, Scheduler, mark};

use crate::sqlite::SqliteError;
use crate::tenant::{Answer, Kind, Request, Tenant};

/// What became of one tenant's requests, in order.
pub type Answers = Vec<Result<Answer, SqliteError>>;

/// Which part of a run a tracer sees, by marker instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// None of it.
    #[default]
    None,
    /// The last request of all tenants, as one operation.
    LastRound,
}

/// Runs request after request, each of another tenant than the one before: first the first of each tenant, then the second.
pub fn serial(tenants: &mut [Tenant], requests: &[Vec<Request>], marks: Marks) -> Vec<Answers> {
    let rounds = requests.iter().map(Vec::len).max().unwrap_or(0);
    let mut answers: Vec<Answers> = requests
        .iter()
        .map(|requests| Vec::with_capacity(requests.len()))
        .collect();
    for round in 0..rounds {
        let last = round + 1 == rounds;
        if last && marks == Marks::LastRound {
            mark::begin();
        }
        for ((tenant, requests), answers) in tenants.iter_mut().zip(requests).zip(&mut answers) {
            let Some(&request) = requests.get(round) else {
                continue;
            };
            answers.push(tenant.run(request));
        }
        if last && marks == Marks::LastRound {
            mark::end();
        }
    }
    answers
}

/// Runs all requests of one tenant, then all of the next, each by a member that is alone. The last request of each is marked as an
/// operation of its own, with the wrapper around it: the code a member of a team runs, but for the switch.
pub fn each(
    scheduler: &mut Scheduler,
    tenants: &mut [Tenant],
    requests: &[Vec<Request>],
) -> Vec<Result<Answers, Lost>> {
    let mut all = Vec::with_capacity(tenants.len());
    for (tenant, requests) in tenants.iter_mut().zip(requests) {
        let alone = scheduler.scope(|scope| {
            scope.spawn("alone", move || {
                let mut answers = Answers::with_capacity(requests.len());
                for (at, &request) in requests.iter().enumerate() {
                    let last = at + 1 == requests.len();
                    if last {
                        mark::begin();
                    }
                    teams::operation(operation_of(request.kind()));
                    answers.push(tenant.run(request));
                    if last {
                        mark::end();
                    }
                }
                answers
            });
        });
        all.extend(alone);
    }
    all
}

/// Runs the same with one member of the scheduler for each tenant; requests of one kind are one operation. A member that is lost has
/// no answers, the others have all of theirs.
pub fn team(
    scheduler: &mut Scheduler,
    tenants: &mut [Tenant],
    requests: &[Vec<Request>],
    marks: Marks,
) -> Vec<Result<Answers, Lost>> {
    // Members that began and that ended their last request: the first to begin and the last to end mark the round.
    let (begun, ended) = (Cell::new(0), Cell::new(0));
    let members = tenants.len();
    scheduler.scope(|scope| {
        for (number, (tenant, requests)) in tenants.iter_mut().zip(requests).enumerate() {
            let (begun, ended) = (&begun, &ended);
            scope.spawn(format!("tenant {number}"), move || {
                let mut answers = Answers::with_capacity(requests.len());
                for (at, &request) in requests.iter().enumerate() {
                    teams::operation(operation_of(request.kind()));
                    let last = at + 1 == requests.len() && marks != Marks::None;
                    if last && begun.replace(begun.get() + 1) == 0 {
                        mark::begin();
                    }
                    answers.push(tenant.run(request));
                    if last && ended.replace(ended.get() + 1) + 1 == members {
                        mark::end();
                    }
                }
                answers
            });
        }
    })
}

/// The operation of teams that requests of a kind are.
pub fn operation_of(kind: Kind) -> Operation {
    Operation(kind as u16)
}

/// `count` requests of one kind from number `from` on, for each of `tenants` tenants.
pub fn requests(kind: Kind, tenants: u32, from: u32, count: u32, customers: i64) -> Vec<Vec<Request>> {
    let of = |tenant| {
        (from..from + count)
            .map(|number| kind.request(tenant, number, customers))
            .collect()
    };
    (0..tenants).map(of).collect()
}
