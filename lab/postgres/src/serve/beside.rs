//! [`run`]: how long short statements take while streams run TPC-H without an end.
//!
//! The short client rests between its statements, so that it is a probe and not a load. At the end of a turn the streams are cut off: the
//! server of ours is ended, PostgreSQL's backends are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::case::{Case, Short};
use super::contest::{self, Measured, P99_US};
use super::played::{Checker, ask, connected, orders};
use super::streams::Prepared;
use super::targets::{SqlServer, Target};
use crate::fixture::address::Address;
use crate::fixture::answer::Answer;
use crate::fixture::client::Client;
use crate::fixture::joined;
use corun_workloads::numbers::{below, draw};
use lab_core::error::BenchError;
use lab_core::run::{Plan, Runner};
use lab_core::stats::percentile;
use lab_engine::suites::workload::Query;

/// Time between two short statements.
const REST: Duration = Duration::from_millis(5);
/// Time from the start of the streams to the first short statement.
const AHEAD: Duration = Duration::from_millis(500);
/// What keys are drawn from.
const SEED: u64 = 31;
/// Customers of TPC-H at scale factor 1.
const CUSTOMERS: f64 = 150_000.0;
/// Ends everybody else's session.
const END_OTHERS: &str = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
    where pid <> pg_backend_pid() and backend_type = 'client backend'";

/// Runs the case and emits its rows.
pub fn run(
    case: Case,
    (short, streams): (Short, usize),
    prepared: &Prepared<'_>,
    quick: bool,
    runner: &mut Runner<'_>,
) {
    let queries = &prepared.offered.queries;
    let mut checker = Checker::new(queries);
    let lasts = Duration::from_secs(if quick { 1 } else { 20 });
    let plan = runner.plan();
    let plan = Plan {
        warmups: 0,
        pairs_max: plan.repetitions,
        ..plan
    };
    let sides = prepared.sides(&[Target::Corun, Target::Datafusion, Target::Postgresql]);
    contest::run(case, &sides, P99_US, plan, runner, |target, round| {
        let probe = Probe {
            short,
            customers: (CUSTOMERS * prepared.scale).max(1.0) as u64,
            round: round as u64,
            lasts,
        };
        let beside = beside(target, prepared, queries, streams, &probe)?;
        let wrong = beside.wrong.or_else(|| {
            checker.wrong(
                beside
                    .answers
                    .iter()
                    .map(|(query, answer)| (*query, &answer.rows)),
            )
        });
        let measured = Measured {
            p50_us: percentile(&beside.short_us, 50.0),
            p99_us: percentile(&beside.short_us, 99.0),
            long_queries_per_s: Some(beside.answers.len() as f64 / beside.seconds),
            ..Measured::default()
        };
        Ok((measured, wrong))
    });
}

/// What the short client does.
struct Probe {
    short: Short,
    customers: u64,
    round: u64,
    lasts: Duration,
}

/// What came of a turn.
#[derive(Default)]
struct Beside {
    short_us: Vec<f64>,
    wrong: Option<String>,
    answers: Vec<(usize, Answer)>,
    seconds: f64,
}

fn beside(
    target: Target,
    prepared: &Prepared<'_>,
    queries: &[Query],
    streams: usize,
    probe: &Probe,
) -> Result<Beside, BenchError> {
    let mut server: Option<SqlServer> = None;
    let address = match (target, &prepared.cluster) {
        (Target::Postgresql, Ok(cluster)) => cluster.address.clone(),
        _ => {
            let started = prepared.fixture.server(target, &prepared.offered.folder)?;
            server.insert(started).address.clone()
        }
    };
    let orders = orders(streams, queries.len());
    let clients = connected(&address, streams, target.settings())?;
    let ends = AtomicBool::new(false);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let ends = &ends;
        let started = clients
            .into_iter()
            .zip(&orders)
            .map(|(client, order)| scope.spawn(move || stream(client, queries, order, ends)));
        let started: Vec<_> = started.collect();
        std::thread::sleep(AHEAD.min(probe.lasts));
        let probed = probe.run(&address);
        let seconds = begin.elapsed().as_secs_f64();
        ends.store(true, Ordering::Relaxed);
        let cut_off = match server.take() {
            Some(server) => {
                drop(server);
                Ok(())
            }
            None => {
                Client::connect(&address, PATIENCE).and_then(|mut client| client.run(END_OTHERS).map(drop))
            }
        };
        let streams: Vec<_> = started.into_iter().map(joined).collect();
        let mut beside = probed?;
        cut_off?;
        beside.seconds = seconds;
        for stream in streams {
            beside.answers.extend(stream?);
        }
        Ok(beside)
    })
}

/// Runs queries again and again until it is to end, and says which answers there were; being cut off then is no error.
fn stream(
    mut client: Client,
    queries: &[Query],
    order: &[usize],
    ends: &AtomicBool,
) -> Result<Vec<(usize, Answer)>, BenchError> {
    let mut answers = Vec::new();
    for &query in order.iter().cycle() {
        if ends.load(Ordering::Relaxed) {
            break;
        }
        match ask(&mut client, queries, query) {
            Ok((query, _, answer)) => answers.push((query, answer)),
            Err(_) if ends.load(Ordering::Relaxed) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(answers)
}

impl Probe {
    fn run(&self, address: &Address) -> Result<Beside, BenchError> {
        let mut client = Client::connect(address, PATIENCE)?;
        let mut found = Beside::default();
        let begin = Instant::now();
        for number in 0.. {
            let (sql, expected) = self.statement(number);
            let asked = Instant::now();
            let answer = client.run(&sql)?;
            found.short_us.push(asked.elapsed().as_secs_f64() * 1e6);
            let first = answer.first();
            if first.as_deref() != Some(expected.as_str()) {
                let wrong = || format!("{sql}: {first:?} instead of {expected}");
                found.wrong.get_or_insert_with(wrong);
            }
            if begin.elapsed() >= self.lasts {
                break;
            }
            std::thread::sleep(REST);
        }
        Ok(found)
    }

    /// A statement and the first cell of its answer.
    fn statement(&self, number: u64) -> (String, String) {
        match self.short {
            Short::Constant => ("select 1".to_owned(), "1".to_owned()),
            Short::Point => {
                let key = 1 + below(draw(SEED, self.round, number), self.customers);
                let sql = format!("select c_name, c_acctbal, c_phone from customer where c_custkey = {key}");
                (sql, format!("Customer#{key:09}"))
            }
        }
    }
}
