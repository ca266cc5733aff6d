//! Where a query of the queue runs: its server process on the core the scheduler gave it, and in the class of its locality, where the
//! cache is partitioned; its parallel workers follow ([`super::follow`]). All of it is a hint: a process that cannot be moved runs where
//! it is.
//!
//! ```text
//!  Ticket on a server ─► place: core, class ─► the query ─► its ticket ends, however it comes about ─► unplace: home core, default class
//! ```
//!
//! Only a process that the kernel says is the backend behind the connection is ever moved. One whose connection is closed is not moved
//! back: it ends, and takes its class with it. What cannot be moved back at once is tried again with each tick.

use corun_model::cache::locality::Locality;
use corun_model::cache::partition::Class;
use corun_net::process::{self, SystemProcesses};
use corun_net::reactor::Reactor;
use corun_resctrl::ResctrlError;
use corun_resctrl::partition::{PartitionError, Partitioner};

use super::HeavyQueue;
use super::follow::Placed;
use crate::core::event_loop::EventLoop;

/// The class of the cache for a query.
fn class(locality: Locality) -> Class {
    match locality {
        Locality::Weak => Class::Weak,
        Locality::Strong | Locality::Moderate => Class::Default,
    }
}

/// What became of a process that was to be put into a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assigned {
    /// It is there.
    There,
    /// It stays where it was.
    Stays,
    /// There are no classes any more.
    NoClasses,
}

impl HeavyQueue {
    /// Puts a process into a class of the cache. Why it stays where it is is said once for each reason.
    pub(super) fn assign(&self, partitioner: &dyn Partitioner, pid: u32, class: Class) -> Assigned {
        let Err(error) = partitioner.assign_process(pid, class) else {
            return Assigned::There;
        };
        let first = match &error {
            // Somebody looks at the groups just now.
            PartitionError::Resctrl(ResctrlError::Locked { .. }) => false,
            PartitionError::Resctrl(reason) => self.refused.lock().insert(std::mem::discriminant(reason)),
            PartitionError::NoStreaming { .. } => false,
        };
        let reason = match error.detail() {
            Some(detail) => format!("{error}: {detail}"),
            None => error.to_string(),
        };
        if first {
            let hint = error.hint().unwrap_or_default();
            tracing::warn!(
                pid,
                hint,
                "a server process stays in its class of the last-level cache: {reason}. Queries run all the same; \
                 weak queries no longer keep out of the others' part of the cache"
            );
        } else {
            tracing::debug!(pid, "a server process stays in its class of the cache: {reason}");
        }
        match error {
            PartitionError::Resctrl(
                ResctrlError::NotApplied { .. }
                | ResctrlError::NotMounted { .. }
                | ResctrlError::Unavailable { .. },
            ) => Assigned::NoClasses,
            _ => Assigned::Stays,
        }
    }
}

impl<R: Reactor> EventLoop<R> {
    /// A server is about to run a query of the queue.
    pub(super) fn place(&mut self, index: usize) {
        let server = self.servers.get(index);
        let ticket = server.and_then(|server| server.stages.ticket.as_ref());
        let started = ticket.and_then(|ticket| Some((ticket.id(), ticket.start()?)));
        let Some((id, start)) = started else {
            return;
        };
        let mut placed = Placed::default();
        if let Some(&cpu) = start.cpus.first()
            && self.bind_for_now(index, cpu)
        {
            placed.cpu = Some(cpu);
        }
        placed.class = self.classify(index, class(start.locality));
        let heavy_queue = &self.shared.heavy_queue;
        let parallel = heavy_queue.cpus_of_workers(id).is_some();
        let bound = self.bound(index).filter(|_| parallel);
        let backend = bound.map(|bound| bound.backend());
        heavy_queue.follow.began(&self.shared, id, placed, backend);
    }

    /// It has run it.
    pub(in crate::core) fn unplace(&mut self, index: usize) {
        self.bind_home(index);
        self.unclassify(index);
    }

    /// Processes that could not be moved back are tried again.
    pub(super) fn unplace_again(&mut self) {
        let weak: Vec<usize> = self
            .servers
            .iter()
            .filter(|(_, server)| server.stages.ticket.is_none())
            .filter(|(_, server)| matches!(&server.process.bound, Some(bound) if bound.class.is_some()))
            .map(|(index, _)| index)
            .collect();
        for index in weak {
            self.unclassify(index);
        }
    }

    fn unclassify(&mut self, index: usize) {
        if self.bound(index).is_some_and(|bound| bound.class.is_some()) {
            self.classify(index, Class::Default);
        }
    }

    /// Puts the process of a server into a class; returns the class it is in now, if it was put into one.
    fn classify(&mut self, index: usize, class: Class) -> Option<Class> {
        let heavy_queue = &self.shared.heavy_queue;
        let partitioner = heavy_queue.partitioner()?;
        // Only a process that is certainly the backend.
        let bound = self.servers.get_mut(index)?.process.bound.as_mut()?;
        if !process::is_still(&SystemProcesses, bound.backend()) {
            bound.class = None;
            return None;
        }
        match heavy_queue.assign(&*partitioner, bound.pid(), class) {
            Assigned::There => {
                bound.class = Some(class).filter(|class| *class != Class::Default);
                return Some(class);
            }
            // The kernel has given it back to the root group.
            Assigned::NoClasses => bound.class = None,
            Assigned::Stays => {}
        }
        bound.class
    }
}
