//! [`Reader`]: walks a plan from the leaves up and notes what it finds; see [`super::shape`].
//!
//! Joins are in `reader_joins`, scans that cannot be sampled in `reader_scans`.

use super::leaf::{Leaf, passes_rows_on};
use super::relation::{Column, Relation, columns_of};
use super::shape::{Knowledge, Table};
use super::size::{self, Sizing};
use crate::aggregate::in_cache::{CorunAggregateExec, table_bytes_max};
use crate::decide::decision::Source;
use crate::index::IndexJoinExec;
use crate::join::CorunJoinExec;
use crate::steering::JoinName;
use crate::{CorunOptions, caches};
use corun_model::cache::pipeline::PlanShape;
use corun_model::cache::plan_cost::{self, Caches, GROUP_NS, PASS_NS};
use corun_model::operators::cardinality::Cardinality;
use corun_model::units::Rows;
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode};
use std::sync::Arc;

fn caches_of(config: &ConfigOptions) -> Caches {
    let options = CorunOptions::of(config);
    Caches {
        l2: caches::l2_bytes(&options),
        llc: caches::llc_bytes(&options),
    }
}

/// An operator with memory of its own.
pub enum Operator {
    /// Of a hash table.
    Table {
        /// Its place in [`Reader::tables`].
        at: usize,
        /// The join it is of, and the tables it is built from; `None` for groups and kept rows.
        join: Option<(JoinName, String)>,
    },
    /// A join through an index.
    Index {
        /// The join.
        name: JoinName,
        /// The indexed table.
        of: String,
    },
}

/// A pipeline that still grows upward, as in [`corun_model::cache::pipeline`].
pub struct Open {
    /// Rows that enter it.
    pub rows: u64,
    /// Its first two operators with memory of their own.
    pub first: Vec<Operator>,
}

impl Open {
    /// Adds the next operator.
    pub fn through(mut self, operator: Operator) -> Self {
        if self.first.len() < 2 {
            self.first.push(operator);
        }
        self
    }
}

/// A plan below some operator.
pub struct Walked {
    /// For [`corun_model::cache::pipeline`].
    pub shape: PlanShape,
    /// What comes out of it.
    pub relation: Relation,
    /// The pipeline that leaves it.
    pub open: Open,
}

/// Notes of a walk.
pub struct Reader<'a> {
    /// What estimates rest on.
    pub know: &'a Knowledge<'a>,
    /// Of the machine or the session.
    pub caches: Caches,
    /// Hash tables, in the order of [`super::shape::resized`].
    pub tables: Vec<Table>,
    /// Pipelines that have ended, in the order they run.
    pub closed: Vec<Open>,
    /// Nanoseconds of one thread.
    pub cost_ns: f64,
}

impl<'a> Reader<'a> {
    /// Nothing noted yet.
    pub fn new(know: &'a Knowledge<'a>) -> Self {
        Reader {
            know,
            caches: caches_of(know.config),
            tables: Vec::new(),
            closed: Vec::new(),
            cost_ns: 0.0,
        }
    }

    /// Reads a plan and what is below it.
    pub fn walk(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Walked {
        if let Some(leaf) = Leaf::of(plan, self.know.memory) {
            let table_rows = leaf.sample().table_rows as f64;
            let table = self.know.names.of(Some(&leaf.table), &plan.schema());
            let relation = self.corrected(Relation::of_leaf(leaf, &plan.schema(), table));
            return self.scan(table_rows, relation);
        }
        if let Some(join) = plan.downcast_ref::<CorunJoinExec>() {
            let name = JoinName::of(join.stock());
            let form = format!("{:?} {:?}", join.mode(), join.needed());
            return self.hash_join(plan, join.stock(), name, &form, |build, config| {
                (Sizing::Corun, size::corun_join(join, build, config))
            });
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            let form = format!("stock {:?}", join.partition_mode());
            return self.hash_join(plan, join, JoinName::of(join), &form, |build, config| {
                let sizing = size::stock_join(join, build, config);
                (sizing, sizing.bytes(build.rows.rows))
            });
        }
        if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
            return self.index_join(plan, join);
        }
        if plan.is::<CrossJoinExec>() || plan.is::<NestedLoopJoinExec>() {
            return self.nested_loop(plan);
        }
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            return self.aggregate(plan, first_stage(aggregate), aggregate.fetch(), None);
        }
        if let Some(aggregate) = plan.downcast_ref::<CorunAggregateExec>() {
            let inputs = aggregate.first().input().output_partitioning().partition_count();
            let tables = inputs * table_bytes_max(&CorunOptions::of(self.know.config));
            return self.aggregate(plan, aggregate.first(), None, Some(tables as u64));
        }
        match plan.children().as_slice() {
            [] => self.other_scan(plan),
            [input] => {
                let walked = self.walk(input);
                self.pass(plan, walked)
            }
            several => {
                let inputs = several.iter().map(|input| self.walk(input)).collect();
                self.merge(plan, inputs)
            }
        }
    }

    /// The relation with the rows that were really seen when something was built from it.
    pub fn corrected(&self, mut relation: Relation) -> Relation {
        if relation.from != Source::Exact
            && let Some(built) = self.know.memory.built(&relation.fingerprint)
        {
            relation.rows.rows = built.rows as f64;
            relation.from = Source::Built;
        }
        relation
    }

    /// A source of rows.
    pub fn scan(&mut self, table_rows: f64, relation: Relation) -> Walked {
        self.cost_ns += plan_cost::scan_ns(table_rows);
        Walked {
            shape: PlanShape::Scan {
                rows: rows(table_rows),
            },
            open: Open {
                rows: rows(table_rows).0,
                first: Vec::new(),
            },
            relation,
        }
    }

    /// An operator with one input that is no join and no aggregate.
    fn pass(&mut self, plan: &Arc<dyn ExecutionPlan>, walked: Walked) -> Walked {
        let Walked {
            shape,
            mut relation,
            open,
        } = walked;
        self.cost_ns += relation.rows.rows * PASS_NS;
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            relation = self.filtered(plan, filter, relation);
        } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let schema = plan.schema();
            let columns = projection
                .expr()
                .iter()
                .zip(schema.fields())
                .map(|(item, field)| {
                    let column = item.expr.downcast_ref::<ColumnExpr>();
                    let below = column.and_then(|column| relation.columns.get(column.index()));
                    below
                        .cloned()
                        .unwrap_or_else(|| Column::of_type(field.data_type()))
                });
            relation.columns = columns.collect();
        } else if relation.columns.len() != plan.schema().fields().len() {
            relation.columns = columns_of(&plan.schema());
        }
        if let Some(fetch) = plan.fetch() {
            relation.rows.rows = relation.rows.rows.min(fetch as f64);
            relation.fingerprint.push_str(" limited");
        }
        let blocks = matches!(plan.name(), "SortExec" | "PartialSortExec" | "WindowAggExec");
        if blocks {
            self.cost_ns += plan_cost::sort_ns(relation.rows.rows);
            self.closed.push(open);
            let rows = rows(relation.rows.rows);
            return Walked {
                shape: PlanShape::Sort {
                    rows,
                    input: Box::new(shape),
                },
                open: Open {
                    rows: rows.0,
                    first: Vec::new(),
                },
                relation,
            };
        }
        if !passes_rows_on(plan) && !plan.is::<FilterExec>() && !plan.is::<ProjectionExec>() {
            relation.fingerprint = format!("{} {}", plan.name(), relation.fingerprint);
        }
        Walked {
            shape,
            relation,
            open,
        }
    }

    /// An aggregate whose first stage is `first`, of at most `fetch` groups, in tables of `bytes_max` together.
    fn aggregate(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        first: &AggregateExec,
        fetch: Option<usize>,
        bytes_max: Option<u64>,
    ) -> Walked {
        let walked = self.walk(first.input());
        let input = &walked.relation;
        let keys: Vec<PhysicalExprRef> = first
            .group_expr()
            .expr()
            .iter()
            .map(|(key, _)| Arc::clone(key))
            .collect();
        self.cost_ns += input.rows.rows * if keys.is_empty() { PASS_NS } else { GROUP_NS };
        let known = input.groups(&keys);
        let groups = if keys.is_empty() {
            1.0
        } else {
            known.unwrap_or_else(|| input.rows.grouped().rows)
        };
        let groups = fetch.map_or(groups, |fetch| groups.min(fetch as f64));
        let from = match known {
            Some(_) => input.from.max(Source::Statistics),
            None => Source::Guess,
        };
        let schema = plan.schema();
        let columns = schema.fields().iter().enumerate().map(|(index, field)| {
            let key = keys.get(index).and_then(|key| key.downcast_ref::<ColumnExpr>());
            let below = key.and_then(|key| input.columns.get(key.index()));
            below
                .cloned()
                .unwrap_or_else(|| Column::of_type(field.data_type()))
        });
        let relation = Relation {
            rows: Cardinality::of_table(groups),
            from,
            columns: columns.collect(),
            tables: input.tables.clone(),
            fingerprint: format!("groups {:?} of {}", first.group_expr().expr(), input.fingerprint),
        };
        let relation = self.corrected(relation);
        let hashed = *first.input_order_mode() != InputOrderMode::Sorted;
        if keys.is_empty() || !hashed {
            return Walked { relation, ..walked };
        }
        let sizing = size::groups(first, input, bytes_max);
        let what = format!("groups of {}", relation.name());
        let bytes = sizing.bytes(relation.rows.rows);
        let key = format!("{what} {:?} {}", first.aggr_expr(), relation.fingerprint);
        let at = self.table(plan, &relation, what, key, sizing, bytes);
        self.closed
            .push(walked.open.through(Operator::Table { at, join: None }));
        let groups = rows(relation.rows.rows);
        Walked {
            shape: PlanShape::HashAggregate {
                table: self.tables[at].estimate.bytes,
                groups,
                input: Box::new(walked.shape),
            },
            open: Open {
                rows: groups.0,
                first: Vec::new(),
            },
            relation,
        }
    }

    fn merge(&mut self, plan: &Arc<dyn ExecutionPlan>, inputs: Vec<Walked>) -> Walked {
        let (mut shapes, mut open) = (Vec::new(), None::<Open>);
        let mut relation: Option<Relation> = None;
        for walked in inputs {
            self.cost_ns += walked.relation.rows.rows * PASS_NS;
            shapes.push(walked.shape);
            open = Some(match open {
                Some(so_far) if walked.open.rows > so_far.rows => {
                    self.closed.push(so_far);
                    walked.open
                }
                Some(so_far) => {
                    self.closed.push(walked.open);
                    so_far
                }
                None => walked.open,
            });
            relation = Some(match relation {
                Some(so_far) => Relation {
                    rows: Cardinality::of_table(so_far.rows.rows + walked.relation.rows.rows),
                    from: weaker(&so_far, &walked.relation),
                    columns: columns_of(&plan.schema()),
                    tables: both(&so_far, &walked.relation),
                    fingerprint: format!(
                        "{} {} {}",
                        plan.name(),
                        so_far.fingerprint,
                        walked.relation.fingerprint
                    ),
                },
                None => walked.relation,
            });
        }
        let nothing = Relation {
            rows: Cardinality::of_table(0.0),
            from: Source::Exact,
            columns: columns_of(&plan.schema()),
            tables: Vec::new(),
            fingerprint: String::new(),
        };
        Walked {
            shape: PlanShape::Merge { inputs: shapes },
            relation: relation.unwrap_or(nothing),
            open: open.unwrap_or(Open {
                rows: 0,
                first: Vec::new(),
            }),
        }
    }
}

/// The stage that reads the rows: of two stages the lower, whatever lies between.
fn first_stage(aggregate: &AggregateExec) -> &AggregateExec {
    if !matches!(
        aggregate.mode(),
        AggregateMode::Final | AggregateMode::FinalPartitioned
    ) {
        return aggregate;
    }
    let mut below = aggregate.input();
    loop {
        if let Some(partial) = below.downcast_ref::<AggregateExec>() {
            return match partial.mode() {
                AggregateMode::Partial => partial,
                _ => aggregate,
            };
        }
        match (passes_rows_on(below), below.children().as_slice()) {
            (true, [input]) => below = input,
            _ => return aggregate,
        }
    }
}

/// The less sure of two sources.
pub fn weaker(left: &Relation, right: &Relation) -> Source {
    left.from.max(right.from)
}

/// The tables of both.
pub fn both(left: &Relation, right: &Relation) -> Vec<String> {
    let more = right.tables.iter().filter(|table| !left.tables.contains(table));
    left.tables.iter().chain(more).cloned().collect()
}

/// A whole number of rows.
pub fn rows(rows: f64) -> Rows {
    Rows(rows.max(0.0).round() as u64)
}
