//! Making a reactor's turn return from another thread.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes one reactor: its turn returns after [`super::Event::Woken`]. Calls between two turns are one event.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    // Set from the first call until the reactor begins to deliver the event: the calls between cost no system call.
    rung: AtomicBool,
    bell: Bell,
}

/// How the kernel is told.
#[derive(Debug)]
pub(super) enum Bell {
    Mio(mio::Waker),
    /// An event counter that the reactor waits for itself.
    Counter(Arc<File>),
    /// Nobody sleeps: the twin asks.
    Silent,
}

impl Waker {
    pub(super) fn new(bell: Bell) -> Self {
        Self(Arc::new(Inner {
            rung: AtomicBool::new(false),
            bell,
        }))
    }

    /// Wakes the reactor, now or when it next waits. Does nothing once the reactor is gone.
    pub fn wake(&self) {
        // What the caller did before is seen by whoever clears the flag.
        if self.0.rung.swap(true, Ordering::AcqRel) {
            return;
        }
        // Neither can fail but for a full counter, which wakes as well.
        match &self.0.bell {
            Bell::Mio(waker) => drop(waker.wake()),
            Bell::Counter(file) => drop((&**file).write(&1u64.to_ne_bytes())),
            Bell::Silent => {}
        }
    }

    /// Whether somebody called since the last time. Whatever those callers did before is visible afterwards.
    pub(super) fn answer(&self) -> bool {
        self.0.rung.swap(false, Ordering::AcqRel)
    }

    /// Whether an answer is due.
    pub(super) fn is_rung(&self) -> bool {
        self.0.rung.load(Ordering::Acquire)
    }
}
