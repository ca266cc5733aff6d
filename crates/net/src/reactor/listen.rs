//! Listening sockets: how they are made, and what a new connection is.

use std::fs;
use std::io;
use std::mem::size_of;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::kernel::KernelStream;
use super::stream::Stream;
use super::twin::Gate;
use super::{Address, not_real};

/// A socket that others connect to.
#[derive(Debug)]
pub enum Listener {
    /// Over TCP.
    Tcp(TcpListener),
    /// Over a unix socket.
    Unix(UnixListener),
    /// Of a simulated network.
    Simulated(Gate),
}

/// How a listener is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted; the kernel has its own limit (`net.core.somaxconn`).
    pub backlog: u32,
    /// Whether other processes of this user may listen at the same TCP address, and the kernel shares connections out.
    pub reuse_port: bool,
    /// How long the kernel keeps a TCP connection to itself until its first bytes arrive; whole seconds.
    pub defer_accept: Option<Duration>,
    /// Permissions of a unix socket's file.
    pub mode: u32,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            backlog: 1024,
            reuse_port: false,
            defer_accept: None,
            mode: 0o777,
        }
    }
}

impl Listener {
    /// Listens at a TCP address; port 0 is one that is free.
    ///
    /// # Errors
    /// When the address is not ours or somebody listens there.
    pub fn tcp(address: SocketAddr, options: &ListenOptions) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM.nonblocking().cloexec(),
            None,
        )?;
        // Connections of a process that ended a moment ago would keep the port for a minute.
        socket.set_reuse_address(true)?;
        if options.reuse_port {
            socket.set_reuse_port(true)?;
        }
        if address.is_ipv6() {
            // An IPv4 address is listened at by its own name.
            socket.set_only_v6(true)?;
        }
        socket.bind(&SockAddr::from(address))?;
        if let Some(wait) = options.defer_accept {
            defer_accept(&socket, wait)?;
        }
        socket.listen(backlog(options))?;
        Ok(Self::Tcp(socket.into()))
    }

    /// Listens at a path. A socket that nobody listens at any more is replaced.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] when somebody listens there or it is no socket; others from the file system.
    pub fn unix(path: &Path, options: &ListenOptions) -> io::Result<Self> {
        clear(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
        socket.bind(&SockAddr::unix(path)?)?;
        // Nobody can connect before `listen`, so nobody comes in between by the wrong permissions.
        fs::set_permissions(path, fs::Permissions::from_mode(options.mode))?;
        socket.listen(backlog(options))?;
        Ok(Self::Unix(OwnedFd::from(socket).into()))
    }

    /// The TCP address listened at.
    pub fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(_) => None,
            Self::Simulated(gate) => gate.local(),
        }
    }

    /// The descriptor, made non-blocking or, for io_uring, blocking.
    pub(super) fn prepare(&self, nonblocking: bool) -> io::Result<RawFd> {
        match self {
            Self::Tcp(listener) => listener
                .set_nonblocking(nonblocking)
                .map(|()| listener.as_raw_fd()),
            Self::Unix(listener) => listener
                .set_nonblocking(nonblocking)
                .map(|()| listener.as_raw_fd()),
            Self::Simulated(_) => Err(not_real()),
        }
    }

    pub(super) fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
            Self::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Self::Simulated(_) => Err(not_real()),
        }
    }
}

fn backlog(options: &ListenOptions) -> i32 {
    i32::try_from(options.backlog).unwrap_or(i32::MAX)
}

fn defer_accept(socket: &Socket, wait: Duration) -> io::Result<()> {
    let seconds = libc::c_int::try_from(wait.as_secs()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads one integer of the size given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Removes the socket of a process that has ended.
fn clear(path: &Path) -> io::Result<()> {
    let in_use = |what: &str| io::Error::new(io::ErrorKind::AddrInUse, format!("{}: {what}", path.display()));
    let kind = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?.file_type(),
    };
    if !kind.is_socket() {
        return Err(in_use("is there already and is no socket"));
    }
    // Without waiting: a live listener may be too busy to take another connection.
    let (socket, target) = KernelStream::for_address(&Address::Unix(path.to_owned()))?;
    match socket.connect(&target) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Err(in_use("another process listens there")),
    }
}
