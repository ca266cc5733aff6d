//! [`run`]: pgbench's own tables and scripts, on our server over a store and on PostgreSQL, both with commits that are on disk when they are told,
//! and the constant server, which says what there is to have.
//!
//! Every turn is checked by the sums of the balances.

use std::path::PathBuf;

use super::case::{Case, Transactions};
use super::ceiling::Ceiling;
use super::contest::{self, Measured, Side, TPS};
use super::streams::REAPED;
use super::targets::{Fixture, SqlServer, Target};
use super::{PATIENCE, SUITE};
use crate::fixture::address::Address;
use crate::fixture::client::Client;
use crate::fixture::cluster::{Cluster, Profile, finished};
use crate::fixture::guarded::{Signal, command};
use crate::fixture::pgbench::{self, Duty, Load, Protocol, Script};
use crate::fixture::{DATABASE, USER, failed};
use lab_core::error::BenchError;
use lab_core::row::Value;
use lab_core::run::{Plan, Runner};

/// Branches: more than clients, so that these seldom wait for each other.
const SCALE: usize = 50;
const SCALE_QUICK: usize = 1;
/// Accounts of a branch.
const ACCOUNTS: u64 = 100_000;
/// What PostgreSQL is told: commits reach the disk, and a torn page can be mended.
const DURABLE: &[(&str, &str)] = &[
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    ("shared_buffers", "4GB"),
    ("max_wal_size", "16GB"),
    ("checkpoint_timeout", "15min"),
    ("autovacuum", "on"),
    ("random_page_cost", "1.1"),
];

/// The servers of all cases with their tables; each stays from the first to the last.
pub struct Servers<'a> {
    fixture: &'a Fixture,
    scale: usize,
    corun: Result<SqlServer, String>,
    postgresql: Result<Cluster, String>,
    ceiling: Result<Ceiling, String>,
    /// The folder of the store goes with it.
    _store: Result<PathBuf, String>,
}

impl<'a> Servers<'a> {
    /// Starts them and makes the tables. What fails is kept, for its rows.
    pub fn start(fixture: &'a Fixture, quick: bool) -> Servers<'a> {
        let scale = if quick { SCALE_QUICK } else { SCALE };
        let words = |error: BenchError| error.in_one_line();
        let store = fixture.folder("store").map_err(words);
        let corun = store.clone().and_then(|folder| {
            let server = fixture.server_on_store(&folder).map_err(words)?;
            initialize(fixture, &server.address, scale).map_err(words)?;
            Ok(server)
        });
        let postgresql = fixture.pg.as_ref().map_err(Clone::clone).and_then(|pg| {
            let cluster = pg.cluster("durable", &Profile::with(DURABLE)).map_err(words)?;
            initialize(fixture, &cluster.address, scale).map_err(words)?;
            Ok(cluster)
        });
        let ceiling = fixture
            .folder("ceiling")
            .and_then(|folder| Ceiling::start(&folder))
            .map_err(words);
        Servers {
            fixture,
            scale,
            corun,
            postgresql,
            ceiling,
            _store: store,
        }
    }

    fn sides(&self) -> Vec<Side> {
        let side = |target, missing: Option<String>| {
            let mut side = Side::new(target, missing);
            side.keys.push(("scale".to_owned(), Value::from(self.scale)));
            side
        };
        vec![
            side(Target::Corun, self.fixture.program.as_ref().err().cloned()),
            side(Target::Postgresql, self.postgresql.as_ref().err().cloned()),
            side(Target::Ceiling, self.ceiling.as_ref().err().cloned()),
        ]
    }

    fn address(&self, target: Target) -> Result<&Address, BenchError> {
        let found = match target {
            Target::Ceiling => self.ceiling.as_ref().map(|ceiling| &ceiling.address),
            Target::Postgresql => self.postgresql.as_ref().map(|cluster| &cluster.address),
            _ => self.corun.as_ref().map(|server| &server.address),
        };
        found.map_err(|reason| failed(SUITE, reason))
    }

    /// CPU time of a target so far; that of the constant server is the client's.
    fn cpu_us(&self, target: Target) -> Option<f64> {
        match target {
            Target::Ceiling => None,
            Target::Postgresql => self.postgresql.as_ref().ok()?.cpu_us(),
            _ => self.corun.as_ref().ok()?.process.cpu_us(),
        }
    }

    /// What is wrong with the tables.
    fn check(&self, target: Target) -> Result<Option<String>, BenchError> {
        if target == Target::Ceiling {
            return Ok(None);
        }
        let mut client = Client::connect(self.address(target)?, PATIENCE)?;
        let sums = client.run(
            "select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers), \
             (select sum(bbalance) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history)",
        )?;
        let all = sums.rows.first().cloned().unwrap_or_default();
        if all.len() != 4 || all.iter().any(|sum| sum.is_none() || *sum != all[0]) {
            return Ok(Some(format!("the sums of the balances are {all:?}")));
        }
        let count = client.run("select count(*) from pgbench_accounts")?;
        let expected = (ACCOUNTS * self.scale as u64).to_string();
        Ok((count.rows != [[Some(expected.clone())]])
            .then(|| format!("there are {:?} accounts, not {expected}", count.rows)))
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
            tps: Some(turn.tps),
            p50_us: Some(turn.p50_us),
            p99_us: Some(turn.p99_us),
            cpu_us_per_query: cpu_us.map(|us| us / turn.transactions as f64),
            ..Measured::default()
        })
    }
}

/// pgbench's tables.
fn initialize(fixture: &Fixture, address: &Address, scale: usize) -> Result<(), BenchError> {
    let pg = fixture.pg.as_ref().map_err(|reason| failed(SUITE, reason))?;
    let mut pgbench = command(pg.programs.path("pgbench"), None, Signal::Terminate);
    pgbench
        .args(["--initialize", "--quiet", "--scale", &scale.to_string()])
        .args(["--host", &address.host(), "--port", &address.port.to_string()])
        .args(["--username", USER, DATABASE])
        .env("PGSSLMODE", "disable")
        .env("PGGSSENCMODE", "disable");
    finished("pgbench", pgbench, &address.folder.join("initialize.log"))
}

/// Runs the case and emits its rows.
pub fn run(
    case: Case,
    (what, protocol, clients): (Transactions, Protocol, usize),
    servers: &Servers<'_>,
    quick: bool,
    runner: &mut Runner<'_>,
) {
    let script = match what {
        Transactions::SelectOnly => Script::SelectOnly,
        Transactions::TpcB => Script::TpcB,
    };
    let duty = Duty::Seconds(if quick { 1 } else { 5 });
    let load = Load::new(script, protocol, clients, duty);
    let sides = servers.sides();
    let plan = Plan {
        warmups: 0,
        ..runner.plan()
    };
    contest::run(case, &sides, TPS, plan, runner, |target, round| {
        let measured = servers.turn(target, &load, round)?;
        Ok((measured, servers.check(target)?))
    });
}
