//! [`Rates`]: how fast counters went between two samples.
//!
//! A counter that went back belongs to a proxy that was started again, or to a pool that was made anew: of that row nothing is
//! said until the next sample. Counters of a database or queue that was not there before began at nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::sample::Sample;
use crate::admin::{CohortRow, CoreRow, KeyRow, RangeRow, SplitRow, Stats, TotalsRow};

/// How fast one database, or all, went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Speed {
    /// Transactions a second.
    pub transactions: f64,
    /// Statements a second.
    pub queries: f64,
    /// Bytes a second from clients.
    pub received_bytes: f64,
    /// Bytes a second to clients.
    pub sent_bytes: f64,
    /// Mean time of the transactions that ended, if any did.
    pub transaction_time: Option<Duration>,
    /// Mean time of the statements that ended, if any did.
    pub query_time: Option<Duration>,
    /// Mean time clients waited for a server, if any was given one.
    pub wait_time: Option<Duration>,
}

/// How fast one event loop went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreRate {
    /// Transactions a second.
    pub transactions: f64,
    /// Statements a second.
    pub queries: f64,
    /// Part of the statements that ran after one of the same shape, 0 to 1; `None` where no pool of it forms cohorts.
    pub cohort_part: Option<f64>,
    /// Part of the time it was not asleep, 0 to 1; `None` where the proxy does not count it.
    pub busy_part: Option<f64>,
}

/// How fast the queue of one pool on one event loop went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CohortRate {
    /// Statements a second that were taken from the queue.
    pub queries: f64,
    /// Part of them that ran after one of the same shape, 0 to 1; `None` where it forms no cohorts.
    pub cohort_part: Option<f64>,
}

/// How fast statements with keys of one worker's range came.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RangeRate {
    /// Statements a second.
    pub queries: f64,
    /// Part of the statements with keys of the same domain, 0 to 1.
    pub part: Option<f64>,
}

/// How fast a query that may run in parts was run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SplitRate {
    /// Times a second in parts.
    pub in_parts: f64,
    /// Times a second whole.
    pub whole: f64,
}

/// How fast everything went. What is missing in a map is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// Time between the samples.
    pub period: Duration,
    /// All databases together; `None` where no counter of them is known.
    pub total: Option<Speed>,
    /// Each database.
    pub databases: BTreeMap<String, Speed>,
    /// Each event loop.
    pub cores: BTreeMap<u64, CoreRate>,
    /// Each queue: event loop, database, user.
    pub cohorts: BTreeMap<(u64, String, String), CohortRate>,
    /// Each worker of a domain of keys: database, name, worker.
    pub ranges: BTreeMap<(String, String, u64), RangeRate>,
    /// Part of a domain's statements that another worker took, 0 to 1: database, name.
    pub overflow: BTreeMap<(String, String), Option<f64>>,
    /// Each query that may run in parts: database, name.
    pub splits: BTreeMap<(String, String), SplitRate>,
}

impl Rates {
    /// What happened between two samples of one console. Nothing is known where no time has passed.
    pub fn between(earlier: &Sample, later: &Sample) -> Self {
        let mut rates = Self {
            period: later.at.saturating_sub(earlier.at),
            ..Self::default()
        };
        let seconds = rates.period.as_secs_f64();
        if seconds <= 0.0 {
            return rates;
        }
        let mut sum: Option<Stats> = None;
        for now in later.stats() {
            let before = earlier.stats().find(|row| row.database == now.database);
            let before = before.map(TotalsRow::stats).unwrap_or_default();
            if let Some(added) = now.stats().checked_since(&before) {
                let speed = Speed::of(&added, seconds);
                rates.databases.insert(now.database.clone(), speed);
                sum = Some(sum.unwrap_or_default().plus(&added));
            }
        }
        if later.stats().next().is_none() {
            // Nobody has done anything yet.
            sum = Some(Stats::default());
        }
        rates.total = sum.map(|sum| Speed::of(&sum, seconds));
        for now in &later.cores {
            let before = earlier.cores.iter().find(|row| row.core == now.core);
            if let Some(mut rate) = before.and_then(|before| core(before, now, seconds)) {
                // Without cohorts the shapes that came one after the other did so by chance.
                let mut on = later.cohorts().map(|row| row.core);
                rate.cohort_part = rate.cohort_part.filter(|_| on.any(|core| core == now.core));
                rates.cores.insert(now.core, rate);
            }
        }
        for now in &later.cohorts {
            let key = (now.core, now.database.clone(), now.user.clone());
            let same = |row: &CohortRow| (row.core, &row.database, &row.user) == (key.0, &key.1, &key.2);
            let counts = |row: &CohortRow| [row.query_count, row.cohort_count];
            if let Some([queries, alike]) = added_since(&earlier.cohorts, now, same, counts) {
                let rate = CohortRate {
                    queries: queries as f64 / seconds,
                    cohort_part: part(alike, queries).filter(|_| now.state == "on"),
                };
                rates.cohorts.insert(key, rate);
            }
        }
        rates.keys(earlier, later, seconds);
        rates.splits(earlier, later, seconds);
        rates
    }

    fn keys(&mut self, earlier: &Sample, later: &Sample, seconds: f64) {
        for now in &later.keys {
            let same = |row: &KeyRow| (&row.database, &row.name) == (&now.database, &now.name);
            let counts = |row: &KeyRow| [row.query_count, row.overflow_count];
            let Some([queries, overflow]) = added_since(&earlier.keys, now, same, counts) else {
                continue;
            };
            let name = (now.database.clone(), now.name.clone());
            self.overflow.insert(name, part(overflow, queries));
            let is_of = |row: &RangeRow| (&row.database, &row.name) == (&now.database, &now.name);
            for worker in later.ranges.iter().filter(|row| is_of(row)) {
                let same = |row: &RangeRow| is_of(row) && row.worker == worker.worker;
                // Where parts moved meanwhile, their counts did, too.
                if let Some([own]) = added_since(&earlier.ranges, worker, same, |row| [row.query_count]) {
                    let rate = RangeRate {
                        queries: own as f64 / seconds,
                        part: part(own, queries),
                    };
                    let key = (now.database.clone(), now.name.clone(), worker.worker);
                    self.ranges.insert(key, rate);
                }
            }
        }
    }

    fn splits(&mut self, earlier: &Sample, later: &Sample, seconds: f64) {
        let before = earlier.splits();
        for now in later.splits() {
            let same = |row: &SplitRow| (&row.database, &row.name) == (&now.database, &now.name);
            let counts = |row: &SplitRow| [row.split_count, row.whole_count];
            if let Some([parts, whole]) = added_since(&before, &now, same, counts) {
                let rate = SplitRate {
                    in_parts: parts as f64 / seconds,
                    whole: whole as f64 / seconds,
                };
                self.splits.insert((now.database, now.name), rate);
            }
        }
    }
}

impl Speed {
    /// The speed of what was added to counters in so many seconds.
    fn of(added: &Stats, seconds: f64) -> Self {
        let each = |micros: u64, count: u64| micros.checked_div(count).map(Duration::from_micros);
        Self {
            transactions: added.xact_count as f64 / seconds,
            queries: added.query_count as f64 / seconds,
            received_bytes: added.received as f64 / seconds,
            sent_bytes: added.sent as f64 / seconds,
            transaction_time: each(added.xact_time, added.xact_count),
            query_time: each(added.query_time, added.query_count),
            wait_time: each(added.wait_time, added.server_assignment_count),
        }
    }
}

fn core(before: &CoreRow, now: &CoreRow, seconds: f64) -> Option<CoreRate> {
    let counts = |row: &CoreRow| [row.xact_count, row.query_count, row.cohort_count, row.busy_us];
    let [transactions, queries, alike, busy] = added(counts(before), counts(now))?;
    Some(CoreRate {
        transactions: transactions as f64 / seconds,
        queries: queries as f64 / seconds,
        cohort_part: part(alike, queries),
        busy_part: (now.busy_us > 0).then(|| (busy as f64 / 1e6 / seconds).min(1.0)),
    })
}

fn part(some: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| (some as f64 / all as f64).min(1.0))
}

/// What was added to the counters of a row since the row that is the `same` in an earlier table; a row that was not there began
/// at nothing. `None` if a counter went back.
fn added_since<R, const N: usize>(
    earlier: &[R],
    now: &R,
    same: impl Fn(&R) -> bool,
    counts: impl Fn(&R) -> [u64; N],
) -> Option<[u64; N]> {
    let before = earlier.iter().find(|row| same(row));
    added(before.map_or([0; N], &counts), counts(now))
}

/// What was added to counters; `None` if one went back.
fn added<const N: usize>(before: [u64; N], now: [u64; N]) -> Option<[u64; N]> {
    let mut added = now;
    for (now, before) in added.iter_mut().zip(before) {
        *now = now.checked_sub(before)?;
    }
    Some(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(database: &str, count: u64) -> TotalsRow {
        TotalsRow {
            database: database.to_owned(),
            server_assignment_count: count,
            xact_count: count,
            query_count: count * 2,
            bytes_received: count * 100,
            bytes_sent: count * 1_000,
            xact_time: count * 500,
            query_time: count * 400,
            wait_time: count * 30,
            ..TotalsRow::default()
        }
    }

    fn core_row(core: u64, count: u64, busy_us: u64) -> CoreRow {
        CoreRow {
            core,
            xact_count: count,
            query_count: count * 2,
            cohort_count: count,
            busy_us,
            ..CoreRow::default()
        }
    }

    fn sample(seconds: u64, stats: Vec<TotalsRow>, cores: Vec<CoreRow>) -> Sample {
        Sample {
            at: Duration::from_secs(seconds),
            stats,
            cores,
            ..Sample::default()
        }
    }

    #[test]
    fn rates_are_differences_by_time() {
        let earlier = sample(10, vec![stats("a", 100)], vec![core_row(0, 10, 0)]);
        let mut later = sample(
            12,
            vec![stats("a", 300), stats("b", 50), stats("pgbouncer", 9_000)],
            vec![core_row(0, 110, 1_000_000), core_row(1, 5, 0)],
        );
        later.cohorts.push(CohortRow {
            state: "on".to_owned(),
            ..CohortRow::default()
        });
        let rates = Rates::between(&earlier, &later);
        assert_eq!(rates.period, Duration::from_secs(2));
        let a = rates.databases["a"];
        assert_eq!((a.transactions, a.queries), (100.0, 200.0));
        assert_eq!((a.received_bytes, a.sent_bytes), (10_000.0, 100_000.0));
        assert_eq!(
            (a.transaction_time, a.query_time, a.wait_time),
            (
                Some(Duration::from_micros(500)),
                Some(Duration::from_micros(200)),
                Some(Duration::from_micros(30))
            )
        );
        // A database whose first client has come meanwhile began at nothing.
        assert_eq!(rates.databases["b"].transactions, 25.0);
        assert_eq!(rates.total.expect("known").transactions, 125.0);
        assert!(!rates.databases.contains_key("pgbouncer"));
        let core = rates.cores[&0];
        assert_eq!((core.transactions, core.queries), (50.0, 100.0));
        assert_eq!((core.cohort_part, core.busy_part), (Some(0.5), Some(0.5)));
        assert!(!rates.cores.contains_key(&1));
        later.cohorts[0].state = "off".to_owned();
        assert_eq!(Rates::between(&earlier, &later).cores[&0].cohort_part, None);
    }

    #[test]
    fn counters_that_went_back_say_nothing() {
        let earlier = sample(
            1,
            vec![stats("a", 100), stats("b", 100)],
            vec![core_row(0, 100, 0)],
        );
        let later = sample(2, vec![stats("a", 99), stats("b", 101)], vec![core_row(0, 3, 0)]);
        let rates = Rates::between(&earlier, &later);
        assert!(!rates.databases.contains_key("a") && rates.cores.is_empty());
        assert_eq!(rates.databases["b"].transactions, 1.0);
        assert_eq!(rates.total.expect("b is known").transactions, 1.0);
        let gone = Rates::between(
            &sample(1, vec![stats("a", 9)], vec![]),
            &sample(2, vec![stats("a", 1)], vec![]),
        );
        assert_eq!(gone.total, None);
    }

    #[test]
    fn nothing_happened_or_no_time_passed() {
        let one = sample(1, vec![stats("a", 5)], vec![core_row(0, 5, 0)]);
        let same = Rates::between(&one, &one);
        assert_eq!((same.total, same.databases.len()), (None, 0));
        let idle = Rates::between(&one, &sample(3, one.stats.clone(), one.cores.clone()));
        let total = idle.total.expect("known");
        assert_eq!((total.transactions, total.query_time), (0.0, None));
        let unused = Rates::between(&sample(1, vec![], vec![]), &sample(2, vec![], vec![]));
        assert_eq!(unused.total, Some(Speed::default()));
        assert_eq!(
            (idle.cores[&0].cohort_part, idle.cores[&0].busy_part),
            (None, None)
        );
    }

    #[test]
    fn queues_are_told_apart_by_core_database_and_user() {
        let row = |core, user: &str, queries, alike| CohortRow {
            core,
            database: "a".to_owned(),
            user: user.to_owned(),
            query_count: queries,
            cohort_count: alike,
            state: if user == "w" { "off" } else { "on" }.to_owned(),
            ..CohortRow::default()
        };
        let at = |seconds, cohorts| Sample {
            cohorts,
            ..sample(seconds, vec![], vec![])
        };
        let earlier = at(0, vec![row(0, "u", 10, 5), row(1, "u", 100, 0)]);
        let later = at(
            1,
            vec![
                row(0, "u", 20, 10),
                row(1, "u", 50, 0),
                row(0, "v", 4, 1),
                row(0, "w", 4, 4),
            ],
        );
        let rates = Rates::between(&earlier, &later);
        let key = |core, user: &str| (core, "a".to_owned(), user.to_owned());
        assert_eq!(rates.cohorts[&key(0, "u")].cohort_part, Some(0.5));
        assert_eq!(rates.cohorts[&key(0, "v")].queries, 4.0);
        assert_eq!(rates.cohorts[&key(0, "w")].cohort_part, None);
        assert!(!rates.cohorts.contains_key(&key(1, "u")));
    }

    #[test]
    fn ranges_and_splits_have_rates() {
        let range = |worker, queries| RangeRow {
            name: "r".to_owned(),
            database: "a".to_owned(),
            worker,
            query_count: queries,
            ..RangeRow::default()
        };
        let key = |queries, overflow| KeyRow {
            name: "r".to_owned(),
            database: "a".to_owned(),
            query_count: queries,
            overflow_count: overflow,
            ..KeyRow::default()
        };
        let split = |core, parts, whole| SplitRow {
            core,
            name: "s".to_owned(),
            database: "a".to_owned(),
            split_count: parts,
            whole_count: whole,
            ..SplitRow::default()
        };
        let earlier = Sample {
            ranges: vec![range(0, 10), range(1, 10)],
            keys: vec![key(20, 0)],
            splits: vec![split(0, 1, 1), split(1, 1, 0)],
            ..sample(1, vec![], vec![])
        };
        let later = Sample {
            ranges: vec![range(0, 40), range(1, 20)],
            keys: vec![key(60, 10)],
            splits: vec![split(0, 5, 1), split(1, 3, 2)],
            ..sample(3, vec![], vec![])
        };
        let rates = Rates::between(&earlier, &later);
        let name = ("a".to_owned(), "r".to_owned());
        assert_eq!(rates.overflow[&name], Some(0.25));
        let own = rates.ranges[&("a".to_owned(), "r".to_owned(), 0)];
        assert_eq!((own.queries, own.part), (15.0, Some(0.75)));
        let split = rates.splits[&("a".to_owned(), "s".to_owned())];
        assert_eq!((split.in_parts, split.whole), (3.0, 1.0));
        assert_eq!(later.splits().len(), 1);
    }
}
