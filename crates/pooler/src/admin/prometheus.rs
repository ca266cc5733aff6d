//! Metrics in the text format that Prometheus reads (version 0.0.4).
//!
//! Names begin with `corun_`, units are seconds and bytes, counters end in `_total`. The numbers are those of the console.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use super::{CoreRow, DatabaseRow, Histogram, HostRow, KeyRow, PoolRow, RangeRow, SplitRow, Stats};

/// The content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Histograms show these powers of two of microseconds: 64 µs to 67 s.
const POWERS: std::ops::RangeInclusive<u32> = 6..=26;

/// Everything a scrape shows.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Of this program.
    pub version: String,
    /// Seconds since the start of the process.
    pub uptime_seconds: f64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Clients connected, those logging in included.
    pub clients: u64,
    /// How many there may be.
    pub clients_max: u64,
    /// Pools.
    pub pools: Vec<PoolRow>,
    /// Databases.
    pub databases: Vec<DatabaseRow>,
    /// Counters by database.
    pub stats: Vec<(String, Stats)>,
    /// Event loops.
    pub cores: Vec<CoreRow>,
    /// Servers behind databases.
    pub hosts: Vec<HostRow>,
    /// Workers of the domains of keys.
    pub ranges: Vec<RangeRow>,
    /// Domains of keys.
    pub keys: Vec<KeyRow>,
    /// Queries that may run in parts, of each event loop.
    pub splits: Vec<SplitRow>,
    /// The queue of heavy queries.
    pub heavy_queue: HeavyQueueTotals,
    /// Times by database in microseconds.
    pub latencies: Vec<Latencies>,
    /// Errors sent to clients by the proxy itself, by SQLSTATE.
    pub errors: Vec<(String, u64)>,
}

/// What the queue of heavy queries has done.
#[derive(Debug, Clone, Default)]
pub struct HeavyQueueTotals {
    /// Starts by reason.
    pub starts: Vec<(&'static str, u64)>,
    /// Other events.
    pub events: Vec<(&'static str, u64)>,
}

/// Times of one database, in microseconds.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    /// Database.
    pub database: String,
    /// Of statements.
    pub query: Histogram,
    /// Of transactions.
    pub transaction: Histogram,
    /// Of waiting for a server.
    pub wait: Histogram,
}

/// The text.
#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP corun_{name} {help}\n# TYPE corun_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "corun_{name}");
        for (at, (label, text)) in labels.iter().enumerate() {
            self.0.push(if at == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"{}\"", escape(text));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    fn family<T>(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        rows: impl IntoIterator<Item = T>,
        mut sample: impl FnMut(&mut Text, T),
    ) {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_some() {
            self.head(name, kind, help);
            rows.for_each(|row| sample(self, row));
        }
    }
}

/// A label's value as the format wants it.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// The text of a scrape.
pub fn prometheus(snapshot: &Snapshot) -> String {
    let mut text = Text::default();
    text.head("info", "gauge", "Version of the pooler.");
    text.sample("info", &[("version", &snapshot.version)], 1);
    for (name, help, value) in [
        (
            "uptime_seconds",
            "Time since the start of the process.",
            snapshot.uptime_seconds,
        ),
        (
            "resident_bytes",
            "Resident memory of the process.",
            snapshot.resident_bytes as f64,
        ),
        ("clients", "Connected clients.", snapshot.clients as f64),
        (
            "clients_max",
            "Clients that may connect.",
            snapshot.clients_max as f64,
        ),
    ] {
        text.head(name, "gauge", help);
        text.sample(name, &[], value);
    }
    pools(&mut text, snapshot);
    databases(&mut text, snapshot);
    cores(&mut text, snapshot);
    hosts(&mut text, snapshot);
    ranges(&mut text, snapshot);
    splits(&mut text, snapshot);
    heavy_queue(&mut text, &snapshot.heavy_queue);
    text.family(
        (
            "errors_total",
            "counter",
            "Errors of the pooler itself, sent to clients.",
        ),
        &snapshot.errors,
        |text, (state, count)| text.sample("errors_total", &[("sqlstate", state)], count),
    );
    type Choice = fn(&Latencies) -> &Histogram;
    let families: [(&str, &str, Choice); 3] = [
        ("query_seconds", "Time of statements on servers.", |found| {
            &found.query
        }),
        ("transaction_seconds", "Time of transactions.", |found| {
            &found.transaction
        }),
        ("wait_seconds", "Time clients waited for a server.", |found| {
            &found.wait
        }),
    ];
    for (name, help, choose) in families {
        text.family((name, "histogram", help), &snapshot.latencies, |text, found| {
            histogram(text, name, &found.database, choose(found));
        });
    }
    text.0
}

/// Values are whole microseconds, cut off: below 2^k means that the time was below it.
fn histogram(text: &mut Text, name: &str, database: &str, histogram: &Histogram) {
    let bucket = format!("{name}_bucket");
    for power in POWERS {
        let le = seconds(1 << power).to_string();
        let labels = [("database", database), ("le", le.as_str())];
        text.sample(&bucket, &labels, histogram.below_power(power));
    }
    text.sample(
        &bucket,
        &[("database", database), ("le", "+Inf")],
        histogram.count(),
    );
    text.sample(
        &format!("{name}_sum"),
        &[("database", database)],
        seconds(histogram.sum()),
    );
    text.sample(
        &format!("{name}_count"),
        &[("database", database)],
        histogram.count(),
    );
}

fn pools(text: &mut Text, snapshot: &Snapshot) {
    text.family(
        ("pool_clients", "gauge", "Clients of a pool by state."),
        &snapshot.pools,
        |text, pool| {
            for (state, count) in [
                ("active", pool.cl_active),
                ("waiting", pool.cl_waiting),
                ("active_cancel_req", pool.cl_active_cancel_req),
                ("waiting_cancel_req", pool.cl_waiting_cancel_req),
            ] {
                let labels = [
                    ("database", pool.database.as_str()),
                    ("user", &pool.user),
                    ("state", state),
                ];
                text.sample("pool_clients", &labels, count);
            }
        },
    );
    text.family(
        ("pool_servers", "gauge", "Server connections of a pool by state."),
        &snapshot.pools,
        |text, pool| {
            for (state, count) in [
                ("active", pool.sv_active),
                ("active_cancel", pool.sv_active_cancel),
                ("being_canceled", pool.sv_being_canceled),
                ("idle", pool.sv_idle),
                ("used", pool.sv_used),
                ("tested", pool.sv_tested),
                ("login", pool.sv_login),
            ] {
                let labels = [
                    ("database", pool.database.as_str()),
                    ("user", &pool.user),
                    ("state", state),
                ];
                text.sample("pool_servers", &labels, count);
            }
        },
    );
    text.family(
        (
            "pool_max_wait_seconds",
            "gauge",
            "How long the first client in the queue has waited.",
        ),
        &snapshot.pools,
        |text, pool| {
            let labels = [("database", pool.database.as_str()), ("user", pool.user.as_str())];
            let waited = pool.maxwait as f64 + seconds(pool.maxwait_us);
            text.sample("pool_max_wait_seconds", &labels, waited);
        },
    );
}

fn databases(text: &mut Text, snapshot: &Snapshot) {
    type Gauge = fn(&DatabaseRow) -> u64;
    let gauges: [(&str, &str, Gauge); 6] = [
        ("database_servers", "Server connections of a database.", |row| {
            row.current_connections
        }),
        (
            "database_servers_max",
            "Server connections that the database may have; 0: no limit.",
            |row| row.max_connections,
        ),
        ("database_clients", "Clients of a database.", |row| {
            row.current_client_connections
        }),
        (
            "database_clients_max",
            "Clients that the database may have; 0: no limit.",
            |row| row.max_client_connections,
        ),
        ("database_paused", "Whether the database is paused.", |row| {
            u64::from(row.paused)
        }),
        ("database_disabled", "Whether the database is disabled.", |row| {
            u64::from(row.disabled)
        }),
    ];
    for (name, help, value) in gauges {
        text.family((name, "gauge", help), &snapshot.databases, |text, row| {
            text.sample(name, &[("database", &row.name)], value(row));
        });
    }
    type Counter = fn(&Stats) -> f64;
    let counters: [(&str, &str, Counter); 13] = [
        (
            "server_assignments_total",
            "How often a server was given to a client.",
            |stats| stats.server_assignment_count as f64,
        ),
        ("transactions_total", "Transactions.", |stats| {
            stats.xact_count as f64
        }),
        ("queries_total", "Statements.", |stats| stats.query_count as f64),
        ("received_bytes_total", "Bytes from clients.", |stats| {
            stats.received as f64
        }),
        ("sent_bytes_total", "Bytes to clients.", |stats| stats.sent as f64),
        (
            "transaction_time_seconds_total",
            "Time in transactions.",
            |stats| seconds(stats.xact_time),
        ),
        ("query_time_seconds_total", "Time in statements.", |stats| {
            seconds(stats.query_time)
        }),
        (
            "wait_time_seconds_total",
            "Time clients waited for a server.",
            |stats| seconds(stats.wait_time),
        ),
        (
            "client_parses_total",
            "Statements prepared by clients.",
            |stats| stats.client_parse_count as f64,
        ),
        (
            "server_parses_total",
            "Statements prepared on servers.",
            |stats| stats.server_parse_count as f64,
        ),
        ("binds_total", "Prepared statements bound.", |stats| {
            stats.bind_count as f64
        }),
        (
            "settings_carried_total",
            "Times a client's settings were set on another server connection.",
            |stats| stats.settings_carried as f64,
        ),
        (
            "state_questions_total",
            "Times a server connection was asked what its client had left there.",
            |stats| stats.state_questions as f64,
        ),
    ];
    for (name, help, value) in counters {
        text.family(
            (name, "counter", help),
            &snapshot.stats,
            |text, (database, stats)| {
                text.sample(name, &[("database", database)], value(stats));
            },
        );
    }
}

fn cores(text: &mut Text, snapshot: &Snapshot) {
    type Value = fn(&CoreRow) -> f64;
    let values: [(&str, &str, &str, Value); 9] = [
        ("core_clients", "gauge", "Clients of an event loop.", |row| {
            row.clients as f64
        }),
        ("core_waiting", "gauge", "Of these waiting for a server.", |row| {
            row.waiting as f64
        }),
        (
            "core_servers",
            "gauge",
            "Server connections of an event loop.",
            |row| row.servers as f64,
        ),
        (
            "core_backends_bound",
            "gauge",
            "Of these whose process is bound to the core.",
            |row| row.backends_bound as f64,
        ),
        (
            "core_transactions_total",
            "counter",
            "Transactions of an event loop.",
            |row| row.xact_count as f64,
        ),
        (
            "core_queries_total",
            "counter",
            "Statements of an event loop.",
            |row| row.query_count as f64,
        ),
        (
            "core_cohort_queries_total",
            "counter",
            "Statements that ran right after one of their shape.",
            |row| row.cohort_count as f64,
        ),
        (
            "core_busy_seconds_total",
            "counter",
            "CPU time of an event loop.",
            |row| seconds(row.busy_us),
        ),
        (
            "core_shapes",
            "gauge",
            "Different shapes among the texts an event loop remembers.",
            |row| row.shapes as f64,
        ),
    ];
    for (name, kind, help, value) in values {
        text.family((name, kind, help), &snapshot.cores, |text, row| {
            text.sample(name, &[("core", &row.core.to_string())], value(row));
        });
    }
}

fn hosts(text: &mut Text, snapshot: &Snapshot) {
    fn labels<'a>(row: &'a HostRow, port: &'a str) -> [(&'static str, &'a str); 3] {
        [("database", &row.database), ("host", &row.host), ("port", port)]
    }
    text.family(
        ("host_state", "gauge", "1 for the role and state a host is in."),
        &snapshot.hosts,
        |text, row| {
            let port = row.port.to_string();
            let [database, host, port] = labels(row, &port);
            let labels = [database, host, port, ("role", &row.role), ("state", &row.state)];
            text.sample("host_state", &labels, 1);
        },
    );
    type Value = fn(&HostRow) -> Option<f64>;
    let values: [(&str, &str, &str, Value); 5] = [
        (
            "host_lag_seconds",
            "gauge",
            "How far a copy is behind in time.",
            |row| row.lag_us.map(seconds),
        ),
        (
            "host_lag_bytes",
            "gauge",
            "How far a copy is behind in bytes of log.",
            |row| row.lag_bytes.map(|bytes| bytes as f64),
        ),
        ("host_failures", "gauge", "Failures in a row.", |row| {
            Some(row.failures as f64)
        }),
        ("host_servers", "gauge", "Connections to a host.", |row| {
            Some(row.servers as f64)
        }),
        (
            "host_queries_total",
            "counter",
            "Statements that a host ran.",
            |row| Some(row.query_count as f64),
        ),
    ];
    for (name, kind, help, value) in values {
        let known = snapshot.hosts.iter().filter(|row| value(row).is_some());
        text.family((name, kind, help), known, |text, row| {
            if let Some(value) = value(row) {
                text.sample(name, &labels(row, &row.port.to_string()), value);
            }
        });
    }
}

fn ranges(text: &mut Text, snapshot: &Snapshot) {
    text.family(
        (
            "range_statements_total",
            "counter",
            "Statements with keys of a worker's range.",
        ),
        &snapshot.ranges,
        |text, row| {
            let worker = row.worker.to_string();
            let labels = [
                ("database", row.database.as_str()),
                ("range", &row.name),
                ("worker", &worker),
            ];
            text.sample("range_statements_total", &labels, row.query_count);
        },
    );
    type Counter = fn(&KeyRow) -> u64;
    let counters: [(&str, &str, Counter); 2] = [
        (
            "range_overflow_total",
            "Statements that another worker took, because the worker of their range was busy.",
            |row| row.overflow_count,
        ),
        (
            "range_moves_total",
            "Times that keys moved to another worker.",
            |row| row.move_count,
        ),
    ];
    for (name, help, value) in counters {
        text.family((name, "counter", help), &snapshot.keys, |text, row| {
            let labels = [("database", row.database.as_str()), ("range", &row.name)];
            text.sample(name, &labels, value(row));
        });
    }
}

fn splits(text: &mut Text, snapshot: &Snapshot) {
    let mut all: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for row in &snapshot.splits {
        let (parts, whole) = all.entry((&row.database, &row.name)).or_default();
        *parts += row.split_count;
        *whole += row.whole_count;
    }
    text.family(
        ("split_total", "counter", "Runs of a query that may run in parts."),
        &all,
        |text, ((database, name), (parts, whole))| {
            for (way, count) in [("parts", parts), ("whole", whole)] {
                let labels = [("database", *database), ("split", *name), ("way", way)];
                text.sample("split_total", &labels, count);
            }
        },
    );
}

fn heavy_queue(text: &mut Text, totals: &HeavyQueueTotals) {
    for (name, label, help, counts) in [
        (
            "heavy_queue_starts_total",
            "why",
            "Heavy queries started by the queue, by what decided.",
            &totals.starts,
        ),
        (
            "heavy_queue_events_total",
            "event",
            "What happened to heavy queries in the queue.",
            &totals.events,
        ),
    ] {
        text.family((name, "counter", help), counts, |text, (value, count)| {
            text.sample(name, &[(label, value)], *count);
        });
    }
}
