//! [`Turns`]: limits how many members of a thread are inside of transactions at once. Those that wait go in the order they came.
//!
//! A turn lasts for [`SLICE`], as long as somebody waits: what a client uses besides the data (its session, its stack, its own
//! counters) stays in the caches meanwhile, as it does where the operating system lets threads run for a while.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use corun_exec::teams::{self, Token};

/// How long a client goes on with its turn before others have theirs.
pub(super) const SLICE: Duration = Duration::from_millis(1);

/// A queue with numbers: who has taken number `n` may go when `n - most` others have left.
pub(super) struct Turns {
    /// None: no limit.
    most: Option<u64>,
    taken: Cell<u64>,
    left: Cell<u64>,
    /// In the order of their numbers.
    waiting: RefCell<VecDeque<Token>>,
}

/// A turn that a client has, or none yet.
#[derive(Default)]
pub(super) struct Turn {
    /// When it began.
    since: Cell<Option<Instant>>,
}

impl Turns {
    /// At most so many at once; zero: no limit.
    pub fn new(most: usize) -> Self {
        Self {
            most: (most > 0).then_some(most as u64),
            taken: Cell::new(0),
            left: Cell::new(0),
            waiting: RefCell::default(),
        }
    }

    /// Waits for a turn, unless the client still has one. Called by a member.
    pub fn enter(&self, turn: &Turn) {
        let Some(most) = self.most else { return };
        if turn.since.get().is_some() {
            return;
        }
        let mine = self.taken.get();
        self.taken.set(mine + 1);
        if mine >= self.left.get() + most {
            if let Some(token) = Token::current() {
                self.waiting.borrow_mut().push_back(token);
            }
            while mine >= self.left.get() + most {
                teams::park(None);
            }
        }
        turn.since.set(Some(Instant::now()));
    }

    /// Lets the next one go, if somebody waits and the turn has lasted long enough at `now`, or the client has ended.
    pub fn leave(&self, turn: &Turn, now: Option<Instant>) {
        let Some(since) = turn.since.get() else { return };
        let goes_on = now.is_some_and(|now| now.saturating_duration_since(since) < SLICE);
        if goes_on || (now.is_some() && self.waiting.borrow().is_empty()) {
            return;
        }
        turn.since.set(None);
        self.left.set(self.left.get() + 1);
        let next = self.waiting.borrow_mut().pop_front();
        if let Some(next) = next {
            next.unpark();
        }
    }

    /// Lets everybody go from now on: somebody was lost in its turn.
    pub fn open(&self) {
        self.left.set(u64::MAX / 2);
        for token in self.waiting.take() {
            token.unpark();
        }
    }
}
