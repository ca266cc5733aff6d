//! [`Background`]: threads of checkpoints and backups, which clients need not wait for.

use corun_exec::workers::{ScopedThreads, Workers};

/// Added to the threads' nice value: a client that wakes up runs at once, and beside clients that never wait, a thread still gets a quarter
/// of a CPU.
#[cfg(target_os = "linux")]
const NICE: libc::c_int = 5;

/// Threads started anew for each call and joined before it returns; the caller's thread only waits.
pub(crate) struct Background {
    pub(crate) threads: usize,
    /// Whether they let clients run first.
    pub(crate) gives_way: bool,
}

impl Workers for Background {
    fn threads(&self) -> usize {
        self.threads.max(1)
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let work = || {
            if self.gives_way {
                give_way();
            }
            ScopedThreads(self.threads).run(tasks, task);
        };
        // A thread of its own: without privileges a nice value can only grow, and those that it starts inherit it.
        std::thread::scope(|scope| {
            scope.spawn(work);
        });
    }
}

/// Lets other threads run before this one, and before those that it starts. Where the system refuses, nothing changes.
#[cfg(target_os = "linux")]
fn give_way() {
    // SAFETY: no memory is handed over. On Linux the nice value is the calling thread's alone.
    let _ = unsafe { libc::nice(NICE) };
}

#[cfg(not(target_os = "linux"))]
fn give_way() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[test]
    fn every_task_is_run_once_and_the_caller_stays_as_it_was() {
        for (threads, gives_way) in [(0, true), (1, false), (3, true)] {
            let background = Background { threads, gives_way };
            let ran = Mutex::new(Vec::new());
            background.run(20, &|number| ran.lock().push((number, nice())));
            let mut ran = ran.into_inner();
            ran.sort_unstable();
            assert_eq!(
                ran.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
                (0..20).collect::<Vec<_>>()
            );
            // 19 is the most there is.
            let nicer = |(_, of_task): &(usize, i32)| *of_task > nice() || nice() == 19;
            assert_eq!(ran.iter().all(nicer), gives_way || nice() == 19);
        }
    }

    /// The calling thread's nice value, of `/proc`.
    fn nice() -> i32 {
        let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let behind_name = text.rsplit_once(')').unwrap().1;
        behind_name.split_whitespace().nth(16).unwrap().parse().unwrap()
    }
}
