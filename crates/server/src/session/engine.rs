//! [`Engine`]: what all sessions of a server share.

use super::client::{ClientSession, Identity};
use crate::catalog::{ActivityFact, RoleFact};
use crate::data::{DataConfig, DataError, FileRights};
use corun_datafusion::{CoordinatorOptions, EngineError, EngineOptions};
use corun_wire::error::{Refusal, code};
use std::sync::Arc;
use std::time::Duration;

/// What users may do. Called while statements are planned: quick, and never waiting.
pub trait Rights: std::fmt::Debug + Send + Sync {
    /// Which files a user's statements may name.
    fn files(&self, user: &str) -> FileRights;
    /// Whether a user may read a table.
    fn may_read(&self, user: &str, schema: &str, table: &str) -> bool;
    /// Whether a user may do everything.
    fn is_superuser(&self, user: &str) -> bool;
    /// All roles, as `pg_roles` shows them.
    fn roles(&self) -> Vec<RoleFact>;
}

/// Everybody may read everything and name all allowed files.
#[derive(Debug, Clone, Copy, Default)]
pub struct FullRights;

impl Rights for FullRights {
    fn files(&self, _: &str) -> FileRights {
        FileRights {
            read: true,
            write: true,
        }
    }

    fn may_read(&self, _: &str, _: &str, _: &str) -> bool {
        true
    }

    fn is_superuser(&self, _: &str) -> bool {
        true
    }

    fn roles(&self) -> Vec<RoleFact> {
        Vec::new()
    }
}

/// How an [`Engine`] is set up.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// What can be read.
    pub data: DataConfig,
    /// Partitions, memory of all sessions together, settings that sessions begin with.
    pub engine: EngineOptions,
    /// How queries are scheduled; `None`: each runs at once, on the threads of the runtime.
    pub coordinator: Option<CoordinatorOptions>,
    /// How long a statement may run where its session does not say; `None`: for ever.
    pub statement_timeout: Option<Duration>,
    /// What users may do.
    pub rights: Arc<dyn Rights>,
    /// Threads for planning and for statements that are no queries; 0: as many as the machine has CPUs.
    pub threads: usize,
}

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A folder, store or bucket.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Options that the engine or the coordinator does not take.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Threads that cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// What all sessions share: data, the coordinator, the runtime, limits. Clones are the same.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

pub(super) struct Inner {
    runtime: tokio::runtime::Runtime,
}

impl Engine {
    /// Opens the data and starts threads; blocks while stores recover.
    ///
    /// # Errors
    /// Data that cannot be opened, options that are not taken, threads that cannot be started.
    pub fn start(config: EngineConfig) -> Result<Engine, ServerError> {
        _ = config;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        Ok(Engine(Arc::new(Inner { runtime })))
    }

    /// Where the futures of sessions are polled.
    pub fn runtime(&self) -> tokio::runtime::Handle {
        self.0.runtime.handle().clone()
    }

    /// A session of a client that has logged in.
    ///
    /// # Errors
    /// No such database; an option of the startup packet that is not taken.
    pub fn session(&self, who: Identity) -> Result<ClientSession, Refusal> {
        _ = who;
        Err(Refusal::new(code::NOT_SUPPORTED, "not yet"))
    }

    /// All sessions, as `pg_stat_activity` shows them.
    pub fn activity(&self) -> Vec<ActivityFact> {
        Vec::new()
    }
}
