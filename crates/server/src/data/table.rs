//! From the files of a table to a table that DataFusion reads.
//!
//! The files of one table have one schema: the first two that differ, and how, are the error. For texts the columns' names count, since
//! types are guessed from values; JSON's objects may lack keys, as everywhere. A table is opened again when a file of it has changed.

use super::config::{self, TableOptions};
use super::error::DataError;
use super::format::{Format, Kind};
use super::guarded::is_hidden;
use super::layout::{FILES_MAX, TablePlace, entries, partition};
use super::places::Places;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{ScalarValue, TableReference};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableConfigExt, ListingTableUrl,
};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use url::Url;

/// Files whose schemas are read at once.
const READ_AT_ONCE: usize = 16;

/// One file, as it was when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    path: PathBuf,
    bytes: u64,
    changed: Option<SystemTime>,
    /// Values of the partition's keys, outermost first.
    partition: Vec<(String, String)>,
}

/// The files of a table now, and the options it is read with. Equal ones need no second opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Files {
    files: Vec<Seen>,
    format: Format,
    options: TableOptions,
}

/// Looks at the files of a table, in the order of their paths.
///
/// # Errors
/// No file, files of several formats, partitions by different keys, options that cannot be read.
pub(crate) fn look(name: &str, place: &TablePlace, places: &Places) -> Result<Files, DataError> {
    let mut found = Vec::new();
    match &place.format {
        Some(format) => found.push((seen(&place.path, &[])?, format.clone())),
        None => walk(&place.path, &mut Vec::new(), places, &mut found)?,
    }
    let Some((first, format)) = found.first().cloned() else {
        return Err(
            DataError::unreadable(format!("the table \"{name}\" has no files"))
                .detail(format!("{} has none of a known kind", place.path.display())),
        );
    };
    for (other, of) in &found {
        let keys = |seen: &Seen| {
            seen.partition
                .iter()
                .map(|(key, _)| key.clone())
                .collect::<Vec<_>>()
        };
        let difference = match () {
            () if *of != format => format!("one ends in {}, the other in {}", format.ending, of.ending),
            () if keys(other) != keys(&first) => format!(
                "one is in partitions by ({}), the other by ({})",
                keys(&first).join(", "),
                keys(other).join(", ")
            ),
            () => continue,
        };
        return Err(differ(name, &first.path, &other.path, &difference));
    }
    let mut options = config::read(&place.folder)?.remove(name).unwrap_or_default();
    if format.ending.to_ascii_lowercase().starts_with(".tsv") {
        options.delimiter = options.delimiter.or(Some(b'\t'));
    }
    let files = found.into_iter().map(|(seen, _)| seen).collect();
    Ok(Files {
        files,
        format,
        options,
    })
}

fn seen(path: &Path, partition: &[(String, String)]) -> Result<Seen, DataError> {
    let data = path.metadata().map_err(|error| {
        DataError::unreadable(format!("cannot read {}", path.display())).detail(error.to_string())
    })?;
    Ok(Seen {
        path: path.to_owned(),
        bytes: data.len(),
        changed: data.modified().ok(),
        partition: partition.to_vec(),
    })
}

fn walk(
    folder: &Path,
    partitions: &mut Vec<(String, String)>,
    places: &Places,
    found: &mut Vec<(Seen, Format)>,
) -> Result<(), DataError> {
    for (name, path) in entries(folder, places)? {
        if path.is_dir() {
            if let Some((key, value)) = partition(&name) {
                partitions.push((key.to_owned(), value.to_owned()));
                walk(&path, partitions, places, found)?;
                partitions.pop();
            }
        } else if let Some((_, format)) = Format::of(&name) {
            found.push((seen(&path, partitions)?, format));
            if found.len() > FILES_MAX {
                let error = format!("{} has more than {FILES_MAX} files", folder.display());
                return Err(DataError::new("54000", error));
            }
        }
    }
    Ok(())
}

fn differ(name: &str, one: &Path, other: &Path, difference: &str) -> DataError {
    DataError::new("42P16", format!("the files of the table \"{name}\" differ"))
        .detail(format!("{} and {}: {difference}", one.display(), other.display()))
        .hint("files of one table have the same columns; put others into a folder of their own")
}

/// The files as a table. `at` is the file, or the folder.
///
/// # Errors
/// Files that cannot be read or differ.
pub(crate) async fn open(
    name: &str,
    at: &Path,
    files: &Files,
    state: &SessionState,
) -> Result<Arc<dyn TableProvider>, DataError> {
    let unreadable = |error: DataFusionError| {
        DataError::unreadable(format!("cannot read {} as the table \"{name}\"", at.display()))
            .detail(one_line(&error))
    };
    let reader = files.format.reader(&files.files[0].path, &files.options)?;
    let schema = schema_of(name, files, &reader, state, unreadable).await?;
    let columns = partition_columns(&files.files);
    for (column, _) in &columns {
        if schema.column_with_name(column).is_some() {
            let error =
                format!("the column \"{column}\" of the table \"{name}\" is in its files and in its folders");
            return Err(DataError::new("42701", error));
        }
    }
    let options = ListingOptions::new(reader)
        .with_file_extension(&files.format.ending)
        .with_table_partition_cols(columns);
    let address = address(at).and_then(|address| ListingTableUrl::try_new(address, None));
    // DataFusion remembers the files of a folder by this name, for ever; each opening has its own.
    static OPENINGS: AtomicU64 = AtomicU64::new(0);
    let opening = format!("{name}@{}", OPENINGS.fetch_add(1, Ordering::Relaxed));
    let address = address
        .map_err(unreadable)?
        .with_table_ref(TableReference::bare(opening));
    let config = ListingTableConfig::new(address)
        .with_listing_options(options)
        .with_schema(schema);
    Ok(Arc::new(ListingTable::try_new(config).map_err(unreadable)?))
}

fn address(path: &Path) -> Result<Url, DataFusionError> {
    let address = match path.is_dir() {
        true => Url::from_directory_path(path),
        false => Url::from_file_path(path),
    };
    address.map_err(|()| DataFusionError::Plan(format!("{} is no address", path.display())))
}

async fn schema_of(
    name: &str,
    files: &Files,
    reader: &Arc<dyn FileFormat>,
    state: &SessionState,
    unreadable: impl Fn(DataFusionError) -> DataError + Copy,
) -> Result<SchemaRef, DataError> {
    let first = address(&files.files[0].path).and_then(|address| ListingTableUrl::try_new(address, None));
    let store = first
        .and_then(|first| state.runtime_env().object_store(&first))
        .map_err(unreadable)?;
    let mut reading = Vec::new();
    for file in &files.files {
        reading
            .push(schema_of_file(file.path.clone(), Arc::clone(&store), Arc::clone(reader), state).boxed());
    }
    let read: Vec<(ObjectMeta, SchemaRef)> = stream::iter(reading)
        .buffered(READ_AT_ONCE)
        .try_collect()
        .await
        .map_err(unreadable)?;
    for ((_, schema), file) in read.iter().zip(&files.files).skip(1) {
        if let Some(difference) = difference(files.format.kind, &read[0].1, schema) {
            return Err(differ(name, &files.files[0].path, &file.path, &difference));
        }
    }
    if read.len() == 1 || files.format.kind == Kind::Parquet || files.format.kind == Kind::Arrow {
        return Ok(Arc::clone(&read[0].1));
    }
    // Types that hold the values of all files.
    let metas: Vec<ObjectMeta> = read.into_iter().map(|(meta, _)| meta).collect();
    reader
        .infer_schema(state, &store, &metas)
        .await
        .map_err(unreadable)
}

async fn schema_of_file(
    path: PathBuf,
    store: Arc<dyn ObjectStore>,
    reader: Arc<dyn FileFormat>,
    state: &SessionState,
) -> Result<(ObjectMeta, SchemaRef), DataFusionError> {
    let at = object_store::path::Path::from_absolute_path(path).map_err(object_store::Error::from)?;
    let meta = store.head(&at).await?;
    let schema = reader
        .infer_schema(state, &store, std::slice::from_ref(&meta))
        .await?;
    Ok((meta, schema))
}

/// How the schema of another file of a table differs, if that counts.
fn difference(kind: Kind, one: &Schema, other: &Schema) -> Option<String> {
    if kind == Kind::Json {
        return None;
    }
    let count = (one.fields().len(), other.fields().len());
    for (at, (field, its)) in one.fields().iter().zip(other.fields()).enumerate() {
        if field.name() != its.name() {
            return Some(format!(
                "column {} is \"{}\" and \"{}\"",
                at + 1,
                field.name(),
                its.name()
            ));
        }
        if kind != Kind::Csv && field.data_type() != its.data_type() {
            let (one, other) = (field.data_type(), its.data_type());
            return Some(format!(
                "the column \"{}\" is of type {one} and {other}",
                field.name()
            ));
        }
    }
    (count.0 != count.1).then(|| format!("one has {} columns, the other {}", count.0, count.1))
}

/// Columns whose values the folders' names give: numbers and dates where all are such.
fn partition_columns(files: &[Seen]) -> Vec<(String, DataType)> {
    let keys = files.first().map_or(&[][..], |file| &file.partition);
    let of = |(at, (key, _)): (usize, &(String, String))| {
        let all = |fits: fn(&str) -> bool| files.iter().all(|file| fits(&file.partition[at].1));
        // Text that would not come back as it was, like `007`, stays text.
        let number = |text: &str| text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
        let date = |text: &str| {
            let parsed = ScalarValue::try_from_string(text.to_owned(), &DataType::Date32);
            text.len() == 10 && parsed.is_ok_and(|date| !date.is_null())
        };
        let data_type = match () {
            () if all(number) => DataType::Int64,
            () if all(date) => DataType::Date32,
            () => DataType::Utf8,
        };
        (key.clone(), data_type)
    };
    keys.iter().enumerate().map(of).collect()
}

/// An error without the traces and requests that DataFusion adds.
pub(crate) fn one_line(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    text.lines().next().unwrap_or_default().to_owned()
}

/// A file that a statement names, as a table.
///
/// # Errors
/// As [`look`] and [`open`].
pub(crate) async fn open_named(
    path: &Path,
    places: &Places,
    state: &SessionState,
) -> Result<Arc<dyn TableProvider>, DataError> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let unknown = || {
        DataError::unreadable(format!("'{name}' is of no known kind of file"))
            .hint("known are .parquet, .csv, .tsv, .json, .ndjson and .arrow; texts may end in .gz")
    };
    let (stem, format) = match Format::of(&name) {
        Some((stem, format)) => (stem, Some(format).filter(|_| path.is_file())),
        None if path.is_dir() => (name.as_str(), None),
        None => return Err(unknown()),
    };
    if is_hidden(&name) {
        return Err(unknown());
    }
    let place = TablePlace {
        path: path.to_owned(),
        folder: path.parent().unwrap_or(path).to_owned(),
        format,
    };
    let files = look(stem, &place, places)?;
    open(stem, path, &files, state).await
}

/// An object of a bucket that a statement names, as a table.
///
/// # Errors
/// An object of no known kind, or one that cannot be read.
pub(crate) async fn open_object(
    text: &str,
    address: ListingTableUrl,
    state: &SessionState,
) -> Result<Arc<dyn TableProvider>, DataError> {
    let unreadable = |error: DataFusionError| {
        DataError::unreadable(format!("cannot read '{text}' as a table")).detail(one_line(&error))
    };
    // Texts in buckets are not looked into for their delimiter; `CREATE EXTERNAL TABLE` has options for it.
    let config = ListingTableConfig::new(address)
        .infer_options(state)
        .await
        .map_err(unreadable)?;
    let config = config
        .infer_partitions_from_path(state)
        .await
        .map_err(unreadable)?;
    let config = config.infer_schema(state).await.map_err(unreadable)?;
    Ok(Arc::new(ListingTable::try_new(config).map_err(unreadable)?))
}
