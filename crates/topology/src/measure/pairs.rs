//! Two CPUs at once: how long a cache line takes between them, and whether they share a core's arithmetic units.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use corun_model::units::CpuId;

use super::error::MeasureError;
use super::pinned::run_pinned;
use crate::clock::thread_cpu_time;

/// Hand-overs there and back in one repetition.
const ROUNDS: u64 = 10_000;
/// A partner that says nothing for so long is not running.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long one arithmetic trial runs: many scheduler ticks' worth of work, little of the budget.
const TRIAL: Duration = Duration::from_millis(8);

/// A counter alone on its cache lines.
#[repr(align(128))]
struct Baton(AtomicU64);

/// Nanoseconds a line takes from one CPU to the other: half of there and back, averaged over many rounds.
pub(super) fn hand_over_ns(a: CpuId, b: CpuId, repetitions: usize) -> Result<Vec<f64>, MeasureError> {
    if a == b {
        return Err(MeasureError::Request("a CPU against itself"));
    }
    let baton = Baton(AtomicU64::new(0));
    let stalled = AtomicBool::new(false);
    let last = ROUNDS * repetitions as u64;
    // CPU `me` (0 or 1) waits for its own turns: 0 for even counts, 1 for odd ones.
    let wait_for = |count: u64| -> bool {
        let mut spins = 0u32;
        let mut since = None;
        // No pause instruction: on some CPUs it takes longer than the hand-over.
        while baton.0.load(Ordering::Acquire) != count {
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(1 << 16) {
                let since = *since.get_or_insert_with(Instant::now);
                if since.elapsed() > PATIENCE {
                    stalled.store(true, Ordering::Relaxed);
                }
                if stalled.load(Ordering::Relaxed) {
                    return false;
                }
            }
        }
        true
    };
    let results = run_pinned(&[a, b], &|_| {}, &|me| {
        let mut times = Vec::with_capacity(repetitions);
        let mut began = Instant::now();
        for round in 0..last {
            if me == 0 {
                baton.0.store(2 * round + 1, Ordering::Release);
                if !wait_for(2 * round + 2) {
                    break;
                }
                if (round + 1).is_multiple_of(ROUNDS) {
                    times.push(began.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64);
                    began = Instant::now();
                }
            } else {
                if !wait_for(2 * round + 1) {
                    break;
                }
                baton.0.store(2 * round + 2, Ordering::Release);
            }
        }
        times
    })?;
    if stalled.load(Ordering::Relaxed) {
        return Err(MeasureError::Stalled(a, b));
    }
    Ok(results.into_iter().next().unwrap_or_default())
}

/// How much slower arithmetic on `a` gets while `b` does the same. The best rate alone is the reference for every
/// repetition: other load can only lower it.
pub(super) fn slowdown(a: CpuId, b: CpuId, repetitions: usize) -> Result<Vec<f64>, MeasureError> {
    if a == b {
        return Err(MeasureError::Request("a CPU against itself"));
    }
    let mut alone = 0.0f64;
    let mut beside = Vec::with_capacity(repetitions);
    for _ in 0..repetitions {
        let rates = run_pinned(&[a], &|_| {}, &|_| arithmetic_rate())?;
        alone = rates.into_iter().fold(alone, f64::max);
        // The partner outlasts the one measured, so that the whole trial has company.
        let done = AtomicBool::new(false);
        let rates = run_pinned(&[a, b], &|_| {}, &|me| {
            if me == 0 {
                let rate = arithmetic_rate();
                done.store(true, Ordering::Relaxed);
                rate
            } else {
                while !done.load(Ordering::Relaxed) {
                    black_box(arithmetic(1));
                }
                0.0
            }
        })?;
        beside.push(rates.first().copied().unwrap_or(0.0));
    }
    Ok(beside.into_iter().map(|rate| alone / rate).collect())
}

/// Calls of [`arithmetic`] a nanosecond of this thread's CPU time; time other threads had the CPU does not count.
fn arithmetic_rate() -> f64 {
    const CALLS_BETWEEN_LOOKS: u64 = 32;
    let began = thread_cpu_time();
    let mut calls = 0u64;
    loop {
        for _ in 0..CALLS_BETWEEN_LOOKS {
            black_box(arithmetic(calls));
            calls += 1;
        }
        let elapsed = thread_cpu_time() - began;
        if elapsed >= TRIAL {
            return calls as f64 / elapsed.as_nanos() as f64;
        }
    }
}

/// A few microseconds of eight independent chains of shifts and adds, enough to keep every arithmetic unit of a core
/// busy from one thread.
fn arithmetic(seed: u64) -> u64 {
    let mut chains: [u64; 8] = std::array::from_fn(|n| (seed << 4 | n as u64) + 1);
    for _ in 0..1000 {
        for chain in &mut chains {
            *chain ^= *chain << 13;
            *chain ^= *chain >> 7;
            *chain ^= *chain << 17;
        }
    }
    chains.iter().fold(0, |sum, chain| sum ^ chain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::allowed_cpus;

    #[test]
    fn two_cpus_answer_each_other_and_one_cannot() {
        let cpus = allowed_cpus().unwrap();
        if let [a, b, ..] = cpus[..] {
            let times = hand_over_ns(a, b, 3).unwrap();
            assert_eq!(times.len(), 3);
            assert!(times.iter().all(|ns| *ns > 0.0));
            let slowdowns = slowdown(a, b, 2).unwrap();
            assert_eq!(slowdowns.len(), 2);
            assert!(
                slowdowns
                    .iter()
                    .all(|slowdown| slowdown.is_finite() && *slowdown > 0.0)
            );
        }
        assert!(matches!(
            hand_over_ns(cpus[0], cpus[0], 1),
            Err(MeasureError::Request(_))
        ));
        assert!(matches!(
            slowdown(cpus[0], cpus[0], 1),
            Err(MeasureError::Request(_))
        ));
        assert!(matches!(
            hand_over_ns(cpus[0], CpuId(65_535), 1),
            Err(MeasureError::Affinity(_))
        ));
    }
}
