//! [`Pending`]: the answer of a job, for who submitted it.
//!
//! What it is not: a channel. There is one answer, or the news that none will come.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::park::{self, Park};

/// The answer of a job.
pub struct Pending<R>(Arc<Answer<R>>);

/// Where the answer is put. Shared by who waits, the job, and its thread, which may outlive the job.
pub(super) struct Answer<R>(Mutex<State<R>>);

enum State<R> {
    /// Not there yet; who waits, if somebody does.
    Running(Option<Arc<dyn Park>>),
    /// None: the job ended without one.
    Ended(Option<R>),
}

/// A job whose answer can be given up without knowing its type.
pub(super) trait GiveUp: Send + Sync {
    /// Says that no answer comes, unless there is one.
    fn give_up(&self);
}

impl<R> Answer<R> {
    /// An answer and who waits for it.
    pub(super) fn pending() -> (Arc<Answer<R>>, Pending<R>) {
        let answer = Arc::new(Answer(Mutex::new(State::Running(None))));
        (Arc::clone(&answer), Pending(answer))
    }

    /// Gives the answer.
    pub(super) fn give(&self, answer: R) {
        self.end(Some(answer));
    }

    fn end(&self, answer: Option<R>) {
        let mut state = self.0.lock();
        if let State::Running(waiting) = &mut *state {
            let waiting = waiting.take();
            *state = State::Ended(answer);
            drop(state);
            if let Some(park) = waiting {
                park.unpark();
            }
        }
    }
}

impl<R: Send> GiveUp for Answer<R> {
    fn give_up(&self) {
        self.end(None);
    }
}

impl<R> Pending<R> {
    /// Waits for it. None if the job panicked or overflowed its stack; its transaction was aborted then. A user-level thread
    /// lets others run meanwhile.
    pub fn wait(self) -> Option<R> {
        let park = park::current();
        loop {
            match &mut *self.0.0.lock() {
                State::Ended(answer) => return answer.take(),
                State::Running(waiting) => *waiting = Some(Arc::clone(&park)),
            }
            park.park(None);
        }
    }
}
