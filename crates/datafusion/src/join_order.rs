//! The rule that joins in another order where far fewer rows lie between the joins then.
//!
//! A *region* is a tree of inner joins, with nothing but projections of columns between them; what is below are its relations. Their
//! rows are estimated as for sides ([`crate::sides`]), the different values of join columns by Parquet's least and largest value.
//! [`corun_model::operators::join_order`] decides; where anything is not known, the order stays. It runs before sides are chosen.

use crate::options::{CorunOptions, JoinChoice};
use crate::sides::{self, estimate};
use corun_model::operators::join_order::{JoinColumn, JoinGraph, JoinTree};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{ColumnStatistics, JoinSide, JoinType, NullEquality, internal_datafusion_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct JoinOrder {}

impl PhysicalOptimizerRule for JoinOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = CorunOptions::of(config);
        if options.join == JoinChoice::Off || !options.join_order || !config.optimizer.join_reordering {
            return Ok(plan);
        }
        ordered(&plan, config)
    }

    fn name(&self) -> &str {
        "corun_join_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A region, and why its joins run in this order.
pub(crate) struct Noted {
    /// What is joined.
    pub relations: Vec<Arc<dyn ExecutionPlan>>,
    /// In which order.
    pub tree: JoinTree,
    /// In words.
    pub why: String,
}

tokio::task_local! {
    static NOTED: RefCell<Vec<Noted>>;
}

/// Plans something, and gives the orders that were looked for while it was.
pub(crate) async fn noting<F: Future>(planning: F) -> (F::Output, Vec<Noted>) {
    let noting = async {
        let output = planning.await;
        (output, NOTED.with(RefCell::take))
    };
    NOTED.scope(RefCell::default(), noting).await
}

/// Notes it if someone wants to know.
fn note(noted: impl FnOnce() -> Noted) {
    let _nobody_asks = NOTED.try_with(|all| all.borrow_mut().push(noted()));
}

/// The plan with each region in its best order.
fn ordered(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let mut regions = Vec::new();
    let plan = Arc::clone(plan).transform_down(|node| {
        let Some(region) = Region::of(&node) else {
            return Ok(Transformed::no(node));
        };
        let node = region.in_best_order(node, config)?;
        // The joins of a region are not regions of their own; its relations may have some.
        regions.extend(region.relations);
        Ok(Transformed::new(node, true, TreeNodeRecursion::Jump))
    });
    let mut plan = plan.data()?;
    for relation in regions {
        let inside = ordered(&relation, config)?;
        if !Arc::ptr_eq(&inside, &relation) {
            plan = replaced(plan, &relation, &inside)?;
        }
    }
    Ok(plan)
}

/// The plan with `new` in place of `old`.
fn replaced(
    plan: Arc<dyn ExecutionPlan>,
    old: &Arc<dyn ExecutionPlan>,
    new: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let swap = |node: Arc<dyn ExecutionPlan>| {
        Ok(match Arc::ptr_eq(&node, old) {
            true => Transformed::new(Arc::clone(new), true, TreeNodeRecursion::Jump),
            false => Transformed::no(node),
        })
    };
    plan.transform_down(swap).data()
}

/// A column of a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Source {
    relation: usize,
    column: usize,
}

/// A tree of inner joins.
struct Region {
    relations: Vec<Arc<dyn ExecutionPlan>>,
    given: JoinTree,
    /// What its rows are made of.
    output: Vec<Source>,
    /// Columns that are equal, each to all of its class.
    classes: Vec<Vec<Source>>,
    /// Other conditions, and where their columns are.
    filters: Vec<(JoinFilter, Vec<Source>)>,
}

/// The join, if its keys are columns and it may change its place.
fn movable(plan: &Arc<dyn ExecutionPlan>) -> Option<&HashJoinExec> {
    let join = plan.downcast_ref::<HashJoinExec>()?;
    let is_column = |key: &PhysicalExprRef| key.is::<Column>();
    let plain = *join.join_type() == JoinType::Inner
        && join.null_equality() == NullEquality::NullEqualsNothing
        && *join.partition_mode() != PartitionMode::Auto
        && plan.fetch().is_none();
    let keys = join
        .on()
        .iter()
        .all(|(left, right)| is_column(left) && is_column(right));
    (plain && keys).then_some(join)
}

fn index_of(key: &PhysicalExprRef) -> Option<usize> {
    key.downcast_ref::<Column>().map(Column::index)
}

impl Region {
    /// The region with `plan` as its last join.
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Region> {
        movable(plan)?;
        let mut region = Region {
            relations: Vec::new(),
            given: JoinTree::Relation(0),
            output: Vec::new(),
            classes: Vec::new(),
            filters: Vec::new(),
        };
        (region.given, region.output) = region.read(plan);
        Some(region)
    }

    fn read(&mut self, plan: &Arc<dyn ExecutionPlan>) -> (JoinTree, Vec<Source>) {
        if let Some(join) = movable(plan) {
            let (left, mut columns) = self.read(join.left());
            let (right, of_right) = self.read(join.right());
            for (left, right) in join.on() {
                if let (Some(left), Some(right)) = (index_of(left), index_of(right)) {
                    self.equate(columns[left], of_right[right]);
                }
            }
            if let Some(filter) = join.filter() {
                let sources = filter.column_indices().iter().map(|column| match column.side {
                    JoinSide::Left => columns[column.index],
                    JoinSide::Right | JoinSide::None => of_right[column.index],
                });
                self.filters.push((filter.clone(), sources.collect()));
            }
            columns.extend(of_right);
            if let Some(projection) = &join.projection {
                columns = projection.iter().map(|index| columns[*index]).collect();
            }
            return (JoinTree::join(left, right), columns);
        }
        if let Some((input, columns)) = columns_of_a_join(plan) {
            let (tree, sources) = self.read(input);
            return (tree, columns.iter().map(|index| sources[*index]).collect());
        }
        let relation = self.relations.len();
        self.relations.push(Arc::clone(plan));
        (JoinTree::Relation(relation), columns_of(relation, plan))
    }

    /// Puts two columns, and all they are equal to, into one class.
    fn equate(&mut self, left: Source, right: Source) {
        let mut class = vec![left, right];
        self.classes.retain(|other| {
            let meets = other.contains(&left) || other.contains(&right);
            if meets {
                class.extend(other);
            }
            !meets
        });
        class.sort_unstable();
        class.dedup();
        self.classes.push(class);
    }

    /// Its joins, `given`, in the order that leaves the fewest rows between them.
    fn in_best_order(
        &self,
        given: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.relations.len() < 3 {
            return Ok(given);
        }
        let (tree, why, ordered) = match self.graph().map(|graph| (graph.better_order(&self.given), graph)) {
            None => (
                &self.given,
                "as written: too little is known of its columns".to_owned(),
                None,
            ),
            Some((Err(why), _)) => (&self.given, format!("as written: {why}"), None),
            Some((Ok(better), graph)) => match self.in_order(&better.tree, graph, &given, config)? {
                Some(ordered) => (&better.tree.clone(), better.to_string(), Some(ordered)),
                None => (
                    &self.given,
                    format!("as written: other conditions stand in the way of {better}"),
                    None,
                ),
            },
        };
        note(|| Noted {
            relations: self.relations.clone(),
            tree: tree.clone(),
            why,
        });
        Ok(ordered.unwrap_or(given))
    }

    /// What the order depends on; `None` where something of it is not known.
    fn graph(&self) -> Option<JoinGraph> {
        let rows = self
            .relations
            .iter()
            .map(|relation| Some(estimate(relation)?.rows));
        let rows: Vec<f64> = rows.collect::<Option<_>>()?;
        let statistics = self.relations.iter().map(|relation| {
            let statistics = StatisticsContext::new().compute(relation.as_ref(), &StatisticsArgs::new());
            statistics.ok()
        });
        let statistics: Vec<_> = statistics.collect::<Option<_>>()?;
        let column = |source: &Source| {
            let column = statistics[source.relation].column_statistics.get(source.column)?;
            Some(JoinColumn {
                relation: source.relation,
                distinct: values(column)?.min(rows[source.relation]),
            })
        };
        let classes = self.classes.iter().map(|class| {
            let once = class.windows(2).all(|two| two[0].relation != two[1].relation);
            once.then(|| class.iter().map(column).collect::<Option<Vec<_>>>())?
        });
        let classes = classes.collect::<Option<_>>()?;
        Some(JoinGraph { rows, classes })
    }

    /// The region's joins in this order, as `given` gives its columns. `None` where two conditions meet in one join, or nothing but the number
    /// of rows is asked for.
    fn in_order(
        &self,
        tree: &JoinTree,
        graph: JoinGraph,
        given: &Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let needed: BTreeSet<Source> = self.output.iter().copied().collect();
        let builder = Builder {
            region: self,
            graph,
            config,
        };
        let Some(Joined { plan, columns }) = builder.build(tree, &needed, 0)? else {
            return Ok(None);
        };
        let names = given.schema();
        let output = self.output.iter().zip(names.fields()).map(|(source, field)| {
            Ok(ProjectionExpr {
                expr: column(&plan, &columns, *source)?,
                alias: field.name().clone(),
            })
        });
        let output = output.collect::<Result<Vec<_>>>()?;
        Ok(Some(Arc::new(ProjectionExec::try_new(output, plan)?)))
    }
}

/// All columns of a relation.
fn columns_of(relation: usize, plan: &Arc<dyn ExecutionPlan>) -> Vec<Source> {
    let columns = 0..plan.schema().fields().len();
    columns.map(|column| Source { relation, column }).collect()
}

/// The join below a projection to some of its columns, and which these are.
fn columns_of_a_join(plan: &Arc<dyn ExecutionPlan>) -> Option<(&Arc<dyn ExecutionPlan>, Vec<usize>)> {
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    let columns = projection.expr().iter().map(|output| index_of(&output.expr));
    let columns: Vec<usize> = columns.collect::<Option<_>>()?;
    let input = projection.input();
    (movable(input).is_some() || columns_of_a_join(input).is_some()).then_some((input, columns))
}

/// At most so many different values are in a column of whole numbers.
fn values(column: &ColumnStatistics) -> Option<f64> {
    let range = sides::range(column)?;
    let counted = column.distinct_count.get_value().map(|count| *count as f64);
    Some(counted.map_or(range, |count| count.min(range)))
}

/// Joins in an order.
struct Builder<'r> {
    region: &'r Region,
    graph: JoinGraph,
    config: &'r ConfigOptions,
}

/// A plan, and what its columns are.
struct Joined {
    plan: Arc<dyn ExecutionPlan>,
    columns: Vec<Source>,
}

/// The column of `plan` that is this one.
fn column(plan: &Arc<dyn ExecutionPlan>, columns: &[Source], source: Source) -> Result<PhysicalExprRef> {
    let index = place(columns, source)?;
    Ok(Arc::new(Column::new(plan.schema().field(index).name(), index)))
}

fn place(columns: &[Source], source: Source) -> Result<usize> {
    let place = columns.iter().position(|column| *column == source);
    place.ok_or_else(|| internal_datafusion_err!("a join in another order lost a column"))
}

impl Builder<'_> {
    /// A tree's joins, with the columns that are needed above them; the relations `later` are read when its rows are in a table.
    fn build(&self, tree: &JoinTree, needed: &BTreeSet<Source>, later: u32) -> Result<Option<Joined>> {
        let (one, other) = match tree {
            JoinTree::Relation(relation) => {
                let plan = Arc::clone(&self.region.relations[*relation]);
                let columns = columns_of(*relation, &plan);
                return Ok(Some(Joined { plan, columns }));
            }
            JoinTree::Join(one, other) => (one, other),
        };
        // The table is built of the smaller side. The other side's keys keep none of its rows away: they come later.
        let rows = |tree: &JoinTree, probe: &JoinTree| {
            let later = later | probe.relations();
            self.graph.rows_before(tree.relations(), later)
        };
        let (build, probe) = if rows(one, other) <= rows(other, one) {
            (one, other)
        } else {
            (other, one)
        };
        let is_in = |set: u32, source: &Source| set >> source.relation & 1 == 1;
        let (in_build, in_probe) = (build.relations(), probe.relations());
        let keys = self.region.classes.iter().filter_map(|class| {
            let of = |set: u32| class.iter().copied().find(|source| is_in(set, source));
            of(in_build).zip(of(in_probe))
        });
        let keys: Vec<(Source, Source)> = keys.collect();
        let is_applied_here = |(_, sources): &&(JoinFilter, Vec<Source>)| {
            let all_in = |set: u32| sources.iter().all(|source| is_in(set, source));
            all_in(in_build | in_probe) && !all_in(in_build) && !all_in(in_probe)
        };
        let mut filters = self.region.filters.iter().filter(is_applied_here);
        let filter = filters.next();
        if filters.next().is_some() || needed.is_empty() {
            return Ok(None);
        }
        let mut wanted = needed.clone();
        wanted.extend(keys.iter().flat_map(|(left, right)| [*left, *right]));
        wanted.extend(filter.iter().flat_map(|(_, sources)| sources));
        let of = |set: u32| {
            wanted
                .iter()
                .copied()
                .filter(|source| is_in(set, source))
                .collect()
        };
        let (Some(build_side), Some(probe_side)) = (
            self.build(build, &of(in_build), later | in_probe)?,
            self.build(probe, &of(in_probe), later)?,
        ) else {
            return Ok(None);
        };
        self.join(build_side, rows(build, probe), probe_side, &keys, filter, needed)
            .map(Some)
    }

    fn join(
        &self,
        build: Joined,
        build_rows: f64,
        probe: Joined,
        keys: &[(Source, Source)],
        filter: Option<&(JoinFilter, Vec<Source>)>,
        needed: &BTreeSet<Source>,
    ) -> Result<Joined> {
        let on = keys.iter().map(|(left, right)| {
            let left = column(&build.plan, &build.columns, *left)?;
            Ok((left, column(&probe.plan, &probe.columns, *right)?))
        });
        let on = on.collect::<Result<Vec<_>>>()?;
        let filter: Option<Result<JoinFilter>> = filter.map(|(filter, sources)| {
            let indices = sources.iter().map(|source| {
                let (side, columns) = match build.columns.contains(source) {
                    true => (JoinSide::Left, &build.columns),
                    false => (JoinSide::Right, &probe.columns),
                };
                Ok(ColumnIndex {
                    index: place(columns, *source)?,
                    side,
                })
            });
            let indices = indices.collect::<Result<Vec<_>>>()?;
            Ok(JoinFilter::new(
                Arc::clone(filter.expression()),
                indices,
                Arc::clone(filter.schema()),
            ))
        });
        let filter = filter.transpose()?;
        let all: Vec<Source> = build.columns.iter().chain(&probe.columns).copied().collect();
        let kept: Vec<usize> = (0..all.len())
            .filter(|index| needed.contains(&all[*index]))
            .collect();
        let columns = kept.iter().map(|index| all[*index]).collect();
        let join = HashJoinExec::try_new(
            build.plan,
            probe.plan,
            on,
            filter,
            &JoinType::Inner,
            Some(kept),
            sides::mode(build_rows, self.config),
            NullEquality::NullEqualsNothing,
            false,
        )?;
        let plan: Arc<dyn ExecutionPlan> = Arc::new(join);
        Ok(Joined { plan, columns })
    }
}
