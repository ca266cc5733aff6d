//! From operators of PostgreSQL to what the cache notices: [`PlanShape`], hash tables, the joins of the main pipeline.
//!
//! | PostgreSQL | here |
//! | --- | --- |
//! | any scan of rows | scan |
//! | Hash Join | hash join; not shared: one table for each process |
//! | Nested Loop, inner side looks up keys of the outer | index join |
//! | the same behind Memoize | hash join with the kept answers, at most what the server allows |
//! | other Nested Loop | hash join with the inner side as its table |
//! | Merge Join, Append, Merge Append, set operations | merge; partitions that are only scanned are one scan |
//! | Sort, Incremental Sort | sort |
//! | Aggregate and SetOp, hashed or mixed | hash aggregate |
//! | hashed SubPlan | hash join; any other SubPlan: index join |
//! | InitPlan, CTE | a plan of its own beside |
//! | everything else | passes rows on, several inputs merge |

use corun_model::cache::locality::Footprint;
use corun_model::cache::pipeline::{PlanShape, pipelines};
use corun_model::pooler::pg_hash::aggregate::Groups;
use corun_model::pooler::pg_hash::{Built, Frequent, Input, Memory, Planned, Stored};
use corun_model::units::{Bytes, Rows};

use super::conditions::{conjuncts, places_of, qualifiers};
use super::corrections::Corrections;
use super::node::{Node, Role, Seen};

/// Share of a leader's time that each worker takes from it, as PostgreSQL estimates.
const LEADER_SHARE_PER_WORKER: f64 = 0.3;
/// Joins of the main pipeline that count (paper 002, section 4.3).
pub(super) const JOINS_COUNTED: usize = 2;

/// A hash join's table.
#[derive(Clone, Debug, PartialEq)]
pub struct HashTable {
    /// What is in it, for people: names of relations.
    pub relations: String,
    /// Rows as PostgreSQL estimates them, of all processes.
    pub rows_estimated: f64,
    /// The same after correction.
    pub rows: f64,
    /// Width of a row's data.
    pub width: u64,
    /// As PostgreSQL expects it.
    pub planned: Planned,
    /// As it will be, by corrected rows.
    pub built: Built,
    /// Processes that each build one of their own.
    pub copies: u64,
    /// Memory of all copies.
    pub bytes: Bytes,
    /// What an execution said of it.
    pub seen: Option<Seen>,
    /// Rows that went in then, of all processes.
    pub rows_seen: Option<f64>,
}

/// How a join of the main pipeline works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinKind {
    Hash,
    Index,
    Memoize,
    Material,
    Merge,
}

/// A join of the main pipeline.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MainJoin {
    pub kind: JoinKind,
    /// Names of what is joined, below on the outer side and on the inner side; sorted.
    pub outer: Vec<String>,
    pub inner: Vec<String>,
    /// Whether there is an equality to hash.
    pub equality: bool,
    /// Whether one side is a relation alone, whose index could be used.
    pub relation: bool,
}

/// What the cache notices of a plan.
pub(super) struct Reading {
    pub shape: PlanShape,
    /// Plans computed once beside it.
    pub beside: Vec<PlanShape>,
    pub tables: Vec<HashTable>,
    /// The first joins of the main pipeline.
    pub joins: Vec<MainJoin>,
}

impl Reading {
    pub fn footprint(&self) -> Footprint {
        let mains = self.beside.iter().chain([&self.shape]);
        let mains = mains.map(|shape| pipelines(shape).main());
        mains
            .max_by_key(|pipeline| pipeline.rows)
            .map_or(Footprint::Streams, |pipeline| pipeline.footprint)
    }
}

/// Reads a plan.
pub(super) fn read(root: &Node, leader: bool, memory: &Memory, corrections: &Corrections) -> Reading {
    let mut reader = Reader {
        leader,
        memory,
        corrections,
        tables: Vec::new(),
        beside: Vec::new(),
        joins: Vec::new(),
        main: (0, Vec::new()),
    };
    let part = reader.part(root);
    reader.close(&part);
    let Reader {
        tables,
        beside,
        joins,
        main,
        ..
    } = reader;
    Reading {
        shape: part.shape,
        beside,
        tables,
        joins: main
            .1
            .iter()
            .take(JOINS_COUNTED)
            .map(|&at| joins[at].clone())
            .collect(),
    }
}

/// By how much rows of one process are fewer than those of all.
fn divisor(workers: u64, leader: bool) -> f64 {
    if workers == 0 {
        return 1.0;
    }
    let workers = workers as f64;
    let own = 1.0 - LEADER_SHARE_PER_WORKER * workers;
    workers + if leader && own > 0.0 { own } else { 0.0 }
}

/// Rows of a node in all processes, as estimated.
pub(super) fn estimated(node: &Node, leader: bool) -> f64 {
    if node.workers_above > 0 && is_partial(node) {
        node.rows * divisor(node.workers_above, leader)
    } else {
        node.rows
    }
}

/// Whether rows of a node are divided among processes.
fn is_partial(node: &Node) -> bool {
    let mut node = node;
    loop {
        match node.kind.as_str() {
            "Gather" | "Gather Merge" => return false,
            // A parallel hash table is whole, though each process fills a part.
            _ if node.parallel_aware && node.kind != "Hash Join" => return true,
            _ => match node.outer() {
                Some(outer) => node = outer,
                None => return false,
            },
        }
    }
}

/// A plan whose top pipeline still grows.
struct Part {
    shape: PlanShape,
    /// Rows that enter the pipeline.
    rows: u64,
    joins: Vec<usize>,
}

impl Part {
    /// A pipeline that begins with this operator.
    fn new(shape: PlanShape, rows: u64) -> Self {
        Part {
            shape,
            rows,
            joins: Vec::new(),
        }
    }

    fn scan(rows: u64) -> Self {
        Part::new(PlanShape::Scan { rows: Rows(rows) }, rows)
    }
}

struct Reader<'a> {
    leader: bool,
    memory: &'a Memory,
    corrections: &'a Corrections,
    tables: Vec<HashTable>,
    beside: Vec<PlanShape>,
    joins: Vec<MainJoin>,
    /// Rows and joins of the pipeline most rows enter.
    main: (u64, Vec<usize>),
}

impl Reader<'_> {
    /// Ends a pipeline. The rule is that of [`corun_model::cache::pipeline::Pipelines::main`]: most rows, the later of equals.
    fn close(&mut self, part: &Part) {
        if part.rows >= self.main.0 {
            self.main = (part.rows, part.joins.clone());
        }
    }

    /// Rows of all processes, corrected.
    fn rows(&self, node: &Node) -> f64 {
        self.estimated(node) * self.corrections.factor(node)
    }

    fn estimated(&self, node: &Node) -> f64 {
        estimated(node, self.leader)
    }

    /// Processes that each have a table of their own.
    fn copies(&self, workers: u64) -> u64 {
        match workers {
            0 => 1,
            some => some + u64::from(self.leader),
        }
    }

    fn part(&mut self, node: &Node) -> Part {
        for init in node.inputs.iter().filter(|input| input.role == Role::InitPlan) {
            let part = self.part(init);
            self.close(&part);
            self.beside.push(part.shape);
        }
        let mut part = self.operator(node);
        for sub in node.inputs.iter().filter(|input| input.role == Role::SubPlan) {
            let hashed = sub.subplan.as_deref().is_some_and(|name| node.hashes(name));
            part.shape = if hashed {
                let groups = Groups {
                    groups: sub.rows,
                    key_width: sub.width,
                    aggregates: 0,
                };
                let inner = self.part(sub);
                self.close(&inner);
                PlanShape::HashJoin {
                    table: times(groups.bytes(self.memory), self.copies(node.workers_above)),
                    build: Box::new(inner.shape),
                    probe: Box::new(part.shape),
                }
            } else {
                PlanShape::IndexJoin {
                    outer: Box::new(part.shape),
                }
            };
        }
        part
    }

    fn operator(&mut self, node: &Node) -> Part {
        let hashed = matches!(node.strategy.as_deref(), Some("Hashed" | "Mixed"));
        match node.kind.as_str() {
            "Gather" | "Gather Merge" => match node.outer() {
                Some(outer) => self.part(outer),
                None => self.scan(node),
            },
            "Hash Join" => self.hash_join(node),
            "Nested Loop" => self.nested_loop(node),
            "Merge Join" => self.merge_join(node),
            "Sort" | "Incremental Sort" => {
                let Some(outer) = node.outer() else {
                    return self.scan(node);
                };
                let input = self.part(outer);
                self.close(&input);
                let rows = count(self.rows(node));
                let input = Box::new(input.shape);
                Part::new(
                    PlanShape::Sort {
                        rows: Rows(rows),
                        input,
                    },
                    rows,
                )
            }
            "Aggregate" | "SetOp" if hashed => self.groups(node),
            // What a bitmap is made of is not read row by row.
            "Bitmap Heap Scan" => self.scan(node),
            _ => self.pass(node),
        }
    }

    fn scan(&self, node: &Node) -> Part {
        Part::scan(count(self.rows(node)))
    }

    /// The inputs whose rows an operator gets.
    fn inputs(&mut self, node: &Node) -> Vec<Part> {
        node.sources().map(|input| self.part(input)).collect()
    }

    /// An operator without memory of its own.
    fn pass(&mut self, node: &Node) -> Part {
        let parts = self.inputs(node);
        if parts.len() > 1
            && parts
                .iter()
                .all(|part| matches!(part.shape, PlanShape::Scan { .. }))
        {
            // Partitions are read one after the other.
            return Part::scan(
                parts
                    .iter()
                    .fold(0, |sum: u64, part| sum.saturating_add(part.rows)),
            );
        }
        self.merged(parts).unwrap_or_else(|| self.scan(node))
    }

    /// Inputs that stream together; that of most rows goes on, the earlier of equals. `None` without any.
    fn merged(&mut self, parts: Vec<Part>) -> Option<Part> {
        let single = parts.len() == 1;
        let mut inputs = Vec::with_capacity(parts.len());
        let mut largest: Option<(u64, Vec<usize>)> = None;
        for part in parts {
            let Part { shape, rows, joins } = part;
            inputs.push(shape);
            largest = Some(match largest {
                None => (rows, joins),
                Some((most, of_most)) => {
                    let (kept, ended) = if rows > most {
                        ((rows, joins), (most, of_most))
                    } else {
                        ((most, of_most), (rows, joins))
                    };
                    if ended.0 >= self.main.0 {
                        self.main = ended;
                    }
                    kept
                }
            });
        }
        let (rows, joins) = largest?;
        let shape = if single {
            inputs.pop()?
        } else {
            PlanShape::Merge { inputs }
        };
        Some(Part { shape, rows, joins })
    }

    fn groups(&mut self, node: &Node) -> Part {
        let keys = node.group_key.len().max(1) as u64;
        // Results of aggregates are eight bytes wide more often than not.
        let aggregates = match node.kind.as_str() {
            "SetOp" => 1,
            _ => (node.outputs.len() as u64).saturating_sub(keys),
        };
        let table = Groups {
            groups: node.rows,
            key_width: node.width.saturating_sub(aggregates * 8).max(keys * 4),
            aggregates,
        };
        let table = times(table.bytes(self.memory), self.copies(node.workers_above));
        let parts = self.inputs(node);
        let input = self.merged(parts).unwrap_or_else(|| self.scan(node));
        self.close(&input);
        let groups = count(self.rows(node));
        let shape = PlanShape::HashAggregate {
            table,
            groups: Rows(groups),
            input: Box::new(input.shape),
        };
        Part::new(shape, groups)
    }

    fn hash_join(&mut self, node: &Node) -> Part {
        let (Some(outer), Some(hash)) = (node.outer(), node.input(Role::Inner)) else {
            return self.pass(node);
        };
        let table = self.table(node, outer, hash);
        let bytes = table.bytes;
        self.tables.push(table);
        let build = self.part(hash);
        self.close(&build);
        let mut probe = self.part(outer);
        self.joined(&mut probe, JoinKind::Hash, node, outer, hash);
        probe.shape = PlanShape::HashJoin {
            table: bytes,
            build: Box::new(build.shape),
            probe: Box::new(probe.shape),
        };
        probe
    }

    fn table(&self, join: &Node, outer: &Node, hash: &Node) -> HashTable {
        let source = hash.outer().unwrap_or(hash);
        let rows_estimated = self.estimated(source);
        let rows = rows_estimated * self.corrections.factor(source);
        let shared = hash.parallel_aware && hash.workers_above > 0;
        let planned = Planned::of(
            &Input {
                rows: rows_estimated,
                width: source.width,
                participants: if shared { hash.workers_above + 1 } else { 1 },
                frequent: looks_for_frequent(join, outer),
            },
            self.memory,
        );
        let stored = Stored::new(rows, source.width as f64);
        let built = planned.built(stored, Frequent::default());
        let copies = if shared {
            1
        } else {
            self.copies(hash.workers_above)
        };
        let rows_seen = hash.actual.map(|actual| {
            let sum = hash.parallel_aware;
            actual.rows * if sum { actual.loops } else { 1.0 }
        });
        HashTable {
            relations: names(source).join(", "),
            rows_estimated,
            rows,
            width: source.width,
            planned,
            built,
            copies,
            bytes: times(built.resident, copies),
            seen: hash.seen,
            rows_seen,
        }
    }

    fn nested_loop(&mut self, node: &Node) -> Part {
        let (Some(outer), Some(inner)) = (node.outer(), node.input(Role::Inner)) else {
            return self.pass(node);
        };
        let mut probe = self.part(outer);
        let times_run = self.estimated(outer);
        if inner.kind == "Memoize" {
            // How many keys differ is not said; the server keeps no more than this.
            let answer = Stored::new(inner.rows.max(1.0), inner.width as f64);
            let all = times_run * (answer.rows * answer.row_bytes);
            let table = Bytes(count(all).min(self.memory.limit().0));
            self.joined(&mut probe, JoinKind::Memoize, node, outer, inner);
            probe.shape = PlanShape::HashJoin {
                table: times(table, self.copies(node.workers_above)),
                build: Box::new(PlanShape::Scan { rows: Rows(0) }),
                probe: Box::new(probe.shape),
            };
        } else if looks_up(inner, outer) {
            self.joined(&mut probe, JoinKind::Index, node, outer, inner);
            probe.shape = PlanShape::IndexJoin {
                outer: Box::new(probe.shape),
            };
        } else {
            let build = self.part(inner);
            if times_run <= 1.0 {
                // The inner side is read once.
                let parts = vec![probe, build];
                return self.merged(parts).unwrap_or_else(|| self.scan(node));
            }
            self.close(&build);
            let kept = Stored::new(self.rows(inner), inner.width as f64);
            let table = Bytes(count(kept.rows * kept.row_bytes));
            self.joined(&mut probe, JoinKind::Material, node, outer, inner);
            probe.shape = PlanShape::HashJoin {
                table: times(table, self.copies(node.workers_above)),
                build: Box::new(build.shape),
                probe: Box::new(probe.shape),
            };
        }
        probe
    }

    fn merge_join(&mut self, node: &Node) -> Part {
        let (Some(outer), Some(inner)) = (node.outer(), node.input(Role::Inner)) else {
            return self.pass(node);
        };
        let parts = vec![self.part(outer), self.part(inner)];
        match self.merged(parts) {
            Some(mut part) => {
                self.joined(&mut part, JoinKind::Merge, node, outer, inner);
                part
            }
            None => self.scan(node),
        }
    }

    /// Adds a join to a pipeline.
    fn joined(&mut self, part: &mut Part, kind: JoinKind, join: &Node, outer: &Node, inner: &Node) {
        if part.joins.len() >= JOINS_COUNTED {
            return;
        }
        let conditions = [&join.join_cond, &join.join_filter];
        let lookups = inner
            .all()
            .into_iter()
            .filter_map(|node| node.index_cond.as_ref());
        let mut conditions = conditions.into_iter().flatten().chain(lookups);
        part.joins.push(self.joins.len());
        self.joins.push(MainJoin {
            kind,
            outer: names(outer),
            inner: names(inner),
            equality: conditions.any(|text| text.contains(" = ")),
            relation: is_relation(outer) || is_relation(inner),
        });
    }
}

/// Whether a side of a join is a relation, perhaps behind operators that leave its rows as they are.
fn is_relation(node: &Node) -> bool {
    match node.kind.as_str() {
        "Hash" | "Materialize" | "Memoize" | "Sort" | "Append" | "Merge Append" => {
            node.sources().all(is_relation) && node.sources().next().is_some()
        }
        _ => node.is_relation_scan(),
    }
}

/// Names of the relations below a node, as the query calls them; sorted, each once.
pub(super) fn names(node: &Node) -> Vec<String> {
    let mut names: Vec<String> = node
        .all()
        .into_iter()
        .filter(|node| node.kind != "Bitmap Index Scan")
        .filter_map(|node| node.alias.clone())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether something below `inner` is looked up by what comes from `outer`.
fn looks_up(inner: &Node, outer: &Node) -> bool {
    let outer = names(outer);
    inner.all().into_iter().any(|node| {
        let conditions = [&node.index_cond, &node.recheck_cond];
        let mut names = conditions.into_iter().flatten().flat_map(|text| qualifiers(text));
        names.any(|name| outer.binary_search(&name).is_ok())
    })
}

/// Whether PostgreSQL looks for frequent values: one condition, and its outer side a column of a relation.
fn looks_for_frequent(join: &Node, outer: &Node) -> bool {
    let Some(condition) = &join.join_cond else {
        return false;
    };
    let parts = conjuncts(condition);
    let [single] = parts[..] else {
        return false;
    };
    let Some((left, _)) = single.split_once(" = ") else {
        return false;
    };
    // A column, or a column as another type of the same bytes: `(p.p_name)::text`.
    let left = left.trim_start_matches('(');
    let column = left.split_once(")::").map_or(left, |(column, _)| column);
    let [alias] = &qualifiers(column)[..] else {
        return false;
    };
    !column.contains(['(', ':'])
        && places_of(" ", column).is_empty()
        && outer
            .all()
            .into_iter()
            .any(|node| node.is_relation_scan() && node.alias.as_ref() == Some(alias))
}

fn times(bytes: Bytes, copies: u64) -> Bytes {
    Bytes(bytes.0.saturating_mul(copies))
}

/// Whole rows, or bytes, of an estimate; 0 for what is no number.
fn count(rows: f64) -> u64 {
    rows.round().max(0.0) as u64
}
