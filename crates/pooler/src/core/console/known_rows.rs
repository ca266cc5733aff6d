//! Rows of the console and the metrics about what is known beside connections: databases, statements, names of hosts, errors.

use std::collections::{BTreeMap, BTreeSet};

use crate::admin::{DatabaseRow, DnsHostRow, PeerRow, PreparedRow, UserRow, database_rows, user_row};
use crate::config::Config;
use crate::core::console::ask::Part;
use crate::core::console::stopped::Stopped;
use crate::core::peers;
use crate::core::route::resolve::KnownName;

/// `SHOW DATABASES`.
pub(in crate::core) fn databases(parts: &[Part], config: &Config, stopped: &Stopped) -> Vec<DatabaseRow> {
    let mut servers: BTreeMap<&str, u64> = BTreeMap::new();
    let mut clients: BTreeMap<&str, u64> = BTreeMap::new();
    for part in parts {
        for server in &part.servers {
            *servers.entry(&server.database).or_default() += 1;
        }
        for client in &part.clients {
            *clients.entry(&client.database).or_default() += 1;
        }
    }
    let mut rows = database_rows(config);
    for row in &mut rows {
        row.current_connections = servers.get(row.name.as_str()).copied().unwrap_or(0);
        row.current_client_connections = clients.get(row.name.as_str()).copied().unwrap_or(0);
        row.paused = stopped.is_paused(&row.name);
        row.disabled = stopped.disabled.contains(&row.name);
    }
    rows
}

/// `SHOW USERS`.
pub(in crate::core) fn users(parts: &[Part], config: &Config, names: BTreeSet<String>) -> Vec<UserRow> {
    let row = |name: String| {
        let servers = parts.iter().flat_map(|part| &part.servers);
        let clients = parts.iter().flat_map(|part| &part.clients);
        UserRow {
            current_connections: servers.filter(|server| server.user == name).count() as u64,
            current_client_connections: clients
                .filter(|client| client.is_in() && *client.user == *name)
                .count() as u64,
            ..user_row(config, name)
        }
    };
    names.into_iter().map(row).collect()
}

/// `SHOW PREPARED`: event loops share statements, and each tells of its own clients and servers.
pub(in crate::core) fn prepared(parts: &[Part]) -> Vec<PreparedRow> {
    let mut all: BTreeMap<&str, PreparedRow> = BTreeMap::new();
    for row in parts.iter().flat_map(|part| &part.prepared) {
        let known = all.entry(&row.name).or_insert_with(|| PreparedRow {
            clients: 0,
            servers: 0,
            ..row.clone()
        });
        known.clients += row.clients;
        known.servers += row.servers;
        known.automatic |= row.automatic;
    }
    let mut rows: Vec<PreparedRow> = all.into_values().collect();
    rows.sort_by(|a, b| b.bind_count.cmp(&a.bind_count).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// `SHOW PEERS`.
pub(in crate::core) fn peers(config: &Config) -> Vec<PeerRow> {
    let row = |id: u16| {
        let peer = config.peers.get(&id.to_string())?;
        Some(PeerRow {
            peer_id: u64::from(id),
            host: peer.host.clone(),
            port: u64::from(peer.port),
            pool_size: u64::from(peer.pool_size.unwrap_or(config.proxy.default_pool_size)),
        })
    };
    peers::ids(config).into_iter().filter_map(row).collect()
}

/// `SHOW DNS_HOSTS`.
pub(in crate::core) fn dns_hosts(names: &[KnownName]) -> Vec<DnsHostRow> {
    let row = |known: &KnownName| {
        let addresses: Vec<String> = known.addresses.iter().map(ToString::to_string).collect();
        DnsHostRow {
            hostname: known.name.clone(),
            ttl: known.left.as_secs(),
            addrs: addresses.join(","),
        }
    };
    names.iter().map(row).collect()
}

/// Errors the proxy has sent to clients, by SQLSTATE: at most as many as there are codes of its own.
pub(in crate::core) fn errors(parts: &[Part]) -> Vec<(String, u64)> {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for (code, count) in parts.iter().flat_map(|part| &part.errors) {
        *all.entry(code).or_default() += count;
    }
    all.into_iter()
        .map(|(code, count)| (code.to_owned(), count))
        .collect()
}
