//! The query planner that plans shared parts apart.

use super::find::{Found, Numbers, below, main_part, repeated};
use super::part::{Part, Place};
use super::reader::CorunSharedExec;
use super::sources::sources;
use super::table::{scan, schema};
use super::work::{Key, Origin, SharedWork, SharedWorkState};
use crate::keep::{KeptColumns, keep_columns};
use crate::options::{CorunOptions, JoinChoice};
use crate::rewrite::rewritten;
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
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// Plans parts that a statement has more than once, and parts that other statements want as well, once.
#[derive(Debug)]
pub(crate) struct SharingPlanner {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
    work: Arc<SharedWork>,
    columns: Arc<KeptColumns>,
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
        let plan = match options.rewrite {
            true => rewritten(plan, options.share_parts)?,
            false => Cow::Borrowed(plan),
        };
        self.plan(&plan, Wanted::Main, &options, session).await
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
        SharingPlanner {
            inner,
            work: Arc::new(SharedWork::new()),
            columns: Arc::new(KeptColumns::new()),
        }
    }

    /// What the sessions of this planner share now.
    pub(crate) fn now(&self) -> SharedWorkState {
        let (columns, column_bytes) = self.columns.now();
        let (columns_asked, columns_reused) = self.columns.asked();
        SharedWorkState {
            columns,
            column_bytes,
            columns_asked,
            columns_reused,
            ..self.work.now()
        }
    }

    /// Forgets what is kept, and what came before.
    pub(crate) fn forget(&self) {
        self.work.forget();
        self.columns.forget();
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
                && let Some(rest) = self.without_main(plan, options, session).await?
            {
                return self.plan(&rest, Wanted::Repeated, options, session).await;
            }
            let parts = match options.share_parts {
                true => repeated(plan)?,
                false => Vec::new(),
            };
            let mut scans = HashMap::new();
            for found in parts {
                let readers = self.readers(&found, options, session).await?;
                for (place, reader) in found.places.iter().zip(readers) {
                    scans.insert(*place, scan(&found.part, reader)?);
                }
            }
            let plan = match scans.is_empty() {
                true => Cow::Borrowed(plan),
                false => Cow::Owned(replaced(plan, scans)?),
            };
            let physical = self.inner.create_physical_plan(&plan, session).await?;
            keep_columns(physical, &self.columns, options, session)
        }
        .boxed()
    }

    /// The plan with a scan in place of its main part, if that is to be shared with other statements.
    async fn without_main(
        &self,
        plan: &LogicalPlan,
        options: &CorunOptions,
        session: &dyn Session,
    ) -> Result<Option<LogicalPlan>> {
        if options.share_work == JoinChoice::Off {
            return Ok(None);
        }
        let Some(Found { part, places }) = main_part(plan)? else {
            return Ok(None);
        };
        if !self.is_wanted_again(&part, options) {
            return Ok(None);
        }
        let physical = self.plan(&part, Wanted::Repeated, options, session).await?;
        let Some(key) = self.key(&part, &physical, session)? else {
            return Ok(None);
        };
        let (place, origin) = self
            .work
            .reader(key, &physical, &schema(&part), options.shared_work_bytes);
        let reader = CorunSharedExec::new(place, origin, "kept for other statements".to_owned(), physical);
        let scan = scan(&part, reader)?;
        let scans = places.into_iter().map(|place| (place, scan.clone())).collect();
        Ok(Some(replaced(plan, scans)?))
    }

    fn is_wanted_again(&self, part: &LogicalPlan, options: &CorunOptions) -> bool {
        match options.share_work {
            JoinChoice::Off => false,
            JoinChoice::Auto => self.work.seen_before(part),
            JoinChoice::On => true,
        }
    }

    /// Readers of a part that the statement has more than once, one for each of its places.
    async fn readers(
        &self,
        found: &Found,
        options: &CorunOptions,
        session: &dyn Session,
    ) -> Result<Vec<CorunSharedExec>> {
        let plan = self.plan(&found.part, Wanted::Repeated, options, session).await?;
        let schema = schema(&found.part);
        let key = match self.is_wanted_again(&found.part, options) {
            true => self.key(&found.part, &plan, session)?,
            false => None,
        };
        let (first, origin) = match key {
            Some(key) => self.work.reader(key, &plan, &schema, options.shared_work_bytes),
            None => {
                let part = Arc::new(Part::new(Arc::clone(&plan), schema, None));
                (admitted(&part)?, Origin::Here)
            }
        };
        let part = Arc::clone(first.part());
        let mut places = vec![first];
        for _ in 1..found.places.len() {
            // Nothing is dropped before the first has begun.
            places.push(admitted(&part)?);
        }
        let count = places.len();
        let readers = places.into_iter().enumerate().map(|(index, place)| {
            let label = format!("reader {} of {count}", index + 1);
            CorunSharedExec::new(place, origin, label, Arc::clone(&plan))
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

/// The plan with `scans` in the places of parts.
fn replaced(plan: &LogicalPlan, mut scans: HashMap<usize, LogicalPlan>) -> Result<LogicalPlan> {
    let mut numbers = Numbers::default();
    let replaced = plan.clone().transform_down_with_subqueries(|node| {
        Ok(match scans.remove(&numbers.next()) {
            Some(scan) => Transformed::new(scan, true, TreeNodeRecursion::Jump),
            None => {
                let below = below(&node);
                Transformed::new(node, false, below)
            }
        })
    });
    replaced.data()
}

fn admitted(part: &Arc<Part>) -> Result<Place> {
    part.admit()
        .ok_or_else(|| internal_datafusion_err!("a shared part has begun before its readers were planned"))
}
