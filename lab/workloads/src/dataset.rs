//! Generated tables in memory and on disk: what the generators return and the engines register.
//!
//! Order of calls: a generator (`ssb::Ssb`, `tpch::Tpch`, `h2o::H2o`) makes a [`Dataset`]; [`Dataset::register`] hands it to any
//! number of engines, which share the batches (Arrow buffers are counted, not copied). [`write_parquet`] streams
//! batches into one file without holding a table. Not a catalogue: names and schemas come from the generators.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::parallel::share;
use corun_model::explained::Explained;

/// Rows of a generated batch: DataFusion's default batch size, so that a scan hands batches on unchanged.
pub const BATCH_ROWS: usize = 8192;

/// Why a data set could not be made, written or registered.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The scale factor is outside what the generator supports.
    #[error(
        "scale factor {given} is not supported\ndetail: {workload} accepts {least} to {most}\nhint: try --scale 1"
    )]
    ScaleFactor {
        /// Name of the workload.
        workload: &'static str,
        /// What was asked for.
        given: f64,
        /// Smallest accepted value.
        least: f64,
        /// Largest accepted value.
        most: f64,
    },
    /// A file or folder could not be made or written.
    #[error("cannot write {}\ndetail: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The Parquet writer failed.
    #[error("cannot write {} as Parquet\ndetail: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the writer said.
        source: parquet::errors::ParquetError,
    },
}

impl Explained for DatasetError {
    fn primary(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().to_owned()
    }

    fn detail(&self) -> Option<String> {
        match self {
            DatasetError::ScaleFactor { .. } => None,
            DatasetError::Io { source, .. } => Some(source.to_string()),
            DatasetError::Parquet { source, .. } => Some(source.to_string()),
        }
    }

    fn is_usage(&self) -> bool {
        matches!(self, DatasetError::ScaleFactor { .. })
    }
}

/// One table: its name, its schema, and its batches by partition.
#[derive(Debug, Clone)]
pub struct TableData {
    /// Name in SQL.
    pub name: &'static str,
    /// Columns.
    pub schema: SchemaRef,
    /// Batches of each partition, in row order; a partition may be empty.
    pub partitions: Vec<Vec<RecordBatch>>,
}

impl TableData {
    /// Cuts `batches` (in row order) into `partitions` contiguous runs.
    pub fn new(name: &'static str, schema: SchemaRef, batches: Vec<RecordBatch>, partitions: usize) -> Self {
        let partitions = partitions.max(1);
        let partitions = (0..partitions)
            .map(|part| batches[share(batches.len(), partitions, part)].to_vec())
            .collect();
        TableData {
            name,
            schema,
            partitions,
        }
    }

    /// All batches in row order.
    pub fn batches(&self) -> impl Iterator<Item = &RecordBatch> {
        self.partitions.iter().flatten()
    }

    /// Rows in all partitions.
    pub fn rows(&self) -> usize {
        self.batches().map(RecordBatch::num_rows).sum()
    }

    /// Bytes of Arrow buffers in all partitions.
    pub fn bytes(&self) -> usize {
        self.batches().map(RecordBatch::get_array_memory_size).sum()
    }

    /// The same batches (shared, not copied) in another number of partitions.
    pub fn repartitioned(&self, partitions: usize) -> TableData {
        TableData::new(
            self.name,
            self.schema.clone(),
            self.batches().cloned().collect(),
            partitions,
        )
    }
}

/// The tables of one workload at one scale.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Tables in the order they were generated.
    pub tables: Vec<TableData>,
    /// Second names: (alias, table).
    pub aliases: Vec<(&'static str, &'static str)>,
}

impl Dataset {
    /// The table called `name`, when there is one.
    pub fn table(&self, name: &str) -> Option<&TableData> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// Rows in all tables.
    pub fn rows(&self) -> usize {
        self.tables.iter().map(TableData::rows).sum()
    }

    /// Bytes of Arrow buffers in all tables.
    pub fn bytes(&self) -> usize {
        self.tables.iter().map(TableData::bytes).sum()
    }

    /// Names under which [`Dataset::named`] gives the tables, aliases included.
    pub fn names(&self) -> Vec<&'static str> {
        let aliases = self.aliases.iter().map(|(alias, _)| *alias);
        self.tables
            .iter()
            .map(|table| table.name)
            .chain(aliases)
            .collect()
    }

    /// The same batches (shared, not copied) in another number of partitions.
    pub fn repartitioned(&self, partitions: usize) -> Dataset {
        let tables = self
            .tables
            .iter()
            .map(|table| table.repartitioned(partitions))
            .collect();
        Dataset {
            tables,
            aliases: self.aliases.clone(),
        }
    }

    /// Every table under every name it has, aliases included.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &TableData)> {
        let aliases = self
            .aliases
            .iter()
            .filter_map(|(alias, name)| Some((*alias, self.table(name)?)));
        self.tables.iter().map(|table| (table.name, table)).chain(aliases)
    }
}

/// Folder of one table below a data set's folder; its files are `part-000.parquet`, `part-001.parquet`, and so on.
pub fn table_folder(folder: &Path, table: &str) -> PathBuf {
    folder.join(table)
}

/// Path of one file of a table.
pub fn part_file(folder: &Path, table: &str, part: usize) -> PathBuf {
    table_folder(folder, table).join(format!("part-{part:03}.parquet"))
}

/// Writes `batches` to one Snappy-compressed Parquet file, making its folder; returns the rows written.
///
/// Snappy because reading back is what benchmarks repeat, and it decodes several times faster than it saves space.
///
/// # Errors
/// [`DatasetError::Io`] and [`DatasetError::Parquet`], naming the file.
pub fn write_parquet(
    path: &Path,
    schema: SchemaRef,
    batches: impl Iterator<Item = RecordBatch>,
) -> Result<usize, DatasetError> {
    let io = |source| DatasetError::Io {
        path: path.to_owned(),
        source,
    };
    let bad = |source| DatasetError::Parquet {
        path: path.to_owned(),
        source,
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(io)?;
    }
    let file = File::create(path).map_err(io)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let mut writer = ArrowWriter::try_new(file, schema, Some(properties)).map_err(bad)?;
    let mut rows = 0;
    for batch in batches {
        rows += batch.num_rows();
        writer.write(&batch).map_err(bad)?;
    }
    writer.close().map_err(bad)?;
    Ok(rows)
}
