//! Aggregates in more steps than DataFusion plans, so that what is dear is done for fewer rows.
//!
//! Both merge states of aggregates that a first step has made ([`AggregateMode::PartialReduce`]); a first step that does not make the rows
//! fewer gives up by itself.
//!
//! [`AggregateMode::PartialReduce`]: datafusion::physical_plan::aggregates::AggregateMode::PartialReduce

mod before_joins;
mod grouping_sets;

pub(crate) use before_joins::GroupBeforeJoins;
pub(crate) use grouping_sets::from_finest;
