//! [`Turns`]: limits how many members of a thread are inside of a transaction at once. Those that wait go in the order they came.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use exec::teams::{self, Token};

/// A queue with numbers: who has taken number `n` may go when `n - most` others have left.
pub(super) struct Turns {
    /// None: no limit.
    most: Option<u64>,
    taken: Cell<u64>,
    left: Cell<u64>,
    /// In the order of their numbers.
    waiting: RefCell<VecDeque<Token>>,
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

    /// Waits for its turn. Called by a member.
    pub fn enter(&self) {
        let Some(most) = self.most else { return };
        let mine = self.taken.get();
        self.taken.set(mine + 1);
        if mine < self.left.get() + most {
            return;
        }
        if let Some(token) = Token::current() {
            self.waiting.borrow_mut().push_back(token);
        }
        while mine >= self.left.get() + most {
            teams::park(None);
        }
    }

    /// Lets everybody go from now on: somebody was lost in its turn.
    pub fn open(&self) {
        self.left.set(u64::MAX / 2);
        for token in self.waiting.take() {
            token.unpark();
        }
    }

    /// Lets the next one go.
    pub fn leave(&self) {
        if self.most.is_none() {
            return;
        }
        self.left.set(self.left.get() + 1);
        let next = self.waiting.borrow_mut().pop_front();
        if let Some(next) = next {
            next.unpark();
        }
    }
}
