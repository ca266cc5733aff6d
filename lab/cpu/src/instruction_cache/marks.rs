//! [`Marks`]: the markers, gates and clock around what a pass runs.
//!
//! Members meet at a gate before an operation and at another one behind it, so that all of a round are between the two markers and nothing
//! else is. Not here: what they run ([`super::subject`]).

use std::cell::Cell;
use std::time::Instant;

use corun_exec::teams::{self, mark};

use super::job::Pass;
use super::table::Marked;

/// Where members meet before and behind the operation; the store does not get to such numbers.
const GATE_IN: teams::Operation = teams::Operation(corun_store::OPERATIONS_MAX as u16 + 100);
const GATE_OUT: teams::Operation = teams::Operation(corun_store::OPERATIONS_MAX as u16 + 101);

/// The markers and the clock of a pass. Members of one scheduler take turns on one thread, so plain cells do.
pub(super) struct Marks {
    /// Members of a round.
    members: usize,
    /// Rounds without markers.
    pub(super) warm_up: usize,
    /// Rounds in all.
    pub(super) rounds: usize,
    /// Whether there are markers and gates; else there is only the clock.
    pub(super) marked: bool,
    entered: Cell<usize>,
    left: Cell<usize>,
    start: Cell<Option<Instant>>,
    seconds: Cell<f64>,
}

impl Marks {
    /// Of so many members.
    pub(super) fn new(pass: &Pass, members: usize) -> Marks {
        Marks {
            members,
            warm_up: pass.warm_up,
            rounds: pass.warm_up + pass.rounds,
            marked: pass.marked,
            entered: Cell::new(0),
            left: Cell::new(0),
            start: Cell::new(None),
            seconds: Cell::new(0.0),
        }
    }

    /// A member of a held team comes to a round. The first of them all ends the round before: members are in step.
    pub(super) fn next(&self, round: usize) {
        if round == 0 {
            teams::operation(GATE_IN);
            hold_team(true);
        }
        if self.entered.get() == round {
            self.entered.set(round + 1);
            if round > self.warm_up {
                mark::end();
            }
            if round >= self.warm_up {
                self.start_clock();
                mark::begin();
            }
        }
    }

    /// A member of a held team is behind the last round.
    pub(super) fn end(&self) {
        let left = self.left.get() + 1;
        self.left.set(left);
        if left == self.members {
            mark::end();
            self.read_clock();
        }
        hold_team(false);
        teams::operation(GATE_OUT);
    }

    /// Starts the clock, unless it runs.
    pub(super) fn start_clock(&self) {
        if self.start.get().is_none() {
            self.start.set(Some(Instant::now()));
        }
    }

    /// Seconds from the first start to the last reading.
    pub(super) fn seconds(&self) -> f64 {
        self.seconds.get()
    }

    /// Reads the clock.
    pub(super) fn read_clock(&self) {
        if let Some(start) = self.start.get() {
            self.seconds.set(start.elapsed().as_secs_f64());
        }
    }
}

fn hold_team(held: bool) {
    if let Some(control) = teams::control() {
        control.hold_team(held);
    }
}

/// One member in one round.
pub(super) struct InRound<'m> {
    pub(super) marks: &'m Marks,
    pub(super) round: usize,
}

impl Marked for InRound<'_> {
    fn before(&self) {
        let marks = self.marks;
        if marks.marked {
            teams::operation(GATE_IN);
        }
        if self.round < marks.warm_up {
            return;
        }
        let entered = marks.entered.get() + 1;
        marks.entered.set(entered % marks.members);
        if entered == 1 {
            marks.start_clock();
            if marks.marked {
                mark::begin();
            }
        }
    }

    fn after(&self) {
        let marks = self.marks;
        if self.round >= marks.warm_up {
            let left = marks.left.get() + 1;
            marks.left.set(left % marks.members);
            if left == marks.members {
                if marks.marked {
                    mark::end();
                }
                if self.round + 1 == marks.rounds {
                    marks.read_clock();
                }
            }
        }
        if marks.marked {
            teams::operation(GATE_OUT);
        }
    }
}
