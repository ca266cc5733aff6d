//! [`run`]: `select 1` by pgbench, which says what the front itself costs: statements a second, and CPU time of the server for each.
//!
//! The pooler's CPU time is its own, without that of the PostgreSQL behind it.

use std::time::Duration;

use super::case::Case;
use super::contest::{self, Measured, QUERIES_PER_S, Side};
use super::streams::REAPED;
use super::targets::{Fixture, SqlServer, Target};
use super::{PATIENCE, SUITE};
use crate::fixture::address::Address;
use crate::fixture::client::Client;
use crate::fixture::cluster::Cluster;
use crate::fixture::contender::{Contender, Front};
use crate::fixture::pgbench::{self, Duty, Load, Protocol, Script};
use crate::fixture::{failed, write};
use lab_core::contest::Gone;
use lab_core::error::BenchError;
use lab_core::run::{Plan, Runner};

/// The statement, as pgbench reads it.
const SCRIPT: &str = "select 1;\n";
/// Connections of the pooler to PostgreSQL.
const POOL: usize = 8;

/// The servers of all cases; each stays from the first to the last.
pub struct Servers<'a> {
    fixture: &'a Fixture,
    cluster: Result<&'a Cluster, String>,
    corun: Result<SqlServer, String>,
    pooler: Contender,
}

impl<'a> Servers<'a> {
    /// Starts ours on an empty folder, and the pooler in front of PostgreSQL. What fails is kept, for its rows.
    pub fn start(fixture: &'a Fixture, cluster: &'a Result<Cluster, String>) -> Servers<'a> {
        let corun = fixture
            .folder("empty")
            .and_then(|folder| fixture.server(Target::Corun, &folder));
        let pooler = match (&fixture.pg, cluster) {
            (Ok(pg), Ok(cluster)) => {
                let front = Front {
                    fixture: pg,
                    name: "pooler",
                    server: &cluster.address,
                    pool: POOL,
                };
                Contender::corun(&front, &pg.corun, false, "")
            }
            (Err(reason), _) | (_, Err(reason)) => Contender::unavailable(reason.as_str()),
        };
        Servers {
            fixture,
            cluster: cluster.as_ref().map_err(Clone::clone),
            corun: corun.map_err(|error| error.in_one_line()),
            pooler,
        }
    }

    fn sides(&self) -> Vec<Side> {
        let pooler = match self.pooler.gone() {
            Some(Gone::Unavailable(reason) | Gone::Failed(reason)) => Some(reason.clone()),
            None => None,
        };
        vec![
            // One that does not start is a failure.
            Side::new(Target::Corun, self.fixture.program.as_ref().err().cloned()),
            Side::new(Target::Postgresql, self.cluster.as_ref().err().cloned()),
            Side::new(Target::Pooler, pooler),
        ]
    }

    /// CPU time of a target so far.
    fn cpu_us(&self, target: Target) -> Option<f64> {
        match target {
            Target::Pooler => self.pooler.cpu_us(),
            Target::Postgresql => self.cluster.as_ref().ok()?.cpu_us(),
            _ => self.corun.as_ref().ok()?.process.cpu_us(),
        }
    }

    fn address(&self, target: Target) -> Result<&Address, BenchError> {
        Ok(match target {
            Target::Pooler => self.pooler.address()?,
            Target::Postgresql => {
                &self
                    .cluster
                    .as_ref()
                    .map_err(|reason| failed(SUITE, reason))?
                    .address
            }
            _ => {
                &self
                    .corun
                    .as_ref()
                    .map_err(|reason| failed(SUITE, reason))?
                    .address
            }
        })
    }

    /// What is wrong with its answer: pgbench fails at any error, but does not look at rows.
    fn check(&self, target: Target) -> Result<Option<String>, BenchError> {
        let answer = Client::connect(self.address(target)?, PATIENCE)?.run("select 1")?;
        let right = answer.rows == [[Some("1".to_owned())]] && answer.tags == ["SELECT 1"];
        Ok((!right).then(|| format!("select 1 gives {:?}, {:?}", answer.rows, answer.tags)))
    }

    fn turn(&self, target: Target, load: &Load, round: usize) -> Result<Measured, BenchError> {
        let address = self.address(target)?;
        let pg = self.fixture.pg.as_ref().map_err(|reason| failed(SUITE, reason))?;
        let folder = pg.folder("pgbench")?;
        let before = self.cpu_us(target);
        let turn = pgbench::run(&pg.programs.path("pgbench"), load, address, round + 1, &folder)?;
        std::thread::sleep(REAPED);
        let cpu_us = before
            .zip(self.cpu_us(target))
            .map(|(before, after)| after - before);
        Ok(Measured {
            queries_per_s: Some(turn.tps),
            p50_us: Some(turn.p50_us),
            p99_us: Some(turn.p99_us),
            cpu_us_per_query: cpu_us.map(|us| us / turn.transactions as f64),
            ..Measured::default()
        })
    }
}

/// Runs the case and emits its rows.
///
/// # Errors
/// When the script cannot be written, or there is no pgbench.
pub fn run(
    case: Case,
    protocol: Protocol,
    clients: usize,
    servers: &Servers<'_>,
    quick: bool,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let script = servers.fixture.folder("constant")?.join("select.sql");
    write(&script, SCRIPT)?;
    let duty = Duty::Seconds(if quick { 1 } else { 3 });
    let load = Load {
        // A server that hangs is given up.
        grace: Duration::from_secs(60),
        ..Load::new(Script::Files(vec![script]), protocol, clients, duty)
    };
    let sides = servers.sides();
    let plan = Plan {
        warmups: 0,
        ..runner.plan()
    };
    contest::run(case, &sides, QUERIES_PER_S, plan, runner, |target, round| {
        let wrong = match round {
            0 => servers.check(target)?,
            _ => None,
        };
        Ok((servers.turn(target, &load, round)?, wrong))
    });
    Ok(())
}
