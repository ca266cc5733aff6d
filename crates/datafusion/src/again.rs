//! Rows that were read already, as if they had not been.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt, stream};
use std::sync::Arc;
use std::task::Poll;

/// A stream of `batches`, and of the `rest` behind them. `memory`, that of the batches, is dropped once all of them were given.
pub(crate) fn again(
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    memory: impl Send + Unpin + 'static,
    rest: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
) -> SendableRecordBatchStream {
    let mut batches = batches.into_iter();
    let mut memory = Some(memory);
    let read = stream::poll_fn(move |_| {
        let batch = batches.next();
        if batch.is_none() {
            drop(memory.take());
        }
        Poll::Ready(batch.map(Ok))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, read.chain(rest)))
}

/// The same batches as at most `parts` streams; their `memory` is dropped once all were given.
pub(crate) fn again_in_parts(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    memory: impl Send + Sync + 'static,
    parts: usize,
) -> Vec<SendableRecordBatchStream> {
    let memory = Arc::new(memory);
    let length = batches.len().div_ceil(parts.max(1)).max(1);
    let part = |part: &[RecordBatch]| {
        let schema = Arc::clone(schema);
        again(schema, part.to_vec(), Arc::clone(&memory), stream::empty())
    };
    batches.chunks(length).map(part).collect()
}
