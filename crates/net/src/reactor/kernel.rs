//! A connection of the kernel inside a reactor, TCP or unix alike.

use std::io::{self, Read};
use std::mem::size_of;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use socket2::{Domain, SockAddr, SockRef, Socket, TcpKeepalive, Type};

use super::stream::{Peer, Stream, TcpOptions};
use super::{Address, not_real};

/// A connection.
#[derive(Debug)]
pub(super) struct KernelStream {
    socket: Socket,
    is_tcp: bool,
}

impl KernelStream {
    /// Makes a stream fit for a reactor, one that waits for the kernel or one for io_uring.
    pub fn new(stream: Stream, nonblocking: bool) -> io::Result<Self> {
        let (socket, is_tcp) = match stream {
            Stream::Tcp(stream) => (Socket::from(stream), true),
            Stream::Unix(stream) => (Socket::from(stream), false),
            Stream::Simulated(_) => return Err(not_real()),
        };
        socket.set_nonblocking(nonblocking)?;
        Ok(Self { socket, is_tcp })
    }

    /// A socket to connect with, with buffers of this size over TCP, and where to.
    pub fn for_address(address: &Address, buffer_bytes: Option<usize>) -> io::Result<(Self, SockAddr)> {
        let (domain, target) = match address {
            Address::Tcp(address) => (Domain::for_address(*address), SockAddr::from(*address)),
            Address::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
        };
        let socket = Socket::new(domain, Type::STREAM.nonblocking().cloexec(), None)?;
        let is_tcp = matches!(address, Address::Tcp(_));
        if is_tcp {
            socket.set_tcp_nodelay(true)?;
            set_buffers(&socket, buffer_bytes)?;
        }
        Ok((Self { socket, is_tcp }, target))
    }

    /// Begins to connect.
    pub fn connect(&self, target: &SockAddr) -> io::Result<()> {
        match self.socket.connect(target) {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
            other => other,
        }
    }

    /// What became of a connection attempt; None while it goes on.
    pub fn connected(&self) -> Option<io::Result<()>> {
        match self.socket.take_error() {
            Err(error) | Ok(Some(error)) => return Some(Err(error)),
            Ok(None) => {}
        }
        match self.socket.peer_addr() {
            Ok(_) => Some(Ok(())),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => None,
            Err(error) => Some(Err(error)),
        }
    }

    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.socket).read(buffer)
    }

    /// Reads without waiting, whatever the socket's mode.
    pub fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the kernel writes at most the given number of bytes into `buffer`.
        let count = unsafe {
            libc::recv(
                self.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_DONTWAIT,
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// For io_uring: a request on a non-blocking socket fails where it should wait.
    pub fn set_blocking(&self) -> io::Result<()> {
        self.socket.set_nonblocking(false)
    }

    pub fn shutdown_write(&self) {
        // Fails only where the other side has gone already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    pub fn peer(&self) -> Option<Peer> {
        peer(&SockRef::from(&self.socket), self.is_tcp)
    }

    pub fn local(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()?.as_socket()
    }

    pub fn set_tcp_options(&self, options: &TcpOptions) -> io::Result<()> {
        if self.is_tcp {
            set_tcp_options(&SockRef::from(&self.socket), options)
        } else {
            Ok(())
        }
    }

    /// For the next reactor, after [`Self::set_blocking`].
    pub fn into_nonblocking(self) -> io::Result<Stream> {
        self.socket.set_nonblocking(true)?;
        Ok(self.into_stream())
    }

    pub fn into_stream(self) -> Stream {
        let fd = OwnedFd::from(self.socket);
        if self.is_tcp {
            Stream::Tcp(fd.into())
        } else {
            Stream::Unix(fd.into())
        }
    }
}

impl AsFd for KernelStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for KernelStream {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

pub(super) fn peer(socket: &SockRef<'_>, is_tcp: bool) -> Option<Peer> {
    if is_tcp {
        return socket.peer_addr().ok()?.as_socket().map(Peer::Tcp);
    }
    let mut found = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes, the size of `found`, which is plain data.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut bytes,
        )
    };
    (result == 0).then(|| Peer::Unix {
        uid: found.uid,
        gid: found.gid,
        pid: u32::try_from(found.pid).ok().filter(|pid| *pid > 0),
    })
}

pub(super) fn set_tcp_options(socket: &SockRef<'_>, options: &TcpOptions) -> io::Result<()> {
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
    Ok(())
}

/// Sets the sizes of a socket's buffers, if any are given. Before it connects or listens: a connection's two sides agree at its beginning
/// in which steps they tell each other what room there is, and a buffer that is smaller than a step is at a standstill.
pub(super) fn set_buffers(socket: &Socket, bytes: Option<usize>) -> io::Result<()> {
    if let Some(bytes) = bytes {
        socket.set_send_buffer_size(bytes)?;
        socket.set_recv_buffer_size(bytes)?;
    }
    Ok(())
}
