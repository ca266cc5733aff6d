//! [`play`]: streams of queries over the wire, each on a connection of its own; [`Checker`] holds their answers against the reference.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use super::PATIENCE;
use crate::fixture::address::Address;
use crate::fixture::answer::Answer;
use crate::fixture::client::Client;
use crate::fixture::{failed, joined};
use corun_workloads::numbers::{draw, permutation};
use lab_core::error::BenchError;
use lab_engine::peers::sql::differs;
use lab_engine::suites::workload::Query;

/// What the order of queries in each stream depends on, beside the stream.
const SEED: u64 = 30;

/// The order of queries of each stream: all of them once, as in TPC's throughput tests; the same for each target and round.
pub fn orders(streams: usize, queries: usize) -> Vec<Vec<usize>> {
    let order = |stream| {
        let order = permutation(draw(SEED, stream as u64, 0), queries);
        order.into_iter().map(|query| query as usize).collect()
    };
    (0..streams).map(order).collect()
}

/// What streams gave.
#[derive(Debug, Default)]
pub struct Played {
    /// From the common start to the last row of the last stream.
    pub elapsed: Duration,
    /// Of each query, in microseconds.
    pub latencies_us: Vec<f64>,
    /// Numbers of queries with their rows.
    pub answers: Vec<(usize, Vec<Vec<Option<String>>>)>,
}

/// So many clients that have said their settings.
pub fn connected(address: &Address, count: usize, settings: &[&str]) -> Result<Vec<Client>, BenchError> {
    let connect = |_| {
        let mut client = Client::connect(address, PATIENCE)?;
        client.run_all(settings)?;
        Ok(client)
    };
    (0..count).map(connect).collect()
}

/// Runs streams, given by the numbers of their queries, all at once, each by one of these clients.
pub fn play(clients: Vec<Client>, queries: &[Query], streams: &[Vec<usize>]) -> Result<Played, BenchError> {
    let begin = Instant::now();
    let ended = std::thread::scope(|scope| {
        let started = clients.into_iter().zip(streams).map(|(mut client, stream)| {
            scope.spawn(move || -> Result<Vec<(usize, f64, Answer)>, BenchError> {
                stream
                    .iter()
                    .map(|&query| ask(&mut client, queries, query))
                    .collect()
            })
        });
        let started: Vec<_> = started.collect();
        started.into_iter().map(joined).collect::<Result<Vec<_>, _>>()
    });
    let mut played = Played {
        elapsed: begin.elapsed(),
        ..Played::default()
    };
    for (query, us, answer) in ended?.into_iter().flatten() {
        played.latencies_us.push(us);
        played.answers.push((query, answer.rows));
    }
    Ok(played)
}

/// Asks one query; returns its number, how long it took in microseconds, and its answer.
pub fn ask(client: &mut Client, queries: &[Query], query: usize) -> Result<(usize, f64, Answer), BenchError> {
    let Query { name, sql, .. } = &queries[query];
    let begin = Instant::now();
    let answer = client.simple(sql)?;
    let us = begin.elapsed().as_secs_f64() * 1e6;
    match &answer.error {
        None => Ok((query, us, answer)),
        Some((state, words)) => Err(failed("server", format!("{name}: {words} ({state})"))),
    }
}

/// Holds answers against the reference, each distinct one once.
pub struct Checker<'q> {
    queries: &'q [Query],
    right: Vec<HashSet<u64>>,
}

impl<'q> Checker<'q> {
    /// Of these queries.
    pub fn new(queries: &'q [Query]) -> Checker<'q> {
        Checker {
            queries,
            right: vec![HashSet::new(); queries.len()],
        }
    }

    /// What is wrong with the first wrong one of these answers.
    pub fn wrong<'a>(
        &mut self,
        answers: impl IntoIterator<Item = (usize, &'a Vec<Vec<Option<String>>>)>,
    ) -> Option<String> {
        answers.into_iter().find_map(|(query, rows)| {
            let mut hash = DefaultHasher::new();
            rows.hash(&mut hash);
            let hash = hash.finish();
            if self.right[query].contains(&hash) {
                return None;
            }
            let Query { name, expected, .. } = &self.queries[query];
            let text = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "NULL".to_owned());
            let texts: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(text).collect()).collect();
            match differs(expected, &texts) {
                Some(difference) => Some(format!("{name}: {difference}")),
                None => {
                    self.right[query].insert(hash);
                    None
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_has_all_queries_in_an_order_of_its_own() {
        let all = orders(4, 22);
        for order in &all {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..22).collect::<Vec<_>>());
        }
        assert!(all[0] != all[1] && all == orders(4, 22));
    }

    #[test]
    fn wrong_rows_are_told_by_the_query_and_right_ones_are_remembered() {
        let cell = |text: &str| Some(text.to_owned());
        let queries = [Query {
            name: "q1".to_owned(),
            sql: String::new(),
            expected: vec![
                vec!["a".to_owned(), "1.5".to_owned()],
                vec!["b".to_owned(), "\0".to_owned()],
            ],
        }];
        let right = vec![vec![cell("b"), None], vec![cell("a"), cell("1.50")]];
        let wrong = vec![vec![cell("b"), None], vec![cell("a"), cell("2")]];
        let mut checker = Checker::new(&queries);
        for _ in 0..2 {
            assert_eq!(checker.wrong([(0, &right)]), None);
        }
        let told = checker.wrong([(0, &right), (0, &wrong)]).expect("wrong");
        assert!(told.starts_with("q1: "), "{told}");
    }
}
