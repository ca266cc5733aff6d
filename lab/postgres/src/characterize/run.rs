//! [`Prepared`]: the whole of `corun-lab characterize`, stage by stage; rows come as they are known.
//!
//! ```text
//! what the machine can do ─► server, tables ─► each workload: plan ─► sweep ─► functions ─► beside the polluter
//!                                                                                             │
//!                             advice ◄─ simulation of the ended server's data folder ◄─ agreement on the cache
//! ```
//!
//! A stage that this machine cannot do is named once, in a row of the case `capability`, and left out. A stage that fails ends the run; the
//! rows before it stand. Not here: the report.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use corun_model::knee::median;
use corun_model::topology::Topology;
use corun_topology::affinity;

use super::attached::{attached, command_of};
use super::bound::Bound;
use super::capabilities::Can;
use super::counted::{self, Counters};
use super::dbmbench::{Query, Summary, Tables};
use super::embedded::{self, Embedded};
use super::interference::{self, AgreementPlan};
use super::observe::Resources;
use super::options::{Options, Which};
use super::rows::{CAPABILITY, PLAN, fact};
use super::server::Server;
use super::small::Small;
use super::smt::{self, Setting};
use super::sweep::{Stand, Sweep, Watch, sweep, turn};
use super::workload::{SCHEMA, Workload, fill, may_load, unload};
use super::{SUITE, advice, sampled};
use crate::fixture::cluster::Programs;
use corun_model::progress::Progress;
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::scratch::Scratch;
use lab_core::stats::Spread;

/// All that a run needs from outside, looked at before anything is written: files, programs, a server that answers, grants.
pub struct Prepared {
    options: Options,
    target: Target,
}

/// What is looked at.
enum Target {
    /// A process that is asked nothing.
    Process { process: u32, seconds: usize },
    /// A server under workloads.
    Server(Box<ReadyServer>),
}

/// A server that answers, and what is to run on it. Fields are dropped in this order: the server ends before the folder goes.
struct ReadyServer {
    server: Server,
    workloads: Vec<Workload>,
    folder: PathBuf,
    scratch: Scratch,
    programs: Programs,
}

impl Prepared {
    /// Reads the files, connects to the server or starts one.
    ///
    /// # Errors
    /// A file that cannot be read, a process that is not there, a missing program; a server that cannot be had, or in which DBmbench's
    /// tables may not be made.
    pub fn new(options: Options, progress: &dyn Progress) -> Result<Self, BenchError> {
        let target = match &options.server {
            &Which::Attached { process, seconds } => {
                command_of(process)?;
                Target::Process { process, seconds }
            }
            Which::Given { conninfo, load } => {
                let given = |programs: &Programs| given(programs, conninfo, *load, &options.queries);
                Target::Server(Box::new(ReadyServer::new(&options, given)?))
            }
            Which::Ours => {
                let start = |programs: &Programs| {
                    progress.begin("characterize: starting PostgreSQL", 0);
                    let server = Server::start(programs);
                    progress.end();
                    server
                };
                Target::Server(Box::new(ReadyServer::new(&options, start)?))
            }
        };
        Ok(Self { options, target })
    }

    /// Runs all stages that this machine can do.
    ///
    /// # Errors
    /// When the server is gone or refuses, an answer is wrong, or somebody has asked to stop.
    pub fn run(
        self,
        topology: &Topology,
        stop: &AtomicBool,
        progress: &dyn Progress,
        emit: &mut dyn FnMut(Row),
    ) -> Result<(), BenchError> {
        let mut rows = Vec::new();
        let mut keep = |row: Row| {
            rows.push(row.clone());
            emit(row);
        };
        let ended = self.stages(topology, stop, progress, &mut keep);
        // Also of a run that broke off: of what is known.
        for row in advice::rows(&rows) {
            emit(row);
        }
        ended
    }

    fn stages(
        self,
        topology: &Topology,
        stop: &AtomicBool,
        progress: &dyn Progress,
        emit: &mut dyn FnMut(Row),
    ) -> Result<(), BenchError> {
        let options = &self.options;
        let ready = match self.target {
            Target::Process { process, seconds } => {
                return attached(process, seconds, topology, stop, progress, emit);
            }
            Target::Server(ready) => *ready,
        };
        let server = ready.server;
        let stand = Stand {
            server: &server,
            folder: &ready.folder,
            progress,
            stop,
        };
        emit(fact("server", &format!("PostgreSQL {}", server.version)));
        let whose = if server.is_ours() {
            "started for this run, on an empty data folder"
        } else {
            "was running"
        };
        emit(fact("server started", whose));
        let mut can = Can::look(&server, topology, options, emit);
        let tables = Tables::new(options.rows);
        let summary = (!options.queries.is_empty()).then(|| tables.summary());
        if summary.is_some() {
            emit(fact("rows of T1", &options.rows.to_string()));
            fill(&server, SCHEMA, tables, progress)?;
        }
        let done = looked_at(
            &stand,
            options,
            topology,
            &ready.workloads,
            summary.as_ref(),
            &mut can,
            emit,
        );
        if summary.is_some() && !server.is_ours() {
            // Whatever went wrong before: the user's server is left as it was found.
            let dropped = unload(&server);
            done?;
            return dropped;
        }
        done?;
        if options.embedded {
            let how = Embedded {
                queries: &options.queries,
                concurrency: &options.concurrency,
                repetitions: options.repetitions(),
                paper: options.paper,
                smt: can.smt,
            };
            embedded::sweep(&how, tables, stop, progress, emit)?;
        }
        stand.go_on()?;
        if can.neighbours {
            for row in interference::agreement(topology, &AgreementPlan::of(can.smt), progress)? {
                emit(row);
            }
        }
        stand.go_on()?;
        if !can.valgrind {
            return Ok(());
        }
        // The stand-alone backend needs the data folder for itself: only our own server gives it away.
        let small = Small::load(&server, &options.queries, progress)?;
        if let Some(kept) = server.stop()? {
            let folder = ready.scratch.folder("valgrind")?;
            for row in small.simulate(&ready.programs, &kept, topology, &folder, can.smt, progress)? {
                emit(row);
            }
        }
        Ok(())
    }
}

impl ReadyServer {
    /// Reads the workloads' files before there is a server.
    fn new(
        options: &Options,
        server: impl FnOnce(&Programs) -> Result<Server, BenchError>,
    ) -> Result<Self, BenchError> {
        let scratch = Scratch::named("corun-characterize-", None)?;
        let mut workloads = Vec::new();
        for query in &options.queries {
            let folder = scratch.folder(query.name())?;
            workloads.push(Workload::dbmbench(*query, options.paper, &folder)?);
        }
        for own in &options.own {
            workloads.push(Workload::own(&own.name, &own.file, own.times)?);
        }
        let programs = Programs::find()?;
        Ok(Self {
            server: server(&programs)?,
            workloads,
            folder: scratch.folder("pgbench")?,
            scratch,
            programs,
        })
    }
}

/// A server that runs, in which DBmbench's tables may be made if its queries are to run.
fn given(programs: &Programs, conninfo: &str, load: bool, queries: &[Query]) -> Result<Server, BenchError> {
    let server = Server::given(programs, conninfo)?;
    if !queries.is_empty() {
        may_load(&server, load)?;
    }
    Ok(server)
}

/// Everything that is looked at while the server runs.
fn looked_at(
    stand: &Stand<'_>,
    options: &Options,
    topology: &Topology,
    workloads: &[Workload],
    summary: Option<&Summary>,
    can: &mut Can,
    emit: &mut dyn FnMut(Row),
) -> Result<(), BenchError> {
    let costs = match can.counters {
        true => Some(counted::costs(topology)?),
        false => None,
    };
    for workload in workloads {
        stand.go_on()?;
        // Only DBmbench's answers are known.
        let summary = summary.filter(|_| workload.query.is_some());
        plan(stand, workload, summary, options.rows, can, emit)?;
        let mut rates = Vec::new();
        for setting in Setting::all(options.smt, can.smt) {
            let held = setting.hold(topology, can.postmaster)?;
            let how = Sweep {
                concurrency: options.concurrency.clone(),
                repetitions: options.repetitions(),
                smt: setting.name(),
            };
            let mut resources = can.postmaster.map(Resources::new);
            let mut counters = can.postmaster.zip(costs).map(|(postmaster, costs)| {
                Counters::new(postmaster, topology.usable_cpus(), costs, setting.name() == "on")
            });
            let mut watches: Vec<&mut dyn Watch> = Vec::new();
            watches.extend(resources.iter_mut().map(|watch| watch as &mut dyn Watch));
            watches.extend(counters.iter_mut().map(|watch| watch as &mut dyn Watch));
            rates.push((
                how.smt,
                sweep(stand, workload, &how, summary, &mut watches, emit)?,
            ));
            held.restore()?;
        }
        for row in smt::ratios(&rates, &options.concurrency) {
            emit(row.with("workload", workload.name.as_str()));
        }
        stand.go_on()?;
        let most = options.concurrency.last().copied().unwrap_or(1);
        if let Some(postmaster) = can.postmaster.filter(|_| can.sampling) {
            functions(stand, workload, postmaster, most, can, emit)?;
        }
        stand.go_on()?;
        if can.neighbours {
            beside(stand, workload, topology, can, emit)?;
        }
    }
    Ok(())
}

/// The plan and the selectivity of a query of DBmbench.
fn plan(
    stand: &Stand<'_>,
    workload: &Workload,
    summary: Option<&Summary>,
    rows: usize,
    can: &Can,
    emit: &mut dyn FnMut(Row),
) -> Result<(), BenchError> {
    let (Some(query), Some(summary), Some(plan)) = (workload.query, summary, workload.plan(stand.server)?)
    else {
        return Ok(());
    };
    let selected = |&(low, high): &(usize, usize)| 100.0 * summary.count(low, high) as f64 / rows as f64;
    let selected: Vec<f64> = query.bounds().iter().map(selected).collect();
    let Some(spread) = Spread::of(&selected) else {
        return Ok(());
    };
    emit(
        Row::measured(
            SUITE,
            PLAN,
            "selectivity_percent",
            "percent",
            spread,
            plan.as_the_paper,
        )
        .with("workload", workload.name.as_str())
        .with("smt", can.smt)
        .with("how", "explain")
        .with("plan", plan.operators)
        .with("paper_plan", query.plan())
        .with("wanted_percent", query.selected_percent()),
    );
    Ok(())
}

/// The functions the server spends its time in, with as many clients as there are at most.
fn functions(
    stand: &Stand<'_>,
    workload: &Workload,
    postmaster: u32,
    clients: usize,
    can: &mut Can,
    emit: &mut dyn FnMut(Row),
) -> Result<(), BenchError> {
    stand
        .progress
        .begin(&format!("characterize: functions of {}", workload.name), 0);
    workload.clear(stand.server)?;
    let sampled = sampled::during(postmaster, || {
        turn(stand, workload, clients, workload.times, 1_000)
    });
    stand.progress.end();
    for row in sampled? {
        if row.case == CAPABILITY {
            // What a server without symbols lacks, it lacks whatever it runs.
            if !std::mem::replace(&mut can.told, true) {
                emit(row);
            }
            continue;
        }
        let row = row.with("workload", workload.name.as_str()).with("smt", can.smt);
        emit(row.with("concurrency", clients));
    }
    workload.clear(stand.server)
}

/// What one client of the workload loses beside a polluter. The server and the client are held on one processor, so that they share a cache
/// with the polluter and no processor. A stretch counts by its middle query: time that the machine's owner takes away falls on few.
fn beside(
    stand: &Stand<'_>,
    workload: &Workload,
    topology: &Topology,
    can: &Can,
    emit: &mut dyn FnMut(Row),
) -> Result<(), BenchError> {
    let (Some(&cpu), Some(postmaster)) = (topology.placement_order().first(), can.postmaster) else {
        return Ok(());
    };
    let plan = interference::Plan::of(topology, &workload.name, can.smt, cpu);
    let held = Bound::to(postmaster, &[cpu])?;
    // What this thread starts, pgbench, inherits it; the polluter's threads go where they belong by themselves.
    let pinned = affinity::pin(cpu).map_err(|error| BenchError::Machine(error.to_string()))?;
    let run = |times: usize| {
        stand.go_on()?;
        workload.clear(stand.server)?;
        let turn = turn(stand, workload, 1, times, 2_000)?;
        Ok(median(&turn.times_ms) / 1e3)
    };
    let few = run(3)?;
    let times = ((BESIDE_SECONDS / few.max(1e-6)) as usize).clamp(1, BESIDE_TIMES_MAX);
    let mut work = || run(times);
    let found = interference::curve(&mut work, topology, &plan, stand.progress);
    drop(pinned);
    held.let_go()?;
    for row in found? {
        emit(row);
    }
    Ok(())
}

/// How long a stretch of the workload beside the polluter should take, and its queries at most.
const BESIDE_SECONDS: f64 = 0.4;
const BESIDE_TIMES_MAX: usize = 400;
