//! The main job: a mixed concurrent workload on the embedded engine, stock joins against corun's, round by round.
//!
//! ```text
//!   generate SSB once ---> engine "stock" and engine "corun" share the batches
//!   every statement once on stock: the reference answers; once on corun: checked, and both are warm
//!   round 1:  stock: all clients for some seconds   corun: the same clients, the same order of statements
//!   round 2:  ...                                   (S C S C S C: slow drift of the machine hits both sides)
//!   summary: per class and per query, ratios taken within a round; stock against itself is the control
//! ```
//!
//! Order of calls: [`Demo::prepare`], [`Demo::play`], then [`summary::Summary`], [`rows::rows`] and [`page::page`] on the
//! result. Deciding what to run ([`mix`], [`schedule`]) and counting ([`summary`]) are pure; only [`drive`] runs anything.
//! Not a benchmark of single queries: those are the suites'.

pub mod drive;
pub mod mix;
pub mod page;
pub mod rows;
pub mod schedule;
pub mod summary;

use std::sync::Arc;
use std::time::Duration;

use fusion::{Engine, EngineOptions, Joins};
use tokio::runtime::Runtime;

use crate::dataset::Dataset;
use crate::error::BenchError;
use crate::progress::Progress;
use crate::ssb::Ssb;
use drive::{Target, Turn};
use mix::Mix;

/// Which engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// DataFusion as it comes.
    Stock,
    /// With corun's operators.
    Corun,
}

impl Side {
    /// Both, in the order of a round.
    pub const BOTH: [Side; 2] = [Side::Stock, Side::Corun];

    /// The word in tables.
    pub fn name(self) -> &'static str {
        match self {
            Side::Stock => "stock",
            Side::Corun => "corun",
        }
    }

    /// The `engine` of rows, the same word as in the suites.
    pub fn engine(self) -> &'static str {
        match self {
            Side::Stock => "datafusion",
            Side::Corun => "corun",
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
}

/// Two engines over the same batches, and the statements with their reference answers.
pub struct Demo {
    options: DemoOptions,
    runtime: Runtime,
    stock: Engine,
    corun: Engine,
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
    /// corun's against them: that is the warm-up, too.
    ///
    /// # Errors
    /// An impossible scale, an engine that fails, or a wrong answer of corun, named.
    pub fn prepare(options: DemoOptions, progress: &dyn Progress) -> Result<Demo, BenchError> {
        let threads = crate::suites::all_cores();
        let generator = Ssb::new(options.scale)
            .map_err(|error| BenchError::BadArgument(error.to_string()))?
            .with_seed(options.seed);
        let dataset = generator.dataset(options.partitions, threads, progress);
        let stock = engine(&options, Joins::Stock, &dataset)?;
        let corun = engine(&options, Joins::Corun, &dataset)?;
        let runtime = crate::run::runtime(threads)?;
        let mut mix = Mix::new(options.seed, &generator.sizes());
        progress.begin("reference answers, warm-up", 2 * mix.statements.len() as u64);
        let mut wrong = Vec::new();
        for statement in &mut mix.statements {
            let reference = runtime.block_on(spawned(&stock, &statement.sql))?;
            progress.advance(1);
            let answer = runtime.block_on(spawned(&corun, &statement.sql))?;
            progress.advance(1);
            if answer != reference {
                wrong.push(format!(
                    "{} (stock: {reference}; corun: {answer})",
                    statement.name
                ));
            }
            statement.reference = Some(reference);
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
            data_bytes: dataset.tables.iter().map(crate::dataset::TableData::bytes).sum(),
            options,
            runtime,
            stock,
            corun,
            mix: Arc::new(mix),
        })
    }

    /// Runs all rounds. Wrong answers are counted in the result, not an error.
    ///
    /// # Errors
    /// A statement that fails.
    pub fn play(&self, progress: &dyn Progress) -> Result<DemoResult, BenchError> {
        let mut turns = Vec::with_capacity(2 * self.options.rounds);
        for round in 0..self.options.rounds {
            for side in Side::BOTH {
                let engine = match side {
                    Side::Stock => &self.stock,
                    Side::Corun => &self.corun,
                };
                let what = format!(
                    "round {} of {}, {:5}",
                    round + 1,
                    self.options.rounds,
                    side.name()
                );
                let duration = Duration::from_secs_f64(self.options.seconds);
                let seats = schedule::seats(self.options.clients, self.options.short_clients);
                let turn = drive::turn(
                    engine,
                    &self.mix,
                    &seats,
                    self.options.seed,
                    round,
                    duration,
                    &what,
                    progress,
                );
                let (clients, peak_bytes) = self.runtime.block_on(turn)?;
                turns.push(Turn {
                    side,
                    round,
                    clients,
                    peak_bytes,
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
        ..EngineOptions::default()
    })?;
    dataset.register(&engine)?;
    Ok(engine)
}

/// Runs one statement on the runtime's workers, as the clients do.
async fn spawned(engine: &Engine, sql: &str) -> Result<crate::answers::Answer, BenchError> {
    let (engine, sql) = (engine.clone(), sql.to_owned());
    match tokio::spawn(async move { engine.execute(&sql).await.map(|(answer, _)| answer) }).await {
        Ok(answer) => Ok(answer?),
        Err(error) => Err(BenchError::Data(format!("a query was stopped: {error}"))),
    }
}
