//! A closed system: clients that each work through a list of statements, sending the next when the last is answered.
//!
//! The work is fixed, not the time: whatever order a service prefers, it has to do all of it, so that no policy looks better for
//! putting off what is slow.

use std::time::{Duration, Instant};

use futures::future::join_all;

use super::pinned::Query;
use super::service::{Served, Service};
use super::statement::Statement;
use corun_workloads::numbers::{below, draw};
use lab_core::error::BenchError;

/// A statement of the work.
#[derive(Clone)]
pub struct Item {
    /// What it is.
    pub statement: Statement,
    /// How to run it.
    pub query: Query,
}

/// What one round of the work came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Played {
    /// From the first statement sent to the last answered.
    pub elapsed: Duration,
    /// Index of the item and what came of it, in order of ending within a client.
    pub served: Vec<(usize, Served)>,
    /// Seconds each item takes alone with the same operators; empty where nobody asked.
    pub alone: Vec<f64>,
}

impl Played {
    /// Statements answered a second.
    pub fn queries_per_s(&self) -> f64 {
        self.served.len() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Mean of run time over time alone, of the items that `wanted` selects; `None` if it selects none, or no time alone is known.
    pub fn mean_slowdown(&self, items: &[Item], wanted: impl Fn(Statement) -> bool) -> Option<f64> {
        let slowdowns: Vec<f64> = self
            .served
            .iter()
            .filter(|(item, _)| wanted(items[*item].statement))
            .filter_map(|(item, served)| Some(served.ran.as_secs_f64() / self.alone.get(*item)?.max(1e-9)))
            .collect();
        (!slowdowns.is_empty()).then(|| slowdowns.iter().sum::<f64>() / slowdowns.len() as f64)
    }

    /// Wrong answers, one sentence each.
    pub fn wrong<'a>(&'a self, items: &'a [Item]) -> impl Iterator<Item = String> + 'a {
        self.served.iter().filter_map(|(item, served)| {
            let told = served.wrong.as_ref()?;
            Some(format!("{}: {told}", items[*item].statement))
        })
    }
}

/// Runs the lists of all clients at once against a service; lists hold indexes into `items`.
///
/// # Errors
/// The first statement that fails.
pub fn play(service: &dyn Service, items: &[Item], clients: &[Vec<usize>]) -> Result<Played, BenchError> {
    // One thread carries all clients: they only wait. Services bring the threads that work.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| BenchError::io("could not start the clients", source))?;
    let start = Instant::now();
    let outcomes = runtime.block_on(join_all(clients.iter().map(|list| async move {
        let mut served = Vec::with_capacity(list.len());
        for &item in list {
            served.push((item, service.serve(&items[item].query).await?));
        }
        Ok::<_, BenchError>(served)
    })));
    let elapsed = start.elapsed();
    let mut played = Played {
        elapsed,
        ..Played::default()
    };
    for outcome in outcomes {
        played.served.extend(outcome?);
    }
    Ok(played)
}

/// Deals `counts[i]` of item `i` to clients in a shuffled order, the same for the same seed.
pub fn deal(counts: &[usize], clients: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut cards: Vec<usize> = counts
        .iter()
        .enumerate()
        .flat_map(|(item, &count)| std::iter::repeat_n(item, count))
        .collect();
    for last in (1..cards.len()).rev() {
        let other = below(draw(seed, 0, last as u64), last as u64 + 1);
        cards.swap(last, other as usize);
    }
    let mut lists = vec![Vec::new(); clients.max(1)];
    for (place, item) in cards.into_iter().enumerate() {
        lists[place % clients.max(1)].push(item);
    }
    lists
}

#[cfg(test)]
mod tests {
    use corun_datafusion::{Engine, EngineOptions};
    use futures::FutureExt;
    use futures::future::BoxFuture;

    use super::*;
    use corun_workloads::answers::fingerprint_of_rows;

    #[test]
    fn everything_is_dealt_once_and_shuffled() {
        let lists = deal(&[4, 2, 3], 3, 7);
        assert_eq!(lists.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 3]);
        let mut all: Vec<usize> = lists.iter().flatten().copied().collect();
        let dealt = all.clone();
        all.sort_unstable();
        assert_eq!(all, [0, 0, 0, 0, 1, 1, 2, 2, 2]);
        assert_ne!(all, dealt);
        assert_eq!(lists, deal(&[4, 2, 3], 3, 7));
        assert_ne!(lists, deal(&[4, 2, 3], 3, 8));
    }

    struct Stub(u64);

    impl Service for Stub {
        fn serve<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Served, BenchError>> {
            let failing = query.sql.is_empty();
            async move {
                if failing {
                    return Err(BenchError::Data("no statement".to_owned()));
                }
                Ok(Served {
                    ran: Duration::from_millis(self.0),
                    ..Served::default()
                })
            }
            .boxed()
        }
    }

    fn item(statement: Statement) -> Item {
        let query = Query {
            engine: Engine::new(&EngineOptions::default()).expect("an engine"),
            sql: statement.sql(),
            expected: fingerprint_of_rows(&[]),
        };
        Item { statement, query }
    }

    #[test]
    fn slowdowns_are_of_the_class_asked_for() {
        let items = [
            item(Statement::hash(5)),
            item(Statement::hash(8)),
            item(Statement::Scan),
        ];
        let mut played = play(&Stub(20), &items, &[vec![0, 2], vec![1]]).expect("answered");
        assert_eq!(played.mean_slowdown(&items, |_| true), None, "no times alone");
        played.alone = vec![0.010, 0.005, 0.001];
        assert_eq!(played.served.len(), 3);
        let of = |wanted: fn(Statement) -> bool| played.mean_slowdown(&items, wanted);
        assert_eq!(of(|statement| statement != Statement::Scan), Some(3.0));
        assert_eq!(of(|statement| statement == Statement::index(1)), None);
        assert!(played.queries_per_s() > 0.0 && played.wrong(&items).next().is_none());
    }

    #[test]
    fn a_failing_statement_ends_the_round() {
        let mut broken = item(Statement::Scan);
        broken.query.sql.clear();
        assert!(play(&Stub(1), &[broken], &[vec![0]]).is_err());
    }
}
