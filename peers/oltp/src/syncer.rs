//! [`Syncer`]: makes commits durable now and then, for engines whose asynchronous commits promise no time themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Between two syncs, as in corun's asynchronous mode.
pub const WINDOW: Duration = Duration::from_millis(100);

/// A thread that syncs every [`WINDOW`], if something was committed since.
pub struct Syncer {
    dirty: Arc<AtomicBool>,
    /// Closed before the thread is joined, which ends it.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Syncer {
    /// Starts the thread. A `sync` that fails is not reported: a disk that fails there fails the next transaction too, which says so.
    pub fn start(sync: impl Fn() + Send + 'static) -> Self {
        let (stop, stopped) = mpsc::channel();
        let dirty = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&dirty);
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(WINDOW) == Err(RecvTimeoutError::Timeout) {
                // Relaxed: a commit that is seen too late waits for the next round. Nothing is written while nobody is at work.
                if seen.swap(false, Ordering::Relaxed) {
                    sync();
                }
            }
        });
        Self {
            dirty,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Something was committed.
    pub fn committed(&self) {
        self.dirty.store(true, Ordering::Relaxed);
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, nothing is left to be done about it here.
            let _ = thread.join();
        }
    }
}
