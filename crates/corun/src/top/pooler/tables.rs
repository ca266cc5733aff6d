//! The tables of a frame, and the lines above them.

use std::time::Duration;

use corun_pooler::admin::SlowdownRow;
use corun_pooler::watch::Speed;

use super::frame::Frame;
use crate::top::grid::{Cell, Grid, Heading};
use crate::top::units::{UNKNOWN, bytes, count, percent, rate, time};
use crate::top::view::Line;

/// Those that follow these are shown only where they have rows: few proxies have cohorts, ranges, splits or a queue of heavy queries.
pub const ALWAYS: usize = 3;

const POOLS: &[Heading] = &[
    ("database", false),
    ("user", false),
    ("clients", true),
    ("waiting", true),
    ("longest", true),
    ("servers", true),
    ("idle", true),
    ("used", true),
    ("busy", true),
    ("mode", false),
];

const DATABASES: &[Heading] = &[
    ("database", false),
    ("tps", true),
    ("qps", true),
    ("query", true),
    ("xact", true),
    ("wait", true),
    ("in/s", true),
    ("out/s", true),
];

const CORES: &[Heading] = &[
    ("loop", true),
    ("cpu", true),
    ("clients", true),
    ("queue", true),
    ("backends", true),
    ("active", true),
    ("bound", true),
    ("tps", true),
    ("qps", true),
    ("awake", true),
    ("cohort", true),
];

const COHORTS: &[Heading] = &[
    ("loop", true),
    ("database", false),
    ("user", false),
    ("queue", true),
    ("queued/s", true),
    ("cohort", true),
];

const HOSTS: &[Heading] = &[
    ("database", false),
    ("host", false),
    ("role", false),
    ("state", false),
    ("lag", true),
    ("behind", true),
    ("backends", true),
    ("failures", true),
    ("error", false),
];

const RANGES: &[Heading] = &[
    ("range", false),
    ("database", false),
    ("worker", true),
    ("cpu", true),
    ("from", false),
    ("qps", true),
    ("share", true),
    ("overflow", true),
    ("moves", true),
    ("ranges", false),
];

const SPLITS: &[Heading] = &[
    ("split", false),
    ("database", false),
    ("key", false),
    ("parts/s", true),
    ("whole/s", true),
    ("parts", true),
    ("in parts", true),
    ("whole", true),
    ("why", false),
];

const QUEUE: &[Heading] = &[
    ("state", false),
    ("class", false),
    ("tables", true),
    ("database", false),
    ("user", false),
    ("client", true),
    ("cpu", true),
    ("workers", true),
    ("waited", true),
    ("ran", true),
    ("form", false),
    ("why", false),
];

const CLASSES: &[Heading] = &[
    ("class", false),
    ("beside strong", true),
    ("moderate", true),
    ("weak", true),
    ("cache", true),
    ("policy", false),
    ("partition", false),
];

/// All tables, always in this order.
pub fn tables(frame: &Frame) -> Vec<Grid> {
    vec![
        pools(frame),
        databases(frame),
        cores(frame),
        cohorts(frame),
        hosts(frame),
        ranges(frame),
        splits(frame),
        queue(frame),
        classes(frame),
    ]
}

fn number(value: u64) -> Cell {
    Cell::Number(count(value), value as f64)
}

fn a_second(value: Option<f64>) -> Cell {
    Cell::maybe(value, |value| value, rate)
}

fn share(value: Option<f64>) -> Cell {
    Cell::maybe(value, |value| value, percent)
}

fn duration(value: Option<Duration>) -> Cell {
    Cell::maybe(value, |value| value.as_secs_f64(), time)
}

fn text(value: &str) -> Cell {
    Cell::Text(value.to_owned())
}

fn pools(frame: &Frame) -> Grid {
    let rows = frame.sample.pools().map(|pool| {
        let wait = Duration::from_secs(pool.maxwait).saturating_add(Duration::from_micros(pool.maxwait_us));
        vec![
            text(&pool.database),
            text(&pool.user),
            number(pool.cl_active),
            number(pool.cl_waiting),
            duration(Some(wait)),
            number(pool.sv_active),
            number(pool.sv_idle),
            number(pool.sv_used),
            number(pool.sv_tested + pool.sv_login + pool.sv_active_cancel + pool.sv_being_canceled),
            text(&pool.pool_mode),
        ]
    });
    Grid {
        title: "Pools",
        headings: POOLS,
        rows: rows.collect(),
    }
}

fn databases(frame: &Frame) -> Grid {
    let rows = frame.sample.stats().map(|row| {
        let speed = frame.rates.databases.get(&row.database);
        let of = |value: fn(&Speed) -> f64| speed.map(value);
        vec![
            text(&row.database),
            a_second(of(|speed| speed.transactions)),
            a_second(of(|speed| speed.queries)),
            duration(speed.and_then(|speed| speed.query_time)),
            duration(speed.and_then(|speed| speed.transaction_time)),
            duration(speed.and_then(|speed| speed.wait_time)),
            Cell::maybe(of(|speed| speed.received_bytes), |value| value, bytes),
            Cell::maybe(of(|speed| speed.sent_bytes), |value| value, bytes),
        ]
    });
    Grid {
        title: "Databases",
        headings: DATABASES,
        rows: rows.collect(),
    }
}

fn cores(frame: &Frame) -> Grid {
    // The last column is for cohorts.
    let columns = CORES.len() - usize::from(frame.sample.cohorts().next().is_none());
    let rows = frame.sample.cores.iter().map(|core| {
        let rate = frame.rates.cores.get(&core.core);
        let mut cells = vec![
            number(core.core),
            Cell::maybe(core.cpu, |cpu| cpu as f64, count),
            number(core.clients),
            number(core.waiting),
            number(core.servers),
            number(core.servers_active),
            number(core.backends_bound),
            a_second(rate.map(|rate| rate.transactions)),
            a_second(rate.map(|rate| rate.queries)),
            share(rate.and_then(|rate| rate.busy_part)),
            share(rate.and_then(|rate| rate.cohort_part)),
        ];
        cells.truncate(columns);
        cells
    });
    Grid {
        title: "Cores",
        rows: rows.collect(),
        headings: &CORES[..columns],
    }
}

fn cohorts(frame: &Frame) -> Grid {
    let rows = frame.sample.cohorts().map(|row| {
        let key = (row.core, row.database.clone(), row.user.clone());
        let rate = frame.rates.cohorts.get(&key);
        vec![
            number(row.core),
            text(&row.database),
            text(&row.user),
            number(row.waiting),
            a_second(rate.map(|rate| rate.queries)),
            share(rate.and_then(|rate| rate.cohort_part)),
        ]
    });
    Grid {
        title: "Cohorts",
        headings: COHORTS,
        rows: rows.collect(),
    }
}

fn hosts(frame: &Frame) -> Grid {
    let rows = frame.sample.hosts.iter().map(|host| {
        vec![
            text(&host.database),
            text(&format!("{}:{}", host.host, host.port)),
            text(&host.role),
            text(&host.state),
            duration(host.lag_us.map(Duration::from_micros)),
            Cell::maybe(
                host.lag_bytes,
                |behind| behind as f64,
                |behind| bytes(behind as f64),
            ),
            number(host.servers),
            number(host.failures),
            text(&host.error),
        ]
    });
    // The last column is for errors; its room is for others where there are none.
    let errors = frame.sample.hosts.iter().any(|host| !host.error.is_empty());
    let columns = HOSTS.len() - usize::from(!errors);
    Grid {
        title: "Hosts",
        headings: &HOSTS[..columns],
        rows: rows
            .map(|mut row: Vec<Cell>| {
                row.truncate(columns);
                row
            })
            .collect(),
    }
}

fn ranges(frame: &Frame) -> Grid {
    let rows = frame.sample.ranges.iter().map(|row| {
        let key = (row.database.clone(), row.name.clone(), row.worker);
        let rate = frame.rates.ranges.get(&key);
        let domain = (row.database.clone(), row.name.clone());
        let overflow = frame.rates.overflow.get(&domain).copied().flatten();
        let keys = frame
            .sample
            .keys
            .iter()
            .find(|keys| (&keys.database, &keys.name) == (&row.database, &row.name));
        vec![
            text(&row.name),
            text(&row.database),
            number(row.worker),
            Cell::maybe(row.cpu, |cpu| cpu as f64, count),
            text(row.from.as_deref().unwrap_or("")),
            a_second(rate.map(|rate| rate.queries)),
            share(rate.and_then(|rate| rate.part)),
            share(overflow),
            Cell::maybe(keys.map(|keys| keys.move_count), |moves| moves as f64, count),
            text(&row.state),
        ]
    });
    Grid {
        title: "Ranges",
        headings: RANGES,
        rows: rows.collect(),
    }
}

fn splits(frame: &Frame) -> Grid {
    let rows = frame.sample.splits();
    // As with errors of hosts.
    let columns = SPLITS.len() - usize::from(rows.iter().all(|row| row.why.is_empty()));
    let rows = rows.iter().map(|row| {
        let rate = frame.rates.splits.get(&(row.database.clone(), row.name.clone()));
        let mut cells = vec![
            text(&row.name),
            text(&row.database),
            text(&row.key),
            a_second(rate.map(|rate| rate.in_parts)),
            a_second(rate.map(|rate| rate.whole)),
            number(row.parts),
            duration(row.split_us.map(Duration::from_micros)),
            duration(row.whole_us.map(Duration::from_micros)),
            text(&row.why),
        ];
        cells.truncate(columns);
        cells
    });
    Grid {
        title: "Splits",
        rows: rows.collect(),
        headings: &SPLITS[..columns],
    }
}

fn queue(frame: &Frame) -> Grid {
    let rows = frame.sample.queue.iter().map(|row| {
        vec![
            text(&row.state),
            text(&row.class),
            Cell::Number(bytes(row.table_bytes as f64), row.table_bytes as f64),
            text(&row.database),
            text(&row.user),
            number(row.client),
            Cell::maybe(row.cpu, |cpu| cpu as f64, count),
            Cell::maybe(row.workers, |workers| workers as f64, count),
            duration(Some(Duration::from_micros(row.waited_us))),
            duration(row.ran_us.map(Duration::from_micros)),
            text(&row.form),
            text(&row.why),
        ]
    });
    Grid {
        title: "Queue",
        headings: QUEUE,
        rows: rows.collect(),
    }
}

/// A row for each class: what it takes beside each class, of what it takes alone.
fn classes(frame: &Frame) -> Grid {
    let all = &frame.sample.slowdowns;
    let rows = all.iter().filter(|row| row.class == row.beside).map(|row| {
        let beside = |class: &str| {
            let same = |pair: &&SlowdownRow| pair.class == row.class && pair.beside == class;
            share(all.iter().find(same).map(|pair| pair.percent as f64 / 100.0))
        };
        vec![
            text(&row.class),
            beside("strong"),
            beside("moderate"),
            beside("weak"),
            Cell::Number(bytes(row.cache_bytes as f64), row.cache_bytes as f64),
            text(&row.policy),
            text(&row.partition),
        ]
    });
    Grid {
        title: "Classes",
        headings: CLASSES,
        rows: rows.collect(),
    }
}

/// The lines about all together.
pub fn summary(frame: &Frame) -> Vec<Line> {
    let totals = frame.sample.totals();
    let speed = frame.rates.total;
    let known = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
    let each = |value: Option<Duration>| known(value.map(time));
    let lines = [
        (
            "rate",
            format!(
                "{} tps, {} qps, {}/s in, {}/s out",
                known(speed.map(|speed| rate(speed.transactions))),
                known(speed.map(|speed| rate(speed.queries))),
                known(speed.map(|speed| bytes(speed.received_bytes))),
                known(speed.map(|speed| bytes(speed.sent_bytes))),
            ),
        ),
        (
            "mean",
            format!(
                "query {}, transaction {}, wait {}; longest wait {}",
                each(speed.and_then(|speed| speed.query_time)),
                each(speed.and_then(|speed| speed.transaction_time)),
                each(speed.and_then(|speed| speed.wait_time)),
                time(totals.wait_max),
            ),
        ),
        (
            "clients",
            format!(
                "{} active, {} waiting",
                count(totals.clients_active),
                count(totals.clients_waiting)
            ),
        ),
        (
            "servers",
            format!(
                "{} active, {} idle, {} used, {} busy (reset, login, cancel)",
                count(totals.servers_active),
                count(totals.servers_idle),
                count(totals.servers_used),
                count(totals.servers_busy)
            ),
        ),
    ];
    let line = |(name, text)| Line {
        name,
        text,
        is_warning: name == "clients" && totals.clients_waiting > 0,
    };
    lines.into_iter().map(line).collect()
}
