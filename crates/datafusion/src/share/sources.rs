//! What a part reads, exactly: a result may stand for another statement's part as long as all of this is the same.

use crate::index::IndexedTable;
use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::memory::{DataSourceExec, MemorySourceConfig};
use datafusion::datasource::physical_plan::FileScanConfig;
#[cfg(feature = "store")]
use datafusion::datasource::provider_as_source;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::object_store::ObjectMeta;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use std::sync::Arc;

/// Something that is read, in the state in which it is read.
#[derive(Clone)]
pub(super) enum Source {
    /// A table, by its place in memory.
    Table(Arc<dyn TableProvider>),
    /// A file, or a version of an object.
    File(String, ObjectMeta),
    /// A batch in memory, by the places of its columns.
    Batch(RecordBatch),
    /// A table of a store, as of a moment.
    #[cfg(feature = "store")]
    Moment(corun_store::Table, corun_store::Ts),
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Source::Table(a), Source::Table(b)) => std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b)),
            (Source::File(at, a), Source::File(there, b)) => a == b && at == there,
            (Source::Batch(a), Source::Batch(b)) => {
                a.num_rows() == b.num_rows()
                    && a.num_columns() == b.num_columns()
                    && a.columns()
                        .iter()
                        .zip(b.columns())
                        .all(|(a, b)| Arc::ptr_eq(a, b))
            }
            #[cfg(feature = "store")]
            (Source::Moment(a, at), Source::Moment(b, then)) => at == then && a.is_same(b),
            _ => false,
        }
    }
}

/// The part without what would hold on to a moment of a store, and all it reads; `None` when something is read whose changes cannot
/// be told.
pub(super) fn sources(
    part: &LogicalPlan,
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Option<(LogicalPlan, Vec<Source>)>> {
    let mut sources = Vec::new();
    let mut all_known = true;
    let part = part.clone().transform_up(|node| {
        let LogicalPlan::TableScan(scan) = &node else {
            return Ok(Transformed::no(node));
        };
        let Ok(table) = source_as_provider(&scan.source) else {
            all_known = false;
            return Ok(Transformed::no(node));
        };
        #[cfg(feature = "store")]
        if let Some(stored) = table.downcast_ref::<crate::store::StoreTable>() {
            match stored.moment() {
                // One of a transaction shows other rows than all others of the same commit.
                Some(moment) if !moment.is_of_transaction() => {
                    sources.push(Source::Moment(stored.table().clone(), moment.ts()));
                }
                _ => all_known = false,
            }
            let mut scan = scan.clone();
            scan.source = provider_as_source(Arc::new(stored.as_of_no_moment()));
            return Ok(Transformed::yes(LogicalPlan::TableScan(scan)));
        }
        all_known &= table.is::<ListingTable>() || table.is::<MemTable>() || table.is::<IndexedTable>();
        sources.push(Source::Table(table));
        Ok(Transformed::no(node))
    });
    let part = part.data()?;
    plan.apply(|node| {
        all_known &= !node.children().is_empty() || leaf(node, &mut sources);
        Ok(match all_known {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    })?;
    Ok(all_known.then_some((part, sources)))
}

/// Notes what a leaf of a plan reads; whether that is known.
fn leaf(node: &Arc<dyn ExecutionPlan>, sources: &mut Vec<Source>) -> bool {
    #[cfg(feature = "store")]
    if node.is::<crate::store::StoreScanExec>() {
        return true;
    }
    let Some(scan) = node.downcast_ref::<DataSourceExec>() else {
        return node.is::<EmptyExec>();
    };
    let source = scan.data_source();
    if let Some(files) = source.downcast_ref::<FileScanConfig>() {
        let store = files.object_store_url.as_str();
        let all = files.file_groups.iter().flat_map(|group| group.iter());
        sources.extend(all.map(|file| Source::File(store.to_owned(), file.object_meta.clone())));
        return true;
    }
    if let Some(memory) = source.downcast_ref::<MemorySourceConfig>() {
        let batches = memory.partitions().iter().flatten();
        sources.extend(batches.cloned().map(Source::Batch));
        return true;
    }
    // Nothing changes an indexed table; it stands among the tables already.
    source.is::<crate::index::IndexedSource>()
}
