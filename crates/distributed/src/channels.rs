//! Connections to workers: made once, kept alive, and only to workers of this version.

use crate::tls::Tls;
use crate::{VERSION, address, loss};
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::exec_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::HeaderMap;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use url::Url;

/// How long a worker has to accept a connection and say what it is.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How often a connection asks whether the other end is there, and how long that has to answer.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(5);
pub(crate) const PONG_MAX: Duration = Duration::from_secs(10);
/// Bytes on the way of one stream, and of one connection. Unmeasured beyond loopback.
pub(crate) const STREAM_WINDOW: u32 = 4 << 20;
pub(crate) const CONNECTION_WINDOW: u32 = 32 << 20;

type Connecting = Arc<OnceCell<BoxCloneSyncChannel>>;

/// The connections of one process; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Channels {
    tls: Option<Tls>,
    /// By worker; guarded by the mutex, which nobody holds while a connection is made.
    made: Arc<Mutex<HashMap<Url, Connecting>>>,
}

impl Channels {
    pub(crate) fn new(tls: Option<Tls>) -> Channels {
        Channels {
            tls,
            made: Arc::default(),
        }
    }

    /// Asks a worker whether it is there, over a new connection, which the next uses then have.
    ///
    /// # Errors
    /// It is not, or has another version.
    pub(crate) async fn ask(&self, url: &Url) -> Result<()> {
        self.made.lock().remove(url);
        self.channel(url).await.map(drop)
    }

    async fn channel(&self, url: &Url) -> Result<BoxCloneSyncChannel> {
        let connecting = Arc::clone(self.made.lock().entry(url.clone()).or_default());
        connecting
            .get_or_try_init(|| async { self.connect(url).await })
            .await
            .cloned()
    }

    async fn connect(&self, url: &Url) -> Result<BoxCloneSyncChannel> {
        let address = address::of_url(url);
        let endpoint = self
            .endpoint(url)
            .map_err(|error| loss::lost(&address, causes(&error)))?;
        let connecting = async {
            let channel: Channel = endpoint
                .connect()
                .await
                .map_err(|error| loss::lost(&address, causes(&error)))?;
            let channel = BoxCloneSyncChannel::new(channel);
            let mut worker = create_worker_client(channel.clone());
            let info = worker.get_worker_info(GetWorkerInfoRequest {}).await;
            let info = info.map_err(|error| loss::of_worker(&address, error))?;
            Ok((channel, info.version))
        };
        let (channel, version) = timeout(CONNECT_MAX, connecting)
            .await
            .unwrap_or_else(|_| Err(loss::lost(&address, "it does not answer")))?;
        if version != VERSION {
            let theirs = if version.is_empty() {
                "another program"
            } else {
                &version
            };
            return exec_err!("worker {address} has another version: it is {theirs}, this is {VERSION}");
        }
        Ok(channel)
    }

    fn endpoint(&self, url: &Url) -> Result<Endpoint, tonic::transport::Error> {
        let endpoint = Endpoint::from_shared(url.to_string())?
            .connect_timeout(CONNECT_MAX)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PONG_MAX)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        match &self.tls {
            Some(tls) => endpoint.tls_config(tls.client()),
            None => Ok(endpoint),
        }
    }
}

/// An error with its causes, of which the first alone says nothing ("transport error").
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let channel = self.channel(url).await?;
        Ok(Box::new(NamedChannel {
            inner: create_worker_client(channel),
            address: address::of_url(url).into(),
        }))
    }
}

/// A connection whose errors say whose they are.
struct NamedChannel {
    inner: Box<dyn WorkerChannel>,
    address: Arc<str>,
}

impl NamedChannel {
    /// A stream with named errors.
    fn named<T: Send + 'static>(
        &self,
        stream: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let address = Arc::clone(&self.address);
        stream
            .map(move |item| item.map_err(|error| loss::of_worker(&address, error)))
            .boxed()
    }
}

#[async_trait]
impl WorkerChannel for NamedChannel {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        set_plan_request: SetPlanRequest,
        c2w_stream: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        task_ctx: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>, DataFusionError> {
        let stream = self
            .inner
            .coordinator_channel(headers, set_plan_request, c2w_stream, metrics, task_ctx)
            .await
            .map_err(|error| loss::of_worker(&self.address, error))?;
        Ok(self.named(stream))
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        task_ctx: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>, DataFusionError> {
        let streams = self
            .inner
            .execute_task(headers, request, metrics, task_ctx)
            .await
            .map_err(|error| loss::of_worker(&self.address, error))?;
        Ok(streams.into_iter().map(|stream| self.named(stream)).collect())
    }

    async fn get_worker_info(
        &mut self,
        request: GetWorkerInfoRequest,
    ) -> Result<GetWorkerInfoResponse, DataFusionError> {
        let info = self.inner.get_worker_info(request).await;
        info.map_err(|error| loss::of_worker(&self.address, error))
    }
}
