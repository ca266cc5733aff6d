//! PgBouncer's settings that have no counterpart here: what they meant, and what to do instead.
//!
//! Settings with a counterpart have its name, so they are not listed. Covers PgBouncer 1.18 to 1.25.

/// A setting without counterpart.
struct Gone {
    name: &'static str,
    advice: &'static str,
}

/// Settings of `[pgbouncer]`, `[databases]` and `[users]` without counterpart.
const GONE: &[Gone] = &[
    Gone {
        name: "logfile",
        advice: "log lines go to the standard error stream: let systemd or a redirection keep them",
    },
    Gone {
        name: "pidfile",
        advice: "the process stays in the foreground and its supervisor knows its number: no file is needed",
    },
    Gone {
        name: "user",
        advice: "start the process as that user, with systemd's User= for instance",
    },
    Gone {
        name: "syslog",
        advice: "log lines go to the standard error stream; systemd's journal forwards them to syslog",
    },
    Gone {
        name: "syslog_ident",
        advice: "set SyslogIdentifier= in the systemd unit",
    },
    Gone {
        name: "syslog_facility",
        advice: "set SyslogFacility= in the systemd unit",
    },
    Gone {
        name: "verbose",
        advice: "set `log_level` below [corun]",
    },
    Gone {
        name: "service_name",
        advice: "the setting named a Windows service; nothing to do",
    },
    Gone {
        name: "job_name",
        advice: "the setting named a Windows service; nothing to do",
    },
    Gone {
        name: "conffile",
        advice: "the file's name is an argument of `corun proxy`",
    },
    Gone {
        name: "pkt_buf",
        advice: "buffers grow with need; `connection_buffer_max` below [corun] bounds them",
    },
    Gone {
        name: "sbuf_loopcnt",
        advice: "event loops share time between connections by themselves; nothing to do",
    },
    Gone {
        name: "suspend_timeout",
        advice: "the setting belonged to the online restart; now: start the new process with `so_reuseport`, then `SHUTDOWN WAIT_FOR_CLIENTS` the old one",
    },
    Gone {
        name: "resolv_conf",
        advice: "names are resolved as the system is set up to: change /etc/resolv.conf, or the unit's view of it",
    },
    Gone {
        name: "dns_zone_check_period",
        advice: "names are looked up again after `dns_max_ttl`; make `dns_max_ttl` shorter",
    },
    Gone {
        name: "client_tls_ciphers",
        advice: "rustls offers only ciphers held to be safe; nothing to do",
    },
    Gone {
        name: "server_tls_ciphers",
        advice: "rustls offers only ciphers held to be safe; nothing to do",
    },
    Gone {
        name: "client_tls13_ciphers",
        advice: "rustls offers only ciphers held to be safe; nothing to do",
    },
    Gone {
        name: "server_tls13_ciphers",
        advice: "rustls offers only ciphers held to be safe; nothing to do",
    },
    Gone {
        name: "client_tls_ecdhcurve",
        advice: "rustls chooses the curve; nothing to do",
    },
    Gone {
        name: "client_tls_dheparams",
        advice: "rustls has no finite-field Diffie-Hellman; nothing to do",
    },
    Gone {
        name: "auth_ldap_options",
        advice: "LDAP is not spoken: use SCRAM with `auth_query`",
    },
    Gone {
        name: "peer_id",
        advice: "one process uses all cores, so cancel requests find their way; several processes behind one address are not linked to each other",
    },
    Gone {
        name: "login_notify_message",
        advice: "there is no greeting; clients see the pooler in `SHOW` of its console only",
    },
    Gone {
        name: "pool_idle_timeout",
        advice: "pools without connections cost nothing to keep; nothing to do",
    },
    Gone {
        name: "target_session_attrs",
        advice: "list the servers in `host` and `replicas`: the pooler finds out which of them is the primary",
    },
    Gone {
        name: "reserve_pool",
        advice: "the key is called `reserve_pool_size`",
    },
    Gone {
        name: "max_db_client_conn",
        advice: "the key is called `max_db_client_connections`",
    },
];

/// What to do instead of a setting of PgBouncer that has no counterpart; `None` for every other name.
pub fn advice(name: &str) -> Option<&'static str> {
    GONE.iter().find(|gone| gone.name == name).map(|gone| gone.advice)
}
