//! Each backend's process to a core of its queue, where server and system allow it (paper 004, section 2).
//!
//! An event loop has some of the machine's cores, all together have each once or more; a backend goes to the core of its loop that has
//! the fewest. One whose query lasts longer than [`LONG`] is let go, so that long queries spread over the machine as the system sees
//! fit, and bound again when it has ended.

use std::collections::HashMap;
use std::time::Duration;

use corun_model::cache::partition::Class;
use corun_model::units::CpuId;
use corun_net::process::{self, Backend, Refusal, Route, SystemProcesses};
use corun_net::reactor::{Address, Peer, Reactor};

use crate::config::Switch;
use crate::core::event_loop::EventLoop;

/// A query that lasts longer is not one that gains from the caches of its core. Unmeasured.
const LONG: Duration = Duration::from_millis(200);

/// A backend that may be bound.
#[derive(Debug)]
pub(in crate::core) struct Bound {
    backend: Backend,
    pub cpu: CpuId,
    /// It runs where the system puts it, for now.
    pub loose: bool,
    /// The part of the last-level cache it is kept to, other than the default.
    pub class: Option<Class>,
}

impl Bound {
    /// The process, as it was verified.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.backend.pid
    }
}

impl<R: Reactor> EventLoop<R> {
    /// Binds the process behind a connection to one of this loop's cores. Where that cannot be, it runs where the system puts it; why
    /// is said once for each reason.
    pub(in crate::core) fn bind_backend(&mut self, reactor: &R, index: usize) {
        let switch = self.files.config.corun.bind_backends;
        let bound = |cpu: CpuId| {
            let servers = self
                .servers
                .iter()
                .filter_map(|(_, server)| server.process.bound.as_ref());
            servers.filter(|bound| bound.cpu == cpu).count()
        };
        let cores = self.servers.get(index).map(|server| self.cores_for(server.pool));
        let cpu = cores
            .unwrap_or_default()
            .into_iter()
            .min_by_key(|&cpu| bound(cpu));
        let (Some(cpu), Some(server)) = (cpu, self.servers.get_mut(index)) else {
            return;
        };
        if switch == Switch::Off || server.process.pid == 0 {
            return;
        }
        let token = server.token();
        let route = match (&server.host.address, reactor.peer(token), reactor.local(token)) {
            (Some(Address::Unix(_)), Some(Peer::Unix { pid, .. }), _) => Route::Unix { listener: pid },
            (Some(Address::Tcp(_)), Some(Peer::Tcp(peer)), Some(local)) => Route::Tcp { local, peer },
            _ => return,
        };
        let backend = process::verify_backend(&SystemProcesses, server.process.pid, &route)
            .and_then(|backend| process::bind(&SystemProcesses, &backend, cpu).map(|()| backend));
        match backend {
            Ok(backend) => {
                server.process.bound = Some(Bound {
                    backend,
                    cpu,
                    loose: false,
                    class: None,
                });
            }
            Err(refusal) => self.unbound(&refusal, switch),
        }
    }

    /// Where the process of a server is bound, if it is.
    pub(in crate::core) fn bound(&self, index: usize) -> Option<&Bound> {
        self.servers.get(index)?.process.bound.as_ref()
    }

    /// Moves a backend to a core for a while, if it may be moved. Returns whether it is there: it has ended, or stays where it was, as a
    /// hint is a hint.
    pub(in crate::core) fn bind_for_now(&mut self, index: usize, cpu: CpuId) -> bool {
        let bound = self.bound(index);
        bound.is_some_and(|bound| process::bind(&SystemProcesses, &bound.backend, cpu).is_ok())
    }

    /// Moves it back.
    pub(in crate::core) fn bind_home(&mut self, index: usize) {
        if let Some(bound) = self.bound(index) {
            let _ = process::bind(&SystemProcesses, &bound.backend, bound.cpu);
        }
    }

    /// Lets backends with long queries go, binds those again whose long query has ended, and moves those whose core pool has other cores
    /// now.
    pub(in crate::core) fn bind_tick(&mut self) {
        // Only core pools have other cores than the loop's own.
        let core_pools: HashMap<usize, Vec<CpuId>> = self
            .pools
            .iter()
            .filter(|(pool, _)| !self.core_pools_beside(*pool).is_empty())
            .map(|(pool, _)| (pool, self.cores_for(pool)))
            .collect();
        let mut turn = 0;
        for (_, server) in &mut self.servers {
            if server.stages.ticket.is_some() {
                // The queue has said where it runs.
                continue;
            }
            let own = core_pools.get(&server.pool).unwrap_or(&self.place.cpus);
            let busy = server.expects.outstanding() > 0;
            let long = busy && self.now.saturating_sub(server.query.since) > LONG;
            let Some(bound) = &mut server.process.bound else {
                continue;
            };
            let elsewhere = !own.is_empty() && !own.contains(&bound.cpu);
            if elsewhere {
                bound.cpu = own[turn % own.len()];
                turn += 1;
            }
            if long == bound.loose && (!elsewhere || long) {
                continue;
            }
            let done = if long {
                process::unbind(&SystemProcesses, &bound.backend)
            } else {
                process::bind(&SystemProcesses, &bound.backend, bound.cpu)
            };
            match done {
                Ok(()) => bound.loose = long,
                // It has ended, or may not be moved any more.
                Err(_) => server.process.bound = None,
            }
        }
    }

    fn unbound(&mut self, refusal: &Refusal, switch: Switch) {
        self.ranges.unbound_because = refusal.to_string();
        if !self.shared.first_of_its_kind(refusal) {
            return;
        }
        let remains = "Queues, cohorts and prepared statements work all the same; a backend no longer stays with the caches \
                       of one core.";
        if switch == Switch::On {
            tracing::warn!("server processes are not bound to cores: {refusal}. {remains}");
        } else {
            tracing::info!("server processes are not bound to cores: {refusal}. {remains}");
        }
    }
}
