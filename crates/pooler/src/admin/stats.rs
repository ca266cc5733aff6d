//! Counters of a database, their averages over a period, and the rows PgBouncer makes of them.
//!
//! One table says all about a counter: the field, what its average is of, its columns and its metric. Not here: who counts.

use std::time::Duration;

use super::prometheus::Metric;
use super::table::row;

/// The average of a counter: a second, or of the times of so many things each.
macro_rules! average {
    ($stats:ident.$field:ident, second, $micros:ident) => {
        u64::try_from(u128::from($stats.$field) * 1_000_000 / $micros).unwrap_or(u64::MAX)
    };
    ($stats:ident.$field:ident, $count:ident, $micros:ident) => {
        $stats.$field.checked_div($stats.$count).unwrap_or(0)
    };
}

/// The value of a counter as a metric: times are in seconds there.
macro_rules! metric_value {
    ($stats:ident.$field:ident, second) => {
        $stats.$field as f64
    };
    ($stats:ident.$field:ident, $count:ident) => {
        $stats.$field as f64 / 1e6
    };
}

/// Makes the counters and their rows out of one table. A line has: the field, `per` what its average is (counts and bytes a
/// second, times a transaction, a statement, or a server given), its two columns in `SHOW STATS`, its column in `SHOW
/// STATS_TOTALS` and in `SHOW STATS_AVERAGES`, its name in `SHOW TOTALS`, its metric, and what it is. Counters that PgBouncer does not have have no columns.
macro_rules! counters {
    ($( $field:ident per $per:ident
        $([$total:ident, $average:ident, $totals:ident, $averages:ident, $overall:literal])?
        $metric:literal $meaning:literal; )*) => {
        /// Counters since the start. Times are in microseconds.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Stats {
            $( #[doc = $meaning] pub $field: u64, )*
        }

        impl Stats {
            /// The sum of two loops' or databases' counters.
            #[must_use]
            pub fn plus(&self, other: &Stats) -> Stats {
                Stats { $( $field: self.$field.saturating_add(other.$field), )* }
            }

            /// What was added since `earlier`; 0 for a counter that went back.
            #[must_use]
            pub fn since(&self, earlier: &Stats) -> Stats {
                Stats { $( $field: self.$field.saturating_sub(earlier.$field), )* }
            }

            /// What was added since `earlier`; `None` where a counter went back.
            #[must_use]
            pub fn checked_since(&self, earlier: &Stats) -> Option<Stats> {
                Some(Stats { $( $field: self.$field.checked_sub(earlier.$field)?, )* })
            }

            /// Averages of counters that were collected over `period`: counts and bytes a second, times a statement, a
            /// transaction, or a server given.
            #[must_use]
            pub fn averages(&self, period: Duration) -> Stats {
                let micros = period.as_micros().max(1);
                Stats { $( $field: average!(self.$field, $per, micros), )* }
            }
        }

        row! {
            /// `SHOW STATS`: totals since the start and averages of the last period.
            StatsRow {
                /// Database.
                database: String,
                $($( #[doc = $meaning] $total: u64, )?)*
                $($( #[doc = concat!("See [`Stats::averages`]. ", $meaning)] $average: u64, )?)*
            }

            /// `SHOW STATS_TOTALS`.
            TotalsRow {
                /// Database.
                database: String,
                $($( #[doc = $meaning] $totals: u64, )?)*
            }

            /// `SHOW STATS_AVERAGES`: averages of the last period.
            AveragesRow {
                /// Database.
                database: String,
                $($( #[doc = concat!("See [`Stats::averages`]. ", $meaning)] $averages: u64, )?)*
            }

            /// `SHOW TOTALS`: one number of all databases together.
            TotalRow {
                /// Which.
                name: String,
                /// How much.
                value: u64,
            }
        }

        impl StatsRow {
            /// The row of a database: its totals, and what was added in the last `period`.
            pub fn of(database: &str, total: &Stats, last: &Stats, period: Duration) -> StatsRow {
                let average = last.averages(period);
                StatsRow {
                    database: database.to_owned(),
                    $($( $total: total.$field, $average: average.$field, )?)*
                }
            }
        }

        impl TotalsRow {
            /// The row of a database: its totals.
            pub fn of(database: &str, stats: &Stats) -> TotalsRow {
                TotalsRow { database: database.to_owned(), $($( $totals: stats.$field, )?)* }
            }

            /// The counters of the row; 0 for those that have no column.
            pub fn stats(&self) -> Stats {
                Stats { $($( $field: self.$totals, )?)* ..Stats::default() }
            }
        }

        impl AveragesRow {
            /// The row of a database: what was added in the last `period`.
            pub fn of(database: &str, last: &Stats, period: Duration) -> AveragesRow {
                let average = last.averages(period);
                AveragesRow { database: database.to_owned(), $($( $averages: average.$field, )?)* }
            }
        }

        /// `SHOW TOTALS`: the totals of everything, then the averages.
        pub fn overall(total: &Stats, last: &Stats, period: Duration) -> Vec<TotalRow> {
            let average = last.averages(period);
            let rows = |prefix: &str, stats: &Stats| {
                [ $($( ($overall, stats.$field), )?)* ].map(|(name, value)| TotalRow {
                    name: format!("{prefix}_{name}"),
                    value,
                })
            };
            [rows("total", total), rows("avg", &average)].concat()
        }

        /// The metrics of each database.
        pub(super) const STATS_METRICS: &[Metric<(String, Stats)>] = &[ $( Metric {
            name: $metric,
            kind: "counter",
            help: $meaning,
            value: |(_, stats)| Some(metric_value!(stats.$field, $per)),
        }, )* ];
    };
}

counters! {
    server_assignment_count per second
        [total_server_assignment_count, avg_server_assignment_count, server_assignment_count, server_assignment_count, "server_assignment_count"]
        "server_assignments_total" "How often a server was given to a client.";
    xact_count per second
        [total_xact_count, avg_xact_count, xact_count, xact_count, "xact_count"]
        "transactions_total" "Transactions.";
    query_count per second
        [total_query_count, avg_query_count, query_count, query_count, "query_count"]
        "queries_total" "Statements.";
    received per second
        [total_received, avg_recv, bytes_received, bytes_received, "client_bytes"]
        "received_bytes_total" "Bytes from clients.";
    sent per second
        [total_sent, avg_sent, bytes_sent, bytes_sent, "server_bytes"]
        "sent_bytes_total" "Bytes to clients.";
    xact_time per xact_count
        [total_xact_time, avg_xact_time, xact_time, xact_time, "xact_time"]
        "transaction_time_seconds_total" "Time in transactions.";
    query_time per query_count
        [total_query_time, avg_query_time, query_time, query_time, "query_time"]
        "query_time_seconds_total" "Time in statements.";
    wait_time per server_assignment_count
        [total_wait_time, avg_wait_time, wait_time, wait_time, "wait_time"]
        "wait_time_seconds_total" "Time clients waited for a server.";
    client_parse_count per second
        [total_client_parse_count, avg_client_parse_count, client_parse_count, avg_client_parse_count, "ps_client_parse_count"]
        "client_parses_total" "Statements prepared by clients.";
    server_parse_count per second
        [total_server_parse_count, avg_server_parse_count, server_parse_count, avg_server_parse_count, "ps_server_parse_count"]
        "server_parses_total" "Statements prepared on servers.";
    bind_count per second
        [total_bind_count, avg_bind_count, bind_count, avg_bind_count, "ps_bind_count"]
        "binds_total" "Prepared statements bound.";
    settings_carried per second
        "settings_carried_total" "Times a client's settings were set on another server connection.";
    state_questions per second
        "state_questions_total" "Times a server connection was asked what its client had left there.";
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
