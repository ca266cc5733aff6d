//! [`OneMoment`]: all tables of a store that a statement reads are read as of one moment.
//!
//! A table in the catalog shows what is committed; when a statement is analysed, each becomes the same table at the snapshot
//! of the statement, one for each store. Prepared statements and views get a snapshot whenever they are run. The snapshot
//! lives as long as the plan and its streams; it blocks nobody, but old versions of rows stay in memory meanwhile.

use super::external;
use super::table::StoreTable;
use corun_store::Snapshot;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Adds [`OneMoment`] to a session, and nothing else; [`crate::install`] does it, too.
pub fn install(builder: SessionStateBuilder) -> SessionStateBuilder {
    builder.with_analyzer_rule(Arc::new(OneMoment))
}

/// The analyzer rule that gives a statement its snapshot.
#[derive(Debug)]
pub struct OneMoment;

impl AnalyzerRule for OneMoment {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut moments: Vec<Arc<Snapshot>> = Vec::new();
        plan.transform_up_with_subqueries(|node| {
            let LogicalPlan::TableScan(mut scan) = node else {
                return Ok(Transformed::no(node));
            };
            let provider = source_as_provider(&scan.source).ok();
            let table = provider
                .as_ref()
                .and_then(|table| table.downcast_ref::<StoreTable>());
            let Some(table) = table.filter(|table| table.moment().is_none()) else {
                return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
            };
            // A snapshot knows the tables of its store.
            let known = moments
                .iter()
                .find(|moment| moment.rows(table.table(), 0..0).is_ok())
                .cloned();
            let moment = match known {
                Some(moment) => moment,
                None => {
                    let moment = Arc::new(table.store().snapshot().map_err(external)?);
                    moments.push(Arc::clone(&moment));
                    moment
                }
            };
            scan.source = provider_as_source(Arc::new(table.at(moment)));
            Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
        })
        .data()
    }

    fn name(&self) -> &str {
        "corun_one_moment"
    }
}
