//! [`beside_tpcc_readers`] and [`beside_ycsb_readers`]: work as a member of a team whose other members read until it is done, so that it
//! is switched away from wherever it can be.
//!
//! What it is not: a run. Nothing is counted; who compares answers with an oracle does it here once more.

use std::cell::Cell;

use corun_exec::teams::{self, Scheduler};

use super::client::Work;
use super::members;
use super::options::RunError;
use super::tpcc::{self, TpccWorkload};
use super::ycsb;
use crate::engine::{TpccEngine, TxError, YcsbEngine};
use crate::tpcc::{Kind, Mix};
use crate::ycsb::{Database, Workload};

/// Members that read.
const READERS: usize = 3;

/// Does `work` beside clients that ask for the status of orders and the level of stocks, which change nothing.
///
/// # Errors
/// When the engine's clients cannot share a thread, there can be no scheduler, a reader fails, or `work` panics.
pub fn beside_tpcc_readers<R>(
    engine: &dyn TpccEngine,
    workload: &TpccWorkload,
    seed: u64,
    work: impl FnOnce() -> R,
) -> Result<R, RunError> {
    let name = engine.clients_share_threads().then_some(()).ok_or(engine.name());
    beside(name, work, &|reader| {
        let mix = match reader % 2 {
            0 => Mix::only(Kind::OrderStatus),
            _ => Mix::only(Kind::StockLevel),
        };
        let workload = TpccWorkload { mix, ..*workload };
        tpcc::terminals(engine, &workload, seed, std::iter::once(reader), 0)
    })
}

/// Does `work` beside clients that read records.
///
/// # Errors
/// As [`beside_tpcc_readers`].
pub fn beside_ycsb_readers<R>(
    engine: &dyn YcsbEngine,
    database: &Database,
    seed: u64,
    work: impl FnOnce() -> R,
) -> Result<R, RunError> {
    let name = engine.clients_share_threads().then_some(()).ok_or(engine.name());
    beside(name, work, &|reader| {
        ycsb::requests(engine, database, Workload::C, seed, reader, 0)
    })
}

/// Sets what it holds when it goes, however that comes.
struct AtLast<'a>(&'a Cell<bool>);

impl Drop for AtLast<'_> {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

fn beside<'a, R>(
    shares_threads: Result<(), String>,
    work: impl FnOnce() -> R,
    make: &dyn Fn(usize) -> Result<Box<dyn Work + 'a>, TxError>,
) -> Result<R, RunError> {
    shares_threads.map_err(|engine| RunError::NoTeams {
        engine,
        teams: super::Teams::On,
    })?;
    let mut scheduler =
        Scheduler::new(teams::TeamOptions::default()).map_err(|error| RunError::Scheduler {
            worker: 0,
            reason: error.to_string(),
        })?;
    let done = Cell::new(false);
    let done = &done;
    let ended = scheduler.scope(|scope| {
        scope.spawn("work", move || {
            let _done = AtLast(done);
            Ok(Some(work()))
        });
        for reader in 0..READERS {
            scope.spawn(format!("reader {reader}"), move || {
                read(reader, make, done).map(|()| None)
            });
        }
    });
    let mut answer = None;
    for (client, ended) in ended.into_iter().enumerate() {
        match ended {
            Ok(ended) => answer = answer.or(ended?),
            Err(lost) => {
                return Err(RunError::Lost {
                    client,
                    reason: members::reason(&lost),
                });
            }
        }
    }
    answer.ok_or(RunError::Lost {
        client: 0,
        reason: "it gave no answer".to_owned(),
    })
}

fn read<'a>(
    client: usize,
    make: &dyn Fn(usize) -> Result<Box<dyn Work + 'a>, TxError>,
    done: &Cell<bool>,
) -> Result<(), RunError> {
    let mut reads = make(client).map_err(|error| RunError::Client { client, error })?;
    while !done.get() {
        reads.draw();
        while !done.get() {
            match reads.attempt() {
                Ok(_) => break,
                Err(TxError::Retry(_)) => teams::yield_now(),
                Err(TxError::Failed(reason)) => {
                    return Err(RunError::Transaction {
                        client,
                        transaction: "a read",
                        reason,
                    });
                }
            }
        }
    }
    Ok(())
}
