//! The main job: a mixed concurrent workload on the embedded engine, stock joins against corun's, with and without the
//! coordinator, round by round.
//!
//! ```text
//!   generate SSB once ---> engine "stock" and engine "corun" share the batches; a coordinator a policy stands before corun
//!   every statement once on stock: the reference answers; once on every other side: checked, and all are warm
//!   round 1:  each side in turn: the same clients for some seconds, the same order of statements
//!   round 2:  ... in an order shuffled anew (slow drift of the machine, and what a neighbour leaves behind, hits all)
//!   summary: per class and per query, ratios taken within a round; stock against itself is the control
//! ```
//!
//! Order of calls: [`Demo::prepare`], [`Demo::play`], then [`rows::rows`] on the result; page and summary are figures of these rows,
//! `lab/core/src/figures/demo.toml` and `demo_terminal.toml`. Deciding what to run ([`mix`], [`schedule`]) and counting ([`turns`],
//! [`part`]) are pure; only [`drive`] runs anything.
//! [`live`] is another part: transactions beside analytic clients, on tables that change meanwhile; [`served`] one more: clients over
//! PostgreSQL's protocol.
//! Not a benchmark of single queries: those are the suites'.

pub mod drive;
pub mod live;
pub mod mix;
pub mod part;
pub mod rows;
pub mod schedule;
pub mod served;
pub mod turns;

use std::sync::Arc;
use std::time::Duration;

use corun_datafusion::{Coordinator, CoordinatorOptions, Engine, EngineOptions, Joins};
use corun_model::cache::coschedule::PolicyName;
use tokio::runtime::Runtime;

use corun_model::progress::Progress;
use corun_workloads::dataset::Dataset;
use corun_workloads::ssb::Ssb;
use drive::{Answerer, Draw, Memory, Target, Turn};
use lab_core::error::BenchError;
use lab_core::order;
use mix::Mix;

/// Which engine, and who starts its queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// DataFusion as it comes; every query starts at once.
    Stock,
    /// With corun's operators; every query starts at once.
    Corun,
    /// With corun's operators behind a coordinator of this policy.
    Policy(PolicyName),
}

impl Side {
    /// The words in tables.
    pub fn name(self) -> String {
        match self {
            Side::Stock => "stock".to_owned(),
            Side::Corun => "corun".to_owned(),
            Side::Policy(policy) => format!("corun {policy}"),
        }
    }

    /// The `engine` of rows, the same word as in the suites.
    pub fn engine(self) -> &'static str {
        match self {
            Side::Stock => "datafusion",
            Side::Corun | Side::Policy(_) => "corun",
        }
    }

    /// The `policy` of rows: `none` where nobody coordinates.
    pub fn policy(self) -> String {
        match self {
            Side::Stock | Side::Corun => "none".to_owned(),
            Side::Policy(policy) => policy.to_string(),
        }
    }
}

/// What to run, for how long.
#[derive(Debug, Clone, PartialEq)]
pub struct DemoOptions {
    /// Scale factor of the data.
    pub scale: f64,
    /// Seconds of one side's turn in a round.
    pub seconds: f64,
    /// Rounds; each is one turn a side.
    pub rounds: usize,
    /// Clients that run joins over the fact table.
    pub clients: usize,
    /// Clients that run short statements.
    pub short_clients: usize,
    /// Seed of the data, the statements' constants and their order.
    pub seed: u64,
    /// Partitions of a plan.
    pub partitions: usize,
    /// Policies of the coordinators, one side each.
    pub policies: Vec<PolicyName>,
}

impl DemoOptions {
    /// Every side, in the order of the tables.
    pub fn sides(&self) -> Vec<Side> {
        let policies = self.policies.iter().map(|&policy| Side::Policy(policy));
        [Side::Stock, Side::Corun].into_iter().chain(policies).collect()
    }
}

/// Two engines over the same batches, coordinators, and the statements with their reference answers.
pub struct Demo {
    options: DemoOptions,
    runtime: Runtime,
    sides: Vec<(Side, Answerer)>,
    mix: Arc<Mix>,
    data_rows: usize,
    data_bytes: usize,
}

/// Everything that was measured.
#[derive(Debug, Clone)]
pub struct DemoResult {
    /// What was asked for.
    pub options: DemoOptions,
    /// The statements.
    pub mix: Arc<Mix>,
    /// Rows of the data.
    pub data_rows: usize,
    /// Bytes of the data in memory.
    pub data_bytes: usize,
    /// Turns in the order they ran.
    pub turns: Vec<Turn>,
}

impl Demo {
    /// Generates the data, registers it in both engines, computes the reference answers on the stock engine and checks
    /// every other side's against them: that is the warm-up, too.
    ///
    /// # Errors
    /// An impossible scale, an engine that fails, a policy this machine cannot follow, or a wrong answer, named.
    pub fn prepare(options: DemoOptions, progress: &dyn Progress) -> Result<Demo, BenchError> {
        let threads = lab_core::suite::all_cores();
        let generator = Ssb::new(options.scale)
            .map_err(|error| BenchError::BadArgument(error.to_string()))?
            .with_seed(options.seed);
        let dataset = generator.dataset(options.partitions, threads, progress);
        let stock = engine(&options, Joins::Stock, &dataset)?;
        let corun = engine(&options, Joins::Corun, &dataset)?;
        let runtime = crate::query::runtime(threads)?;
        let mut sides = Vec::new();
        for side in options.sides() {
            let answerer = match side {
                Side::Stock => Answerer::Engine(stock.clone()),
                Side::Corun => Answerer::Engine(corun.clone()),
                Side::Policy(policy) => Answerer::Coordinator(coordinator(&corun, policy)?),
            };
            sides.push((side, answerer));
        }
        let mut mix = Mix::new(options.seed, &generator.sizes());
        progress.begin(
            "reference answers, warm-up",
            (sides.len() * mix.statements.len()) as u64,
        );
        let mut wrong = Vec::new();
        for statement in &mut mix.statements {
            if !mix.corun_joins.contains_key(&statement.name) {
                let plan = runtime.block_on(corun.explain(&statement.sql, false))?;
                let joins = plan.matches("CorunJoinExec").count();
                mix.corun_joins.insert(statement.name.clone(), joins);
            }
            for (side, answerer) in &sides {
                let answer = runtime.block_on(spawned(answerer, &statement.sql))?;
                progress.advance(1);
                let reference = *statement.reference.get_or_insert(answer);
                if answer != reference {
                    wrong.push(format!(
                        "{} (stock: {reference}; {}: {answer})",
                        statement.name,
                        side.name()
                    ));
                }
            }
        }
        progress.end();
        if !wrong.is_empty() {
            return Err(BenchError::Data(format!(
                "wrong answers before the first round: {}",
                wrong.join(", ")
            )));
        }
        Ok(Demo {
            data_rows: dataset.rows(),
            data_bytes: dataset
                .tables
                .iter()
                .map(corun_workloads::dataset::TableData::bytes)
                .sum(),
            options,
            runtime,
            sides,
            mix: Arc::new(mix),
        })
    }

    /// Runs all rounds. Wrong answers are counted in the result, not an error.
    ///
    /// # Errors
    /// A statement that fails.
    pub fn play(&self, progress: &dyn Progress) -> Result<DemoResult, BenchError> {
        let mut turns = Vec::with_capacity(self.sides.len() * self.options.rounds);
        for round in 0..self.options.rounds {
            let mut places: Vec<usize> = (0..self.sides.len()).collect();
            order::shuffle(&mut places, self.options.seed, "demo", round);
            for place in places {
                let (side, answerer) = &self.sides[place];
                let side = *side;
                let what = format!(
                    "round {} of {}, {:13}",
                    round + 1,
                    self.options.rounds,
                    side.name()
                );
                let duration = Duration::from_secs_f64(self.options.seconds);
                let roles = schedule::roles(self.options.clients, self.options.short_clients);
                let draw = Draw {
                    seed: self.options.seed,
                    round,
                };
                let turn = drive::turn(answerer, &self.mix, &roles, draw, duration, &what, progress);
                let (clients, peak_bytes) = self.runtime.block_on(turn)?;
                turns.push(Turn {
                    side,
                    round,
                    clients,
                    more: Memory { peak_bytes },
                });
            }
        }
        progress.end();
        Ok(DemoResult {
            options: self.options.clone(),
            mix: Arc::clone(&self.mix),
            data_rows: self.data_rows,
            data_bytes: self.data_bytes,
            turns,
        })
    }
}

/// An engine over `dataset`.
fn engine(options: &DemoOptions, joins: Joins, dataset: &Dataset) -> Result<Engine, BenchError> {
    let engine = Engine::new(&EngineOptions {
        partitions: options.partitions,
        joins,
        share_work: false,
        ..EngineOptions::default()
    })?;
    crate::tables::register(dataset, &engine)?;
    Ok(engine)
}

/// A coordinator of this machine's CPUs before an engine.
fn coordinator(engine: &Engine, policy: PolicyName) -> Result<Coordinator, BenchError> {
    let topology = corun_topology::discover();
    let mut options = CoordinatorOptions::for_machine(&topology, None)?;
    options.policy = policy;
    Ok(Coordinator::new(engine, options)?)
}

/// Runs one statement on the runtime's workers, as the clients do.
async fn spawned(answerer: &Answerer, sql: &str) -> Result<corun_workloads::answers::Answer, BenchError> {
    let (answerer, sql) = (answerer.clone(), sql.to_owned());
    match tokio::spawn(async move { answerer.execute(&sql).await.map(|(answer, _)| answer) }).await {
        Ok(answer) => Ok(answer?),
        Err(error) => Err(BenchError::Data(format!("a query was stopped: {error}"))),
    }
}
