//! What the queue of heavy queries would have to do with: which shapes take long, what part of all time is theirs, and from which
//! run time on a queue would have most of that (paper 002; `heavy_queue`, `heavy_queue_min`). Pure.

use super::statements::{Known, Statements};

/// Shapes listed at most.
const SHAPES_MAX: usize = 8;
/// Run times from which a queue may begin, in microseconds; below the least, what it costs itself is no small part.
const LIMITS_US: [u64; 5] = [100_000, 50_000, 20_000, 10_000, 5_000];
/// The longest of them is proposed that leaves the queue this part of what the shortest would.
const KEPT_PART: f64 = 0.8;
/// A part of all time below which there is nothing to win.
const TIME_PART_MIN: f64 = 0.1;

/// What was found out for a database.
#[derive(Clone, Debug, PartialEq)]
pub struct HeavyQueueProposal {
    /// Database, by the name clients ask for.
    pub database: String,
    /// Where the numbers are from.
    pub source: &'static str,
    /// Queries that take long, those with the most time first.
    pub heavy: Vec<HeavyQuery>,
    /// The run time in microseconds from which queries should queue; `None`: those that could are too small a part of all time.
    pub heavy_queue_min_us: Option<u64>,
    /// Part of the time of all statements known that such queries take, 0 to 1.
    pub time_part: f64,
}

/// A shape that takes long.
#[derive(Clone, Debug, PartialEq)]
pub struct HeavyQuery {
    /// The text, with `$n` in place of literals.
    pub query: String,
    /// Times it ran.
    pub calls: u64,
    /// What it takes, in microseconds.
    pub mean_us: u64,
    /// Part of the time of all statements known, 0 to 1.
    pub time_part: f64,
    /// It is one query that only reads, as those of the queue must be.
    pub reads_only: bool,
}

/// Looks for statements that are worth a queue. `None`: none takes so long.
pub(super) fn propose(database: &str, statements: &Statements) -> Option<HeavyQueueProposal> {
    let mean_us = |known: &Known| known.statement.total_us / known.statement.calls.max(1) as f64;
    let part = |total_us: f64| total_us / statements.total_us.max(f64::MIN_POSITIVE);
    let least = LIMITS_US[LIMITS_US.len() - 1] as f64;
    let long: Vec<&Known> = statements
        .known
        .iter()
        .filter(|known| known.statement.calls > 0 && mean_us(known) >= least)
        .collect();
    if long.is_empty() {
        return None;
    }
    let queues = |known: &&&Known| known.understood.is_one_read();
    let from = |limit_us: u64| -> f64 {
        let some = long.iter().filter(queues);
        some.filter(|known| mean_us(known) >= limit_us as f64)
            .map(|known| known.statement.total_us)
            .sum()
    };
    let all = from(LIMITS_US[LIMITS_US.len() - 1]);
    let limit = LIMITS_US
        .into_iter()
        .find(|&limit_us| from(limit_us) >= KEPT_PART * all);
    let limit = limit.filter(|_| part(all) >= TIME_PART_MIN);
    let heavy = long.iter().take(SHAPES_MAX).map(|known| HeavyQuery {
        query: known.statement.text.clone(),
        calls: known.statement.calls,
        mean_us: mean_us(known) as u64,
        time_part: part(known.statement.total_us),
        reads_only: known.understood.is_one_read(),
    });
    Some(HeavyQueueProposal {
        database: database.to_owned(),
        source: statements.source.name(),
        heavy: heavy.collect(),
        heavy_queue_min_us: limit,
        time_part: part(limit.map_or(all, from)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::schema::Schema;
    use super::super::statements::{Source, Statement, understood};
    use super::*;

    /// Statements with their calls and mean times in milliseconds.
    fn of(all: &[(&str, u64, f64)]) -> Statements {
        let statement = |&(text, calls, mean_ms): &(&str, u64, f64)| Statement {
            text: text.to_owned(),
            calls,
            total_us: calls as f64 * mean_ms * 1e3,
        };
        let statements = all.iter().map(statement).collect();
        understood(&Schema::default(), statements, Source::Proxy)
    }

    const REPORT: &str = "select a, count(*) from t, u where t.b = u.b group by a";
    const POINT: &str = "select a from t where b = $1";

    #[test]
    fn the_longest_limit_is_proposed_that_leaves_most_of_the_time_to_the_queue() {
        let found = propose("shop", &of(&[(POINT, 10_000, 0.1), (REPORT, 10, 400.0)])).expect("a report");
        assert_eq!(found.heavy_queue_min_us, Some(100_000));
        assert_eq!(found.heavy.len(), 1, "{found:?}");
        assert_eq!(
            (
                found.heavy[0].calls,
                found.heavy[0].mean_us,
                found.heavy[0].reads_only
            ),
            (10, 400_000, true)
        );
        assert!((found.time_part - 0.8).abs() < 1e-9, "{found:?}");
        let middle = "select sum(a) from t, u where t.b = u.b";
        let found = propose("shop", &of(&[(REPORT, 1, 400.0), (middle, 100, 30.0)])).expect("reports");
        assert_eq!(found.heavy_queue_min_us, Some(20_000), "{found:?}");
    }

    #[test]
    fn what_writes_or_is_rare_is_told_and_proposes_nothing() {
        let write = "update t set a = a + 1 where b > $1";
        let found = propose("shop", &of(&[(write, 10, 900.0), (POINT, 10_000, 0.1)])).expect("an update");
        assert_eq!(
            (found.heavy_queue_min_us, found.heavy[0].reads_only),
            (None, false)
        );
        let found = propose("shop", &of(&[(REPORT, 1, 60.0), (POINT, 10_000, 0.1)])).expect("a report");
        assert_eq!(found.heavy_queue_min_us, None, "six hundredths of the time");
        assert_eq!(propose("shop", &of(&[(POINT, 10_000, 0.1)])), None);
        assert_eq!(propose("shop", &of(&[])), None);
    }
}
