//! [`Known`]: estimates of plans by statement and values, for all event loops; and what could not be asked, for a while.
//!
//! Values are told apart exactly until a statement's plans have been alike so often that asking again would tell nothing new: then one
//! estimate stands for all values, and a few are asked all the same.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use model::slowdown::StatementId;
use parking_lot::Mutex;

use super::estimate::Estimate;

/// Estimates kept.
const ESTIMATES_MAX: usize = 8192;
/// Statements remembered for having one plan; then all are forgotten.
const STATEMENTS_MAX: usize = 4096;
/// How long an estimate holds: tables grow, and statistics change. Unmeasured.
const HOLDS: Duration = Duration::from_secs(300);
/// How long a statement is left alone that could not be asked about.
const REFUSED: Duration = Duration::from_secs(60);
/// Estimates in a row with one shape of plan and tables within a quarter of each other after which one stands for all values.
const ALIKE: u32 = 6;
/// One in so many is asked all the same.
const ASKED_ALL_THE_SAME: u32 = 32;

/// What is known of a statement with its values.
#[derive(Clone, Debug)]
pub(super) enum Fact {
    /// Its plans.
    Plans(Arc<Estimate>),
    /// It cannot be asked about.
    Refused,
}

#[derive(Debug)]
struct Kept {
    estimate: Option<Arc<Estimate>>,
    until: Duration,
}

#[derive(Debug)]
struct Alike {
    last: Arc<Estimate>,
    count: u32,
    used: u32,
    until: Duration,
}

#[derive(Debug)]
struct State {
    kept: LruCache<(StatementId, u64), Kept>,
    alike: HashMap<StatementId, Alike>,
}

/// Estimates of all event loops.
#[derive(Debug)]
pub(super) struct Known(Mutex<State>);

impl Default for Known {
    fn default() -> Self {
        Self(Mutex::new(State {
            kept: LruCache::unbounded(),
            alike: HashMap::new(),
        }))
    }
}

impl Known {
    /// What is known of a statement with values; `None`: it is to be asked.
    pub fn of(&self, statement: StatementId, values: u64, now: Duration) -> Option<Fact> {
        let mut state = self.0.lock();
        if let Some(kept) = state.kept.get(&(statement, values))
            && now < kept.until
        {
            return Some(match &kept.estimate {
                Some(estimate) => Fact::Plans(Arc::clone(estimate)),
                None => Fact::Refused,
            });
        }
        let alike = state.alike.get_mut(&statement)?;
        if alike.count < ALIKE || now >= alike.until {
            return None;
        }
        alike.used += 1;
        if alike.used.is_multiple_of(ASKED_ALL_THE_SAME) {
            return None;
        }
        Some(Fact::Plans(Arc::clone(&alike.last)))
    }

    /// Keeps an answer; `None`: there was none.
    pub fn keep(&self, statement: StatementId, values: u64, estimate: Option<Arc<Estimate>>, now: Duration) {
        let mut state = self.0.lock();
        if let Some(estimate) = &estimate {
            state.note(statement, estimate, now);
        }
        let until = now + if estimate.is_some() { HOLDS } else { REFUSED };
        state.kept.push((statement, values), Kept { estimate, until });
        while state.kept.len() > ESTIMATES_MAX {
            state.kept.pop_lru();
        }
    }
}

impl State {
    fn note(&mut self, statement: StatementId, estimate: &Arc<Estimate>, now: Duration) {
        if self.alike.len() >= STATEMENTS_MAX && !self.alike.contains_key(&statement) {
            self.alike.clear();
        }
        let alike = self.alike.entry(statement).or_insert_with(|| Alike {
            last: Arc::clone(estimate),
            count: 0,
            used: 0,
            until: now + HOLDS,
        });
        alike.count = if are_alike(&alike.last, estimate) {
            alike.count + 1
        } else {
            1
        };
        alike.last = Arc::clone(estimate);
        alike.until = now + HOLDS;
    }
}

fn are_alike(one: &Estimate, other: &Estimate) -> bool {
    let near = |one: u64, other: u64| one.abs_diff(other) <= one.max(other) / 4;
    one.fingerprint == other.fingerprint
        && one.candidates.len() == other.candidates.len()
        && one.candidates.iter().zip(&other.candidates).all(|(one, other)| {
            one.settings == other.settings && near(one.footprint.bytes().0, other.footprint.bytes().0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::lane::estimate::Candidate;
    use model::locality::Footprint;
    use model::units::Bytes;

    const ONE: StatementId = StatementId(1);

    fn estimate(bytes: u64) -> Arc<Estimate> {
        Arc::new(Estimate {
            candidates: vec![Candidate {
                settings: Vec::new(),
                form: String::new(),
                cost: 1.0,
                footprint: Footprint::Tables(Bytes(bytes)),
            }],
            fingerprint: 7,
            statement_timeout: None,
            may_change: true,
        })
    }

    #[test]
    fn values_are_told_apart_until_plans_are_alike() {
        let known = Known::default();
        let now = Duration::from_secs(1);
        for values in 0..u64::from(ALIKE) {
            assert!(known.of(ONE, values, now).is_none(), "{values}");
            known.keep(ONE, values, Some(estimate(1000 + values)), now);
            assert!(matches!(known.of(ONE, values, now), Some(Fact::Plans(_))));
        }
        assert!(
            matches!(known.of(ONE, 99, now), Some(Fact::Plans(_))),
            "one for all"
        );
        assert!(known.of(StatementId(2), 99, now).is_none());
        let asked = (0..100).filter(|values| known.of(ONE, 1000 + values, now).is_none());
        assert_eq!(asked.count(), 3, "some are asked all the same");
        known.keep(ONE, 500, Some(estimate(9000)), now);
        assert!(known.of(ONE, 98, now).is_none(), "a table nine times as large");
        assert!(known.of(ONE, 0, now + HOLDS).is_none(), "too old");
    }

    #[test]
    fn what_cannot_be_asked_is_left_alone_for_a_while() {
        let known = Known::default();
        known.keep(ONE, 5, None, Duration::ZERO);
        assert!(matches!(known.of(ONE, 5, Duration::ZERO), Some(Fact::Refused)));
        assert!(known.of(ONE, 5, REFUSED).is_none());
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let known = Known::default();
        for number in 0..2 * ESTIMATES_MAX as u64 {
            known.keep(StatementId(number), 0, Some(estimate(number)), Duration::ZERO);
        }
        let state = known.0.lock();
        assert!(state.kept.len() <= ESTIMATES_MAX && state.alike.len() <= STATEMENTS_MAX);
    }
}
