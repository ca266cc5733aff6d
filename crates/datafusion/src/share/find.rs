//! Which parts of a statement run once for several readers. Pure: plans in, places in the plan out.

use crate::rewrite::is_plain;
use datafusion::common::TableReference;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A part, and where it stands: numbers of nodes as [`Numbers`] counts them.
pub(super) struct Found {
    pub(super) part: LogicalPlan,
    pub(super) places: Vec<usize>,
}

/// Numbers nodes from the root down, sub-queries before children; what is below a found part has none.
#[derive(Default)]
pub(super) struct Numbers(usize);

impl Numbers {
    pub(super) fn next(&mut self) -> usize {
        self.0 += 1;
        self.0
    }
}

/// The largest parts that a statement has more than once, sub-queries in its expressions included.
pub(super) fn repeated(plan: &LogicalPlan) -> Result<Vec<Found>> {
    if !some_table_is_read_twice(plan)? {
        return Ok(Vec::new());
    }
    let links = links_of_joins(plan)?;
    let is_candidate = |node: &LogicalPlan| worth_sharing(node) && !links.contains(&std::ptr::from_ref(node));
    // Equal parts have equal hashes; the few that have are compared.
    let mut all: HashMap<u64, usize> = HashMap::new();
    plan.apply_with_subqueries(|node| {
        if is_candidate(node) {
            *all.entry(hash(node)).or_default() += 1;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    all.retain(|_, count| *count > 1);
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let repeats = |node: &LogicalPlan| -> Result<bool> {
        Ok(is_candidate(node) && all.contains_key(&hash(node)) && may_be_shared(node)?)
    };
    // Of equal parts, some may stand within larger ones.
    let mut largest: Vec<(LogicalPlan, usize)> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if !repeats(node)? {
            return Ok(below(node));
        }
        match largest.iter_mut().find(|(part, _)| part == node) {
            Some((_, count)) => *count += 1,
            None => largest.push((node.clone(), 1)),
        }
        Ok(TreeNodeRecursion::Jump)
    })?;
    let largest = largest.into_iter().filter(|(_, count)| *count > 1);
    let mut found: Vec<Found> = largest
        .map(|(part, _)| Found {
            part,
            places: Vec::new(),
        })
        .collect();
    let mut numbers = Numbers::default();
    plan.apply_with_subqueries(|node| {
        let number = numbers.next();
        let known = is_candidate(node).then(|| found.iter_mut().find(|found| found.part == *node));
        match known.flatten() {
            Some(found) => {
                found.places.push(number);
                Ok(TreeNodeRecursion::Jump)
            }
            None => Ok(below(node)),
        }
    })?;
    Ok(found)
}

/// Joins whose rows go into another join. Such a part of a chain is not shared: what the rest of the chain says about its keys would
/// drop rows before it, in each place others, and could not any more.
fn links_of_joins(plan: &LogicalPlan) -> Result<HashSet<*const LogicalPlan>> {
    let mut links = HashSet::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Join(join) = node {
            for input in [&join.left, &join.right] {
                let mut input = input.as_ref();
                while let LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::SubqueryAlias(_) = input
                {
                    input = input.inputs()[0];
                }
                if let LogicalPlan::Join(_) = input {
                    links.insert(std::ptr::from_ref(input));
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(links)
}

pub(super) fn hash(part: &LogicalPlan) -> u64 {
    let mut hasher = DefaultHasher::new();
    part.hash(&mut hasher);
    hasher.finish()
}

/// Where parts may be: a recursive query runs its parts more than once.
pub(super) fn below(node: &LogicalPlan) -> TreeNodeRecursion {
    match node {
        LogicalPlan::RecursiveQuery(_) => TreeNodeRecursion::Jump,
        _ => TreeNodeRecursion::Continue,
    }
}

/// The part of a query that does its work: what is below the sorting and cutting off of groups, if it groups at the end, otherwise all.
pub(super) fn main_part(plan: &LogicalPlan) -> Result<Option<Found>> {
    let mut numbers = Numbers::default();
    let mut at = (plan, numbers.next());
    let mut input = |node: &LogicalPlan| {
        node.apply_subqueries(|query| {
            query.apply_with_subqueries(|node| {
                numbers.next();
                Ok(below(node))
            })
        })?;
        Ok::<_, DataFusionError>(numbers.next())
    };
    while let LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) = at.0 {
        at = (at.0.inputs()[0], input(at.0)?);
    }
    let all = at;
    while let LogicalPlan::Projection(_)
    | LogicalPlan::Filter(_)
    | LogicalPlan::Sort(_)
    | LogicalPlan::Limit(_)
    | LogicalPlan::SubqueryAlias(_)
    | LogicalPlan::Window(_) = at.0
    {
        at = (at.0.inputs()[0], input(at.0)?);
    }
    // Groups without aggregates may be cut off while they are found.
    let groups = match at.0 {
        LogicalPlan::Aggregate(aggregate) => !aggregate.aggr_expr.is_empty(),
        _ => false,
    };
    let (part, number) = if groups { at } else { all };
    let works = part.exists(|node| Ok(worth_sharing(node)))?;
    Ok((works && may_be_shared(part)?).then(|| Found {
        part: part.clone(),
        places: vec![number],
    }))
}

/// Whether two scans read the same table: otherwise no parts are equal.
fn some_table_is_read_twice(plan: &LogicalPlan) -> Result<bool> {
    let mut names: Vec<TableReference> = Vec::new();
    let mut twice = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            twice |= names.contains(&scan.table_name);
            names.push(scan.table_name.clone());
        }
        Ok(match twice {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(twice)
}

fn worth_sharing(node: &LogicalPlan) -> bool {
    matches!(
        node,
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Join(_) | LogicalPlan::Window(_)
    )
}

/// Whether a part gives the same rows each time it runs within a statement, and is made of what queries are made of.
fn may_be_shared(part: &LogicalPlan) -> Result<bool> {
    let odd = part.exists(|node| {
        let known = matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Window(_)
                | LogicalPlan::Distinct(_)
                | LogicalPlan::Join(_)
                | LogicalPlan::Union(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::TableScan(_)
                | LogicalPlan::EmptyRelation(_)
        );
        let mut odd = !known;
        node.apply_expressions(|expression| {
            odd |= !is_plain(expression)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(odd)
    })?;
    Ok(!odd)
}
