//! [`Token`]: how a parked member is woken, from any thread; [`park`].
//!
//! ```text
//!            unpark                 park: returns at once
//!   EMPTY ───────────▶ NOTIFIED ───────────────────────────▶ EMPTY
//!     │ park             ▲ unpark: queued once, by whoever made this step
//!     └────▶ PARKED ─────┘
//!               └────▶ EMPTY   the deadline passed (by the scheduler)
//! ```
//!
//! A park is queued at most once, so the queues hold at most as many members as there are.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::core::{self, Core};
use super::local;
use super::member::Member;

const EMPTY: u8 = 0;
const PARKED: u8 = 1;
const NOTIFIED: u8 = 2;

/// The longest wait of a member that may not switch, in a latch or while it unwinds; then it looks again.
const HARD_PARK: Duration = Duration::from_micros(100);

/// Wakes one member, from any thread.
#[derive(Clone)]
pub struct Token(Arc<Parking>);

struct Parking {
    state: AtomicU8,
    /// Used by the member's own thread only.
    member: *mut Member,
    /// Whose member it is; compared only.
    core: *mut Core,
    remote: Arc<Remote>,
}

// SAFETY: the pointers are followed on the thread the member belongs to only, while the member is parked, so it exists.
unsafe impl Send for Parking {}
// SAFETY: as above.
unsafe impl Sync for Parking {}

/// Members woken by other threads.
pub(super) struct Remote {
    woken: Mutex<Vec<Woken>>,
    /// Whether `woken` may have members. Set after a push, cleared before they are taken: never false for long while there are.
    any: AtomicBool,
    thread: Thread,
    /// Ends a wait of the host, if the thread has one.
    wake: Mutex<Option<Wake>>,
}

/// Ends a wait of a host.
pub(super) type Wake = Arc<dyn Fn() + Send + Sync>;

/// A woken member on its way to its own thread.
struct Woken(*mut Member);

// SAFETY: only handed back to the thread the member belongs to.
unsafe impl Send for Woken {}

impl Remote {
    /// For the calling thread.
    pub fn new() -> Remote {
        Remote {
            woken: Mutex::new(Vec::new()),
            any: AtomicBool::new(false),
            thread: std::thread::current(),
            wake: Mutex::new(None),
        }
    }

    fn push(&self, member: *mut Member) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        woken.push(Woken(member));
        drop(woken);
        // Release: whoever sees it takes the lock and finds the member. A scheduler that looked before this is on its way to an OS
        // park, which the unpark below ends.
        self.any.store(true, Ordering::Release);
        self.thread.unpark();
        let wake = self.wake.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(wake) = wake {
            wake();
        }
    }

    /// How a wait of the host is ended from now on; none: there is no host.
    pub fn set_wake(&self, wake: Option<Wake>) {
        let before = std::mem::replace(
            &mut *self.wake.lock().unwrap_or_else(PoisonError::into_inner),
            wake,
        );
        // Code of the user.
        drop(before);
    }

    /// Whether somebody may have been woken.
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Takes all that were woken.
    pub fn take(&self, mut each: impl FnMut(*mut Member)) {
        // Before the lock: a member pushed after it sets the flag again.
        self.any.store(false, Ordering::Relaxed);
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        for Woken(member) in woken.drain(..) {
            each(member);
        }
    }
}

impl Token {
    pub(super) fn new(member: *mut Member, core: *mut Core, remote: Arc<Remote>) -> Token {
        Token(Arc::new(Parking {
            state: AtomicU8::new(EMPTY),
            member,
            core,
            remote,
        }))
    }

    /// The running member's; `None` on a plain thread.
    pub fn current() -> Option<Token> {
        let member: *mut Member = local::with(|local| local.member.get()).cast();
        // SAFETY: the running member exists.
        (!member.is_null()).then(|| unsafe { (*member).token.clone() })
    }

    /// Wakes the member if it is parked; if not, its next [`park`] returns at once. After the member's end it does nothing.
    pub fn unpark(&self) {
        let parking = &*self.0;
        // Release: what the caller did before is seen by the member, whose step out of NOTIFIED acquires.
        if parking.state.swap(NOTIFIED, Ordering::AcqRel) == PARKED {
            let here = local::with(|local| local.core.get());
            if here == parking.core {
                // SAFETY: this is the member's own thread, its scheduler is running, and no other borrow of it is alive.
                unsafe { core::ready(here, parking.member) };
            } else {
                parking.remote.push(parking.member);
            }
        }
    }

    /// Takes a notification that is there. The token is that of the running member.
    fn take(&self) -> bool {
        self.0.state.swap(EMPTY, Ordering::Acquire) == NOTIFIED
    }

    /// Whether the member may be suspended: false if a notification came first, which is taken.
    pub(super) fn park_begins(&self) -> bool {
        let state = &self.0.state;
        // Acquire on failure: the notification's writes are seen.
        let parked = state.compare_exchange(EMPTY, PARKED, Ordering::Relaxed, Ordering::Acquire);
        parked.is_ok() || !self.take()
    }

    /// The member runs again.
    pub(super) fn park_ends(&self) {
        self.take();
    }

    /// Ends a park by its deadline. False if it was woken before, and is or will be in a queue for that.
    pub(super) fn park_expires(&self) -> bool {
        let state = &self.0.state;
        let expired = state.compare_exchange(PARKED, EMPTY, Ordering::Relaxed, Ordering::Relaxed);
        expired.is_ok()
    }
}

/// Blocks the caller until its token is notified or `deadline` has passed; it may also return without reason. A member leaves its
/// team, and the processor goes to the next of it. On a plain thread this is [`std::thread::park`].
///
/// A member in a latch or one that unwinds keeps the processor and returns after a moment.
pub fn park(deadline: Option<Instant>) {
    let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
    let member: *mut Member = local::with(|local| local.member.get()).cast();
    if member.is_null() {
        match deadline {
            None => std::thread::park(),
            Some(deadline) => std::thread::park_timeout(left(deadline)),
        }
    } else if core::may_switch() {
        // SAFETY: the running member, on its own stack.
        unsafe { core::park(member, deadline) };
    } else {
        // SAFETY: the running member exists.
        let token = unsafe { &(*member).token };
        if !token.take() {
            std::thread::park_timeout(deadline.map_or(HARD_PARK, |deadline| left(deadline).min(HARD_PARK)));
            token.take();
        }
    }
}
