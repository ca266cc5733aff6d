//! From a physical plan to its pipelines, and the locality of each (paper 002, section 4.3, and beyond).
//!
//! A blocking operator takes all its input before it gives any output; between two of them rows stream. Such a stretch is a
//! *pipeline*, the unit that has one locality:
//!
//! ```text
//!            aggregate                pipelines in the order they run, and what each keeps touching
//!                │                    1  scan S ─▶ build of ⋈3
//!               ⋈2 ──────┐            2  scan C ─▶ ⋈3 ─▶ build of ⋈2
//!                │       ⋈3 ─ scan S  3  scan P ─▶ build of ⋈1
//!      scan P ─ ⋈1       │            4  scan F ─▶ ⋈1 ─▶ ⋈2 ─▶ aggregate        the main one: most rows
//!                │     scan C         5  the groups, to whoever asked
//!              scan F
//! ```
//!
//! In each pipeline only the first two operators with memory of their own count: a join hands on fewer rows than it gets, so
//! those above are reached seldom (in the paper's queries by 0.96 to 3.8 % of the fact rows, section 7.4). Their tables
//! add up to `S`. For the left-deep trees of the paper this is its rule word for word; bushy trees and several segments,
//! its future work, are the same rule once per pipeline.
//!
//! Call order: the host translates its plan to a [`PlanShape`], [`pipelines`] takes it apart, a
//! [`Classifier`](crate::cache::locality::Classifier) names the [`Pipeline::footprint`] of each.
//!
//! Not here: estimating table sizes, which needs the host's statistics.

use serde::Serialize;

use crate::cache::locality::Footprint;
use crate::units::{Bytes, Rows};

/// Operators of a pipeline that count (paper 002, section 4.3).
const OPERATORS_COUNTED: usize = 2;

/// A physical plan, reduced to what the cache notices.
///
/// Operators that pass rows on without memory of their own (filter, projection, limit, an aggregate without groups) are left
/// out. A nested-loop join over a materialised inner side is a [`PlanShape::HashJoin`] with that side as its table. The
/// functions here recurse as deep as the plan is nested, as hosts do when they plan it.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanShape {
    /// Reads a table or an index range once.
    Scan {
        /// Rows it delivers, estimated.
        rows: Rows,
    },
    /// Builds a hash table from one input, then streams the other past it.
    HashJoin {
        /// Size of the hash table, buckets and rows.
        table: Bytes,
        /// The side the table is built from.
        build: Box<PlanShape>,
        /// The side that streams.
        probe: Box<PlanShape>,
    },
    /// Looks up each row in an index (index nested-loop join).
    IndexJoin {
        /// The side that streams.
        outer: Box<PlanShape>,
    },
    /// Groups by hashing; blocking.
    HashAggregate {
        /// Size of the table of groups.
        table: Bytes,
        /// Groups it delivers, estimated.
        groups: Rows,
        /// What is grouped.
        input: Box<PlanShape>,
    },
    /// Sorts, or takes in everything for another reason; blocking. Its own accesses are runs and merges: streams.
    Sort {
        /// Rows it delivers, estimated.
        rows: Rows,
        /// What is sorted.
        input: Box<PlanShape>,
    },
    /// Lets several inputs stream together: union, merge join. The input with most rows goes on as a pipeline; the others end
    /// here.
    Merge {
        /// What streams in; empty delivers nothing.
        inputs: Vec<PlanShape>,
    },
}

/// Where the rows of a pipeline end up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PipelineEnd {
    /// In the hash table of a join.
    Build,
    /// In groups.
    Aggregate,
    /// In a sort.
    Sort,
    /// In another pipeline that streams at the same time.
    Merge,
    /// With whoever asked.
    Result,
}

/// One pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pipeline {
    /// Tables of its first two operators that count.
    pub footprint: Footprint,
    /// Rows that enter it at its source.
    pub rows: Rows,
    /// Where its rows end up.
    pub end: PipelineEnd,
}

/// The pipelines of a plan in the order they run; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pipelines(Vec<Pipeline>);

impl Pipelines {
    /// All, in the order they run.
    pub fn all(&self) -> &[Pipeline] {
        &self.0
    }

    /// The one that stands for the whole plan: the one most rows enter, the later of equals. In a star query that is the
    /// fact table's, so the plan gets the class the paper gives it (section 4.3).
    pub fn main(&self) -> Pipeline {
        let most = self.0.iter().max_by_key(|pipeline| pipeline.rows);
        *most.expect("a plan has at least one pipeline")
    }
}

/// Takes a plan apart.
pub fn pipelines(plan: &PlanShape) -> Pipelines {
    let mut done = Vec::new();
    let open = walk(plan, &mut done);
    done.push(open.close(PipelineEnd::Result));
    Pipelines(done)
}

/// A pipeline that still grows upward.
struct Open {
    rows: Rows,
    footprint: Footprint,
    counted: usize,
}

impl Open {
    fn from_rows(rows: Rows) -> Self {
        Self {
            rows,
            footprint: Footprint::Streams,
            counted: 0,
        }
    }

    /// Adds the next operator that has memory of its own.
    fn through(mut self, operator: Footprint) -> Self {
        if self.counted < OPERATORS_COUNTED {
            self.counted += 1;
            self.footprint = self.footprint.and(operator);
        }
        self
    }

    fn close(self, end: PipelineEnd) -> Pipeline {
        Pipeline {
            footprint: self.footprint,
            rows: self.rows,
            end,
        }
    }
}

/// Returns the pipeline that leaves `plan`; those that end within it are pushed to `done` as they would run.
fn walk(plan: &PlanShape, done: &mut Vec<Pipeline>) -> Open {
    match plan {
        PlanShape::Scan { rows } => Open::from_rows(*rows),
        PlanShape::HashJoin { table, build, probe } => {
            // Filling a table touches it as randomly as probing it does.
            let filling = walk(build, done).through(Footprint::Tables(*table));
            done.push(filling.close(PipelineEnd::Build));
            walk(probe, done).through(Footprint::Tables(*table))
        }
        PlanShape::IndexJoin { outer } => walk(outer, done).through(Footprint::Streams),
        PlanShape::HashAggregate { table, groups, input } => {
            let grouping = walk(input, done).through(Footprint::Tables(*table));
            done.push(grouping.close(PipelineEnd::Aggregate));
            Open::from_rows(*groups)
        }
        PlanShape::Sort { rows, input } => {
            let sorting = walk(input, done);
            done.push(sorting.close(PipelineEnd::Sort));
            Open::from_rows(*rows)
        }
        PlanShape::Merge { inputs } => {
            let mut largest = Open::from_rows(Rows(0));
            for (i, input) in inputs.iter().enumerate() {
                let next = walk(input, done);
                if i == 0 {
                    largest = next;
                } else {
                    let smaller = if next.rows > largest.rows {
                        std::mem::replace(&mut largest, next)
                    } else {
                        next
                    };
                    done.push(smaller.close(PipelineEnd::Merge));
                }
            }
            largest
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cache::locality::{Classifier, Locality, Thresholds};

    fn scan(rows: u64) -> PlanShape {
        PlanShape::Scan { rows: Rows(rows) }
    }

    fn hash_join(table: Bytes, build: PlanShape, probe: PlanShape) -> PlanShape {
        PlanShape::HashJoin {
            table,
            build: Box::new(build),
            probe: Box::new(probe),
        }
    }

    fn index_join(outer: PlanShape) -> PlanShape {
        PlanShape::IndexJoin {
            outer: Box::new(outer),
        }
    }

    fn group(table: Bytes, groups: u64, input: PlanShape) -> PlanShape {
        PlanShape::HashAggregate {
            table,
            groups: Rows(groups),
            input: Box::new(input),
        }
    }

    fn hundredths_of_mib(n: u64) -> Bytes {
        Bytes((n << 20) / 100)
    }

    fn tables(bytes: Bytes) -> Footprint {
        Footprint::Tables(bytes)
    }

    /// A star query: the fact table past one hash table per dimension, then about 100 KB of groups.
    fn star(dimensions: &[Bytes]) -> PlanShape {
        let joined = dimensions
            .iter()
            .fold(scan(48_000_000), |fact, &d| hash_join(d, scan(100_000), fact));
        group(Bytes(100_000), 1000, joined)
    }

    #[test]
    fn the_classes_of_section_7_4_come_out() {
        let classifier = Classifier::new(Bytes::mib(4), Thresholds::default()).expect("4 MiB");
        let indexed = |joins: usize| (0..joins).fold(scan(48_000_000), |outer, _| index_join(outer));
        // The paper gives the first two tables' sum and, for Q4.2, 11.6 MB for all of its four tables.
        let hashed = |sizes: &[u64]| star(&sizes.iter().map(|&n| hundredths_of_mib(n)).collect::<Vec<_>>());
        let cases = [
            ("Q1.1", indexed(1), Locality::Weak),
            ("Q2.1", indexed(3), Locality::Weak),
            ("Q3.2", indexed(3), Locality::Weak),
            ("Q4.3", indexed(4), Locality::Weak),
            ("Q3.1", hashed(&[100, 150, 20]), Locality::Moderate),
            ("Q4.1", hashed(&[52, 150, 300, 20]), Locality::Moderate),
            ("Q4.2", hashed(&[40, 60, 1000, 60]), Locality::Strong),
        ];
        for (query, plan, class) in cases {
            assert_eq!(
                classifier.locality(pipelines(&plan).main().footprint),
                class,
                "{query}"
            );
        }
        // All tables of Q4.2 would have made it moderate.
        assert_eq!(
            classifier.locality(tables(hundredths_of_mib(1160))),
            Locality::Moderate
        );
        assert_eq!(
            pipelines(&hashed(&[100, 150, 20])).main().footprint,
            tables(hundredths_of_mib(250))
        );
    }

    #[test]
    fn the_drawn_bushy_plan_falls_into_five_pipelines() {
        let right = hash_join(Bytes(30), scan(4), scan(50));
        let left = hash_join(Bytes(10), scan(3), scan(1000));
        let plan = group(Bytes(7), 2, hash_join(Bytes(20), right, left));
        let expected = [
            // Build sides run before what they are built for; the outer table's first.
            (tables(Bytes(30)), 4, PipelineEnd::Build),
            (tables(Bytes(30 + 20)), 50, PipelineEnd::Build),
            (tables(Bytes(10)), 3, PipelineEnd::Build),
            (tables(Bytes(10 + 20)), 1000, PipelineEnd::Aggregate),
            (Footprint::Streams, 2, PipelineEnd::Result),
        ]
        .map(|(footprint, rows, end)| Pipeline {
            footprint,
            rows: Rows(rows),
            end,
        });
        assert_eq!(pipelines(&plan).all(), expected);
        assert_eq!(pipelines(&plan).main(), expected[3]);
        // Of equals the later: the probe side, which runs longer.
        let equal = hash_join(Bytes(1), index_join(scan(5)), scan(5));
        assert_eq!(pipelines(&equal).main().end, PipelineEnd::Result);
    }

    #[test]
    fn single_operators_have_their_own_footprint() {
        let main = |plan| pipelines(&plan).main().footprint;
        assert_eq!(main(scan(5)), Footprint::Streams);
        assert_eq!(main(index_join(scan(5))), Footprint::Streams);
        assert_eq!(main(hash_join(Bytes(8), scan(1), scan(5))), tables(Bytes(8)));
        assert_eq!(main(group(Bytes(9), 1, scan(5))), tables(Bytes(9)));
        // An index join and a hash join: the table counts; a third operator does not.
        let mixed = hash_join(
            Bytes(99),
            scan(1),
            index_join(hash_join(Bytes(8), scan(1), scan(5))),
        );
        assert_eq!(main(mixed), tables(Bytes(8)));
    }

    #[test]
    fn sorts_separate_and_merges_keep_the_larger_input() {
        let sorted = PlanShape::Sort {
            rows: Rows(40),
            input: Box::new(hash_join(Bytes(8), scan(1), scan(50))),
        };
        let plan = hash_join(
            Bytes(4),
            scan(2),
            PlanShape::Merge {
                inputs: vec![scan(7), sorted, scan(9)],
            },
        );
        let ends: Vec<_> = pipelines(&plan)
            .all()
            .iter()
            .map(|p| (p.end, p.rows.0, p.footprint))
            .collect();
        assert_eq!(
            ends,
            [
                (PipelineEnd::Build, 2, tables(Bytes(4))),
                (PipelineEnd::Build, 1, tables(Bytes(8))),
                (PipelineEnd::Sort, 50, tables(Bytes(8))),
                (PipelineEnd::Merge, 7, Footprint::Streams),
                (PipelineEnd::Merge, 9, Footprint::Streams),
                (PipelineEnd::Result, 40, tables(Bytes(4))),
            ]
        );
        let nothing = PlanShape::Merge { inputs: Vec::new() };
        assert_eq!(pipelines(&nothing).all().len(), 1);
    }

    fn any_plan() -> impl Strategy<Value = PlanShape> {
        let leaf = (0u64..1000).prop_map(scan);
        leaf.prop_recursive(6, 40, 3, |inner| {
            prop_oneof![
                (0u64..1000, inner.clone(), inner.clone()).prop_map(|(table, build, probe)| hash_join(
                    Bytes(table),
                    build,
                    probe
                )),
                inner.clone().prop_map(index_join),
                (0u64..1000, 0u64..1000, inner.clone()).prop_map(|(table, groups, input)| group(
                    Bytes(table),
                    groups,
                    input
                )),
                (0u64..1000, inner.clone()).prop_map(|(rows, input)| PlanShape::Sort {
                    rows: Rows(rows),
                    input: Box::new(input),
                }),
                prop::collection::vec(inner, 1..4).prop_map(|inputs| PlanShape::Merge { inputs }),
            ]
        })
    }

    /// Leaves and blocking operators of a plan: each begins one pipeline.
    fn sources(plan: &PlanShape) -> usize {
        match plan {
            PlanShape::Scan { .. } => 1,
            PlanShape::HashJoin { build, probe, .. } => sources(build) + sources(probe),
            PlanShape::IndexJoin { outer } => sources(outer),
            PlanShape::HashAggregate { input, .. } | PlanShape::Sort { input, .. } => sources(input) + 1,
            PlanShape::Merge { inputs } => inputs.iter().map(sources).sum(),
        }
    }

    proptest! {
        #[test]
        fn every_source_begins_one_pipeline_and_one_ends_in_the_result(plan in any_plan()) {
            let found = pipelines(&plan);
            prop_assert_eq!(found.all().len(), sources(&plan));
            let results = found.all().iter().filter(|p| p.end == PipelineEnd::Result).count();
            prop_assert_eq!(results, 1);
            prop_assert!(found.all().iter().all(|p| p.rows <= found.main().rows));
        }
    }
}
