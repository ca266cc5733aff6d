//! Files are read on a runtime of their own, not on the CPUs that queries were given.
//!
//! [`away`] looks which object stores a query reads and gives it a session in which these are wrapped: each request, and each
//! stream of bytes, runs on the I/O runtime and only its results reach the query. A local file arrives as a stream of large
//! pieces, too. Queries over memory keep their session; so do those with tables of unknown kinds, whose stores nobody can name
//! (their requests run on the query's CPU, their blocking reads on unpinned threads all the same).

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::MemTable;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::{TableProvider, ViewTable, source_as_provider};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry, ObjectStoreUrl};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    self, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use futures::stream::BoxStream;
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Bytes read from a local file at a time. Unmeasured.
const PIECE_BYTES: u64 = 1 << 20;

/// Pieces of a stream that may be ready before the query takes them.
const PIECES_AHEAD: usize = 2;

/// A session for this query that reads its files on `io`; `None` if it reads none, or not only ones that can be named.
pub(super) fn away(
    context: &SessionContext,
    logical: &LogicalPlan,
    io: &Handle,
) -> Result<Option<SessionContext>> {
    let mut stores = Vec::new();
    if !stores_of(logical, &mut stores)? || stores.is_empty() {
        return Ok(None);
    }
    let env = context.runtime_env();
    let registry = DefaultObjectStoreRegistry::new();
    for url in stores {
        let inner = env.object_store(&url)?;
        let io = io.clone();
        registry.register_store(url.as_ref(), Arc::new(AwayStore { inner, io }));
    }
    let env = RuntimeEnvBuilder::from_runtime_env(&env)
        .with_object_store_registry(Arc::new(registry))
        .build_arc()?;
    let state = SessionStateBuilder::new_from_existing(context.state())
        .with_session_id(context.session_id())
        .with_runtime_env(env)
        .build();
    Ok(Some(SessionContext::new_with_state(state)))
}

/// Collects the stores of all tables of files; false if a table is of an unknown kind.
fn stores_of(logical: &LogicalPlan, stores: &mut Vec<ObjectStoreUrl>) -> Result<bool> {
    let mut known = true;
    logical.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let provider = source_as_provider(&scan.source)?;
            known &= stores_of_table(provider.as_ref(), stores)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(known)
}

fn stores_of_table(table: &dyn TableProvider, stores: &mut Vec<ObjectStoreUrl>) -> Result<bool> {
    if let Some(files) = table.downcast_ref::<ListingTable>() {
        stores.extend(files.table_paths().iter().map(|path| path.object_store()));
        return Ok(true);
    }
    if let Some(view) = table.downcast_ref::<ViewTable>() {
        return stores_of(view.logical_plan(), stores);
    }
    Ok(table.is::<MemTable>() || table.is::<crate::IndexedTable>())
}

/// An object store whose requests run on another runtime.
#[derive(Debug)]
struct AwayStore {
    inner: Arc<dyn ObjectStore>,
    io: Handle,
}

impl fmt::Display for AwayStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl AwayStore {
    /// Runs a request there; it is aborted when the caller gives up.
    async fn request<T, F, R>(&self, ask: F) -> object_store::Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Arc<dyn ObjectStore>) -> R,
        R: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let mut task = JoinSet::new();
        task.spawn_on(ask(Arc::clone(&self.inner)), &self.io);
        match task.join_next().await {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => Err(failed(error)),
            None => Err(failed("no task")),
        }
    }

    /// A stream whose items are made there.
    fn stream<T: Send + 'static>(
        &self,
        items: BoxStream<'static, object_store::Result<T>>,
    ) -> BoxStream<'static, object_store::Result<T>> {
        forward(items, &self.io)
    }
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> object_store::Error {
    object_store::Error::Generic {
        store: "I/O of the coordinator",
        source: error.into(),
    }
}

/// These items, read on another runtime. Ends with an error if that is stopped, or reading panics, before their end.
fn forward<T: Send + 'static>(
    mut items: BoxStream<'static, object_store::Result<T>>,
    io: &Handle,
) -> BoxStream<'static, object_store::Result<T>> {
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    let mut task = JoinSet::new();
    task.spawn_on(
        async move {
            while let Some(item) = items.next().await {
                if sender.send(item).await.is_err() {
                    break;
                }
            }
        },
        io,
    );
    // The task lives as long as the stream that is read.
    futures::stream::unfold((receiver, task), |(mut receiver, mut task)| async move {
        let item = match receiver.recv().await {
            Some(item) => item,
            None => Err(failed(task.join_next().await?.err()?)),
        };
        Some((item, (receiver, task)))
    })
    .boxed()
}

/// The bytes of a range of a local file, piece by piece.
fn pieces(mut file: File, range: Range<u64>) -> BoxStream<'static, object_store::Result<Bytes>> {
    let positioned = file.seek(SeekFrom::Start(range.start)).map(|_| file);
    let left = range.end.saturating_sub(range.start);
    futures::stream::try_unfold((positioned, left), |(file, left)| async move {
        let mut file = file.map_err(failed)?;
        if left == 0 {
            return Ok(None);
        }
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = Vec::new();
            let count = (&mut file).take(left.min(PIECE_BYTES)).read_to_end(&mut piece)?;
            Ok::<_, std::io::Error>((file, piece, count as u64))
        });
        let (file, piece, count) = read.await.map_err(failed)?.map_err(failed)?;
        if count == 0 {
            return Err(failed("the file ends before the bytes that were asked for"));
        }
        Ok(Some((Bytes::from(piece), (Ok(file), left - count))))
    })
    .boxed()
}

#[async_trait]
impl ObjectStore for AwayStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        let location = location.clone();
        self.request(|inner| async move { inner.put_opts(&location, payload, opts).await })
            .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        let location = location.clone();
        self.request(|inner| async move { inner.put_multipart_opts(&location, opts).await })
            .await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let location = location.clone();
        let ask = |inner: Arc<dyn ObjectStore>| async move { inner.get_opts(&location, options).await };
        let mut result = self.request(ask).await?;
        let bytes = match result.payload {
            GetResultPayload::File(file, _) => pieces(file, result.range.clone()),
            GetResultPayload::Stream(bytes) => bytes,
        };
        result.payload = GetResultPayload::Stream(self.stream(bytes));
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> object_store::Result<Vec<Bytes>> {
        let (location, ranges) = (location.clone(), ranges.to_vec());
        self.request(|inner| async move { inner.get_ranges(&location, &ranges).await })
            .await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.stream(self.inner.delete_stream(locations))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.stream(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.stream(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        let prefix = prefix.cloned();
        self.request(|inner| async move { inner.list_with_delimiter(prefix.as_ref()).await })
            .await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        let (from, to) = (from.clone(), to.clone());
        self.request(|inner| async move { inner.copy_opts(&from, &to, options).await })
            .await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> object_store::Result<()> {
        let (from, to) = (from.clone(), to.clone());
        self.request(|inner| async move { inner.rename_opts(&from, &to, options).await })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream::{empty, iter, pending};
    use tokio::runtime::Runtime;

    /// What comes of two items and what follows them, read on a runtime that is stopped in between if told to.
    fn read(rest: BoxStream<'static, object_store::Result<u8>>, stopped: bool) -> Vec<Option<u8>> {
        let (io, here) = (Runtime::new().unwrap(), Runtime::new().unwrap());
        let mut items = forward(iter([Ok(1), Ok(2)]).chain(rest).boxed(), io.handle());
        let mut read = vec![here.block_on(items.next()).unwrap().ok()];
        if stopped {
            io.shutdown_background();
        }
        read.extend(here.block_on(items.map(Result::ok).collect::<Vec<_>>()));
        read
    }

    #[test]
    fn items_that_are_cut_off_are_not_taken_for_all_of_them() {
        assert_eq!(read(empty().boxed(), false), [Some(1), Some(2)]);
        let broken = futures::stream::poll_fn(|_| panic!("a store that is broken"));
        assert_eq!(read(broken.boxed(), false), [Some(1), Some(2), None]);
        assert_eq!(read(pending().boxed(), true).last(), Some(&None));
    }
}
