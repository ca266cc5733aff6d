//! [`run`]: the whole of `corun-lab characterize`, stage by stage; rows come as they are known.
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corun_model::knee::median;
use corun_model::topology::Topology;
use corun_topology::affinity;

use super::bound::Bound;
use super::counted::{self, Counters};
use super::dbmbench::{Query, Summary, Tables};
use super::embedded::{self, Embedded};
use super::interference::{self, AgreementPlan};
use super::observe::Resources;
use super::rows::{CAPABILITY, PLAN, fact};
use super::server::Server;
use super::small::Small;
use super::smt::{self, Setting};
use super::sweep::{Stand, Sweep, Turn, Watch, sweep, turn};
use super::workload::{SCHEMA, Workload, load, unload};
use super::{SUITE, advice, sampled};
use crate::pooler::postgres::Programs;
use corun_model::progress::Progress;
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::scratch::Scratch;
use lab_core::stats::Spread;

/// Turns at each concurrency: the paper's (sections 4.1 and 5.1), and few.
const REPETITIONS_PAPER: usize = 10;
const REPETITIONS: usize = 3;

/// The name of whatever an attached process does.
const ATTACHED: &str = "attached";

/// The server to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// One of our own on an empty data folder.
    Ours,
    /// One that runs, by connection string; whether DBmbench's tables may be made in it.
    Given {
        /// As libpq takes it.
        conninfo: String,
        /// Whether a schema may be made in it, and dropped afterwards.
        load: bool,
    },
    /// A process and all below it, which nobody of us asks anything.
    Attached {
        /// Its number: a server's postmaster.
        process: u32,
        /// How long it is looked at.
        seconds: usize,
    },
}

/// A workload of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// `sql` or `pgbench`.
    pub name: String,
    /// The file.
    pub file: PathBuf,
    /// Runs of each client in a turn.
    pub times: usize,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// With whom.
    pub server: Which,
    /// DBmbench's queries to run.
    pub queries: Vec<Query>,
    /// Whether they run on the embedded engine, too.
    pub embedded: bool,
    /// The user's workloads to run.
    pub own: Vec<Own>,
    /// Rows of T1.
    pub rows: usize,
    /// Clients at once, growing.
    pub concurrency: Vec<usize>,
    /// The paper's repetitions.
    pub paper: bool,
    /// Turns at each concurrency, if others.
    pub repetitions: Option<usize>,
    /// Whether functions are sampled.
    pub sampling: bool,
    /// Whether the workloads run beside a polluter.
    pub interference: bool,
    /// Whether the server is simulated under valgrind.
    pub simulation: bool,
    /// Whether SMT is switched, and how.
    pub smt: smt::Choice,
}

impl Options {
    fn repetitions(&self) -> usize {
        let usual = if self.paper {
            REPETITIONS_PAPER
        } else {
            REPETITIONS
        };
        self.repetitions.unwrap_or(usual)
    }
}

/// Runs all stages that this machine can do.
///
/// # Errors
/// When the server cannot be had, is gone or refuses, an answer is wrong, or somebody has asked to stop.
pub fn run(
    options: &Options,
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
    let ended = stages(options, topology, stop, progress, &mut keep);
    // Also of a run that broke off: of what is known.
    for row in advice::rows(&rows) {
        emit(row);
    }
    ended
}

fn stages(
    options: &Options,
    topology: &Topology,
    stop: &AtomicBool,
    progress: &dyn Progress,
    emit: &mut dyn FnMut(Row),
) -> Result<(), BenchError> {
    if let Which::Attached { process, seconds } = options.server {
        return attached(process, seconds, topology, stop, progress, emit);
    }
    let programs = Programs::find()?;
    let scratch = Scratch::named("corun-characterize-", None)?;
    let folder = scratch.folder("pgbench")?;
    progress.begin("characterize: starting PostgreSQL", 0);
    let server = match &options.server {
        Which::Given { conninfo, .. } => Server::given(&programs, conninfo),
        Which::Ours | Which::Attached { .. } => Server::start(&programs),
    };
    progress.end();
    let server = server?;
    let stand = Stand {
        server: &server,
        folder: &folder,
        progress,
        stop,
    };
    emit(fact("server", &format!("PostgreSQL {}", server.version())));
    let whose = if server.is_ours() {
        "started for this run, on an empty data folder"
    } else {
        "was running"
    };
    emit(fact("server started", whose));
    if !options.queries.is_empty() {
        emit(fact("rows of T1", &options.rows.to_string()));
    }
    let mut can = Can::look(&server, topology, options, emit);
    let mut workloads = Vec::new();
    for query in &options.queries {
        workloads.push(Workload::dbmbench(
            *query,
            options.paper,
            &scratch.folder(query.name())?,
        )?);
    }
    for own in &options.own {
        workloads.push(Workload::own(&own.name, &own.file, own.times)?);
    }
    let tables = Tables::new(options.rows);
    let summary = (!options.queries.is_empty()).then(|| tables.summary());
    let loaded = match (&options.server, &summary) {
        (_, None) => false,
        (Which::Given { load: false, .. }, Some(_)) => {
            return Err(BenchError::BadArgument(format!(
                "DBmbench's tables would have to be made in that server, in a schema {SCHEMA} that is dropped afterwards: allow it with --load, or name a workload of your own with --sql or --pgbench"
            )));
        }
        (_, Some(_)) => {
            load(&server, tables, progress)?;
            true
        }
    };
    let done = looked_at(
        &stand,
        options,
        topology,
        &workloads,
        summary.as_ref(),
        &mut can,
        emit,
    );
    if loaded && !server.is_ours() {
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
        for row in small.simulate(
            &programs,
            &kept,
            topology,
            &scratch.folder("valgrind")?,
            can.smt,
            progress,
        )? {
            emit(row);
        }
    }
    Ok(())
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

/// Looks at a process and all below it while it does whatever it does: no query is asked, so nothing is said of a query.
fn attached(
    process: u32,
    seconds: usize,
    topology: &Topology,
    stop: &AtomicBool,
    progress: &dyn Progress,
    emit: &mut dyn FnMut(Row),
) -> Result<(), BenchError> {
    let command = std::fs::read_to_string(format!("/proc/{process}/comm"))
        .map_err(|source| BenchError::io(format!("could not look at process {process}"), source))?;
    emit(fact(
        "attached to",
        &format!("process {process} ({})", command.trim()),
    ));
    let smt = smt::state(topology);
    let counts = tell("pmu", corun_machine::counters::try_open(), emit);
    let samples = tell("sampling", sampled::possible(), emit);
    let costs = match counts {
        true => Some(counted::costs(topology)?),
        false => None,
    };
    let mut resources = Resources::new(process);
    let mut counters = costs.map(|costs| Counters::new(process, topology.usable_cpus(), costs, smt == "on"));
    progress.begin("characterize: looking", seconds as u64);
    resources.begin()?;
    if let Some(counters) = &mut counters {
        counters.begin()?;
    }
    let wait = || {
        for _ in 0..seconds {
            if stop.load(Ordering::Relaxed) {
                return Err(BenchError::Interrupted);
            }
            std::thread::sleep(Duration::from_secs(1));
            progress.advance(1);
        }
        Ok(())
    };
    let functions = match samples {
        true => sampled::during(process, wait)?,
        false => wait().map(|()| Vec::new())?,
    };
    progress.end();
    let nothing = Turn::default();
    let mut seen = resources.end(&nothing)?;
    // What is there of a query means nothing without queries.
    seen.retain(|seen| !seen.metric.ends_with("_per_query"));
    if let Some(counters) = &mut counters {
        seen.extend(counters.end(&nothing)?);
    }
    for seen in seen {
        let row = seen.row(Spread::one(seen.value));
        emit(row.with("workload", ATTACHED).with("smt", smt));
    }
    for row in functions {
        emit(match row.case == CAPABILITY {
            true => row,
            false => row.with("workload", ATTACHED).with("smt", smt),
        });
    }
    Ok(())
}

/// Tells of a capability in a row; whether it is there.
fn tell(name: &str, found: Result<(), String>, emit: &mut dyn FnMut(Row)) -> bool {
    let row = match &found {
        Ok(()) => Row::measured(SUITE, CAPABILITY, "available", "bool", Spread::one(1.0), true),
        Err(reason) => Row::unavailable(SUITE, CAPABILITY, "available", "bool", reason),
    };
    emit(row.with("capability", name));
    found.is_ok()
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

/// What this machine and this server let us do.
struct Can {
    postmaster: Option<u32>,
    counters: bool,
    sampling: bool,
    valgrind: bool,
    /// Another processor shares a cache with the first one.
    neighbours: bool,
    /// `on`, `off` or `none`.
    smt: &'static str,
    /// Whether missing symbols were told of.
    told: bool,
}

impl Can {
    /// Looks, and tells each capability in a row, once.
    fn look(server: &Server, topology: &Topology, options: &Options, emit: &mut dyn FnMut(Row)) -> Can {
        let mut tell = |name: &str, found| tell(name, found, emit);
        let postmaster = server.postmaster();
        let local = postmaster
            .map(drop)
            .ok_or("the server's process was not found on this machine: it runs elsewhere, or its data folder may not be read; without it only times are looked at".to_owned());
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
            (Which::Ours, false) => crate::key_ranges_simulated::backend::valgrind().map_err(|error| crate::pooler::text(&error)),
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
            postmaster,
            counters,
            sampling,
            valgrind,
            neighbours,
            smt,
            told: false,
        }
    }
}
