//! A server's numbers as Prometheus reads them.

use corun_model::server_status::{QueryState, ServerStatus};
use corun_net::metrics::{Histogram, Text};

/// The names of classes, in the order that they are counted in.
const CLASSES: [&str; 3] = ["strong", "moderate", "weak"];

/// A metric without labels: name, kind, help, value.
type Single = (&'static str, &'static str, &'static str, f64);

/// The text of a scrape; `times` are microseconds of statements.
pub(super) fn text(status: &ServerStatus, times: &Histogram, errors: &[(&'static str, u64)]) -> String {
    let mut text = Text::default();
    text.head("sql_info", "gauge", "Version of the SQL server.");
    text.sample("sql_info", &[("version", &status.version)], 1);
    for (name, kind, help, value) in server(status).into_iter().chain(shared(status)) {
        text.single(name, kind, help, value);
    }
    sessions(&mut text, status);
    let totals = &status.statements;
    let results = [
        ("completed", totals.completed),
        ("failed", totals.failed),
        ("cancelled", totals.cancelled),
    ];
    let help = "Statements that have ended, by how.";
    text.counts("sql_statements_total", help, "result", &results);
    let help = "Statements that did not complete, by SQLSTATE.";
    text.counts("sql_errors_total", help, "sqlstate", errors);
    let help = "Queries that the coordinator took, by their locality in the last-level cache.";
    let classes: Vec<(&str, u64)> = CLASSES.into_iter().zip(totals.by_class).collect();
    text.counts("sql_queries_total", help, "class", &classes);
    text.head("sql_statement_seconds", "histogram", "Time of statements.");
    text.histogram("sql_statement_seconds", &[], times);
    queue(&mut text, status);
    caches(&mut text, status);
    text.finish()
}

fn server(status: &ServerStatus) -> Vec<Single> {
    let (memory, connections, totals) = (&status.memory, &status.connections, &status.statements);
    let mut all = vec![
        (
            "sql_uptime_seconds",
            "gauge",
            "Time since the start of the server.",
            status.uptime_s,
        ),
        (
            "sql_resident_bytes",
            "gauge",
            "Resident memory of the process.",
            memory.resident_bytes as f64,
        ),
        (
            "sql_memory_pool_bytes",
            "gauge",
            "Memory that queries and what is kept for them hold.",
            memory.pool_bytes as f64,
        ),
        (
            "sql_sessions_max",
            "gauge",
            "Sessions that there may be.",
            connections.sessions_max as f64,
        ),
        (
            "sql_connections_total",
            "counter",
            "Connections.",
            connections.accepted as f64,
        ),
        (
            "sql_connections_refused_total",
            "counter",
            "Connections and logins for which there was no room.",
            connections.refused as f64,
        ),
        (
            "sql_logins_total",
            "counter",
            "Logins.",
            connections.logins as f64,
        ),
        (
            "sql_logins_refused_total",
            "counter",
            "Logins that were refused.",
            connections.logins_refused as f64,
        ),
        (
            "sql_rows_sent_total",
            "counter",
            "Rows sent to clients.",
            totals.rows as f64,
        ),
        (
            "sql_sent_bytes_total",
            "counter",
            "Bytes of results sent to clients.",
            totals.bytes as f64,
        ),
        (
            "sql_queue_wait_seconds_total",
            "counter",
            "Time that statements waited in the queue.",
            totals.waited_s,
        ),
    ];
    if let Some(most) = memory.pool_bytes_max {
        let help = "Memory that queries and what is kept for them may hold.";
        all.push(("sql_memory_pool_bytes_max", "gauge", help, most as f64));
    }
    all
}

fn shared(status: &ServerStatus) -> [Single; 9] {
    let shared = &status.shared;
    [
        (
            "sql_shared_results",
            "gauge",
            "Results that are kept for other statements.",
            shared.results as f64,
        ),
        (
            "sql_shared_result_bytes",
            "gauge",
            "Their bytes.",
            shared.result_bytes as f64,
        ),
        (
            "sql_shared_columns",
            "gauge",
            "Decoded columns of row groups that are kept.",
            shared.columns as f64,
        ),
        (
            "sql_shared_column_bytes",
            "gauge",
            "Their bytes.",
            shared.column_bytes as f64,
        ),
        (
            "sql_shared_parts_total",
            "counter",
            "Parts of statements that were run where others could join.",
            shared.parts_run as f64,
        ),
        (
            "sql_shared_parts_joined_total",
            "counter",
            "Statements that read along with one that ran the part.",
            shared.parts_joined as f64,
        ),
        (
            "sql_shared_results_reused_total",
            "counter",
            "Statements that took a result which was kept.",
            shared.results_reused as f64,
        ),
        (
            "sql_shared_columns_asked_total",
            "counter",
            "Columns that scans asked for.",
            shared.columns_asked as f64,
        ),
        (
            "sql_shared_columns_reused_total",
            "counter",
            "Columns that scans asked for and that were kept.",
            shared.columns_reused as f64,
        ),
    ]
}

fn sessions(text: &mut Text, status: &ServerStatus) {
    text.head("sql_sessions", "gauge", "Sessions by state.");
    for (state, is_it) in [("active", true), ("idle", false)] {
        let count = status
            .sessions
            .iter()
            .filter(|session| (session.state == "active") == is_it);
        text.sample("sql_sessions", &[("state", state)], count.count());
    }
}

fn queue(text: &mut Text, status: &ServerStatus) {
    let Some(queue) = &status.queue else { return };
    text.head("sql_queue", "gauge", "Queries at the coordinator by state.");
    for state in QueryState::ALL {
        text.sample("sql_queue", &[("state", state.name())], queue.count(state));
    }
    let oldest = queue
        .queries
        .iter()
        .filter(|query| query.state == QueryState::Waiting)
        .filter_map(|query| query.seconds)
        .fold(0.0, f64::max);
    let help = "How long the first query of the queue has waited.";
    text.single("sql_queue_wait_max_seconds", "gauge", help, oldest);
    let help = "Times as long as alone that a query of a class takes beside one of another, as learnt.";
    text.family(
        ("sql_slowdown_ratio", "gauge", help),
        &queue.slowdowns,
        |text, cell| {
            let (class, beside) = (cell.victim.to_string(), cell.corunner.to_string());
            let labels = [("class", class.as_str()), ("beside", beside.as_str())];
            text.sample("sql_slowdown_ratio", &labels, cell.factor);
        },
    );
}

fn caches(text: &mut Text, status: &ServerStatus) {
    let known = status
        .caches
        .iter()
        .filter_map(|cache| Some((cache, cache.bytes?)));
    let about = ("sql_cache_bytes", "gauge", "Size of one cache of each level.");
    text.family(about, known, |text, (cache, bytes)| {
        text.sample("sql_cache_bytes", &[("level", &cache.name)], bytes);
    });
}
