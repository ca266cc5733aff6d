//! The query planner that plans shared parts apart.

use super::exec::CorunSharedExec;
use super::find::{Found, Numbers, below, main_part, repeated};
use super::part::Part;
use super::sources::sources;
use super::table::{scan, schema};
use super::work::{Key, Origin, SharedWork};
use crate::options::{CorunOptions, JoinChoice};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::internal_datafusion_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;

/// Plans parts that a statement has more than once, and parts that other statements want as well, once.
#[derive(Debug)]
pub(crate) struct SharingPlanner {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
    work: Arc<SharedWork>,
}

#[async_trait]
impl QueryPlanner for SharingPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = CorunOptions::of(session.config_options());
        if options.join == JoinChoice::Off {
            return self.inner.create_physical_plan(plan, session).await;
        }
        self.plan(plan, Wanted::Main, &options, session).await
    }
}

/// The planner of a session that was given none.
pub(crate) fn stock_planner() -> Arc<dyn QueryPlanner + Send + Sync> {
    Arc::new(StockPlanner {})
}

#[derive(Debug)]
struct StockPlanner {}

#[async_trait]
impl QueryPlanner for StockPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::default()
            .create_physical_plan(plan, session)
            .await
    }
}

/// What may be shared of a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Its main part, if other statements want it, and what it has more than once.
    Main,
    /// What it has more than once.
    Repeated,
}

impl SharingPlanner {
    /// A planner before `inner`, for sessions that share their work with each other and nobody else.
    pub(crate) fn new(inner: Arc<dyn QueryPlanner + Send + Sync>) -> Self {
        let work = Arc::new(SharedWork::new());
        SharingPlanner { inner, work }
    }

    /// What the sessions of this planner share.
    pub(crate) fn work(&self) -> &SharedWork {
        &self.work
    }

    fn plan<'a>(
        &'a self,
        plan: &'a LogicalPlan,
        wanted: Wanted,
        options: &'a CorunOptions,
        session: &'a dyn Session,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        async move {
            if wanted == Wanted::Main
                && let Some(main) = self.main(plan, options)?
            {
                let rest = self.share(plan, vec![main], options, session).await?;
                return self.plan(&rest, Wanted::Repeated, options, session).await;
            }
            let repeated = match options.share_parts {
                true => repeated(plan)?,
                false => Vec::new(),
            };
            if repeated.is_empty() {
                return self.inner.create_physical_plan(plan, session).await;
            }
            let rest = self.share(plan, repeated, options, session).await?;
            self.inner.create_physical_plan(&rest, session).await
        }
        .boxed()
    }

    /// The main part, if it is to be shared with other statements.
    fn main(&self, plan: &LogicalPlan, options: &CorunOptions) -> Result<Option<Found>> {
        if options.share_work == JoinChoice::Off {
            return Ok(None);
        }
        let main = main_part(plan)?;
        Ok(main.filter(|main| self.is_wanted_again(&main.part, options)))
    }

    fn is_wanted_again(&self, part: &LogicalPlan, options: &CorunOptions) -> bool {
        match options.share_work {
            JoinChoice::Off => false,
            JoinChoice::Auto => self.work.seen_before(part),
            JoinChoice::On => true,
        }
    }

    /// The plan with scans of shared tables in the places of `parts`.
    async fn share(
        &self,
        plan: &LogicalPlan,
        parts: Vec<Found>,
        options: &CorunOptions,
        session: &dyn Session,
    ) -> Result<LogicalPlan> {
        let mut scans: HashMap<usize, LogicalPlan> = HashMap::new();
        for found in parts {
            let readers = self.readers(&found, options, session).await?;
            for (place, reader) in found.places.iter().zip(readers) {
                scans.insert(*place, scan(&found.part, reader)?);
            }
        }
        let mut numbers = Numbers::default();
        let plan = plan
            .clone()
            .transform_down_with_subqueries(|node| match scans.remove(&numbers.next()) {
                Some(scan) => Ok(Transformed::new(scan, true, TreeNodeRecursion::Jump)),
                None => {
                    let below = below(&node);
                    Ok(Transformed::new(node, false, below))
                }
            });
        plan.data()
    }

    /// Readers of a part, one for each of its places.
    async fn readers(
        &self,
        found: &Found,
        options: &CorunOptions,
        session: &dyn Session,
    ) -> Result<Vec<CorunSharedExec>> {
        let plan = self.plan(&found.part, Wanted::Repeated, options, session).await?;
        let schema = schema(&found.part);
        let is_main = found.places.len() == 1;
        let key = match is_main || self.is_wanted_again(&found.part, options) {
            true => self.key(&found.part, &plan, session)?,
            false => None,
        };
        let part = || Arc::new(Part::new(Arc::clone(&plan), Arc::clone(&schema), None));
        let (first, origin) = match key {
            Some(key) => self.work.reader(key, &plan, &schema, options.shared_work_bytes),
            None => (admitted(&part())?, Origin::Here),
        };
        let part = Arc::clone(first.part());
        let mut places = vec![first];
        for _ in 1..found.places.len() {
            places.push(admitted(&part)?);
        }
        let count = places.len();
        let readers = places.into_iter().enumerate().map(|(index, place)| {
            let label = match (origin, count) {
                (Origin::Here, 1) => "kept for other statements".to_owned(),
                (Origin::Here, _) => format!("reader {} of {count}", index + 1),
                (Origin::UnderWay, _) => "run by another statement".to_owned(),
                (Origin::Kept, _) => "kept from another statement".to_owned(),
            };
            CorunSharedExec::new(place, label, Arc::clone(&plan))
        });
        Ok(readers.collect())
    }

    /// What makes another statement's part the same as this one, if that can be told.
    fn key(
        &self,
        part: &LogicalPlan,
        plan: &Arc<dyn ExecutionPlan>,
        session: &dyn Session,
    ) -> Result<Option<Key>> {
        let Some((part, sources)) = sources(part, plan)? else {
            return Ok(None);
        };
        Ok(Some(Key {
            part: Arc::new(part),
            sources: sources.into(),
            settings: self.work.settings(session.config_options().entries()),
            pool: Arc::clone(&session.runtime_env().memory_pool),
            runtime: tokio::runtime::Handle::try_current()
                .ok()
                .map(|handle| handle.id()),
        }))
    }
}

fn admitted(part: &Arc<Part>) -> Result<super::part::Place> {
    part.admit()
        .ok_or_else(|| internal_datafusion_err!("a shared part has begun before its readers were planned"))
}
