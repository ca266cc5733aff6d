//! Clients of a worker as user-level threads of one operating-system thread.
//!
//! ```text
//!             ┌─ desk: session, the job's answer ─┐
//! queue ──►  member ──job──► operation, operation, ...     one stack each; all sessions are the worker's
//! ```
//!
//! What a member that uses up its stack leaves behind is cleaned up from outside of it, so its session and the answer it owes lie
//! on a desk beside its stack. What it is not: a scheduler, see [`corun_exec::teams`].

use std::cell::{Cell, OnceCell, RefCell, UnsafeCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_exec::teams::{self, Control, OperationStatistics, Scheduler, Scope};
use corun_model::teams::AutoTeams;
use parking_lot::Mutex;

use super::pending::GiveUp;
use super::queue::{Job, Queue};
use super::{Teams, WorkerOptions, discard, run};
use crate::error::{Result, StoreError};
use crate::operations::operation_name;
use crate::park::{self, Park, ThreadPark};
use crate::session::Session;
use crate::store::Store;

/// The teams of one operation (paper 003, Table 4).
#[derive(Clone, Debug, PartialEq)]
pub struct OperationTeams {
    /// What it is called, as in `fetch usertable.primary`.
    pub name: String,
    /// How many teams ran, who came in, and who left without having gone astray.
    pub counts: OperationStatistics,
}

/// What the members of one worker did, for others to read.
#[derive(Default)]
pub(super) struct Statistics(Mutex<Vec<OperationStatistics>>);

impl Statistics {
    pub(super) fn read(&self) -> Vec<OperationTeams> {
        let named = |counts: &OperationStatistics| OperationTeams {
            name: operation_name(teams::Operation(counts.operation))
                .unwrap_or_else(|| format!("operation {}", counts.operation)),
            counts: *counts,
        };
        self.0.lock().iter().map(named).collect()
    }
}

/// Members that are replaced after they used up their stacks, for one worker: each leaves its stack behind.
const REPLACED_MAX: usize = 256;
/// Jobs after which a worker looks at the clock. Unmeasured.
const LOOK_JOBS: u64 = 64;
/// The shortest interval that is compared with others. Unmeasured.
const INTERVAL: Duration = Duration::from_millis(2);

/// What lies beside a member's stack.
struct Desk {
    session: UnsafeCell<Session>,
    /// Of the job that runs.
    answer: Cell<Option<Arc<dyn GiveUp>>>,
}

/// What the members of one worker share. Used by its thread only.
struct Worker {
    // Fixed.
    desks: Vec<Desk>,
    queue: Arc<Queue>,
    statistics: Arc<Statistics>,
    /// None unless the mode is found out.
    auto: Option<RefCell<AutoTeams>>,
    // Changing.
    control: OnceCell<Control>,
    /// The desk of each member, by the order of spawning.
    seats: RefCell<Vec<usize>>,
    replaced: Cell<usize>,
    jobs: Cell<u64>,
    idle: Cell<usize>,
    /// When the interval began, and after how many jobs; none while there was nothing to do.
    interval: Cell<Option<(Instant, u64)>>,
}

/// Makes what a worker needs; what is returned runs it until its queue ends.
///
/// # Errors
/// [`StoreError::Option`] for options a scheduler does not take, or where there is none; sessions that cannot be had.
pub(super) fn prepare(
    store: &Store,
    worker: usize,
    options: WorkerOptions,
    queue: Arc<Queue>,
    statistics: Arc<Statistics>,
) -> Result<Box<dyn FnOnce()>> {
    let mut scheduler = Scheduler::new(options.team).map_err(|error| StoreError::Option {
        name: "team",
        why: error.to_string(),
    })?;
    let desk = |_| {
        Ok(Desk {
            session: UnsafeCell::new(store.session(worker, ThreadPark::current())?),
            answer: Cell::new(None),
        })
    };
    let worker = Worker {
        desks: (0..options.members).map(desk).collect::<Result<_>>()?,
        queue,
        statistics,
        auto: (options.teams == Teams::Auto).then(RefCell::default),
        control: OnceCell::new(),
        seats: RefCell::default(),
        replaced: Cell::new(0),
        jobs: Cell::new(0),
        idle: Cell::new(0),
        interval: Cell::new(None),
    };
    Ok(Box::new(move || {
        let control = worker.control.get_or_init(|| scheduler.control());
        if let Some(auto) = &worker.auto {
            control.set_mode(auto.borrow().mode());
        }
        let worker = &worker;
        scheduler.scope(|scope| {
            scope.on_lost(move |member, _| worker.lost(scope, member));
            (0..worker.desks.len()).for_each(|desk| worker.seat(scope, desk));
        });
        // Nobody is left, also where members were lost: what waits would wait for ever.
        worker.queue.refuse();
        worker.publish();
    }))
}

impl Worker {
    /// Spawns a member for a desk.
    fn seat<'scope>(&'scope self, scope: &'scope Scope<'scope, '_, ()>, desk: usize) {
        self.seats.borrow_mut().push(desk);
        scope.spawn(format!("store member {desk}"), move || self.work(desk));
    }

    /// A member's life.
    fn work(&self, number: usize) {
        let desk = &self.desks[number];
        let park = park::current();
        // SAFETY: one member sits at a desk, and `lost` looks at it only once that member runs no more.
        let session = unsafe { &mut *desk.session.get() };
        session.set_park(Arc::clone(&park));
        while let Some(job) = self.take(number, &park) {
            desk.answer.set(Some(Arc::clone(&job.answer)));
            run(session, job);
            discard(desk.answer.take());
            self.done();
        }
    }

    fn take(&self, number: usize, park: &Arc<dyn Park>) -> Option<Job> {
        let waited = Cell::new(false);
        let job = self.queue.take(number, park, || {
            if !waited.replace(true) {
                self.idle.set(self.idle.get() + 1);
            }
            if self.idle.get() == self.desks.len() {
                // The time until the next job says nothing about teams.
                self.interval.set(None);
                self.publish();
            }
        });
        if waited.get() {
            self.idle.set(self.idle.get() - 1);
        }
        job
    }

    /// Cleans up behind a member that used up its stack, and seats another one.
    fn lost<'scope>(&'scope self, scope: &'scope Scope<'scope, '_, ()>, member: usize) {
        let number = self.seats.borrow()[member];
        let desk = &self.desks[number];
        // SAFETY: the member that sat here runs no more, and the next one is not yet there.
        let session = unsafe { &mut *desk.session.get() };
        session.abandon();
        if let Some(answer) = desk.answer.take() {
            answer.give_up();
            discard(answer);
        }
        if self.replaced.get() < REPLACED_MAX {
            self.replaced.set(self.replaced.get() + 1);
            self.seat(scope, number);
        }
    }

    /// Counts a job, and at the end of an interval chooses the mode of the next one.
    fn done(&self) {
        let jobs = self.jobs.get() + 1;
        self.jobs.set(jobs);
        if !jobs.is_multiple_of(LOOK_JOBS) {
            return;
        }
        let now = Instant::now();
        let Some((began, jobs_before)) = self.interval.get() else {
            self.interval.set(Some((now, jobs)));
            return;
        };
        let time = now - began;
        if time < INTERVAL {
            return;
        }
        self.interval.set(Some((now, jobs)));
        self.publish();
        if let (Some(auto), Some(control)) = (&self.auto, self.control.get()) {
            let ran = control.mode();
            let next = auto
                .borrow_mut()
                .interval(ran, jobs - jobs_before, time.as_nanos() as u64);
            if next != ran {
                control.set_mode(next);
            }
        }
    }

    fn publish(&self) {
        if let Some(control) = self.control.get() {
            *self.statistics.0.lock() = control.statistics();
        }
    }
}
