//! Where a query of the queue runs: its server process on the core the scheduler gave it, and in the class of its locality, where the
//! cache is partitioned. All of it is a hint: a process that cannot be moved runs where it is.

use machine::process::SystemProcesses;
use machine::reactor::Reactor;
use model::locality::Locality;
use model::partition::Class;

use crate::core::event_loop::EventLoop;

/// The class of the cache for a query.
fn class(locality: Locality) -> Class {
    match locality {
        Locality::Weak => Class::Weak,
        Locality::Strong | Locality::Moderate => Class::Default,
    }
}

impl<R: Reactor> EventLoop<R> {
    /// A server is about to run a query of the queue.
    pub(super) fn place(&mut self, index: usize) {
        let Some(server) = self.servers.get(index) else {
            return;
        };
        let Some(start) = server.seat.as_ref().and_then(super::Seat::start) else {
            return;
        };
        if let Some(&cpu) = start.cpus.first() {
            self.bind_for_now(index, cpu);
        }
        self.classify(index, class(start.locality));
    }

    /// It has run it.
    pub(super) fn unplace(&mut self, index: usize) {
        self.bind_home(index);
        self.classify(index, Class::Default);
    }

    fn classify(&mut self, index: usize, class: Class) {
        let Some(partitioner) = self.shared.lane.partitioner() else {
            return;
        };
        // Only a process that is certainly the backend.
        let Some(bound) = self.servers.get(index).and_then(|server| server.bound.as_ref()) else {
            return;
        };
        let pid = bound.pid();
        if let Err(error) = partitioner.assign_process(pid, class) {
            tracing::debug!(pid, %error, "a server process stays in its class of the cache");
        }
    }

    /// Parallel workers of queries that run go where their leaders are.
    pub(super) fn place_workers(&mut self) {
        let Some(partitioner) = self.shared.lane.partitioner() else {
            return;
        };
        for (_, server) in &self.servers {
            let start = server.seat.as_ref().and_then(super::Seat::start);
            let (Some(start), Some(bound)) = (start, server.bound.as_ref()) else {
                continue;
            };
            // Strong and moderate ones are where workers begin.
            if class(start.locality) == Class::Default {
                continue;
            }
            for worker in machine::process::workers_of(&SystemProcesses, bound.pid()) {
                let _ = partitioner.assign_process(worker, Class::Weak);
            }
        }
    }
}
