//! Builds ahead of their turn: while a join builds its table, the small tables of the joins that it probes through are built beside it.
//!
//! ```text
//!   CorunJoin A                 A waits for its file;
//!     ├─ small file             B, which has nothing to wait for, reads its own meanwhile
//!     └─ CorunJoin B
//!          ├─ small file
//!          └─ scan
//! ```
//!
//! One after the other, many small files would keep one core busy and the others idle. A build that reads what an upper join finds out, by a
//! prefilter or a dynamic filter, waits for it all the same.

use super::{BuildMode, CorunJoinExec, reads_expression};
use crate::prefilter::{self, TableId};
use crate::share::CorunSharedExec;
use crate::sides::estimate;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricBuilder;
use std::sync::Arc;

/// Builds of more rows wait for their turn: they keep all cores busy and take memory. Unmeasured.
const ROWS_MAX: f64 = 100_000.0;

/// What a join tells operators below its probe side, once its table is built.
pub(super) struct Tells {
    /// The table, for prefilters.
    pub table: Option<TableId>,
    /// The dynamic filter of its keys.
    pub filter: Option<u64>,
}

impl Tells {
    fn reaches(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
        let by_table = self.table.is_some_and(|table| prefilter::looks_up(plan, table));
        Ok(by_table || reads_expression(plan, self.filter)?)
    }
}

/// Starts the small builds of the joins on the way of the probe side of a join that `tells`. They end with the tasks, unless somebody else
/// waits for them by then.
///
/// # Errors
/// Of plans that cannot be executed.
pub(super) fn start(
    tells: Tells,
    probe: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<Vec<SpawnedTask<()>>> {
    let mut tasks = Vec::new();
    let mut upper = vec![tells];
    let mut node = Arc::clone(probe);
    loop {
        let below = match node.downcast_ref::<CorunJoinExec>() {
            Some(join) => {
                if join.may_build_ahead(&upper)? {
                    let build = join.build(0, context)?;
                    MetricBuilder::new(&join.metrics).counter("built_ahead", 0).add(1);
                    // Whoever probes its table hears of its error.
                    tasks.push(SpawnedTask::spawn(async move {
                        let _for_the_prober = build.await;
                    }));
                }
                upper.push(join.tells());
                Arc::clone(join.stock.right())
            }
            None => match node.children().as_slice() {
                [input] if !node.is::<CorunSharedExec>() => Arc::clone(input),
                _ => return Ok(tasks),
            },
        };
        node = below;
    }
}

impl CorunJoinExec {
    pub(super) fn tells(&self) -> Tells {
        let filter = self.dynamic_filter.as_ref();
        Tells {
            table: self.feeds,
            filter: filter.and_then(|filter| filter.expression_id()),
        }
    }

    /// Whether its build has not started, is small and needs nothing of the joins above.
    fn may_build_ahead(&self, upper: &[Tells]) -> Result<bool> {
        let started = self.builds.lock().first().is_some_and(Option::is_some);
        if self.mode != BuildMode::Shared || started {
            return Ok(false);
        }
        if estimate(&self.left).is_none_or(|rows| rows.rows > ROWS_MAX) {
            return Ok(false);
        }
        for upper in upper {
            if upper.reaches(&self.left)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
