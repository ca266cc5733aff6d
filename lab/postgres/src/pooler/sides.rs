//! [`Side`]: one way to reach the server, running: directly, through PgBouncer, through corun.
//!
//! Order of calls: [`standard`] or [`mixed`] lists what there is to compare, [`Side::start`] starts one of them and compares its answers
//! with the server's own; [`super::contest`] lets them take turns.

use super::check::{self, Extent};
use super::fixture::Fixture;
use crate::fixture::address::Transport;
use crate::fixture::contender::{CORUN, Contender, Front};
use crate::fixture::pgbench::Protocol;
use crate::fixture::{Found, pgbouncer};
use lab_core::metric::parameters;
use lab_core::row::Value;

/// Connections to the server of every pooler, where nothing else is said.
pub const POOL: usize = 8;
/// What PgBouncer has when it is not told.
const POOL_OF_PGBOUNCER: usize = 20;

/// What corun alone is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corun {
    /// `off`, `on` or `auto`.
    pub cohorts: &'static str,
    /// `off`, `exact` or `parameterize`.
    pub auto_prepare: &'static str,
}

impl Corun {
    /// What it does when nothing is said.
    pub const DEFAULT: Corun = Corun {
        cohorts: "auto",
        auto_prepare: "off",
    };
    /// What rows say of others.
    const NONE: Corun = Corun {
        cohorts: "none",
        auto_prepare: "none",
    };
}

/// What stands between clients and the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Direct,
    /// PgBouncer, or why it is not there.
    PgBouncer {
        /// The program.
        program: Found<pgbouncer::Program>,
        /// How many of them share the port.
        processes: usize,
    },
    /// The proxy.
    Corun(Corun),
    /// An earlier program of it.
    Before(Corun),
}

/// One thing to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What ratios call it.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its connections to the server.
    pub pool: usize,
}

/// The sides of a case in which poolers are as users have them.
pub fn standard(fixture: &Fixture) -> Vec<Spec> {
    let spec = |name: &str, kind, pool| Spec {
        name: name.to_owned(),
        kind,
        pool,
    };
    let mut all = vec![spec("direct", Kind::Direct, 0)];
    if fixture.peers {
        for (name, program, processes, pool) in [
            ("pgbouncer", &fixture.packaged, 1, POOL),
            ("pgbouncer_x2", &fixture.packaged, 2, POOL),
            ("pgbouncer_pool20", &fixture.packaged, 1, POOL_OF_PGBOUNCER),
            ("pgbouncer_current", &fixture.current, 1, POOL),
        ] {
            let program = program.clone();
            all.push(spec(name, Kind::PgBouncer { program, processes }, pool));
        }
    }
    if fixture.before.is_some() {
        all.push(spec("corun_before", Kind::Before(Corun::DEFAULT), POOL));
    }
    all.push(spec(CORUN, Kind::Corun(Corun::DEFAULT), POOL));
    all
}

/// The sides of a case of many shapes: the server, PgBouncer, and corun in all its ways, first with all of them off.
pub fn mixed(fixture: &Fixture) -> Vec<Spec> {
    let wanted = |spec: &Spec| matches!(spec.name.as_str(), "direct" | pgbouncer::PEER);
    let mut all: Vec<Spec> = standard(fixture).into_iter().filter(wanted).collect();
    for cohorts in ["off", "on", "auto"] {
        for auto_prepare in ["off", "exact", "parameterize"] {
            all.push(Spec {
                name: format!("{CORUN}_{cohorts}_{auto_prepare}"),
                kind: Kind::Corun(Corun {
                    cohorts,
                    auto_prepare,
                }),
                pool: POOL,
            });
        }
    }
    all
}

impl Spec {
    /// The stable name in rows: `direct`, `pgbouncer` or `corun`.
    pub fn target(&self) -> &'static str {
        match self.kind {
            Kind::Direct => "direct",
            Kind::PgBouncer { .. } => pgbouncer::PEER,
            Kind::Corun(_) | Kind::Before(_) => CORUN,
        }
    }

    /// What tells it from others in rows.
    pub fn parameters(&self) -> Vec<(String, Value)> {
        let (ways, processes, version) = match &self.kind {
            Kind::Direct => (Corun::NONE, None, None),
            Kind::PgBouncer { program, processes } => {
                let version = program.as_ref().ok().map(|program| program.version.as_str());
                (Corun::NONE, Some(*processes), version)
            }
            Kind::Corun(own) | Kind::Before(own) => (*own, Some(1), None),
        };
        let all = [
            ("target", Some(Value::from(self.target()))),
            ("side", Some(Value::from(self.name.as_str()))),
            ("processes", processes.map(Value::from)),
            ("version", version.map(Value::from)),
            ("cohorts", Some(Value::from(ways.cohorts))),
            ("auto_prepare", Some(Value::from(ways.auto_prepare))),
            ("pool", (self.pool > 0).then(|| Value::from(self.pool))),
        ];
        parameters(all.into_iter().filter_map(|(key, value)| Some((key, value?))))
    }

    /// Why it cannot take part; `None` if it can.
    pub fn lacks(&self, protocol: Protocol, transport: Transport) -> Option<String> {
        let Kind::PgBouncer { program, processes } = &self.kind else {
            return None;
        };
        let program = match program {
            Ok(program) => program,
            Err(reason) => return Some(reason.clone()),
        };
        if *processes > 1 && transport == Transport::Unix {
            return Some("processes of PgBouncer share a port, but not a Unix socket".to_owned());
        }
        (protocol == Protocol::Prepared && !program.prepares()).then(|| {
            format!(
                "PgBouncer {} cannot prepare statements in transaction pooling; 1.21 and later can",
                program.version
            )
        })
    }

    fn prepares(&self) -> bool {
        self.lacks(Protocol::Prepared, Transport::Tcp).is_none()
    }

    fn start(&self, fixture: &Fixture, transport: Transport) -> Contender {
        if let Some(reason) = self.lacks(Protocol::Simple, transport) {
            return Contender::unavailable(reason);
        }
        let front = Front {
            fixture: &fixture.pg,
            name: &format!("{}-{}", self.name, transport.as_str()),
            server: &fixture.cluster.address.over(transport),
            pool: self.pool,
        };
        let more = |own: &Corun| {
            let Corun {
                cohorts,
                auto_prepare,
            } = own;
            format!("\n[corun]\ncohorts = \"{cohorts}\"\nauto_prepare = \"{auto_prepare}\"\n")
        };
        match (&self.kind, &fixture.before) {
            (
                Kind::PgBouncer {
                    program: Ok(program),
                    processes,
                },
                _,
            ) => Contender::pgbouncer(&front, program, *processes),
            (Kind::Corun(own), _) => Contender::corun(&front, &fixture.pg.corun, true, &more(own)),
            (Kind::Before(own), Some(program)) => {
                Contender::corun(&front, &Ok(program.clone()), false, &more(own))
            }
            _ => Contender::direct(front.server),
        }
    }
}

/// A side of a comparison.
pub struct Side {
    /// What it is.
    pub spec: Spec,
    /// The first answer that was not the server's own.
    pub wrong: Option<String>,
    /// What clients connect to.
    pub contender: Contender,
}

impl Side {
    /// Starts it and compares its answers with the server's. What fails is kept, for its rows.
    pub fn start(spec: Spec, fixture: &Fixture, transport: Transport, values: usize) -> Side {
        let contender = spec.start(fixture, transport);
        let mut side = Side {
            spec,
            wrong: None,
            contender,
        };
        side.compare(fixture, values);
        side
    }

    /// Compares its answers with the server's own.
    pub fn compare(&mut self, fixture: &Fixture, values: usize) {
        let Ok(address) = self.contender.address() else {
            return;
        };
        let extent = Extent {
            values,
            prepared: self.spec.prepares(),
        };
        match check::statements(&fixture.cluster.address, address, extent) {
            Ok(difference) => self.wrong = self.wrong.take().or(difference),
            Err(error) => self.contender.give_up(&error),
        }
    }
}

#[cfg(test)]
mod tests;
