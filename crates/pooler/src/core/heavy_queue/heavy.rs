//! [`Heavy`]: which statements are known to take long, by their shape. All event loops learn into one table and look into a copy.
//!
//! What it takes to be heavy, and how much questions about it may cost, is `corun_model::pooler::queue_cost`'s to say: here are the tables.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corun_model::cache::slowdown::StatementId;
use corun_model::pooler::queue_cost::{QueueCost, Seen};
use parking_lot::{Mutex, RwLock};

use crate::understand::Shape;

/// Statements whose times are remembered. Those with the shortest make room.
const STATEMENTS_MAX: usize = 4096;
/// Of these, how many make room at once.
const ROOM: usize = 512;
/// So long nothing was handed over before what is known of hand-overs grows old.
const RESTED: Duration = Duration::from_secs(10);

/// The number of a statement: its shape in its database.
pub(super) fn statement(database: &str, shape: Shape) -> StatementId {
    let mut hasher = DefaultHasher::new();
    (database, shape).hash(&mut hasher);
    StatementId(hasher.finish())
}

/// Run times of statements, of all event loops.
#[derive(Debug, Default)]
pub(in crate::core) struct Heavy {
    state: Mutex<State>,
    /// Those that take long.
    heavy: RwLock<Arc<HashSet<StatementId>>>,
    /// Counts changes of `heavy`.
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<StatementId, Seen>,
    /// What the queue costs on average.
    cost: QueueCost,
    /// When it last handed a query over, or grew older for want of that.
    handed: Duration,
}

/// What one event loop knows of it.
#[derive(Debug, Default)]
pub(in crate::core) struct View {
    version: u64,
    heavy: Arc<HashSet<StatementId>>,
    /// When the next statement_timeout passes of one that waits, or has waited, in the queue.
    pub timeouts_at: Option<Duration>,
}

impl Heavy {
    /// A statement ran for `took`, in the queue or past it. It takes long from `limit` on, or from what makes up for the queue's own cost.
    pub(super) fn learn(&self, statement: StatementId, took: Duration, queued: bool, limit: Duration) {
        let (becomes, forgotten) = {
            let mut state = self.state.lock();
            let State { known, cost, .. } = &mut *state;
            let full = known.len() >= STATEMENTS_MAX && !known.contains_key(&statement);
            let forgotten = if full { make_room(known) } else { Vec::new() };
            let from = cost.heavy_from_ns(nanoseconds(limit));
            let seen = known.entry(statement).or_default();
            (seen.ran(nanoseconds(took), queued, from, cost), forgotten)
        };
        let is = self.heavy.read().contains(&statement);
        if is == becomes && forgotten.is_empty() {
            return;
        }
        let mut heavy = self.heavy.write();
        let mut changed = HashSet::clone(&heavy);
        for gone in forgotten {
            changed.remove(&gone);
        }
        if becomes {
            changed.insert(statement);
        } else {
            changed.remove(&statement);
        }
        *heavy = Arc::new(changed);
        // Behind the table: who sees the number sees the table.
        self.version.fetch_add(1, Ordering::Release);
    }

    /// What a statement is expected to take in the queue, as far as is known.
    pub(super) fn expected(&self, statement: StatementId) -> Option<Duration> {
        self.of(statement, Seen::expected_ns)
    }

    /// By what its runs are compared, in the queue and past it.
    pub(super) fn reference(&self, statement: StatementId) -> Option<Duration> {
        self.of(statement, Seen::reference_ns)
    }

    fn of(&self, statement: StatementId, what: impl Fn(&Seen) -> Option<f64>) -> Option<Duration> {
        let time = what(self.state.lock().known.get(&statement)?)?;
        Some(Duration::from_nanos(time as u64))
    }

    /// Whether the plan of a statement may be asked for once more, for what that costs.
    pub(super) fn may_ask(&self, statement: StatementId) -> bool {
        let state = self.state.lock();
        let seen = state.known.get(&statement);
        seen.is_some_and(|seen| seen.may_be_asked_about(&state.cost))
    }

    /// A question about a statement took so long.
    pub(super) fn asked(&self, statement: StatementId, took: Duration) {
        let mut state = self.state.lock();
        state.cost.asked(nanoseconds(took));
        if let Some(seen) = state.known.get_mut(&statement) {
            seen.asked(nanoseconds(took));
        }
    }

    /// A query went out so long after it was started.
    pub(super) fn handed_over(&self, took_ns: u64, now: Duration) {
        let mut state = self.state.lock();
        state.cost.handed_over(took_ns);
        state.handed = now;
    }

    /// Now and then.
    pub(super) fn tick(&self, now: Duration) {
        let mut state = self.state.lock();
        if now.saturating_sub(state.handed) >= RESTED {
            state.handed = now;
            state.cost.rested();
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl View {
    /// A statement_timeout passes then.
    pub(super) fn look_at(&mut self, deadline: Duration) {
        self.timeouts_at = Some(self.timeouts_at.map_or(deadline, |at| at.min(deadline)));
    }

    /// Whether a statement takes long.
    pub(super) fn is_heavy(&mut self, all: &Heavy, statement: StatementId) -> bool {
        let version = all.version.load(Ordering::Acquire);
        if version != self.version {
            self.version = version;
            self.heavy = Arc::clone(&all.heavy.read());
        }
        self.heavy.contains(&statement)
    }
}

fn make_room(known: &mut HashMap<StatementId, Seen>) -> Vec<StatementId> {
    let mean = |seen: &Seen| seen.reference_ns().unwrap_or(0.0);
    let mut times: Vec<f64> = known.values().map(mean).collect();
    let (_, &mut limit, _) = times.select_nth_unstable_by(ROOM - 1, f64::total_cmp);
    let mut gone = Vec::new();
    known.retain(|&statement, seen| {
        let goes = gone.len() < ROOM && mean(seen) <= limit;
        if goes {
            gone.push(statement);
        }
        !goes
    });
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(50);

    fn millis(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn a_statement_is_heavy_from_the_limit_until_half_of_it() {
        let (all, mut view) = (Heavy::default(), View::default());
        let (one, other) = (statement("shop", Shape(7)), statement("store", Shape(7)));
        assert_ne!(one, other, "databases have statements of their own");
        all.learn(one, millis(49), false, LIMIT);
        assert!(!view.is_heavy(&all, one));
        all.learn(one, millis(100), false, LIMIT);
        assert!(view.is_heavy(&all, one) && !view.is_heavy(&all, other));
        assert_eq!(all.expected(one), Some(millis(247) / 4));
        assert!(all.may_ask(one) && !all.may_ask(other));
        all.asked(one, millis(20));
        assert!(!all.may_ask(one), "that was more than it had saved");
        all.learn(one, millis(10), false, LIMIT);
        assert!(view.is_heavy(&all, one), "not below half of the limit yet");
        for _ in 0..4 {
            all.learn(one, millis(1), false, LIMIT);
        }
        assert!(!view.is_heavy(&all, one));
    }

    #[test]
    fn hand_overs_that_take_long_keep_short_statements_out_for_a_while() {
        let (all, mut view) = (Heavy::default(), View::default());
        let one = statement("shop", Shape(7));
        for _ in 0..100 {
            all.handed_over(400_000, millis(1));
        }
        all.learn(one, millis(15), false, millis(1));
        assert!(!view.is_heavy(&all, one));
        for round in 1..5 {
            all.tick(millis(1) + RESTED * round);
            all.tick(millis(2) + RESTED * round);
        }
        all.learn(one, millis(15), false, millis(1));
        assert!(view.is_heavy(&all, one));
    }

    #[test]
    fn the_shortest_make_room() {
        let (all, mut view) = (Heavy::default(), View::default());
        for number in 0..2 * STATEMENTS_MAX as u64 {
            all.learn(StatementId(number), millis(number + 1), false, LIMIT);
            assert!(all.state.lock().known.len() <= STATEMENTS_MAX);
        }
        let last = StatementId(2 * STATEMENTS_MAX as u64 - 1);
        assert!(view.is_heavy(&all, last));
        assert!(
            !view.is_heavy(&all, StatementId(60)),
            "what is forgotten is not heavy"
        );
        assert!(view.heavy.len() <= STATEMENTS_MAX);
    }
}
