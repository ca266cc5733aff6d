//! [`CommitHandle`]: a commit on its way to the disk.
//!
//! ```text
//!   commit_async ─► visible to all, locks let go ─► handle ─► wait, or await ─► on disk
//! ```
//!
//! What it is not: the commit. Dropped, the commit reaches the disk all the same, within [`crate::Options::flush_every`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use parking_lot::Mutex;

use crate::error::Result;
use crate::park::{self, Park};
use crate::store::StoreInner;
use crate::ts::Ts;

/// A commit that is visible and may not be on disk yet. From [`crate::Transaction::commit_async`].
///
/// It is a [`Future`] of the commit's timestamp, for any executor: whoever brings the commit to the disk wakes its task.
///
/// # Errors
/// Of waiting and of the future: the disk failed. The changes are visible, but a restart may find them missing.
pub struct CommitHandle {
    store: Arc<StoreInner>,
    ts: Ts,
    /// What must be durable.
    newest: Ts,
    /// Once the log knows whom to wake.
    task: Option<Arc<Task>>,
}

/// Who polls the future; it has the log wake it as if it were a parked client.
struct Task(Mutex<Waker>);

impl Park for Task {
    fn park(&self, _: Option<Instant>) {
        unreachable!("a task is polled, and does not block");
    }

    fn unpark(&self) {
        self.0.lock().wake_by_ref();
    }
}

impl std::fmt::Debug for CommitHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CommitHandle({})", self.ts)
    }
}

impl CommitHandle {
    pub(crate) fn new(store: &Arc<StoreInner>, ts: Ts, newest: Ts) -> Self {
        CommitHandle {
            store: Arc::clone(store),
            ts,
            newest,
            task: None,
        }
    }

    /// Its place among all commits.
    pub fn ts(&self) -> Ts {
        self.ts
    }

    /// Whether it is on disk. It asks for nothing: without anybody who waits it is there within [`crate::Options::flush_every`].
    pub fn is_durable(&self) -> bool {
        self.newest <= self.store.log.durable()
    }

    /// Returns when it is on disk; the caller waits as [`park::current`] does.
    ///
    /// # Errors
    /// See [`CommitHandle`].
    pub fn wait(self) -> Result<Ts> {
        if !self.is_durable() {
            self.store.log.wait_durable(self.newest, &park::current())?;
        }
        Ok(self.ts)
    }
}

impl Future for CommitHandle {
    type Output = Result<Ts>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Ts>> {
        let this = &mut *self;
        let log = &this.store.log;
        let is_durable = match &this.task {
            // The waker first: a commit that becomes durable from here on wakes the new one.
            Some(task) => {
                task.0.lock().clone_from(context.waker());
                log.is_durable(this.newest)
            }
            None => {
                let task = Arc::new(Task(Mutex::new(context.waker().clone())));
                let client: Arc<dyn Park> = Arc::clone(&task) as Arc<dyn Park>;
                this.task = Some(task);
                log.tell_durable(this.newest, &client)
            }
        };
        match is_durable {
            Ok(true) => Poll::Ready(Ok(this.ts)),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}
