//! The tables of a moment, and the lines above them.

use std::time::Duration;

use corun_model::server_status::{QueryState, QueuedQuery, ServerStatus};

use super::Moment;
use crate::top::grid::{Cell, Grid, Heading};
use crate::top::units::{UNKNOWN, bytes, count, rate, time};
use crate::top::view::{Line, View};

/// Sessions and queue are always shown.
const ALWAYS: usize = 2;

const SESSIONS: &[Heading] = &[
    ("pid", true),
    ("user", false),
    ("database", false),
    ("state", false),
    ("for", true),
    ("class", false),
    ("cpus", false),
    ("statement", false),
];

const QUEUE: &[Heading] = &[
    ("query", true),
    ("pid", true),
    ("state", false),
    ("class", false),
    ("cpus", false),
    ("for", true),
    ("overtaken", true),
    ("why", false),
];

const CLASSES: &[Heading] = &[
    ("class", false),
    ("queries", true),
    ("beside strong", true),
    ("moderate", true),
    ("weak", true),
];

const SHARED: &[Heading] = &[
    ("shared", false),
    ("kept", true),
    ("bytes", true),
    ("made", true),
    ("joined", true),
    ("reused", true),
];

const SLOW: &[Heading] = &[
    ("ago", true),
    ("took", true),
    ("waited", true),
    ("user", false),
    ("class", false),
    ("rows", true),
    ("error", false),
    ("statement", false),
];

const CACHES: &[Heading] = &[
    ("cache", false),
    ("size", true),
    ("count", true),
    ("cpus", true),
    ("served by", false),
];

/// The moment as it is shown.
pub fn view(moment: &Moment) -> View {
    let status = &moment.status;
    let grid = |title, headings, rows: Vec<Vec<Cell>>| Grid {
        title,
        headings,
        rows,
    };
    View {
        title: format!("{} {}", status.program, status.version),
        summary: summary(moment),
        grids: vec![
            grid("Sessions", SESSIONS, sessions(status)),
            grid("Queue", QUEUE, queue(status)),
            grid("Classes", CLASSES, classes(status)),
            grid("Shared", SHARED, shared(status)),
            grid("Slow", SLOW, slow(status)),
            grid("Caches", CACHES, caches(status)),
        ],
        always: ALWAYS,
    }
}

fn summary(moment: &Moment) -> Vec<Line> {
    let status = &moment.status;
    let known = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
    let (totals, memory) = (&status.statements, &status.memory);
    let queued = |state| status.queue.as_ref().map_or(0, |queue| queue.count(state));
    let waiting = queued(QueryState::Waiting);
    let most = match memory.pool_bytes_max {
        Some(most) => format!(" of {}", bytes(most as f64)),
        None => String::new(),
    };
    let active = status
        .sessions
        .iter()
        .filter(|session| session.state == "active")
        .count();
    let lines = [
        (
            "rate",
            format!(
                "{} statements/s, {} rows/s, {}/s out",
                known(moment.rate(super::ended).map(rate)),
                known(moment.rate(|status| status.statements.rows as f64).map(rate)),
                known(moment.rate(|status| status.statements.bytes as f64).map(bytes)),
            ),
        ),
        (
            "mean",
            format!(
                "statement {}, of which in the queue {}; failed {}, cancelled {}",
                known(moment.mean(|status| status.statements.seconds).map(time)),
                known(moment.mean(|status| status.statements.waited_s).map(time)),
                count(totals.failed),
                count(totals.cancelled),
            ),
        ),
        (
            "queue",
            match &status.queue {
                Some(queue) => format!(
                    "{} running, {waiting} waiting, {} short; policy {}",
                    queued(QueryState::Running),
                    queued(QueryState::Short),
                    queue.policy
                ),
                None => "off: each query runs at once".to_owned(),
            },
        ),
        (
            "sessions",
            format!(
                "{active} active, {} of {}; memory {}{most}, process {}",
                count(status.connections.sessions),
                count(status.connections.sessions_max),
                bytes(memory.pool_bytes as f64),
                bytes(memory.resident_bytes as f64),
            ),
        ),
    ];
    let line = |(name, text)| Line {
        name,
        text,
        is_warning: name == "queue" && waiting > 0,
    };
    lines.into_iter().map(line).collect()
}

fn number(value: u64) -> Cell {
    Cell::Number(count(value), value as f64)
}

fn text(value: &str) -> Cell {
    Cell::Text(value.to_owned())
}

fn seconds(value: Option<f64>) -> Cell {
    let show = |seconds| time(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    Cell::maybe(value, |value| value, show)
}

fn size(value: u64) -> Cell {
    Cell::Number(bytes(value as f64), value as f64)
}

fn class_of(query: Option<&QueuedQuery>) -> Cell {
    let class = query.and_then(|query| query.class);
    Cell::Text(class.map(|class| class.to_string()).unwrap_or_default())
}

/// Those that do something first.
fn sessions(status: &ServerStatus) -> Vec<Vec<Cell>> {
    let mut sessions: Vec<_> = status.sessions.iter().collect();
    sessions.sort_by_key(|session| (session.state != "active", session.pid));
    let rows = sessions.into_iter().map(|session| {
        let queries = status.queue.iter().flat_map(|queue| &queue.queries);
        let query = queries.into_iter().find(|query| query.pid == Some(session.pid));
        vec![
            Cell::Number(session.pid.to_string(), f64::from(session.pid)),
            text(&session.user),
            text(&session.database),
            text(&session.state),
            seconds(session.statement_s.or(Some(session.connected_s))),
            class_of(query),
            text(query.map_or("", |query| &query.cpus)),
            text(&session.statement),
        ]
    });
    rows.collect()
}

fn queue(status: &ServerStatus) -> Vec<Vec<Cell>> {
    let queries = status.queue.iter().flat_map(|queue| &queue.queries);
    let rows = queries.map(|query| {
        vec![
            Cell::Number(query.id.to_string(), query.id as f64),
            Cell::maybe(query.pid, f64::from, |pid| pid.to_string()),
            text(query.state.name()),
            class_of(Some(query)),
            text(&query.cpus),
            seconds(query.seconds),
            number(u64::from(query.overtaken)),
            text(&query.why),
        ]
    });
    rows.collect()
}

/// A row for each class: how many there were, and what it takes beside each class, of what it takes alone.
fn classes(status: &ServerStatus) -> Vec<Vec<Cell>> {
    const NAMES: [&str; 3] = ["strong", "moderate", "weak"];
    let Some(queue) = &status.queue else {
        return Vec::new();
    };
    let rows = NAMES
        .into_iter()
        .zip(status.statements.by_class)
        .map(|(class, queries)| {
            let beside = NAMES.map(|beside| {
                let cell = queue
                    .slowdowns
                    .iter()
                    .find(|cell| cell.victim.to_string() == class && cell.corunner.to_string() == beside);
                Cell::maybe(
                    cell.map(|cell| cell.factor),
                    |factor| factor,
                    |factor| format!("{factor:.2}x"),
                )
            });
            [vec![text(class), number(queries)], beside.to_vec()].concat()
        });
    rows.collect()
}

fn shared(status: &ServerStatus) -> Vec<Vec<Cell>> {
    let shared = &status.shared;
    vec![
        vec![
            text("parts of statements"),
            number(shared.results),
            size(shared.result_bytes),
            number(shared.parts_run),
            number(shared.parts_joined),
            number(shared.results_reused),
        ],
        vec![
            text("columns of files"),
            number(shared.columns),
            size(shared.column_bytes),
            number(shared.columns_asked - shared.columns_reused.min(shared.columns_asked)),
            Cell::Unknown,
            number(shared.columns_reused),
        ],
    ]
}

fn slow(status: &ServerStatus) -> Vec<Vec<Cell>> {
    let rows = status.slow.iter().map(|slow| {
        vec![
            seconds(Some(slow.ago_s)),
            seconds(Some(slow.seconds)),
            seconds(slow.waited_s),
            text(&slow.user),
            Cell::Text(slow.class.map(|class| class.to_string()).unwrap_or_default()),
            number(slow.rows),
            text(slow.sqlstate.as_deref().unwrap_or_default()),
            text(&slow.statement),
        ]
    });
    rows.collect()
}

fn caches(status: &ServerStatus) -> Vec<Vec<Cell>> {
    let rows = status.caches.iter().map(|cache| {
        vec![
            text(&cache.name),
            Cell::maybe(
                cache.bytes,
                |bytes| bytes as f64,
                |of| corun_model::units::Bytes(of).to_string(),
            ),
            number(cache.count as u64),
            number(cache.cpus as u64),
            text(&cache.mechanism),
        ]
    });
    rows.collect()
}
