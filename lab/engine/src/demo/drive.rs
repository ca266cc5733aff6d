//! Runs the clients of one turn against one engine and notes what each execution took.
//!
//! A client takes statements until the time is up, at least one, and always finishes the one it is in; its rate is its own executions
//! over its own time, so that no half-finished statement is lost or counted. Times are taken around the statement alone;
//! the answer is checked outside them.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_datafusion::{Coordinator, Engine, EngineError};
use tokio::task::JoinSet;

use super::Side;
use super::mix::{Class, Mix};
use super::schedule::{Seat, order};
use corun_model::progress::Progress;
use corun_workloads::answers::{Answer, fingerprint};
use lab_core::error::BenchError;

/// Something that answers statements: an engine, or a stand-in for tests.
pub trait Target: Clone + Send + Sync + 'static {
    /// Runs a statement; returns its answer and how long the statement itself took.
    fn execute(&self, sql: &str) -> impl Future<Output = Result<(Answer, Duration), EngineError>> + Send;
}

/// What a side of the demo asks.
#[derive(Clone)]
pub enum Answerer {
    /// An engine, that starts every query at once.
    Engine(Engine),
    /// A coordinator, that decides when and where it starts.
    Coordinator(Coordinator),
}

impl Target for Answerer {
    async fn execute(&self, sql: &str) -> Result<(Answer, Duration), EngineError> {
        let start = Instant::now();
        let output = match self {
            Answerer::Engine(engine) => engine.query(sql).await?,
            Answerer::Coordinator(coordinator) => coordinator.query(sql).await?.0,
        };
        let elapsed = start.elapsed();
        Ok((fingerprint(&output.schema, &output.batches), elapsed))
    }
}

/// One statement, run once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Execution {
    /// Index into the mix.
    pub statement: usize,
    /// Milliseconds from sending the statement to having its last row.
    pub milliseconds: f64,
    /// Whether the answer equalled the reference.
    pub correct: bool,
}

/// What one client did.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientRun {
    /// What it ran.
    pub class: Class,
    /// From the common start to the end of its last statement.
    pub seconds: f64,
    /// In order.
    pub executions: Vec<Execution>,
}

/// What all clients did on one side of a round.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The engine.
    pub side: Side,
    /// The round, from 0.
    pub round: usize,
    /// The clients.
    pub clients: Vec<ClientRun>,
    /// The most memory live at once above what was live at the start, in bytes; 0 when nothing counts it.
    pub peak_bytes: u64,
}

/// How often the progress bar moves.
const TICK: Duration = Duration::from_millis(250);

/// Runs one turn; returns the clients' runs and the peak memory.
///
/// # Errors
/// The first statement that fails; the other clients are stopped.
#[expect(
    clippy::too_many_arguments,
    reason = "each is one independent input; a struct would have one user"
)]
pub async fn turn<T: Target>(
    target: &T,
    mix: &Arc<Mix>,
    seats: &[Seat],
    seed: u64,
    round: usize,
    duration: Duration,
    what: &str,
    progress: &dyn Progress,
) -> Result<(Vec<ClientRun>, u64), BenchError> {
    progress.begin(what, duration.as_millis().div_ceil(TICK.as_millis()) as u64);
    corun_machine::memory::reset_peak();
    let live = corun_machine::memory::live_bytes();
    let start = Instant::now();
    let mut clients = JoinSet::new();
    for seat in seats.iter().copied() {
        clients.spawn(client(
            target.clone(),
            Arc::clone(mix),
            seat,
            seed,
            round,
            start,
            duration,
        ));
    }
    let mut runs = Vec::with_capacity(seats.len());
    let mut ticks = tokio::time::interval(TICK);
    ticks.tick().await;
    while runs.len() < seats.len() {
        tokio::select! {
            _ = ticks.tick() => progress.advance(1),
            Some(finished) = clients.join_next() => match finished {
                Ok(run) => runs.push(run?),
                Err(error) => return Err(BenchError::Data(format!("a client was stopped: {error}"))),
            },
        }
    }
    progress.end();
    runs.sort_by_key(|(number, _)| *number);
    let peak_bytes = corun_machine::memory::peak_bytes().saturating_sub(live);
    Ok((runs.into_iter().map(|(_, run)| run).collect(), peak_bytes))
}

/// One client; returns its number and its run.
async fn client<T: Target>(
    target: T,
    mix: Arc<Mix>,
    seat: Seat,
    seed: u64,
    round: usize,
    start: Instant,
    duration: Duration,
) -> Result<(usize, ClientRun), BenchError> {
    let mine = mix.of_class(seat.class);
    let mut executions = Vec::new();
    for position in order(seed, round, seat.client, mine.len()) {
        if !executions.is_empty() && start.elapsed() >= duration {
            break;
        }
        let statement = mine[position];
        let (answer, elapsed) = target.execute(&mix.statements[statement].sql).await?;
        executions.push(Execution {
            statement,
            milliseconds: elapsed.as_secs_f64() * 1000.0,
            correct: mix.statements[statement].reference == Some(answer),
        });
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok((
        seat.client,
        ClientRun {
            class: seat.class,
            seconds,
            executions,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::super::schedule::seats;
    use super::*;
    use corun_model::progress::Silent;
    use corun_workloads::ssb::Sizes;

    /// Answers every statement at once with the number of its letters, and some of them wrongly.
    #[derive(Clone)]
    struct Parrot {
        wrong: &'static str,
        failing: &'static str,
    }

    impl Target for Parrot {
        async fn execute(&self, sql: &str) -> Result<(Answer, Duration), EngineError> {
            if !self.failing.is_empty() && sql.contains(self.failing) {
                return Err(EngineError::new("cannot"));
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
            let rows = sql.len() as u64 + u64::from(!self.wrong.is_empty() && sql.contains(self.wrong));
            Ok((Answer { rows, checksum: 1 }, Duration::from_millis(2)))
        }
    }

    fn mix() -> Arc<Mix> {
        let mut mix = Mix::new(1, &Sizes::at(0.01).expect("valid"));
        for statement in &mut mix.statements {
            statement.reference = Some(Answer {
                rows: statement.sql.len() as u64,
                checksum: 1,
            });
        }
        Arc::new(mix)
    }

    fn play(target: &Parrot) -> Result<Vec<ClientRun>, BenchError> {
        let runtime = crate::query::runtime(2)?;
        let (mix, seats) = (mix(), seats(2, 1));
        let turn = turn(
            target,
            &mix,
            &seats,
            5,
            0,
            Duration::from_millis(80),
            "turn",
            &Silent,
        );
        runtime.block_on(turn).map(|(runs, _)| runs)
    }

    #[test]
    fn clients_run_their_class_in_the_scheduled_order() {
        let runs = play(&Parrot {
            wrong: "",
            failing: "",
        })
        .expect("runs");
        let mix = mix();
        assert_eq!(
            runs.iter().map(|run| run.class).collect::<Vec<_>>(),
            [Class::Analytic, Class::Analytic, Class::Short]
        );
        for (client, run) in runs.iter().enumerate() {
            assert!(!run.executions.is_empty());
            let mine = mix.of_class(run.class);
            let expected = order(5, 0, client, mine.len()).map(|position| mine[position]);
            for (execution, statement) in run.executions.iter().zip(expected) {
                assert_eq!(execution.statement, statement);
                assert_eq!(execution.milliseconds, 2.0);
                assert!(execution.correct);
            }
        }
    }

    #[test]
    fn wrong_answers_are_noticed() {
        let runs = play(&Parrot {
            wrong: "lineorder",
            failing: "",
        })
        .expect("runs");
        let mix = mix();
        for execution in runs.iter().flat_map(|run| &run.executions) {
            assert_eq!(
                execution.correct,
                !mix.statements[execution.statement].sql.contains("lineorder")
            );
        }
    }

    #[test]
    fn a_failing_statement_ends_the_turn() {
        assert!(
            play(&Parrot {
                wrong: "",
                failing: "lineorder"
            })
            .is_err()
        );
    }
}
