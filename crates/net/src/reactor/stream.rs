//! One connection, outside of any reactor: what it is, who is at its other end, how TCP treats it.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use socket2::SockRef;

use super::kernel;
use super::twin::End;

/// A connection that is in no reactor.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a unix socket.
    Unix(UnixStream),
    /// Of a simulated network.
    Simulated(End),
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
}

impl Stream {
    /// Who is at the other end; None when the connection has already gone.
    pub fn peer(&self) -> Option<Peer> {
        match self {
            Self::Tcp(stream) => kernel::peer(&SockRef::from(stream), true),
            Self::Unix(stream) => kernel::peer(&SockRef::from(stream), false),
            Self::Simulated(end) => Some(end.peer()),
        }
    }

    /// Our own address, over TCP.
    pub fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            Self::Unix(_) => None,
            Self::Simulated(end) => end.local(),
        }
    }

    /// Sets options of a TCP connection; does nothing for others.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_tcp_options(&self, options: &TcpOptions) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => kernel::set_tcp_options(&SockRef::from(stream), options),
            Self::Unix(_) | Self::Simulated(_) => Ok(()),
        }
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
