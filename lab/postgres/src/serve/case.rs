//! [`Case`]: what clients ask, and how many they are.

use crate::fixture::pgbench::Protocol;
use lab_core::metric::parameters;
use lab_core::row::Value;

/// A workload whose queries streams run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// The 22 queries of TPC-H.
    Tpch,
    /// The 99 queries of TPC-DS.
    Tpcds,
    /// The 13 queries of the Star Schema Benchmark.
    Ssb,
}

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 3] = [Workload::Tpch, Workload::Tpcds, Workload::Ssb];

    /// The word in names of cases and in rows.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Tpch => "tpch",
            Workload::Tpcds => "tpcds",
            Workload::Ssb => "ssb",
        }
    }
}

/// Transactions of pgbench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transactions {
    /// Its point select.
    SelectOnly,
    /// Its transfers, which write.
    TpcB,
}

/// A short statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// `select 1`.
    Constant,
    /// One row of a table by its key.
    Point,
}

/// A case of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// So many streams of a workload's queries at once.
    Streams(Workload, usize),
    /// A short statement now and then while so many streams run TPC-H.
    Beside(Short, usize),
    /// `select 1`, by this protocol and so many clients.
    Constant(Protocol, usize),
    /// Many rows, as text or in binary.
    Fetch {
        /// Whether in binary.
        binary: bool,
    },
    /// So many clients that have logged in and do nothing.
    Idle(usize),
    /// pgbench, by this protocol and so many clients.
    Pgbench(Transactions, Protocol, usize),
}

impl Case {
    /// The name in rows, such as `tpch_streams_s4`.
    pub fn name(self) -> String {
        match self {
            Case::Streams(workload, streams) => format!("{}_streams_s{streams}", workload.name()),
            Case::Beside(Short::Constant, streams) => format!("short_beside_long_constant_s{streams}"),
            Case::Beside(Short::Point, streams) => format!("short_beside_long_point_s{streams}"),
            Case::Constant(protocol, clients) => format!("constant_{}_c{clients}", protocol.as_str()),
            Case::Fetch { binary: false } => "fetch_text".to_owned(),
            Case::Fetch { binary: true } => "fetch_binary".to_owned(),
            Case::Idle(clients) => format!("idle_c{clients}"),
            Case::Pgbench(what, protocol, clients) => {
                let what = match what {
                    Transactions::SelectOnly => "select",
                    Transactions::TpcB => "tpcb",
                };
                format!("pgbench_{what}_{}_c{clients}", protocol.as_str())
            }
        }
    }

    /// Parameters of all its rows.
    pub fn parameters(self) -> Vec<(String, Value)> {
        let (workload, protocol, clients, streams) = match self {
            Case::Streams(workload, streams) => (workload.name(), "simple", streams, streams),
            Case::Beside(Short::Constant, streams) => ("constant_beside_tpch", "simple", 1, streams),
            Case::Beside(Short::Point, streams) => ("point_beside_tpch", "simple", 1, streams),
            Case::Constant(protocol, clients) => ("constant", protocol.as_str(), clients, 0),
            Case::Fetch { binary: false } => ("fetch", "simple", 1, 0),
            Case::Fetch { binary: true } => ("fetch", "extended", 1, 0),
            Case::Idle(clients) => ("idle", "simple", clients, 0),
            Case::Pgbench(Transactions::SelectOnly, protocol, clients) => {
                ("pgbench_select", protocol.as_str(), clients, 0)
            }
            Case::Pgbench(Transactions::TpcB, protocol, clients) => {
                ("pgbench_tpcb", protocol.as_str(), clients, 0)
            }
        };
        let durability = match self {
            Case::Pgbench(..) => "durable",
            // The others do not write.
            _ => "none",
        };
        parameters([
            ("workload", Value::from(workload)),
            ("protocol", Value::from(protocol)),
            ("clients", Value::from(clients)),
            ("streams", Value::from(streams)),
            ("durability", Value::from(durability)),
        ])
    }
}

/// All cases; those of `--quick` have few clients.
pub fn cases(quick: bool) -> Vec<Case> {
    let (streams, long, clients, idle): (&[usize], usize, &[usize], usize) = match quick {
        true => (&[2], 2, &[2], 50),
        false => (&[1, 4, 8, 16], 8, &[1, 8, 32], 1_000),
    };
    let writers: &[usize] = if quick { &[2] } else { &[8, 32] };
    let mut all = Vec::new();
    for workload in Workload::ALL {
        all.extend(streams.iter().map(|&streams| Case::Streams(workload, streams)));
    }
    all.extend([Short::Constant, Short::Point].map(|short| Case::Beside(short, long)));
    for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
        all.extend(clients.iter().map(|&clients| Case::Constant(protocol, clients)));
    }
    all.extend([false, true].map(|binary| Case::Fetch { binary }));
    all.push(Case::Idle(idle));
    for what in [Transactions::SelectOnly, Transactions::TpcB] {
        for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
            let of = |&clients| Case::Pgbench(what, protocol, clients);
            all.extend(writers.iter().map(of));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_distinct_and_say_what_is_asked() {
        for quick in [true, false] {
            let all = cases(quick);
            let names: BTreeSet<String> = all.iter().map(|case| case.name()).collect();
            assert_eq!(names.len(), all.len());
        }
        let names: Vec<String> = cases(false).iter().map(|case| case.name()).collect();
        for name in [
            "tpch_streams_s16",
            "tpcds_streams_s8",
            "ssb_streams_s1",
            "short_beside_long_point_s8",
            "constant_prepared_c32",
            "fetch_binary",
            "idle_c1000",
            "pgbench_select_prepared_c8",
            "pgbench_tpcb_simple_c32",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}
