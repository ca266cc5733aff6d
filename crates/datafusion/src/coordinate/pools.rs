//! The threads queries run on.
//!
//! ```text
//!   domain 0                                domain 1
//!   ┌ narrow ┐ ┌ narrow ┐ ┌─── wide ────┐   ...            ┌─ short ─┐    ┌─ I/O ─┐
//!   │ cpu 0  │ │ cpu 1  │ │ cpu 0 cpu 1 │                  │ any CPU │    │  any  │
//!   └────────┘ └────────┘ └─────────────┘                  └─────────┘    └───────┘
//! ```
//!
//! - *narrow*: one thread pinned to each CPU, a runtime of its own each; a query with one CPU lives wholly there, with all tasks
//!   its operators start.
//! - *wide*: for each domain of several CPUs one runtime with a thread pinned to each, for queries that have all of them.
//! - *short*: one runtime, unpinned, for queries too short to be scheduled and for statements that are no queries.
//! - *I/O*: one runtime that reads files; see [`super::io`].
//!
//! All but those of I/O may have a higher nice value than the process ([`Priority`](corun_model::cache::coschedule::Priority)): others of the
//! process run first then.
//!
//! A thread inherits its parent's mask, so the threads a pinned one starts for blocking work are given the mask of the process
//! back. Where a CPU refuses to be pinned to (a control group changed), its thread goes on unpinned, with a warning. Call order:
//! [`Pools::start`], [`Pools::handles`], and at the end [`Pools::stop`], which waits for nothing.

use crate::EngineError;
use corun_model::cache::coschedule::LlcDomain;
use corun_model::cache::partition::Class;
use corun_model::units::CpuId;
use corun_resctrl::partition::Partitioner;
use corun_topology::{affinity, nice};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// How many scheduled tasks a runtime polls before it looks for events, such as the end of the runtime, and for tasks from
/// outside. tokio's 61 and 31 are for short polls; those of a query take milliseconds.
const POLLS_BETWEEN_EVENTS: u32 = 8;

/// Longest wait for the threads of a runtime to show up: longer than a virtual machine stands still.
const START_MAX: Duration = Duration::from_secs(60);

/// Stack of each thread: plans of thousands of operators are walked by calls within calls. Only what is used of it takes memory.
const STACK_BYTES: usize = 32 << 20;

/// Threads that read files. They mostly hand out work to the blocking threads.
const IO_THREADS: usize = 2;

/// The runtimes, and what stops them.
pub(super) struct Pools {
    handles: Handles,
    /// Dropping one ends the thread of a narrow runtime.
    narrow: Vec<oneshot::Sender<()>>,
    others: Vec<Runtime>,
}

/// Where work is handed to the pools. Once they are stopped, work handed over is dropped.
#[derive(Clone)]
pub(super) struct Handles {
    narrow: BTreeMap<CpuId, Handle>,
    /// By domain; `None` where it has a single CPU.
    wide: Vec<Option<Handle>>,
    /// For short queries and statements that are no queries.
    pub(super) short: Handle,
    /// For reading files.
    pub(super) io: Handle,
}

impl Handles {
    /// The runtime of a query that was given these CPUs of a domain.
    pub(super) fn of(&self, domain: usize, cpus: &[CpuId]) -> &Handle {
        let narrow = || cpus.first().and_then(|cpu| self.narrow.get(cpu));
        let handle = match cpus.len() {
            0 | 1 => narrow(),
            _ => self.wide.get(domain).and_then(Option::as_ref),
        };
        // The scheduler gives out what the options named, and for each of these there is a runtime.
        handle.unwrap_or(&self.short)
    }
}

impl Pools {
    /// Starts all threads.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub(super) fn start(
        domains: &[LlcDomain],
        partitioner: Option<&Arc<dyn Partitioner>>,
        nicer: i32,
    ) -> Result<Self, EngineError> {
        let nice = Niceness::of(nicer);
        // Where threads for blocking work may run: everywhere this process may.
        let allowed: Arc<[CpuId]> = affinity::allowed_cpus().unwrap_or_default().into();
        let cpus: Vec<CpuId> = domains.iter().flat_map(|domain| domain.cpus.clone()).collect();
        let short = unpinned("corun-short", cpus.len(), &allowed, partitioner, nice)?;
        let io = unpinned("corun-io", IO_THREADS, &allowed, None, Niceness::of(0))?;
        let handles = Handles {
            narrow: BTreeMap::new(),
            wide: Vec::new(),
            short: short.handle().clone(),
            io: io.handle().clone(),
        };
        let mut pools = Self {
            handles,
            narrow: Vec::new(),
            others: vec![short, io],
        };
        match pools.start_pinned(domains, &cpus, &allowed, partitioner, nice) {
            Ok(()) => Ok(pools),
            Err(error) => {
                pools.stop();
                Err(error)
            }
        }
    }

    fn start_pinned(
        &mut self,
        domains: &[LlcDomain],
        cpus: &[CpuId],
        allowed: &Arc<[CpuId]>,
        partitioner: Option<&Arc<dyn Partitioner>>,
        nice: Niceness,
    ) -> Result<(), EngineError> {
        for &cpu in cpus {
            let (handle, stop) = narrow(cpu, allowed, nice)?;
            self.handles.narrow.insert(cpu, handle);
            self.narrow.push(stop);
        }
        for domain in domains {
            let wide = match domain.cpus.len() {
                1 => None,
                _ => Some(wide(&domain.cpus, allowed, partitioner, nice)?),
            };
            self.handles
                .wide
                .push(wide.as_ref().map(|runtime| runtime.handle().clone()));
            self.others.extend(wide);
        }
        Ok(())
    }

    pub(super) fn handles(&self) -> &Handles {
        &self.handles
    }

    /// Drops every task at its next suspension and ends the threads, without waiting for any.
    pub(super) fn stop(self) {
        drop(self.narrow);
        for runtime in self.others {
            runtime.shutdown_background();
        }
    }
}

/// One thread pinned to one CPU.
fn narrow(
    cpu: CpuId,
    allowed: &Arc<[CpuId]>,
    nice: Niceness,
) -> Result<(Handle, oneshot::Sender<()>), EngineError> {
    let free = Arc::clone(allowed);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .thread_name(format!("corun-cpu{cpu}+"))
        .thread_stack_size(STACK_BYTES)
        .event_interval(POLLS_BETWEEN_EVENTS)
        .global_queue_interval(POLLS_BETWEEN_EVENTS)
        // Called for its blocking threads only.
        .on_thread_start(move || {
            run_on(&free);
            nice.apply();
        })
        .build()
        .map_err(cannot_start)?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = std::thread::Builder::new()
        .name(format!("corun-cpu{cpu}"))
        .stack_size(STACK_BYTES);
    let body = move || {
        run_on(&[cpu]);
        nice.apply();
        runtime.block_on(async {
            // An error says that the sender is gone, which is what it is for.
            let _ = stopped.await;
        });
        runtime.shutdown_background();
    };
    thread.spawn(body).map_err(cannot_start)?;
    Ok((handle, stop))
}

/// A thread pinned to each CPU of a domain.
fn wide(
    cpus: &[CpuId],
    allowed: &Arc<[CpuId]>,
    partitioner: Option<&Arc<dyn Partitioner>>,
    nice: Niceness,
) -> Result<Runtime, EngineError> {
    let (here, arrived) = mpsc::channel();
    let (places, free) = (cpus.to_vec(), Arc::clone(allowed));
    let assigned = partitioner.cloned();
    let place = AtomicUsize::new(0);
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .worker_threads(cpus.len())
        .thread_name(format!("corun-wide{}", cpus[0]))
        .thread_stack_size(STACK_BYTES)
        .event_interval(POLLS_BETWEEN_EVENTS)
        .global_queue_interval(POLLS_BETWEEN_EVENTS)
        // Workers and threads for blocking work alike: which one a thread will be is not known yet.
        .on_thread_start(move || {
            run_on(&free);
            nice.apply();
            // A wide query is alone in its cache: nobody there needs to be protected from it.
            assign(assigned.as_ref(), Class::Default);
        })
        // Only workers park, and each does before there is work.
        .on_thread_park(move || {
            if !PLACED.replace(true)
                && let Some(&cpu) = places.get(place.fetch_add(1, Ordering::Relaxed))
            {
                run_on(&[cpu]);
                let _ = here.send(());
            }
        })
        .build()
        .map_err(cannot_start)?;
    for _ in cpus {
        if arrived.recv_timeout(START_MAX).is_err() {
            tracing::warn!(
                cpus = cpus.len(),
                "threads of a cache domain start slowly; they are pinned later"
            );
            break;
        }
    }
    Ok(runtime)
}

/// Threads on any CPU.
fn unpinned(
    name: &str,
    threads: usize,
    allowed: &Arc<[CpuId]>,
    partitioner: Option<&Arc<dyn Partitioner>>,
    nice: Niceness,
) -> Result<Runtime, EngineError> {
    let free = Arc::clone(allowed);
    let partitioner = partitioner.cloned();
    Builder::new_multi_thread()
        .enable_all()
        .worker_threads(threads.max(1))
        .thread_name(name)
        .thread_stack_size(STACK_BYTES)
        .on_thread_start(move || {
            // The caller may be pinned itself.
            run_on(&free);
            nice.apply();
            assign(partitioner.as_ref(), Class::Default);
        })
        .build()
        .map_err(cannot_start)
}

fn cannot_start(error: std::io::Error) -> EngineError {
    EngineError::new("cannot start the threads of the coordinator")
        .with_detail(error.to_string())
        .with_hint("is the limit of processes and threads of this user or control group reached?")
}

/// The nice value of threads: that of the thread which starts the pools, and something more. Without privileges it can only grow.
#[derive(Clone, Copy)]
struct Niceness(Option<i32>);

impl Niceness {
    fn of(more: i32) -> Self {
        Niceness((more > 0).then(|| nice::current().map_or(more, |own| own + more)))
    }

    /// Gives it to the calling thread.
    fn apply(self) {
        if let Some(value) = self.0
            && let Err(error) = nice::set(value)
        {
            tracing::warn!(%error, "a thread for queries does not give way to others");
        }
    }
}

/// Moves the calling thread to these CPUs, if it can be.
fn run_on(cpus: &[CpuId]) {
    if cpus.is_empty() {
        return;
    }
    if let Err(error) = affinity::allow(cpus) {
        tracing::warn!(%error, "a thread for queries stays where it is");
    }
}

thread_local! {
    /// Whether the thread, a worker of a domain, was given its CPU.
    static PLACED: Cell<bool> = const { Cell::new(false) };
    /// The class the thread was last assigned to.
    static ASSIGNED: Cell<Option<Class>> = const { Cell::new(None) };
}

/// Gives the calling thread, which belongs to one coordinator, the cache share of a class, unless it has that already.
pub(super) fn assign(partitioner: Option<&Arc<dyn Partitioner>>, class: Class) {
    let Some(partitioner) = partitioner else {
        return;
    };
    if ASSIGNED.get() == Some(class) {
        return;
    }
    match partitioner.assign_current_thread(class) {
        Ok(()) => ASSIGNED.set(Some(class)),
        Err(error) => tracing::warn!(%error, ?class, "a thread keeps its old share of the cache"),
    }
}
