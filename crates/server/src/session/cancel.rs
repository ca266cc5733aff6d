//! [`CancelHandle`]: how another connection ends a statement that runs.

use corun_wire::error::{Refusal, code};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// Cancels what a session runs. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct CancelHandle(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Guards that are held: a text has statements, each of which is prepared and run.
    running: usize,
    cancelled: bool,
}

impl CancelHandle {
    /// Ends the statement that runs now, if there is one: it fails with 57014. What comes later is not touched.
    pub fn cancel(&self) {
        let mut state = self.0.state.lock();
        if state.running > 0 {
            state.cancelled = true;
            self.0.changed.notify_waiters();
        }
    }

    /// Whether what runs now was cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.0.state.lock().cancelled
    }

    /// A statement begins. It ends when the guard is dropped.
    pub(super) fn begin(&self) -> Running {
        self.0.state.lock().running += 1;
        Running(self.clone())
    }
}

/// A statement that runs.
pub(super) struct Running(CancelHandle);

impl Running {
    pub(super) fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Returns once the statement was cancelled.
    pub(super) async fn cancelled(&self) -> Refusal {
        let inner = &self.0.0;
        loop {
            let changed = inner.changed.notified();
            tokio::pin!(changed);
            // Listens before it looks, so that no change is missed.
            changed.as_mut().enable();
            if inner.state.lock().cancelled {
                return Refusal::new(code::QUERY_CANCELED, "canceling statement due to user request");
            }
            changed.await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.0.state.lock();
        state.running -= 1;
        if state.running == 0 {
            state.cancelled = false;
        }
    }
}
