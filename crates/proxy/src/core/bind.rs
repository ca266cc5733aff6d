//! Each backend's process to the core of its queue, where server and system allow it (paper 004, section 2).

use machine::process::{self, Refusal, Route, SystemProcesses};
use machine::reactor::{Address, Peer, Reactor};

use super::event_loop::EventLoop;
use crate::config::Switch;

impl<R: Reactor> EventLoop<R> {
    /// Binds the process behind a connection to this loop's core. Where that cannot be, it runs where the system puts it; why is said
    /// once for each reason.
    pub(super) fn bind_backend(&mut self, reactor: &R, index: usize) {
        let switch = self.world.config.corun.bind_backends;
        let (Some(cpu), Some(server)) = (self.cpu, self.servers.get_mut(index)) else {
            return;
        };
        if switch == Switch::Off || server.pid == 0 {
            return;
        }
        let route = match (&server.address, reactor.peer(server.token()), reactor.local(server.token())) {
            (Some(Address::Unix(_)), Some(Peer::Unix { pid, .. }), _) => Route::Unix { listener: pid },
            (Some(Address::Tcp(_)), Some(Peer::Tcp(peer)), Some(local)) => Route::Tcp { local, peer },
            _ => return,
        };
        let bound = process::verify_backend(&SystemProcesses, server.pid, &route)
            .and_then(|backend| process::bind(&SystemProcesses, &backend, cpu));
        match bound {
            Ok(()) => server.bound = Some(cpu.0),
            Err(refusal) => self.unbound(&refusal, switch),
        }
    }

    fn unbound(&self, refusal: &Refusal, switch: Switch) {
        if !self.shared.first_of_its_kind(refusal) {
            return;
        }
        let remains = "Queues, cohorts and prepared statements work all the same; what is lost is that a backend stays with the caches \
                       of one core.";
        if switch == Switch::On {
            tracing::warn!("server processes are not bound to cores: {refusal}. {remains}");
        } else {
            tracing::info!("server processes are not bound to cores: {refusal}. {remains}");
        }
    }
}
