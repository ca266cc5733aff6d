//! [`Heavy`]: which statements are known to take long, by their shape. All event loops learn into one table and look into a copy.
//!
//! A statement becomes heavy when its mean run time reaches the limit, and is no longer when it falls below half of it, so that one near
//! the limit does not go to and fro.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::slowdown::StatementId;
use parking_lot::{Mutex, RwLock};

use crate::understand::Shape;

/// Statements whose times are remembered. Those with the shortest make room.
const STATEMENTS_MAX: usize = 4096;
/// Of these, how many make room at once.
const ROOM: usize = 512;
/// A run counts one part in so many of the mean. Unmeasured.
const MEMORY: u32 = 4;

/// The number of a statement: its shape in its database.
pub(super) fn statement(database: &str, shape: Shape) -> StatementId {
    let mut hasher = DefaultHasher::new();
    (database, shape).hash(&mut hasher);
    StatementId(hasher.finish())
}

/// Run times of statements, of all event loops.
#[derive(Debug, Default)]
pub(in crate::core) struct Heavy {
    /// Mean run times.
    known: Mutex<HashMap<StatementId, Duration>>,
    /// Those that take long.
    heavy: RwLock<Arc<HashSet<StatementId>>>,
    /// Counts changes of `heavy`.
    version: AtomicU64,
}

/// What one event loop knows of it.
#[derive(Debug, Default)]
pub(in crate::core) struct View {
    version: u64,
    heavy: Arc<HashSet<StatementId>>,
}

impl Heavy {
    /// A statement ran for `took`. It takes long from `limit` on.
    pub(super) fn learn(&self, statement: StatementId, took: Duration, limit: Duration) {
        let (mean, forgotten) = {
            let mut known = self.known.lock();
            let mean = match known.get(&statement) {
                Some(&before) => (before * (MEMORY - 1) + took) / MEMORY,
                None => took,
            };
            let full = known.len() >= STATEMENTS_MAX && !known.contains_key(&statement);
            let forgotten = if full { make_room(&mut known) } else { Vec::new() };
            known.insert(statement, mean);
            (mean, forgotten)
        };
        let is = self.heavy.read().contains(&statement);
        let becomes = if is { mean >= limit / 2 } else { mean >= limit };
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

    /// What a statement takes, as far as is known.
    pub(super) fn mean(&self, statement: StatementId) -> Option<Duration> {
        self.known.lock().get(&statement).copied()
    }
}

impl View {
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

fn make_room(known: &mut HashMap<StatementId, Duration>) -> Vec<StatementId> {
    let mut times: Vec<Duration> = known.values().copied().collect();
    let (_, &mut limit, _) = times.select_nth_unstable(ROOM - 1);
    let mut gone = Vec::new();
    known.retain(|&statement, time| {
        let goes = gone.len() < ROOM && *time <= limit;
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
        all.learn(one, millis(49), LIMIT);
        assert!(!view.is_heavy(&all, one));
        all.learn(one, millis(100), LIMIT);
        assert!(view.is_heavy(&all, one) && !view.is_heavy(&all, other));
        assert_eq!(all.mean(one), Some(millis(247) / 4));
        all.learn(one, millis(10), LIMIT);
        assert!(view.is_heavy(&all, one), "not below half of the limit yet");
        for _ in 0..4 {
            all.learn(one, millis(1), LIMIT);
        }
        assert!(!view.is_heavy(&all, one));
    }

    #[test]
    fn the_shortest_make_room() {
        let (all, mut view) = (Heavy::default(), View::default());
        for number in 0..2 * STATEMENTS_MAX as u64 {
            all.learn(StatementId(number), millis(number + 1), LIMIT);
            assert!(all.known.lock().len() <= STATEMENTS_MAX);
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
