//! The first half: every input partition is grouped in a table that stays in its core's cache, and its records are kept by hash partition, in
//! memory or, where the pool has no room, in files.
//!
//! ```text
//! input 0 --LocalGroups--> records by partition ┐
//! input 1 --LocalGroups--> records by partition ├-> Collected, whose partitions are merged one by one (`merge`)
//!                  └ memory short: files        ┘
//! ```

use super::Spec;
use super::functions::Evaluation;
use super::look_ahead::Way;
use super::numbers::{Numbering, Numbers};
use super::texts::Known;
use crate::tasks;
use arrow::array::{ArrayRef, AsArray, FixedSizeBinaryArray, RecordBatch, UInt32Array};
use arrow::buffer::Buffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema};
use corun_exec::groups::{LocalGroups, Partitioned};
use corun_model::operators::groups::Reductions;
use datafusion::common::{exec_datafusion_err, resources_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, SpillMetrics, Time};
use datafusion::physical_plan::spill::SpillManager;
use futures::StreamExt;
use std::sync::Arc;

/// Records are kept in `1 << PARTITION_BITS` partitions. Measured (Zen 4, 4 million groups): 8 bits were best.
pub(super) const PARTITION_BITS: u32 = 8;
/// Partitions.
const PARTITIONS: usize = 1 << PARTITION_BITS;
/// Fewer rows are not worth a file. Unmeasured.
const SPILLED_ROWS_MIN: u64 = 128;
/// All inputs together unite files of one size when they have this many. Unmeasured; a process may open only so many.
const FILES_MAX: usize = 64;
/// Words of a batch in a file that small pieces are put together to. Unmeasured.
const BATCH_WORDS: usize = 4096;
/// A batch is not split below this many rows; if these do not fit, the query fails.
const ROWS_MIN: usize = 128;
/// An eighth of the records' bytes is reserved in addition, for the merging. Unmeasured.
const HEADROOM: usize = 8;

/// The records of all inputs.
pub(super) struct Collected {
    inputs: Vec<Input>,
}

/// What an input has left.
struct Input {
    records: Partitioned,
    files: Vec<Spilled>,
    /// Of the rows whose key is NULL.
    null_groups: Vec<Vec<u64>>,
    spills: SpillManager,
    /// For the records in memory.
    reservation: MemoryReservation,
}

/// Records on disk, in the order of their partitions.
struct Spilled {
    file: Option<Arc<dyn SpillFile>>,
    /// By partition.
    records: Vec<usize>,
    /// How many times its records were united with others.
    level: u32,
}

impl Spilled {
    fn open(&self, spills: &SpillManager) -> Result<Option<SpilledReader>> {
        let Some(file) = &self.file else { return Ok(None) };
        Ok(Some(SpilledReader {
            records: self.records.clone(),
            stream: spills.read_spill_as_stream(Arc::clone(file), None)?,
        }))
    }
}

/// A file of records that is read.
struct SpilledReader {
    records: Vec<usize>,
    stream: SendableRecordBatchStream,
}

impl SpilledReader {
    /// The records of the next partition, which is number `partition`.
    async fn read(&mut self, partition: usize, chunks: &mut Vec<Vec<u64>>) -> Result<()> {
        let mut left = self.records[partition];
        while left > 0 {
            let Some(batch) = self.stream.next().await else {
                return Err(exec_datafusion_err!("a file of groups has ended early"));
            };
            let batch = batch?;
            left = left.saturating_sub(batch.num_rows());
            let records = batch.column(0).as_fixed_size_binary();
            let bytes = records.value_data().chunks_exact(size_of::<u64>());
            let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
            chunks.push(bytes.map(word).collect());
        }
        Ok(())
    }
}

/// Reads all inputs to their ends, each in a task of its own.
///
/// # Errors
/// Of the inputs and expressions; no memory for a batch; no disk.
pub(super) async fn collect(
    spec: Arc<Spec>,
    way: Way,
    inputs: Vec<SendableRecordBatchStream>,
    context: Arc<TaskContext>,
    metrics: ExecutionPlanMetricsSet,
) -> Result<Collected> {
    let files_max = (FILES_MAX / inputs.len().max(1)).max(4);
    let grouping = |(number, input): (usize, _)| {
        let grouping = Grouping::new(Arc::clone(&spec), way, number, files_max, &context, &metrics);
        async move { grouping?.run(input).await }
    };
    let inputs = tasks::all(inputs.into_iter().enumerate().map(grouping)).await?;
    Ok(Collected { inputs })
}

impl Spec {
    fn local_groups(&self) -> Result<LocalGroups> {
        LocalGroups::new(self.layout.clone(), &self.options).map_err(no_memory)
    }
}

/// One input on its way into records.
struct Grouping {
    spec: Arc<Spec>,
    groups: LocalGroups,
    texts: Known,
    /// Of the keys; `None` where they are too many.
    numbers: Option<Numbers>,
    reductions: Reductions,
    reservation: MemoryReservation,
    files: Vec<Spilled>,
    /// So many files of one level are united.
    files_max: usize,
    null_groups: Vec<Vec<u64>>,
    spills: SpillManager,
    time: Time,
    /// How many times reducing the records has halved them.
    reduced: Count,
    /// Rows that were grouped by the numbers of their keys.
    numbered_rows: Count,
}

impl Grouping {
    fn new(
        spec: Arc<Spec>,
        way: Way,
        input: usize,
        files_max: usize,
        context: &TaskContext,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Grouping> {
        let consumer = MemoryConsumer::new(format!("CorunGroups[{input}]")).with_can_spill(true);
        let reservation = consumer.register(context.memory_pool());
        let record = spec.layout.record_words() * size_of::<u64>();
        let field = Field::new("record", DataType::FixedSizeBinary(record as i32), false);
        let spills = SpillManager::new(
            context.runtime_env(),
            SpillMetrics::new(metrics, input),
            Arc::new(Schema::new(vec![field])),
        )
        .with_compression_type(context.session_config().spill_compression());
        Ok(Grouping {
            groups: spec.local_groups()?,
            texts: Known::new(Arc::clone(&spec.texts)),
            numbers: spec.numbers().filter(|_| way == Way::Numbered),
            spec,
            reductions: Reductions::default(),
            reservation,
            files: Vec::new(),
            files_max,
            null_groups: Vec::new(),
            spills,
            time: MetricBuilder::new(metrics).subset_time("group_time", input),
            reduced: MetricBuilder::new(metrics).counter("reductions", input),
            numbered_rows: MetricBuilder::new(metrics).counter("numbered_rows", input),
        })
    }

    async fn run(mut self, mut input: SendableRecordBatchStream) -> Result<Input> {
        while let Some(batch) = input.next().await {
            self.push(&batch?)?;
            self.unite_files().await?;
        }
        drop(input);
        let Grouping {
            groups,
            texts,
            reservation,
            files,
            mut null_groups,
            spills,
            time,
            ..
        } = self;
        let timer = time.timer();
        let records = groups.finish().map_err(no_memory)?;
        drop(timer);
        null_groups.extend(records.null_group().map(<[u64]>::to_vec));
        // What was reserved besides is for the merging.
        reservation.try_resize(records.bytes() + texts.bytes())?;
        Ok(Input {
            records,
            files,
            null_groups,
            spills,
            reservation,
        })
    }

    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        if let Some(refused) = self.make_room(rows)? {
            if rows <= ROWS_MIN {
                return Err(refused);
            }
            let half = rows / 2;
            self.push(&batch.slice(0, half))?;
            return self.push(&batch.slice(half, rows - half));
        }
        let time = self.time.clone();
        let _timer = time.timer();
        let columns = evaluate_expressions_to_arrays(&self.spec.group_by, batch)?;
        let evaluated = self.spec.functions.evaluate(batch)?;
        if let Some(mut numbers) = self.numbers.take() {
            if self.push_numbered(&mut numbers, &columns, &evaluated)? {
                self.numbers = Some(numbers);
                return Ok(());
            }
            self.groups.number(0).map_err(no_memory)?;
        }
        let keys = self.spec.keys.encode(&columns, &mut self.texts);
        self.groups
            .push(&keys.words(), keys.valid(), &evaluated.arguments())
            .map_err(no_memory)?;
        if self.reductions.are_due(self.groups.record_bytes()) {
            self.reduce()?;
        }
        Ok(())
    }

    /// Folds rows by the numbers of their keys. `false`, and nothing is folded, where these are too many.
    fn push_numbered(
        &mut self,
        numbers: &mut Numbers,
        columns: &[ArrayRef],
        evaluated: &Evaluation,
    ) -> Result<bool> {
        match numbers.number(columns) {
            Numbering::Same => {}
            Numbering::Anew => {
                let positions = LocalGroups::bytes_of_numbers(numbers.len());
                if self.reservation.try_grow(positions).is_err() {
                    return Ok(false);
                }
                self.groups.number(numbers.len()).map_err(no_memory)?;
            }
            Numbering::TooMany => return Ok(false),
        }
        let rows = numbers.rows();
        let unknown = UInt32Array::from_iter_values(self.groups.find(rows));
        if !unknown.is_empty() {
            let columns = columns.iter().map(|column| take(column, &unknown, None));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            let keys = self.spec.keys.encode(&columns, &mut self.texts);
            if !self
                .groups
                .introduce(&keys.words(), keys.valid())
                .map_err(no_memory)?
            {
                return Ok(false);
            }
        }
        self.groups.fold(&evaluated.arguments());
        self.numbered_rows.add(rows.len());
        Ok(true)
    }

    /// Reduces the records to one a group, where there is memory for doing so. Gives the memory back, and says whether that is half of them
    /// or more.
    fn reduce(&mut self) -> Result<bool> {
        let needed = self.groups.bytes() + self.groups.bytes_to_reduce() + self.text_bytes();
        if self.reservation.size() < needed && self.reservation.try_resize(needed).is_err() {
            // So that it is not asked for again with the next batch.
            self.reductions.left(self.groups.record_bytes());
            return Ok(false);
        }
        let halved = self.groups.reduce().map_err(no_memory)?;
        self.reductions.left(self.groups.record_bytes());
        self.reservation.resize(self.groups.bytes() + self.text_bytes());
        self.reduced.add(usize::from(halved));
        Ok(halved)
    }

    /// Reserves what so many rows may take, after reducing what there is, or writing it to a file, if need be. Gives the pool's refusal if
    /// there is no room all the same.
    ///
    /// # Errors
    /// A file that cannot be written; the records are lost then.
    fn make_room(&mut self, rows: usize) -> Result<Option<DataFusionError>> {
        let texts = self.text_bytes();
        let wanted = |groups: &LocalGroups| {
            let bytes = groups.bytes() + groups.bytes_for(rows) + texts;
            bytes + bytes / HEADROOM
        };
        let bytes = wanted(&self.groups);
        if bytes <= self.reservation.size() {
            return Ok(None);
        }
        let Err(refused) = self.reservation.try_resize(bytes) else {
            return Ok(None);
        };
        if self.groups.rows() < SPILLED_ROWS_MIN {
            return Ok(Some(refused));
        }
        let reduced = self.reductions.may_help(self.groups.record_bytes()) && self.reduce()?;
        if reduced && self.reservation.try_resize(wanted(&self.groups)).is_ok() {
            return Ok(None);
        }
        self.spill()?;
        self.reductions = Reductions::default();
        Ok(self.reservation.try_resize(wanted(&self.groups)).err())
    }

    /// Bytes of texts that batches have brought: those of the last one are reserved before the next.
    fn text_bytes(&self) -> usize {
        self.texts.bytes() + self.numbers.as_ref().map_or(0, Numbers::bytes)
    }

    fn spill(&mut self) -> Result<()> {
        // A new one has a small table.
        let groups = self.spec.local_groups()?;
        self.numbers.iter_mut().for_each(Numbers::forget);
        let mut records = std::mem::replace(&mut self.groups, groups)
            .finish()
            .map_err(no_memory)?;
        self.null_groups.extend(records.null_group().map(<[u64]>::to_vec));
        let mut file = self.spills.create_in_progress_file("groups of an aggregate")?;
        let mut by_partition = Vec::with_capacity(PARTITIONS);
        for partition in 0..PARTITIONS {
            by_partition.push(self.write(records.take(partition), |batch| file.append_batch(batch))?);
        }
        self.files.push(Spilled {
            file: file.finish()?,
            records: by_partition,
            level: 0,
        });
        Ok(())
    }

    /// Has records appended, and says how many they are.
    fn write(
        &self,
        chunks: Vec<Vec<u64>>,
        mut append: impl FnMut(&RecordBatch) -> Result<usize>,
    ) -> Result<usize> {
        let record = self.spec.layout.record_words() * size_of::<u64>();
        let mut append = |chunk: Vec<u64>| -> Result<usize> {
            let values = FixedSizeBinaryArray::try_new(record as i32, Buffer::from_vec(chunk), None)?;
            let values: ArrayRef = Arc::new(values);
            let batch = RecordBatch::try_new(Arc::clone(self.spills.schema()), vec![values])?;
            append(&batch)?;
            Ok(batch.num_rows())
        };
        let (mut records, mut small) = (0, Vec::new());
        for chunk in chunks {
            if chunk.len() >= BATCH_WORDS {
                records += append(chunk)?;
                continue;
            }
            small.extend_from_slice(&chunk);
            if small.len() >= BATCH_WORDS {
                records += append(std::mem::take(&mut small))?;
            }
        }
        if !small.is_empty() {
            records += append(small)?;
        }
        Ok(records)
    }

    /// Unites the files of each level of which there are enough, so that few are open and each record is written again a few times only.
    async fn unite_files(&mut self) -> Result<()> {
        let mut level = 0;
        while self.files.iter().filter(|file| file.level == level).count() >= self.files_max {
            let of_level = |file: &mut Spilled| file.level == level;
            let files: Vec<Spilled> = self.files.extract_if(.., of_level).collect();
            let united = self.united(&files).await?;
            self.files.push(united);
            level += 1;
        }
        Ok(())
    }

    /// One file of several of a level.
    async fn united(&self, files: &[Spilled]) -> Result<Spilled> {
        let readers = files.iter().map(|file| file.open(&self.spills));
        let mut readers: Vec<Option<SpilledReader>> = readers.collect::<Result<_>>()?;
        let mut file = self.spills.create_in_progress_file("groups of an aggregate")?;
        let mut by_partition = Vec::with_capacity(PARTITIONS);
        for partition in 0..PARTITIONS {
            let mut chunks = Vec::new();
            for reader in readers.iter_mut().flatten() {
                reader.read(partition, &mut chunks).await?;
            }
            by_partition.push(self.write(chunks, |batch| file.append_batch(batch))?);
        }
        Ok(Spilled {
            file: file.finish()?,
            records: by_partition,
            level: files.iter().map(|file| file.level + 1).max().unwrap_or(0),
        })
    }
}

/// The allocator's refusal as DataFusion's error.
pub(super) fn no_memory(error: corun_exec::huge::OutOfMemory) -> DataFusionError {
    resources_datafusion_err!("there is no memory for groups: {error}")
}

impl Collected {
    /// The records of the rows whose key is NULL: of each input one, and one of each time that it spilled.
    pub(super) fn null_groups(&mut self) -> Vec<Vec<u64>> {
        let of_inputs = self.inputs.iter_mut();
        of_inputs
            .flat_map(|input| std::mem::take(&mut input.null_groups))
            .collect()
    }

    /// Reads all records, partition by partition.
    ///
    /// # Errors
    /// A file that is not readable.
    pub(super) fn read(self, record_bytes: usize) -> Result<Reader> {
        let mut files = Vec::new();
        for input in &self.inputs {
            for file in &input.files {
                files.extend(file.open(&input.spills)?);
            }
        }
        Ok(Reader {
            inputs: self.inputs,
            record_bytes,
            next: 0,
            files,
        })
    }
}

/// All records, partition by partition.
pub(super) struct Reader {
    inputs: Vec<Input>,
    record_bytes: usize,
    next: usize,
    files: Vec<SpilledReader>,
}

impl Reader {
    /// Records of the next partition, which are not read yet; `None` at the end.
    pub(super) fn next_records(&self) -> Option<usize> {
        let partition = Some(self.next).filter(|next| *next < PARTITIONS)?;
        let in_memory = self.inputs.iter().map(|input| {
            let bytes: usize = input.records.records(partition).map(size_of_val).sum();
            bytes / self.record_bytes
        });
        let in_files = self.files.iter().map(|file| file.records[partition]);
        Some(in_memory.chain(in_files).sum())
    }

    /// The next partition's records, whole ones in each piece, added to `chunks`. Their memory is the caller's from here on.
    ///
    /// # Errors
    /// A file that is not readable, or ends early.
    pub(super) async fn read(&mut self, chunks: &mut Vec<Vec<u64>>) -> Result<()> {
        let partition = self.next;
        self.next += 1;
        for input in &mut self.inputs {
            let taken = input.records.take(partition);
            let bytes: usize = taken
                .iter()
                .map(|chunk| chunk.capacity() * size_of::<u64>())
                .sum();
            input.reservation.shrink(bytes.min(input.reservation.size()));
            chunks.extend(taken);
        }
        for file in &mut self.files {
            file.read(partition, chunks).await?;
        }
        Ok(())
    }
}
