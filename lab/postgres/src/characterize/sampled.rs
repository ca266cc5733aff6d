//! The functions a server spends its time in while something runs (Figs. 7b and 17): rows from [`corun_machine::sampling`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corun_machine::counters::monitor::{MonitorError, Scope, Target};
use corun_machine::sampling::{Every, FunctionSamples, Profile, Sampler};

use super::SUITE;
use super::rows::{FUNCTIONS, missing};
use crate::fixture::joined;
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::stats::Spread;

/// Samples a second of running: no divisor of any scheduler's tick.
const PER_S: u32 = 997;
/// How often buffers are emptied.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// Functions that get a row: those of the figures, and as many again.
const FUNCTIONS_MAX: usize = 18;

/// That samples can be taken here.
///
/// # Errors
/// Why not.
pub fn possible() -> Result<(), String> {
    let opened = Sampler::open(Target::Thread, &Every::cycles_or_time(PER_S), scope());
    opened.map(drop).map_err(|error| match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    })
}

/// With the kernel where that is permitted.
fn scope() -> Scope {
    match Sampler::open(Target::Thread, &Every::cycles_or_time(PER_S), Scope::All) {
        Ok(_) => Scope::All,
        Err(_) => Scope::User,
    }
}

/// Runs something and samples a process and all below it meanwhile.
///
/// # Errors
/// What it fails with, or when no samples can be taken.
pub fn during<T>(
    postmaster: u32,
    work: impl FnOnce() -> Result<T, BenchError>,
) -> Result<Vec<Row>, BenchError> {
    let failed = |error: MonitorError| BenchError::Machine(error.to_string());
    let every = Every::cycles_or_time(PER_S);
    let mut sampler = Sampler::open(Target::Process(postmaster), &every, scope()).map_err(failed)?;
    sampler.start().map_err(failed)?;
    let over = AtomicBool::new(false);
    let (sampler, done) = std::thread::scope(|scope| {
        let polls = scope.spawn(|| {
            // Relaxed: the flag says all there is to say.
            while !over.load(Ordering::Relaxed) {
                sampler.poll();
                std::thread::sleep(POLL_EVERY);
            }
            sampler
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        (joined(polls), done)
    });
    let profile = sampler.stop().map_err(failed)?;
    done?;
    Ok(rows(&profile))
}

fn rows(profile: &Profile) -> Vec<Row> {
    let all = profile.samples.max(1) as f64;
    let of_function = |(place, function): (usize, &FunctionSamples)| {
        let percent = Spread::one(100.0 * function.samples as f64 / all);
        Row::measured(SUITE, FUNCTIONS, "time_percent", "percent", percent, true)
            .with("how", "sampling")
            .with("function", function.function.as_str())
            .with("rank", place + 1)
            .with("module", function.origin.name())
            .with("file", function.file.as_str())
            .with("samples", profile.samples)
            .with("lost_samples", profile.lost)
    };
    let functions = profile.functions.iter().take(FUNCTIONS_MAX).enumerate();
    let notes = profile.notes.iter().map(|note| missing("symbols", note));
    functions.map(of_function).chain(notes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_sampled_or_it_is_said_why_not() {
        if let Err(reason) = possible() {
            assert!(!reason.is_empty());
            return;
        }
        // So long that the process gets 0.3 s of CPU time, however busy the machine is.
        let ticks = || lab_core::cpu_time::ticks(std::process::id()).expect("Linux");
        let (before, deadline) = (ticks(), std::time::Instant::now() + Duration::from_secs(60));
        let spin = || {
            let mut sum = 0_u64;
            while ticks() < before + 30 && std::time::Instant::now() < deadline {
                for _ in 0..1_000_000 {
                    sum = std::hint::black_box(sum.wrapping_mul(3).wrapping_add(1));
                }
            }
            Ok(sum)
        };
        let rows = during(std::process::id(), spin).expect("sampled");
        let sampled: Vec<&Row> = rows.iter().filter(|row| row.case == FUNCTIONS).collect();
        assert!(!sampled.is_empty());
        let sum: f64 = sampled.iter().filter_map(|row| row.median()).sum();
        assert!(sum > 0.0 && sum < 100.1, "{sum}");
    }
}
