//! A worker: it takes stages from coordinators and other workers, and gives them their rows.

use crate::channels::{CONNECTION_WINDOW, Channels, PING_EVERY, PONG_MAX, STREAM_WINDOW};
use crate::codec::ExpandCodec;
use crate::stage::Stages;
use crate::tls::Tls;
use crate::{VERSION, settings};
use corun_datafusion::{CorunOptions, EngineError, memory_limited};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_distributed::{DistributedExt, WorkerQueryContext};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// How long statements that run when a worker is told to stop have to end.
const STOP_MAX: Duration = Duration::from_secs(10);

/// What a worker may do, and for whom.
#[derive(Debug, Clone, Default)]
pub struct WorkerOptions {
    /// Folders whose files it reads; plans name files by their paths, which are the same on all machines.
    pub folders: Vec<PathBuf>,
    /// Bytes all stages may hold together; `None`: unlimited.
    pub memory_limit_bytes: Option<usize>,
    /// Its certificate. Whoever connects shows one of the same authority. `None`: everyone who reaches it is served.
    pub tls: Option<Tls>,
}

/// A process that runs stages.
pub struct Worker {
    runtime: Arc<RuntimeEnv>,
    session: SessionOptions,
    tls: Option<Tls>,
}

/// What every stage's session has.
#[derive(Clone)]
struct SessionOptions {
    folders: Arc<[PathBuf]>,
    channels: Channels,
    is_limited: bool,
}

impl Worker {
    /// A worker that serves nobody yet.
    ///
    /// # Errors
    /// No folder, or one that is not there.
    pub fn new(options: &WorkerOptions) -> Result<Worker, EngineError> {
        if options.folders.is_empty() {
            return Err(EngineError::new("a worker needs folders to read files of"));
        }
        let real = |folder: &PathBuf| {
            let found = folder.canonicalize().map_err(|error| error.to_string());
            let found = found.and_then(|real| match real.is_dir() {
                true => Ok(real),
                false => Err("it is a file".to_owned()),
            });
            found.map_err(|cause| {
                EngineError::new(format!("cannot read the folder {}", folder.display())).with_detail(cause)
            })
        };
        let folders: Vec<PathBuf> = options.folders.iter().map(real).collect::<Result<_, _>>()?;
        Ok(Worker {
            runtime: memory_limited(options.memory_limit_bytes)?,
            session: SessionOptions {
                folders: folders.into(),
                channels: Channels::new(options.tls.clone()),
                is_limited: options.memory_limit_bytes.is_some(),
            },
            tls: options.tls.clone(),
        })
    }

    /// Serves until `stop` ends, and then at most ten seconds longer, for statements under way.
    ///
    /// # Errors
    /// A certificate that cannot be used; a listener that ends.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), EngineError> {
        let session = self.session;
        let worker =
            datafusion_distributed::Worker::from_session_builder(move |query: WorkerQueryContext| {
                let session = session.clone();
                async move { session.build(query) }
            })
            .with_runtime_env(self.runtime)
            .with_version(VERSION);
        let mut server = Server::builder()
            .http2_keepalive_interval(Some(PING_EVERY))
            .http2_keepalive_timeout(Some(PONG_MAX))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        if let Some(tls) = &self.tls {
            server = server.tls_config(tls.server()).map_err(|error| {
                EngineError::new("cannot use the certificate").with_detail(error.to_string())
            })?;
        }
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let (stopping, stopped) = oneshot::channel();
        let stop = async move {
            stop.await;
            _ = stopping.send(());
        };
        let serving = server
            .add_service(worker.into_worker_server())
            .serve_with_incoming_shutdown(incoming, stop);
        let late = async {
            match stopped.await {
                Ok(()) => tokio::time::sleep(STOP_MAX).await,
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            served = serving => served
                .map_err(|error| EngineError::new("cannot serve any longer").with_detail(error.to_string())),
            () = late => Ok(()),
        }
    }
}

impl SessionOptions {
    /// The session of one stage.
    fn build(&self, query: WorkerQueryContext) -> Result<SessionState, DataFusionError> {
        let mut builder = query.builder;
        let config = builder.config().get_or_insert_default();
        config.options_mut().extensions.insert(CorunOptions::default());
        if self.is_limited {
            corun_datafusion::set_for_memory_limit(config)?;
        }
        settings::from_headers(&query.headers, config)?;
        let state = builder
            .with_distributed_channel_resolver(self.channels.clone())
            .with_distributed_user_codec(ExpandCodec)
            .with_distributed_worker_plan_rewrite_handler(Stages {
                folders: Arc::clone(&self.folders),
            });
        Ok(state.build())
    }
}
