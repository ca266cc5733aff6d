//! Counters of a database, their averages over a period, and the rows PgBouncer makes of them.

use std::time::Duration;

use super::table::row;

/// Counters since the start. Times are in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// How often a server was given to a client.
    pub server_assignment_count: u64,
    /// Transactions.
    pub xact_count: u64,
    /// Statements.
    pub query_count: u64,
    /// Bytes from clients.
    pub received: u64,
    /// Bytes to clients.
    pub sent: u64,
    /// Time in transactions.
    pub xact_time: u64,
    /// Time in statements.
    pub query_time: u64,
    /// Time clients waited for a server.
    pub wait_time: u64,
    /// Statements prepared by clients.
    pub client_parse_count: u64,
    /// Statements prepared on servers.
    pub server_parse_count: u64,
    /// Prepared statements bound.
    pub bind_count: u64,
    /// How often a client's settings were set on another server connection.
    pub settings_carried: u64,
    /// How often a server connection was asked what its client had left there.
    pub state_questions: u64,
}

impl Stats {
    fn with(&self, other: &Stats, combine: impl Fn(u64, u64) -> u64) -> Stats {
        Stats {
            server_assignment_count: combine(self.server_assignment_count, other.server_assignment_count),
            xact_count: combine(self.xact_count, other.xact_count),
            query_count: combine(self.query_count, other.query_count),
            received: combine(self.received, other.received),
            sent: combine(self.sent, other.sent),
            xact_time: combine(self.xact_time, other.xact_time),
            query_time: combine(self.query_time, other.query_time),
            wait_time: combine(self.wait_time, other.wait_time),
            client_parse_count: combine(self.client_parse_count, other.client_parse_count),
            server_parse_count: combine(self.server_parse_count, other.server_parse_count),
            bind_count: combine(self.bind_count, other.bind_count),
            settings_carried: combine(self.settings_carried, other.settings_carried),
            state_questions: combine(self.state_questions, other.state_questions),
        }
    }

    /// The sum of two loops' or databases' counters.
    #[must_use]
    pub fn plus(&self, other: &Stats) -> Stats {
        self.with(other, u64::saturating_add)
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Stats) -> Stats {
        self.with(earlier, u64::saturating_sub)
    }

    /// Averages of counters that were collected over `period`: counts and bytes a second, times a statement, a
    /// transaction, or a server given.
    #[must_use]
    pub fn averages(&self, period: Duration) -> Stats {
        let micros = period.as_micros().max(1);
        let second = |count: u64| u64::try_from(u128::from(count) * 1_000_000 / micros).unwrap_or(u64::MAX);
        let each = |time: u64, count: u64| time.checked_div(count).unwrap_or(0);
        Stats {
            server_assignment_count: second(self.server_assignment_count),
            xact_count: second(self.xact_count),
            query_count: second(self.query_count),
            received: second(self.received),
            sent: second(self.sent),
            xact_time: each(self.xact_time, self.xact_count),
            query_time: each(self.query_time, self.query_count),
            wait_time: each(self.wait_time, self.server_assignment_count),
            client_parse_count: second(self.client_parse_count),
            server_parse_count: second(self.server_parse_count),
            bind_count: second(self.bind_count),
            settings_carried: second(self.settings_carried),
            state_questions: second(self.state_questions),
        }
    }
}

row! {
    /// `SHOW STATS`: totals since the start and averages of the last period.
    StatsRow {
        /// Database.
        database: String,
        /// See [`Stats`].
        total_server_assignment_count: u64,
        /// See [`Stats`].
        total_xact_count: u64,
        /// See [`Stats`].
        total_query_count: u64,
        /// See [`Stats`].
        total_received: u64,
        /// See [`Stats`].
        total_sent: u64,
        /// See [`Stats`].
        total_xact_time: u64,
        /// See [`Stats`].
        total_query_time: u64,
        /// See [`Stats`].
        total_wait_time: u64,
        /// See [`Stats`].
        total_client_parse_count: u64,
        /// See [`Stats`].
        total_server_parse_count: u64,
        /// See [`Stats`].
        total_bind_count: u64,
        /// See [`Stats::averages`].
        avg_server_assignment_count: u64,
        /// See [`Stats::averages`].
        avg_xact_count: u64,
        /// See [`Stats::averages`].
        avg_query_count: u64,
        /// See [`Stats::averages`].
        avg_recv: u64,
        /// See [`Stats::averages`].
        avg_sent: u64,
        /// See [`Stats::averages`].
        avg_xact_time: u64,
        /// See [`Stats::averages`].
        avg_query_time: u64,
        /// See [`Stats::averages`].
        avg_wait_time: u64,
        /// See [`Stats::averages`].
        avg_client_parse_count: u64,
        /// See [`Stats::averages`].
        avg_server_parse_count: u64,
        /// See [`Stats::averages`].
        avg_bind_count: u64,
    }

    /// `SHOW STATS_TOTALS`.
    TotalsRow {
        /// Database.
        database: String,
        /// See [`Stats`].
        server_assignment_count: u64,
        /// See [`Stats`].
        xact_count: u64,
        /// See [`Stats`].
        query_count: u64,
        /// See [`Stats`].
        bytes_received: u64,
        /// See [`Stats`].
        bytes_sent: u64,
        /// See [`Stats`].
        xact_time: u64,
        /// See [`Stats`].
        query_time: u64,
        /// See [`Stats`].
        wait_time: u64,
        /// See [`Stats`].
        client_parse_count: u64,
        /// See [`Stats`].
        server_parse_count: u64,
        /// See [`Stats`].
        bind_count: u64,
    }

    /// `SHOW TOTALS`: one number of all databases together.
    TotalRow {
        /// Which.
        name: String,
        /// How much.
        value: u64,
    }
}

/// `SHOW STATS_AVERAGES` has the columns of `SHOW STATS_TOTALS`.
pub type AveragesRow = TotalsRow;

impl StatsRow {
    /// The row of a database: its totals, and what was added in the last `period`.
    pub fn of(database: &str, total: &Stats, last: &Stats, period: Duration) -> StatsRow {
        let average = last.averages(period);
        StatsRow {
            database: database.to_owned(),
            total_server_assignment_count: total.server_assignment_count,
            total_xact_count: total.xact_count,
            total_query_count: total.query_count,
            total_received: total.received,
            total_sent: total.sent,
            total_xact_time: total.xact_time,
            total_query_time: total.query_time,
            total_wait_time: total.wait_time,
            total_client_parse_count: total.client_parse_count,
            total_server_parse_count: total.server_parse_count,
            total_bind_count: total.bind_count,
            avg_server_assignment_count: average.server_assignment_count,
            avg_xact_count: average.xact_count,
            avg_query_count: average.query_count,
            avg_recv: average.received,
            avg_sent: average.sent,
            avg_xact_time: average.xact_time,
            avg_query_time: average.query_time,
            avg_wait_time: average.wait_time,
            avg_client_parse_count: average.client_parse_count,
            avg_server_parse_count: average.server_parse_count,
            avg_bind_count: average.bind_count,
        }
    }
}

impl TotalsRow {
    /// The row of a database: its totals, or the averages of [`Stats::averages`].
    pub fn of(database: &str, stats: &Stats) -> TotalsRow {
        TotalsRow {
            database: database.to_owned(),
            server_assignment_count: stats.server_assignment_count,
            xact_count: stats.xact_count,
            query_count: stats.query_count,
            bytes_received: stats.received,
            bytes_sent: stats.sent,
            xact_time: stats.xact_time,
            query_time: stats.query_time,
            wait_time: stats.wait_time,
            client_parse_count: stats.client_parse_count,
            server_parse_count: stats.server_parse_count,
            bind_count: stats.bind_count,
        }
    }
}

/// `SHOW TOTALS`: the totals of everything, then the averages.
pub fn overall(total: &Stats, last: &Stats, period: Duration) -> Vec<TotalRow> {
    let average = last.averages(period);
    let rows = |prefix: &str, stats: &Stats| {
        [
            ("server_assignment_count", stats.server_assignment_count),
            ("xact_count", stats.xact_count),
            ("query_count", stats.query_count),
            ("client_bytes", stats.received),
            ("server_bytes", stats.sent),
            ("xact_time", stats.xact_time),
            ("query_time", stats.query_time),
            ("wait_time", stats.wait_time),
            ("client_parse_count", stats.client_parse_count),
            ("server_parse_count", stats.server_parse_count),
            ("bind_count", stats.bind_count),
        ]
        .map(|(name, value)| TotalRow {
            name: format!("{prefix}_{name}"),
            value,
        })
    };
    [rows("total", total), rows("avg", &average)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_a_second_or_each() {
        let earlier = Stats {
            query_count: 100,
            query_time: 1_000,
            ..Stats::default()
        };
        let now = Stats {
            server_assignment_count: 10,
            xact_count: 20,
            query_count: 700,
            received: 6_000,
            query_time: 61_000,
            xact_time: 100_000,
            wait_time: 50,
            ..Stats::default()
        };
        let period = Duration::from_secs(60);
        let row = StatsRow::of("a", &now, &now.since(&earlier), period);
        assert_eq!(
            (row.total_query_count, row.avg_query_count, row.avg_query_time),
            (700, 10, 100)
        );
        assert_eq!(
            (row.avg_recv, row.avg_xact_time, row.avg_wait_time),
            (100, 5_000, 5)
        );
        assert_eq!((row.avg_bind_count, row.avg_xact_count), (0, 0));
        let rows = overall(&now, &now.since(&earlier), period);
        assert_eq!(rows.len(), 22);
        assert_eq!(rows[2].name, "total_query_count");
        assert_eq!((rows[13].name.as_str(), rows[13].value), ("avg_query_count", 10));
        assert_eq!(now.plus(&earlier).query_count, 800);
        // Nothing divides by zero, and counters that went back show nothing.
        assert_eq!(Stats::default().averages(Duration::ZERO), Stats::default());
        assert_eq!(earlier.since(&now).query_count, 0);
        assert_eq!(TotalsRow::of("a", &now).bytes_received, 6_000);
    }
}
