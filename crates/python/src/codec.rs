//! How plans cross the interface: by number.

use crate::hand_over::HandOver;
use crate::root::CorunPlanExec;
use crate::tables::GuestExec;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use std::sync::Arc;

/// Hands over whole plans, and scans of tables that were handed over.
#[derive(Debug)]
pub(crate) struct Plans(HandOver<Arc<dyn ExecutionPlan>>);

impl Plans {
    pub(crate) fn new() -> Self {
        Plans(HandOver::new())
    }
}

impl PhysicalExtensionCodec for Plans {
    fn try_decode(
        &self,
        bytes: &[u8],
        _inputs: &[Arc<dyn ExecutionPlan>],
        _context: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.take(bytes)
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if !node.is::<CorunPlanExec>() && !node.is::<GuestExec>() {
            return exec_err!("{} is no plan of corun's", node.name());
        }
        bytes.extend(self.0.give(node));
        Ok(())
    }
}
