//! [`read`]: a physical plan as the cache sees it, its hash tables with their sizes, and what it costs.
//!
//! ```text
//!   AggregateExec final ─ repartition ─ AggregateExec partial     one table of groups
//!   CorunJoinExec, HashJoinExec                                   a table of the left side, the right one streams
//!   CrossJoinExec, NestedLoopJoinExec                             the left side is kept, the right one streams
//!   IndexJoinExec                                                 the outer side streams
//!   SortExec, WindowAggExec                                       blocks
//!   other operators with one input                                pass rows on
//!   other operators with several                                  merge
//! ```
//!
//! Rows are estimated from the leaves up: counts and samples of in-memory tables ([`super::leaf`]), statistics of files, joins
//! by containment ([`corun_model::operators::cardinality`]), groups by the values of their columns, everything else by rules of thumb. The
//! weakest source of an estimate labels it.

use super::memory::Memory;
use super::names::Names;
use super::reader::{Operator, Reader};
use super::size::Sizing;
use crate::decide::decision::TableEstimate;
use crate::steering::JoinName;
use corun_model::cache::locality::Footprint;
use corun_model::cache::pipeline::PlanShape;
use corun_model::units::Bytes;
use datafusion::config::ConfigOptions;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// A hash table of the plan.
pub struct Table {
    /// What is expected of it.
    pub estimate: TableEstimate,
    /// The operator that builds it.
    pub node: Arc<dyn ExecutionPlan>,
    /// Its bytes by its rows.
    pub sizing: Sizing,
    /// What it is remembered by.
    pub key: String,
    /// What its rows are remembered by; empty for groups.
    pub rows_key: String,
}

/// One of the first two joins of the main pipeline.
#[derive(Clone)]
pub struct MainJoin {
    /// Which join of the plan.
    pub name: JoinName,
    /// Whether it goes through an index.
    pub indexed: bool,
    /// In words: `hash part 12 MiB`.
    pub text: String,
}

/// A plan as the cache sees it.
pub struct Reading {
    /// For [`corun_model::cache::pipeline`].
    pub shape: PlanShape,
    /// Hash tables in the order of [`resized`].
    pub tables: Vec<Table>,
    /// The first two joins of the main pipeline, the lower first.
    pub joins: Vec<MainJoin>,
    /// Nanoseconds of one thread.
    pub cost_ns: f64,
}

/// What estimates rest on.
pub struct Knowledge<'a> {
    /// Of earlier plans and runs.
    pub memory: &'a Memory,
    /// Of tables.
    pub names: &'a Names,
    /// The session's settings.
    pub config: &'a ConfigOptions,
}

/// Reads a plan.
pub fn read(plan: &Arc<dyn ExecutionPlan>, knowledge: &Knowledge<'_>) -> Reading {
    let mut reader = Reader::new(knowledge);
    let top = reader.walk(plan);
    reader.closed.push(top.open);
    let main = reader.closed.into_iter().max_by_key(|open| open.rows);
    let mut joins = Vec::new();
    for operator in main.into_iter().flat_map(|open| open.first) {
        match operator {
            Operator::Table { at, join } => {
                reader.tables[at].estimate.counts = true;
                if let Some((name, of)) = join {
                    let text = format!("hash {of} {}", reader.tables[at].estimate.bytes);
                    joins.push(MainJoin {
                        name,
                        indexed: false,
                        text,
                    });
                }
            }
            Operator::Index { name, of } => joins.push(MainJoin {
                name,
                indexed: true,
                text: format!("index {of}"),
            }),
        }
    }
    Reading {
        shape: top.shape,
        tables: reader.tables,
        joins,
        cost_ns: reader.cost_ns,
    }
}

/// The shape with other table sizes, in the order of [`Reading::tables`].
pub fn resized(shape: &PlanShape, sizes: &mut dyn Iterator<Item = Bytes>) -> PlanShape {
    match shape {
        PlanShape::Scan { .. } => shape.clone(),
        PlanShape::HashJoin { table, build, probe } => {
            let build = Box::new(resized(build, sizes));
            let table = sizes.next().unwrap_or(*table);
            let probe = Box::new(resized(probe, sizes));
            PlanShape::HashJoin { table, build, probe }
        }
        PlanShape::IndexJoin { outer } => PlanShape::IndexJoin {
            outer: Box::new(resized(outer, sizes)),
        },
        PlanShape::HashAggregate { table, groups, input } => {
            let input = Box::new(resized(input, sizes));
            let table = sizes.next().unwrap_or(*table);
            PlanShape::HashAggregate {
                table,
                groups: *groups,
                input,
            }
        }
        PlanShape::Sort { rows, input } => PlanShape::Sort {
            rows: *rows,
            input: Box::new(resized(input, sizes)),
        },
        PlanShape::Merge { inputs } => PlanShape::Merge {
            inputs: inputs.iter().map(|input| resized(input, sizes)).collect(),
        },
    }
}

/// `S` of the pipeline that stands for the whole plan.
pub fn footprint(shape: &PlanShape) -> Footprint {
    corun_model::cache::pipeline::pipelines(shape).main().footprint
}
