//! The live part of the demo: short transactions beside analytic clients, on the same tables at the same time.
//!
//! ```text
//!   turn:   load TPC-C into a store in memory ---> terminals run the standard mix: a thread each, or in teams
//!                      |                            `-- beside threads clients ask SQL: nobody, stock, corun
//!                      `- check the consistency conditions, drop the store
//!   round:  a turn of each side, in an order shuffled anew each round
//! ```
//!
//! Every turn has a store of its own, loaded from the same seed: transactions enter orders all the time, so that on one store
//! for all turns each side would ask about more rows than the one before, and the ratios would say which came first.
//!
//! Order of calls: [`Live::new`], [`Live::play`], then [`rows::rows`] on the result.
//! [`drive`] runs a turn; [`statements`] says what is asked and when an answer is right. What it is not: a benchmark of
//! transactions alone, or of several durabilities: `corun-lab bench oltp` is; here nothing is logged.

pub mod drive;
pub mod rows;
pub mod statements;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corun_datafusion::{Engine, EngineOptions, Joins};
use corun_model::units::CpuId;
use corun_store::Store;
use corun_workloads::corun::CorunTpcc;
use corun_workloads::driver::{Measure, RunOptions, Teams, TpccWorkload};
use corun_workloads::engine::Durability;
use corun_workloads::tpcc::{self, Mix, Scale};
use tokio::runtime::Runtime;

use crate::demo::drive::{Draw, steps};
use corun_model::progress::Progress;
use corun_workloads::answers::fingerprint;
use drive::{Analysis, Transactions, Turn};
use lab_core::error::BenchError;
use lab_core::order;
use statements::{Statement, statements};

/// Most warehouses; each takes 100 MB and more.
pub const WAREHOUSES_MAX: usize = 1000;
/// Most terminals: a store has room for so many sessions, and some are needed for loading.
pub const TERMINALS_MAX: usize = 1000;

/// How transactions run, and who analyses beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Nobody.
    Alone,
    /// Nobody; the terminals of a CPU run in teams. Beside analytic clients there is no such side: one thread a CPU would get
    /// a smaller part of it from the operating system than many, and the comparison would be about that.
    Teams,
    /// DataFusion as it comes.
    Stock,
    /// DataFusion with corun's joins.
    Corun,
}

impl Side {
    /// All sides, in the order of the tables.
    pub const ALL: [Side; 4] = [Side::Alone, Side::Teams, Side::Stock, Side::Corun];

    /// The words in tables.
    pub fn name(self) -> &'static str {
        match self {
            Side::Alone => "transactions alone",
            Side::Teams => "alone, in teams",
            Side::Stock => "stock",
            Side::Corun => "corun",
        }
    }

    /// The `engine` of rows: who answers SQL.
    pub fn engine(self) -> &'static str {
        match self {
            Side::Alone | Side::Teams => "none",
            Side::Stock => "datafusion",
            Side::Corun => "corun",
        }
    }

    /// How the terminals of a CPU share it, the `teams` of rows.
    pub fn teams(self) -> Teams {
        match self {
            Side::Teams => Teams::On,
            Side::Alone | Side::Stock | Side::Corun => Teams::Off,
        }
    }
}

/// What to run, for how long.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveOptions {
    /// Warehouses of TPC-C.
    pub warehouses: usize,
    /// Customers and orders of a district, and items, are divided by it; 1 is the specification's size, at most 100.
    pub divisor: i32,
    /// Seconds of one side's turn in a round, after the warm-up.
    pub seconds: f64,
    /// Seconds transactions run before they are counted and before anybody analyses.
    pub warmup_seconds: f64,
    /// Rounds; each is one turn a side.
    pub rounds: usize,
    /// Clients that run transactions.
    pub terminals: usize,
    /// CPUs the terminals are pinned to.
    pub workers: usize,
    /// Clients that run analytic statements.
    pub clients: usize,
    /// Partitions of a plan.
    pub partitions: usize,
    /// Seed of the data, the transactions' inputs and the order of statements.
    pub seed: u64,
}

/// The live part, ready to run.
pub struct Live {
    options: LiveOptions,
    scale: Scale,
    cpus: Vec<CpuId>,
    runtime: Runtime,
    statements: Arc<Vec<Statement>>,
}

/// Everything that was measured.
#[derive(Debug, Clone)]
pub struct LiveResult {
    /// What was asked for.
    pub options: LiveOptions,
    /// The statements.
    pub statements: Arc<Vec<Statement>>,
    /// Rows of a store when its turn begins.
    pub rows: u64,
    /// Turns in the order they ran.
    pub turns: Vec<Turn>,
    /// Answers of the closing check, and what was wrong with them.
    pub closing: Closing,
}

/// Every statement once on each engine, on what the last turn left, when nobody writes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Closing {
    /// Answers looked at.
    pub answers: usize,
    /// What was wrong, one text each.
    pub wrong: Vec<String>,
}

impl Live {
    /// Looks at the machine and the options. The work begins with [`Live::play`].
    ///
    /// # Errors
    /// More warehouses or terminals than a store takes, more CPUs than there are; a machine that does not say.
    pub fn new(options: LiveOptions) -> Result<Live, BenchError> {
        let mut cpus = corun_topology::affinity::allowed_cpus().map_err(BenchError::machine)?;
        let limits = [
            ("warehouses", options.warehouses, WAREHOUSES_MAX),
            ("terminals", options.terminals, TERMINALS_MAX),
            ("workers", options.workers, cpus.len()),
        ];
        for (name, asked, most) in limits {
            if asked == 0 || asked > most {
                let what = format!("{asked} {name}: the demo takes 1 to {most} here");
                return Err(BenchError::BadArgument(what));
            }
        }
        cpus.truncate(options.workers);
        let scale = Scale {
            divisor: options.divisor,
            ..Scale::standard(i16::try_from(options.warehouses).unwrap_or(i16::MAX))
        };
        Ok(Live {
            scale,
            cpus,
            runtime: crate::query::runtime(lab_core::suite::all_cores())?,
            statements: Arc::new(statements(scale.orders())),
            options,
        })
    }

    /// Runs all rounds. Wrong answers and conditions that do not hold are in the result, not an error.
    ///
    /// # Errors
    /// A statement or a transaction that fails.
    pub fn play(&self, progress: &dyn Progress) -> Result<LiveResult, BenchError> {
        let (sides, rounds) = (Side::ALL.len(), self.options.rounds);
        let mut turns = Vec::with_capacity(sides * rounds);
        let mut closing = Closing::default();
        for round in 0..rounds {
            let mut order = Side::ALL;
            order::shuffle(&mut order, self.options.seed, "live demo", round);
            for side in order {
                let what = format!("live, round {} of {rounds}, {:18}", round + 1, side.name());
                let tpcc = self.load(&format!("{what} loads"), progress)?;
                turns.push(self.turn(&tpcc, side, round, &what, progress)?);
                if turns.len() == sides * rounds {
                    closing = self.close(tpcc.store(), progress)?;
                }
            }
        }
        progress.end();
        Ok(LiveResult {
            options: self.options.clone(),
            statements: Arc::clone(&self.statements),
            rows: self.scale.rows(),
            turns,
            closing,
        })
    }

    /// A store with the population.
    fn load(&self, what: &str, progress: &dyn Progress) -> Result<CorunTpcc, BenchError> {
        progress.begin(what, self.scale.rows());
        let seen = AtomicU64::new(0);
        let store = corun_workloads::corun::open(Durability::None, Path::new(""), self.options.workers)
            .map_err(BenchError::store)?;
        let tpcc = CorunTpcc::new(store).map_err(BenchError::store)?;
        let threads = lab_core::suite::all_cores();
        tpcc::load(&tpcc, self.scale, self.options.seed, threads, &|rows| {
            // Threads may report out of order. Relaxed: the number guards nothing.
            let before = seen.fetch_max(rows, Ordering::Relaxed);
            progress.advance(rows.saturating_sub(before));
        })
        .map_err(BenchError::store)?;
        Ok(tpcc)
    }

    /// An engine that sees the store's tables.
    fn engine(&self, joins: Joins, store: &Store) -> Result<Engine, BenchError> {
        let engine = Engine::new(&EngineOptions {
            partitions: self.options.partitions,
            joins,
            share_work: false,
            ..EngineOptions::default()
        })?;
        engine.attach_store(store)?;
        Ok(engine)
    }

    fn turn(
        &self,
        tpcc: &CorunTpcc,
        side: Side,
        round: usize,
        what: &str,
        progress: &dyn Progress,
    ) -> Result<Turn, BenchError> {
        let options = &self.options;
        let joins = match side {
            Side::Alone | Side::Teams => None,
            Side::Stock => Some(Joins::Stock),
            Side::Corun => Some(Joins::Corun),
        };
        let analysis = match joins {
            Some(joins) => Some(Analysis {
                engine: self.engine(joins, tpcc.store())?,
                statements: Arc::clone(&self.statements),
                clients: options.clients,
                draw: Draw {
                    seed: options.seed,
                    round,
                },
            }),
            None => None,
        };
        let workload = TpccWorkload {
            scale: self.scale,
            load_seed: options.seed,
            mix: Mix::STANDARD,
        };
        let time = Duration::from_secs_f64(options.seconds);
        let run = RunOptions {
            clients: options.terminals,
            workers: options.workers,
            cpus: self.cpus.clone(),
            warmup: Duration::from_secs_f64(options.warmup_seconds),
            measure: Measure::Time(time),
            // The same inputs for all sides of a round.
            seed: options.seed.wrapping_add(1 + round as u64),
            teams: side.teams(),
            ..RunOptions::default()
        };
        progress.begin(what, steps(time));
        let (outcome, clients) = drive::turn(&self.runtime, tpcc, &workload, &run, time, analysis, progress)?;
        progress.begin(&format!("{what} is checked"), 0);
        let violations = tpcc::check(tpcc, self.scale).map_err(BenchError::store)?;
        Ok(Turn {
            side,
            round,
            clients,
            more: Transactions {
                outcome,
                violations: violations.iter().map(ToString::to_string).collect(),
            },
        })
    }

    /// Every statement once on each engine: judged, and both answers compared, since nothing changes any more. That every
    /// statement ran at least once does not depend on the time there was.
    fn close(&self, store: &Store, progress: &dyn Progress) -> Result<Closing, BenchError> {
        progress.begin(
            "live, every statement once more",
            2 * self.statements.len() as u64,
        );
        let mut closing = Closing::default();
        let engines = [
            (Side::Stock, self.engine(Joins::Stock, store)?),
            (Side::Corun, self.engine(Joins::Corun, store)?),
        ];
        for statement in self.statements.iter() {
            let mut reference = None;
            for (side, engine) in &engines {
                let answer = crate::query::run_query(&self.runtime, engine, &statement.sql)?;
                progress.advance(1);
                closing.answers += 1;
                closing.wrong.extend(statement.judge(&answer));
                let answer = fingerprint(&answer.schema, &answer.batches);
                let reference = *reference.get_or_insert(answer);
                if answer != reference {
                    let name = statement.name;
                    let difference = format!("{name}: stock: {reference}; {}: {answer}", side.name());
                    closing.wrong.push(difference);
                }
            }
        }
        Ok(closing)
    }
}
