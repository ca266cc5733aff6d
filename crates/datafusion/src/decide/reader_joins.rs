//! What [`Reader`] makes of joins: a table or an index beside the pipeline of the streaming side.

use super::reader::{Operator, Reader, Walked, both, rows, weaker};
use super::relation::{Column, Relation, columns_of};
use super::shape::Table;
use super::size::Sizing;
use crate::decide::decision::{Source, TableEstimate};
use crate::index::IndexJoinExec;
use crate::steering::JoinName;
use corun_model::cache::pipeline::PlanShape;
use corun_model::cache::plan_cost::{self, PAIR_NS};
use corun_model::operators::cardinality::Cardinality;
use corun_model::operators::index_join::{Inputs, index_ns};
use corun_model::units::{Bytes, Rows};
use datafusion::common::{JoinSide, JoinType};
use datafusion::config::ConfigOptions;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec};
use std::sync::Arc;

impl Reader<'_> {
    /// A join that builds a table of its left side. `form` says what else its size depends on.
    pub fn hash_join(
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
    pub fn nested_loop(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Walked {
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
    pub fn table(
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

    /// A join that looks its outer rows up.
    pub fn index_join(&mut self, plan: &Arc<dyn ExecutionPlan>, join: &IndexJoinExec) -> Walked {
        let outer = self.walk(join.outer());
        // The indexed side is not run: its numbers count, its cost does not.
        let side = match join.inner() {
            JoinSide::Left => join.stock().left(),
            _ => join.stock().right(),
        };
        let mut aside = Reader::new(self.know);
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
