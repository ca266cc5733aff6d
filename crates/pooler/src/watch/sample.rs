//! [`Sample`]: the console's tables at one moment.

use std::time::Duration;

use crate::admin::{
    CohortRow, CoreRow, HostRow, KeyRow, PoolRow, QueueRow, RangeRow, SlowdownRow, SplitRow, TotalsRow,
};

/// Name of the console's own database in the tables; it is no pool of anybody's.
const OWN: &str = "pgbouncer";

/// The tables at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When, since the login.
    pub at: Duration,
    /// Name and version of the proxy.
    pub version: String,
    /// Counters of each database.
    pub stats: Vec<TotalsRow>,
    /// Each pool.
    pub pools: Vec<PoolRow>,
    /// Each event loop.
    pub cores: Vec<CoreRow>,
    /// The queue of each pool on each event loop.
    pub cohorts: Vec<CohortRow>,
    /// Each server.
    pub hosts: Vec<HostRow>,
    /// Each worker of each domain of keys.
    pub ranges: Vec<RangeRow>,
    /// Each domain of keys.
    pub keys: Vec<KeyRow>,
    /// Each query that may run in parts, of each event loop.
    pub splits: Vec<SplitRow>,
    /// Each heavy query that runs or waits.
    pub queue: Vec<QueueRow>,
    /// What kinds of heavy queries cost each other; empty while there is no queue.
    pub slowdowns: Vec<SlowdownRow>,
}

/// What there is now, of all pools together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Clients with a server, or with nothing to do.
    pub clients_active: u64,
    /// Clients waiting for a server.
    pub clients_waiting: u64,
    /// Servers with a client.
    pub servers_active: u64,
    /// Servers ready for the next client.
    pub servers_idle: u64,
    /// Servers to be checked before the next client.
    pub servers_used: u64,
    /// Servers being reset, checked, connected or kept back by a cancel request.
    pub servers_busy: u64,
    /// How long the client that has waited longest has.
    pub wait_max: Duration,
}

impl Sample {
    /// Pools without the console's own.
    pub fn pools(&self) -> impl Iterator<Item = &PoolRow> {
        self.pools.iter().filter(|pool| pool.database != OWN)
    }

    /// Counters without the console's own.
    pub fn stats(&self) -> impl Iterator<Item = &TotalsRow> {
        self.stats.iter().filter(|row| row.database != OWN)
    }

    /// Queues that form cohorts now.
    pub fn cohorts(&self) -> impl Iterator<Item = &CohortRow> {
        self.cohorts.iter().filter(|row| row.state == "on")
    }

    /// Queries that may run in parts, each once: counts of all event loops, and times of the one that has run it most.
    pub fn splits(&self) -> Vec<SplitRow> {
        let runs = |row: &SplitRow| row.split_count.saturating_add(row.whole_count);
        let mut all: Vec<SplitRow> = Vec::new();
        let mut sorted: Vec<&SplitRow> = self.splits.iter().collect();
        sorted.sort_by_key(|row| std::cmp::Reverse(runs(row)));
        for row in sorted {
            let same = |known: &&mut SplitRow| (&known.database, &known.name) == (&row.database, &row.name);
            match all.iter_mut().find(same) {
                Some(known) => {
                    known.split_count = known.split_count.saturating_add(row.split_count);
                    known.whole_count = known.whole_count.saturating_add(row.whole_count);
                }
                None => all.push(row.clone()),
            }
        }
        all.sort_by(|a, b| (&a.database, &a.name).cmp(&(&b.database, &b.name)));
        all
    }

    /// All pools together.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for pool in self.pools() {
            totals.clients_active += pool.cl_active;
            totals.clients_waiting += pool.cl_waiting;
            totals.servers_active += pool.sv_active;
            totals.servers_idle += pool.sv_idle;
            totals.servers_used += pool.sv_used;
            totals.servers_busy +=
                pool.sv_tested + pool.sv_login + pool.sv_active_cancel + pool.sv_being_canceled;
            totals.wait_max = totals.wait_max.max(wait_of(pool));
        }
        totals
    }
}

/// How long the first client in a pool's queue has waited.
pub(super) fn wait_of(pool: &PoolRow) -> Duration {
    Duration::from_secs(pool.maxwait).saturating_add(Duration::from_micros(pool.maxwait_us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::Row;

    #[test]
    fn totals_leave_the_console_out() {
        let pool = |database: &str, active, waiting, maxwait_us| PoolRow {
            database: database.to_owned(),
            cl_active: active,
            cl_waiting: waiting,
            sv_active: 2,
            sv_idle: 1,
            sv_login: 1,
            maxwait: 1,
            maxwait_us,
            ..PoolRow::default()
        };
        let sample = Sample {
            pools: vec![
                pool("a", 3, 4, 5),
                pool("b", 10, 0, 0),
                pool("pgbouncer", 100, 0, 0),
            ],
            ..Sample::default()
        };
        let totals = sample.totals();
        assert_eq!(
            (
                totals.clients_active,
                totals.clients_waiting,
                totals.servers_active
            ),
            (13, 4, 4)
        );
        assert_eq!((totals.servers_idle, totals.servers_busy), (2, 2));
        assert_eq!(totals.wait_max, Duration::from_micros(1_000_005));
    }

    #[test]
    fn rows_are_read_by_the_names_of_their_columns() {
        let names = |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
        let values = |values: &[Option<&str>]| -> Vec<Option<String>> {
            values.iter().map(|value| value.map(str::to_owned)).collect()
        };
        // Another order, one column that nobody knows here, most of them missing.
        let row = CoreRow::read(
            &names(&["clients", "colour", "cpu", "core"]),
            &values(&[Some("7"), Some("red"), None, Some("1")]),
        );
        let expected = CoreRow {
            core: 1,
            clients: 7,
            ..CoreRow::default()
        };
        assert_eq!(row, Ok(expected));
        assert_eq!(
            CoreRow::read(&names(&["core"]), &values(&[Some("first")])),
            Err("core")
        );
        assert_eq!(CoreRow::read(&names(&["core"]), &values(&[None])), Err("core"));
        // What is written is read.
        let host = HostRow {
            database: "a".to_owned(),
            lag_us: Some(5),
            error: "no".to_owned(),
            ..HostRow::default()
        };
        let columns: Vec<String> = HostRow::COLUMNS
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect();
        let cells: Vec<Option<String>> = host.cells().iter().map(crate::admin::Cell::text).collect();
        assert_eq!(HostRow::read(&columns, &cells), Ok(host));
    }
}
