//! [`Threads`]: a polluter's pinned threads, and how they are told to work and to rest.
//!
//! ```text
//!            ┌────────────── order number changes, a load ─────────────┐
//!   rests (asleep at the condition)                              walks its lines
//!            └──────────── order number changes, no load ◀─────────────┘  looks at the number after each few lines
//! ```
//!
//! Each thread reports, under the mutex, the last order for which it has walked a whole round, and the last one it has rested for.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use corun_model::units::{Bytes, CpuId};

use super::order::Order;
use super::{LINE, Load, Pollution, Walk};
use corun_topology::affinity;
use corun_topology::measure::MeasureError;
use corun_topology::measure::lines::{Lines, WORDS_PER_LINE};

/// Lines between two looks at the order: some microseconds even when each comes from memory.
const CHUNK: usize = 64;
/// Longest wait for a thread to start, to walk its lines once, or to rest.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the threads are told, and what they tell. Everything but the copy of the number is guarded by the mutex.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// A copy of [`State::order`], for threads at work.
    order: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Rises with each order.
    order: u64,
    load: Option<Load>,
    ends: bool,
    /// For each thread: whether it is set up, or why not.
    ready: Vec<Option<Result<(), MeasureError>>>,
    /// The last order of which it has walked all lines.
    walked: Vec<u64>,
    /// The last order it has rested for.
    rested: Vec<u64>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No thread leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something the threads report; says whether it came.
    fn until(&self, mut there: impl FnMut(&State) -> bool) -> bool {
        let state = self.state();
        let (state, waited) = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| !there(state))
            .unwrap_or_else(PoisonError::into_inner);
        drop(state);
        !waited.timed_out()
    }

    fn tell(&self, change: impl FnOnce(&mut State)) -> u64 {
        let mut state = self.state();
        change(&mut state);
        state.order += 1;
        let order = state.order;
        self.order.store(order, Ordering::Release);
        drop(state);
        self.changed.notify_all();
        order
    }
}

/// One thread's count of lines, on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Touched(AtomicU64);

/// The threads; dropped, they end.
pub(super) struct Threads {
    shared: Arc<Shared>,
    touched: Arc<Vec<Touched>>,
    threads: Vec<JoinHandle<()>>,
    /// Since when all lines have been walked, and what had been touched then.
    since: Option<(Instant, u64)>,
}

impl Threads {
    /// One thread a CPU, each with an equal part of `bytes`; returns when all are pinned and have their memory.
    pub(super) fn start(cpus: &[CpuId], bytes: Bytes) -> Result<Threads, MeasureError> {
        let shared = Arc::new(Shared::default());
        {
            let mut state = shared.state();
            state.ready.resize_with(cpus.len(), || None);
            state.walked = vec![0; cpus.len()];
            state.rested = vec![0; cpus.len()];
        }
        let mut threads = Threads {
            shared,
            touched: Arc::new(cpus.iter().map(|_| Touched::default()).collect()),
            threads: Vec::new(),
            since: None,
        };
        for (index, &cpu) in cpus.iter().enumerate() {
            let member = Member {
                index,
                count: cpus.len() as u64,
                shared: Arc::clone(&threads.shared),
                touched: Arc::clone(&threads.touched),
            };
            let thread = Builder::new()
                .name(format!("polluter {index}"))
                .spawn(move || member.run(cpu, bytes))
                .map_err(MeasureError::Thread)?;
            threads.threads.push(thread);
        }
        let all = threads
            .shared
            .until(|state| state.ready.iter().all(Option::is_some));
        if !all {
            return Err(MeasureError::Polluter);
        }
        let ready = std::mem::take(&mut threads.shared.state().ready);
        ready.into_iter().flatten().collect::<Result<(), _>>()?;
        Ok(threads)
    }

    pub(super) fn count(&self) -> usize {
        self.threads.len()
    }

    /// Sets all to work; returns when each has walked its lines once.
    pub(super) fn work(&mut self, load: Load) -> Result<(), MeasureError> {
        self.rest();
        let order = self.shared.tell(|state| state.load = Some(load));
        if !self
            .shared
            .until(|state| state.walked.iter().all(|walked| *walked == order))
        {
            self.rest();
            return Err(MeasureError::Polluter);
        }
        self.since = Some((Instant::now(), self.lines()));
        Ok(())
    }

    /// Ends all work; returns when every thread rests, or has not come to it in ten seconds.
    pub(super) fn rest(&mut self) -> Pollution {
        let lines = self.lines();
        let order = self.shared.tell(|state| state.load = None);
        self.shared
            .until(|state| state.rested.iter().all(|rested| *rested == order));
        match self.since.take() {
            None => Pollution::default(),
            Some((began, before)) => Pollution {
                touched: Bytes(lines.wrapping_sub(before).saturating_mul(LINE.0)),
                time: began.elapsed(),
            },
        }
    }

    fn lines(&self) -> u64 {
        let counts = self
            .touched
            .iter()
            .map(|touched| touched.0.load(Ordering::Relaxed));
        counts.fold(0, u64::wrapping_add)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.tell(|state| {
            state.load = None;
            state.ends = true;
        });
        for thread in self.threads.drain(..) {
            // One that panicked has nothing more to do here.
            let _ = thread.join();
        }
    }
}

/// One of the threads.
struct Member {
    index: usize,
    count: u64,
    shared: Arc<Shared>,
    touched: Arc<Vec<Touched>>,
}

impl Member {
    fn run(self, cpu: CpuId, bytes: Bytes) {
        // Pinned first: memory then comes from the CPU's own node.
        let prepared = affinity::pin(cpu)
            .map_err(MeasureError::from)
            .and_then(|pinned| Ok((pinned, Lines::new(Bytes(self.part(bytes) * LINE.0))?)));
        let (told, prepared) = match prepared {
            Ok(prepared) => (Ok(()), Some(prepared)),
            Err(error) => (Err(error), None),
        };
        if let Some(place) = self.shared.state().ready.get_mut(self.index) {
            *place = Some(told);
        }
        self.shared.changed.notify_all();
        let Some((_pinned, block)) = prepared else {
            return;
        };
        let mut done = 0;
        while let Some((order, load)) = self.next(done) {
            done = order;
            if let Some(load) = load {
                self.walk(&block, order, load);
            }
        }
    }

    /// A thread's lines of a footprint: the first ones have one more where it does not divide.
    fn part(&self, bytes: Bytes) -> u64 {
        let lines = bytes.0 / LINE.0;
        let more = u64::from((self.index as u64) < lines % self.count);
        (lines / self.count + more).max(1)
    }

    /// Sleeps until there is another order than `done`; `None` at the end.
    fn next(&self, done: u64) -> Option<(u64, Option<Load>)> {
        let mut state = self.shared.state();
        loop {
            if state.ends {
                return None;
            }
            if state.order != done {
                break;
            }
            state = self
                .shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let (order, load) = (state.order, state.load);
        if load.is_none() {
            state.rested[self.index] = order;
            drop(state);
            self.shared.changed.notify_all();
        }
        Some((order, load))
    }

    fn walk(&self, block: &Lines, order: u64, load: Load) {
        let lines = self.part(load.footprint);
        let mut cycle = Order::of(lines);
        let mut streaming = 0;
        let mut left_of_round = Some(lines);
        while self.shared.order.load(Ordering::Acquire) == order {
            // The first round is not slowed down: it is over sooner, and nothing is timed beside it.
            let slowed = load.intensity < 1.0 && left_of_round.is_none();
            let began = slowed.then(Instant::now);
            match load.walk {
                Walk::Cyclic => touch(block, || cycle.next()),
                Walk::Streaming => touch(block, || {
                    let line = streaming;
                    streaming = if streaming + 1 == lines { 0 } else { streaming + 1 };
                    line
                }),
            }
            self.touched[self.index]
                .0
                .fetch_add(CHUNK as u64, Ordering::Relaxed);
            if let Some(left) = left_of_round {
                left_of_round = left.checked_sub(CHUNK as u64).filter(|left| *left > 0);
                if left_of_round.is_none() {
                    self.shared.state().walked[self.index] = order;
                    self.shared.changed.notify_all();
                }
            }
            if let Some(began) = began {
                let pause = began.elapsed().mul_f64(1.0 / load.intensity - 1.0);
                self.pause(pause, order);
            }
        }
    }

    /// Waits without touching memory, and no longer than the order stands. Sleeping would take far longer than most pauses.
    fn pause(&self, time: Duration, order: u64) {
        let began = Instant::now();
        while began.elapsed() < time && self.shared.order.load(Ordering::Acquire) == order {
            spin_loop();
        }
    }
}

/// Loads a word of each of the next few lines; none waits for another.
#[inline]
fn touch(block: &Lines, mut next: impl FnMut() -> u64) {
    let words = block.words();
    let mut sum = 0u64;
    for _ in 0..CHUNK {
        sum = sum.wrapping_add(words[next() as usize * WORDS_PER_LINE]);
    }
    black_box(sum);
}
