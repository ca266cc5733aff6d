//! Partitioning by ways of the cache: threads move between the groups that were applied.

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use corun_model::cache::partition::Class;

use super::{Kind, PartitionError, Partitioner};
use crate::{Client, Files, ResctrlError, Who};

/// How long a thread is believed to be where it was put. Somebody may clear the partition, which moves it to the root
/// group, and apply another; then it is put back after this time. Unmeasured: any time much longer than a query's start
/// and much shorter than an operator's patience will do.
const BELIEVED: Duration = Duration::from_secs(1);

/// Tells partitioners apart in what threads remember.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Where this thread was put last. It ends with the thread, so that a thread that gets its id again starts afresh.
    static PLACE: Cell<Option<Place>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Place {
    partitioner: u64,
    class: Class,
    since: Instant,
}

/// Threads in the groups `corun-weak` and `corun-default` of a resctrl.
#[derive(Debug)]
pub struct Ways<F: Files> {
    id: u64,
    client: Client<F>,
    current_task: fn() -> u32,
    /// Whether the last thread to be put anywhere got there.
    works: AtomicBool,
}

impl<F: Files> Ways<F> {
    /// A partitioner over the groups that a client has applied. Changes nothing. `current_task` tells the id that the
    /// calling thread has in that resctrl.
    ///
    /// # Errors
    /// When the groups are not there as planned, or the calling thread could not be moved to them.
    pub fn new(client: Client<F>, current_task: fn() -> u32) -> Result<Self, ResctrlError> {
        for class in Class::ALL {
            client.check_assign(class, current_task())?;
        }
        Ok(Self {
            id: NEXT_ID.fetch_add(1, Relaxed),
            // Queries must not wait for a tool that holds the lock: a thread in the wrong class is only slow.
            client: client.without_waiting(),
            current_task,
            works: AtomicBool::new(true),
        })
    }

    fn assign(&self, class: Class) -> Result<(), ResctrlError> {
        let task = (self.current_task)();
        match self.client.assign(class, Who::Thread(task)) {
            Ok(assigned) => match assigned.foreign.into_iter().next() {
                Some((task, group)) => Err(ResctrlError::ForeignTask { task, group }),
                None => Ok(()),
            },
            // Only a simulated thread can be gone while it calls; there is nothing left to move.
            Err(ResctrlError::NoSuchTask { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl<F: Files + Send + Sync + Debug> Partitioner for Ways<F> {
    fn kind(&self) -> Kind {
        Kind::Ways
    }

    fn protects(&self) -> bool {
        self.works.load(Relaxed)
    }

    fn assign_current_thread(&self, class: Class) -> Result<(), PartitionError> {
        let there = |place: Place| {
            place.partitioner == self.id && place.class == class && place.since.elapsed() < BELIEVED
        };
        if PLACE.get().is_some_and(there) {
            return Ok(());
        }
        let assigned = self.assign(class);
        PLACE.set(assigned.is_ok().then(|| Place {
            partitioner: self.id,
            class,
            since: Instant::now(),
        }));
        match &assigned {
            Ok(()) => self.works.store(true, Relaxed),
            // The groups are as they were, somebody is only looking at them.
            Err(ResctrlError::Locked { .. }) => {}
            Err(_) => self.works.store(false, Relaxed),
        }
        Ok(assigned?)
    }

    fn assign_process(&self, pid: u32, class: Class) -> Result<(), PartitionError> {
        match self.client.assign(class, Who::Process(pid)) {
            Ok(assigned) => match assigned.foreign.into_iter().next() {
                Some((task, group)) => Err(ResctrlError::ForeignTask { task, group }.into()),
                None => Ok(()),
            },
            // It has ended: there is nothing left to move.
            Err(ResctrlError::NoSuchTask { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn describe(&self) -> String {
        let weak = self.client.planned(Class::Weak);
        let masks = weak.unwrap_or_default().to_string();
        let masks = masks.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.protects() {
            format!("ways of the cache (resctrl is partitioned; weak queries fill {masks})")
        } else {
            "ways of the cache (but threads cannot be moved any more; `corun partition status` says why)"
                .to_owned()
        }
    }
}

/// The kernel's id of the calling thread.
pub(super) fn current_task() -> u32 {
    // SAFETY: the call reads a number the kernel keeps of this thread and has no other effect.
    let id = unsafe { libc::gettid() };
    id.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_task_is_a_thread_of_this_process() {
        fn is_ours(task: u32) -> bool {
            std::path::PathBuf::from(format!("/proc/self/task/{task}")).is_dir()
        }
        let other = std::thread::spawn(|| (current_task(), is_ours(current_task())));
        let (other, there) = other.join().expect("no panic");
        assert!(there && is_ours(current_task()) && other != current_task());
    }
}
