//! Rows of the console out of what the event loops have told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::admin::{
    ClientRow, CohortRow, CoreRow, HostRow, ListRow, MemoryRow, PoolRow, ServerRow, SocketRow, Stats,
    timestamp,
};
use crate::config::{Config, Endpoint};
use crate::core::console::ask::Part;
use crate::core::console::look::{ClientView, PoolView, ServerView};
use crate::core::console::statistics::{Totals, micros};
use crate::core::route::resolve::KnownName;
use crate::hosts::HostStatus;

/// Both halves of a time, in the console's way.
fn halves(time: Duration) -> (u64, u64) {
    (time.as_secs(), u64::from(time.subsec_micros()))
}

/// Address and port of what is written `address:port`; a Unix socket has its port in its name.
fn place(text: &str) -> (String, u64) {
    if let Some((_, port)) = text.rsplit_once(".s.PGSQL.") {
        return ("unix".to_owned(), port.parse().unwrap_or(0));
    }
    match text.rsplit_once(':') {
        Some((address, port)) => (
            address.trim_matches(['[', ']']).to_owned(),
            port.parse().unwrap_or(0),
        ),
        None => ("unix".to_owned(), 0),
    }
}

/// Number of the process at the other end of a Unix socket, written `unix(17)`.
fn peer_pid(origin: &str) -> u64 {
    let inside = origin
        .strip_prefix("unix(")
        .and_then(|rest| rest.strip_suffix(')'));
    inside.and_then(|pid| pid.parse().ok()).unwrap_or(0)
}

/// `SHOW POOLS`: the pools of all loops and hosts of one database and user together.
pub(in crate::core) fn pools(parts: &[Part]) -> Vec<PoolRow> {
    let mut rows: BTreeMap<(String, String), (PoolRow, Duration)> = BTreeMap::new();
    let served = |view: &&PoolView| view.host & crate::core::route::fleet::PROBE == 0;
    for view in parts.iter().flat_map(|part| &part.pools).filter(served) {
        let key = (view.database.to_string(), view.user.to_string());
        let (row, waited) = rows.entry(key.clone()).or_insert_with(|| {
            let row = PoolRow {
                database: key.0,
                user: key.1,
                pool_mode: view.mode.to_owned(),
                ..PoolRow::default()
            };
            (row, Duration::ZERO)
        });
        // Those that wait are taken off at the end: they may wait in another host's queue.
        row.cl_active += view.clients as u64;
        row.cl_waiting += view.clients_waiting as u64;
        row.sv_active += view.servers_active as u64;
        row.sv_idle += view.servers_idle as u64;
        row.sv_login += view.servers_login as u64;
        row.sv_being_canceled += view.servers_cancelled as u64;
        row.sv_tested += view.servers_tested as u64;
        row.sv_active_cancel += view.cancels as u64;
        row.cl_active_cancel_req += view.cancels as u64;
        row.cl_waiting_cancel_req += view.cancels_waiting as u64;
        *waited = (*waited).max(view.waited);
    }
    rows.into_values()
        .map(|(mut row, waited)| {
            row.cl_active = row.cl_active.saturating_sub(row.cl_waiting);
            (row.maxwait, row.maxwait_us) = halves(waited);
            row
        })
        .collect()
}

/// `SHOW CLIENTS`, those that have not said who they are left out. `unix_now`: seconds since 1970.
pub(in crate::core) fn clients(parts: &[Part], unix_now: u64) -> Vec<ClientRow> {
    let all = parts
        .iter()
        .flat_map(|part| part.clients.iter().map(move |view| (part.event_loop, view)));
    all.filter(|(_, view)| !view.user.is_empty())
        .map(|(event_loop, view)| client(event_loop, view, unix_now))
        .collect()
}

fn client(event_loop: usize, view: &ClientView, unix_now: u64) -> ClientRow {
    let ((addr, port), (local_addr, local_port)) = (place(&view.origin), place(&view.local));
    let (wait, wait_us) = halves(view.waited);
    ClientRow {
        r#type: "C".to_owned(),
        user: view.user.to_string(),
        database: view.database.to_string(),
        replication: "none".to_owned(),
        state: if view.state == "console" {
            "active"
        } else {
            view.state
        }
        .to_owned(),
        addr,
        port,
        local_addr,
        local_port,
        connect_time: timestamp(unix_now.saturating_sub(view.connected.as_secs())),
        request_time: timestamp(unix_now.saturating_sub(view.quiet.as_secs())),
        wait,
        wait_us,
        close_needed: false,
        ptr: format!("C{}", view.id),
        link: view.server.map(|id| format!("S{id}")).unwrap_or_default(),
        remote_pid: peer_pid(&view.origin),
        tls: view.tls.clone(),
        application_name: view.application.clone(),
        prepared_statements: view.prepared as u64,
        id: view.id,
        pin: view.pins.clone(),
        core: event_loop as u64,
    }
}

/// `SHOW SERVERS`. `unix_now`: seconds since 1970.
pub(in crate::core) fn servers(parts: &[Part], unix_now: u64) -> Vec<ServerRow> {
    let all = parts
        .iter()
        .flat_map(|part| part.servers.iter().map(move |view| (part, view)));
    all.map(|(part, view)| server(part, view, unix_now)).collect()
}

fn server(part: &Part, view: &ServerView, unix_now: u64) -> ServerRow {
    let (addr, port) = place(&view.address);
    let client = part.clients.iter().find(|client| Some(client.id) == view.client);
    let state = match view.state {
        "login" => "new",
        // Not what PgBouncer means by it: that it must be checked first.
        "used" => "idle",
        state => state,
    };
    ServerRow {
        r#type: "S".to_owned(),
        user: view.user.clone(),
        database: view.database.to_string(),
        replication: "none".to_owned(),
        state: state.to_owned(),
        addr,
        port,
        connect_time: timestamp(unix_now.saturating_sub(view.connected.as_secs())),
        request_time: timestamp(unix_now.saturating_sub(view.quiet.as_secs())),
        close_needed: view.closing,
        ptr: format!("S{}", view.id),
        link: view.client.map(|id| format!("C{id}")).unwrap_or_default(),
        remote_pid: u64::from(view.pid),
        tls: view.tls.clone(),
        application_name: client
            .map(|client| client.application.clone())
            .unwrap_or_default(),
        prepared_statements: view.prepared as u64,
        id: view.id,
        role: if view.replica { "replica" } else { "primary" }.to_owned(),
        core: part.event_loop as u64,
        bound_cpu: view.bound.map(u64::from),
        ..ServerRow::default()
    }
}

/// The row of `SHOW SOCKETS` for a row of `SHOW CLIENTS` or `SHOW SERVERS`, which have these columns in common.
macro_rules! socket {
    ($kind:literal, $row:expr, $buffer:expr) => {{
        let (row, buffer) = ($row, $buffer);
        SocketRow {
            r#type: row.r#type,
            user: row.user,
            database: row.database,
            replication: row.replication,
            state: format!(concat!($kind, "_{}"), row.state),
            addr: row.addr,
            port: row.port,
            local_addr: row.local_addr,
            local_port: row.local_port,
            connect_time: row.connect_time,
            request_time: row.request_time,
            wait: row.wait,
            wait_us: row.wait_us,
            close_needed: row.close_needed,
            ptr: row.ptr,
            link: row.link,
            remote_pid: row.remote_pid,
            tls: row.tls,
            application_name: row.application_name,
            prepared_statements: row.prepared_statements,
            id: row.id,
            recv_pos: buffer.received as u64,
            pkt_remain: buffer.to_come as u64,
            pkt_avail: buffer.received as u64,
            send_avail: buffer.to_send as u64,
            paused: buffer.paused,
            ..SocketRow::default()
        }
    }};
}

/// `SHOW SOCKETS`, or only those with something to do.
pub(in crate::core) fn sockets(parts: &[Part], unix_now: u64, active: bool) -> Vec<SocketRow> {
    let clients = parts.iter().flat_map(|part| {
        let known = part.clients.iter().filter(|view| !view.user.is_empty());
        known.map(|view| socket!("cl", client(part.event_loop, view, unix_now), view.buffer))
    });
    let servers = parts.iter().flat_map(|part| {
        let all = part.servers.iter();
        all.map(|view| socket!("sv", server(part, view, unix_now), view.buffer))
    });
    clients
        .chain(servers)
        .filter(|row| !active || !row.state.ends_with("_idle"))
        .collect()
}

/// The counters of each database.
pub(in crate::core) fn stats(parts: &[Part]) -> BTreeMap<String, Stats> {
    let mut found: BTreeMap<String, Stats> = BTreeMap::new();
    for view in parts.iter().flat_map(|part| &part.pools) {
        let sum = found.entry(view.database.to_string()).or_default();
        *sum = sum.plus(&counters(&view.totals));
    }
    found
}

fn counters(totals: &Totals) -> Stats {
    Stats {
        server_assignment_count: totals.attached,
        xact_count: totals.transactions,
        query_count: totals.queries,
        received: totals.received,
        sent: totals.sent,
        xact_time: micros(totals.transaction_time),
        query_time: micros(totals.query_time),
        wait_time: micros(totals.wait_time),
        client_parse_count: totals.counts.client_parses,
        server_parse_count: totals.counts.server_parses,
        bind_count: totals.counts.binds,
        settings_carried: totals.settings_carried,
        state_questions: totals.state_questions,
    }
}

/// `SHOW CORES`.
pub(in crate::core) fn cores(parts: &[Part]) -> Vec<CoreRow> {
    let sum = |part: &Part, count: fn(&PoolView) -> u64| part.pools.iter().map(count).sum();
    parts
        .iter()
        .map(|part| CoreRow {
            core: part.event_loop as u64,
            cpu: part.cpu.map(u64::from),
            node: part.node.map(u64::from),
            io: part.io.to_owned(),
            clients: part.clients.len() as u64,
            waiting: sum(part, |pool| pool.clients_waiting as u64),
            servers: part.servers.len() as u64,
            servers_active: sum(part, |pool| pool.servers_active as u64),
            backends_bound: part.servers.iter().flat_map(|server| server.bound).count() as u64,
            xact_count: sum(part, |pool| pool.totals.transactions),
            query_count: sum(part, |pool| pool.totals.queries),
            cohort_count: sum(part, |pool| pool.alike),
            unbound_because: part.unbound_because.clone(),
            busy_us: micros(part.busy),
            shapes: part.shapes as u64,
        })
        .collect()
}

/// `SHOW COHORTS`.
pub(in crate::core) fn cohorts(parts: &[Part]) -> Vec<CohortRow> {
    let all = parts
        .iter()
        .flat_map(|part| part.pools.iter().map(move |view| (part.event_loop, view)));
    all.map(|(core, view)| CohortRow {
        core: core as u64,
        database: view.database.to_string(),
        user: view.user.to_string(),
        waiting: view.clients_waiting as u64,
        query_count: view.taken,
        cohort_count: view.alike,
        state: if view.cohorts { "on" } else { "off" }.to_owned(),
    })
    .collect()
}

/// `SHOW LISTS`.
pub(in crate::core) fn lists(
    parts: &[Part],
    config: &Config,
    users: usize,
    names: &[KnownName],
) -> Vec<ListRow> {
    let clients = parts.iter().flat_map(|part| &part.clients);
    let login = clients.clone().filter(|client| client.state == "login").count();
    [
        ("databases", config.databases.len() + 1),
        ("users", users),
        ("peers", 0),
        ("pools", pools(parts).len()),
        ("peer_pools", 0),
        ("free_clients", 0),
        ("used_clients", clients.count() - login),
        ("login_clients", login),
        ("free_servers", 0),
        ("used_servers", parts.iter().map(|part| part.servers.len()).sum()),
        ("dns_names", names.len()),
        ("dns_zones", 0),
        ("dns_queries", 0),
        ("dns_pending", names.iter().filter(|known| known.busy).count()),
    ]
    .map(|(list, items)| ListRow {
        list: list.to_owned(),
        items: items as u64,
    })
    .to_vec()
}

/// `SHOW MEM`: the structs of connections, and what their buffers hold in bytes.
pub(in crate::core) fn memory(parts: &[Part]) -> Vec<MemoryRow> {
    let clients = parts.iter().map(|part| part.clients.len()).sum();
    let servers = parts.iter().map(|part| part.servers.len()).sum();
    let of_clients = parts.iter().map(|part| part.buffers.clients).sum();
    let of_servers = parts.iter().map(|part| part.buffers.servers).sum();
    let of_statements = parts.iter().map(|part| part.buffers.statements).sum();
    [
        ("client", size_of::<crate::core::client::Client>(), clients),
        ("server", size_of::<crate::core::server::Server>(), servers),
        ("client_buffer", 1, of_clients),
        ("server_buffer", 1, of_servers),
        ("prepared_statements", 1, of_statements),
    ]
    .map(|(name, size, used): (&str, usize, usize)| MemoryRow {
        name: name.to_owned(),
        size: size as u64,
        used: used as u64,
        free: 0,
        memtotal: (size * used) as u64,
    })
    .to_vec()
}

/// `SHOW HOSTS`: where the databases of the file are, and those with a pool that `*` stands for, and how many connections lead
/// there. `status` tells of a database's hosts in their order, those of `host` first, where they are probed; bans count from `now`.
pub(in crate::core) fn hosts(
    parts: &[Part],
    config: &Config,
    status: impl Fn(&str) -> Vec<HostStatus>,
    now: Duration,
) -> Vec<HostRow> {
    let mut rows = Vec::new();
    let pools = parts.iter().flat_map(|part| &part.pools);
    let mut names: BTreeSet<&str> = pools.map(|pool| &*pool.database).collect();
    names.extend(config.databases.keys().map(String::as_str));
    for name in names {
        let Some((hosts, replicas)) = config.endpoints(name) else {
            continue;
        };
        let status = status(name);
        for (at, endpoint) in hosts.iter().chain(&replicas).enumerate() {
            let mut row = HostRow {
                database: name.to_owned(),
                host: endpoint.host.to_string(),
                port: u64::from(endpoint.port),
                role: "unknown".to_owned(),
                state: "unknown".to_owned(),
                servers: connections(parts, name, endpoint),
                query_count: queries(parts, name, replicas.is_empty(), at),
                ..HostRow::default()
            };
            if let Some(status) = status.get(at) {
                tell(&mut row, status, now);
            }
            rows.push(row);
        }
    }
    rows
}

/// How many connections of a database lead to a host.
fn connections(parts: &[Part], database: &str, endpoint: &Endpoint) -> u64 {
    let there = match endpoint.socket() {
        Some(socket) => socket.display().to_string(),
        None => endpoint.to_string(),
    };
    let servers = parts.iter().flat_map(|part| &part.servers);
    servers
        .filter(|server| *server.database == *database && server.address == there)
        .count() as u64
}

/// How many queries of a database a host has answered. `list`: there are no replicas, so every pool uses all hosts.
fn queries(parts: &[Part], database: &str, list: bool, host: usize) -> u64 {
    let pools = parts.iter().flat_map(|part| &part.pools);
    pools
        .filter(|pool| *pool.database == *database)
        .map(|pool| match list {
            true => pool.queries_of.get(host).copied().unwrap_or(0),
            false if pool.host == host => pool.totals.queries,
            false => 0,
        })
        .sum()
}

fn tell(row: &mut HostRow, status: &HostStatus, now: Duration) {
    let host = &status.host;
    row.role = status.role.as_str().to_owned();
    row.state = match (host.is_banned(), host.known(), host.is_lagging()) {
        (true, _, _) => "banned",
        (false, None, _) => "unknown",
        (false, Some(_), true) => "lagging",
        (false, Some(_), false) => "up",
    }
    .to_owned();
    row.lag_us = host.lag().time.map(micros);
    row.lag_bytes = host.lag().bytes;
    row.lsn = host
        .known()
        .and_then(|known| known.probe.lsn)
        .map(|lsn| lsn.to_string());
    row.timeline = host.known().and_then(|known| known.probe.timeline).map(u64::from);
    row.failures = u64::from(host.failures());
    row.ban_us = host.banned_until().map(|until| micros(until.saturating_sub(now)));
    row.error = status.error.clone().unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_of_loops_and_hosts_are_one_row_and_probes_are_none() {
        let view = |host, clients, waiting, seconds| PoolView {
            database: "shop".into(),
            user: "app".into(),
            host,
            clients,
            clients_waiting: waiting,
            servers_active: 1,
            servers_idle: 2,
            servers_login: 3,
            servers_cancelled: 4,
            servers_tested: 5,
            cancels: 6,
            cancels_waiting: 7,
            waited: Duration::from_secs(seconds),
            ..PoolView::default()
        };
        let part = |views: &[PoolView]| Part {
            pools: views.to_vec(),
            ..Part::default()
        };
        let rows = pools(&[
            part(&[view(0, 10, 1, 2), view(1, 0, 2, 9)]),
            part(&[
                view(0, 5, 0, 0),
                view(crate::core::route::fleet::PROBE, 100, 100, 100),
            ]),
        ]);
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((row.cl_active, row.cl_waiting, row.maxwait), (12, 3, 9));
        assert_eq!((row.sv_active, row.sv_idle, row.sv_login), (3, 6, 9));
        assert_eq!((row.sv_being_canceled, row.sv_tested), (12, 15));
        assert_eq!((row.sv_active_cancel, row.cl_active_cancel_req), (18, 18));
        assert_eq!(row.cl_waiting_cancel_req, 21);
    }
}
