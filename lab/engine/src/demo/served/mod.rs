//! The served part of the demo: clients over PostgreSQL's protocol, each a connection, ask a server with DataFusion as it comes and one with
//! corun's joins and its coordinator.
//!
//! ```text
//!   SSB as Parquet files ─┬─► server of stock ─┐ loopback        clients: each SSB's queries
//!                         └─► server of corun ─┴───────────────► in an order of its own, answers checked
//! ```
//!
//! Order of calls: [`Served::prepare`], [`Served::play`], then [`rows::rows`] on the result. Servers and clients are in this process, and share its
//! cores. Work is not shared among clients here, as everywhere in the demo: a query does its work each time.

pub mod rows;
mod server;

use std::time::{Duration, Instant};

use super::Side;
use super::drive::{ClientRun, Execution, steps};
use super::mix::Class;
use super::schedule;
use super::turns;
use crate::peers::sql::differs;
use crate::pg_client::address::Address;
use crate::pg_client::client::Client;
use crate::pg_client::failed;
use crate::suites::ssb;
use crate::suites::workload::{Offered, Query};
use corun_model::cache::coschedule::PolicyName;
use corun_model::progress::Progress;
use corun_workloads::ssb::Ssb;
use lab_core::error::BenchError;
use lab_core::order;
use server::SqlServer;

/// Both sides.
pub const SIDES: [Side; 2] = [Side::Stock, Side::Policy(PolicyName::Auto)];
/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(600);

/// What to run, for how long.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedOptions {
    /// Scale factor of the data.
    pub scale: f64,
    /// Seconds of one side's turn in a round.
    pub seconds: f64,
    /// Rounds; each is one turn a side.
    pub rounds: usize,
    /// Connections.
    pub clients: usize,
    /// Seed of the order of queries.
    pub seed: u64,
    /// Partitions of a plan.
    pub partitions: usize,
}

/// One turn: what the clients did.
pub type Turn = turns::Turn<Side, ()>;

/// Both servers, ready to be asked.
pub struct Served {
    options: ServedOptions,
    servers: Vec<(Side, SqlServer)>,
    // Behind the servers: they read its files.
    offered: Offered,
}

/// Everything that was measured.
#[derive(Debug, Clone)]
pub struct ServedResult {
    /// What was asked for.
    pub options: ServedOptions,
    /// Turns in the order they ran.
    pub turns: Vec<Turn>,
}

impl Served {
    /// Writes the files, starts both servers, and runs each query once on each: that is the warm-up, too.
    ///
    /// # Errors
    /// An impossible scale, a server that does not start, a query that fails, a wrong answer.
    pub fn prepare(options: ServedOptions, progress: &dyn Progress) -> Result<Served, BenchError> {
        Ssb::new(options.scale).map_err(|error| BenchError::BadArgument(error.to_string()))?;
        let offered = ssb::offered(options.scale, progress)?;
        let mut servers = Vec::new();
        for side in SIDES {
            let server = SqlServer::start(&offered.folder, side, options.partitions)?;
            let mut client = Client::connect(&server.address, PATIENCE)?;
            for query in &offered.queries {
                if let (_, Some(wrong)) = ask(&mut client, query)? {
                    return Err(BenchError::Data(format!(
                        "{} over the wire: {wrong}",
                        side.name()
                    )));
                }
            }
            servers.push((side, server));
        }
        Ok(Served {
            options,
            servers,
            offered,
        })
    }

    /// Runs all rounds. Wrong answers are counted in the result, not an error.
    ///
    /// # Errors
    /// A query or a connection that fails.
    pub fn play(&self, progress: &dyn Progress) -> Result<ServedResult, BenchError> {
        let mut turns = Vec::new();
        let duration = Duration::from_secs_f64(self.options.seconds);
        for round in 0..self.options.rounds {
            let mut places: Vec<usize> = (0..self.servers.len()).collect();
            order::shuffle(&mut places, self.options.seed, "demo served", round);
            for place in places {
                let (side, server) = &self.servers[place];
                let rounds = self.options.rounds;
                let what = format!("served, round {} of {rounds}, {:10}", round + 1, side.name());
                progress.begin(&what, steps(duration));
                let clients = self.turn(&server.address, round, duration)?;
                progress.end();
                turns.push(Turn {
                    side: *side,
                    round,
                    clients,
                    more: (),
                });
            }
        }
        Ok(ServedResult {
            options: self.options.clone(),
            turns,
        })
    }

    fn turn(
        &self,
        address: &Address,
        round: usize,
        duration: Duration,
    ) -> Result<Vec<ClientRun>, BenchError> {
        let connections = (0..self.options.clients).map(|_| Client::connect(address, PATIENCE));
        let connections = connections.collect::<Result<Vec<_>, _>>()?;
        let (queries, seed, start) = (&self.offered.queries, self.options.seed, Instant::now());
        std::thread::scope(|scope| {
            let started = connections.into_iter().enumerate().map(|(number, connection)| {
                let order = schedule::order(seed, round, number, queries.len());
                scope.spawn(move || client(connection, queries, order, (start, duration)))
            });
            let started: Vec<_> = started.collect();
            let ended = started.into_iter().map(|client| match client.join() {
                Ok(run) => run,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.collect()
        })
    }
}

/// One client; it asks at least one query, and finishes the one it is in.
fn client(
    mut connection: Client,
    queries: &[Query],
    order: impl Iterator<Item = usize>,
    (start, duration): (Instant, Duration),
) -> Result<ClientRun, BenchError> {
    let mut run = ClientRun {
        class: Class::Analytic,
        seconds: 0.0,
        executions: Vec::new(),
        wrong: Vec::new(),
    };
    for statement in order {
        if !run.executions.is_empty() && start.elapsed() >= duration {
            break;
        }
        let (milliseconds, wrong) = ask(&mut connection, &queries[statement])?;
        run.executions.push(Execution {
            statement,
            milliseconds,
        });
        run.wrong.extend(wrong);
    }
    run.seconds = start.elapsed().as_secs_f64();
    Ok(run)
}

/// Asks a query: how many milliseconds it took until its last row was here, and what is wrong with its answer.
fn ask(client: &mut Client, query: &Query) -> Result<(f64, Option<String>), BenchError> {
    let begin = Instant::now();
    let answer = client.simple(&query.sql)?;
    let milliseconds = begin.elapsed().as_secs_f64() * 1e3;
    if let Some((state, words)) = &answer.error {
        return Err(failed("server", format!("{}: {words} ({state})", query.name)));
    }
    let wrong = differs(&query.expected, &answer.texts());
    Ok((
        milliseconds,
        wrong.map(|difference| format!("{}: {difference}", query.name)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::progress::Silent;

    #[test]
    fn clients_ask_both_servers_and_wrong_answers_are_noticed() {
        let options = ServedOptions {
            scale: 0.01,
            seconds: 0.05,
            rounds: 2,
            clients: 2,
            seed: 1,
            partitions: 2,
        };
        let mut served = Served::prepare(options, &Silent).expect("servers");
        let result = served.play(&Silent).expect("rounds");
        assert_eq!(result.turns.len(), 4);
        for turn in &result.turns {
            assert_eq!(turn.clients.len(), 2);
            assert!(
                turn.clients
                    .iter()
                    .all(|run| !run.executions.is_empty() && run.wrong.is_empty())
            );
        }
        let rows = rows::rows(&result).rows;
        let of = |metric: &str| rows.iter().filter(|row| row.metric == metric).count();
        assert_eq!((of("queries_per_s"), of("ratio")), (2, 2));
        for query in &mut served.offered.queries {
            query.expected.push(vec!["more".to_owned()]);
        }
        let result = served.play(&Silent).expect("rounds");
        assert!(
            result
                .turns
                .iter()
                .all(|turn| turn.clients.iter().all(|run| !run.wrong.is_empty()))
        );
    }
}
