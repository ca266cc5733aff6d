//! The forms a plan can take, and the choice among them (paper 002, sections 5.1 and 6.3).
//!
//! Only the first two joins of the main pipeline are varied, each between a hash table and the index of an indexed table. A
//! plan without such tables has one form and is planned once.

use super::memory::Memory;
use super::names::Names;
use super::shape::{self, Knowledge, MainJoin, Reading};
use crate::decide::decision::Alternative;
use crate::index::IndexedSource;
use crate::steering::Steering;
use crate::{CorunOptions, EngineError, JoinChoice, Stop, stoppable};
use corun_model::cache::locality::{Classifier, Footprint};
use corun_model::cache::plan_choice::{COST_MARGIN, ChoiceRule, JoinOperator, SubTree};
use datafusion::common::tree_node::TreeNode;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// One form of a plan.
pub struct Form {
    /// The plan.
    pub plan: Arc<dyn ExecutionPlan>,
    /// What the cache sees of it.
    pub reading: Reading,
}

/// Which form was taken.
pub struct Chosen {
    /// Its place among the forms.
    pub index: usize,
    /// Why it was taken.
    pub why: String,
}

impl Form {
    /// In numbers for reports.
    pub fn described(&self, classifier: &Classifier) -> Alternative {
        let footprint = shape::footprint(&self.reading.shape);
        Alternative {
            joins: self.reading.joins.iter().map(|join| join.text.clone()).collect(),
            cost_ns: self.reading.cost_ns,
            footprint,
            class: classifier.locality(footprint),
        }
    }
}

/// All forms of a plan, at most four; the one DataFusion and [`crate::rule`] made comes first.
///
/// # Errors
/// Those of planning.
pub async fn forms(
    state: &mut SessionState,
    optimized: &LogicalPlan,
    memory: &Memory,
    names: &Names,
    stop: Option<&Stop>,
) -> Result<Vec<Form>> {
    let first = form(state, optimized, memory, names, stop).await?;
    let joins = first.reading.joins.clone();
    let mut forms = vec![first];
    // Whoever switched index joins on or off has chosen already.
    let open = CorunOptions::of(state.config_options()).index_join == JoinChoice::Auto;
    if !open || joins.is_empty() || !has_index(&forms[0].plan)? || is_shared(&forms[0].plan)? {
        return Ok(forms);
    }
    // Other forms are looked at, and most of them do not run.
    if let Some(options) = state
        .config_mut()
        .options_mut()
        .extensions
        .get_mut::<CorunOptions>()
    {
        options.share_work = JoinChoice::Off;
    }
    let mut impossible = 0;
    // Each bit turns one of the joins into its other form.
    for flips in 1..1_usize << joins.len() {
        if flips & impossible != 0 {
            continue;
        }
        let wanted =
            |(at, join): (usize, &MainJoin)| (join.name.clone(), join.indexed != (flips >> at & 1 == 1));
        let steering = Steering::new(joins.iter().enumerate().map(wanted));
        state.config_mut().options_mut().extensions.insert(steering);
        let form = form(state, optimized, memory, names, stop).await?;
        let (indexed, hashed) = operators(&form.plan)?;
        let realised = joins.iter().enumerate().map(wanted).all(|(name, index)| {
            let there = if index { &indexed } else { &hashed };
            there.contains(&name)
        });
        if realised {
            forms.push(form);
        } else if flips.is_power_of_two() {
            impossible |= flips;
        }
    }
    Ok(forms)
}

async fn form(
    state: &SessionState,
    optimized: &LogicalPlan,
    memory: &Memory,
    names: &Names,
    stop: Option<&Stop>,
) -> Result<Form> {
    let planner = state.query_planner();
    let plan = planner.create_physical_plan(optimized, state).await?;
    let plan = match stop {
        Some(stop) => stoppable(plan, stop)?,
        None => plan,
    };
    let knowledge = Knowledge {
        memory,
        names,
        config: state.config_options(),
    };
    let reading = shape::read(&plan, &knowledge);
    Ok(Form { plan, reading })
}

/// Whether something of a plan is run by or for other statements as well: then all of them take the same form.
fn is_shared(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(node.is::<crate::CorunSharedExec>()))
}

/// Whether some indexed table takes part.
fn has_index(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| {
        let scan = node.downcast_ref::<DataSourceExec>();
        let indexed = scan.is_some_and(|scan| scan.data_source().is::<IndexedSource>());
        Ok(indexed || node.is::<crate::IndexJoinExec>())
    })
}

type JoinNames = Vec<crate::steering::JoinName>;

/// Names of the joins through an index and of the other equality joins.
fn operators(plan: &Arc<dyn ExecutionPlan>) -> Result<(JoinNames, JoinNames)> {
    use crate::steering::JoinName;
    use crate::{IndexJoinExec, join::CorunJoinExec};
    use datafusion::common::tree_node::TreeNodeRecursion;
    use datafusion::physical_plan::joins::HashJoinExec;
    let (mut indexed, mut hashed) = (Vec::new(), Vec::new());
    plan.apply(|node| {
        if let Some(join) = node.downcast_ref::<IndexJoinExec>() {
            indexed.push(JoinName::of(join.stock()));
        } else if let Some(join) = node.downcast_ref::<CorunJoinExec>() {
            hashed.push(JoinName::of(join.stock()));
        } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            hashed.push(JoinName::of(join));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok((indexed, hashed))
}

/// Takes a form: by `rule`, or the cheapest.
///
/// # Errors
/// A cost that is no number, which is a bug.
pub fn choose(
    forms: &[Form],
    rule: Option<ChoiceRule>,
    classifier: &Classifier,
) -> Result<Chosen, EngineError> {
    if forms.len() == 1 {
        return Ok(Chosen {
            index: 0,
            why: "no join of its main pipeline has another form".into(),
        });
    }
    let Some(rule) = rule else {
        let cheapest = forms
            .iter()
            .enumerate()
            .min_by(|(_, a), (_, b)| a.reading.cost_ns.total_cmp(&b.reading.cost_ns));
        return Ok(Chosen {
            index: cheapest.map_or(0, |(index, _)| index),
            why: "cheapest; locality is not asked for".into(),
        });
    };
    let trees: Vec<SubTree> = forms
        .iter()
        .map(|form| SubTree {
            first: match shape::footprint(&form.reading.shape) {
                Footprint::Tables(table) => JoinOperator::Hash { table },
                Footprint::Streams => JoinOperator::Index,
            },
            second: None,
            cost: form.reading.cost_ns,
        })
        .collect();
    let choice = corun_model::cache::plan_choice::choose(&trees, rule, COST_MARGIN, classifier)
        .map_err(|error| EngineError::new(format!("cannot choose among plans: {error}")))?;
    let dearer = match choice.extra_cost {
        extra if extra > 0.0 => format!(", {:.1} % dearer than the cheapest", extra * 100.0),
        _ => String::new(),
    };
    Ok(Chosen {
        index: choice.index,
        why: format!("{}{dearer}", choice.reason),
    })
}
