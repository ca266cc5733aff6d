//! [`blocking`]: work that blocks its OS thread, done by a helper thread while the member's team goes on.
//!
//! Helpers are shared by the process, are started as they are needed and end when there is nothing to do for a second. At most
//! [`HELPERS_MAX`] work at once; more closures wait for one of them, so they must not wait for each other.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::token::{Token, park};

/// Helper threads of the process at most. Unmeasured.
pub const HELPERS_MAX: usize = 64;

/// How long a helper without work stays.
const LINGER: Duration = Duration::from_secs(1);

/// Stack that handing work over may need, the start of a thread and a park included.
const STACK_RESERVE: usize = 16 << 10;

type Job = Box<dyn FnOnce() + Send>;

struct Helpers {
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

static HELPERS: Helpers = Helpers {
    state: Mutex::new(State {
        jobs: VecDeque::new(),
        idle: 0,
        threads: 0,
    }),
    work: Condvar::new(),
};

impl Helpers {
    /// Hands a job to a helper, or back if there is none and none can be started.
    fn submit(&'static self, job: Job) -> Option<Job> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.idle <= state.jobs.len() && state.threads < HELPERS_MAX {
            let helper = std::thread::Builder::new().name("teams-blocking".to_owned());
            if helper.spawn(|| self.run()).is_ok() {
                state.threads += 1;
            } else if state.threads == 0 {
                return Some(job);
            }
        }
        state.jobs.push_back(job);
        drop(state);
        self.work.notify_one();
        None
    }

    /// A helper's life.
    fn run(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.idle += 1;
            let waited = self.work.wait_timeout(state, LINGER);
            let (again, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

/// Runs a closure that may block for long on a helper thread; the calling member is a stray until it is done. On a plain thread, in
/// a latch, while unwinding, and where no thread can be started it runs here.
///
/// # Panics
/// If the closure does.
pub fn blocking<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let Some(token) = Token::current().filter(|_| super::core::may_switch()) else {
        return work();
    };
    // Once the work has been handed over the member must not be lost: its scope, and what the work borrows, would end before it.
    // SAFETY: the caller is a running member, as it has a token, and it may switch.
    unsafe { super::core::need(super::current(), STACK_RESERVE) };
    let mut outcome = None;
    let done = AtomicBool::new(false);
    let (slot, flag) = (SendPtr(&raw mut outcome), SendPtr((&raw const done).cast_mut()));
    let job = move || {
        let (slot, flag) = (slot, flag);
        let result = catch_unwind(AssertUnwindSafe(work));
        // SAFETY: the member waits below until the flag is set, so both are there and nobody else uses them.
        unsafe {
            *slot.0 = Some(result);
            // Release: the result is seen by the member. After this neither may be touched.
            (*flag.0).store(true, Ordering::Release);
        }
        token.unpark();
    };
    let job: Box<dyn FnOnce() + Send + '_> = Box::new(job);
    // SAFETY: the closure is called, and with that consumed, before the flag is set, and this function does not return before.
    let job: Job = unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Job>(job) };
    match HELPERS.submit(job) {
        Some(job) => job(),
        None => {
            while !done.load(Ordering::Acquire) {
                park(None);
            }
        }
    }
    match outcome {
        Some(Ok(result)) => result,
        Some(Err(payload)) => resume_unwind(payload),
        None => unreachable!("the flag is set after the result"),
    }
}

/// A pointer that goes to a helper.
struct SendPtr<T>(*mut T);

impl<T> Clone for SendPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for SendPtr<T> {}

// SAFETY: used by one thread at a time: the helper until it sets the flag, then the member. What is pointed to may be sent.
unsafe impl<T: Send> Send for SendPtr<T> {}
