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
//! by containment ([`model::cardinality`]), groups by the values of their columns, everything else by rules of thumb. The
//! weakest source of an estimate labels it.

use super::leaf::{KeyNumbers, Leaf, passes_rows_on};
use super::memory::Memory;
use super::names::Names;
use super::relation::{Column, Relation, columns_of};
use super::size::{self, Sizing};
use crate::coordinate::decision::{Source, TableEstimate};
use crate::index::IndexJoinExec;
use crate::join::CorunJoinExec;
use crate::join::keys::{integer_codes, is_integer_like};
use crate::sides::conditions;
use crate::steering::JoinName;
use crate::{CorunOptions, caches};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, JoinSide, JoinType, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::intervals::utils::check_support;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    ExecutionPlan, InputOrderMode, StatisticsArgs, StatisticsContext, displayable,
};
use model::cardinality::Cardinality;
use model::index_join::{Inputs, index_ns};
use model::locality::Footprint;
use model::pipeline::PlanShape;
use model::plan_cost::{self, Caches, GROUP_NS, PAIR_NS, PASS_NS};
use model::units::{Bytes, Rows};
use std::sync::Arc;

/// Rows taken for an input nobody knows anything about.
const ROWS_UNKNOWN: f64 = 1000.0;

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
    /// For [`model::pipeline`].
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
    let mut reader = Reader {
        know: knowledge,
        caches: caches_of(knowledge.config),
        tables: Vec::new(),
        closed: Vec::new(),
        cost_ns: 0.0,
    };
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

fn caches_of(config: &ConfigOptions) -> Caches {
    let options = CorunOptions::of(config);
    Caches {
        l2: caches::l2_bytes(&options),
        llc: caches::llc_bytes(&options),
    }
}

/// An operator with memory of its own.
enum Operator {
    Table {
        at: usize,
        join: Option<(JoinName, String)>,
    },
    Index {
        name: JoinName,
        of: String,
    },
}

/// A pipeline that still grows upward, as in [`model::pipeline`].
struct Open {
    rows: u64,
    first: Vec<Operator>,
}

impl Open {
    fn through(mut self, operator: Operator) -> Self {
        if self.first.len() < 2 {
            self.first.push(operator);
        }
        self
    }
}

/// A plan below some operator.
struct Walked {
    shape: PlanShape,
    relation: Relation,
    open: Open,
}

struct Reader<'a> {
    know: &'a Knowledge<'a>,
    caches: Caches,
    tables: Vec<Table>,
    closed: Vec<Open>,
    cost_ns: f64,
}

impl Reader<'_> {
    fn walk(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Walked {
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
            return self.aggregate(plan, aggregate);
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
    fn corrected(&self, mut relation: Relation) -> Relation {
        if relation.from != Source::Exact
            && let Some(built) = self.know.memory.built(&relation.fingerprint)
        {
            relation.rows.rows = built.rows as f64;
            relation.from = Source::Built;
        }
        relation
    }

    fn scan(&mut self, table_rows: f64, relation: Relation) -> Walked {
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

    /// A scan of something that is not in memory.
    fn other_scan(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Walked {
        let statistics = StatisticsContext::new()
            .compute(plan.as_ref(), &StatisticsArgs::new())
            .ok();
        let statistics = statistics.as_deref();
        let (known, from) = match statistics.map(|statistics| &statistics.num_rows) {
            Some(Precision::Exact(rows)) => (*rows as f64, Source::Exact),
            Some(Precision::Inexact(rows)) => (*rows as f64, Source::Statistics),
            _ => (
                plan.fetch().map_or(ROWS_UNKNOWN, |fetch| fetch as f64),
                Source::Guess,
            ),
        };
        let columns = columns_of(&plan.schema())
            .into_iter()
            .enumerate()
            .map(|(index, column)| {
                let data_type = plan.schema().field(index).data_type().clone();
                match statistics.and_then(|statistics| statistics.column_statistics.get(index)) {
                    Some(found) => of_statistics(column, found, &data_type, known),
                    None => column,
                }
            });
        let relation = Relation {
            rows: Cardinality::of_table(known),
            from,
            columns: columns.collect(),
            tables: vec![self.know.names.of(None, &plan.schema())],
            fingerprint: displayable(plan.as_ref()).one_line().to_string(),
        };
        self.scan(known, relation)
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

    /// What a filter leaves that could not be sampled.
    fn filtered(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        filter: &FilterExec,
        mut relation: Relation,
    ) -> Relation {
        let predicate = filter.predicate();
        relation.fingerprint.push_str(&format!(" where {predicate}"));
        // The interval analysis of statistics knows comparisons of numbers only.
        let analysed =
            relation.from <= Source::Statistics && check_support(predicate, &filter.input().schema());
        let statistics = analysed
            .then(|| {
                StatisticsContext::new()
                    .compute(plan.as_ref(), &StatisticsArgs::new())
                    .ok()
            })
            .flatten();
        match statistics
            .as_deref()
            .and_then(|found: &Statistics| found.num_rows.get_value())
        {
            Some(rows) => {
                relation.rows.rows = *rows as f64;
                relation.from = Source::Statistics;
            }
            None => {
                let (equalities, others) = conditions(predicate);
                relation.rows = relation.rows.filtered(equalities, others);
                relation.from = Source::Guess;
            }
        }
        if let Some(projection) = filter.projection().as_ref() {
            relation.columns = projection
                .iter()
                .map(|index| relation.columns[*index].clone())
                .collect();
        }
        self.corrected(relation)
    }

    fn hash_join(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        join: &HashJoinExec,
        name: JoinName,
        form: &str,
        size: impl FnOnce(&Relation, &ConfigOptions) -> (Sizing, u64),
    ) -> Walked {
        let children = plan.children();
        let build = self.walk(children[0]);
        let (sizing, bytes) = size(&build.relation, self.know.config);
        let of = build.relation.name();
        let what = format!("join {of}");
        let key = format!("{what} {name} {form} {}", build.relation.fingerprint);
        let at = self.table(plan, &build.relation, what, key, sizing, bytes);
        let operator = || Operator::Table {
            at,
            join: Some((name.clone(), of.clone())),
        };
        self.closed.push(build.open.through(operator()));
        let probe = self.walk(children[1]);
        self.cost_ns +=
            plan_cost::hash_join_ns(build.relation.rows.rows, probe.relation.rows.rows, self.caches);
        Walked {
            shape: PlanShape::HashJoin {
                table: self.tables[at].estimate.bytes,
                build: Box::new(build.shape),
                probe: Box::new(probe.shape),
            },
            relation: joined(join, &build.relation, &probe.relation),
            open: probe.open.through(operator()),
        }
    }

    /// A join that keeps one side whole and looks at all of it for each row of the other.
    fn nested_loop(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Walked {
        let children = plan.children();
        let build = self.walk(children[0]);
        let what = format!("rows of {}", build.relation.name());
        let key = format!("{what} {}", build.relation.fingerprint);
        let sizing = Sizing::Rows {
            row: build.relation.width(),
        };
        let bytes = sizing.bytes(build.relation.rows.rows);
        let at = self.table(plan, &build.relation, what, key, sizing, bytes);
        let operator = || Operator::Table { at, join: None };
        self.closed.push(build.open.through(operator()));
        let probe = self.walk(children[1]);
        let (left, right) = (&build.relation, &probe.relation);
        let pairs = left.rows.rows * right.rows.rows;
        self.cost_ns += pairs * PAIR_NS;
        let relation = Relation {
            // A condition that is no equality keeps what any other one does.
            rows: if plan.is::<CrossJoinExec>() {
                Cardinality::of_table(pairs)
            } else {
                Cardinality::of_table(pairs).filtered(0, 1)
            },
            from: weaker(left, right),
            columns: columns_of(&plan.schema()),
            tables: both(left, right),
            fingerprint: format!("({} × {})", left.fingerprint, right.fingerprint),
        };
        Walked {
            shape: PlanShape::HashJoin {
                table: self.tables[at].estimate.bytes,
                build: Box::new(build.shape),
                probe: Box::new(probe.shape),
            },
            relation,
            open: probe.open.through(operator()),
        }
    }

    /// Notes a table; what was built under its key before is believed.
    fn table(
        &mut self,
        node: &Arc<dyn ExecutionPlan>,
        build: &Relation,
        what: String,
        key: String,
        sizing: Sizing,
        bytes: u64,
    ) -> usize {
        let built = self.know.memory.built(&key);
        self.tables.push(Table {
            estimate: TableEstimate {
                what,
                rows: built.map_or_else(|| rows(build.rows.rows), |built| Rows(built.rows)),
                bytes: Bytes(built.map_or(bytes, |built| built.bytes)),
                from: if built.is_some() {
                    Source::Built
                } else {
                    build.from
                },
                counts: false,
            },
            node: Arc::clone(node),
            sizing,
            key,
            rows_key: build.fingerprint.clone(),
        });
        self.tables.len() - 1
    }

    fn index_join(&mut self, plan: &Arc<dyn ExecutionPlan>, join: &IndexJoinExec) -> Walked {
        let outer = self.walk(join.outer());
        // The indexed side is not run: its numbers count, its cost does not.
        let side = match join.inner() {
            JoinSide::Left => join.stock().left(),
            _ => join.stock().right(),
        };
        let mut aside = Reader {
            know: self.know,
            caches: self.caches,
            tables: Vec::new(),
            closed: Vec::new(),
            cost_ns: 0.0,
        };
        let indexed = aside.walk(side).relation;
        let indexed_builds = join.inner() == JoinSide::Left;
        let (left, right) = if indexed_builds {
            (&indexed, &outer.relation)
        } else {
            (&outer.relation, &indexed)
        };
        self.cost_ns += index_ns(&Inputs {
            build_rows: left.rows.rows,
            probe_rows: right.rows.rows,
            indexed_builds,
            table_rows: join.table_rows() as f64,
            tree_bytes: join.tree_bytes(),
            l2_bytes: self.caches.l2,
            llc_bytes: self.caches.llc,
        });
        let mut relation = joined(join.stock(), left, right);
        if relation.columns.len() != plan.schema().fields().len() {
            relation.columns = columns_of(&plan.schema());
        }
        let name = JoinName::of(join.stock());
        let of = indexed.name();
        Walked {
            shape: PlanShape::IndexJoin {
                outer: Box::new(outer.shape),
            },
            open: outer.open.through(Operator::Index { name, of }),
            relation,
        }
    }

    fn aggregate(&mut self, plan: &Arc<dyn ExecutionPlan>, aggregate: &AggregateExec) -> Walked {
        let first = first_stage(aggregate);
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
        let groups = aggregate.fetch().map_or(groups, |fetch| groups.min(fetch as f64));
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
        let sizing = size::groups(first, input);
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

/// What comes out of a join, by containment of the keys of the smaller side in those of the larger.
fn joined(join: &HashJoinExec, left: &Relation, right: &Relation) -> Relation {
    let (l, r) = (left.rows, right.rows);
    let rows = match join.join_type() {
        JoinType::LeftSemi => l.semi_joined(r),
        JoinType::RightSemi => r.semi_joined(l),
        JoinType::LeftAnti | JoinType::LeftMark => l,
        JoinType::RightAnti | JoinType::RightMark => r,
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => l.joined(r),
    };
    let (_, sources) = build_join_schema(&join.left().schema(), &join.right().schema(), join.join_type());
    let sources: Vec<ColumnIndex> = match join.projection.as_ref() {
        Some(projection) => projection.iter().map(|index| sources[*index].clone()).collect(),
        None => sources,
    };
    let schema = join.schema();
    let columns = sources.iter().zip(schema.fields()).map(|(source, field)| {
        let side = match source.side {
            JoinSide::Left => left.columns.get(source.index),
            JoinSide::Right => right.columns.get(source.index),
            JoinSide::None => None,
        };
        side.cloned()
            .unwrap_or_else(|| Column::of_type(field.data_type()))
    });
    Relation {
        rows,
        // Containment is a rule of thumb about sure numbers.
        from: weaker(left, right).max(Source::Statistics),
        columns: columns.collect(),
        tables: both(left, right),
        fingerprint: format!(
            "({} {} {})",
            left.fingerprint,
            JoinName::of(join),
            right.fingerprint
        ),
    }
}

fn weaker(left: &Relation, right: &Relation) -> Source {
    left.from.max(right.from)
}

fn both(left: &Relation, right: &Relation) -> Vec<String> {
    let more = right.tables.iter().filter(|table| !left.tables.contains(table));
    left.tables.iter().chain(more).cloned().collect()
}

fn rows(rows: f64) -> Rows {
    Rows(rows.max(0.0).round() as u64)
}

/// A column with what its table's statistics say.
fn of_statistics(
    column: Column,
    statistics: &ColumnStatistics,
    data_type: &arrow::datatypes::DataType,
    table_rows: f64,
) -> Column {
    let width = statistics
        .byte_size
        .get_value()
        .map(|bytes| *bytes as f64 / table_rows.max(1.0));
    let code = |value: &Precision<datafusion::common::ScalarValue>| {
        let array = value.get_value()?.to_array().ok()?;
        let known = is_integer_like(data_type) && array.data_type() == data_type && array.is_valid(0);
        known.then(|| integer_codes(&array).get(0))
    };
    let bounds = code(&statistics.min_value).zip(code(&statistics.max_value));
    let distinct = statistics.distinct_count.get_value().map(|count| *count as f64);
    // Keys that repeat less than once for two codes of their range are taken for unique.
    let by_range = bounds.map(|(min, max)| ((max - min) as f64 + 1.0).min(table_rows));
    let key = distinct
        .or(by_range)
        .map(|distinct| KeyNumbers { bounds, distinct });
    column.with_statistics(width, key)
}

/// `S` of the pipeline that stands for the whole plan.
pub fn footprint(shape: &PlanShape) -> Footprint {
    model::pipeline::pipelines(shape).main().footprint
}
