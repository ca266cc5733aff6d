//! corun inside Apache DataFusion: joins that respect the caches, installed by one call.
//!
//! - [`install`] adds corun's physical optimizer rule to a `SessionStateBuilder`; everything else stays DataFusion.
//! - [`CorunOptions`] are the `SET corun.*` options.
//! - [`IndexedTable`] is an in-memory table with indexes, which joins then look rows up in.
//! - [`Engine`] is a facade without DataFusion types, for the rest of corun.
//! - `Coordinator` (the feature `coordinator`) runs concurrent queries beside those that harm them least.
//! - `store` (a feature, off by default) shows the tables of a transactional store to SQL.
//!
//! This, `corun-distributed`, which runs plans on several machines, `corun-server` and `corun-python` are the only crates that name `datafusion`.

mod again;
mod aggregate;
mod caches;
mod calibration;
#[cfg(feature = "coordinator")]
mod coordinate;
mod decide;
pub mod diagnostics;
mod engine;
mod error;
mod index;
pub mod join;
mod join_order;
mod keep;
mod nearest;
mod options;
mod prefilter;
mod rewrite;
pub mod rule;
mod semi_filters;
mod share;
pub mod sides;
mod steering;
mod stock_line;
mod stop;
#[cfg(feature = "store")]
pub mod store;
mod tasks;

pub use aggregate::expand::CorunExpandExec;
pub use aggregate::in_cache::CorunAggregateExec;
#[cfg(feature = "coordinator")]
pub use coordinate::{
    Coordinator, CoordinatorOptions, Report, RunningQuery, Slowdown, State, Submitted, WaitingQuery,
};
#[cfg(feature = "coordinator")]
pub use corun_model::cache::coschedule::{Owner, Weight};
pub use decide::decision::{
    Alternative, DecideOptions, DecidedRun, Decision, PipelineReport, Source, TableBuilt, TableEstimate,
    decision_text,
};
pub use decide::facade::is_query;
pub use engine::{
    BatchStream, Engine, EngineOptions, Joins, QueryOutput, memory_limited, set_for_memory_limit,
    split_statements,
};
pub use error::EngineError;
pub use index::{IndexJoinExec, IndexedTable};
pub use nearest::nearest;
pub use options::{CorunOptions, InstructionChoice, JoinChoice};
pub use share::{CorunSharedExec, SharedWorkState, TakenWork};
pub use stop::{Stop, execute_apart, stoppable};

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use std::sync::Arc;

/// Adds corun's operators to a session: three rules behind DataFusion's choice of build sides, one at the end of the physical optimizer, a
/// query planner before the builder's own that plans shared parts once, and the `corun.*` options; with the feature `store`, also the rule
/// that lets a statement read all tables of a store as of one moment. Sessions made from the same state share what their statements make.
///
/// ```
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
///
/// let state = corun_datafusion::install(SessionStateBuilder::new().with_default_features()).build();
/// let context = SessionContext::new_with_state(state);
/// # let _ = context;
/// ```
pub fn install(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut builder = install_decisions(
        builder,
        [
            Arc::new(join_order::JoinOrder::default()) as Rule,
            Arc::new(sides::SmallerBuildSide::new()),
            Arc::new(aggregate::AggregateInSteps::default()),
        ],
    );
    let planner = builder
        .query_planner()
        .take()
        .unwrap_or_else(share::stock_planner);
    builder
        .with_query_planner(Arc::new(share::SharingPlanner::new(planner)))
        .with_physical_optimizer_rule(Arc::new(rule::CacheConsciousJoins::new()))
}

/// Adds what corun decides about plans of DataFusion's own operators: the options, the sides of joins, grouping sets from their finest one,
/// statements written differently. Such plans can be encoded and sent, with the one node of corun's that is in them
/// ([`CorunExpandExec::to_bytes`]); whoever decodes a part of one puts the operators in with [`rule::CacheConsciousJoins::keeping_partitions`].
/// The order of joins stays DataFusion's, and so does where groups are made: what corun gains by others rests on rows that joins drop early,
/// which they cannot do across machines.
pub fn install_for_plans_that_travel(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut builder = install_decisions(
        builder,
        [
            Arc::new(sides::SmallerBuildSide::of_plans_that_travel()) as Rule,
            Arc::new(aggregate::AggregateInSteps::of_grouping_sets()),
        ],
    );
    let planner = builder
        .query_planner()
        .take()
        .unwrap_or_else(share::stock_planner);
    builder.with_query_planner(Arc::new(rewrite::RewritingPlanner(planner)))
}

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Adds the options, and `decisions` where sides of joins have been chosen.
fn install_decisions<const N: usize>(
    mut builder: SessionStateBuilder,
    decisions: [Rule; N],
) -> SessionStateBuilder {
    let config = builder.config().get_or_insert_default();
    if config.options().extensions.get::<CorunOptions>().is_none() {
        config.options_mut().extensions.insert(CorunOptions::default());
    }
    let rules = &mut builder.physical_optimizers().get_or_insert_default().rules;
    let after_selection = rules
        .iter()
        .position(|rule| rule.name() == "join_selection")
        .map_or(0, |at| at + 1);
    drop(rules.splice(after_selection..after_selection, decisions));
    let rules = &mut builder.optimizer().get_or_insert_default().rules;
    let before = rules.iter().position(|rule| rule.name() == semi_filters::BEFORE);
    rules.insert(
        before.unwrap_or(rules.len()),
        Arc::new(semi_filters::FiltersBelowSemiJoins),
    );
    #[cfg(feature = "store")]
    {
        builder = store::install(builder);
    }
    builder
}

// The Rust blocks of README and manual run as doctests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod crate_readme {}
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/datafusion/README.md")]
mod manual {}
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/datafusion/embedding.md")]
mod manual_embedding {}
#[cfg(all(doctest, feature = "coordinator"))]
#[doc = include_str!("../../../docs/src/datafusion/coordinator.md")]
mod manual_coordinator {}
