//! Giving a process of somebody else its core: the PostgreSQL backend behind a connection of ours.
//!
//! Order of calls: [`verify_backend`] with the process number the server told and the way it was reached; the [`Backend`] it
//! returns is bound with [`bind`], again with another core when it is to move, and let go with [`unbind`]. Its parallel workers are found by
//! a [`Search`]. Each "no" is a
//! [`Refusal`] that says why; none of them hinders anybody from using the connection.
//!
//! A number told by a server means nothing by itself: the server may be in a container, on another machine or behind
//! another pooler, and the number then names some process of ours. It is believed only when what the kernel says agrees.
//!
//! Not here: which core a backend should have; what a process does.

mod refusal;
mod simulated;
mod system;
mod workers;

use std::io;
use std::net::SocketAddr;

use corun_model::units::CpuId;

pub use refusal::Refusal;
pub use simulated::SimulatedProcesses;
pub use system::SystemProcesses;
pub use workers::{Search, Worker};

/// Processes as the kernel shows them to us: those of the machine ([`SystemProcesses`]) or a test's
/// ([`SimulatedProcesses`]).
pub trait Processes {
    /// What is known of a process.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when there is none with this number.
    fn status(&self, pid: u32) -> io::Result<Status>;

    /// What we are allowed to.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn rights(&self) -> io::Result<Rights>;

    /// Processes that this one started, as far as they are to be seen.
    ///
    /// # Errors
    /// When it has ended, or the kernel does not tell.
    fn children(&self, pid: u32) -> io::Result<Vec<u32>>;

    /// CPUs the process may run on, ascending.
    ///
    /// # Errors
    /// When it has ended.
    fn cpus(&self, pid: u32) -> io::Result<Vec<CpuId>>;

    /// Lets all threads of the process run on these CPUs only.
    ///
    /// # Errors
    /// When it has ended, we may not, or its control group has none of these CPUs.
    fn set_cpus(&self, pid: u32, cpus: &[CpuId]) -> io::Result<()>;
}

/// What is known of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The process that started it.
    pub parent: u32,
    /// Its real user.
    pub real_uid: u32,
    /// Its effective user.
    pub effective_uid: u32,
    /// Its arguments, joined by blanks; PostgreSQL writes there what it is doing.
    pub title: String,
    /// When it was started, in ticks since the machine was: tells processes with the same number apart.
    pub started: u64,
    /// Whether it knows itself by another number, in a namespace of processes below ours.
    pub nested: bool,
}

/// What we are allowed to do to processes of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Our effective user.
    pub uid: u32,
    /// Whether we have `CAP_SYS_NICE`.
    pub nice: bool,
}

/// How the server was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Over TCP.
    Tcp {
        /// Our address.
        local: SocketAddr,
        /// The server's.
        peer: SocketAddr,
    },
    /// Over a unix socket.
    Unix {
        /// The process that listens there, as the socket's credentials say.
        listener: Option<u32>,
    },
}

/// A process that is the backend it claims to be, and that we may bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its number.
    pub pid: u32,
    /// CPUs its server may run on: control groups and whoever started the server have decided that.
    pub cpus: Vec<CpuId>,
    started: u64,
}

/// Whether this number is the backend at the other end of a connection, and whether we may bind it.
///
/// Over a unix socket its parent must be the process that listens; over TCP its title must name our port, which PostgreSQL
/// writes there when the connection begins.
///
/// # Errors
/// The reason why it is not, or not certainly.
pub fn verify_backend(processes: &dyn Processes, pid: u32, route: &Route) -> Result<Backend, Refusal> {
    match *route {
        Route::Tcp { local, peer } if !peer.ip().is_loopback() && peer.ip() != local.ip() => {
            return Err(Refusal::Remote { server: peer });
        }
        Route::Unix { listener: None } => return Err(Refusal::ListenerUnknown),
        _ => {}
    }
    let status = status(processes, pid)?;
    if status.nested {
        return Err(Refusal::OtherNamespace { pid });
    }
    match *route {
        Route::Unix { listener } => {
            if Some(status.parent) != listener {
                return Err(Refusal::OtherParent {
                    pid,
                    parent: status.parent,
                    listener: listener.unwrap_or_default(),
                });
            }
        }
        Route::Tcp { local, .. } => {
            if !names_port(&status.title, local.port()) {
                return Err(Refusal::OtherTitle {
                    pid,
                    title: status.title,
                    port: local.port(),
                });
            }
        }
    }
    let rights = processes.rights().map_err(Refusal::Rights)?;
    // The kernel's rule for `sched_setaffinity`.
    if !rights.nice && rights.uid != status.effective_uid && rights.uid != status.real_uid {
        return Err(Refusal::NotPermitted {
            pid,
            owner: status.effective_uid,
            ours: rights.uid,
        });
    }
    // The backend's own mask may be what another proxy made of it; nobody binds the server itself but its owner.
    let cpus = processes
        .cpus(status.parent)
        .map_err(|source| Refusal::System { pid, source })?;
    Ok(Backend {
        pid,
        cpus,
        started: status.started,
    })
}

/// Lets a backend run on this CPU only, and reads back whether it does.
///
/// # Errors
/// When its server may not run there, it has ended, or the kernel refuses. Its CPUs are as they were then.
pub fn bind(processes: &dyn Processes, backend: &Backend, cpu: CpuId) -> Result<(), Refusal> {
    if !backend.cpus.contains(&cpu) {
        return Err(not_allowed(backend, cpu));
    }
    set(processes, backend, &[cpu], cpu)?;
    let found = processes.cpus(backend.pid).map_err(|source| Refusal::System {
        pid: backend.pid,
        source,
    })?;
    if found != [cpu] {
        return Err(not_allowed(backend, cpu));
    }
    Ok(())
}

/// Gives a backend the CPUs of its server again.
///
/// # Errors
/// When it has ended or the kernel refuses.
pub fn unbind(processes: &dyn Processes, backend: &Backend) -> Result<(), Refusal> {
    let first = backend.cpus.first().copied().unwrap_or(CpuId(0));
    set(processes, backend, &backend.cpus, first)
}

/// Whether a process is still the backend that was verified: another may have got its number.
pub fn is_still(processes: &dyn Processes, backend: &Backend) -> bool {
    processes
        .status(backend.pid)
        .is_ok_and(|status| status.started == backend.started)
}

fn set(processes: &dyn Processes, backend: &Backend, cpus: &[CpuId], cpu: CpuId) -> Result<(), Refusal> {
    let pid = backend.pid;
    // Another process may have got its number meanwhile. Between here and the next call it could still: its owner allows
    // us to bind it, and it is unbound as little as this one would be.
    if status(processes, pid)?.started != backend.started {
        return Err(Refusal::NoSuchProcess { pid });
    }
    set_cpus(processes, backend, pid, cpus, cpu)
}

/// Binds a process of a backend's server; `cpu` is named where none of the CPUs may be used.
fn set_cpus(
    processes: &dyn Processes,
    backend: &Backend,
    pid: u32,
    cpus: &[CpuId],
    cpu: CpuId,
) -> Result<(), Refusal> {
    processes
        .set_cpus(pid, cpus)
        .map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Refusal::NoSuchProcess { pid },
            io::ErrorKind::InvalidInput => not_allowed(backend, cpu),
            _ => Refusal::System { pid, source },
        })
}

fn status(processes: &dyn Processes, pid: u32) -> Result<Status, Refusal> {
    processes.status(pid).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Refusal::NoSuchProcess { pid },
        _ => Refusal::System { pid, source },
    })
}

fn not_allowed(backend: &Backend, cpu: CpuId) -> Refusal {
    Refusal::CpuNotAllowed {
        pid: backend.pid,
        cpu,
        allowed: corun_model::cpulist::format(&backend.cpus),
    }
}

/// Whether a title such as `postgres: bench shop 127.0.0.1(54321) idle` is of a connection from this port. The host may be
/// an address or, with `log_hostname`, a name.
fn names_port(title: &str, port: u16) -> bool {
    let suffix = format!("({port})");
    let mut words = title.split_ascii_whitespace();
    words.next().is_some_and(|first| first.ends_with("postgres:"))
        && words.any(|word| word.ends_with(&suffix))
}

#[cfg(test)]
mod tests {
    use super::names_port;

    #[test]
    fn titles() {
        for title in [
            "postgres: bench shop 127.0.0.1(54321) idle",
            "postgres: 15/main: bench shop ::1(54321) SELECT",
            "postgres: bench shop localhost(54321) idle in transaction",
            "edb-postgres: a b 10.0.0.7(54321)",
        ] {
            assert!(names_port(title, 54321), "{title}");
            assert!(!names_port(title, 5432) && !names_port(title, 4321), "{title}");
        }
        for title in [
            "",
            "vi (54321)",
            "postgres: bench shop [local] idle",
            "postgres: checkpointer",
        ] {
            assert!(!names_port(title, 54321), "{title}");
        }
    }
}
