//! The console's tables that PgBouncer does not have: event loops, cohorts, hosts, prepared statements.

use super::table::row;

row! {
    /// `SHOW CORES`: a row for each event loop.
    CoreRow {
        /// Event loop, from 0.
        core: u64,
        /// Processor it is kept on.
        cpu: Option<u64>,
        /// NUMA node of that processor.
        node: Option<u64>,
        /// How its sockets are driven.
        io: String,
        /// Its clients.
        clients: u64,
        /// Of these waiting for a server.
        waiting: u64,
        /// Its server connections.
        servers: u64,
        /// Of these in use.
        servers_active: u64,
        /// Of these whose process is bound to the processor.
        backends_bound: u64,
        /// Why one was not, lately, or empty.
        unbound_because: String,
        /// Transactions so far.
        xact_count: u64,
        /// Statements so far.
        query_count: u64,
        /// Of these, how many ran right after one of the same shape.
        cohort_count: u64,
        /// CPU time of its thread, in microseconds.
        busy_us: u64,
        /// Different shapes among the texts it remembers.
        shapes: u64,
    }

    /// `SHOW COHORTS`: a row for each pool of each event loop.
    CohortRow {
        /// Event loop, from 0.
        core: u64,
        /// Database.
        database: String,
        /// User.
        user: String,
        /// Clients that wait now.
        waiting: u64,
        /// Statements that waited, so far.
        query_count: u64,
        /// Of these, how many ran right after one of the same shape.
        cohort_count: u64,
        /// `on` or `off`: what holds now, also where `auto` decides.
        state: String,
    }

    /// `SHOW RANGES`: a row for each worker of each domain of keys.
    RangeRow {
        /// Name of the range in the configuration.
        name: String,
        /// Database.
        database: String,
        /// Worker, from 0.
        worker: u64,
        /// Processor its servers are bound to.
        cpu: Option<u64>,
        /// The least key of its own, as a number; none: no limit.
        from: Option<String>,
        /// The first key that is not its own.
        to: Option<String>,
        /// Parts that are moved as wholes.
        buckets: u64,
        /// Statements with these keys so far.
        query_count: u64,
        /// The same in percent of the domain's.
        percent: u64,
        /// `on` or `off`: whether keys decide now, also where `auto` decides.
        state: String,
    }

    /// `SHOW KEYS`: a row for each domain of keys.
    KeyRow {
        /// Name of the range in the configuration.
        name: String,
        /// Database.
        database: String,
        /// Its columns.
        columns: String,
        /// What its keys are.
        key_type: String,
        /// Statements with a key so far.
        query_count: u64,
        /// Of these, how many another worker took, because their own was busy.
        overflow_count: u64,
        /// Times that parts moved to another worker.
        move_count: u64,
        /// Keys that cut those seen lately into sixteenths, as numbers.
        observed: String,
    }

    /// `SHOW SPLITS`: a row for each query that may run in parts, and event loop.
    SplitRow {
        /// Event loop, from 0.
        core: u64,
        /// Name of the split in the configuration.
        name: String,
        /// Database.
        database: String,
        /// The column its ranges are of.
        key: String,
        /// Times it ran in parts so far.
        split_count: u64,
        /// Times it ran whole.
        whole_count: u64,
        /// Parts it runs in while cores are free, as far as is known.
        parts: u64,
        /// What it takes whole, in microseconds, while cores are free.
        whole_us: Option<u64>,
        /// What it takes in `parts`.
        split_us: Option<u64>,
        /// What each part costs anew, in microseconds.
        overhead_us: u64,
        /// Why it ran whole lately, where that is not for want of cores or gain.
        why: String,
    }

    /// `SHOW QUERIES`: a row for each shape of statements that took more than half a millisecond.
    QueryRow {
        /// Database.
        database: String,
        /// Its shape, as a number in hexadecimal.
        shape: String,
        /// Times it took longer than half a millisecond.
        query_count: u64,
        /// The time of these together, in microseconds.
        total_us: u64,
        /// The mean of them.
        mean_us: u64,
        /// The text with `$n` in place of its literals; the end of a long one is left out.
        query: String,
    }

    /// `SHOW QUEUE`: a row for each heavy query that runs or waits in the queue of the machine; those that run come first.
    QueueRow {
        /// Event loop of its client, from 0.
        core: u64,
        /// Number of its client, as in `SHOW CLIENTS`.
        client: u64,
        /// Database.
        database: String,
        /// User.
        user: String,
        /// Its shape, as a number in hexadecimal.
        shape: String,
        /// `running` or `waiting`.
        state: String,
        /// Locality in the cache it runs in, or would: `strong`, `moderate` or `weak`.
        class: String,
        /// Bytes of its hash tables, as far as PostgreSQL's estimates go.
        table_bytes: u64,
        /// How it is run: as PostgreSQL planned it, or with these settings.
        form: String,
        /// The policy followed now.
        policy: String,
        /// How long it waited, in microseconds.
        waited_us: u64,
        /// How long it has run.
        ran_us: Option<u64>,
        /// The core its server process is bound to; empty where it could not be bound.
        cpu: Option<u64>,
        /// The resctrl group its server process was put into, which is its part of the last-level cache; empty where that is not divided.
        cache: String,
        /// Parallel workers that were brought to its cores and its part of the cache.
        workers: Option<u64>,
        /// Why it was started there and then.
        why: String,
        /// How many that came later were started before it, while it waits.
        overtaken: u64,
    }

    /// `SHOW HEAVY_QUEUE`: a row for each pair of classes: what one costs the other, as far as run times have taught.
    SlowdownRow {
        /// Locality of a query.
        class: String,
        /// Locality of the one that runs beside it.
        beside: String,
        /// How long the first takes then, in percent of what it takes alone.
        percent: u64,
        /// The cache that is counted on.
        cache_bytes: u64,
        /// The policy followed now.
        policy: String,
        /// What keeps weak queries out of the cache.
        partition: String,
    }

    /// `SHOW HOSTS`: a row for each server of each database.
    HostRow {
        /// Database.
        database: String,
        /// Where.
        host: String,
        /// Which port.
        port: u64,
        /// `primary`, `replica` or `unknown`.
        role: String,
        /// `up`, `lagging`, `banned` or `down`.
        state: String,
        /// How far behind in time, in microseconds.
        lag_us: Option<u64>,
        /// How far behind in bytes of log.
        lag_bytes: Option<u64>,
        /// Position in the log.
        lsn: Option<String>,
        /// Timeline.
        timeline: Option<u64>,
        /// Connections to it.
        servers: u64,
        /// Statements it answered.
        query_count: u64,
        /// Failures in a row.
        failures: u64,
        /// Microseconds until it is tried again.
        ban_us: Option<u64>,
        /// What failed last, or empty.
        error: String,
    }

    /// `SHOW PREPARED`: a row for each distinct prepared statement.
    PreparedRow {
        /// Its name on servers.
        name: String,
        /// Its text, shortened.
        statement: String,
        /// Clients that have it.
        clients: u64,
        /// Servers that have it.
        servers: u64,
        /// How often it was bound.
        bind_count: u64,
        /// Whether the proxy prepared it by itself.
        automatic: bool,
    }
}
