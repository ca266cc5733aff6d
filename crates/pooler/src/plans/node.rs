//! [`Node`]: one operator of a plan, with what later steps ask for.

use corun_model::units::Bytes;
use serde_json::Value;

use super::PlanError;

/// Most operators of a plan; partitions count each.
const NODES_MAX: usize = 20_000;

/// PostgreSQL allows no more parallel workers.
const WORKERS_MAX: u64 = 1024;

/// Which input of its parent a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The first or only input; the outer side of a join.
    Outer,
    /// The inner side of a join.
    Inner,
    /// One of many inputs of an append.
    Member,
    /// Computed once, before or when it is first asked for.
    InitPlan,
    /// Computed for a row of its parent, or once into a hash table.
    SubPlan,
}

/// What an executed node said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Actual {
    /// Rows of each loop on average.
    pub rows: f64,
    /// How often it ran, over all processes.
    pub loops: f64,
}

/// What `EXPLAIN ANALYZE` says of a hash join's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Buckets at the end.
    pub buckets: u64,
    /// Buckets at the beginning.
    pub buckets_planned: u64,
    /// Batches at the end.
    pub batches: u64,
    /// Batches at the beginning.
    pub batches_planned: u64,
    /// Largest memory, rounded up to kilobytes.
    pub peak: Bytes,
}

/// One operator.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub kind: String,
    pub role: Role,
    /// `SubPlan 1`, `CTE x`.
    pub subplan: Option<String>,
    pub parallel_aware: bool,
    /// The planner was told not to use it and had nothing else (since 18).
    pub disabled: bool,
    pub join_type: Option<String>,
    pub strategy: Option<String>,
    pub schema: Option<String>,
    pub relation: Option<String>,
    pub alias: Option<String>,
    pub index: Option<String>,
    pub cost: f64,
    pub rows: f64,
    pub width: u64,
    pub outputs: Vec<String>,
    pub index_cond: Option<String>,
    pub recheck_cond: Option<String>,
    pub filter: Option<String>,
    /// Condition of a hash or merge join.
    pub join_cond: Option<String>,
    pub join_filter: Option<String>,
    pub group_key: Vec<String>,
    /// Of a node that gathers.
    pub workers_planned: u64,
    /// Of the next node above that gathers; 0 without.
    pub workers_above: u64,
    pub actual: Option<Actual>,
    pub seen: Option<Seen>,
    pub inputs: Vec<Node>,
}

impl Node {
    /// Reads a plan.
    pub fn read(plan: &Value) -> Result<Node, PlanError> {
        let mut left = NODES_MAX;
        node(plan, 0, &mut left)
    }

    /// The input in a role.
    pub fn input(&self, role: Role) -> Option<&Node> {
        self.inputs.iter().find(|input| input.role == role)
    }

    /// The first or only input.
    pub fn outer(&self) -> Option<&Node> {
        self.inputs
            .iter()
            .find(|input| matches!(input.role, Role::Outer | Role::Member))
    }

    /// Rows pass from these to the node; not those of plans it evaluates beside.
    pub fn sources(&self) -> impl Iterator<Item = &Node> {
        self.inputs
            .iter()
            .filter(|input| !matches!(input.role, Role::InitPlan | Role::SubPlan))
    }

    /// Whether it reads a relation.
    pub fn is_relation_scan(&self) -> bool {
        self.relation.is_some()
            && (self.kind.ends_with("Scan") && !matches!(self.kind.as_str(), "Bitmap Index Scan"))
    }

    /// Whether it has one of these inputs evaluated into a hash table.
    pub fn hashes(&self, subplan: &str) -> bool {
        let wanted = format!("hashed {subplan}");
        let texts = [&self.filter, &self.join_filter, &self.join_cond];
        let mut texts = texts.into_iter().flatten().chain(&self.outputs);
        texts.any(|text| {
            text.match_indices(&wanted).any(|(at, _)| {
                let behind = text[at + wanted.len()..].chars().next();
                !behind.is_some_and(|c| c.is_ascii_digit())
            })
        })
    }

    /// All nodes, each before its inputs.
    pub fn all(&self) -> Vec<&Node> {
        let mut found = Vec::new();
        let mut open = vec![self];
        while let Some(node) = open.pop() {
            found.push(node);
            open.extend(node.inputs.iter().rev());
        }
        found
    }
}

/// Which input of its parent PostgreSQL calls a node.
fn relationship(plan: &Value) -> Option<&str> {
    plan.get("Parent Relationship")?.as_str()
}

fn node(plan: &Value, workers_above: u64, left: &mut usize) -> Result<Node, PlanError> {
    *left = left.checked_sub(1).ok_or(PlanError::TooMany)?;
    let text = |name: &str| plan.get(name)?.as_str().map(str::to_owned);
    let list = |name: &str| plan.get(name).and_then(Value::as_array).into_iter().flatten();
    let texts = |name: &str| {
        let texts = list(name).filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    let number = |name: &str| plan.get(name)?.as_f64().filter(|number| *number >= 0.0);
    let needed = |name: &'static str| number(name).ok_or(PlanError::Missing(name));
    let count = |name: &str| plan.get(name)?.as_u64();
    let flag = |name: &str| plan.get(name) == Some(&Value::Bool(true));
    let role = match relationship(plan) {
        Some("Inner") => Role::Inner,
        Some("Member") => Role::Member,
        Some("InitPlan") => Role::InitPlan,
        Some("SubPlan") => Role::SubPlan,
        _ => Role::Outer,
    };
    let actual = match (number("Actual Rows"), number("Actual Loops")) {
        (Some(rows), Some(loops)) if loops > 0.0 => Some(Actual { rows, loops }),
        _ => None,
    };
    let seen = match (
        count("Hash Buckets"),
        count("Hash Batches"),
        count("Peak Memory Usage"),
    ) {
        (Some(buckets), Some(batches), Some(peak)) => Some(Seen {
            buckets,
            buckets_planned: count("Original Hash Buckets").unwrap_or(buckets),
            batches,
            batches_planned: count("Original Hash Batches").unwrap_or(batches),
            peak: Bytes(peak.saturating_mul(1024)),
        }),
        _ => None,
    };
    let workers_planned = count("Workers Planned").unwrap_or(0).min(WORKERS_MAX);
    // Plans computed once, or for a row, run in one process; what gathers says how many run below.
    let below = |input: &Value| match relationship(input) {
        Some("InitPlan" | "SubPlan") => 0,
        _ if workers_planned > 0 => workers_planned,
        _ => workers_above,
    };
    let inputs = list("Plans").map(|input| node(input, below(input), left));
    Ok(Node {
        kind: text("Node Type").ok_or(PlanError::Missing("Node Type"))?,
        role,
        subplan: text("Subplan Name"),
        parallel_aware: flag("Parallel Aware"),
        disabled: flag("Disabled"),
        join_type: text("Join Type"),
        strategy: text("Strategy"),
        schema: text("Schema"),
        relation: text("Relation Name"),
        alias: text("Alias"),
        index: text("Index Name"),
        cost: needed("Total Cost")?,
        rows: needed("Plan Rows")?,
        width: count("Plan Width").ok_or(PlanError::Missing("Plan Width"))?,
        outputs: texts("Output"),
        index_cond: text("Index Cond"),
        recheck_cond: text("Recheck Cond"),
        filter: text("Filter"),
        join_cond: text("Hash Cond").or_else(|| text("Merge Cond")),
        join_filter: text("Join Filter"),
        group_key: texts("Group Key"),
        workers_planned,
        workers_above,
        actual,
        seen,
        inputs: inputs.collect::<Result<_, _>>()?,
    })
}
