//! [`Park`]: the one seam through which a client waits.
//!
//! Everything in the store that waits (for a lock, for the log) parks the client that waits and is woken through the same
//! object: an operating-system thread ([`ThreadPark`]), or a member of a team of user-level threads ([`MemberPark`]), which
//! leaves its team while it waits. [`current`] is the right one for who calls it.
//!
//! What it is not: a lock or a condition. Whoever parks checks what it waited for itself.

use std::sync::Arc;
use std::thread::Thread;
use std::time::{Duration, Instant};

use corun_exec::teams::{self, Token};

/// How one client waits, and how others wake it. One object for each client.
///
/// It works as a token: an [`Park::unpark`] before the [`Park::park`] makes that return at once. Returns without reason are
/// allowed, so callers check again.
pub trait Park: Send + Sync {
    /// Blocks the calling client until it is unparked or `deadline` has passed. Called by the client it belongs to only.
    fn park(&self, deadline: Option<Instant>);

    /// Wakes the client. Callable from any thread.
    fn unpark(&self);

    /// Whether the client gives up what it waits for, as if its time were over. Asked while it waits for a lock, ten times a second at least.
    fn gives_up(&self) -> bool {
        false
    }
}

/// A client that is an operating-system thread.
#[derive(Debug)]
pub struct ThreadPark(Thread);

impl ThreadPark {
    /// The calling thread. [`Park::park`] must then be called on this thread; on another it returns at once or late, as a
    /// return without reason. A user-level thread of this thread that calls it lets the others run, but hears late that it was
    /// woken: give its session [`current`].
    pub fn current() -> Arc<dyn Park> {
        Arc::new(ThreadPark(std::thread::current()))
    }
}

/// How often a member looks whether the thread's object was woken, which cannot tell it.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Park for ThreadPark {
    fn park(&self, deadline: Option<Instant>) {
        if teams::is_member() {
            // A session made on the thread before it ran members. Who it waits for may be another of them.
            let look = Instant::now() + LOOK_EVERY;
            teams::park(Some(deadline.map_or(look, |deadline| deadline.min(look))));
            return;
        }
        match deadline {
            None => std::thread::park(),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if !left.is_zero() {
                    std::thread::park_timeout(left);
                }
            }
        }
    }

    fn unpark(&self) {
        self.0.unpark();
    }
}

/// A client that is a user-level thread. While it waits, the others of its thread run.
#[derive(Clone)]
pub struct MemberPark(Token);

impl MemberPark {
    /// The calling user-level thread; none on a plain thread. [`Park::park`] must then be called by this one.
    pub fn current() -> Option<Arc<dyn Park>> {
        Token::current().map(|token| Arc::new(MemberPark(token)) as Arc<dyn Park>)
    }
}

impl Park for MemberPark {
    fn park(&self, deadline: Option<Instant>) {
        teams::park(deadline);
    }

    fn unpark(&self) {
        self.0.unpark();
    }
}

/// How the caller waits: the user-level thread if it is one, else its operating-system thread.
pub fn current() -> Arc<dyn Park> {
    MemberPark::current().unwrap_or_else(ThreadPark::current)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unpark_before_the_park_is_not_lost() {
        let park = ThreadPark::current();
        park.unpark();
        park.park(None);
    }

    #[test]
    fn a_park_ends_at_its_deadline() {
        let park = ThreadPark::current();
        let deadline = Instant::now() + Duration::from_millis(5);
        while Instant::now() < deadline {
            park.park(Some(deadline));
        }
        park.park(Some(deadline));
    }
}
