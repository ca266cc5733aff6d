//! [`Known`]: estimates of plans for all event loops, in [`Classes`]; what could not be asked, for a while; when to ask again; and by how
//! much estimates of rows are off in each database ([`Corrections`]).
//!
//! After a while a statement is asked about again, together with the statistics its estimates stand on: where these are the same,
//! everything known of other values holds on.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;

use super::estimate::Estimate;
use crate::plans::{Changed, Classes, Corrections, Look, Statistics};

/// Statements whose plans are kept.
const STATEMENTS_MAX: usize = 4096;
/// Statements with values that could not be asked about.
const REFUSED_MAX: usize = 4096;
/// Databases whose corrections are kept.
const DATABASES_MAX: usize = 64;
/// How long an estimate holds before statistics are looked at again. Unmeasured.
const HOLDS: Duration = Duration::from_secs(60);
/// How long a statement is left alone that could not be asked about.
const REFUSED: Duration = Duration::from_secs(60);

/// A statement of one user under certain settings.
pub(super) type StatementKey = u64;

/// What is known of a statement with its values.
#[derive(Clone, Debug)]
pub(super) enum Fact {
    /// Its plans.
    Plans(Estimate),
    /// These, and it is time to ask again; they hold if that cannot be.
    Due(Estimate),
    /// It cannot be asked about.
    Refused,
}

/// What holds for a statement whatever its values.
#[derive(Debug)]
struct Session {
    statement_timeout: Option<Duration>,
    may_change: bool,
    until: Duration,
    /// What the estimates stand on, as far as it was told.
    statistics: Option<Statistics>,
}

struct State {
    classes: Classes,
    sessions: HashMap<StatementKey, Session>,
    corrections: HashMap<Arc<str>, Corrections>,
    refused: LruCache<(StatementKey, u64), Duration>,
}

/// Estimates of all event loops.
pub(super) struct Known(Mutex<State>);

impl Default for Known {
    fn default() -> Self {
        Self(Mutex::new(State {
            classes: Classes::new(STATEMENTS_MAX),
            sessions: HashMap::new(),
            corrections: HashMap::new(),
            refused: LruCache::unbounded(),
        }))
    }
}

impl Known {
    /// What is known of a statement with values; `None`: it is to be asked.
    pub fn of(&self, key: StatementKey, values: u64, now: Duration) -> Option<Fact> {
        let mut state = self.0.lock();
        if state
            .refused
            .get(&(key, values))
            .is_some_and(|until| now < *until)
        {
            return Some(Fact::Refused);
        }
        let State {
            sessions, classes, ..
        } = &mut *state;
        let session = sessions.get(&key).filter(|session| now < session.until)?;
        match classes.look(key, values) {
            Look::Known(plans) => Some(Fact::Plans(session.with(&plans))),
            Look::Due(plans) => Some(Fact::Due(session.with(&plans))),
            Look::Unknown => None,
        }
    }

    /// What is known of a database's estimates, to be used or added to.
    pub fn corrected<T>(&self, database: &Arc<str>, with: impl FnOnce(&mut Corrections) -> T) -> T {
        let mut state = self.0.lock();
        if state.corrections.len() >= DATABASES_MAX && !state.corrections.contains_key(database) {
            state.corrections.clear();
        }
        with(state.corrections.entry(Arc::clone(database)).or_default())
    }

    /// Looks at what the estimates of a statement stand on, before a new one is kept: what does not hold any more is forgotten.
    pub fn stands_on(
        &self,
        key: StatementKey,
        database: &Arc<str>,
        statistics: Option<Statistics>,
        now: Duration,
    ) {
        let mut state = self.0.lock();
        let session = state.session(key);
        let changed = match (&session.statistics, &statistics) {
            (Some(before), Some(new)) => new.since(before),
            // Nobody knows: only age tells.
            _ if now < session.until => Changed::Nothing,
            _ => Changed::Settings,
        };
        if statistics.is_some() {
            session.statistics = statistics;
        }
        if changed != Changed::Nothing {
            state.classes.forget(key);
        }
        if changed == Changed::Statistics {
            state.corrections.remove(database);
        }
    }

    /// Keeps an answer; `None`: there was none.
    pub fn keep(&self, key: StatementKey, values: u64, estimate: Option<Estimate>, now: Duration) {
        let mut state = self.0.lock();
        let Some(estimate) = estimate else {
            state.refused.push((key, values), now + REFUSED);
            while state.refused.len() > REFUSED_MAX {
                state.refused.pop_lru();
            }
            return;
        };
        let session = state.session(key);
        session.statement_timeout = estimate.statement_timeout;
        session.may_change = estimate.may_change;
        if now >= session.until {
            // Not with each answer, so that it is asked anew some time however often single values are.
            session.until = now + HOLDS;
        }
        state.classes.learn(key, values, estimate.plans);
    }
}

impl State {
    /// What is known of a statement whatever its values; nothing yet if it is new.
    fn session(&mut self, key: StatementKey) -> &mut Session {
        if self.sessions.len() >= STATEMENTS_MAX && !self.sessions.contains_key(&key) {
            self.sessions.clear();
            self.classes.clear();
        }
        self.sessions.entry(key).or_insert(Session {
            statement_timeout: None,
            may_change: false,
            until: Duration::ZERO,
            statistics: None,
        })
    }
}

impl Session {
    fn with(&self, plans: &Arc<crate::plans::Estimate>) -> Estimate {
        Estimate {
            plans: crate::plans::Estimate::clone(plans),
            statement_timeout: self.statement_timeout,
            may_change: self.may_change,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plans::{Corrections, Memory, read};

    fn estimate(timeout: u64) -> Option<Estimate> {
        let json = r#"[{"Plan": {"Node Type": "Seq Scan", "Relation Name": "t", "Total Cost": 5.0, "Plan Rows": 7, "Plan Width": 4}}]"#;
        let plan = read(json).expect("a plan");
        Some(Estimate {
            plans: crate::plans::Estimate::new(&plan, &Memory::default(), &Corrections::default()),
            statement_timeout: Some(Duration::from_secs(timeout)),
            may_change: true,
        })
    }

    #[test]
    fn what_is_known_holds_for_a_while() {
        let known = Known::default();
        let now = Duration::from_secs(1);
        assert!(known.of(1, 5, now).is_none());
        known.keep(1, 5, estimate(9), now);
        let Some(Fact::Plans(found)) = known.of(1, 5, now) else {
            panic!("it is known");
        };
        assert_eq!(
            (found.statement_timeout, found.count()),
            (Some(Duration::from_secs(9)), 1)
        );
        assert!(known.of(1, 6, now).is_none() && known.of(2, 5, now).is_none());
        assert!(known.of(1, 5, now + HOLDS).is_none(), "too old");
    }

    /// What the server says of one table that was analysed so often.
    fn statistics(analysed: u32) -> Option<Statistics> {
        let row = |relation: [Option<&str>; 2], name: &str, value: &str| {
            let texts = [relation[0], relation[1], Some(name), Some(value)];
            texts.map(|text| text.map(str::to_owned)).to_vec()
        };
        let read = Statistics::read(&[
            row([Some("public"), Some("t")], "7", &format!("1 {analysed}")),
            row([None; 2], "work_mem", "4MB"),
            row([None; 2], "hash_mem_multiplier", "2"),
            row([None; 2], "version", "150018"),
        ]);
        assert!(read.is_some());
        read
    }

    #[test]
    fn estimates_hold_on_where_statistics_are_the_same() {
        let (known, shop) = (Known::default(), "shop".into());
        let mut now = Duration::from_secs(1);
        for (analysed, holds) in [(1, false), (1, true), (2, false), (2, true)] {
            known.stands_on(1, &shop, statistics(analysed), now);
            known.keep(1, 5, estimate(9), now);
            assert_eq!(known.of(1, 6, now).is_some(), holds, "{analysed}");
            known.keep(1, 6, estimate(9), now);
            now += HOLDS;
            assert!(known.of(1, 5, now).is_none() && known.of(1, 6, now).is_none());
        }
    }

    #[test]
    fn what_cannot_be_asked_is_left_alone_for_a_while() {
        let known = Known::default();
        known.keep(1, 5, None, Duration::ZERO);
        known.stands_on(1, &"shop".into(), None, Duration::ZERO);
        assert!(matches!(known.of(1, 5, Duration::ZERO), Some(Fact::Refused)));
        assert!(known.of(1, 6, Duration::ZERO).is_none());
        assert!(known.of(1, 5, REFUSED).is_none());
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let known = Known::default();
        for number in 0..2 * STATEMENTS_MAX as u64 {
            known.keep(number, 0, estimate(1), Duration::ZERO);
            known.keep(number, 1, None, Duration::ZERO);
        }
        let state = known.0.lock();
        assert!(state.sessions.len() <= STATEMENTS_MAX && state.classes.len() <= STATEMENTS_MAX);
        assert!(state.refused.len() <= REFUSED_MAX);
    }
}
