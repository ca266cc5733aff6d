//! The build side: collect the left input, encode its keys, build the table, copy the columns that are needed.
//!
//! ```text
//! left partitions --tasks--> batches --encode--> codes --exec--> JoinTable ┐
//!        (memory reserved as they arrive)  └--concat needed columns------- ├-> BuildSide, shared by all probe streams
//!                                                                          ┘
//! ```
//!
//! When input or table do not fit the memory pool, the input is given back ([`Build::TooLarge`]), for files. Where the join may not use files, the
//! batches are handed to the stock join instead ([`Build::Stock`]), which then either fits or reports the pool's error. This module does not probe.

use super::collect::{Collected, collect};
use super::keys::{Encoded, KeyEncoder, is_integer_like};
use super::lookup;
use super::output::Columns;
use crate::CorunOptions;
use crate::again::again_in_parts;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, SchemaRef};
use corun_exec::table::{self, BuildError, JoinTable, matches_bytes_max};
use corun_exec::{Chunk, ScopedThreads, Serial, Visited, Workers};
use corun_model::cache::reuse::Reuse;
use datafusion::common::{
    NullEquality, exec_datafusion_err, internal_datafusion_err, resources_datafusion_err,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::{PhysicalExprRef, expressions::Column};
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::metrics::{Count, Gauge, Time};
use parking_lot::Mutex;
use std::num::NonZero;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Builds of fewer rows run where they are polled; larger ones [`beside`] it.
const INLINE_ROWS_MAX: usize = 64 << 10;

/// A build of less than this part of a memory pool is small. Unmeasured.
const SMALL_BUILDS: usize = 32;

/// What comes of a build side for which there is no memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// Its batches go to the stock join, if they fit.
    ToStockJoin,
    /// It goes to files.
    ToFiles,
    /// It comes from files, and is split further.
    ToMoreFiles,
    /// It comes from files, and is at most a batch: the query fails.
    Fails,
}

impl Overflow {
    fn is_written(self) -> bool {
        matches!(self, Overflow::ToFiles | Overflow::ToMoreFiles)
    }
}

/// What a build needs to know; the same for all partitions of a join.
#[derive(Clone)]
pub struct BuildSpec {
    /// Key expressions over the left schema.
    pub on_left: Vec<PhysicalExprRef>,
    /// Schema of the left input.
    pub schema: SchemaRef,
    /// Left columns that output or residual filter read.
    pub needed: Vec<bool>,
    /// Whether NULL keys match.
    pub null_equality: NullEquality,
    /// Whether build rows must remember that they met a partner.
    pub track_visited: bool,
    /// Whether probe rows, here or further below, only ask if they have a partner.
    pub asks_matches: bool,
    /// Whether the NULLs of the build key matter after probing (`NOT IN`).
    pub null_aware: bool,
    /// Probe streams that will share the table.
    pub probe_streams: usize,
    /// Tables the join builds: one a hash partition, or one in all.
    pub builds: usize,
    /// Threads a build may use.
    pub threads: usize,
    /// The session's choices and cache sizes.
    pub corun: CorunOptions,
    /// What comes of rows and table for which there is no memory, or that take more than `bytes_max`.
    pub overflow: Overflow,
    /// Bytes that rows and table may take, where the rows may go to files.
    pub bytes_max: usize,
    /// The filter to tell the probe side's scan about the keys, when somebody there reads it.
    pub dynamic: Option<Arc<lookup::FilterSink>>,
}

/// Metrics of the build phase.
#[derive(Clone)]
pub struct BuildMetrics {
    /// Time from the first input batch to the finished table.
    pub time: Time,
    /// Input batches.
    pub batches: Count,
    /// Input rows.
    pub rows: Count,
    /// Bytes reserved.
    pub bytes: Gauge,
    /// Bytes that probes come back to: the table, the columns they gather from, the marks of rows met.
    pub reused: Gauge,
}

/// Rows a build is spread over threads from.
pub const PARALLEL_FROM_ROWS: usize = INLINE_ROWS_MAX + 1;

/// The finished build side. Probe streams share it.
pub struct BuildSide {
    /// Code to build rows.
    pub table: JoinTable,
    /// How probe keys become codes.
    pub keys: KeyEncoder,
    /// Left columns, one array each; `None` where nothing reads the column.
    pub columns: Vec<Option<ArrayRef>>,
    /// Key columns, where matches are verified.
    pub key_values: Vec<ArrayRef>,
    /// NULLs of the build keys where they matter after probing.
    pub key_nulls: Option<NullBuffer>,
    /// Rows, those with NULL keys included.
    pub rows: usize,
    /// Build rows that met a partner, where the join type needs it.
    pub visited: Option<Visited>,
    /// Null-aware anti join: some probe row was seen.
    pub probe_non_empty: AtomicBool,
    /// Null-aware anti join: some probe key was NULL.
    pub probe_has_null: AtomicBool,
    /// Whether the lines of table and columns are worth a place in the outer caches.
    pub reuse: Reuse,
    streams_left: AtomicUsize,
    _reservation: MemoryReservation,
}

impl BuildSide {
    /// The left columns, as output rows are read from them.
    pub fn columns(&self) -> Columns<'_> {
        Columns {
            arrays: &self.columns,
            reuse: self.reuse,
        }
    }

    /// Called once by each probe stream at its end; true for the last.
    pub fn probe_completed(&self) -> bool {
        // Acquire and release: the last stream reads what the others marked in `visited`.
        self.streams_left.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// Outcome of a build.
pub enum Build {
    /// corun's table.
    Table(Arc<BuildSide>),
    /// The batches, for the stock join.
    Stock(Vec<RecordBatch>),
    /// The input from its beginning, for which there is no memory.
    TooLarge(Vec<SendableRecordBatchStream>),
}

/// Collects the left input and builds its table.
///
/// # Errors
/// Errors of the input, of key expressions, and of the pool when not even the input fits and may not go to files.
pub async fn build(
    spec: Arc<BuildSpec>,
    streams: Vec<SendableRecordBatchStream>,
    pool: Arc<dyn MemoryPool>,
    metrics: BuildMetrics,
) -> Result<Build> {
    let bytes_max = match spec.overflow {
        Overflow::ToFiles => spec.bytes_max.min(share_of(&pool)),
        Overflow::ToMoreFiles => spec.bytes_max,
        Overflow::ToStockJoin | Overflow::Fails => usize::MAX,
    };
    // A fair pool keeps a share for everybody who may spill, whatever operators above a join of files take.
    let of_files = matches!(spec.overflow, Overflow::ToMoreFiles | Overflow::Fails);
    let consumer = MemoryConsumer::new("CorunJoinInput").with_can_spill(of_files);
    let reservation = consumer.register(&pool);
    let (batches, reservation) = match collect(streams, reservation, bytes_max, &metrics).await? {
        Collected::All(batches, reservation) => (batches, reservation),
        Collected::TooLarge(inputs, _) if spec.overflow.is_written() => return Ok(Build::TooLarge(inputs)),
        Collected::TooLarge(_, refused) => return Err(refused),
    };
    let timer = metrics.time.clone();
    let cancel = CancelOnDrop::default();
    let flag = Arc::clone(&cancel.0);
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let work = move || {
        let _timer = timer.timer();
        finish(&spec, batches, reservation, bytes_max, &metrics, &flag)
    };
    let done = if rows <= INLINE_ROWS_MAX {
        work()
    } else {
        beside(work).await?
    };
    drop(cancel);
    done
}

/// Runs long work on a thread of its own, so that the runtime's goes on with other tasks. It is started from there and not taken from a
/// pool, so that it keeps that thread's CPUs and its class of the last-level cache, those of the query where a coordinator runs it.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (done, ended) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("corun-build".to_owned());
    thread
        .spawn(move || {
            let result = std::panic::catch_unwind(AssertUnwindSafe(work));
            // Nobody waits for the work of a query that was cancelled.
            let _cancelled = done.send(result);
        })
        .map_err(|error| {
            resources_datafusion_err!("there is no thread for the build of a join table: {error}")
        })?;
    match ended.await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(_) => Err(exec_datafusion_err!(
            "the build of a join table ended without a result"
        )),
    }
}

/// Raises its flag when the future that waits for a build is dropped, so that the build's thread stops soon.
#[derive(Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a build may take of the pool: half of what is free, as the operators above and joins beside need memory, too; a small one as much as
/// there is.
fn share_of(pool: &Arc<dyn MemoryPool>) -> usize {
    match pool.memory_limit() {
        MemoryLimit::Finite(limit) => (limit.saturating_sub(pool.reserved()) / 2).max(limit / SMALL_BUILDS),
        MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
    }
}

/// Everything after the input has arrived.
fn finish(
    spec: &BuildSpec,
    batches: Vec<RecordBatch>,
    reservation: MemoryReservation,
    bytes_max: usize,
    metrics: &BuildMetrics,
    cancel: &AtomicBool,
) -> Result<Build> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let input_bytes = reservation.size();
    let too_large = |batches: Vec<RecordBatch>, reservation: MemoryReservation| {
        if !spec.overflow.is_written() {
            return Build::Stock(batches);
        }
        reservation.resize(input_bytes);
        metrics.bytes.sub(input_bytes);
        Build::TooLarge(again_in_parts(&spec.schema, &batches, reservation, spec.threads))
    };
    if rows > table::ROW_MAX as usize {
        return Ok(too_large(batches, reservation));
    }
    let key_batches = batches
        .iter()
        .map(|batch| evaluate_expressions_to_arrays(&spec.on_left, batch))
        .collect::<Result<Vec<_>>>()?;
    let keys = KeyEncoder::choose(&key_batches, spec.null_equality);
    let threads: &dyn Workers = if rows <= INLINE_ROWS_MAX {
        &Serial
    } else {
        // No more than the CPUs this thread may run on.
        &ScopedThreads(
            spec.threads
                .min(std::thread::available_parallelism().map_or(1, NonZero::get)),
        )
    };
    // Codes of integers borrow their column; others are memory of ours.
    let borrowed = borrows_codes(&keys, &key_batches);
    let code_bytes = if borrowed { 0 } else { rows * 8 };
    let visited_bytes = if spec.track_visited {
        Visited::bytes_of(rows)
    } else {
        0
    };
    let calibration = crate::calibration::for_work(&spec.corun, rows);
    let options = crate::caches::build_options(&spec.corun, calibration);
    let matches_bytes = matches_bytes_max(rows, &options);
    let verified = !keys.is_exact() || spec.null_aware;
    let table_bytes =
        table::bytes_max(rows, threads.threads(), &options) + code_bytes + visited_bytes + matches_bytes;
    let copied_bytes = copied_bytes(spec, &batches, &key_batches, verified);
    let building = table_bytes + copied_bytes;
    let too_many = input_bytes.saturating_add(building) > bytes_max;
    if rows > 0 && (too_many || reservation.try_grow(building).is_err()) {
        tracing::info!(
            rows,
            bytes = building,
            "a join table does not fit the memory pool"
        );
        return Ok(too_large(batches, reservation));
    }
    let encoded = encode(&keys, &key_batches, threads)?;
    let mut first_row = 0u32;
    let chunks: Vec<Chunk<'_>> = encoded
        .iter()
        .zip(&batches)
        .map(|(encoded, batch)| {
            let chunk = Chunk {
                codes: encoded.codes(),
                valid: encoded.validity(),
                first_row,
            };
            first_row += batch.num_rows() as u32;
            chunk
        })
        .collect();
    let built = JoinTable::build(&chunks, &options, threads, cancel).and_then(|mut table| {
        table.prepare_matches(spec.asks_matches, &options)?;
        Ok(table)
    });
    let mut table = match built {
        Ok(table) => table,
        Err(BuildError::OutOfMemory(_) | BuildError::TooManyRows { .. }) => {
            return Ok(too_large(batches, reservation));
        }
        Err(error @ BuildError::Cancelled) => return Err(DataFusionError::Execution(error.to_string())),
        Err(error) => return Err(resources_datafusion_err!("{error}")),
    };
    drop(chunks);
    drop(encoded);
    let kept = table.bytes() + visited_bytes;
    if rows > 0 {
        reservation.shrink(table_bytes.saturating_sub(kept));
        metrics.bytes.add(kept);
    }
    let columns = concat_needed(spec, &batches, threads)?;
    let payload = columns
        .iter()
        .flatten()
        .map(|column| column.get_array_memory_size());
    let structure = table.bytes() + payload.sum::<usize>();
    let reuse = crate::caches::reuse(&spec.corun, structure.saturating_mul(spec.builds));
    table.set_reuse(reuse);
    let key_values = if verified {
        concat_keys(spec, &key_batches, &columns)?
    } else {
        Vec::new()
    };
    let reused = kept + columns_bytes(&columns, &key_values);
    metrics.reused.add(reused);
    if batches.len() > 1 {
        // The copy is there, and the batches go.
        metrics.bytes.sub(input_bytes);
        metrics.bytes.add(copied_bytes);
    }
    let key_nulls = if spec.null_aware {
        key_values.first().and_then(|key| key.logical_nulls())
    } else {
        None
    };
    if batches.len() > 1 {
        drop(batches);
        reservation.shrink(input_bytes);
    }
    let side = Arc::new(BuildSide {
        visited: spec.track_visited.then(|| Visited::new(rows)),
        table,
        keys,
        columns,
        key_values,
        key_nulls,
        rows,
        reuse,
        probe_non_empty: AtomicBool::new(false),
        probe_has_null: AtomicBool::new(false),
        streams_left: AtomicUsize::new(spec.probe_streams),
        _reservation: reservation,
    });
    if let Some(dynamic) = &spec.dynamic {
        dynamic.publish(&side, &key_batches)?;
    }
    Ok(Build::Table(side))
}

/// Whether codes are the values of their column.
fn borrows_codes(keys: &KeyEncoder, key_batches: &[Vec<ArrayRef>]) -> bool {
    let is_integer = |columns: &Vec<ArrayRef>| is_integer_like(columns[0].data_type());
    matches!(keys, KeyEncoder::Number) && key_batches.first().is_some_and(is_integer)
}

/// Codes of all batches; making them is spread over the threads.
fn encode(keys: &KeyEncoder, key_batches: &[Vec<ArrayRef>], threads: &dyn Workers) -> Result<Vec<Encoded>> {
    if borrows_codes(keys, key_batches) || threads.threads() == 1 {
        return key_batches.iter().map(|columns| keys.encode(columns)).collect();
    }
    in_parallel(key_batches.len(), threads, |batch| {
        keys.encode(&key_batches[batch])
    })
}

/// Bytes of the columns that are copied to be one array each: none of a single batch.
fn copied_bytes(
    spec: &BuildSpec,
    batches: &[RecordBatch],
    key_batches: &[Vec<ArrayRef>],
    with_keys: bool,
) -> usize {
    if batches.len() < 2 {
        return 0;
    }
    let needed = |batch: &RecordBatch| -> usize {
        let columns = batch.columns().iter().zip(&spec.needed);
        columns
            .filter(|(_, needed)| **needed)
            .map(|(column, _)| row_bytes(column))
            .sum()
    };
    let columns: usize = batches.iter().map(needed).sum();
    let is_copied = |expression: &PhysicalExprRef| {
        let column = expression.downcast_ref::<Column>();
        !column.is_some_and(|column| spec.needed[column.index()])
    };
    let copied = spec
        .on_left
        .iter()
        .map(|expression| with_keys && is_copied(expression));
    let copied: Vec<bool> = copied.collect();
    let keys = key_batches.iter().flat_map(|keys| keys.iter().zip(&copied));
    columns
        + keys
            .filter(|(_, copied)| **copied)
            .map(|(key, _)| row_bytes(key))
            .sum::<usize>()
}

/// One array for each needed left column.
fn concat_needed(
    spec: &BuildSpec,
    batches: &[RecordBatch],
    threads: &dyn Workers,
) -> Result<Vec<Option<ArrayRef>>> {
    in_parallel(spec.needed.len(), threads, |column| {
        if !spec.needed[column] {
            return Ok(None);
        }
        match batches {
            [] => Ok(Some(arrow::array::new_empty_array(
                spec.schema.field(column).data_type(),
            ))),
            [only] => Ok(Some(Arc::clone(only.column(column)))),
            several => {
                let parts: Vec<&dyn Array> = several
                    .iter()
                    .map(|batch| batch.column(column).as_ref())
                    .collect();
                Ok(Some(compact_views(concat(&parts)?)))
            }
        }
    })
}

/// Bytes of the rows of these arrays, each array counted once.
fn columns_bytes(columns: &[Option<ArrayRef>], key_values: &[ArrayRef]) -> usize {
    let columns = columns.iter().flatten();
    let own_keys = key_values
        .iter()
        .filter(|key| !columns.clone().any(|column| Arc::ptr_eq(column, key)));
    columns.clone().chain(own_keys).map(row_bytes).sum()
}

/// Bytes that the rows of an array take: of slices their part, of views the bytes they point to and not the buffers.
pub fn row_bytes(array: &ArrayRef) -> usize {
    let nulls = array.nulls().map_or(0, |_| array.len().div_ceil(8));
    match array.data_type() {
        DataType::Utf8View => array.len() * 16 + array.as_string_view().total_buffer_bytes_used() + nulls,
        DataType::BinaryView => array.len() * 16 + array.as_binary_view().total_buffer_bytes_used() + nulls,
        _ => array
            .to_data()
            .get_slice_memory_size()
            .unwrap_or_else(|_| array.get_array_memory_size()),
    }
}

/// More data buffers than this behind a view column are copied into few: every batch made from the column would
/// otherwise carry (and count references of) all of them. Unmeasured between 16 and 1,000.
const VIEW_BUFFERS_MAX: usize = 64;

/// A string or binary view column with its bytes in few buffers.
fn compact_views(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View if column.as_string_view().data_buffers().len() > VIEW_BUFFERS_MAX => {
            Arc::new(column.as_string_view().gc())
        }
        DataType::BinaryView if column.as_binary_view().data_buffers().len() > VIEW_BUFFERS_MAX => {
            Arc::new(column.as_binary_view().gc())
        }
        _ => column,
    }
}

/// One array for each key expression, taken from `columns` where the key is a column that is there already.
fn concat_keys(
    spec: &BuildSpec,
    key_batches: &[Vec<ArrayRef>],
    columns: &[Option<ArrayRef>],
) -> Result<Vec<ArrayRef>> {
    let mut keys = Vec::with_capacity(spec.on_left.len());
    for (index, expression) in spec.on_left.iter().enumerate() {
        let there = expression
            .downcast_ref::<Column>()
            .and_then(|column| columns[column.index()].clone());
        keys.push(match (there, key_batches) {
            (Some(array), _) => array,
            (None, []) => arrow::array::new_empty_array(&expression.data_type(&spec.schema)?),
            (None, [only]) => Arc::clone(&only[index]),
            (None, several) => {
                let parts: Vec<&dyn Array> = several.iter().map(|arrays| arrays[index].as_ref()).collect();
                concat(&parts)?
            }
        });
    }
    Ok(keys)
}

/// `task(0..n)` on the threads; results in order, the first error wins.
fn in_parallel<T: Send>(
    n: usize,
    threads: &dyn Workers,
    task: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let slots: Vec<Mutex<Option<Result<T>>>> = (0..n).map(|_| Mutex::new(None)).collect();
    threads.run(n, &|index| *slots[index].lock() = Some(task(index)));
    slots
        .into_iter()
        .map(|slot| {
            slot.into_inner()
                .unwrap_or_else(|| Err(internal_datafusion_err!("a build task did not run")))
        })
        .collect()
}

/// The dynamic filter of a join, if it carries one.
pub type DynamicFilter = Arc<DynamicFilterPhysicalExpr>;

#[cfg(test)]
mod tests {
    use super::*;
    use corun_topology::affinity::{allowed_cpus, pin};

    #[test]
    fn a_build_stays_on_the_cpus_of_the_thread_that_waits_for_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let cpus = || allowed_cpus().unwrap();
        let all = cpus();
        let pinned = pin(all[0]).unwrap();
        assert_eq!(runtime.block_on(beside(cpus)).unwrap(), all[..1]);
        drop(pinned);
        assert_eq!(runtime.block_on(beside(cpus)).unwrap(), all);
    }

    #[test]
    fn a_panic_of_a_build_is_one_of_its_query() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let panicked = std::panic::catch_unwind(|| runtime.block_on(beside(|| panic!("on purpose"))));
        assert!(panicked.is_err());
    }
}
