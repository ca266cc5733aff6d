//! [`Resolver`]: addresses of host names, looked up aside so that no event loop waits for a name server.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use machine::reactor::Address;
use parking_lot::Mutex;

use super::shared::{Message, Shared};
use crate::config::{Endpoint, Host};

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
    pub fn find(&self, shared: &Arc<Shared>, endpoint: &Endpoint, turn: usize, ttl: Duration) -> Found {
        match &endpoint.host {
            Host::Ip(address) => Found::Address(Address::Tcp(SocketAddr::new(*address, endpoint.port))),
            Host::Directory(folder) => {
                let path: PathBuf = folder.join(format!(".s.PGSQL.{}", endpoint.port));
                Found::Address(Address::Unix(path))
            }
            Host::Name(name) => self.name(shared, name, endpoint.port, turn, ttl),
        }
    }

    fn name(&self, shared: &Arc<Shared>, name: &str, port: u16, turn: usize, ttl: Duration) -> Found {
        let mut names = self.names.lock();
        let known = names.get_mut(name);
        let fresh = known.as_ref().is_some_and(|known| known.at.elapsed() < ttl);
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
                Ok(_) => "it has no address".to_owned(),
            }),
        }
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
        for mailbox in &shared.mailboxes {
            let _ = mailbox.post(Message::Resolved);
        }
    };
    if std::thread::Builder::new()
        .name("corun-resolve".to_owned())
        .spawn(ask)
        .is_err()
    {
        tracing::error!("no thread for looking up the address of a host");
    }
}
