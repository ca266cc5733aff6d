//! corun inside Apache DataFusion: joins that respect the caches, installed by one call.
//!
//! - [`install`] adds corun's physical optimizer rule to a `SessionStateBuilder`; everything else stays DataFusion.
//! - [`CorunOptions`] are the `SET corun.*` options.
//! - [`IndexedTable`] is an in-memory table with indexes, which joins then look rows up in.
//! - [`Engine`] is a facade without DataFusion types, for the rest of corun.
//! - [`Coordinator`] runs concurrent queries beside those that harm them least.
//! - `store` (a feature, off by default) shows the tables of a transactional store to SQL.
//!
//! This is the only crate that names `datafusion`.

mod caches;
mod calibration;
mod coordinate;
pub mod diagnostics;
mod engine;
mod error;
mod index;
pub mod join;
mod options;
mod prefilter;
pub mod rule;
pub mod sides;
mod steering;
#[cfg(feature = "store")]
pub mod store;

pub use coordinate::{
    Alternative, Coordinator, CoordinatorOptions, DecideOptions, DecidedRun, Decision, PipelineReport,
    Report, RunningQuery, Slowdown, Source, State, Submitted, TableBuilt, TableEstimate, WaitingQuery,
    decision_text,
};
pub use engine::{BatchStream, Engine, EngineOptions, Joins, QueryOutput, split_statements};
pub use error::EngineError;
pub use index::{IndexJoinExec, IndexedTable};
pub use options::{CorunOptions, JoinChoice};

use datafusion::execution::SessionStateBuilder;
use std::sync::Arc;

/// Adds corun's operators to a session: one rule behind DataFusion's choice of build sides, one at the end of the
/// physical optimizer, and the `corun.*` options; with the feature `store`, also the rule that lets a statement read all tables
/// of a store as of one moment.
///
/// ```
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
///
/// let state = fusion::install(SessionStateBuilder::new().with_default_features()).build();
/// let context = SessionContext::new_with_state(state);
/// # let _ = context;
/// ```
pub fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let config = builder.config().get_or_insert_default();
    if config.options().extensions.get::<CorunOptions>().is_none() {
        config.options_mut().extensions.insert(CorunOptions::default());
    }
    let rules = &mut builder.physical_optimizers().get_or_insert_default().rules;
    let after_selection = rules
        .iter()
        .position(|rule| rule.name() == "join_selection")
        .map_or(0, |at| at + 1);
    rules.insert(after_selection, Arc::new(sides::SmallerBuildSide::new()));
    #[cfg(feature = "store")]
    let builder = store::install(builder);
    builder.with_physical_optimizer_rule(Arc::new(rule::CacheConsciousJoins::new()))
}

// The Rust blocks of README and manual compile as doctests of this crate. README's show the store, too.
#[cfg(all(doctest, feature = "store"))]
#[doc = include_str!("../../../README.md")]
mod readme {}
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/embedding.md")]
mod manual {}
