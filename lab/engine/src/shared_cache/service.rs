//! Who answers the statements of concurrent clients: nobody's choice, a plain engine, or the coordinator.
//!
//! | service | who runs where |
//! | --- | --- |
//! | [`Unscheduled`] | each query on one pinned CPU, in order of arrival: the coordinator's admission without the coordinator |
//! | [`Plain`] | an engine as it comes: every query at once, on a runtime over all CPUs |
//! | [`Coordinated`] | `corun-datafusion`'s coordinator under some policy |

use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_datafusion::{Coordinator, Engine};
use corun_model::units::CpuId;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, Semaphore};

use super::pinned::{PinnedThread, Query};
use corun_workloads::answers::fingerprint;
use lab_core::error::BenchError;

/// What came of one statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    /// From its arrival to its start; zero where nobody waits.
    pub waited: Duration,
    /// From its start to its end.
    pub ran: Duration,
    /// What was wrong with its answer.
    pub wrong: Option<String>,
}

/// Somebody that answers.
pub trait Service {
    /// Answers one statement.
    fn serve<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Served, BenchError>>;
}

fn wrong(query: &Query, answer: corun_workloads::answers::Answer) -> Option<String> {
    (answer != query.expected).then(|| format!("expected {}, got {answer}", query.expected))
}

/// Pinned CPUs that take queries in order of arrival.
pub struct Unscheduled {
    turns: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<PinnedThread>>>,
}

impl Unscheduled {
    /// One query at a time on each CPU.
    ///
    /// # Errors
    /// When a CPU cannot be had.
    pub fn on(cpus: &[CpuId]) -> Result<Unscheduled, BenchError> {
        let pinned = cpus
            .iter()
            .map(|&cpu| PinnedThread::take(cpu))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Unscheduled {
            turns: Arc::new(Semaphore::new(pinned.len())),
            idle: Arc::new(Mutex::new(pinned)),
        })
    }
}

fn gone() -> BenchError {
    BenchError::Data("a query ended its thread: it panicked".to_owned())
}

impl Service for Unscheduled {
    fn serve<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Served, BenchError>> {
        async move {
            let arrived = Instant::now();
            // Tokio's semaphores are fair: the oldest waits least.
            let _turn = self.turns.acquire().await.map_err(|_| gone())?;
            let waited = arrived.elapsed();
            let thread = self.idle.lock().await.pop().ok_or_else(gone)?;
            let mine = query.clone();
            let ran = tokio::task::spawn_blocking(move || {
                let runs = thread.time(&mine, 1);
                (thread, runs)
            });
            let (thread, runs) = ran.await.map_err(|_| gone())?;
            self.idle.lock().await.push(thread);
            let runs = runs?;
            match runs.failed {
                Some(failed) => Err(BenchError::Data(failed)),
                None => Ok(Served {
                    waited,
                    ran: runs.elapsed,
                    wrong: runs.wrong,
                }),
            }
        }
        .boxed()
    }
}

/// An engine as it comes.
pub struct Plain {
    runtime: Runtime,
    engine: Engine,
}

impl Plain {
    /// With so many threads.
    ///
    /// # Errors
    /// When the operating system refuses them.
    pub fn new(engine: &Engine, threads: usize) -> Result<Plain, BenchError> {
        Ok(Plain {
            runtime: crate::query::runtime(threads)?,
            engine: engine.clone(),
        })
    }
}

impl Service for Plain {
    fn serve<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Served, BenchError>> {
        let (engine, sql) = (self.engine.clone(), query.sql.clone());
        let task = self.runtime.spawn(async move {
            let start = Instant::now();
            let output = engine.query(&sql).await?;
            Ok::<_, BenchError>((start.elapsed(), fingerprint(&output.schema, &output.batches)))
        });
        async move {
            let (ran, answer) = task.await.map_err(|_| gone())??;
            Ok(Served {
                waited: Duration::ZERO,
                ran,
                wrong: wrong(query, answer),
            })
        }
        .boxed()
    }
}

/// The coordinator.
pub struct Coordinated(pub Coordinator);

impl Service for Coordinated {
    fn serve<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Served, BenchError>> {
        async move {
            let (output, report) = self.0.query(&query.sql).await?;
            let answer = fingerprint(&output.schema, &output.batches);
            Ok(Served {
                waited: Duration::from_nanos(report.waited_ns),
                ran: Duration::from_nanos(report.ran_ns),
                wrong: wrong(query, answer),
            })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use corun_datafusion::EngineOptions;

    use super::*;
    use corun_workloads::answers::fingerprint_of_rows;

    fn query(answer: &str) -> Query {
        Query {
            engine: Engine::new(&EngineOptions::default()).expect("an engine"),
            sql: "select 6 * 7".to_owned(),
            expected: fingerprint_of_rows(&[answer.to_owned()]),
        }
    }

    #[test]
    fn services_check_answers() {
        let cpus = corun_topology::affinity::allowed_cpus().expect("an affinity mask");
        let unscheduled = Unscheduled::on(&cpus[..1]).expect("an allowed CPU");
        let plain = Plain::new(&query("42").engine, 1).expect("a thread");
        let runtime = crate::query::runtime(1).expect("a thread");
        let services: [&dyn Service; 2] = [&unscheduled, &plain];
        for service in services {
            let right = runtime.block_on(service.serve(&query("42"))).expect("served");
            assert_eq!(right.wrong, None);
            let wrong = runtime.block_on(service.serve(&query("41"))).expect("served");
            assert!(wrong.wrong.is_some());
        }
        drop(runtime);
        // A runtime may not be dropped inside another one; here there is none.
        drop(plain);
    }
}
