//! Runs the clients of one turn and notes what each execution took: [`turn`] against an engine or a coordinator, [`clients`] against
//! whatever answers.
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
use super::schedule::{ClientRole, order};
use super::turns;
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
    /// Its number.
    pub statement: usize,
    /// Milliseconds from sending the statement to having its last row.
    pub milliseconds: f64,
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
    /// What was wrong with answers, one text each.
    pub wrong: Vec<String>,
}

/// One turn of the analytic part.
pub type Turn = turns::Turn<Side, Memory>;

/// What a turn's statements needed.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// The most memory live at once above what was live at the start, in bytes; 0 when nothing counts it.
    pub peak_bytes: u64,
}

/// How often the progress bar moves.
const TICK: Duration = Duration::from_millis(250);

/// How many steps of the progress bar a turn takes.
pub fn steps(time: Duration) -> u64 {
    time.as_millis().div_ceil(TICK.as_millis()) as u64
}

/// What decides the order in which the clients of a turn take their statements.
#[derive(Debug, Clone, Copy, Default)]
pub struct Draw {
    /// The seed.
    pub seed: u64,
    /// The round.
    pub round: usize,
}

/// Runs one turn; returns the clients' runs and the peak memory.
///
/// # Errors
/// The first statement that fails; the other clients are stopped.
pub async fn turn<T: Target>(
    target: &T,
    mix: &Arc<Mix>,
    roles: &[ClientRole],
    draw: Draw,
    duration: Duration,
    what: &str,
    progress: &dyn Progress,
) -> Result<(Vec<ClientRun>, u64), BenchError> {
    progress.begin(what, steps(duration));
    corun_machine::memory::reset_peak();
    let live = corun_machine::memory::live_bytes();
    let roles = roles.iter().map(|&role| (role, mix.of_class(role.class)));
    let (target, mix) = (target.clone(), Arc::clone(mix));
    let ask = move |number: usize| {
        let (target, mix) = (target.clone(), Arc::clone(&mix));
        async move {
            let statement = &mix.statements[number];
            let (answer, elapsed) = target.execute(&statement.sql).await?;
            let is_wrong = statement.reference != Some(answer);
            Ok::<_, EngineError>((elapsed, is_wrong.then(|| statement.name.clone())))
        }
    };
    let runs = clients(roles, draw, duration, ask, progress).await?;
    progress.end();
    let peak_bytes = corun_machine::memory::peak_bytes().saturating_sub(live);
    Ok((runs, peak_bytes))
}

/// Runs clients with the numbers of their statements until the time is up, and watches the time where there are none. `ask` runs a
/// statement, and returns how long it took and what is wrong with its answer.
///
/// # Errors
/// The first statement that fails; the other clients are stopped.
pub async fn clients<R>(
    roles: impl Iterator<Item = (ClientRole, Vec<usize>)>,
    draw: Draw,
    duration: Duration,
    ask: impl Fn(usize) -> R + Clone + Send + Sync + 'static,
    progress: &dyn Progress,
) -> Result<Vec<ClientRun>, BenchError>
where
    R: Future<Output = Result<(Duration, Option<String>), EngineError>> + Send + 'static,
{
    let start = Instant::now();
    let mut clients = JoinSet::new();
    for (role, statements) in roles {
        clients.spawn(client(role, statements, draw, (start, duration), ask.clone()));
    }
    let mut runs = Vec::with_capacity(clients.len());
    let mut ticks = tokio::time::interval(TICK);
    ticks.tick().await;
    while !clients.is_empty() || start.elapsed() < duration {
        tokio::select! {
            _ = ticks.tick() => progress.advance(1),
            Some(finished) = clients.join_next() => match finished {
                Ok(run) => runs.push(run?),
                Err(error) => return Err(BenchError::Data(format!("a client was stopped: {error}"))),
            },
        }
    }
    runs.sort_by_key(|(number, _)| *number);
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}

/// One client; returns its number and its run. It runs at least one statement, however late it gets a CPU.
async fn client<R>(
    role: ClientRole,
    statements: Vec<usize>,
    draw: Draw,
    (start, duration): (Instant, Duration),
    ask: impl Fn(usize) -> R + Send + Sync,
) -> Result<(usize, ClientRun), EngineError>
where
    R: Future<Output = Result<(Duration, Option<String>), EngineError>> + Send + 'static,
{
    let mut run = ClientRun {
        class: role.class,
        seconds: 0.0,
        executions: Vec::new(),
        wrong: Vec::new(),
    };
    for position in order(draw.seed, draw.round, role.client, statements.len()) {
        if !run.executions.is_empty() && start.elapsed() >= duration {
            break;
        }
        let statement = statements[position];
        let (elapsed, wrong) = ask(statement).await?;
        run.executions.push(Execution {
            statement,
            milliseconds: elapsed.as_secs_f64() * 1000.0,
        });
        run.wrong.extend(wrong);
    }
    run.seconds = start.elapsed().as_secs_f64();
    Ok((role.client, run))
}

#[cfg(test)]
mod tests {
    use super::super::schedule::roles;
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
        let (mix, roles) = (mix(), roles(2, 1));
        let (draw, time) = (Draw { seed: 5, round: 0 }, Duration::from_millis(80));
        let turn = turn(target, &mix, &roles, draw, time, "turn", &Silent);
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
            }
            assert!(run.wrong.is_empty());
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
        for run in runs {
            let asked = run
                .executions
                .iter()
                .map(|execution| &mix.statements[execution.statement]);
            let wrong = asked.filter(|statement| statement.sql.contains("lineorder"));
            assert_eq!(
                run.wrong,
                wrong.map(|statement| statement.name.clone()).collect::<Vec<_>>()
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
