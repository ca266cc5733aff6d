//! Whose policies are compared, and what each is made of: an engine with streaming off or on, and a coordinator.

use std::sync::Arc;

use corun_datafusion::{Coordinator, CoordinatorOptions};
use corun_model::cache::coschedule::PolicyName;
use corun_model::cache::partition::Class;
use corun_model::topology::Topology;
use corun_model::units::Bytes;
use corun_resctrl::partition::{Kind as Way, PartitionError, Partitioner};

use super::engines::{Engines, Kind};
use lab_core::error::BenchError;

/// Stands in for a partitioned cache: streaming keeps weak queries out of the cache as far as they let it, and `mls` pairs them with
/// moderate ones as if that were enough. The program's own partitioner does not claim so much; here it is what is measured.
#[derive(Debug)]
struct AssumedProtection;

impl Partitioner for AssumedProtection {
    fn kind(&self) -> Way {
        Way::Streaming
    }

    fn protects(&self) -> bool {
        true
    }

    fn assign_current_thread(&self, _class: Class) -> Result<(), PartitionError> {
        Ok(())
    }

    fn describe(&self) -> String {
        "streaming, assumed to protect: to measure mls where no cache can be partitioned".to_owned()
    }
}

/// How a coordinator is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The policy.
    pub policy: PolicyName,
    /// Whose operators.
    pub kind: Kind,
    /// Whether plans are chosen by locality.
    pub plan_choice: bool,
    /// Whether a query that is alone gets all CPUs.
    pub widen: bool,
}

impl Setup {
    /// One query a CPU and the cheapest plans, so that only who runs beside whom differs.
    pub const fn narrow(policy: PolicyName, kind: Kind) -> Setup {
        Setup {
            policy,
            kind,
            plan_choice: false,
            widen: false,
        }
    }
}

/// The coordinator of a setup. In a quick run no query is short: all of them are, and would bypass.
///
/// # Errors
/// A message where this machine or build has no such thing, such as `mls` without streaming; else what it failed of.
pub fn coordinator(
    setup: Setup,
    engines: &Engines,
    topology: &Topology,
    cache: Bytes,
    quick: bool,
) -> Result<Result<Coordinator, String>, BenchError> {
    let engine = match engines.get(setup.kind) {
        Ok(engine) => engine,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut options = CoordinatorOptions::for_machine(topology, Some(cache))?;
    options.policy = setup.policy;
    options.plan_choice = setup.plan_choice;
    options.widen = setup.widen;
    if quick {
        options.short_below_ns = 0.0;
    }
    if setup.policy == PolicyName::Mls {
        if setup.kind != Kind::Streaming {
            return Ok(Err(
                "mls pairs weak queries with moderate ones, which needs a cache partitioned between them"
                    .to_owned(),
            ));
        }
        options.partitioner = Some(Arc::new(AssumedProtection));
    }
    Ok(Ok(Coordinator::new(engine, options)?))
}
