//! The `ssb` suite: the 13 queries of the Star Schema Benchmark on corun and on DataFusion.
//!
//! `geomean_join_heavy` covers flights 2 to 4: the queries that join the fact table with three or four dimensions.
//! Flight 1 joins a few hundred days only.

use super::workload::streams::{Choice, Dashboard, Values};
use super::workload::{Offered, Workload, offer, scratch_files, text_of, workload_args};
use crate::peers::sql::DUCKDB;
use corun_model::progress::Progress;
use corun_workloads::ssb::{QUERIES, Ssb, order_by, recorded};
use lab_core::error::BenchError;
use lab_core::suite::{Suite, all_cores};

/// Queries whose time is mostly joins.
const JOIN_HEAVY: &[&str] = &[
    "q2.1", "q2.2", "q2.3", "q3.1", "q3.2", "q3.3", "q3.4", "q4.1", "q4.2", "q4.3",
];

const CATEGORIES: Values = Values::Words(&[
    "11", "12", "13", "14", "15", "21", "22", "23", "24", "25", "31", "32", "33", "34", "35", "41", "42",
    "43", "44", "45", "51", "52", "53", "54", "55",
]);
const REGIONS: Values = Values::Words(&["AMERICA", "ASIA", "EUROPE", "AFRICA", "MIDDLE EAST"]);
const YEARS: Values = Values::Numbers(1992, 1998);

/// Queries of each flight, with what a user would choose in them.
const DASHBOARDS: &[Dashboard] = &[
    Dashboard {
        query: "q1.1",
        choices: &[
            Choice::new("lo_quantity < ", "25", Values::Numbers(15, 34)),
            Choice::new("d_year = ", "1993", YEARS),
        ],
    },
    Dashboard {
        query: "q2.1",
        choices: &[
            Choice::new("p_category = 'MFGR#", "12", CATEGORIES),
            Choice::new("s_region = '", "AMERICA", REGIONS),
        ],
    },
    Dashboard {
        query: "q2.3",
        choices: &[
            Choice::new("p_brand1 = 'MFGR#22", "21", Values::Numbers(10, 39)),
            Choice::new("s_region = '", "EUROPE", REGIONS),
        ],
    },
    Dashboard {
        query: "q3.2",
        choices: &[
            Choice::new("c_nation = '", "UNITED STATES", NATIONS),
            Choice::new("d_year >= ", "1992", Values::Numbers(1992, 1997)),
        ],
    },
    Dashboard {
        query: "q4.3",
        choices: &[
            Choice::new("p_category = 'MFGR#", "14", CATEGORIES),
            Choice::new("c_region = '", "AMERICA", REGIONS),
        ],
    },
];

const NATIONS: Values = Values::Words(&[
    "UNITED STATES",
    "CHINA",
    "FRANCE",
    "EGYPT",
    "BRAZIL",
    "INDIA",
    "GERMANY",
    "KENYA",
    "CANADA",
    "JAPAN",
    "ROMANIA",
    "MOROCCO",
    "PERU",
    "VIETNAM",
    "RUSSIA",
]);

fn workload() -> Workload {
    Workload {
        suite: Suite::Ssb,
        queries: QUERIES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        sql: |_, name| text_of(QUERIES, name),
        dashboards: DASHBOARDS,
        join_heavy: JOIN_HEAVY,
        order_by,
        recorded,
        generate: Some(|scale_factor, _, partitions, threads, progress| {
            Ok(Ssb::new(scale_factor)?.dataset(partitions, threads, progress))
        }),
        peers: &[&DUCKDB],
        files: |scale_factor, files, progress| {
            let data = Ssb::new(scale_factor)?;
            scratch_files(|folder| data.write_parquet(folder, files, all_cores(), progress))
        },
    }
}

/// SSB's files, queries and answers at a scale factor, for suites that ask servers.
///
/// # Errors
/// An impossible scale factor, files that cannot be written, an answer that is not the recorded one.
pub fn offered(scale_factor: f64, progress: &dyn Progress) -> Result<Offered, BenchError> {
    offer(&workload(), scale_factor, progress)
}

workload_args! {
    /// Arguments of `corun-lab bench ssb`.
    SsbArgs, Ssb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_heavy_queries_exist_and_join_three_dimensions() {
        for name in JOIN_HEAVY {
            let (_, sql) = QUERIES.iter().find(|(query, _)| query == name).unwrap();
            assert!(sql.matches("key\n").count() >= 3, "{name}");
        }
        assert_eq!(JOIN_HEAVY.len() + 3, QUERIES.len());
    }
}
