//! The console's tables: a struct a row, its fields the columns.
//!
//! Names and order are those of PgBouncer 1.24, so that its monitoring works; columns it does not have come last. The text
//! of times is [`timestamp`]'s; every `wait` and `maxwait` is in whole seconds and its `_us` the rest in microseconds.

use super::table::row;
use crate::understand::keys::calendar::{date, time_of_day};

/// Makes the rows of connections: the columns that all of them begin with, and those of each.
macro_rules! connection_rows {
    ($( $(#[$outer:meta])* $name:ident { $($column:tt)* } )*) => {
        row! { $(
            $(#[$outer])*
            $name {
                /// `C` for a client, `S` for a server.
                r#type: String,
                /// Who logged in; at a server: as whom the pooler did.
                user: String,
                /// Name clients ask for.
                database: String,
                /// Always `none`.
                replication: String,
                /// What it does; see the row.
                state: String,
                /// Address of the other side, or `unix`.
                addr: String,
                /// Its port.
                port: u64,
                /// Our address.
                local_addr: String,
                /// Our port.
                local_port: u64,
                /// When it connected.
                connect_time: String,
                /// When a client last asked for something; at a server: when it was last asked.
                request_time: String,
                /// How long a client has waited; 0 for a server.
                wait: u64,
                /// And microseconds.
                wait_us: u64,
                /// Whether a server goes as soon as it is free; never so for a client.
                close_needed: bool,
                /// Name of this connection in `link`.
                ptr: String,
                /// Name of the connection to the other side: a client's server, a server's client.
                link: String,
                /// Process at the other end: of a server, or of a client on a Unix socket.
                remote_pid: u64,
                /// TLS version and cipher, or empty.
                tls: String,
                /// What the client calls itself.
                application_name: String,
                /// How many statements it has prepared.
                prepared_statements: u64,
                /// A number of its own; a client's is for `KILL_CLIENT`.
                id: u64,
                $($column)*
            }
        )* }
    };
}

connection_rows! {
    /// `SHOW CLIENTS`. A state is `active`, `idle`, `waiting`, `active_cancel_req` or `waiting_cancel_req`.
    ClientRow {
        /// Why it keeps its server between transactions, or empty.
        pin: String,
        /// Event loop that serves it.
        core: u64,
    }

    /// `SHOW SERVERS`. A state is `active`, `idle`, `used`, `tested`, `new`, `active_cancel` or `being_canceled`.
    ServerRow {
        /// `primary` or `replica`.
        role: String,
        /// Event loop that drives it.
        core: u64,
        /// Processor its process is bound to.
        bound_cpu: Option<u64>,
    }

    /// `SHOW SOCKETS` and `SHOW ACTIVE_SOCKETS`: clients and servers with their buffers. A state is one of `SHOW CLIENTS` or
    /// `SHOW SERVERS` with `cl_` or `sv_` in front.
    SocketRow {
        /// Bytes received and not passed on.
        recv_pos: u64,
        /// Always 0: buffers begin with what is not passed on.
        pkt_pos: u64,
        /// Bytes of the current message still to come.
        pkt_remain: u64,
        /// Always 0, as `pkt_pos`.
        send_pos: u64,
        /// Always 0, as in PgBouncer.
        send_remain: u64,
        /// As `recv_pos`.
        pkt_avail: u64,
        /// Bytes the kernel has not taken yet.
        send_avail: u64,
        /// Whether reading is paused until they are.
        paused: bool,
    }
}

row! {
    /// `SHOW POOLS`.
    PoolRow {
        /// Name clients ask for.
        database: String,
        /// User the servers see.
        user: String,
        /// Clients with a server, or with nothing to do.
        cl_active: u64,
        /// Clients waiting for a server.
        cl_waiting: u64,
        /// Cancel requests on their way to a server.
        cl_active_cancel_req: u64,
        /// Cancel requests waiting for their turn.
        cl_waiting_cancel_req: u64,
        /// Servers with a client.
        sv_active: u64,
        /// Connections that carry a cancel request.
        sv_active_cancel: u64,
        /// Servers kept back until the cancel requests for them are over.
        sv_being_canceled: u64,
        /// Servers ready for the next client.
        sv_idle: u64,
        /// Servers to be checked before the next client.
        sv_used: u64,
        /// Servers being reset or checked.
        sv_tested: u64,
        /// Servers connecting or logging in.
        sv_login: u64,
        /// How long the first client in the queue has waited.
        maxwait: u64,
        /// And microseconds.
        maxwait_us: u64,
        /// When servers go back.
        pool_mode: String,
        /// How several hosts are chosen.
        load_balance_hosts: Option<String>,
    }

    /// `SHOW DATABASES`.
    DatabaseRow {
        /// Name clients ask for.
        name: String,
        /// Where.
        host: Option<String>,
        /// Which port.
        port: u64,
        /// Its name there.
        database: String,
        /// User of all connections.
        force_user: Option<String>,
        /// Connections of a pool.
        pool_size: u64,
        /// Of these kept open.
        min_pool_size: u64,
        /// Additional ones.
        reserve_pool_size: u64,
        /// Seconds.
        server_lifetime: u64,
        /// Its own pool mode.
        pool_mode: Option<String>,
        /// How several hosts are chosen.
        load_balance_hosts: Option<String>,
        /// Limit of server connections; 0: none.
        max_connections: u64,
        /// How many there are.
        current_connections: u64,
        /// Limit of clients; 0: none.
        max_client_connections: u64,
        /// How many there are.
        current_client_connections: u64,
        /// `PAUSE`d.
        paused: bool,
        /// `DISABLE`d.
        disabled: bool,
    }

    /// `SHOW USERS`.
    UserRow {
        /// Name.
        name: String,
        /// Its own pool size.
        pool_size: Option<u64>,
        /// Its own reserve.
        reserve_pool_size: Option<u64>,
        /// Its own pool mode.
        pool_mode: Option<String>,
        /// Limit of server connections; 0: none.
        max_user_connections: u64,
        /// How many there are.
        current_connections: u64,
        /// Limit of clients; 0: none.
        max_user_client_connections: u64,
        /// How many there are.
        current_client_connections: u64,
    }

    /// `SHOW LISTS`.
    ListRow {
        /// What.
        list: String,
        /// How many.
        items: u64,
    }

    /// `SHOW CONFIG`.
    ConfigRow {
        /// Setting.
        key: String,
        /// Its value.
        value: String,
        /// Its value without a line in the file.
        default: String,
        /// `yes`: with `SET` and `RELOAD`; `no`: at the next start.
        changeable: String,
    }

    /// `SHOW VERSION`.
    VersionRow {
        /// Name and version.
        version: String,
    }

    /// `SHOW STATE`.
    StateRow {
        /// `active`, `paused` or `suspended`.
        key: String,
        /// `yes` or `no`.
        value: String,
    }

    /// `SHOW MEM`.
    MemoryRow {
        /// What.
        name: String,
        /// Bytes of one.
        size: u64,
        /// How many are in use.
        used: u64,
        /// How many are kept for later.
        free: u64,
        /// Bytes altogether.
        memtotal: u64,
    }

    /// `SHOW DNS_HOSTS`.
    DnsHostRow {
        /// Name.
        hostname: String,
        /// Seconds until it is looked up again.
        ttl: u64,
        /// Addresses with commas.
        addrs: String,
    }

    /// `SHOW DNS_ZONES`: always empty.
    DnsZoneRow {
        /// Zone.
        zonename: String,
        /// Serial.
        serial: u64,
        /// Names below it.
        count: u64,
    }

    /// `SHOW PEERS`
    PeerRow {
        /// Number.
        peer_id: u64,
        /// Where.
        host: String,
        /// Which port.
        port: u64,
        /// Cancel requests on their way to it at most.
        pool_size: u64,
    }

    /// `SHOW PEER_POOLS`
    PeerPoolRow {
        /// Peer.
        peer_id: u64,
        /// Cancel requests that were sent.
        cl_active_cancel_req: u64,
        /// Cancel requests waiting.
        cl_waiting_cancel_req: u64,
        /// Connections that carry one.
        sv_active_cancel: u64,
        /// Connections being made.
        sv_login: u64,
    }
}

/// A time as the console shows it, in UTC, from the seconds since 1970.
pub fn timestamp(unix_seconds: u64) -> String {
    let seconds = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
    // The calendar counts days from 2000-01-01 on.
    let day = date(seconds / 86_400 - 10_957);
    format!("{day} {} UTC", time_of_day(seconds % 86_400))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::Row;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_868_799, "2000-02-29 23:59:59 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_709_164_800, "2024-02-29 00:00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(timestamp(seconds), expected);
        }
    }

    #[test]
    fn columns_that_pgbouncer_has_come_first_and_in_its_order() {
        let names = |columns: &[(&'static str, bool)]| -> Vec<&'static str> {
            columns.iter().map(|(name, _)| *name).collect()
        };
        assert_eq!(
            names(PoolRow::COLUMNS)[..16].join(" "),
            "database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active sv_active_cancel \
             sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode"
        );
        assert_eq!(names(ClientRow::COLUMNS)[0], "type");
        assert_eq!(names(ServerRow::COLUMNS)[..21], names(ClientRow::COLUMNS)[..21]);
        assert_eq!(names(SocketRow::COLUMNS)[..21], names(ClientRow::COLUMNS)[..21]);
        assert_eq!(
            names(DatabaseRow::COLUMNS)[..6],
            ["name", "host", "port", "database", "force_user", "pool_size"]
        );
    }
}
