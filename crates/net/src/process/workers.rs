//! Parallel workers of a PostgreSQL backend: found among the processes of its server, and given CPUs.
//!
//! Order of calls: [`Search::new`] for a verified backend, [`Search::look`] as often as new workers may have come, [`Search::bind`] for
//! each of them. A worker is a process of its own that the server starts for one gathering of rows and that ends with it: it serves no
//! other query, so there is nothing to undo.

use std::collections::BTreeSet;

use corun_model::units::CpuId;

use super::{Backend, Processes, Refusal, Status, set_cpus, status};

/// Processes of the server that are remembered to be no workers. A server with more is looked through anew each time.
const OTHERS_MAX: usize = 65_536;

/// A parallel worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its number.
    pub pid: u32,
    started: u64,
}

/// Looks for the workers of one backend.
#[derive(Clone, Debug)]
pub struct Search {
    backend: Backend,
    workers: Vec<Worker>,
    /// Processes of the server that are something else, and say so.
    others: BTreeSet<u32>,
}

impl Search {
    /// Nothing was looked at yet.
    pub fn new(backend: &Backend) -> Self {
        Self {
            backend: backend.clone(),
            workers: Vec::new(),
            others: BTreeSet::new(),
        }
    }

    /// Those known, as of the last look.
    pub fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// Looks once more; answers the workers that are new. They are started by the server, not by the backend, and say in their titles
    /// whom they work for. Nobody is found where that cannot be seen.
    pub fn look(&mut self, processes: &dyn Processes) -> Vec<Worker> {
        let backend = status(processes, self.backend.pid);
        let Some(backend) = backend.ok().filter(|now| now.started == self.backend.started) else {
            self.workers.clear();
            return Vec::new();
        };
        let server = backend.parent;
        let children: BTreeSet<u32> = processes
            .children(server)
            .unwrap_or_default()
            .into_iter()
            .collect();
        self.workers.retain(|worker| children.contains(&worker.pid));
        self.others.retain(|other| children.contains(other));
        let mut new = Vec::new();
        for pid in children {
            if self.others.contains(&pid) || self.workers.iter().any(|worker| worker.pid == pid) {
                continue;
            }
            let Ok(found) = processes.status(pid) else {
                continue;
            };
            if is_worker(&found, server, self.backend.pid) {
                new.push(Worker {
                    pid,
                    started: found.started,
                });
            } else if is_another(&found.title, self.backend.pid) && self.others.len() < OTHERS_MAX {
                self.others.insert(pid);
            }
        }
        self.workers.extend(&new);
        new
    }

    /// Whether a process is still the worker that was found.
    pub fn is_still(&self, processes: &dyn Processes, worker: Worker) -> bool {
        let status = processes.status(worker.pid);
        status.is_ok_and(|status| {
            status.started == worker.started && names_leader(&status.title, self.backend.pid)
        })
    }

    /// Lets a worker run on these CPUs only, as far as its server may.
    ///
    /// # Errors
    /// When it has ended, the server may run on none of them, or the kernel refuses.
    pub fn bind(&self, processes: &dyn Processes, worker: Worker, cpus: &[CpuId]) -> Result<(), Refusal> {
        if !self.is_still(processes, worker) {
            return Err(Refusal::NoSuchProcess { pid: worker.pid });
        }
        let mut cpus = cpus.to_vec();
        cpus.retain(|cpu| self.backend.cpus.contains(cpu));
        let cpu = cpus.first().copied().unwrap_or(CpuId(0));
        set_cpus(processes, &self.backend, worker.pid, &cpus, cpu)
    }
}

fn is_worker(status: &Status, server: u32, backend: u32) -> bool {
    status.parent == server && !status.nested && names_leader(&status.title, backend)
}

/// Whether a process of the server has said what it is.
fn has_title(title: &str) -> bool {
    let mut words = title.split_ascii_whitespace();
    words.next().is_some_and(|first| first.ends_with("postgres:"))
}

/// Whether a title can no longer become that of a worker. A process that was just started still bears the title of its server, and
/// writes its own one letter by letter: what stands there may be a beginning, of the name of the cluster too.
fn is_another(title: &str, backend: u32) -> bool {
    let title = title.trim_end();
    let whole = format!("parallel worker for PID {backend}");
    has_title(title)
        && title.split_ascii_whitespace().count() > 3
        && !title
            .match_indices(' ')
            .any(|(at, _)| whole.starts_with(&title[at + 1..]))
}

/// Whether a title is one such as `postgres: parallel worker for PID 4711`. Nothing comes behind the number: behind a user or a
/// database of such a name the title of a backend goes on.
fn names_leader(title: &str, backend: u32) -> bool {
    let number = title.rsplit_once("parallel worker for PID ");
    has_title(title) && number.is_some_and(|(_, rest)| rest.trim_end() == backend.to_string())
}

#[cfg(test)]
mod tests {
    use super::{is_another, names_leader};

    #[test]
    fn a_title_that_is_being_written_may_become_that_of_a_worker() {
        for title in [
            "postgres: parallel worker for PID 4711",
            "postgres: my db: parallel worker for PID 4711",
        ] {
            for end in 0..=title.len() {
                assert!(!is_another(&title[..end], 4711), "{}", &title[..end]);
            }
        }
        for title in [
            "postgres: bench shop [local] idle",
            "postgres: 15/main: bench shop 127.0.0.1(5) SELECT",
            "postgres: parallel worker for PID 4712",
        ] {
            assert!(is_another(title, 4711), "{title}");
        }
    }

    #[test]
    fn titles_of_workers() {
        assert!(names_leader("postgres: parallel worker for PID 4711 ", 4711));
        assert!(names_leader(
            "postgres: 15/main: parallel worker for PID 4711",
            4711
        ));
        for title in [
            "postgres: parallel worker for PID 47112",
            "postgres: parallel worker for PID 14711",
            "postgres: parallel worker for PID 4711 shop [local] SELECT",
            "postgres: app parallel worker for PID 4711 127.0.0.1(5) idle",
            "postgres: bench shop [local] SELECT",
            "vi parallel worker for PID 4711",
            "",
        ] {
            assert!(!names_leader(title, 4711), "{title}");
        }
    }
}
