//! `[peers.ID]`: other processes behind the same address, which cancel requests for their clients are forwarded to.

use super::host::{Endpoint, Host};
use super::settings::settings;

settings! {
    /// Where one of them takes cancel requests.
    Peer at Peer {
        host: String = String::new(), Reload, "Its host name or IP address, or the folder of its Unix socket.";
        port: u16 = 6432, [1, 65535], Reload, "Its `listen_port`.";
        pool_size: Option<u32> = None, [1, 100000], Reload, "Cancel requests on their way to it at the same time; more wait. Otherwise `default_pool_size`.";
    }
}

impl Peer {
    /// Where it is; `None` where `host` is none, which the check refuses.
    pub fn endpoint(&self) -> Option<Endpoint> {
        let host = Host::parse(&self.host).ok()?;
        let port = self.port;
        Some(Endpoint { host, port })
    }
}
