//! [`play`]: clients, each with a list of queries, all of one side: how long the whole takes, and how long the server ran each.
//!
//! Clients connect first, then begin one after the other, so that they arrive in their order: who arrives when is what a pooler goes by.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::query::Query;
use crate::fixture::address::Address;
use crate::fixture::client::Client;
use crate::fixture::joined;
use lab_core::error::BenchError;

/// What one turn gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Played {
    /// Seconds from the first query to the end of the last.
    pub seconds: f64,
    /// Seconds the server ran each query on average, by its place among the queries, for those that are timed.
    pub ran: Vec<Option<f64>>,
    /// The same alone, at about the same time.
    pub alone: Vec<Option<f64>>,
}

/// What became of one client: which query took how long on the server, and the first wrong answer.
type Lived = Result<(Vec<(usize, f64)>, Option<String>), BenchError>;

/// Lets all clients through their lists.
pub fn play(
    address: &Address,
    queries: &[Query],
    lists: &[Vec<usize>],
    apart: Duration,
) -> Result<(Played, Option<String>), BenchError> {
    let mut clients = lists
        .iter()
        .map(|_| Client::connect(address, super::PATIENCE))
        .collect::<Result<Vec<_>, _>>()?;
    let begin = Barrier::new(lists.len() + 1);
    let live = |client: &mut Client, list: &[usize], number: u32| -> Lived {
        let (mut ran, mut first_wrong) = (Vec::new(), None);
        begin.wait();
        std::thread::sleep(apart * number);
        for &place in list {
            let query = &queries[place];
            let said = client.simple(&query.sql)?;
            ran.extend(query.seconds(&said).map(|seconds| (place, seconds)));
            first_wrong = first_wrong.or_else(|| query.wrong(&said));
        }
        Ok((ran, first_wrong))
    };
    let (lives, seconds) = std::thread::scope(|scope| {
        let live = &live;
        let threads: Vec<_> = clients
            .iter_mut()
            .zip(lists)
            .zip(0u32..)
            .map(|((client, list), number)| scope.spawn(move || live(client, list, number)))
            .collect();
        begin.wait();
        let start = Instant::now();
        let lives: Vec<Lived> = threads.into_iter().map(joined).collect();
        (lives, start.elapsed().as_secs_f64())
    });
    let (mut all, mut first_wrong) = (vec![Vec::new(); queries.len()], None);
    for lived in lives {
        let (ran, wrong) = lived?;
        for (place, seconds) in ran {
            all[place].push(seconds);
        }
        first_wrong = first_wrong.or(wrong);
    }
    let mean = |runs: &Vec<f64>| (!runs.is_empty()).then(|| runs.iter().sum::<f64>() / runs.len() as f64);
    let played = Played {
        seconds,
        ran: all.iter().map(mean).collect(),
        alone: Vec::new(),
    };
    Ok((played, first_wrong))
}
