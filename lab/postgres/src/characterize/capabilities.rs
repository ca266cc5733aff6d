//! [`Can`]: what this machine and this server let a run do.

use corun_model::topology::Topology;

use super::options::{Options, Which};
use super::rows::{CAPABILITY, missing};
use super::server::Server;
use super::{SUITE, sampled, smt};
use lab_core::row::Row;
use lab_core::stats::Spread;

/// Tells of a capability in a row; whether it is there.
pub(super) fn tell(name: &str, found: Result<(), String>, emit: &mut dyn FnMut(Row)) -> bool {
    emit(match &found {
        Ok(()) => {
            let row = Row::measured(SUITE, CAPABILITY, "available", "bool", Spread::one(1.0), true);
            row.with("capability", name)
        }
        Err(reason) => missing(name, reason),
    });
    found.is_ok()
}

/// What this machine and this server let us do.
pub(super) struct Can {
    /// The server's process.
    pub(super) postmaster: Option<u32>,
    /// The PMU counts.
    pub(super) counters: bool,
    /// Functions are sampled.
    pub(super) sampling: bool,
    /// The server can be simulated.
    pub(super) valgrind: bool,
    /// Another processor shares a cache with the first one.
    pub(super) neighbours: bool,
    /// `on`, `off` or `none`.
    pub(super) smt: &'static str,
    /// Whether missing symbols were told of.
    pub(super) told: bool,
}

impl Can {
    /// Looks, and tells each capability in a row, once.
    pub(super) fn look(
        server: &Server,
        topology: &Topology,
        options: &Options,
        emit: &mut dyn FnMut(Row),
    ) -> Can {
        let mut tell = |name: &str, found| tell(name, found, emit);
        let local = server.postmaster.clone().map(drop);
        let local =
            local.map_err(|why| format!("{why}; without the server's process only times are looked at"));
        let counters = tell("pmu", corun_machine::counters::try_open()) && local.is_ok();
        let smt = smt::state(topology);
        tell(
            "smt",
            if smt == "none" {
                Err("the machine's cores have one hardware thread each".to_owned())
            } else {
                Ok(())
            },
        );
        tell("resctrl", smt::resctrl(topology));
        tell("resources", local.clone());
        let sampling = options.sampling && tell("sampling", local.and_then(|()| sampled::possible()));
        let simulation = match (&options.server, options.queries.is_empty()) {
            (Which::Ours, false) => crate::traced::valgrind().map_err(|error| error.in_one_line()),
            (Which::Ours, true) => Err("only DBmbench's queries are simulated".to_owned()),
            (Which::Given { .. } | Which::Attached { .. }, _) => {
                Err("a running server's data folder cannot be given to a simulated one; run without --dsn for that".to_owned())
            }
        };
        let valgrind = options.simulation && tell("valgrind", simulation);
        let cpu = topology.placement_order().first().copied();
        let neighbours = cpu
            .map(|cpu| corun_machine::polluter::cpus(topology, cpu, usize::MAX))
            .unwrap_or_default();
        let beside = if neighbours.is_empty() {
            Err("no other processor shares the last-level cache".to_owned())
        } else {
            Ok(())
        };
        let neighbours = options.interference && tell("interference", beside);
        Can {
            postmaster: server.postmaster.clone().ok(),
            counters,
            sampling,
            valgrind,
            neighbours,
            smt,
            told: false,
        }
    }
}
