//! Starting threads on given CPUs at one moment.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use corun_model::units::CpuId;

use super::error::MeasureError;
use crate::affinity;

/// Runs `work` once on each CPU, each in its own pinned thread, after all have finished `prepare`.
///
/// The threads leave the gate together, so that `work` overlaps from its first moment. If any thread cannot be started
/// or placed, nobody works.
pub(super) fn run_pinned<T: Send>(
    cpus: &[CpuId],
    prepare: &(dyn Fn(usize) + Sync),
    work: &(dyn Fn(usize) -> T + Sync),
) -> Result<Vec<T>, MeasureError> {
    let ready = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let fail = |error: MeasureError| {
        failure
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get_or_insert(error);
        failed.store(true, SeqCst);
    };
    let one = |index: usize, cpu: CpuId| -> Option<T> {
        let _pinned = affinity::pin(cpu).map_err(|error| fail(error.into())).ok()?;
        prepare(index);
        ready.fetch_add(1, SeqCst);
        while ready.load(SeqCst) < cpus.len() {
            if failed.load(SeqCst) {
                return None;
            }
            // Not a bare spin: several threads may have been given one CPU.
            thread::yield_now();
        }
        Some(work(index))
    };
    let results: Vec<T> = thread::scope(|scope| {
        let one = &one;
        let mut threads = Vec::with_capacity(cpus.len());
        for (index, &cpu) in cpus.iter().enumerate() {
            match thread::Builder::new().spawn_scoped(scope, move || one(index, cpu)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    fail(MeasureError::Thread(error));
                    break;
                }
            }
        }
        threads
            .into_iter()
            .filter_map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    match failure
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
    {
        Some(error) => Err(error),
        None => Ok(results),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_works_after_everybody_prepared() {
        let cpu = affinity::allowed_cpus().unwrap()[0];
        let prepared = AtomicUsize::new(0);
        let seen = run_pinned(
            &[cpu; 4],
            &|_| {
                prepared.fetch_add(1, SeqCst);
            },
            &|index| (index, prepared.load(SeqCst)),
        );
        assert_eq!(seen.unwrap(), [(0, 4), (1, 4), (2, 4), (3, 4)]);
    }

    #[test]
    fn one_bad_cpu_stops_all_and_is_named() {
        let cpu = affinity::allowed_cpus().unwrap()[0];
        let worked = AtomicUsize::new(0);
        let result = run_pinned(&[cpu, CpuId(65_535)], &|_| {}, &|_| worked.fetch_add(1, SeqCst));
        assert!(result.unwrap_err().to_string().contains("65535"));
        assert_eq!(worked.load(SeqCst), 0);
    }
}
