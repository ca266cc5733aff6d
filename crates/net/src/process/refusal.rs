//! Why a backend is not bound.

use std::io;
use std::net::SocketAddr;

use corun_model::units::CpuId;
use thiserror::Error;

/// Why a backend is not bound to a core. Its connection works all the same.
#[derive(Debug, Error)]
pub enum Refusal {
    /// The server is on another machine.
    #[error("the server at {server} is not on this machine")]
    Remote {
        /// Its address.
        server: SocketAddr,
    },
    /// The kernel does not show us who listens at a unix socket.
    #[error(
        "the process that listens at the server's unix socket is in another process namespace, as in a container"
    )]
    ListenerUnknown,
    /// Nobody has this number.
    #[error(
        "there is no process {pid} here: the server is in a container or behind another pooler, or the backend has ended"
    )]
    NoSuchProcess {
        /// The number the server told.
        pid: u32,
    },
    /// It is in a namespace below ours, where it has another number.
    #[error("process {pid} is in another process namespace, so it is not the one the server means")]
    OtherNamespace {
        /// The number the server told.
        pid: u32,
    },
    /// It is no child of the process that listens.
    #[error("process {pid} was started by {parent}, not by the server's process {listener}")]
    OtherParent {
        /// The number the server told.
        pid: u32,
        /// Its parent.
        parent: u32,
        /// The process that listens at the unix socket.
        listener: u32,
    },
    /// Its title does not name our connection.
    #[error("process {pid} ({title:?}) is not the backend of our connection from port {port}")]
    OtherTitle {
        /// The number the server told.
        pid: u32,
        /// What it calls itself.
        title: String,
        /// Our port.
        port: u16,
    },
    /// It belongs to another user.
    #[error(
        "process {pid} belongs to user {owner} and this is user {ours} without CAP_SYS_NICE: run as the same user, or grant \
         it (AmbientCapabilities=CAP_SYS_NICE in a systemd unit)"
    )]
    NotPermitted {
        /// The backend.
        pid: u32,
        /// Its user.
        owner: u32,
        /// Ours.
        ours: u32,
    },
    /// The server may not run on that CPU.
    #[error(
        "process {pid} may not run on CPU {cpu}, only on {allowed}: its control group or whoever started it says so"
    )]
    CpuNotAllowed {
        /// The backend.
        pid: u32,
        /// The CPU asked for.
        cpu: CpuId,
        /// Where it may run, as a list such as `0-3,8`.
        allowed: String,
    },
    /// We do not know our own rights.
    #[error("cannot read what this process may do from /proc/self/status: {0}")]
    Rights(#[source] io::Error),
    /// Anything else the kernel says.
    #[error("cannot bind process {pid}: {source}")]
    System {
        /// The backend.
        pid: u32,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}
