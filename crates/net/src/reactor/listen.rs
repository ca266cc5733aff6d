//! Listening sockets: how they are made, and what a new connection is.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::size_of;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use socket2::{Domain, SockAddr, SockFilter, SockRef, Socket, Type};

use super::kernel::{KernelStream, set_buffers};
use super::stream::Stream;
use super::twin::Gate;
use super::{Address, not_real};

/// The bit of a TCP header's flags that asks for a new connection.
const SYN: u32 = 0x02;

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
    /// Whether other processes of this user may listen at the same TCP address, and the kernel shares connections out. A unix socket
    /// is taken over from the process that listens there.
    pub reuse_port: bool,
    /// Whether the IPv6 address of all addresses means those of IPv4, too.
    pub ipv4_too: bool,
    /// How long the kernel keeps a TCP connection to itself until its first bytes arrive; whole seconds.
    pub defer_accept: Option<Duration>,
    /// Size of each of the kernel's buffers of a TCP connection; `None`: the system's.
    pub buffer_bytes: Option<usize>,
    /// Permissions of a unix socket's file.
    pub mode: u32,
    /// The number of the group the file is given to.
    pub group: Option<u32>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            backlog: 1024,
            reuse_port: false,
            ipv4_too: false,
            defer_accept: None,
            buffer_bytes: None,
            mode: 0o777,
            group: None,
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
            socket.set_only_v6(!options.ipv4_too)?;
        }
        // Connections have both from the listener.
        socket.set_tcp_nodelay(true)?;
        set_buffers(&socket, options.buffer_bytes)?;
        socket.bind(&SockAddr::from(address))?;
        if let Some(wait) = options.defer_accept {
            defer_accept(&socket, wait)?;
        }
        socket.listen(backlog(options))?;
        Ok(Self::Tcp(socket.into()))
    }

    /// Listens at a path. A socket that nobody listens at any more is replaced. With `reuse_port` one that somebody listens at is, too:
    /// at no time is there no socket, and connections that the other process has not accepted yet stay its own.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] when somebody listens there and may not be replaced, or it is no socket; others from the file system.
    pub fn unix(path: &Path, options: &ListenOptions) -> io::Result<Self> {
        let own_name = if options.reuse_port {
            is_there(path)?;
            beside(path)
        } else {
            clear(path)?;
            path.to_owned()
        };
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
        socket.bind(&SockAddr::unix(&own_name)?)?;
        let ready = (|| {
            // Nobody can connect before `listen`, so nobody comes in between by the wrong permissions.
            fs::set_permissions(&own_name, fs::Permissions::from_mode(options.mode))?;
            if let Some(group) = options.group {
                chown(&own_name, None, Some(group))?;
            }
            socket.listen(backlog(options))?;
            if own_name != path {
                fs::rename(&own_name, path)?;
            }
            Ok(())
        })();
        if ready.is_err() {
            let _ = fs::remove_file(&own_name);
        }
        ready.map(|()| Self::Unix(OwnedFd::from(socket).into()))
    }

    /// The TCP address listened at.
    pub fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(_) => None,
            Self::Simulated(gate) => gate.local(),
        }
    }

    /// Makes the kernel drop requests for new TCP connections without a word: clients repeat them after a second, and reach another
    /// process that listens at the address if this listener is closed by then. Connections that are being made come through. Closing
    /// at once instead would reset those, and there is no way to let the kernel send new ones elsewhere that works for every number
    /// of processes (`SO_ATTACH_REUSEPORT_CBPF` picks by a position that changes).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn drop_syns(&self) -> io::Result<()> {
        let Self::Tcp(listener) = self else {
            return Ok(());
        };
        // The byte of flags of the TCP header; where SYN is set, no byte of the packet is taken, otherwise all.
        let program = [
            filter(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 13),
            filter(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 1, SYN),
            filter(libc::BPF_RET | libc::BPF_K, 0, 0),
            filter(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
        ];
        SockRef::from(listener).attach_filter(&program)
    }

    /// The same listener for another reactor.
    ///
    /// # Errors
    /// When there are no more descriptors, or it is simulated.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
            Self::Unix(listener) => listener.try_clone().map(Self::Unix),
            Self::Simulated(_) => Err(not_real()),
        }
    }

    /// The descriptor.
    pub(super) fn descriptor(&self) -> io::Result<RawFd> {
        match self {
            Self::Tcp(listener) => Ok(listener.as_raw_fd()),
            Self::Unix(listener) => Ok(listener.as_raw_fd()),
            Self::Simulated(_) => Err(not_real()),
        }
    }

    /// The descriptor, made non-blocking or, for io_uring, blocking.
    pub(super) fn prepare(&self, nonblocking: bool) -> io::Result<RawFd> {
        match self {
            Self::Tcp(listener) => listener.set_nonblocking(nonblocking)?,
            Self::Unix(listener) => listener.set_nonblocking(nonblocking)?,
            Self::Simulated(_) => return Err(not_real()),
        }
        self.descriptor()
    }

    pub(super) fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
            Self::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Self::Simulated(_) => Err(not_real()),
        }
    }
}

/// The file of a Unix socket, held so that no other file gets its number in the meantime.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    held: File,
}

impl SocketFile {
    /// The file that is at this path now.
    ///
    /// # Errors
    /// When there is none.
    pub fn hold(path: &Path) -> io::Result<Self> {
        // Neither read nor written, and not opened as its kind is.
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let held = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let path = path.to_owned();
        Ok(Self { path, held })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, unless another process has put its own there, which must not happen just now.
    pub fn remove(&self) {
        let own = self.held.metadata().ok();
        if let Some((own, named)) = own.zip(fs::symlink_metadata(&self.path).ok())
            && (own.dev(), own.ino()) == (named.dev(), named.ino())
        {
            let _ = fs::remove_file(&self.path);
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

/// One step of a packet filter; where its test fails, so many of the next are left out.
fn filter(code: u32, left_out: u8, value: u32) -> SockFilter {
    SockFilter::new(code as u16, 0, left_out, value)
}

/// A name in the same folder that no other socket of any process has, and not longer than those of PostgreSQL's sockets: paths of
/// sockets are short.
fn beside(path: &Path) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = path.with_file_name(format!(".{:x}.{number:x}", std::process::id()));
    // Of a process that had the same number, and ended in between.
    let _ = fs::remove_file(&name);
    name
}

/// Whether there is a socket, or nothing. Anything else is an error.
fn is_there(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Ok(found) if !found.file_type().is_socket() => Err(in_use(path, "is there already and is no socket")),
        other => other.map(|_| true),
    }
}

fn in_use(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, format!("{}: {what}", path.display()))
}

/// Removes the socket of a process that has ended.
fn clear(path: &Path) -> io::Result<()> {
    if !is_there(path)? {
        return Ok(());
    }
    // Without waiting: a live listener may be too busy to take another connection.
    let (socket, target) = KernelStream::for_address(&Address::Unix(path.to_owned()), None)?;
    match socket.connect(&target) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Err(in_use(path, "another process listens there")),
    }
}
