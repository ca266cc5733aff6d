//! [`OneMoment`]: all tables of a store that a statement reads are read as of one moment.
//!
//! A table in the catalog shows what is committed; when a statement is analysed, each becomes the same table at the snapshot
//! of the statement, one for each store. Prepared statements and views get a snapshot whenever they are run. The snapshot
//! lives as long as the plan and its streams; it blocks nobody, but old versions of rows stay in memory meanwhile. Tables of a
//! session are read at the moment that it names ([`Moments`]).

use super::table::StoreTable;
use corun_store::Snapshot;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::datasource::{TableProvider, provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{LogicalPlan, TableSource};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Adds [`OneMoment`] to a session, and nothing else; [`crate::install`] does it, too.
pub fn install(builder: SessionStateBuilder) -> SessionStateBuilder {
    builder.with_analyzer_rule(Arc::new(OneMoment))
}

/// What knows at which moment the statements of a session read its store: those of a transaction see what that has written.
pub trait Moments: std::fmt::Debug + Send + Sync {
    /// The snapshot for the statement that is planned just now.
    ///
    /// # Errors
    /// There is none, for example because there are too many.
    fn now(&self) -> Result<Arc<Snapshot>>;
}

/// The analyzer rule that gives a statement its snapshot.
#[derive(Debug)]
pub struct OneMoment;

impl AnalyzerRule for OneMoment {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        // Each with a table that has asked for it.
        let mut moments: Vec<(Arc<Snapshot>, StoreTable)> = Vec::new();
        // Scans of one table stay scans of one table.
        let mut sources: Vec<(Arc<dyn TableProvider>, Arc<dyn TableSource>)> = Vec::new();
        plan.transform_up_with_subqueries(|node| {
            let LogicalPlan::TableScan(mut scan) = node else {
                return Ok(Transformed::no(node));
            };
            let Ok(provider) = source_as_provider(&scan.source) else {
                return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
            };
            let table = provider.downcast_ref::<StoreTable>();
            let Some(table) = table.filter(|table| table.moment().is_none()) else {
                return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
            };
            if let Some((_, source)) = sources.iter().find(|(known, _)| Arc::ptr_eq(known, &provider)) {
                scan.source = Arc::clone(source);
                return Ok(Transformed::yes(LogicalPlan::TableScan(scan)));
            }
            // A snapshot knows the tables of its store.
            let known = moments
                .iter()
                .find(|(moment, first)| first.asks_as(table) && moment.rows(table.table(), 0..0).is_ok());
            let moment = match known {
                Some((moment, _)) => Arc::clone(moment),
                None => {
                    let moment = table.now()?;
                    moments.push((Arc::clone(&moment), table.clone()));
                    moment
                }
            };
            scan.source = provider_as_source(Arc::new(table.at(moment)));
            sources.push((provider, Arc::clone(&scan.source)));
            Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
        })
        .data()
    }

    fn name(&self) -> &str {
        "corun_one_moment"
    }
}
