//! How a holder waits, once it stands in a queue.

use super::error::{HeldBy, LockError, LockName};
use super::holder::Holder;
use super::slot::{Target, Waiting};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Looks at the grant this often before it parks: about a microsecond, since the thread that would grant may need this core.
/// Unmeasured.
const SPINS: u32 = 24;
/// Waiters look for deadlocks ever less often, down to this.
const DETECT_EVERY_MAX: Duration = Duration::from_millis(100);
/// The same where very many wait. A look that was interrupted seems long, so this stays below usual timeouts.
const DETECT_EVERY_CROWDED_MAX: Duration = Duration::from_millis(300);
/// The longest wait.
pub(super) const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Why a wait is over. Only its queue's mutex tells for good whether the lock was granted meanwhile.
pub(super) enum Wake {
    Granted,
    Doomed(Vec<u32>),
    Expired,
    /// The client unwinds: its `park` panicked.
    Panicked(Box<dyn Any + Send>),
}

/// One wait: its number, since when, and for what.
pub(super) struct Wait {
    pub number: u64,
    pub started: Instant,
    pub name: LockName,
    pub mode: &'static str,
    pub wake: Wake,
}

impl Holder {
    /// Waits for a request that stands in its queue until it is granted, given up or doomed. [`Self::settled`] follows.
    pub(super) fn wait(&mut self, number: u64, started: Instant, target: Target, contested: bool) -> Wait {
        let mut wait = Wait {
            number,
            started,
            name: target.name(),
            mode: target.mode(),
            wake: Wake::Granted,
        };
        let locks = Arc::clone(&self.locks);
        let slot = &locks.slots[self.slot as usize];
        // On a user-level thread the others wait for this core.
        let spins = if corun_exec::teams::is_member() { 0 } else { SPINS };
        for _ in 0..spins {
            if slot.is_granted(number) {
                return wait;
            }
            std::hint::spin_loop();
        }

        if self.birth == 0 {
            self.birth = locks.births.fetch_add(1, Ordering::Relaxed) + 1;
        }
        let held = std::mem::take(&mut self.held);
        let (birth, park) = (self.birth, Arc::clone(&self.park));
        *slot.waiting.lock() = Some(Box::new(Waiting {
            wait: number,
            target,
            held,
            birth,
            park,
            parties: Vec::new(),
        }));
        locks.waits.fetch_add(1, Ordering::Relaxed);
        // Release: whoever reads that we wait (tests do) finds us in the queue.
        locks.waiting.fetch_add(1, Ordering::Release);

        wait.wake = self.wait_published(number, started, contested);

        locks.waiting.fetch_sub(1, Ordering::Release);
        if let Some(waiting) = slot.waiting.lock().take() {
            self.held = waiting.held;
            if let Wake::Doomed(parties) = &mut wait.wake {
                *parties = waiting.parties;
            }
        }
        wait
    }

    fn wait_published(&self, number: u64, started: Instant, contested: bool) -> Wake {
        let slot = &self.locks.slots[self.slot as usize];
        let deadline = started + self.timeout;
        let mut pause = self.locks.options.detect_after.min(TIMEOUT_MAX);
        let pause_max = pause.max(DETECT_EVERY_MAX);
        let mut detect_at = if contested { started } else { started + pause };
        loop {
            if slot.is_granted(number) {
                return Wake::Granted;
            }
            if slot.is_doomed(number) {
                return Wake::Doomed(Vec::new());
            }
            let now = Instant::now();
            if now >= deadline || self.park.gives_up() {
                return Wake::Expired;
            }
            if now >= detect_at {
                let ran = self.locks.detect(self.slot);
                let after = Instant::now();
                if ran {
                    // However many wait, all together spend about a quarter of one core's time on this.
                    let waiters = self.locks.waiting.load(Ordering::Relaxed);
                    let share = (after - now).saturating_mul(waiters.saturating_mul(4));
                    pause = (pause * 2)
                        .min(pause_max)
                        .max(share.min(DETECT_EVERY_CROWDED_MAX));
                }
                detect_at = after + pause.max(Duration::from_micros(100));
                continue;
            }
            let until = deadline.min(detect_at);
            // A client that unwinds out of its park must not stay in the queue, nor leave what it holds with the detector.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.park.park(Some(until)))) {
                return Wake::Panicked(payload);
            }
        }
    }

    /// After a wait: leaves the queue, and says whether the lock is ours. A panic is kept for [`Self::unwind`].
    pub(super) fn settled(&mut self, wait: Wait, leave: impl FnOnce() -> HeldBy) -> Result<(), LockError> {
        if matches!(wait.wake, Wake::Granted) {
            return Ok(());
        }
        let by = leave();
        let granted = self.locks.slots[self.slot as usize].is_granted(wait.number);
        let (what, mode) = (wait.name, wait.mode);
        match wait.wake {
            Wake::Panicked(payload) => {
                self.panic = Some(payload);
                if granted {
                    Ok(())
                } else {
                    Err(LockError::Timeout {
                        what,
                        mode,
                        waited: wait.started.elapsed(),
                        by,
                    })
                }
            }
            _ if granted => Ok(()),
            Wake::Doomed(parties) => {
                self.locks.deadlocks.fetch_add(1, Ordering::Relaxed);
                Err(LockError::Deadlock { what, mode, parties })
            }
            Wake::Granted | Wake::Expired => {
                self.locks.timeouts.fetch_add(1, Ordering::Relaxed);
                Err(LockError::Timeout {
                    what,
                    mode,
                    waited: wait.started.elapsed(),
                    by,
                })
            }
        }
    }

    /// Goes on with a panic of the client's park, once what was granted meanwhile is on the books.
    pub(super) fn unwind(&mut self) {
        if let Some(payload) = self.panic.take() {
            std::panic::resume_unwind(payload);
        }
    }
}
