//! [`Small`]: DBmbench at a size that can be simulated: a smaller copy of the tables in a schema of its own, made while the server runs, and
//! simulated in its data folder when it has ended.
//!
//! Order of calls: [`Small::load`], [`Server::stop`], [`Small::simulate`]. Simulated instructions take some fifty times as long as real ones.

use std::path::Path;
use std::time::Duration;

use corun_model::topology::Topology;

use super::dbmbench::{Query, Tables};
use super::server::{Kept, Server};
use super::simulated::{
    EXECUTIONS_LONG, EXECUTIONS_SHORT, Expect, Options, Shape, Statement, TABLE_ROWS, simulate,
};
use super::workload::{fill, same, set, settings_of};
use crate::fixture::cluster::Programs;
use corun_model::progress::Progress;
use lab_core::error::BenchError;
use lab_core::row::Row;

/// Where the smaller tables are.
const SCHEMA: &str = "corun_small";
/// Time after which no simulated run is begun, and the longest time of one.
const BUDGET: Duration = Duration::from_secs(150);
const RUN_WITHIN: Duration = Duration::from_secs(120);

/// The smaller tables, and what the statements on them answer.
pub struct Small {
    statements: Vec<Statement>,
}

impl Small {
    /// Makes the tables on a running server of our own, and asks what their answers are.
    ///
    /// # Errors
    /// When the server refuses, or answers otherwise than the rows say.
    pub fn load(server: &Server, queries: &[Query], progress: &dyn Progress) -> Result<Small, BenchError> {
        let tables = Tables::new(TABLE_ROWS as usize);
        let summary = tables.summary();
        fill(server, SCHEMA, tables, progress)?;
        let mut statements = Vec::new();
        for &query in queries {
            let bounds = query.bounds()[query.bounds().len() / 2];
            let settings = settings_of(query, SCHEMA);
            let select = query.select_between(bounds);
            let rows = server.ask(&format!("{} {select}", set(&settings)))?;
            let values: Vec<String> = rows.into_iter().flatten().collect();
            let wanted = summary.answer(query, bounds.0, bounds.1);
            let found: Vec<f64> = values.iter().filter_map(|value| value.parse().ok()).collect();
            if !same(&found, &wanted) {
                return Err(BenchError::Data(format!(
                    "wrong answer: {} on the smaller tables: {found:?} instead of {wanted:?}",
                    query.name()
                )));
            }
            statements.push(Statement {
                workload: query.name().to_owned(),
                settings,
                before: vec![format!("truncate {SCHEMA}.result")],
                sql: format!("insert into result {select}"),
                expect: Expect {
                    sql: format!("select distinct value from {SCHEMA}.result order by value"),
                    column: "value".to_owned(),
                    values,
                },
                executions: match query {
                    Query::Utpcc => EXECUTIONS_SHORT,
                    Query::Uss | Query::Unj => EXECUTIONS_LONG,
                },
                table_rows: tables.t1_rows() as u64,
            });
        }
        Ok(Small { statements })
    }

    /// Simulates them on the data folder of the server that has ended: on this machine's caches, then on the paper's.
    pub fn simulate(
        &self,
        programs: &Programs,
        kept: &Kept,
        topology: &Topology,
        scratch: &Path,
        smt: &str,
        progress: &dyn Progress,
    ) -> Result<Vec<Row>, BenchError> {
        let options = Options {
            shapes: vec![Shape::of(topology), Shape::paper()],
            scratch: scratch.to_path_buf(),
            smt: smt.to_owned(),
            budget: BUDGET,
            run_within: RUN_WITHIN,
        };
        simulate(
            programs,
            &kept.data,
            kept.fixture.account,
            &self.statements,
            &options,
            progress,
        )
    }
}
