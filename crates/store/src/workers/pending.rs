//! [`Pending`]: the answer of a job, for who submitted it.
//!
//! ```text
//!   submit ─► job runs ─► answer ─────────────────────────► wait, or await
//!                           └ with a commit's handle ─► disk ─► wait_durable, or await durable: no worker waits for the disk
//! ```
//!
//! What it is not: a channel. There is one answer, or the news that none will come.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::commit_handle::CommitHandle;
use crate::error::StoreError;
use crate::park::{self, Park};

/// The answer of a job. It is a [`Future`] of what [`Pending::wait`] returns, for any executor.
#[must_use = "an answer that nobody waits for is lost; the job runs all the same"]
pub struct Pending<R>(Arc<Answer<R>>);

/// Where the answer is put. Shared by who waits, the job, and its thread, which may outlive the job.
pub(super) struct Answer<R>(Mutex<State<R>>);

enum State<R> {
    /// Not there yet; who waits, if somebody does.
    Running(Option<Waiting>),
    /// None: the job ended without one.
    Ended(Option<R>),
}

/// Who waits.
enum Waiting {
    Client(Arc<dyn Park>),
    Task(Waker),
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
            match waiting {
                None => {}
                Some(Waiting::Client(park)) => park.unpark(),
                Some(Waiting::Task(waker)) => super::quietly(|| waker.wake()),
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
                State::Running(waiting) => *waiting = Some(Waiting::Client(Arc::clone(&park))),
            }
            park.park(None);
        }
    }
}

/// Of [`Pending::wait`].
impl<R> Future for Pending<R> {
    type Output = Option<R>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<R>> {
        match &mut *self.0.0.lock() {
            State::Ended(answer) => Poll::Ready(answer.take()),
            State::Running(waiting) => {
                *waiting = Some(Waiting::Task(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

/// Of jobs that end with [`Transaction::commit_async`](crate::Transaction::commit_async): their client goes on to the next job while the
/// commit is on its way, so one client has many.
///
/// ```
/// # use corun_store::{CommitHandle, Options, Store, StoreError, TableDef, Type, WorkerOptions, Workers};
/// # let store = Store::in_memory(Options::default())?;
/// # let table = store.create_table(TableDef::new("t").column("id", Type::I64).primary_key(&["id"]))?;
/// # let workers = Workers::start(&store, WorkerOptions::default(), |_| ())?;
/// # let of_job = table.clone();
/// let pending = workers.submit(0, move |session| -> Result<(u32, CommitHandle), StoreError> {
///     let mut row = of_job.new_row();
///     row.set("id", 1)?;
///     let transaction = session.begin()?;
///     let rid = transaction.insert(&of_job, &row)?;
///     Ok((rid.into(), transaction.commit_async()?))
/// });
/// let rid = pending.wait_durable().expect("the job did not panic")?;
/// assert_eq!(rid, 0);
/// # Ok::<(), StoreError>(())
/// ```
impl<R, E: From<StoreError>> Pending<Result<(R, CommitHandle), E>> {
    /// Waits for the answer, and until the job's commit is on disk. None as [`Pending::wait`].
    ///
    /// # Errors
    /// The job's; that the disk failed ([`CommitHandle`]).
    pub fn wait_durable(self) -> Option<Result<R, E>> {
        self.wait().map(|answer| {
            let (answer, commit) = answer?;
            commit.wait()?;
            Ok(answer)
        })
    }

    /// As [`Pending::wait_durable`], for any executor.
    ///
    /// # Errors
    /// As there.
    pub async fn durable(self) -> Option<Result<R, E>> {
        match self.await? {
            Ok((answer, commit)) => Some(commit.await.map(|_| answer).map_err(E::from)),
            Err(error) => Some(Err(error)),
        }
    }
}
