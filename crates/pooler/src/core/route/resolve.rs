//! [`Resolver`]: addresses of host names, looked up aside so that no event loop waits for a name server.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_net::reactor::Address;
use parking_lot::Mutex;

use crate::config::{Endpoint, Host};
use crate::core::shared::{Message, Shared};

/// Names remembered at most.
const NAMES_MAX: usize = 1024;

/// What is known of names.
#[derive(Default)]
pub(crate) struct Resolver {
    names: Mutex<HashMap<String, Known>>,
}

struct Known {
    addresses: Result<Vec<IpAddr>, String>,
    at: Instant,
    /// Somebody looks it up again.
    busy: bool,
}

/// How long answers are used before a name is looked up again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// With addresses: `dns_max_ttl`.
    pub found: Duration,
    /// Without: `dns_nxdomain_ttl`.
    pub failed: Duration,
}

impl Kept {
    /// How long an answer of this `age` is still used.
    fn left(&self, found: bool, age: Duration) -> Duration {
        let whole = if found { self.found } else { self.failed };
        whole.saturating_sub(age)
    }
}

/// A name, for the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownName {
    pub name: String,
    pub left: Duration,
    pub addresses: Vec<IpAddr>,
    /// It is being looked up.
    pub busy: bool,
}

/// What is known of where a server is.
pub(crate) enum Found {
    /// There.
    Address(Address),
    /// It is being looked up; [`Message::Resolved`] follows.
    Soon,
    /// It could not be found.
    Failed(String),
}

impl Resolver {
    /// Where `endpoint` is; `turn` chooses among several addresses.
    pub fn find(&self, shared: &Arc<Shared>, endpoint: &Endpoint, turn: usize, kept: Kept) -> Found {
        match &endpoint.host {
            Host::Ip(address) => Found::Address(Address::Tcp(SocketAddr::new(*address, endpoint.port))),
            Host::Directory(folder) => {
                let path: PathBuf = folder.join(format!(".s.PGSQL.{}", endpoint.port));
                Found::Address(Address::Unix(path))
            }
            Host::Name(name) => self.name(shared, name, endpoint.port, turn, kept),
        }
    }

    fn name(&self, shared: &Arc<Shared>, name: &str, port: u16, turn: usize, kept: Kept) -> Found {
        let mut names = self.names.lock();
        let known = names.get_mut(name);
        let fresh = known
            .as_ref()
            .is_some_and(|known| !kept.left(known.addresses.is_ok(), known.at.elapsed()).is_zero());
        let busy = known.as_ref().is_some_and(|known| known.busy);
        if !fresh && !busy {
            if names.len() >= NAMES_MAX {
                names.clear();
            }
            let entry = names.entry(name.to_owned()).or_insert(Known {
                addresses: Err(String::new()),
                at: Instant::now(),
                busy: true,
            });
            entry.busy = true;
            look_up(Arc::clone(shared), name.to_owned());
            // What was known goes on being used until the answer is there.
            return match &entry.addresses {
                Ok(addresses) if !addresses.is_empty() => one(addresses, port, turn),
                _ => Found::Soon,
            };
        }
        match names.get(name) {
            Some(Known {
                addresses: Ok(addresses),
                ..
            }) if !addresses.is_empty() => one(addresses, port, turn),
            Some(Known { busy: true, .. }) | None => Found::Soon,
            Some(Known { addresses, .. }) => Found::Failed(match addresses {
                Err(error) => error.clone(),
                Ok(_) => "the name has no address".to_owned(),
            }),
        }
    }

    /// The names known, by name.
    pub fn known(&self, kept: Kept) -> Vec<KnownName> {
        let names = self.names.lock();
        let mut all: Vec<KnownName> = names
            .iter()
            .map(|(name, known)| KnownName {
                name: name.clone(),
                left: kept.left(known.addresses.is_ok(), known.at.elapsed()),
                addresses: known.addresses.clone().unwrap_or_default(),
                busy: known.busy,
            })
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn answer(&self, name: &str, addresses: Result<Vec<IpAddr>, String>) {
        if let Some(known) = self.names.lock().get_mut(name) {
            known.addresses = addresses;
            known.at = Instant::now();
            known.busy = false;
        }
    }
}

fn one(addresses: &[IpAddr], port: u16, turn: usize) -> Found {
    Found::Address(Address::Tcp(SocketAddr::new(
        addresses[turn % addresses.len()],
        port,
    )))
}

/// Asks the system in a thread of its own, which ends with the answer.
fn look_up(shared: Arc<Shared>, name: String) {
    let ask = move || {
        let addresses = (name.as_str(), 0)
            .to_socket_addrs()
            .map(|found| found.map(|address| address.ip()).collect())
            .map_err(|error| error.to_string());
        shared.resolver.answer(&name, addresses);
        shared.tell_all(|| Message::Resolved);
    };
    if std::thread::Builder::new()
        .name("corun-resolve".to_owned())
        .spawn(ask)
        .is_err()
    {
        tracing::error!("no thread for looking up the address of a host");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_with_and_without_addresses_have_times_of_their_own() {
        let second = Duration::from_secs(1);
        let kept = Kept {
            found: 10 * second,
            failed: 2 * second,
        };
        assert_eq!(kept.left(true, 3 * second), 7 * second);
        assert_eq!(kept.left(false, 3 * second), Duration::ZERO);
        assert_eq!(kept.left(false, second), second);
    }
}
