//! Where servers are: names, addresses, folders of Unix sockets.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::values::ListItem;

/// One place to connect to, before its port is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A name to resolve.
    Name(String),
    /// An address.
    Ip(IpAddr),
    /// The folder of a Unix socket; `@` in front means the abstract namespace.
    Directory(PathBuf),
}

impl Host {
    /// Reads one host.
    ///
    /// # Errors
    /// Says what a host looks like.
    pub fn parse(text: &str) -> Result<Host, String> {
        let text = text.trim();
        if text.starts_with('/') || text.starts_with('@') {
            return Ok(Host::Directory(PathBuf::from(text)));
        }
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(text);
        if let Ok(address) = bare.parse() {
            return Ok(Host::Ip(address));
        }
        let plausible = !text.is_empty()
            && text.len() <= 253
            && text
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'));
        if plausible {
            Ok(Host::Name(text.to_owned()))
        } else {
            Err("a host name, an IP address, or the folder of a Unix socket".to_owned())
        }
    }

    /// Whether that is this machine for sure.
    pub fn is_here(&self) -> bool {
        match self {
            Host::Name(name) => name.eq_ignore_ascii_case("localhost"),
            Host::Ip(address) => address.is_loopback(),
            Host::Directory(_) => true,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Ip(address) => address.fmt(f),
            Host::Directory(folder) => folder.display().fmt(f),
        }
    }
}

impl ListItem for Host {
    const LIST_KIND: &'static str =
        "hosts: names, addresses or folders of Unix sockets; one, or several as a list";
    const LIST_EXPECTED: &'static str = "a host in quotes, or an array of hosts";

    fn item(text: &str) -> Result<Self, String> {
        Host::parse(text)
    }
}

/// One place to connect to; the port is the database's where it is not given.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Where.
    pub host: Host,
    /// Which port, if it was said.
    pub port: Option<u16>,
}

impl HostPort {
    /// Reads `host`, `host:port`, `[address]:port` or `/folder:port`.
    ///
    /// # Errors
    /// Says what it looks like.
    pub fn parse(text: &str) -> Result<HostPort, String> {
        let expected =
            || "a host with or without a port, such as \"replica1:5432\" or \"[::1]:5432\"".to_owned();
        let text = text.trim();
        // An address of version 6 has colons of its own.
        if let Ok(address) = text.parse() {
            return Ok(HostPort {
                host: Host::Ip(address),
                port: None,
            });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => {
                let port = port.parse().ok().filter(|port| *port > 0);
                (host, Some(port.ok_or_else(expected)?))
            }
            None => (text, None),
        };
        let host = Host::parse(host).map_err(|_| expected())?;
        Ok(HostPort { host, port })
    }

    /// With the database's port where it has none.
    pub fn endpoint(&self, port: u16) -> Endpoint {
        Endpoint {
            host: self.host.clone(),
            port: self.port.unwrap_or(port),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => self.endpoint(port).fmt(f),
            None => self.host.fmt(f),
        }
    }
}

impl ListItem for HostPort {
    const LIST_KIND: &'static str = "list of \"host\" or \"host:port\"";
    const LIST_EXPECTED: &'static str = "an array of texts such as \"replica1:5432\"";

    fn item(text: &str) -> Result<Self, String> {
        HostPort::parse(text)
    }
}

/// One server: where it is and its port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Where.
    pub host: Host,
    /// Which port.
    pub port: u16,
}

impl Endpoint {
    /// The Unix socket PostgreSQL makes for this port, where the host is a folder.
    pub fn socket(&self) -> Option<PathBuf> {
        match &self.host {
            Host::Directory(folder) => Some(socket_in(folder, self.port)),
            Host::Name(_) | Host::Ip(_) => None,
        }
    }
}

/// The name of the Unix socket of a port in a folder, as PostgreSQL and its clients make it.
pub fn socket_in(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!(".s.PGSQL.{port}"))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}
