//! Rows grouped before joins that only say what the groups are called.
//!
//! ```text
//!   Aggregate by c_id, c_name, c_city, d_year        Aggregate by c_id, c_name, c_city, d_year, merges states
//!    └─ CorunJoin dates                               └─ CorunJoin customers
//!        └─ CorunJoin customers             =>            └─ Aggregate by customer key, d_year, makes states
//!            └─ sales                                         └─ CorunJoin dates
//!                                                                 └─ sales
//! ```
//!
//! Text is dear to group by and to carry. Where a chain of inner joins leads to the aggregate's arguments and one of them, with what is joined to
//! it, brings two or more columns of text to group by, the rows below are grouped by its keys, which are numbers, and joined afterwards. A join that
//! finds several partners for a key adds the states of its groups as often as it would have added the rows. Where grouping by keys does not
//! make the rows fewer, the lower aggregate notices it and passes on states of single rows.

use super::grouping_sets::{merged, over_groups};
use super::{by_first_columns, expand};
use crate::join::output_sources;
use crate::sides::estimate;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::sync::Arc;

/// Columns of text that make it worth while.
const MIN_TEXTS: usize = 2;
/// Fewer rows are grouped faster than anything is planned.
const MIN_ROWS: f64 = 50_000.0;

/// The same partial aggregate with its rows grouped before joins that only name the groups, if there are such.
pub(super) fn grouped_early(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    match Chain::of(aggregate) {
        Some(chain) => chain.grouped_early(aggregate),
        None => Ok(None),
    }
}

/// Where a column of the chain comes from: an input and the column there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source {
    input: Input,
    column: usize,
}

/// An input of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    /// What the rest of the chain is joined to; the arguments of the aggregates come from there.
    Base,
    /// The other side of a link.
    Link(usize),
}

/// By function: arguments and condition.
type Arguments = Vec<(Vec<PhysicalExprRef>, Option<PhysicalExprRef>)>;

fn columns_of(arguments: &Arguments) -> impl Iterator<Item = Column> {
    let expressions = arguments
        .iter()
        .flat_map(|(arguments, filter)| arguments.iter().chain(filter));
    expressions.flat_map(collect_columns)
}

/// One inner join of the chain.
struct Link {
    other: Arc<dyn ExecutionPlan>,
    other_side: JoinSide,
    /// The other side's keys, and where the keys on the chain's side come from.
    on: Vec<(PhysicalExprRef, Source)>,
    mode: PartitionMode,
}

/// The inner joins between an aggregate and the input that its arguments come from.
struct Chain {
    base: Arc<dyn ExecutionPlan>,
    /// From the aggregate down.
    links: Vec<Link>,
    /// Where the columns that the groups are made of come from, by their number in the aggregate's input.
    groups: Vec<(usize, Source)>,
    /// Over the base's columns.
    arguments: Arguments,
}

impl Chain {
    fn of(aggregate: &AggregateExec) -> Option<Chain> {
        let functions = aggregate.aggr_expr();
        let groups = aggregate.group_expr();
        if functions.is_empty() || !(groups.is_single() || expand::is_possible(groups)) {
            return None;
        }
        let mut columns: Vec<usize> = Vec::new();
        for (group, _) in groups.expr() {
            if is_volatile(group) {
                return None;
            }
            columns.extend(collect_columns(group).iter().map(Column::index));
        }
        columns.sort_unstable();
        columns.dedup();
        let arguments = functions.iter().zip(aggregate.filter_expr());
        let arguments = arguments.map(|(function, filter)| (function.expressions(), filter.clone()));
        let mut walk = Walk {
            node: Arc::clone(aggregate.input()),
            links: Vec::new(),
            needed: columns.iter().map(|column| Place::Here(*column)).collect(),
            keys: Vec::new(),
            arguments: arguments.collect(),
        };
        while walk.step() {}
        walk.end(columns)
    }

    /// Links that bring text to group by, and those that are joined to what these bring: they come after the grouping.
    fn late(&self) -> Vec<bool> {
        let mut late: Vec<bool> = (0..self.links.len())
            .map(|link| self.texts(Input::Link(link)) > 0)
            .collect();
        for link in (0..self.links.len()).rev() {
            let mut from = self.links[link].on.iter().map(|(_, source)| source.input);
            late[link] |= from.any(|input| matches!(input, Input::Link(below) if late[below]));
        }
        late
    }

    fn texts(&self, input: Input) -> usize {
        let of_input = self.groups.iter().filter(|(_, source)| source.input == input);
        let texts = of_input.filter(|(_, source)| is_text(&self.data_type(*source)));
        texts.count()
    }

    fn plan(&self, input: Input) -> &Arc<dyn ExecutionPlan> {
        match input {
            Input::Base => &self.base,
            Input::Link(link) => &self.links[link].other,
        }
    }

    fn data_type(&self, source: Source) -> DataType {
        let schema = self.plan(source.input).schema();
        schema.field(source.column).data_type().clone()
    }

    /// The same partial aggregate with the rows grouped before the late joins, if there are any worth it.
    fn grouped_early(&self, aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let late = self.late();
        let texts: usize = (0..late.len()).map(|link| self.texts(Input::Link(link))).sum();
        let is_early = |source: &Source| match source.input {
            Input::Base => true,
            Input::Link(link) => !late[link],
        };
        // Two that have nothing to do with each other would be grouped by pairs of their keys, hardly fewer than the rows.
        let roots = self
            .links
            .iter()
            .zip(&late)
            .filter(|(link, late)| **late && link.on.iter().all(|(_, source)| is_early(source)));
        let several = roots.count() > 1;
        let few = estimate(&self.base).is_some_and(|rows| rows.rows < MIN_ROWS);
        if texts < MIN_TEXTS || several || few {
            return Ok(None);
        }
        // What the groups below need: columns to group by, and keys of the late joins.
        let mut keys: Vec<Source> = Vec::new();
        let groups = self.groups.iter().map(|(_, source)| *source);
        let links = self.links.iter().zip(&late).filter(|(_, late)| **late);
        let of_links = links.flat_map(|(link, _)| link.on.iter().map(|(_, source)| *source));
        for source in groups.chain(of_links).filter(is_early) {
            if !keys.contains(&source) {
                keys.push(source);
            }
        }
        let numbers = keys.iter().all(|source| self.data_type(*source).is_primitive());
        if !numbers || keys.is_empty() {
            return Ok(None);
        }
        let mut rows = Rows::of_base(&self.base);
        let arguments: Vec<Source> = self.argument_columns();
        let mut links: Vec<usize> = (0..self.links.len()).rev().collect();
        links.sort_by_key(|link| late[*link]);
        let early = links.iter().filter(|link| !late[**link]).count();
        let still_needed = |from: usize| -> Vec<Source> {
            let later = links[from..].iter().flat_map(|link| self.links[*link].on.iter());
            let groups = self.groups.iter().map(|(_, source)| *source);
            groups.chain(later.map(|(_, source)| *source)).collect()
        };
        for (done, link) in links[..early].iter().enumerate() {
            let mut needed = still_needed(done + 1);
            needed.extend(&arguments);
            rows = rows.joined(&self.links[*link], *link, &needed)?;
        }
        let Some(mut rows) = self.grouped(rows, &keys, aggregate)? else {
            return Ok(None);
        };
        for (done, link) in links.iter().enumerate().skip(early) {
            rows = rows.joined(&self.links[*link], *link, &still_needed(done + 1))?;
        }
        let merged = self.merged(rows, aggregate)?;
        let same = merged.schema() == aggregate.schema();
        Ok(same.then_some(merged as _))
    }

    fn argument_columns(&self) -> Vec<Source> {
        let source = |column: Column| Source {
            input: Input::Base,
            column: column.index(),
        };
        columns_of(&self.arguments).map(source).collect()
    }

    /// The rows grouped by `keys`, as states of the aggregate's functions.
    fn grouped(&self, rows: Rows, keys: &[Source], aggregate: &AggregateExec) -> Result<Option<Rows>> {
        let schema = rows.plan.schema();
        let group = |source: &Source| {
            let column = rows.column(*source)?;
            let name = schema.field(column).name().clone();
            Ok((Arc::new(Column::new(&name, column)) as PhysicalExprRef, name))
        };
        let groups = PhysicalGroupBy::new_single(keys.iter().map(group).collect::<Result<_>>()?);
        let mut functions = Vec::with_capacity(self.arguments.len());
        let mut filters = Vec::with_capacity(self.arguments.len());
        for (function, (arguments, filter)) in aggregate.aggr_expr().iter().zip(&self.arguments) {
            let arguments = arguments
                .iter()
                .map(|argument| rows.over(argument))
                .collect::<Result<_>>()?;
            let builder = AggregateExprBuilder::new(Arc::new(function.fun().clone()), arguments)
                .schema(Arc::clone(&schema))
                .alias(function.name())
                .with_ignore_nulls(function.ignore_nulls());
            functions.push(Arc::new(builder.build()?));
            filters.push(filter.as_ref().map(|filter| rows.over(filter)).transpose()?);
        }
        let plan = AggregateExec::try_new(
            AggregateMode::Partial,
            groups,
            functions,
            filters,
            rows.plan,
            schema,
        )?;
        let plan = Arc::new(plan);
        // Keys whose types vary by nothing else than where they come from.
        let types = |schema: SchemaRef, from: usize| -> Vec<DataType> {
            let states = schema.fields().iter().skip(from);
            states.map(|field| field.data_type().clone()).collect()
        };
        let groups_above = aggregate.group_expr().num_group_exprs();
        if types(plan.schema(), keys.len()) != types(aggregate.schema(), groups_above) {
            return Ok(None);
        }
        let states = plan.schema().fields().len() - keys.len();
        let columns = keys
            .iter()
            .copied()
            .map(Some)
            .chain(std::iter::repeat_n(None, states));
        Ok(Some(Rows {
            columns: columns.collect(),
            plan,
        }))
    }

    /// The aggregate over the joined groups.
    fn merged(&self, rows: Rows, aggregate: &AggregateExec) -> Result<Arc<AggregateExec>> {
        let groups = aggregate.group_expr();
        let mut columns: Vec<ProjectionExpr> = Vec::new();
        for (group, name) in groups.expr() {
            columns.push(ProjectionExpr {
                expr: replaced(group, |column| {
                    let source = self.groups.iter().find(|(above, _)| *above == column.index());
                    let (_, source) =
                        source.ok_or_else(|| internal_datafusion_err!("a group without a source"))?;
                    rows.column(*source)
                })?,
                alias: name.clone(),
            });
        }
        let fields = rows.plan.schema();
        for (index, _) in rows
            .columns
            .iter()
            .enumerate()
            .filter(|(_, source)| source.is_none())
        {
            let name = fields.field(index).name();
            columns.push(ProjectionExpr {
                expr: Arc::new(Column::new(name, index)),
                alias: name.clone(),
            });
        }
        let input = Arc::new(ProjectionExec::try_new(columns, rows.plan)?);
        let names = groups.expr().iter().map(|(_, name)| name.as_str());
        let merged = merged(by_first_columns(names), input, aggregate)?;
        match groups.has_grouping_set() {
            true => over_groups(merged, aggregate),
            false => Ok(merged),
        }
    }
}

/// Where a column that is needed above is found: below the node the walk is at, or in a link's other side.
#[derive(Debug, Clone, Copy)]
enum Place {
    Here(usize),
    Other { link: usize, column: usize },
}

/// The way down from an aggregate, as far as it got.
struct Walk {
    node: Arc<dyn ExecutionPlan>,
    links: Vec<(Arc<dyn ExecutionPlan>, JoinSide, PartitionMode)>,
    /// The groups' columns, then the keys of links.
    needed: Vec<Place>,
    /// The other side's keys by link, and their partners in `needed`.
    keys: Vec<Vec<(PhysicalExprRef, usize)>>,
    arguments: Arguments,
}

impl Walk {
    fn step(&mut self) -> bool {
        let next = if let Some(projection) = self.node.downcast_ref::<ProjectionExec>() {
            self.below_projection(projection)
        } else if let Some(join) = self.node.downcast_ref::<HashJoinExec>() {
            self.below_join(join)
        } else {
            None
        };
        match next {
            Some(next) => *self = next,
            None => return false,
        }
        true
    }

    fn below_projection(&self, projection: &ProjectionExec) -> Option<Walk> {
        let source = |column: usize| Some(Arc::clone(&projection.expr().get(column)?.expr));
        let plain = |column: usize| Some(Place::Here(source(column)?.downcast_ref::<Column>()?.index()));
        Some(Walk {
            node: Arc::clone(projection.input()),
            links: self.links.clone(),
            needed: self.moved(plain)?,
            keys: self.keys.clone(),
            arguments: self.arguments_over(source)?,
        })
    }

    fn below_join(&self, join: &HashJoinExec) -> Option<Walk> {
        let plain = *join.join_type() == JoinType::Inner
            && join.filter().is_none()
            && join.null_equality() == NullEquality::NullEqualsNothing
            && *join.partition_mode() != PartitionMode::Auto
            && join.fetch().is_none();
        if !plain {
            return None;
        }
        let sources = output_sources(join);
        let mut sides = columns_of(&self.arguments).map(|column| {
            let source = sources.get(column.index());
            source.map(|source| source.side)
        });
        // Where there are rows to count only, those of the side that is read second.
        let side = sides.next().unwrap_or(Some(JoinSide::Right))?;
        if !sides.all(|other| other == Some(side)) {
            return None;
        }
        let link = self.links.len();
        let (node, other, other_side) = match side {
            JoinSide::Left => (join.left(), join.right(), JoinSide::Right),
            _ => (join.right(), join.left(), JoinSide::Left),
        };
        let mut needed = self.moved(|column| {
            let source = sources.get(column)?;
            let column = source.index;
            Some(match source.side == side {
                true => Place::Here(column),
                false => Place::Other { link, column },
            })
        })?;
        let mut keys = Vec::with_capacity(join.on().len());
        for (left, right) in join.on() {
            let (own, others) = match side {
                JoinSide::Left => (left, right),
                _ => (right, left),
            };
            keys.push((Arc::clone(others), needed.len()));
            needed.push(Place::Here(own.downcast_ref::<Column>()?.index()));
        }
        let over = |column: usize| {
            let source = sources.get(column)?;
            let name = node.schema().field(source.index).name().clone();
            Some(Arc::new(Column::new(&name, source.index)) as PhysicalExprRef)
        };
        let mut links = self.links.clone();
        links.push((Arc::clone(other), other_side, *join.partition_mode()));
        let all_keys = self.keys.iter().cloned().chain([keys]);
        Some(Walk {
            node: Arc::clone(node),
            links,
            needed,
            keys: all_keys.collect(),
            arguments: self.arguments_over(over)?,
        })
    }

    fn moved(&self, to: impl Fn(usize) -> Option<Place>) -> Option<Vec<Place>> {
        let moved = self.needed.iter().map(|place| match *place {
            Place::Here(column) => to(column),
            known => Some(known),
        });
        moved.collect()
    }

    fn arguments_over(&self, source: impl Fn(usize) -> Option<PhysicalExprRef>) -> Option<Arguments> {
        let over = |expression: &PhysicalExprRef| {
            let replaced = replaced_by(expression, |column| {
                source(column.index()).ok_or_else(|| internal_datafusion_err!("a column without a source"))
            });
            replaced.ok().filter(|expression| !is_volatile(expression))
        };
        let moved = self.arguments.iter().map(|(arguments, filter)| {
            let arguments = arguments.iter().map(over).collect::<Option<_>>()?;
            Some(match filter {
                Some(filter) => (arguments, Some(over(filter)?)),
                None => (arguments, None),
            })
        });
        moved.collect()
    }

    fn end(self, columns: Vec<usize>) -> Option<Chain> {
        if self.links.is_empty() {
            return None;
        }
        let source = |place: Place| match place {
            Place::Here(column) => Source {
                input: Input::Base,
                column,
            },
            Place::Other { link, column } => Source {
                input: Input::Link(link),
                column,
            },
        };
        let links = self
            .links
            .into_iter()
            .zip(self.keys)
            .map(|((other, other_side, mode), keys)| Link {
                other,
                other_side,
                on: keys
                    .into_iter()
                    .map(|(others, needed)| (others, source(self.needed[needed])))
                    .collect(),
                mode,
            });
        let sources = self.needed.iter().map(|place| source(*place));
        Some(Chain {
            base: self.node,
            links: links.collect(),
            groups: columns.into_iter().zip(sources).collect(),
            arguments: self.arguments,
        })
    }
}

/// A plan in the making, and where its columns come from; states of aggregates come from nowhere.
struct Rows {
    plan: Arc<dyn ExecutionPlan>,
    columns: Vec<Option<Source>>,
}

impl Rows {
    fn of_base(base: &Arc<dyn ExecutionPlan>) -> Rows {
        let columns = (0..base.schema().fields().len()).map(|column| {
            Some(Source {
                input: Input::Base,
                column,
            })
        });
        Rows {
            plan: Arc::clone(base),
            columns: columns.collect(),
        }
    }

    fn column(&self, source: Source) -> Result<usize> {
        let at = self.columns.iter().position(|column| *column == Some(source));
        at.ok_or_else(|| internal_datafusion_err!("a column of a join is missing above it"))
    }

    /// An expression over the base's columns, over the columns here.
    fn over(&self, expression: &PhysicalExprRef) -> Result<PhysicalExprRef> {
        replaced(expression, |column| {
            self.column(Source {
                input: Input::Base,
                column: column.index(),
            })
        })
    }

    /// The rows joined, with the columns that are needed above; states always are.
    fn joined(self, link: &Link, number: usize, needed: &[Source]) -> Result<Rows> {
        let schema = self.plan.schema();
        let mut on = Vec::with_capacity(link.on.len());
        for (others, source) in &link.on {
            let column = self.column(*source)?;
            let own: PhysicalExprRef = Arc::new(Column::new(schema.field(column).name(), column));
            on.push(match link.other_side {
                JoinSide::Left => (Arc::clone(others), own),
                _ => (own, Arc::clone(others)),
            });
        }
        let others = (0..link.other.schema().fields().len()).map(|column| {
            Some(Source {
                input: Input::Link(number),
                column,
            })
        });
        let (left, right, columns): (_, _, Vec<Option<Source>>) = match link.other_side {
            JoinSide::Left => (
                Arc::clone(&link.other),
                self.plan,
                others.chain(self.columns).collect(),
            ),
            _ => (
                self.plan,
                Arc::clone(&link.other),
                self.columns.into_iter().chain(others).collect(),
            ),
        };
        let kept = columns.iter().enumerate().filter(|(_, column)| match column {
            Some(source) => needed.contains(source),
            None => true,
        });
        let (projection, columns): (Vec<usize>, Vec<Option<Source>>) =
            kept.map(|(index, column)| (index, *column)).unzip();
        let join = HashJoinExec::try_new(
            left,
            right,
            on,
            None,
            &JoinType::Inner,
            Some(projection),
            link.mode,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        Ok(Rows {
            plan: Arc::new(join),
            columns,
        })
    }
}

/// The expression with other numbers of columns.
fn replaced(expression: &PhysicalExprRef, to: impl Fn(&Column) -> Result<usize>) -> Result<PhysicalExprRef> {
    replaced_by(expression, |column| {
        Ok(Arc::new(Column::new(column.name(), to(column)?)))
    })
}

fn replaced_by(
    expression: &PhysicalExprRef,
    to: impl Fn(&Column) -> Result<PhysicalExprRef>,
) -> Result<PhysicalExprRef> {
    Arc::clone(expression)
        .transform_up(
            |part: Arc<dyn PhysicalExpr>| match part.downcast_ref::<Column>() {
                Some(column) => Ok(Transformed::yes(to(column)?)),
                None => Ok(Transformed::no(part)),
            },
        )
        .data()
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
    )
}
