//! `[corun]`: what PgBouncer does not have.
//!
//! The lengths and times of cohorts and of the health of hosts are unmeasured until a record says otherwise.

use std::net::SocketAddr;
use std::time::Duration;

use super::choices::{
    AutoPrepare, Dispatch, Doubtful, HeavyQueuePolicy, Io, LogFormat, LogLevel, ReplicaDispatch,
    SplitPlacement, Switch,
};
use super::settings::settings;
use super::values::{AutoCount, Bytes};

settings! {
    /// Settings of event loops, cores, cohorts and replicas.
    Corun at Corun {
        event_loops: AutoCount = AutoCount::Auto, [1, 1024], Restart, "Threads that serve connections. `auto`: one thread for each core that this process may use. Threads are spread over NUMA nodes.";
        pin: bool = false, Restart, "Keeps each event loop on its core.";
        io: Io = Io::Auto, Restart, "How sockets are driven.";
        backends_per_core: AutoCount = AutoCount::Auto, [1, 10000], Reload, "Server connections of a pool on each core. `auto`: the pool's size divided by the cores.";
        bind_backends: Switch = Switch::Auto, Reload, "Binds the server process behind a connection to the connection's core, where the server is local and the system allows it. `on`: warns where the system does not.";

        cohorts: Switch = Switch::Auto, Reload, "Runs waiting statements of one shape after each other. `auto`: while it is measured to pay.";
        cohort_length_max: u32 = 16, [1, 10000], Reload, "Longest run of one shape while others wait.";
        cohort_wait_max_us: u32 = 2000, [0, 10000000], Reload, "Longest time in microseconds by which cohorts may delay a statement.";
        auto_prepare: AutoPrepare = AutoPrepare::Off, Reload, "Runs simple-protocol texts as prepared statements: repeated identical ones, or also those that differ in literals.";
        doubtful: Doubtful = Doubtful::Pin, Reload, "What follows when a client runs code that may leave anything in its session, and nobody can see what. `pin`: the client keeps its server connection, which is closed when the client leaves. `trust`: the pooler only asks the server for what it can tell.";
        trusted_schemas: Vec<String> = Vec::new(), Reload, "Schemas whose functions leave nothing in the session that runs them, whatever their bodies look like.";
        trusted_functions: Vec<String> = Vec::new(), Reload, "Functions (`name` or `schema.name`) that leave nothing in the session.";
        statement_cache_size: u32 = 10000, [16, 10000000], Restart, "Distinct texts of which each event loop remembers what they do.";

        dispatch: Dispatch = Dispatch::Auto, Reload, "Where `[ranges.NAME]` names keys of a database: sends statements with a key to the core that has its range. `auto`: while it is measured to pay.";
        range_wait_max_us: u32 = 300, [0, 10000000], Reload, "Microseconds a statement waits for the core of its range while another is free.";
        replica_dispatch: ReplicaDispatch = ReplicaDispatch::Range, Reload, "Which copy a read goes to: the copy that has the range of its key, where `[ranges.NAME]` names it, the least busy copy, or the next in turn.";
        split: Switch = Switch::Auto, Reload, "Runs the queries of `[splits.NAME]` in parts on several cores. `auto`: while cores are free and it is measured to pay.";
        split_parts: AutoCount = AutoCount::Auto, [1, 64], Reload, "Parts of a query at most. `auto`: one part for each core.";
        split_placement: SplitPlacement = SplitPlacement::Spread, Reload, "Where the parts of a query go on cores with two hardware threads.";
        split_cores: Option<u32> = None, [0, 1024], Restart, "Cores kept for queries that run in parts; others get the rest. Not set: a quarter of four or more, otherwise none.";
        split_jobs_max: u32 = 1, [1, 64], Reload, "Queries that run in parts at a time on each event loop; others run whole.";
        split_memory_max: Bytes = Bytes(16 << 20), [65536, 1073741824], Reload, "Memory for the rows of a query in parts until they are merged. A query that needs more runs whole.";

        heavy_queue: Switch = Switch::Off, Reload, "Queues queries that are known to take long, of all databases on this machine, so that those run together that do not harm each other in the last-level cache. Only in transaction and statement mode. `auto`: while measurements say that the queue pays.";
        heavy_queue_min: Duration = Duration::from_millis(50), Reload, "Run time from which a query is worth queueing. The pooler learns run times by the shape of texts. A query does not queue if it takes less than 10 ms, or less than twenty times the measured time between two queries of the queue.";
        heavy_queue_policy: HeavyQueuePolicy = HeavyQueuePolicy::Auto, Restart, "Which query runs beside which. `mls` needs a partitioned last-level cache (`corun partition apply`).";
        heavy_queue_plans: bool = true, Reload, "May run a query with other joins than PostgreSQL prefers (`SET LOCAL enable_...` in its own transaction), where its estimate is at most 30 % dearer and the tables suit the cache better.";
        heavy_queue_cores: AutoCount = AutoCount::Auto, [1, 1024], Restart, "Cores of the queue: so many of its queries run at a time, and their parallel workers run on no others. `auto`: one for each core this process may use.";
        heavy_queue_cache_bytes: Bytes = Bytes(0), Restart, "Bytes of the last-level cache to count on. 0: what `corun topology --measure` found, otherwise what the machine reports.";
        heavy_queue_overtakes_max: u32 = 8, [0, 10000], Restart, "How often later queries may overtake a query that waits.";
        heavy_queue_waiting_max: u32 = 1024, [1, 1000000], Restart, "How many queries wait at most; further ones run at once, as if there were no queue.";

        read_write_split: bool = false, Reload, "Sends statements that provably only read to `replicas`.";
        read_your_writes: bool = true, Reload, "A client's reads go to copies that have its last write.";
        lag_max: Duration = Duration::from_secs(10), Reload, "Copies further behind get no reads. 0: no limit.";
        lag_bytes_max: Bytes = Bytes(0), Reload, "The same in bytes of log. 0: no limit.";
        health_check_interval: Duration = Duration::from_secs(2), Reload, "How often each host of a database with several is asked for role and lag.";
        health_check_timeout: Duration = Duration::from_secs(5), Reload, "How long a host may take to respond to a check; a host that takes longer has failed.";
        failures_before_ban: u32 = 3, [1, 1000], Reload, "Failures in a row after which a host is left alone.";
        ban_time: Duration = Duration::from_secs(30), Reload, "How long, at first; longer when it fails again soon after.";
        read_fallback_to_primary: bool = true, Reload, "Reads go to the primary when no copy may take them; otherwise the pooler refuses them.";

        share_listen: bool = true, Reload, "Clients that listen in transaction mode share one connection a database. Off: each keeps its server.";

        memory_max: Bytes = Bytes(1 << 30), Reload, "Memory for buffers and prepared statements of all connections. Above it new clients are refused, the largest buffers are not read into, and clients may prepare little more. 0: no limit.";
        client_memory_max: Bytes = Bytes(64 << 20), [1048576, 1099511627776], Reload, "Memory for the prepared statements of one client; a client that needs more is disconnected.";
        connection_buffer_max: Bytes = Bytes(1 << 20), [16384, 1073741824], Reload, "Bytes kept for one slow reader before the other side is paused.";
        shutdown_timeout: Duration = Duration::ZERO, Reload, "How long a shutdown waits for transactions to end. 0: for ever.";

        prometheus_listen: Option<SocketAddr> = None, Restart, "Address that serves metrics over HTTP at `/metrics`. Not set: none.";
        log_level: LogLevel = LogLevel::Info, Reload, "How much is logged.";
        log_format: LogFormat = LogFormat::Text, Restart, "How log lines look.";
    }
}
