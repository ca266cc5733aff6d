//! One connection, outside of any reactor: what it is, who is at its other end, how TCP treats it.

use std::io::{self, Read};
use std::mem::size_of;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use socket2::{Domain, SockAddr, SockRef, Socket, TcpKeepalive, Type};

use super::Address;

/// A connection that is in no reactor.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a unix socket.
    Unix(UnixStream),
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// An address and port.
    Tcp(SocketAddr),
    /// A process of this machine, as the kernel knows it: of a connection we made, the one that listens; of one we
    /// accepted, the one that connected.
    Unix {
        /// Its effective user at that moment.
        uid: u32,
        /// Its effective group at that moment.
        gid: u32,
        /// Its process, None when that is in another namespace of processes.
        pid: Option<u32>,
    },
}

/// When a silent TCP connection is taken for dead. What is None stays as the system has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silence before the first probe; whole seconds.
    pub idle: Option<Duration>,
    /// Between two probes; whole seconds.
    pub interval: Option<Duration>,
    /// Probes without an answer.
    pub count: Option<u32>,
}

/// Options of a TCP connection. What is None stays as the system has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Whether and how dead peers are found out.
    pub keep_alive: Option<KeepAlive>,
    /// How long sent data may stay unacknowledged.
    pub user_timeout: Option<Duration>,
    /// Bytes of the kernel's buffers, each way.
    pub socket_buffer_bytes: Option<usize>,
}

impl Stream {
    /// Who is at the other end; None when the connection has already gone.
    pub fn peer(&self) -> Option<Peer> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok().map(Peer::Tcp),
            Self::Unix(stream) => credentials(stream.as_fd()).ok(),
        }
    }

    /// Our own address, over TCP.
    pub fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    /// Sets options of a TCP connection; does nothing for a unix socket.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_tcp_options(&self, options: &TcpOptions) -> io::Result<()> {
        let Self::Tcp(stream) = self else {
            return Ok(());
        };
        let socket = SockRef::from(stream);
        if let Some(keep_alive) = &options.keep_alive {
            let mut times = TcpKeepalive::new();
            if let Some(idle) = keep_alive.idle {
                times = times.with_time(idle);
            }
            if let Some(interval) = keep_alive.interval {
                times = times.with_interval(interval);
            }
            if let Some(count) = keep_alive.count {
                times = times.with_retries(count);
            }
            socket.set_tcp_keepalive(&times)?;
        }
        if let Some(timeout) = options.user_timeout {
            socket.set_tcp_user_timeout(Some(timeout))?;
        }
        if let Some(bytes) = options.socket_buffer_bytes {
            socket.set_send_buffer_size(bytes)?;
            socket.set_recv_buffer_size(bytes)?;
        }
        Ok(())
    }

    /// A socket that is connecting, has connected or has failed to: the caller learns which.
    pub(super) fn connect(address: &Address) -> io::Result<(Self, io::Result<()>)> {
        let (domain, target) = match address {
            Address::Tcp(address) => (Domain::for_address(*address), SockAddr::from(*address)),
            Address::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
        };
        let socket = Socket::new(domain, Type::STREAM.nonblocking().cloexec(), None)?;
        let result = match socket.connect(&target) {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
            other => other,
        };
        let stream = match address {
            Address::Tcp(_) => {
                socket.set_tcp_nodelay(true)?;
                Self::Tcp(socket.into())
            }
            Address::Unix(_) => Self::Unix(OwnedFd::from(socket).into()),
        };
        Ok((stream, result))
    }

    /// What became of a connection attempt; None while it goes on.
    pub(super) fn connected(&self) -> Option<io::Result<()>> {
        let socket = SockRef::from(self);
        match socket.take_error() {
            Err(error) | Ok(Some(error)) => return Some(Err(error)),
            Ok(None) => {}
        }
        match socket.peer_addr() {
            Ok(_) => Some(Ok(())),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Makes it fit for a reactor.
    pub(super) fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)
            }
            Self::Unix(stream) => stream.set_nonblocking(true),
        }
    }

    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).read(buffer),
            Self::Unix(stream) => (&*stream).read(buffer),
        }
    }

    pub(super) fn shutdown_write(&self) {
        // Fails only where the other side has gone already.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        Self::Unix(stream)
    }
}

fn credentials(fd: BorrowedFd<'_>) -> io::Result<Peer> {
    let mut found = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes, the size of `found`, which is plain data.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut bytes,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer::Unix {
        uid: found.uid,
        gid: found.gid,
        pid: u32::try_from(found.pid).ok().filter(|pid| *pid > 0),
    })
}
