//! One client of a run: draws transactions and runs each until it succeeds, counted and timed.
//!
//! ```text
//! all clients made -> warm-up -> measured -> stopped
//!                     (not counted)  |-- by time: what ends in it counts
//!                                    `-- by number: a ticket for each transaction; who finds none left is done
//! ```
//!
//! Not here: where clients run ([`super::run`], [`super::members`]).

use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use corun_exec::teams;
use parking_lot::{Condvar, Mutex};

use super::options::{Measure, RunError, RunOptions};
use super::outcome::Tally;
use crate::engine::TxError;
use crate::random::Random;

/// What one client does: draws a transaction, then tries it until it succeeds.
pub(super) trait Work {
    /// Draws the next transaction and returns the number of its type.
    fn draw(&mut self) -> usize;
    /// Runs it once. True if it committed, false if the rules rolled it back.
    fn attempt(&mut self) -> Result<bool, TxError>;
}

/// Makes the work of client number `client` of worker `worker`, where the client will run.
pub(super) type MakeWork<'a> = dyn Fn(usize, usize) -> Result<Box<dyn Work + 'a>, TxError> + Sync + 'a;

/// How a client shares its worker's CPU with others.
pub(super) trait Place {
    /// A transaction is about to begin.
    fn enter(&self) {}
    /// It has come to its end at `now`.
    fn leave(&self, _now: Instant) {}
    /// There will be no further one.
    fn end(&self) {}
}

/// A thread of its own.
pub(super) struct OwnThread;

impl Place for OwnThread {}

pub(super) const WARM_UP: u8 = 0;
pub(super) const MEASURED: u8 = 1;
pub(super) const STOPPED: u8 = 2;

/// What clients and the thread that started them share.
pub(super) struct Shared<'a> {
    pub options: &'a RunOptions,
    pub kinds: &'a [&'static str],
    // Relaxed everywhere: both only tell clients when to count and stop; results go through the join of their threads.
    pub phase: AtomicU8,
    pub tickets: AtomicI64,
    /// Counts threads and the one that started them, so that nobody begins before everybody is there.
    pub ready: Barrier,
    pub failed: Mutex<Option<RunError>>,
    pub failure: Condvar,
}

impl Shared<'_> {
    pub fn fail(&self, error: RunError) {
        self.failed.lock().get_or_insert(error);
        self.phase.store(STOPPED, Ordering::Relaxed);
        self.failure.notify_all();
    }

    /// Waits so long, or until a client has failed.
    pub fn wait(&self, time: Duration) {
        let deadline = Instant::now() + time;
        let mut failed = self.failed.lock();
        while failed.is_none() && !self.failure.wait_until(&mut failed, deadline).timed_out() {}
    }
}

/// What a client did: what counted, by type, and when its last transaction ended.
pub(super) struct Done {
    pub tallies: Vec<Tally>,
    pub last: Instant,
}

/// Runs transactions until the run stops, or this client has failed and has said so.
pub(super) fn run_client(
    shared: &Shared<'_>,
    client: usize,
    work: &mut dyn Work,
    place: &impl Place,
) -> Done {
    let options = shared.options;
    let mut done = Done {
        tallies: vec![Tally::default(); shared.kinds.len()],
        last: Instant::now(),
    };
    let by_number = matches!(options.measure, Measure::Transactions(_));
    let mut jitter = Random::new(options.seed ^ 0x6a09_e667_f3bc_c908, client as u64);
    loop {
        let phase = shared.phase.load(Ordering::Relaxed);
        if phase == STOPPED {
            break;
        }
        if by_number && phase == MEASURED && shared.tickets.fetch_sub(1, Ordering::Relaxed) <= 0 {
            break;
        }
        let kind = work.draw();
        let begin = Instant::now();
        place.enter();
        let attempted = attempt(shared, work, &mut jitter);
        done.last = Instant::now();
        place.leave(done.last);
        let (committed, retries) = match attempted {
            Ok(Some(end)) => end,
            Ok(None) => break,
            Err((error, retries)) => {
                shared.fail(failure(client, shared.kinds[kind], retries, error));
                break;
            }
        };
        let counts = if by_number {
            phase
        } else {
            shared.phase.load(Ordering::Relaxed)
        };
        if counts == MEASURED {
            let tally = &mut done.tallies[kind];
            tally.committed += u64::from(committed);
            tally.rolled_back += u64::from(!committed);
            tally.retried += u64::from(retries);
            tally.latencies.add(done.last - begin);
        }
    }
    place.end();
    done
}

/// Tries one transaction until it succeeds; whether it committed, or why it failed, and how often it was run again. Nothing if the run
/// was stopped before it succeeded.
fn attempt(
    shared: &Shared<'_>,
    work: &mut dyn Work,
    jitter: &mut Random,
) -> Result<Option<(bool, u32)>, (TxError, u32)> {
    let mut retries = 0;
    loop {
        match work.attempt() {
            Ok(committed) => return Ok(Some((committed, retries))),
            Err(TxError::Retry(_)) if shared.phase.load(Ordering::Relaxed) == STOPPED => return Ok(None),
            Err(TxError::Retry(_)) if retries < shared.options.retries_max => {
                back_off(retries, jitter);
                retries += 1;
            }
            Err(error) => return Err((error, retries)),
        }
    }
}

fn failure(client: usize, transaction: &'static str, retries: u32, error: TxError) -> RunError {
    match error {
        TxError::Retry(reason) => RunError::Retries {
            client,
            transaction,
            retries,
            reason,
        },
        TxError::Failed(reason) => RunError::Transaction {
            client,
            transaction,
            reason,
        },
    }
}

/// Lets others go first: gives the CPU away at first, then sleeps a random time that doubles up to two milliseconds. A
/// thousand retries take at most two seconds of sleep.
fn back_off(retries: u32, jitter: &mut Random) {
    if retries == 0 {
        teams::yield_now();
        return;
    }
    let us_max = (10i64 << retries.min(8)).min(2_000);
    let time = Duration::from_micros(jitter.between(0, us_max) as u64);
    if !teams::is_member() {
        std::thread::sleep(time);
        return;
    }
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        teams::park(Some(deadline));
    }
}
