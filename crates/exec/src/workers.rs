//! [`Workers`]: who runs the parallel parts of a build.
//!
//! `exec` starts no threads on its own: a host that has a pool hands it in; [`Serial`] and [`ScopedThreads`] are for
//! tests, examples and hosts without one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A way to run numbered tasks, possibly on several threads.
pub trait Workers: Sync {
    /// How many tasks can make progress at once, at least 1.
    fn threads(&self) -> usize;

    /// Runs `task(0)` to `task(tasks - 1)`, each exactly once, in any order and on any thread, and returns when all
    /// have ended. Their writes are visible to the caller then.
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));
}

/// Everything on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Workers for Serial {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }
}

/// This many threads, started anew for each call and joined before it returns. The caller's thread is one of them.
#[derive(Clone, Copy, Debug)]
pub struct ScopedThreads(pub usize);

impl Workers for ScopedThreads {
    fn threads(&self) -> usize {
        self.0.max(1)
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                // Only hands out numbers; the join at the end of the scope orders the tasks' writes.
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= tasks {
                    return;
                }
                task(number);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads().min(tasks) {
                scope.spawn(work);
            }
            work();
        });
    }
}

/// Runs `task` for each number and returns the answers in order.
pub(crate) fn collect<R: Send + Sync>(
    workers: &dyn Workers,
    tasks: usize,
    task: impl Fn(usize) -> R + Sync,
) -> Vec<R> {
    let answers: Vec<OnceLock<R>> = (0..tasks).map(|_| OnceLock::new()).collect();
    workers.run(tasks, &|number| {
        let first = answers[number].set(task(number)).is_ok();
        assert!(first, "a task was run twice");
    });
    answers
        .into_iter()
        .map(|answer| answer.into_inner().expect("every task was run"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_runs_once_and_answers_keep_their_order() {
        let kinds: [&dyn Workers; 4] = [&Serial, &ScopedThreads(0), &ScopedThreads(3), &ScopedThreads(9)];
        for workers in kinds {
            for tasks in [0, 1, 2, 7, 100] {
                let expected: Vec<usize> = (0..tasks).map(|number| number * number).collect();
                assert_eq!(collect(workers, tasks, |number| number * number), expected);
            }
        }
    }
}
