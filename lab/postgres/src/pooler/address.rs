//! [`Address`]: where a server listens, and [`Transport`]: over what its clients come.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use super::client::Stream;
use lab_core::error::BenchError;

/// What clients and poolers come over; in one comparison all use the same, on both of a pooler's sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP over the loopback interface.
    Tcp,
    /// Unix domain sockets.
    Unix,
}

impl Transport {
    /// The word in names of cases and in rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Unix => "unix",
        }
    }
}

/// Where a server listens: on a port of the loopback interface, and on a Unix socket of that number in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Over what it is to be reached.
    pub transport: Transport,
    /// The folder of its Unix socket.
    pub folder: PathBuf,
    /// Its port, also in the name of the Unix socket.
    pub port: u16,
}

/// The longest path the kernel takes for a Unix socket.
const SOCKET_PATH_MAX: usize = 107;

impl Address {
    /// The same server over something else.
    pub fn over(&self, transport: Transport) -> Address {
        Address {
            transport,
            ..self.clone()
        }
    }

    /// The host as libpq, PgBouncer and corun take it: a folder means a Unix socket.
    pub fn host(&self) -> String {
        match self.transport {
            Transport::Tcp => Ipv4Addr::LOCALHOST.to_string(),
            Transport::Unix => self.folder.display().to_string(),
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{}", self.port))
    }

    /// A connection to it, whose reads and writes take at most `patience`.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(&self, patience: Duration) -> std::io::Result<Stream> {
        match self.transport {
            Transport::Tcp => {
                let to = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
                let stream = TcpStream::connect_timeout(&to, patience)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Ok(Stream::Tcp(stream))
            }
            Transport::Unix => {
                let stream = UnixStream::connect(self.socket())?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Ok(Stream::Unix(stream))
            }
        }
    }
}

/// Refuses a folder whose sockets would have longer names than the kernel takes.
///
/// # Errors
/// The same.
pub fn short_enough(folder: &Path) -> Result<(), BenchError> {
    let length = folder.join(".s.PGSQL.65535").as_os_str().len();
    if length <= SOCKET_PATH_MAX {
        return Ok(());
    }
    Err(BenchError::BadArgument(format!(
        "{} is too long for the names of Unix sockets ({length} bytes of {SOCKET_PATH_MAX}); set TMPDIR to a shorter folder",
        folder.display()
    )))
}

/// Below the ports that the kernel gives to clients, so that no connection takes one away between the look and the server's start.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A port of the loopback interface that nobody listens on, another one at each call.
///
/// # Errors
/// When all are taken.
pub fn free_port() -> Result<u16, BenchError> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    // Runs of several suites at a time look in different places first.
    let start = (std::process::id().wrapping_mul(97) % u32::from(span)) as u16;
    for _ in 0..span {
        let offset = u32::from(start) + u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + (offset % u32::from(span)) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(BenchError::Machine(format!(
        "no free port of the loopback interface between {} and {}",
        PORTS.start, PORTS.end
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_free_and_given_once() {
        let (first, second) = (free_port().expect("a port"), free_port().expect("another"));
        assert_ne!(first, second);
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).expect("it was free");
        assert_ne!(free_port().expect("a third"), first);
    }

    #[test]
    fn a_unix_address_is_its_folder() {
        let tcp = Address {
            transport: Transport::Tcp,
            folder: "/run/a".into(),
            port: 20_001,
        };
        assert_eq!(tcp.host(), "127.0.0.1");
        let unix = tcp.over(Transport::Unix);
        assert_eq!(
            (unix.host(), unix.socket()),
            ("/run/a".to_owned(), "/run/a/.s.PGSQL.20001".into())
        );
        assert!(unix.connect(Duration::from_secs(1)).is_err());
        assert!(short_enough(Path::new("/tmp/corun-1")).is_ok());
        assert!(
            short_enough(Path::new(&format!("/tmp/{}", "x".repeat(100))))
                .is_err_and(|error| error.is_usage())
        );
    }
}
