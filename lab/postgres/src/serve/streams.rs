//! [`run`]: throughput of a workload, by so many streams at once.
//!
//! Each turn begins with new processes of ours and of DuckDB, so that no answer, hash table or column is left from the turn before; files stay
//! in the system's cache. PostgreSQL stays, with its data in its own buffers.

use std::time::Duration;

use super::case::Case;
use super::contest::{self, Measured, QUERIES_PER_S, Side};
use super::played::{Checker, Played, connected, orders, play};
use super::targets::{Fixture, Target};
use crate::fixture::cluster::Cluster;
use crate::fixture::guarded::peak_bytes;
use lab_core::cpu_time::{TICKS_PER_SECOND, ticks};
use lab_core::error::BenchError;
use lab_core::row::Value;
use lab_core::run::{Plan, Runner};
use lab_core::stats::percentile;
use lab_core::suite::all_cores;
use lab_engine::peers::sql::{DUCKDB, SqlPeer};
use lab_engine::suites::workload::{Offered, Query};

/// How long it takes until processes that have ended are counted with their parent.
pub const REAPED: Duration = Duration::from_millis(300);

/// What a workload's cases share.
pub struct Prepared<'a> {
    /// Programs and folders.
    pub fixture: &'a Fixture,
    /// Files, queries and answers.
    pub offered: &'a Offered,
    /// PostgreSQL with the same tables, or why there is none.
    pub cluster: Result<Cluster, String>,
    /// Scale factor.
    pub scale: f64,
    /// Whether DuckDB is wanted.
    pub peers: bool,
}

impl Prepared<'_> {
    /// The targets of a case, with what rows say of them.
    pub fn sides(&self, targets: &[Target]) -> Vec<Side> {
        let scale = ("scale_factor".to_owned(), Value::from(self.scale));
        let side = |&target: &Target| {
            let missing = match target {
                _ if target.is_ours() => self.fixture.program.as_ref().err().cloned(),
                Target::Postgresql | Target::Pooler => self.cluster.as_ref().err().cloned(),
                _ => (!self.peers).then(|| "left out by --no-peers".to_owned()),
            };
            let mut side = Side::new(target, missing);
            side.keys.push(scale.clone());
            if let (Target::Postgresql, Ok(cluster)) = (target, &self.cluster) {
                side.keys
                    .push(("version".to_owned(), Value::from(cluster.version.as_str())));
            }
            side
        };
        targets.iter().map(side).collect()
    }
}

/// Runs the case and emits its rows.
pub fn run(case: Case, streams: usize, prepared: &Prepared<'_>, runner: &mut Runner<'_>) {
    let queries = &prepared.offered.queries;
    let orders = orders(streams, queries.len());
    let mut checker = Checker::new(queries);
    // A turn takes as long as all queries of all streams: no further rounds to decide what is near.
    let plan = runner.plan();
    let plan = Plan {
        warmups: 0,
        pairs_max: plan.repetitions,
        ..plan
    };
    let targets = [
        Target::Corun,
        Target::CorunUnshared,
        Target::Datafusion,
        Target::Duckdb,
        Target::Postgresql,
    ];
    let sides = prepared.sides(&targets);
    contest::run(case, &sides, QUERIES_PER_S, plan, runner, |target, _| {
        let (played, more) = turn(target, prepared, queries, &orders)?;
        let wrong = checker.wrong(played.answers.iter().map(|(query, rows)| (*query, rows)));
        let count = played.latencies_us.len() as f64;
        let measured = Measured {
            queries_per_s: Some(count / played.elapsed.as_secs_f64().max(1e-9)),
            p50_us: percentile(&played.latencies_us, 50.0),
            p99_us: percentile(&played.latencies_us, 99.0),
            cpu_us_per_query: more.cpu_us.map(|us| us / count),
            peak_rss_bytes: more.peak_bytes.map(|bytes| bytes as f64),
            ..Measured::default()
        };
        Ok((measured, wrong))
    });
}

/// What the server took.
struct Taken {
    cpu_us: Option<f64>,
    peak_bytes: Option<u64>,
}

fn turn(
    target: Target,
    prepared: &Prepared<'_>,
    queries: &[Query],
    orders: &[Vec<usize>],
) -> Result<(Played, Taken), BenchError> {
    match target {
        Target::Corun | Target::CorunUnshared | Target::Datafusion => {
            let server = prepared.fixture.server(target, &prepared.offered.folder)?;
            let clients = connected(&server.address, orders.len(), target.settings())?;
            let before = server.process.cpu_us();
            let played = play(clients, queries, orders)?;
            let taken = Taken {
                cpu_us: between(before, server.process.cpu_us()),
                peak_bytes: server.process.peak_bytes(),
            };
            Ok((played, taken))
        }
        Target::Duckdb => duckdb(prepared, queries, orders),
        Target::Ceiling => Err(BenchError::Machine("a constant answers no queries".to_owned())),
        Target::Postgresql | Target::Pooler => {
            let cluster = prepared.cluster.as_ref().map_err(|reason| BenchError::Peer {
                peer: "postgres",
                reason: reason.clone(),
            })?;
            let clients = connected(&cluster.address, orders.len(), target.settings())?;
            let before = cluster.cpu_us();
            let played = play(clients, queries, orders)?;
            std::thread::sleep(REAPED);
            let taken = Taken {
                cpu_us: between(before, cluster.cpu_us()),
                // Its processes share most of it.
                peak_bytes: None,
            };
            Ok((played, taken))
        }
    }
}

fn between(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    Some(after? - before?)
}

fn duckdb(
    prepared: &Prepared<'_>,
    queries: &[Query],
    orders: &[Vec<usize>],
) -> Result<(Played, Taken), BenchError> {
    let mut peer = SqlPeer::start(&DUCKDB)?;
    peer.set_threads(all_cores())?;
    for (table, folder) in &prepared.offered.tables {
        peer.view(table, folder)?;
    }
    let texts: Vec<&str> = queries.iter().map(|query| query.sql.as_str()).collect();
    let cpu_us = |process| ticks(process).map(|ticks| ticks as f64 / TICKS_PER_SECOND * 1e6);
    let before = cpu_us(peer.process());
    let streams = peer.streams(&texts, orders)?;
    let taken = Taken {
        cpu_us: between(before, cpu_us(peer.process())),
        peak_bytes: peak_bytes(peer.process()),
    };
    let cell = |cell: String| (cell != "NULL").then_some(cell);
    let rows = |rows: Vec<Vec<String>>| {
        let row = |row: Vec<String>| row.into_iter().map(cell).collect();
        rows.into_iter().map(row).collect()
    };
    let played = Played {
        elapsed: streams.elapsed,
        latencies_us: streams
            .latencies
            .iter()
            .map(|took| took.as_secs_f64() * 1e6)
            .collect(),
        answers: streams
            .answers
            .into_iter()
            .map(|(query, answer)| (query, rows(answer)))
            .collect(),
    };
    Ok((played, taken))
}
