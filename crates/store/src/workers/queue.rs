//! [`Queue`]: the jobs of one worker, and those who wait for one or for room.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::pending::{Answer, GiveUp};
use crate::park::{self, Park};
use crate::session::Session;

/// What a client is to do, and where its answer goes.
pub(super) struct Job {
    pub(super) run: Box<dyn FnOnce(&mut Session) + Send>,
    pub(super) answer: Arc<dyn GiveUp>,
}

impl Job {
    pub(super) fn new<R: Send + 'static>(
        job: impl FnOnce(&mut Session) -> R + Send + 'static,
        answer: Arc<Answer<R>>,
    ) -> Job {
        let given = Arc::clone(&answer);
        Job {
            run: Box::new(move |session| given.give(job(session))),
            answer,
        }
    }
}

/// Jobs in the order they came, at most `max`.
pub(super) struct Queue {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Clients without work, each once; the last goes first, as its stack is in the caches.
    idle: Vec<(usize, Arc<dyn Park>)>,
    /// Submitters that wait for room.
    full: VecDeque<Arc<dyn Park>>,
    ended: bool,
    refuses: bool,
}

/// Adds a job for which there is room.
fn add(mut state: MutexGuard<'_, State>, job: Job) {
    if state.refuses {
        drop(state);
        job.answer.give_up();
        return;
    }
    state.jobs.push_back(job);
    let idle = state.idle.pop();
    drop(state);
    if let Some((_, park)) = idle {
        park.unpark();
    }
}

impl Queue {
    pub(super) fn new(max: usize) -> Queue {
        Queue {
            max,
            state: Mutex::default(),
        }
    }

    /// Adds a job; waits while there is no room. Gives it up if nobody is left to run it.
    pub(super) fn push(&self, job: Job) {
        let mut state = self.state.lock();
        while state.jobs.len() >= self.max {
            let park = park::current();
            state.full.push_back(Arc::clone(&park));
            drop(state);
            park.park(None);
            state = self.state.lock();
            state.full.retain(|waiting| !Arc::ptr_eq(waiting, &park));
        }
        add(state, job);
    }

    /// As [`Queue::push`], with the job that `make` makes if there is room. It is not called if there is none.
    pub(super) fn try_push(&self, make: impl FnOnce() -> Job) {
        let state = self.state.lock();
        if state.jobs.len() < self.max {
            add(state, make());
        }
    }

    /// The next job for a client of this worker. None once there are none and none will come. `waits` is told before the client
    /// waits.
    pub(super) fn take(&self, client: usize, park: &Arc<dyn Park>, waits: impl Fn()) -> Option<Job> {
        loop {
            let mut state = self.state.lock();
            state.idle.retain(|(waiting, _)| *waiting != client);
            if let Some(job) = state.jobs.pop_front() {
                let full = state.full.pop_front();
                drop(state);
                if let Some(park) = full {
                    park.unpark();
                }
                return Some(job);
            }
            if state.ended {
                return None;
            }
            state.idle.push((client, Arc::clone(park)));
            drop(state);
            waits();
            park.park(None);
        }
    }

    /// Gives up all jobs that wait, and those to come: nobody is left to run them.
    pub(super) fn refuse(&self) {
        let mut state = self.state.lock();
        state.refuses = true;
        let (jobs, full) = (std::mem::take(&mut state.jobs), std::mem::take(&mut state.full));
        drop(state);
        for job in jobs {
            job.answer.give_up();
        }
        for park in full {
            park.unpark();
        }
    }

    /// Lets clients end when the jobs that wait are done.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        for (_, park) in idle {
            park.unpark();
        }
    }
}
