//! A bounded fan-out for the workload generators: numbered jobs, a fixed number of threads, results in job order.
//!
//! Jobs are taken from one shared counter, so a slow job delays only its own thread; results are put back into job
//! order, so the outcome never depends on the number of threads. Not a general task pool: queries run on the
//! engine's own runtime.

use std::sync::atomic::{AtomicUsize, Ordering};

use corun_model::progress::Progress;

/// Runs `job(0..jobs)` on at most `threads` threads and returns the results in job order; `progress` hears of the
/// work as `what`, one step a job.
///
/// # Panics
/// Passes on the panic of a job.
pub fn run_jobs<T: Send>(
    what: &str,
    jobs: usize,
    threads: usize,
    progress: &dyn Progress,
    job: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let workers = threads.clamp(1, jobs.max(1));
    let next = AtomicUsize::new(0);
    progress.begin(what, jobs as u64);
    let work = || {
        let mut results = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= jobs {
                return results;
            }
            results.push((number, job(number)));
            progress.advance(1);
        }
    };
    let mut numbered: Vec<(usize, T)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(results) => all.extend(results),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    progress.end();
    numbered.sort_unstable_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, result)| result).collect()
}

/// The items `0..items` cut into `parts` contiguous ranges whose lengths differ by at most one; range number `part`.
pub fn share(items: usize, parts: usize, part: usize) -> std::ops::Range<usize> {
    debug_assert!(part < parts);
    let cut = |index: usize| (items as u128 * index as u128 / parts as u128) as usize;
    cut(part)..cut(part + 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use corun_model::progress::Silent;

    #[derive(Default)]
    struct Steps(Mutex<Vec<String>>);

    impl Progress for Steps {
        fn begin(&self, what: &str, total: u64) {
            self.0.lock().unwrap().push(format!("{what} {total}"));
        }
        fn advance(&self, steps: u64) {
            self.0.lock().unwrap().push(format!("+{steps}"));
        }
        fn note(&self, _text: &str) {}
        fn end(&self) {
            self.0.lock().unwrap().push("end".to_owned());
        }
    }

    #[test]
    fn results_come_in_job_order_for_any_number_of_threads() {
        let expected: Vec<usize> = (0..100).map(|n| n * n).collect();
        for threads in [0, 1, 2, 7, 200] {
            assert_eq!(run_jobs("jobs", 100, threads, &Silent, |n| n * n), expected);
        }
        assert!(run_jobs("jobs", 0, 4, &Silent, |n| n).is_empty());
    }

    #[test]
    fn progress_hears_of_every_job() {
        let steps = Steps::default();
        run_jobs("squares", 3, 2, &steps, |n| n * n);
        assert_eq!(*steps.0.lock().unwrap(), ["squares 3", "+1", "+1", "+1", "end"]);
    }

    #[test]
    fn shares_cover_every_item_once() {
        for (items, parts) in [(0, 3), (2, 7), (8, 7), (100, 1), (101, 10)] {
            let mut next = 0;
            for part in 0..parts {
                let range = share(items, parts, part);
                assert_eq!(range.start, next);
                assert!(range.len() <= items / parts + 1);
                next = range.end;
            }
            assert_eq!(next, items);
        }
    }
}
