//! The workers as a coordinator sees them: which there are, and which answer.

use crate::address::Address;
use crate::channels::Channels;
use crate::codec::ExpandCodec;
use crate::loss;
use crate::planner::ClusterPlanner;
use crate::tls::Tls;
use corun_datafusion::{Engine, EngineError, EngineOptions, Joins};
use datafusion::common::exec_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt, WorkerResolver};
use futures::future::join_all;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use url::Url;

/// How long a worker that does not answer is left alone.
const AWAY: Duration = Duration::from_secs(5);

/// The workers of a coordinator; clones share connections and what is known of them.
#[derive(Clone)]
pub struct Cluster(Arc<Members>);

struct Members {
    addresses: Vec<Address>,
    channels: Channels,
    away: Mutex<Away>,
}

/// Workers that did not answer when they were asked last.
struct Away {
    workers: BTreeSet<Address>,
    /// When they are asked again at the earliest.
    again: Instant,
}

impl Cluster {
    /// Connects to all workers.
    ///
    /// # Errors
    /// No address, or one twice; a worker that does not answer, whose certificate is not the authority's, or that has another version.
    pub async fn connect(addresses: Vec<Address>, tls: Option<Tls>) -> Result<Cluster, EngineError> {
        if addresses.is_empty() {
            return Err(EngineError::new("there are no workers").with_hint("name one or more, as HOST:PORT"));
        }
        let different: BTreeSet<&Address> = addresses.iter().collect();
        if different.len() < addresses.len() {
            return Err(EngineError::new("a worker is named twice")
                .with_hint("give each address once; a worker uses all of its machine's cores"));
        }
        let cluster = Cluster(Arc::new(Members {
            addresses,
            channels: Channels::new(tls),
            away: Mutex::new(Away {
                workers: BTreeSet::new(),
                again: Instant::now(),
            }),
        }));
        for (address, answer) in cluster.ask_all().await {
            let Err(error) = answer else { continue };
            return Err(EngineError::new(format!("cannot use worker {address}"))
                .with_detail(loss::plain(&error))
                .with_hint(
                    "does `corun-sql worker` of this version run there, and with a certificate of the same authority?",
                ));
        }
        Ok(cluster)
    }

    /// An engine whose statements run on the workers. With [`Joins::Stock`] corun's decisions and operators are off, here and there, as by
    /// `SET corun.join = 'off'`.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn engine(&self, options: &EngineOptions) -> Result<Engine, EngineError> {
        let mut options = options.clone();
        if options.joins == Joins::Stock {
            // Workers are told by a setting.
            options.settings.push(("corun.join".to_owned(), "off".to_owned()));
        }
        Engine::with(&options, |state| self.install(state))
    }

    /// Adds the workers to a session, in place of [`corun_datafusion::install`].
    pub fn install(&self, builder: SessionStateBuilder) -> SessionStateBuilder {
        let mut builder = corun_datafusion::install_for_plans_that_travel(builder);
        let whole = builder.query_planner().take();
        builder
            .with_distributed_worker_resolver(self.clone())
            .with_distributed_channel_resolver(self.0.channels.clone())
            .with_distributed_user_codec(ExpandCodec)
            .with_distributed_planner()
            .with_query_planner(Arc::new(ClusterPlanner::new(whole, self.clone())))
    }

    /// The workers that statements are planned for now.
    pub fn answering(&self) -> Vec<Address> {
        let away = self.0.away.lock();
        let answering = self
            .0
            .addresses
            .iter()
            .filter(|worker| !away.workers.contains(worker));
        answering.cloned().collect()
    }

    /// Asks all workers, at once, whether they are there; those that do not answer are not planned for.
    pub(crate) async fn look(&self) {
        let answers = self.ask_all().await;
        let mut away = self.0.away.lock();
        away.again = Instant::now() + AWAY;
        for (address, answer) in answers {
            match answer {
                Ok(()) if away.workers.remove(&address) => {
                    tracing::warn!(worker = %address, "a worker is back");
                }
                Ok(()) => {}
                Err(error) => {
                    if away.workers.insert(address.clone()) {
                        let why = loss::plain(&error);
                        tracing::warn!(worker = %address, why, "goes on without a worker");
                    }
                }
            }
        }
    }

    /// Asks the workers again when some are away, if that is long enough ago.
    pub(crate) async fn look_for_those_away(&self) {
        let due = {
            let away = self.0.away.lock();
            !away.workers.is_empty() && away.again <= Instant::now()
        };
        if due {
            self.look().await;
        }
    }

    async fn ask_all(&self) -> Vec<(Address, Result<()>)> {
        let asked = self.0.addresses.iter().map(|address| async move {
            let answer = self.0.channels.ask(address.url()).await;
            (address.clone(), answer)
        });
        join_all(asked).await
    }
}

impl WorkerResolver for Cluster {
    fn get_urls(&self) -> Result<Vec<Url>, DataFusionError> {
        let urls: Vec<Url> = self
            .answering()
            .iter()
            .map(|address| address.url().clone())
            .collect();
        match urls.is_empty() {
            true => exec_err!("none of the {} workers answers", self.0.addresses.len()),
            false => Ok(urls),
        }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cluster").field(&self.0.addresses).finish()
    }
}
