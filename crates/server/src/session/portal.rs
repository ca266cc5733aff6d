//! [`Portal`]: a statement with its parameters, and its rows as they are sent.

use super::cancel::Running;
use super::client::Prepared;
use super::error;
use super::share::Turn;
use super::values::{cells_as, cells_shown, plain};
use super::zone::Zone;
use crate::operate::Work;
use crate::short::unless;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use corun_datafusion::Submitted;
use corun_wire::error::{Refusal, code};
use corun_wire::server::{Column, ResultFormats};
use corun_wire::values::{CopyFormat, CopyOut, Format, Kind, Row, Value};
use corun_wire::{backend, build};
use datafusion::common::ScalarValue;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Bytes of messages that go to the sink at once; unmeasured.
const CHUNK_BYTES: usize = 64 << 10;

/// Bytes of one row, as PostgreSQL has them.
const ROW_BYTES_MAX: usize = 1 << 30;

/// The client has gone: nothing more can be sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// Where rows go.
pub trait Sink: Send {
    /// Takes whole messages, about 64 KiB of them, and waits where the client is slow. The future may be dropped while it waits, when the
    /// statement is cancelled: the bytes are then sent whole or not at all.
    fn chunk(&mut self, bytes: Vec<u8>) -> impl Future<Output = Result<(), Gone>> + Send;
}

/// A sink that counts.
pub(super) struct Counted<'a, S> {
    sink: &'a mut S,
    pub(super) bytes: u64,
}

impl<'a, S> Counted<'a, S> {
    pub(super) fn new(sink: &'a mut S) -> Self {
        Counted { sink, bytes: 0 }
    }
}

impl<S: Sink> Sink for Counted<'_, S> {
    async fn chunk(&mut self, bytes: Vec<u8>) -> Result<(), Gone> {
        self.bytes += bytes.len() as u64;
        self.sink.chunk(bytes).await
    }
}

/// How far a portal was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ran {
    /// To its end; the tag of CommandComplete.
    Complete(String),
    /// To as many rows as were wanted; there may be more.
    Suspended,
    /// The statement's text was empty.
    Empty,
    /// Rows of the client are awaited: [`super::ClientSession::copy_data`], and then `copy_done`.
    CopyIn {
        /// Whether they come in the binary format.
        binary: bool,
        /// How many columns they have.
        columns: u16,
    },
}

/// A statement with its parameters, and how far it was run. Dropping it ends what runs.
pub struct Portal {
    pub(super) prepared: Arc<Prepared>,
    pub(super) parameters: Vec<ScalarValue>,
    pub(super) state: State,
    /// The client's text, where the statement has parameters in the place of its literals.
    pub(super) shown: Option<Arc<str>>,
}

impl std::fmt::Debug for Portal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Portal")
            .field("prepared", &self.prepared)
            .finish_non_exhaustive()
    }
}

pub(super) enum State {
    Ready,
    Rows(Box<Rows>),
    /// All was sent, or it failed.
    Done(Tag),
}

/// Where batches come from, and the turn of the user's that they take.
pub(super) enum Source {
    Coordinated(
        Submitted,
        #[allow(dead_code, reason = "its end matters")] Option<Arc<Turn>>,
    ),
    /// The lock is never waited for: it makes a session that has cursors something that threads may share.
    Session(
        Mutex<SendableRecordBatchStream>,
        #[allow(dead_code, reason = "its end matters")] Option<Arc<Turn>>,
    ),
    /// What the session made itself.
    Made(Option<RecordBatch>),
    /// What a statement that writes returns.
    Batches(VecDeque<RecordBatch>),
}

/// What the client is told when all rows are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tag {
    /// With the number of rows.
    Counted(&'static str),
    /// The number is what the rows say (of `COPY` to a file).
    Copied,
    Plain(&'static str),
    /// Of a statement that has written.
    Text(Arc<str>),
}

/// A result that is being sent.
pub(super) struct Rows {
    pub(super) source: Source,
    pub(super) tag: Tag,
    /// The batch that is being sent, and its rows that were.
    batch: Option<(RecordBatch, usize)>,
    sent: u64,
    /// Of these, those that were counted.
    accounted: u64,
}

impl Rows {
    pub(super) fn new(source: Source, tag: Tag) -> Self {
        Rows {
            source,
            tag,
            batch: None,
            sent: 0,
            accounted: 0,
        }
    }

    /// Rows that were sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Tells what was done since the last call.
    pub(super) fn account(&mut self, work: &mut Work) {
        work.rows += self.sent - std::mem::replace(&mut self.accounted, self.sent);
        if let Source::Coordinated(query, _) = &self.source {
            work.class = Some(query.decision().class);
            if let Some(report) = query.report() {
                work.waited = Some(Duration::from_nanos(report.waited_ns));
                work.cpus = report.cpus;
            }
        }
    }

    pub(super) fn schema(&mut self) -> SchemaRef {
        match &mut self.source {
            Source::Coordinated(rows, _) => rows.schema(),
            Source::Session(rows, _) => rows.get_mut().schema(),
            Source::Made(batch) => batch
                .as_ref()
                .map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema),
            Source::Batches(batches) => batches
                .front()
                .map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema),
        }
    }

    pub(super) async fn next(&mut self, text: &str) -> Result<Option<RecordBatch>, Refusal> {
        match &mut self.source {
            Source::Coordinated(rows, _) => rows
                .next()
                .await
                .transpose()
                .map_err(|error| error::of_engine(&error, text)),
            Source::Session(rows, _) => {
                let batch = rows.get_mut().next().await.transpose();
                batch.map_err(|error| Refusal {
                    position: None,
                    ..error::refusal(&error, text)
                })
            }
            Source::Made(batch) => Ok(batch.take()),
            Source::Batches(batches) => Ok(batches.pop_front()),
        }
    }

    /// Goes on to a batch with rows that were not sent; `false`: there is none.
    async fn advance(&mut self, text: &str, limits: &Limits) -> Result<bool, Refusal> {
        loop {
            if let Some((batch, at)) = &self.batch
                && *at < batch.num_rows()
            {
                return Ok(true);
            }
            self.batch = None;
            match limits.limited(self.next(text)).await? {
                Some(batch) => self.batch = Some((batch, 0)),
                None => return Ok(false),
            }
        }
    }

    /// Sends rows until `rows_max` or the end. Returns whether the end was reached.
    pub(super) async fn send(
        &mut self,
        how: &Encoding<'_>,
        rows_max: Option<u32>,
        text: &str,
        limits: &Limits,
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<bool, Refusal> {
        let mut left = rows_max.map_or(usize::MAX, |rows| rows as usize);
        while left > 0 {
            if !self.advance(text, limits).await? {
                return Ok(true);
            }
            let Some((batch, at)) = &mut self.batch else {
                return Ok(true);
            };
            let rows = encode(batch, *at, left, how, self.sent == 0, out)?;
            *at += rows;
            left -= rows;
            self.sent += rows as u64;
            if out.len() >= CHUNK_BYTES {
                limits.flush(out, sink).await?;
            }
        }
        Ok(false)
    }

    /// Reads all rows of a statement that returns none but their number.
    pub(super) async fn count(&mut self, text: &str, limits: &Limits) -> Result<u64, Refusal> {
        let mut count = 0;
        while self.advance(text, limits).await? {
            if let Some((batch, at)) = &mut self.batch {
                use arrow::array::AsArray;
                let column = batch
                    .columns()
                    .first()
                    .and_then(|column| column.as_primitive_opt::<arrow::datatypes::UInt64Type>());
                count += column.map_or(0, |column| column.iter().flatten().sum::<u64>());
                *at = batch.num_rows();
            }
        }
        Ok(count)
    }

    pub(super) fn tag(&self, copied: u64) -> String {
        match &self.tag {
            Tag::Counted(verb) => format!("{verb} {}", self.sent),
            Tag::Copied => format!("COPY {copied}"),
            Tag::Plain(tag) => (*tag).to_owned(),
            Tag::Text(tag) => tag.as_ref().to_owned(),
        }
    }
}

/// How rows are written.
pub(super) struct Encoding<'a> {
    pub(super) zone: Zone,
    /// As the client was told of them.
    pub(super) columns: &'a [Column],
    pub(super) to: To<'a>,
}

pub(super) enum To<'a> {
    DataRows(&'a ResultFormats),
    Copy(CopyOut, CopyFormat),
}

/// Appends rows from `at` on, at most `most`, until a chunk is full. Returns how many.
fn encode(
    batch: &RecordBatch,
    at: usize,
    most: usize,
    how: &Encoding<'_>,
    first: bool,
    out: &mut Vec<u8>,
) -> Result<usize, Refusal> {
    let arrays = plain(&batch.slice(at, batch.num_rows() - at))?;
    let columns = arrays
        .iter()
        .enumerate()
        .map(|(at, array)| match how.columns.get(at) {
            Some(column) => cells_shown(array.as_ref(), column),
            None => cells_as(array.as_ref(), Kind::Unknown),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut rows = 0;
    let mut fields: Vec<(Vec<u8>, bool)> = vec![Default::default(); columns.len()];
    while rows < most.min(batch.num_rows() - at) && out.len() < CHUNK_BYTES {
        match &how.to {
            To::DataRows(formats) => {
                let mut row = Row::begin(out);
                for (index, column) in columns.iter().enumerate() {
                    match column(rows)? {
                        None => row.null(),
                        Some(value) => {
                            row.field(|out| write(&value, formats.of(index as u16), &how.zone, out))
                        }
                    }
                    if row.bytes() > ROW_BYTES_MAX {
                        return Err(too_long());
                    }
                }
                row.finish();
            }
            To::Copy(copy, format) => {
                let format = match format {
                    CopyFormat::Binary => Format::Binary,
                    CopyFormat::Text | CopyFormat::Csv => Format::Text,
                };
                let mut bytes = 0;
                for (column, (field, null)) in columns.iter().zip(&mut fields) {
                    field.clear();
                    let value = column(rows)?;
                    *null = value.is_none();
                    if let Some(value) = value {
                        write(&value, format, &how.zone, field);
                    }
                    bytes += field.len();
                    if bytes > ROW_BYTES_MAX {
                        return Err(too_long());
                    }
                }
                let fields = fields
                    .iter()
                    .map(|(field, null)| (!null).then_some(field.as_slice()));
                build::message(out, corun_wire::frontend::COPY_DATA, |out| {
                    if first && rows == 0 && copy.is_binary() {
                        copy.begin(out, std::iter::empty());
                    }
                    copy.row(out, fields);
                });
            }
        }
        rows += 1;
    }
    Ok(rows)
}

fn too_long() -> Refusal {
    let what = format!("a row has more than {ROW_BYTES_MAX} bytes");
    Refusal::new(code::PROGRAM_LIMIT, what)
}

fn write(value: &Value<'_>, format: Format, zone: &Zone, out: &mut Vec<u8>) {
    value.write(out, format, zone);
}

/// What stands before and behind the rows of a COPY. The head of a binary one is sent with the first row: drivers expect a row in each message.
pub(super) fn copy_frame<'n>(
    out: &mut Vec<u8>,
    copy: &CopyOut,
    format: CopyFormat,
    names: impl ExactSizeIterator<Item = &'n str>,
) {
    let columns = u16::try_from(names.len()).unwrap_or(u16::MAX);
    build::copy_response(out, backend::COPY_OUT, format == CopyFormat::Binary, columns);
    let mut begin = Vec::new();
    copy.begin(&mut begin, names);
    if !begin.is_empty() && format != CopyFormat::Binary {
        build::copy_data(out, &begin);
    }
}

pub(super) fn copy_end(out: &mut Vec<u8>, copy: &CopyOut, rows: u64) {
    let mut end = Vec::new();
    if rows == 0 && copy.is_binary() {
        copy.begin(&mut end, std::iter::empty());
    }
    copy.end(&mut end);
    if !end.is_empty() {
        build::copy_data(out, &end);
    }
    build::bare(out, corun_wire::frontend::COPY_DONE);
}

/// What ends a statement that takes too long, or that somebody cancels.
pub(super) struct Limits {
    running: Running,
    until: Option<Instant>,
}

impl Limits {
    pub(super) fn new(running: Running, timeout: Option<Duration>) -> Self {
        Limits {
            running,
            until: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        }
    }

    async fn over(&self) -> Refusal {
        match self.until {
            None => self.running.cancelled().await,
            Some(until) => tokio::select! {
                refusal = self.running.cancelled() => refusal,
                () = tokio::time::sleep_until(until) => {
                    Refusal::new(code::QUERY_CANCELED, "canceling statement due to statement timeout")
                }
            },
        }
    }

    /// What `work` returns, unless the time is over before.
    pub(super) async fn limited<T>(
        &self,
        work: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        if self.running.is_cancelled() {
            return Err(self.over().await);
        }
        unless(work, async { Err(self.over().await) }).await
    }

    /// Hands what was written to the sink.
    pub(super) async fn flush(&self, out: &mut Vec<u8>, sink: &mut impl Sink) -> Result<(), Refusal> {
        if out.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(out);
        let sent = async {
            let gone = |Gone| Refusal::new(code::CONNECTION_FAILURE, "the client has gone");
            sink.chunk(chunk).await.map_err(gone)
        };
        self.limited(sent).await
    }
}
