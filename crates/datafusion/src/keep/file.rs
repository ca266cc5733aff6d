//! A file of a scan: which of its row groups are taken from memory, which are read and kept, and which DataFusion reads alone.

use super::columns::{Batches, Column, Found};
use super::source::Keep;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ParquetOptions;
use datafusion::common::{ScalarValue, internal_datafusion_err, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    BloomFilterStatistics, PagePruningAccessPlanFilter, ParquetAccessPlan, RowGroupAccess,
    RowGroupAccessPlanFilter, apply_file_schema_type_coercions,
};
use datafusion::datasource::physical_plan::{
    FileScanConfigBuilder, FileSource, ParquetFileMetrics, ParquetFileReaderFactory, ParquetSource,
};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectStore;
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::arrow::{ParquetRecordBatchStreamBuilder, parquet_column, parquet_to_arrow_schema};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::simplifier::PhysicalExprSimplifier;
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapterFactory, replace_columns_with_literals,
};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::time::Instant;

/// What all files of a partition's scan have in common.
pub(super) struct Scan {
    /// Reads files as if nothing were kept.
    pub(super) stock: Arc<dyn Morselizer>,
    /// The same source, for whole columns.
    pub(super) without_conditions: ParquetSource,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) store_url: ObjectStoreUrl,
    pub(super) readers: Arc<dyn ParquetFileReaderFactory>,
    /// Rows that do not meet this are not wanted, and dropped above the scan where they are given nevertheless.
    pub(super) predicate: Option<Arc<dyn PhysicalExpr>>,
    pub(super) table: TableSchema,
    /// The file's columns that are read, by their places in the file's schema as the table has it, in order.
    pub(super) needed: Vec<usize>,
    /// The table's column for each column of a batch.
    pub(super) outputs: Vec<usize>,
    pub(super) schema: SchemaRef,
    pub(super) options: ParquetOptions,
    pub(super) batch_size: usize,
    pub(super) partition: usize,
    pub(super) keep: Keep,
    /// Columns of row groups that were there.
    pub(super) taken: Count,
    /// Columns of row groups that will be there.
    pub(super) kept: Count,
}

/// A file before anything of it is known.
pub(super) struct FilePlanner {
    scan: Arc<Scan>,
    file: PartitionedFile,
    number: u64,
}

/// What is left to do of a file.
struct Rest {
    scan: Arc<Scan>,
    file: PartitionedFile,
    metadata: Arc<ParquetMetaData>,
    conditions: Option<Conditions>,
    steps: VecDeque<Step>,
}

/// How the next rows are had.
enum Step {
    /// DataFusion reads these row groups.
    Read(Vec<usize>),
    /// Columns of this one are taken from memory.
    Take(Group),
}

/// A row group of which columns are kept or to be kept; of each that is needed, in their order.
struct Group {
    index: usize,
    rows: usize,
    file: u64,
    found: Vec<Found>,
}

impl Debug for FilePlanner {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilePlanner").finish_non_exhaustive()
    }
}

impl Debug for Rest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").finish_non_exhaustive()
    }
}

impl FilePlanner {
    pub(super) fn new(scan: Arc<Scan>, file: PartitionedFile, number: u64) -> Self {
        FilePlanner { scan, file, number }
    }
}

impl MorselPlanner for FilePlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        Ok(Some(
            MorselPlan::new().with_pending_planner(async move { self.opened().await }),
        ))
    }
}

impl FilePlanner {
    /// Looks at what the file says of itself and decides for each of its row groups.
    async fn opened(self) -> Result<Box<dyn MorselPlanner>> {
        // Counted where the file is read, not here.
        let uncounted = ExecutionPlanMetricsSet::new();
        let (scan, file) = (&self.scan, &self.file);
        let hint = file.metadata_size_hint;
        let mut reader: Box<dyn AsyncFileReader> =
            scan.readers
                .create_reader(scan.partition, file.clone(), hint, &uncounted)?;
        let metadata = reader.get_metadata(None).await?;
        let groups = metadata.row_groups();
        let mut access = RowGroupAccessPlanFilter::new(ParquetAccessPlan::new_all(groups.len()));
        if let Some(range) = &file.range {
            access.prune_by_range(groups, range);
        }
        let asked: Vec<usize> = access.row_group_indexes().collect();
        let mut found: Vec<Group> = self.ask(&asked, &metadata);
        if found.iter().all(Group::is_passing) {
            return scan.stock.plan_file(self.file);
        }
        let conditions = Conditions::new(scan, file, &metadata)?;
        if let Some(conditions) = &conditions {
            let access = conditions.pruned(scan, &metadata, access);
            found.retain(|group| access.should_scan(group.index));
            // Of what is there, nothing is read; of what is not, only what DataFusion would read is worth it.
            let to_read = found
                .iter()
                .filter(|group| !group.is_there() && !group.is_passing());
            let mut access = ParquetAccessPlan::new_none(groups.len());
            to_read.for_each(|group| access.scan(group.index));
            let access = conditions.without_bloom(scan, &metadata, reader, access).await?;
            found.retain(|group| group.is_there() || group.is_passing() || access.should_scan(group.index));
            for group in &mut found {
                if !group.is_there() && !conditions.want_most_of(scan, &metadata, group.index) {
                    group.found.fill(Found::Passing);
                }
            }
        }
        let mut steps = VecDeque::new();
        for group in found {
            match steps.back_mut() {
                Some(Step::Read(before)) if group.is_passing() => before.push(group.index),
                _ if group.is_passing() => steps.push_back(Step::Read(vec![group.index])),
                _ => steps.push_back(Step::Take(group)),
            }
        }
        let FilePlanner { scan, file, .. } = self;
        Ok(Box::new(Rest {
            scan,
            file,
            metadata,
            conditions,
            steps,
        }))
    }

    /// What there is of the columns of row groups.
    fn ask(&self, groups: &[usize], metadata: &ParquetMetaData) -> Vec<Group> {
        let needed = &self.scan.needed;
        let columns = groups.iter().flat_map(|group| {
            needed.iter().map(|index| Column {
                file: self.number,
                group: *group,
                index: *index,
            })
        });
        let keep = &self.scan.keep;
        let found = keep.columns.ask(&columns.collect::<Vec<_>>(), keep.from_first);
        let groups = groups.iter().zip(found.chunks(needed.len()));
        let groups = groups.map(|(index, found)| Group {
            index: *index,
            rows: rows(metadata, *index),
            file: self.number,
            found: found.to_vec(),
        });
        groups.collect()
    }
}

fn rows(metadata: &ParquetMetaData, group: usize) -> usize {
    usize::try_from(metadata.row_group(group).num_rows()).unwrap_or_default()
}

impl MorselPlanner for Rest {
    fn plan(mut self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Some(step) = self.steps.pop_front() else {
            return Ok(None);
        };
        match step {
            Step::Read(groups) => {
                let mut access = ParquetAccessPlan::new_none(self.metadata.num_row_groups());
                for group in groups {
                    access.scan(group);
                }
                let file = self.file.clone().with_extension(access);
                let first = self.scan.stock.plan_file(file)?;
                let zip = None;
                Box::new(Then {
                    first,
                    zip,
                    rest: self,
                })
                .plan()
            }
            Step::Take(group) => {
                if let Some(conditions) = &mut self.conditions
                    && conditions.drop_now(&self.scan, &self.file, &self.metadata, group.index)?
                {
                    return Ok(Some(MorselPlan::new().with_planners(vec![self])));
                }
                let missing = group.missing(&self.scan.needed);
                let index = group.index;
                let zip = Arc::new(Zip::new(&self.scan, &self.file, group)?);
                if missing.is_empty() {
                    let morsel = ZipMorsel { first: None, zip };
                    return Ok(Some(
                        MorselPlan::new()
                            .with_morsels(vec![Box::new(morsel)])
                            .with_planners(vec![self]),
                    ));
                }
                let first = self.read(&missing, index)?;
                let zip = Some(zip);
                Box::new(Then {
                    first,
                    zip,
                    rest: self,
                })
                .plan()
            }
        }
    }
}

impl Rest {
    /// Reads whole columns of a row group.
    fn read(&self, columns: &[usize], group: usize) -> Result<Box<dyn MorselPlanner>> {
        let scan = &self.scan;
        let places: Option<Vec<usize>> = columns
            .iter()
            .map(|column| scan.outputs.iter().position(|output| output == column))
            .collect();
        let places = places.ok_or_else(|| internal_datafusion_err!("a column that is read is not given"))?;
        let projection = ProjectionExprs::from_indices(&places, &scan.schema);
        let source = scan.without_conditions.try_pushdown_projection(&projection)?;
        let source =
            source.ok_or_else(|| internal_datafusion_err!("a Parquet source takes no projection"))?;
        let source = source.with_batch_size(scan.batch_size);
        let config = FileScanConfigBuilder::new(scan.store_url.clone(), Arc::clone(&source)).build();
        let mut access = ParquetAccessPlan::new_none(self.metadata.num_row_groups());
        access.scan(group);
        let file = self.file.clone().with_extension(access);
        source
            .create_morselizer(Arc::clone(&scan.store), &config, scan.partition)?
            .plan_file(file)
    }
}

impl Group {
    /// Whether all columns are kept.
    fn is_there(&self) -> bool {
        self.found.iter().all(|found| matches!(found, Found::Kept(_)))
    }

    /// Whether none is, nor is to be.
    fn is_passing(&self) -> bool {
        self.found.iter().all(|found| matches!(found, Found::Passing))
    }

    /// Of the columns that are needed those that have to be read.
    fn missing(&self, needed: &[usize]) -> Vec<usize> {
        let missing = needed.iter().zip(&self.found);
        let missing = missing.filter(|(_, found)| !matches!(found, Found::Kept(_)));
        missing.map(|(column, _)| *column).collect()
    }
}

/// One planner after the other: the second begins when all morsels of the first are there.
struct Then {
    first: Box<dyn MorselPlanner>,
    /// What becomes of the first one's batches.
    zip: Option<Arc<Zip>>,
    rest: Box<dyn MorselPlanner>,
}

impl Debug for Then {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Then").finish_non_exhaustive()
    }
}

impl MorselPlanner for Then {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Then { first, zip, rest } = *self;
        let Some(mut plan) = first.plan()? else {
            return rest.plan();
        };
        let mut morsels = plan.take_morsels();
        if let Some(zip) = &zip {
            let zipped = morsels.into_iter().map(|morsel| {
                Box::new(ZipMorsel {
                    first: Some(morsel),
                    zip: Arc::clone(zip),
                }) as Box<dyn Morsel>
            });
            morsels = zipped.collect();
        }
        let then = |first, rest| {
            let zip = zip.clone();
            Box::new(Then { first, zip, rest }) as Box<dyn MorselPlanner>
        };
        let ready = plan.take_ready_planners().into_iter();
        let rest = ready.rev().fold(rest, |rest, first| then(first, rest));
        let next = MorselPlan::new().with_morsels(morsels);
        Ok(Some(match plan.take_pending_planner() {
            Some(pending) => next.with_pending_planner(async move {
                let first = pending.await?;
                Ok(Box::new(Then { first, zip, rest }) as _)
            }),
            None => next.with_planners(vec![rest]),
        }))
    }
}

/// Joins a row group's columns that are kept with those that are read.
struct Zip {
    scan: Arc<Scan>,
    group: Group,
    /// The partition's value for each of the table's columns that comes from folders.
    folders: Vec<ScalarValue>,
}

impl Zip {
    fn new(scan: &Arc<Scan>, file: &PartitionedFile, group: Group) -> Result<Self> {
        let folders = file.partition_values.clone();
        if folders.len() < scan.table.table_partition_cols().len() {
            return internal_err!("{} has no values of its folders", file.object_meta.location);
        }
        let is_there = |found: &&Found| matches!(found, Found::Kept(_));
        scan.taken.add(group.found.iter().filter(is_there).count());
        Ok(Zip {
            scan: Arc::clone(scan),
            group,
            folders,
        })
    }

    /// Rows of a batch.
    fn rows(&self, batch: usize) -> usize {
        let before = batch * self.scan.batch_size;
        self.group.rows.saturating_sub(before).min(self.scan.batch_size)
    }

    /// A batch of all columns; `read` has those that were not there.
    fn batch(&self, number: usize, read: &[ArrayRef]) -> Result<RecordBatch> {
        let rows = self.rows(number);
        let mut read = read.iter();
        let mut columns = Vec::with_capacity(self.group.found.len());
        for found in &self.group.found {
            let column = match found {
                Found::Kept(batches) => batches.get(number),
                Found::Wanted | Found::Passing => read.next(),
            };
            let column = column.filter(|column| column.len() == rows);
            columns.push(
                column.ok_or_else(|| {
                    internal_datafusion_err!("columns of a row group have different batches")
                })?,
            );
        }
        let file_columns = self.scan.table.file_schema().fields().len();
        let outputs = self.scan.outputs.iter().map(|output| {
            if *output >= file_columns {
                return self.folders[*output - file_columns].to_array_of_size(rows);
            }
            let place = self.scan.needed.binary_search(output);
            let place = place.map_err(|_| internal_datafusion_err!("a column that is given is not read"))?;
            Ok(Arc::clone(columns[place]))
        });
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.scan.schema);
        Ok(RecordBatch::try_new_with_options(schema, outputs, &options)?)
    }

    /// All rows were read: offers the columns that are wanted.
    fn offer(&self, read: Vec<Vec<ArrayRef>>, seconds: f64) {
        let needed = self.scan.needed.iter().zip(&self.group.found);
        let missing = needed.filter(|(_, found)| !matches!(found, Found::Kept(_)));
        let read: Vec<(usize, Option<Batches>)> = missing
            .zip(read)
            .map(|((column, found), batches)| {
                let is_wanted = matches!(found, Found::Wanted);
                (*column, is_wanted.then(|| batches.into()))
            })
            .collect();
        let seconds = seconds / read.len().max(1) as f64;
        let keep = &self.scan.keep;
        for (index, batches) in read {
            let column = Column {
                file: self.group.file,
                group: self.group.index,
                index,
            };
            if let Some(batches) = batches
                && keep.columns.offer(column, batches, seconds, &keep.pool)
            {
                self.scan.kept.add(1);
            }
        }
    }
}

/// The batches of a row group.
struct ZipMorsel {
    /// Reads the columns that are not there.
    first: Option<Box<dyn Morsel>>,
    zip: Arc<Zip>,
}

impl Debug for ZipMorsel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZipMorsel").finish_non_exhaustive()
    }
}

impl Morsel for ZipMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let ZipMorsel { first, zip } = *self;
        let batches = zip.group.rows.div_ceil(zip.scan.batch_size);
        let Some(first) = first else {
            return stream::iter((0..batches).map(move |number| zip.batch(number, &[]))).boxed();
        };
        let reading = Reading {
            first: first.into_stream(),
            number: 0,
            batches,
            read: Vec::new(),
            seconds: 0.0,
            zip,
        };
        stream::unfold(reading, Reading::next).boxed()
    }
}

/// A row group while columns of it are read.
struct Reading {
    first: BoxStream<'static, Result<RecordBatch>>,
    number: usize,
    batches: usize,
    /// The batches of each column that is read.
    read: Vec<Vec<ArrayRef>>,
    seconds: f64,
    zip: Arc<Zip>,
}

impl Reading {
    async fn next(mut self) -> Option<(Result<RecordBatch>, Self)> {
        let begun = Instant::now();
        let read = self.first.next().await;
        self.seconds += begun.elapsed().as_secs_f64();
        let read = match read {
            Some(Ok(read)) => read,
            Some(Err(error)) => return Some((Err(error), self)),
            None if self.number == self.batches => {
                let read = std::mem::take(&mut self.read);
                self.zip.offer(read, self.seconds);
                return None;
            }
            None => {
                self.number = self.batches;
                let error = internal_err!("a row group ended before its last row");
                return Some((error, self));
            }
        };
        self.read.resize_with(read.num_columns(), Vec::new);
        for (column, batch) in self.read.iter_mut().zip(read.columns()) {
            column.push(Arc::clone(batch));
        }
        let batch = self.zip.batch(self.number, read.columns());
        self.number += 1;
        Some((batch, self))
    }
}

/// What a scan's rows have to meet, in terms of a file's columns.
struct Conditions {
    schema: SchemaRef,
    pruning: Option<Arc<PruningPredicate>>,
    pages: Option<PagePruningAccessPlanFilter>,
    changes: DynamicFilterTracking,
}

impl Conditions {
    fn new(scan: &Scan, file: &PartitionedFile, metadata: &ParquetMetaData) -> Result<Option<Self>> {
        let Some(predicate) = &scan.predicate else {
            return Ok(None);
        };
        let folders = scan.table.table_partition_cols().iter();
        let folders: HashMap<String, ScalarValue> = folders
            .zip(&file.partition_values)
            .map(|(field, value)| (field.name().clone(), value.clone()))
            .collect();
        let mut predicate = Arc::clone(predicate);
        if !folders.is_empty() {
            predicate = replace_columns_with_literals(predicate, &folders)?;
        }
        let of_file = metadata.file_metadata();
        let schema = parquet_to_arrow_schema(of_file.schema_descr(), of_file.key_value_metadata())?;
        let table = scan.table.file_schema();
        let schema = Arc::new(apply_file_schema_type_coercions(table, &schema).unwrap_or(schema));
        let adapter = DefaultPhysicalExprAdapterFactory.create(Arc::clone(table), Arc::clone(&schema))?;
        let changes = DynamicFilterTracking::classify(&predicate);
        let predicate = PhysicalExprSimplifier::new(&schema).simplify(adapter.rewrite(predicate)?)?;
        let pages = scan.options.enable_page_index && metadata.column_index().is_some();
        let pages = pages.then(|| PagePruningAccessPlanFilter::new(&predicate, Arc::clone(&schema)));
        let pruning = PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(&schema))
            .with_max_in_list_size(scan.options.max_in_list_size)
            .build(predicate);
        Ok(Some(Conditions {
            schema,
            pruning,
            pages: pages.filter(|pages| pages.filter_number() > 0),
            changes,
        }))
    }

    /// Without row groups that have no rows of use by their least and largest values.
    fn pruned(
        &self,
        scan: &Scan,
        metadata: &ParquetMetaData,
        mut access: RowGroupAccessPlanFilter,
    ) -> ParquetAccessPlan {
        if let Some(pruning) = self.pruning.as_ref().filter(|_| scan.options.pruning) {
            let schema = metadata.file_metadata().schema_descr();
            let groups = metadata.row_groups();
            access.prune_by_statistics(&self.schema, schema, groups, pruning, &uncounted(scan));
        }
        access.build()
    }

    /// Without row groups that have no rows of use by their Bloom filters.
    async fn without_bloom(
        &self,
        scan: &Scan,
        metadata: &Arc<ParquetMetaData>,
        reader: Box<dyn AsyncFileReader>,
        access: ParquetAccessPlan,
    ) -> Result<ParquetAccessPlan> {
        let pruning = self
            .pruning
            .as_ref()
            .filter(|_| scan.options.bloom_filter_on_read);
        let Some(pruning) = pruning.filter(|_| access.row_group_index_iter().next().is_some()) else {
            return Ok(access);
        };
        let schema = metadata.file_metadata().schema_descr();
        let names = pruning.literal_columns().into_iter();
        let columns: Vec<(String, usize)> = names
            .filter_map(|name| {
                let (leaf, _) = parquet_column(schema, &self.schema, &name)?;
                Some((name, leaf))
            })
            .collect();
        let of_reader = ArrowReaderMetadata::try_new(Arc::clone(metadata), ArrowReaderOptions::new())?;
        let mut reader = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, of_reader);
        let mut filters = vec![BloomFilterStatistics::new(); metadata.num_row_groups()];
        for group in access.row_group_indexes() {
            for (name, leaf) in &columns {
                let filter = reader.get_row_group_column_bloom_filter(group, *leaf).await;
                // Without it the row group is read.
                if let Ok(Some(filter)) = filter {
                    let column = schema.column(*leaf);
                    filters[group].insert(name, filter, column.physical_type(), column.type_length());
                }
            }
        }
        let mut access = RowGroupAccessPlanFilter::new(access);
        access.prune_by_bloom_filters(pruning, &uncounted(scan), &filters);
        Ok(access.build())
    }

    /// Whether what has become known since then rules a row group out.
    fn drop_now(
        &mut self,
        scan: &Scan,
        file: &PartitionedFile,
        metadata: &ParquetMetaData,
        group: usize,
    ) -> Result<bool> {
        let changed = self.changes.watcher().is_some_and(|watcher| watcher.changed());
        if !changed {
            return Ok(false);
        }
        if let Some(now) = Conditions::new(scan, file, metadata)? {
            *self = now;
        }
        let mut access = ParquetAccessPlan::new_none(metadata.num_row_groups());
        access.scan(group);
        let access = RowGroupAccessPlanFilter::new(access);
        Ok(!self.pruned(scan, metadata, access).should_scan(group))
    }

    /// Whether most of a row group's pages would be read.
    fn want_most_of(&self, scan: &Scan, metadata: &ParquetMetaData, group: usize) -> bool {
        let Some(pages) = &self.pages else { return true };
        let mut access = ParquetAccessPlan::new_none(metadata.num_row_groups());
        access.scan(group);
        let schema = metadata.file_metadata().schema_descr();
        let access =
            pages.prune_plan_with_page_index(access, &self.schema, schema, metadata, &uncounted(scan));
        match &access.inner()[group] {
            RowGroupAccess::Skip => false,
            RowGroupAccess::Scan => true,
            RowGroupAccess::Selection(selected) => 2 * selected.row_count() > rows(metadata, group),
        }
    }
}

/// Metrics that nobody sees: the file is counted where it is read.
fn uncounted(scan: &Scan) -> ParquetFileMetrics {
    ParquetFileMetrics::new(scan.partition, "", &ExecutionPlanMetricsSet::new())
}
