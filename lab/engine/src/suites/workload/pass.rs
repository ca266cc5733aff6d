//! One pass over a workload's queries: from where, with how many partitions, and with how much memory.

use super::{DATAFUSION, SORT_MERGE, Workload};
use lab_core::row::Value;

/// Where an engine reads the tables from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::suites) enum Source {
    Memory,
    /// Each query reads the files.
    Parquet,
    /// Columns that were read before are kept.
    ParquetKept,
}

impl Source {
    /// Memory alone, or files after it.
    pub(in crate::suites) fn of(full: bool) -> &'static [Source] {
        match full {
            true => &[Source::Memory, Source::Parquet, Source::ParquetKept],
            false => &[Source::Memory],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Source::Memory => "memory",
            Source::Parquet => "parquet",
            Source::ParquetKept => "parquet_kept",
        }
    }
}

/// What one pass over the queries needs.
pub(super) struct Pass<'a> {
    pub(super) workload: &'a Workload,
    pub(super) scale_factor: f64,
    pub(super) partitions: usize,
    pub(super) source: Source,
    /// Most bytes that the operators of a query may take.
    pub(super) memory: Option<usize>,
    /// Processes that run the queries, where that is not this one.
    pub(super) workers: Option<usize>,
}

impl Pass<'_> {
    pub(super) fn cases(&self) -> impl Iterator<Item = String> {
        self.workload.queries.iter().map(|query| self.case(query))
    }

    /// Name of the case of `query`: `q2.1_sf1_p2`, with `_parquet` at the end when read from files, `_parquet_kept` when read before,
    /// `_parquet_512mib` when memory is limited, `_parquet_w2` when two workers run the queries.
    pub(super) fn case(&self, query: &str) -> String {
        let mut suffix = match (self.source, self.memory) {
            (Source::Memory, _) => String::new(),
            (Source::Parquet, None) => "_parquet".to_owned(),
            (Source::Parquet, Some(memory)) => format!("_parquet_{}mib", memory >> 20),
            (Source::ParquetKept, _) => "_parquet_kept".to_owned(),
        };
        if let Some(workers) = self.workers {
            suffix.push_str(&format!("_w{workers}"));
        }
        format!("{query}_sf{}_p{}{suffix}", self.scale_factor, self.partitions)
    }

    pub(super) fn parameters(&self, query: &str) -> Vec<(String, Value)> {
        let mut parameters = vec![
            ("query".to_owned(), Value::from(query)),
            ("scale_factor".to_owned(), Value::from(self.scale_factor)),
            ("partitions".to_owned(), Value::from(self.partitions)),
            ("source".to_owned(), Value::from(self.source.name())),
        ];
        parameters.extend(
            self.memory
                .map(|bytes| ("memory_bytes".to_owned(), Value::from(bytes))),
        );
        parameters.extend(
            self.workers
                .map(|count| ("workers".to_owned(), Value::from(count))),
        );
        parameters
    }

    pub(super) fn baseline(&self) -> &'static str {
        match self.memory {
            None => DATAFUSION,
            Some(_) => SORT_MERGE,
        }
    }
}
