//! [`Side`]: one way to reach the server, running: directly, through PgBouncer, through corun.
//!
//! Order of calls: [`standard`] or [`mixed`] lists what there is to compare, [`Side::start`] starts one of them and compares its answers
//! with the server's own; [`super::contest`] lets them take turns.

use std::path::Path;
use std::time::Duration;

use super::address::{Address, Transport, free_port, short_enough};
use super::check::{self, Extent};
use super::client::Client;
use super::configuration::{self, Corun, PgBouncer, Pooler};
use super::fixture::{Fixture, Found};
use super::guarded::{Guarded, Signal, command};
use super::pgbench::Protocol;
use super::{failed, pgbouncer};
use lab_core::contest::Gone;
use lab_core::error::BenchError;
use lab_core::row::Value;

/// Connections to the server of every pooler, where nothing else is said.
pub const POOL: usize = 8;
/// What PgBouncer has when it is not told.
const POOL_OF_PGBOUNCER: usize = 20;
/// Longest wait for a pooler that starts.
const PATIENCE: Duration = Duration::from_secs(30);
/// The name of corun's processes in errors, and of its rows.
pub const CORUN: &str = "corun";

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
    let bouncer = |name: &str, program: &Found<pgbouncer::Program>, processes, pool| Spec {
        name: name.to_owned(),
        kind: Kind::PgBouncer {
            program: program.clone(),
            processes,
        },
        pool,
    };
    let mut all = vec![Spec {
        name: "direct".to_owned(),
        kind: Kind::Direct,
        pool: 0,
    }];
    if fixture.peers() {
        all.extend([
            bouncer("pgbouncer", fixture.packaged(), 1, POOL),
            bouncer("pgbouncer_x2", fixture.packaged(), 2, POOL),
            bouncer("pgbouncer_pool20", fixture.packaged(), 1, POOL_OF_PGBOUNCER),
            bouncer("pgbouncer_current", fixture.current(), 1, POOL),
        ]);
    }
    if fixture.before().is_some() {
        all.push(Spec {
            kind: Kind::Before(Corun::DEFAULT),
            ..corun(format!("{CORUN}_before"), Corun::DEFAULT)
        });
    }
    all.push(corun(CORUN.to_owned(), Corun::DEFAULT));
    all
}

fn corun(name: String, own: Corun) -> Spec {
    Spec {
        name,
        kind: Kind::Corun(own),
        pool: POOL,
    }
}

/// The sides of a case of many shapes: the server, PgBouncer, and corun in all its ways, first with all of them off.
pub fn mixed(fixture: &Fixture) -> Vec<Spec> {
    let wanted = |spec: &Spec| matches!(spec.name.as_str(), "direct" | pgbouncer::PEER);
    let mut all: Vec<Spec> = standard(fixture).into_iter().filter(wanted).collect();
    for cohorts in ["off", "on", "auto"] {
        for auto_prepare in ["off", "exact", "parameterize"] {
            let own = Corun {
                cohorts,
                auto_prepare,
            };
            all.push(corun(format!("{CORUN}_{cohorts}_{auto_prepare}"), own));
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
        let mut all = vec![
            ("target", Value::from(self.target())),
            ("side", Value::from(self.name.as_str())),
        ];
        let none = Corun {
            cohorts: "none",
            auto_prepare: "none",
        };
        let mut ways = none;
        match &self.kind {
            Kind::Direct => {}
            Kind::PgBouncer { program, processes } => {
                all.push(("processes", Value::from(*processes)));
                if let Ok(program) = program {
                    all.push(("version", Value::from(program.version.as_str())));
                }
            }
            Kind::Corun(own) | Kind::Before(own) => {
                ways = *own;
                all.push(("processes", Value::from(1usize)));
            }
        }
        all.push(("cohorts", Value::from(ways.cohorts)));
        all.push(("auto_prepare", Value::from(ways.auto_prepare)));
        if self.pool > 0 {
            all.push(("pool", Value::from(self.pool)));
        }
        all.into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
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

    /// What its failure is: ours must work, and the server may collapse under too many clients.
    pub fn gone(&self, reason: String) -> Gone {
        match self.kind {
            Kind::Direct | Kind::PgBouncer { .. } | Kind::Before(_) => Gone::Unavailable(reason),
            Kind::Corun(_) => Gone::Failed(reason),
        }
    }

    fn prepares(&self) -> bool {
        match &self.kind {
            Kind::PgBouncer {
                program: Ok(program), ..
            } => program.prepares(),
            _ => true,
        }
    }
}

/// The processes of a side, and where they listen.
struct Running {
    address: Address,
    processes: Vec<Guarded>,
}

/// A side of a comparison.
pub struct Side {
    /// What it is.
    pub spec: Spec,
    /// The first answer that was not the server's own.
    pub wrong: Option<String>,
    running: Result<Running, Gone>,
}

impl Side {
    /// Starts it and compares its answers with the server's. What fails is kept, for its rows.
    pub fn start(spec: Spec, fixture: &Fixture, transport: Transport, values: usize) -> Side {
        let running = match (&spec.kind, spec.lacks(Protocol::Simple, transport)) {
            (_, Some(reason)) => Err(Gone::Unavailable(reason)),
            (Kind::Corun(_), None) if fixture.corun().is_err() => Err(Gone::Unavailable(
                fixture.corun().clone().err().unwrap_or_default(),
            )),
            _ => run(&spec, fixture, transport).map_err(|error| spec.gone(error.in_one_line())),
        };
        let mut side = Side {
            spec,
            wrong: None,
            running,
        };
        side.compare(fixture, values);
        side
    }

    /// Compares its answers with the server's own.
    pub fn compare(&mut self, fixture: &Fixture, values: usize) {
        let Ok(running) = &self.running else { return };
        let extent = Extent {
            values,
            prepared: self.spec.prepares(),
        };
        match check::statements(fixture.postgres().address(), &running.address, extent) {
            Ok(difference) => self.wrong = self.wrong.take().or(difference),
            Err(error) => self.running = Err(self.spec.gone(error.in_one_line())),
        }
    }

    /// Why it does not run.
    pub fn gone(&self) -> Option<&Gone> {
        self.running.as_ref().err()
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When it does not run.
    pub fn address(&self) -> Result<&Address, BenchError> {
        match &self.running {
            Ok(running) => Ok(&running.address),
            Err(_) => Err(failed(self.spec.target(), "it does not run")),
        }
    }

    /// CPU time of its processes so far, in microseconds; `None` where nothing stands in between.
    pub fn cpu_us(&self) -> Option<f64> {
        self.sum(Guarded::cpu_us)
    }

    /// Resident memory of its processes, in bytes.
    pub fn resident_bytes(&self) -> Option<f64> {
        self.sum(|process| process.resident_bytes().map(|bytes| bytes as f64))
    }

    fn sum(&self, of: impl Fn(&Guarded) -> Option<f64>) -> Option<f64> {
        let running = self.running.as_ref().ok()?;
        if running.processes.is_empty() {
            return None;
        }
        running.processes.iter().map(of).sum()
    }

    /// That all its processes still run.
    ///
    /// # Errors
    /// When one has ended: its last words.
    pub fn alive(&mut self) -> Result<(), BenchError> {
        match &mut self.running {
            Ok(running) => running.processes.iter_mut().try_for_each(Guarded::alive),
            Err(_) => Ok(()),
        }
    }
}

fn run(spec: &Spec, fixture: &Fixture, transport: Transport) -> Result<Running, BenchError> {
    let server = fixture.postgres().address().over(transport);
    if spec.kind == Kind::Direct {
        return Ok(Running {
            address: server,
            processes: Vec::new(),
        });
    }
    let folder = fixture.server_folder(&format!("{}-{}", spec.name, transport.as_str()))?;
    short_enough(&folder)?;
    let address = Address {
        transport,
        folder: folder.clone(),
        port: free_port()?,
    };
    let pooler = Pooler {
        listen: address.clone(),
        server,
        pool: spec.pool,
        users: folder.join("users.txt"),
    };
    write(&pooler.users, &configuration::users())?;
    let processes = match &spec.kind {
        Kind::Direct => Vec::new(),
        Kind::PgBouncer { program, processes } => {
            let program = program
                .as_ref()
                .map_err(|reason| failed(pgbouncer::PEER, reason.clone()))?;
            let own = PgBouncer {
                processes: *processes,
                prepares: program.prepares(),
            };
            let file = folder.join("pgbouncer.ini");
            write(&file, &configuration::pgbouncer(&pooler, own))?;
            let start = |number: usize| {
                let mut command = command(&program.path, fixture.account(), Signal::Terminate);
                command.arg(&file);
                let words = folder.join(format!("words-{number}"));
                Guarded::start(command, pgbouncer::PEER, Signal::Terminate, words)
            };
            (0..*processes).map(start).collect::<Result<Vec<_>, _>>()?
        }
        Kind::Corun(own) | Kind::Before(own) => {
            let before = fixture.before().filter(|_| spec.kind == Kind::Before(*own));
            let program = before
                .unwrap_or(fixture.corun())
                .as_ref()
                .map_err(|reason| failed(CORUN, reason.clone()))?;
            let file = folder.join("corun.toml");
            write(&file, &configuration::corun(&pooler, *own))?;
            // Terminated, it would wait for its clients.
            let mut command = command(program, fixture.account(), Signal::Quit);
            command.args(["proxy", "--config"]).arg(&file);
            let words = folder.join("words");
            vec![Guarded::start(command, CORUN, Signal::Quit, words)?]
        }
    };
    let mut running = Running { address, processes };
    for process in &mut running.processes {
        process.until(PATIENCE, || {
            Client::connect(&running.address, PATIENCE)?
                .run("select 1")
                .map(drop)
        })?;
    }
    Ok(running)
}

fn write(file: &Path, content: &str) -> Result<(), BenchError> {
    std::fs::write(file, content)
        .map_err(|source| BenchError::io(format!("could not write {}", file.display()), source))
}

#[cfg(test)]
mod tests;
