//! How the node of corun's is sent that is in plans before they are cut; its other operators are put in where they run.

use corun_datafusion::CorunExpandExec;
use datafusion::common::{exec_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::bytes::physical_plan_to_bytes_with_extension_codec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use std::sync::Arc;

/// Encodes expansions of grouping sets.
#[derive(Debug)]
pub(crate) struct ExpandCodec;

impl PhysicalExtensionCodec for ExpandCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        _context: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match inputs {
            [input] => Ok(Arc::new(CorunExpandExec::from_bytes(bytes, Arc::clone(input))?)),
            _ => internal_err!("an expansion of grouping sets has one input"),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match node.downcast_ref::<CorunExpandExec>() {
            Some(expand) => bytes.extend(expand.to_bytes()?),
            None => return exec_err!("{} cannot be sent to workers", node.name()),
        }
        Ok(())
    }
}

/// Whether a plan can be sent; if not, why.
pub(crate) fn encodes(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    physical_plan_to_bytes_with_extension_codec(Arc::clone(plan), &ExpandCodec).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::Schema;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::prelude::SessionContext;

    #[tokio::test]
    async fn a_plan_with_other_nodes_of_coruns_does_not_encode() {
        let state = corun_datafusion::install(SessionStateBuilder::new().with_default_features()).build();
        let context = SessionContext::new_with_state(state);
        let rows = "select value as k from generate_series(1, 10)";
        let join = format!("select * from ({rows}) a join ({rows}) b on a.k = b.k");
        let mut told = Vec::new();
        for statement in ["select 1", &join] {
            let frame = context.sql(statement).await.expect("a statement");
            let plan = frame.create_physical_plan().await.expect("a plan");
            told.push(encodes(&plan).map_err(|error| error.to_string()));
        }
        assert_eq!(told[0], Ok(()));
        let error = told[1].as_ref().expect_err("a join of corun's");
        assert!(
            error.contains("CorunJoinExec cannot be sent to workers"),
            "{error}"
        );
    }

    #[test]
    fn bytes_of_something_else_are_no_expansion() {
        let input: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        for bytes in [&b""[..], b"something else", &[0xff; 64]] {
            assert!(CorunExpandExec::from_bytes(bytes, Arc::clone(&input)).is_err());
        }
    }
}
