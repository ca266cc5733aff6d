//! What a worker does with a decoded stage before it runs: it looks at what the stage reads, and puts corun's operators in.

use corun_datafusion::rule::CacheConsciousJoins;
use datafusion::catalog::memory::DataSourceExec;
use datafusion::common::exec_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion_distributed::{
    WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse, WorkerPlanRewriteHandler,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Changes each stage of a worker.
pub(crate) struct Stages {
    /// Where files may be read, without links.
    pub(crate) folders: Arc<[PathBuf]>,
}

impl WorkerPlanRewriteHandler for Stages {
    fn rewrite_worker_plan(&self, stage: WorkerPlanRewriteEvent) -> Result<WorkerPlanRewriteEventResponse> {
        self.check(&stage.plan)?;
        let options = stage.session_config.options();
        let plan = CacheConsciousJoins::keeping_partitions().optimize(stage.plan, options)?;
        tracing::debug!(plan = %displayable(plan.as_ref()).indent(false), "a stage");
        Ok(WorkerPlanRewriteEventResponse::new(plan))
    }
}

impl Stages {
    /// Whether a stage reads only files of the folders and writes none.
    fn check(&self, stage: &Arc<dyn ExecutionPlan>) -> Result<()> {
        stage.apply(|node| {
            if node.is::<DataSinkExec>() {
                return exec_err!("a worker writes no files");
            }
            if let Some(scan) = file_scan(node) {
                for file in scan.file_groups.iter().flat_map(|group| group.files()) {
                    let location: &str = file.object_meta.location.as_ref();
                    self.may_read(&Path::new("/").join(location))?;
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    fn may_read(&self, path: &Path) -> Result<()> {
        // Links that lead out of the folders are followed here, not by whoever reads.
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) => return exec_err!("cannot read {}: {error}", path.display()),
        };
        match self.folders.iter().any(|folder| real.starts_with(folder)) {
            true => Ok(()),
            false => exec_err!(
                "{} is in none of the folders that this worker reads",
                path.display()
            ),
        }
    }
}

/// The files that a node reads, if it does.
pub(crate) fn file_scan(node: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    let scan = node.downcast_ref::<DataSourceExec>()?;
    scan.data_source().downcast_ref::<FileScanConfig>()
}
