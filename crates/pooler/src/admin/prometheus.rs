//! Metrics in the text format that Prometheus reads (version 0.0.4).
//!
//! Names begin with `corun_`, units are seconds and bytes, counters end in `_total`. The numbers are those of the console.

use std::collections::BTreeMap;

use corun_net::metrics::{Histogram, Text};

use super::stats::STATS_METRICS;
use super::table::{Cell, Row, Value};
use super::{CoreRow, DatabaseRow, HostRow, KeyRow, PoolRow, RangeRow, SplitRow, Stats};

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

/// A metric that each row of a table has.
pub(super) struct Metric<R> {
    /// Its name, without `corun_`.
    pub name: &'static str,
    /// `gauge` or `counter`.
    pub kind: &'static str,
    /// What it is.
    pub help: &'static str,
    /// Its value; a row without a value has no sample.
    pub value: fn(&R) -> Option<f64>,
}

/// The labels of a sample with their values.
type Labels = Vec<(&'static str, String)>;

/// Makes the metrics of each kind of row out of one table. The first line has the labels and the columns that fill them. Each
/// further line is a metric: its name, its kind, the column that it shows (and what that is divided by), and its help text.
macro_rules! metrics {
    ($( $row:ident as $table:ident by $( $label:ident = $key:ident ),* {
        $( $name:ident: $kind:ident = $column:ident $(/ $divisor:literal)?, $help:literal; )*
    } )*) => { $(
        const $table: &[Metric<$row>] = &[ $( Metric {
            name: stringify!($name),
            kind: stringify!($kind),
            help: $help,
            value: |row| number(&row.$column)$(.map(|number| number / $divisor))?,
        }, )* ];

        impl Labelled for $row {
            fn labels(&self) -> Labels {
                vec![ $( (stringify!($label), self.$key.to_string()), )* ]
            }
        }
    )* };
}

/// Rows that have labels.
trait Labelled {
    /// The labels of each of the row's samples.
    fn labels(&self) -> Labels;
}

metrics! {
    DatabaseRow as DATABASE_METRICS by database = name {
        database_servers: gauge = current_connections, "Server connections of a database.";
        database_servers_max: gauge = max_connections, "Server connections that the database may have; 0: no limit.";
        database_clients: gauge = current_client_connections, "Clients of a database.";
        database_clients_max: gauge = max_client_connections, "Clients that the database may have; 0: no limit.";
        database_paused: gauge = paused, "Whether the database is paused.";
        database_disabled: gauge = disabled, "Whether the database is disabled.";
    }

    CoreRow as CORE_METRICS by core = core {
        core_clients: gauge = clients, "Clients of an event loop.";
        core_waiting: gauge = waiting, "Of these waiting for a server.";
        core_servers: gauge = servers, "Server connections of an event loop.";
        core_backends_bound: gauge = backends_bound, "Of these whose process is bound to the core.";
        core_transactions_total: counter = xact_count, "Transactions of an event loop.";
        core_queries_total: counter = query_count, "Statements of an event loop.";
        core_cohort_queries_total: counter = cohort_count, "Statements that ran right after one of their shape.";
        core_busy_seconds_total: counter = busy_us / 1e6, "CPU time of an event loop.";
        core_shapes: gauge = shapes, "Different shapes among the texts an event loop remembers.";
    }

    HostRow as HOST_METRICS by database = database, host = host, port = port {
        host_lag_seconds: gauge = lag_us / 1e6, "How far a copy is behind in time.";
        host_lag_bytes: gauge = lag_bytes, "How far a copy is behind in bytes of log.";
        host_failures: gauge = failures, "Failures in a row.";
        host_servers: gauge = servers, "Connections to a host.";
        host_queries_total: counter = query_count, "Statements that a host ran.";
    }

    RangeRow as RANGE_METRICS by database = database, range = name, worker = worker {
        range_statements_total: counter = query_count, "Statements with keys of a worker's range.";
    }

    KeyRow as KEY_METRICS by database = database, range = name {
        range_overflow_total: counter = overflow_count, "Statements that another worker took, because the worker of their range was busy.";
        range_moves_total: counter = move_count, "Times that keys moved to another worker.";
    }
}

impl Labelled for (String, Stats) {
    fn labels(&self) -> Labels {
        vec![("database", self.0.clone())]
    }
}

/// A column's value as a number, if it is one.
fn number(value: &impl Value) -> Option<f64> {
    match value.cell() {
        Cell::Number(number) => Some(number as f64),
        Cell::Null | Cell::Text(_) => None,
    }
}

/// The metrics of a table.
fn table<R: Labelled>(text: &mut Text, metrics: &[Metric<R>], rows: &[R]) {
    for metric in metrics {
        let known = rows.iter().filter_map(|row| Some((row, (metric.value)(row)?)));
        let about = (metric.name, metric.kind, metric.help);
        text.family(about, known, |text, (row, value)| {
            let labels = row.labels();
            let labels: Vec<(&str, &str)> = labels.iter().map(|(name, text)| (*name, &**text)).collect();
            text.sample(metric.name, &labels, value);
        });
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// The text of a scrape.
pub fn prometheus(snapshot: &Snapshot) -> String {
    let mut text = Text::default();
    text.head("info", "gauge", "Version of the pooler.");
    text.sample("info", &[("version", &snapshot.version)], 1);
    let (clients, clients_max) = (snapshot.clients as f64, snapshot.clients_max as f64);
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
        ("clients", "Connected clients.", clients),
        ("clients_max", "Clients that may connect.", clients_max),
    ] {
        text.single(name, "gauge", help, value);
    }
    pools(&mut text, &snapshot.pools);
    table(&mut text, DATABASE_METRICS, &snapshot.databases);
    table(&mut text, STATS_METRICS, &snapshot.stats);
    table(&mut text, CORE_METRICS, &snapshot.cores);
    host_states(&mut text, &snapshot.hosts);
    table(&mut text, HOST_METRICS, &snapshot.hosts);
    table(&mut text, RANGE_METRICS, &snapshot.ranges);
    table(&mut text, KEY_METRICS, &snapshot.keys);
    splits(&mut text, &snapshot.splits);
    let queue = &snapshot.heavy_queue;
    let help = "Heavy queries started by the queue, by what decided.";
    text.counts("heavy_queue_starts_total", help, "why", &queue.starts);
    let help = "What happened to heavy queries in the queue.";
    text.counts("heavy_queue_events_total", help, "event", &queue.events);
    let help = "Errors of the pooler itself, sent to clients.";
    text.counts("errors_total", help, "sqlstate", &snapshot.errors);
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
            text.histogram(name, &[("database", &found.database)], choose(found));
        });
    }
    text.finish()
}

/// The states of clients and servers are the columns of `SHOW POOLS` that begin with `cl_` and `sv_`.
fn pools(text: &mut Text, pools: &[PoolRow]) {
    for (prefix, name, help) in [
        ("cl_", "pool_clients", "Clients of a pool by state."),
        ("sv_", "pool_servers", "Server connections of a pool by state."),
    ] {
        text.family((name, "gauge", help), pools, |text, pool| {
            let (database, user) = (("database", &*pool.database), ("user", &*pool.user));
            for ((column, _), cell) in PoolRow::COLUMNS.iter().zip(pool.cells()) {
                if let (Some(state), Cell::Number(count)) = (column.strip_prefix(prefix), cell) {
                    text.sample(name, &[database, user, ("state", state)], count);
                }
            }
        });
    }
    let name = "pool_max_wait_seconds";
    let help = "How long the first client in the queue has waited.";
    text.family((name, "gauge", help), pools, |text, pool| {
        let labels = [("database", &*pool.database), ("user", &*pool.user)];
        text.sample(name, &labels, pool.maxwait as f64 + seconds(pool.maxwait_us));
    });
}

fn host_states(text: &mut Text, hosts: &[HostRow]) {
    let help = "1 for the role and state a host is in.";
    text.family(("host_state", "gauge", help), hosts, |text, row| {
        let port = row.port.to_string();
        let labels = [
            ("database", &*row.database),
            ("host", &row.host),
            ("port", &port),
            ("role", &row.role),
            ("state", &row.state),
        ];
        text.sample("host_state", &labels, 1);
    });
}

/// Runs of each query that may run in parts, of all event loops together.
fn splits(text: &mut Text, rows: &[SplitRow]) {
    let mut all: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for row in rows {
        let (parts, whole) = all.entry((&row.database, &row.name)).or_default();
        *parts += row.split_count;
        *whole += row.whole_count;
    }
    let about = ("split_total", "counter", "Runs of a query that may run in parts.");
    text.family(about, &all, |text, ((database, name), (parts, whole))| {
        for (way, count) in [("parts", parts), ("whole", whole)] {
            let labels = [("database", *database), ("split", *name), ("way", way)];
            text.sample("split_total", &labels, count);
        }
    });
}
