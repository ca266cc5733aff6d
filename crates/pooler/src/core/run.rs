//! [`Pooler`]: threads, listeners, and what the program does with them.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use corun_model::pooler::split::{Core, reserved};
use corun_model::units::CpuId;
use corun_net::reactor::{Epoll, ListenOptions, Listener, Reactor, SocketFile, Uring};
use corun_resctrl::partition::Partitioner;
use corun_topology::affinity;

use crate::config::{AutoCount, Io, Switch};
use crate::core::config_files::ConfigFiles;
use crate::core::console::ask::{Answers, Order, Tell};
use crate::core::console::metrics;
use crate::core::event_loop::{EventLoop, listener_token};
use crate::core::heavy_queue::Machine;
use crate::core::route::places::{Place, places};
use crate::core::shared::Shared;

/// A proxy that runs.
pub struct Pooler {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    addresses: Vec<SocketAddr>,
    sockets: Vec<SocketFile>,
    metrics: Option<SocketAddr>,
}

/// Why it does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened at.
    #[error("cannot listen at {place}: {error}\nhint: {hint}")]
    Listen {
        /// Where.
        place: String,
        /// Why.
        error: std::io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// Nothing to listen at.
    #[error("nothing to listen at\nhint: set listen_addr, unix_socket_dir, or both")]
    Nowhere,
    /// The system refuses something.
    #[error("cannot start {what}: {error}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        error: std::io::Error,
    },
    /// No random numbers.
    #[error("the system gives no random numbers, which logins need")]
    Random,
}

impl Pooler {
    /// Listens and starts the event loops.
    ///
    /// # Errors
    /// When an address is taken, or the system refuses threads or descriptors.
    pub fn start(files: ConfigFiles) -> Result<Self, StartError> {
        Self::start_on(files, Machine::This)
    }

    /// The same with another way to keep weak queries of the queue out of the last-level cache than the machine's own: for tests, a
    /// resctrl in memory.
    ///
    /// # Errors
    /// As [`Pooler::start`].
    pub fn start_partitioned(
        files: ConfigFiles,
        partitioner: Arc<dyn Partitioner>,
    ) -> Result<Self, StartError> {
        Self::start_on(files, Machine::Partitioned(partitioner))
    }

    fn start_on(files: ConfigFiles, machine: Machine) -> Result<Self, StartError> {
        let files = Arc::new(files);
        // This one first, and the Unix socket last of all that can fail: a process that does not start after all must not have taken
        // connections from another one.
        let metrics = files.config.corun.prometheus_listen;
        let metrics = metrics
            .map(|address| listen_for_metrics(&files, address))
            .transpose()?;
        let loops = match files.config.corun.event_loops {
            AutoCount::Auto => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            AutoCount::Count(count) => count as usize,
        };
        let shared = Shared::new(loops, Arc::clone(&files), machine).ok_or(StartError::Random)?;
        let shared = Arc::new(shared);
        shared.open_heavy_queue(&files.config);
        let mut pooler = Self {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
            addresses: Vec::new(),
            sockets: Vec::new(),
            metrics: metrics.as_ref().and_then(Listener::local),
        };
        let Cores { simple, complex } = cores(&files);
        let mut ready = Vec::new();
        for (index, place) in places(&simple, loops).into_iter().enumerate() {
            let setup = Setup {
                index,
                shared: Arc::clone(&shared),
                place,
                cpus: simple.iter().map(|(cpu, _)| *cpu).collect(),
                complex: complex.clone(),
                pin: files.config.corun.pin,
            };
            ready.push(setup.over(files.config.corun.io)?);
        }
        if let Some(listener) = metrics {
            let thread = metrics::serve(listener, shared);
            pooler.threads.push(thread.map_err(|error| StartError::System {
                what: "the metrics",
                error,
            })?);
        }
        let (listeners, addresses, sockets) = listen(&files)?;
        pooler.addresses = addresses;
        pooler.sockets = sockets;
        for (index, Ready { accepts, start }) in ready.into_iter().enumerate() {
            let own = match accepts || index == 0 {
                true => listeners.iter().map(Listener::try_clone).collect(),
                false => Ok(Vec::new()),
            };
            let own = own.map_err(|error| StartError::System {
                what: "a listener",
                error,
            })?;
            pooler.threads.push(start(own)?);
        }
        Ok(pooler)
    }

    /// Where TCP connections are accepted.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Unix sockets connections are accepted at.
    pub fn sockets(&self) -> impl Iterator<Item = &Path> {
        self.sockets.iter().map(SocketFile::path)
    }

    /// Where metrics are scraped.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// The configuration in use.
    pub fn files(&self) -> Arc<ConfigFiles> {
        self.shared.files()
    }

    /// Takes over another configuration. What needs a restart stays as it is; the answer names those settings.
    pub fn reload(&self, files: ConfigFiles) -> Vec<&'static str> {
        let changed = self.shared.files().config.restart_needed(&files.config);
        self.shared.open_heavy_queue(&files.config);
        self.shared.change_config(Arc::new(files));
        changed
    }

    /// Takes no new clients, and ends when those there are have left.
    pub fn drain(&self) {
        Answers::ask(&self.shared, &Order::Drain, Tell::Nobody);
    }

    /// Gives nobody a server any more, as `PAUSE` does; `false`: that is so already.
    pub fn pause(&self) -> bool {
        let paused = self.shared.stopped.lock().pause(None);
        Answers::ask(&self.shared, &Order::Pause(None), Tell::Nobody);
        paused
    }

    /// Goes on, as `RESUME` does; `false`: nothing was paused.
    pub fn resume(&self) -> bool {
        let resumed = self.shared.stopped.lock().resume(None);
        Answers::ask(&self.shared, &Order::Resume(None), Tell::Nobody);
        resumed
    }

    /// Whether it ends, now or when its clients have left.
    pub fn is_ending(&self) -> bool {
        self.shared.leaving.load(Ordering::Relaxed)
    }

    /// Ends: no new clients, and those there are when their transactions have ended, or at once.
    pub fn stop(&self, at_once: bool) {
        self.shared.stop(at_once);
    }

    /// Whether every event loop has ended.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits until every event loop has ended.
    pub fn join(mut self) {
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("an event loop panicked");
            }
        }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.stop(true);
        self.sockets.iter().for_each(SocketFile::remove);
    }
}

/// What an event loop begins with.
struct Setup {
    index: usize,
    shared: Arc<Shared>,
    /// Where its backends are bound to.
    place: Place,
    /// All loops' cores.
    cpus: Vec<CpuId>,
    /// The hardware threads for queries in parts.
    complex: Vec<Core>,
    /// Whether it stays there itself.
    pin: bool,
}

/// An event loop that has all it needs.
struct Ready {
    /// It accepts connections, whether or not it is the first one: io_uring wakes one loop for each.
    accepts: bool,
    /// Starts its thread, with what it listens at.
    start: Start,
}

type Start = Box<dyn FnOnce(Vec<Listener>) -> Result<JoinHandle<()>, StartError>>;

impl Setup {
    /// The event loop over what the configuration says; `auto` is io_uring where it can be had and costs nothing while idle.
    fn over(self, io: Io) -> Result<Ready, StartError> {
        let system = |error| StartError::System {
            what: "an event loop",
            error,
        };
        if io != Io::Epoll {
            match Uring::new() {
                Ok(uring) if io == Io::IoUring || uring.waits_idly() => {
                    let start = self.ready(uring, "io_uring", true);
                    return Ok(Ready { accepts: true, start });
                }
                Ok(_) => tracing::info!(
                    "io_uring would show as waiting for disks before Linux 6.15: epoll is used"
                ),
                Err(error) if io == Io::IoUring => return Err(system(error)),
                Err(error) => tracing::info!(%error, "io_uring cannot be had: epoll is used"),
            }
        }
        let start = self.ready(Epoll::new().map_err(system)?, "epoll", false);
        Ok(Ready {
            accepts: false,
            start,
        })
    }

    fn ready<R: Reactor + Send + 'static>(self, mut reactor: R, io: &'static str, all_accept: bool) -> Start {
        self.shared.mailboxes[self.index].attend(reactor.waker());
        let mut event_loop = EventLoop::new(self.index, self.shared);
        event_loop.place.clone_from(&self.place);
        event_loop.ranges.cpus = self.cpus;
        event_loop.splits.cores = self.complex;
        event_loop.io = io;
        event_loop.all_accept = all_accept;
        event_loop.set_clock(&reactor);
        let cpus = if self.pin { self.place.cpus } else { Vec::new() };
        let name = format!("corun-loop-{}", self.index);
        let system = |what| move |error| StartError::System { what, error };
        Box::new(move |listeners| {
            for (number, listener) in listeners.into_iter().enumerate() {
                let is_unix = matches!(listener, Listener::Unix(_));
                reactor
                    .listen(listener_token(number), listener)
                    .map_err(system("a listener"))?;
                event_loop.listeners = number + 1;
                if is_unix {
                    event_loop.unix_listener = Some(number);
                }
            }
            let run = move || run(&mut event_loop, &mut reactor, &cpus);
            std::thread::Builder::new()
                .name(name)
                .spawn(run)
                .map_err(system("a thread"))
        })
    }
}

/// The thread of an event loop, kept on these CPUs if there are any.
fn run<R: Reactor>(event_loop: &mut EventLoop<R>, reactor: &mut R, cpus: &[CpuId]) {
    if !cpus.is_empty()
        && let Err(error) = affinity::allow(cpus)
    {
        tracing::warn!(%error, "an event loop is not kept on its core");
    }
    loop {
        match event_loop.turn(reactor) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                tracing::error!(%error, "an event loop cannot wait for its sockets");
                event_loop.give_up();
                break;
            }
        }
    }
}

/// The CPUs this process may use.
struct Cores {
    /// For event loops and their backends, with their memory nodes.
    simple: Vec<(CpuId, Option<u32>)>,
    /// For the parts of queries: others, where some are kept for them, otherwise the same.
    complex: Vec<Core>,
}

fn cores(files: &ConfigFiles) -> Cores {
    let topology = corun_topology::discover();
    let allowed = affinity::allowed_cpus().unwrap_or_default();
    let first = |cpu: CpuId| {
        let core = topology.cores.iter().find(|core| core.cpus.contains(&cpu))?;
        core.cpus.first().copied().filter(|first| *first != cpu)
    };
    let all: Vec<Core> = allowed
        .into_iter()
        .map(|cpu| Core {
            cpu,
            sibling_of: first(cpu),
        })
        .collect();
    let wanted = match files.config.splits.is_empty() || files.config.corun.split == Switch::Off {
        true => Some(0),
        false => files.config.corun.split_cores.map(|cores| cores as usize),
    };
    let (complex, simple) = reserved(&all, wanted);
    let node = |cpu: CpuId| topology.cpus.iter().find(|found| found.id == cpu)?.numa_node;
    Cores {
        simple: simple
            .iter()
            .map(|&at| (all[at].cpu, node(all[at].cpu)))
            .collect(),
        complex: complex.iter().map(|&at| all[at]).collect(),
    }
}

const SOCKET_HINT: &str = "check that the folder of unix_socket_dir exists and may be written to, and that no other process listens there";
const GROUP_HINT: &str = "unix_socket_group must be a group that this user may give files to; the folder of unix_socket_dir must be writable";

type Listening = (Vec<Listener>, Vec<SocketAddr>, Vec<SocketFile>);

fn listen_for_metrics(files: &ConfigFiles, address: SocketAddr) -> Result<Listener, StartError> {
    let options = ListenOptions {
        reuse_port: files.config.proxy.so_reuseport,
        ipv4_too: true,
        ..ListenOptions::default()
    };
    Listener::tcp(address, &options).map_err(|error| StartError::Listen {
        place: address.to_string(),
        error,
        hint: "see prometheus_listen",
    })
}

fn listen(files: &ConfigFiles) -> Result<Listening, StartError> {
    let proxy = &files.config.proxy;
    let mut options = ListenOptions {
        backlog: proxy.listen_backlog,
        reuse_port: proxy.so_reuseport,
        // An IPv4 address is listened at by its own name.
        ipv4_too: false,
        defer_accept: proxy.tcp_defer_accept.then(|| Duration::from_secs(45)),
        buffer_bytes: files.tcp_buffer(),
        mode: proxy.unix_socket_mode.0,
        group: None,
    };
    let (mut listeners, mut addresses, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
    for name in &proxy.listen_addr {
        let refused = |error| StartError::Listen {
            place: format!("{name}:{}", proxy.listen_port),
            error,
            hint: "another process may listen there, or the address is not this machine's; see listen_addr and listen_port",
        };
        let host = if name == "*" { "0.0.0.0" } else { name };
        for address in (host, proxy.listen_port).to_socket_addrs().map_err(refused)? {
            let listener = Listener::tcp(address, &options).map_err(refused)?;
            addresses.extend(listener.local());
            listeners.push(listener);
        }
    }
    let folder = &proxy.unix_socket_dir;
    if !folder.is_empty() && !folder.starts_with('@') {
        let path = PathBuf::from(folder).join(format!(".s.PGSQL.{}", proxy.listen_port));
        let refused = |hint| {
            let place = path.display().to_string();
            move |error| StartError::Listen { place, error, hint }
        };
        if let Some(group) = &proxy.unix_socket_group {
            let number = corun_net::users::group_id(group);
            let missing = || std::io::Error::other(format!("there is no group \"{group}\""));
            options.group = Some(number.ok_or_else(missing).map_err(refused(GROUP_HINT))?);
        }
        let listener = Listener::unix(&path, &options).map_err(|error| {
            let of_group = options.group.is_some() && error.kind() == std::io::ErrorKind::PermissionDenied;
            refused(if of_group { GROUP_HINT } else { SOCKET_HINT })(error)
        })?;
        listeners.push(listener);
        sockets.extend(SocketFile::hold(&path));
    }
    if listeners.is_empty() {
        return Err(StartError::Nowhere);
    }
    Ok((listeners, addresses, sockets))
}
