//! What a folder holds: its schemas, and the files of each table. Only names are looked at here; no file is opened.
//!
//! ```text
//!  FOLDER/                      the catalog
//!    lineitem.parquet           public.lineitem
//!    orders.parquet/            public.orders      (the name ends as a file's)
//!    events/day=2024-01-01/     public.events      (key=value: partitioned)
//!    log/part-0001.csv          public.log         (numbered parts)
//!    sales/q1.csv               sales.q1           (any other folder with files is a schema)
//!    bank/corun.manifest        bank.ACCOUNT ...   (a store)
//! ```

use super::error::DataError;
use super::format::Format;
use super::guarded::is_hidden;
use super::places::{Access, Places};
use corun_store::Store;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Most files that a table, and most names that a folder may have.
pub(crate) const FILES_MAX: usize = 100_000;
/// Where tables stand that are in no sub-folder.
pub(crate) const PUBLIC: &str = "public";

/// The files of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TablePlace {
    pub(crate) path: PathBuf,
    /// Whose `corun.toml` speaks of it.
    pub(crate) folder: PathBuf,
    /// `None` for a folder.
    pub(crate) format: Option<Format>,
}

/// What stands under a table's name: a table, or why there is none.
pub(crate) type Entry = Result<TablePlace, DataError>;

/// A schema.
#[derive(Debug, Default)]
pub(crate) struct SchemaLayout {
    pub(crate) tables: BTreeMap<String, Entry>,
    /// Its tables are those of the store in this folder.
    pub(crate) store: Option<PathBuf>,
}

/// A catalog's schemas by name.
pub(crate) type Layout = BTreeMap<String, SchemaLayout>;

/// # Errors
/// A folder that cannot be listed.
pub(crate) fn catalog(root: &Path, places: &Places) -> Result<Layout, DataError> {
    let mut layout = Layout::from([(PUBLIC.to_owned(), SchemaLayout::default())]);
    if Store::is_in(root) {
        layout.entry(PUBLIC.to_owned()).or_default().store = Some(root.to_owned());
        return Ok(layout);
    }
    for (name, path) in entries(root, places)? {
        if !path.is_dir() || table_of_folder(&name, &path, places)?.is_some() {
            let schema = layout.entry(PUBLIC.to_owned()).or_default();
            enter(schema, root, &name, path, places)?;
        } else if Store::is_in(&path) {
            layout.entry(name).or_default().store = Some(path);
        } else {
            let found = entries(&path, places)?;
            let mut schema = SchemaLayout::default();
            for (file, at) in found {
                enter(&mut schema, &path, &file, at, places)?;
            }
            if !schema.tables.is_empty() {
                // `public` may be a sub-folder, too.
                let known = layout.entry(name).or_default();
                for (table, entry) in schema.tables {
                    add(known, table, entry);
                }
            }
        }
    }
    Ok(layout)
}

/// Takes a file or a folder that is one table into a schema; other things are left out.
fn enter(
    schema: &mut SchemaLayout,
    folder: &Path,
    name: &str,
    path: PathBuf,
    places: &Places,
) -> Result<(), DataError> {
    let place = |path, format| TablePlace {
        path,
        folder: folder.to_owned(),
        format,
    };
    if path.is_dir() {
        if let Some(table) = table_of_folder(name, &path, places)? {
            add(schema, table, Ok(place(path, None)));
        }
    } else if let Some((table, format)) = Format::of(name) {
        add(schema, table.to_owned(), Ok(place(path, Some(format))));
    }
    Ok(())
}

/// Adds a table; of two with one name none is shown.
fn add(schema: &mut SchemaLayout, table: String, entry: Entry) {
    let Some(known) = schema.tables.get(&table) else {
        schema.tables.insert(table, entry);
        return;
    };
    let path = |entry: &Entry| {
        entry
            .as_ref()
            .map(|place| place.path.display().to_string())
            .unwrap_or_default()
    };
    let error = DataError::new("42P09", format!("the table name \"{table}\" is ambiguous"))
        .detail(format!("both {} and {} have it", path(known), path(&entry)))
        .hint("rename one of them");
    schema.tables.insert(table, Err(error));
}

/// The table's name, if all files of this folder are one table.
fn table_of_folder(name: &str, path: &Path, places: &Places) -> Result<Option<String>, DataError> {
    if let Some((table, _)) = Format::of(name) {
        return Ok(Some(table.to_owned()));
    }
    let inside = entries(path, places)?;
    let partitioned = inside
        .iter()
        .any(|(name, path)| partition(name).is_some() && path.is_dir());
    let files: Vec<&str> = inside
        .iter()
        .filter(|(_, path)| !path.is_dir())
        .filter_map(|(file, _)| Format::of(file).map(|(stem, _)| stem))
        .collect();
    let parts = !files.is_empty() && files.iter().all(|stem| is_numbered_part(stem, name));
    Ok((partitioned || parts).then(|| name.to_owned()))
}

/// `part-0001`, `part-00000-9f2c-c000.snappy`, `0001`, and `NAME-1` in the folder `NAME`.
fn is_numbered_part(stem: &str, folder: &str) -> bool {
    let digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let after = |prefix: &str| {
        stem.strip_prefix(prefix)
            .is_some_and(|rest| digit(rest.trim_start_matches(['-', '_', '.'])))
    };
    let number = !stem.is_empty() && stem.chars().all(|c| c.is_ascii_digit() || c == '_');
    number || after("part") || after(folder)
}

/// Key and value of a folder of a partition.
pub(crate) fn partition(name: &str) -> Option<(&str, &str)> {
    let (key, value) = name.split_once('=')?;
    (!key.is_empty()).then_some((key, value))
}

/// What is in a folder, by name, without hidden names, names that are not UTF-8, and links to what may not be read.
///
/// # Errors
/// A folder that cannot be listed, or has too many names.
pub(crate) fn entries(folder: &Path, places: &Places) -> Result<Vec<(String, PathBuf)>, DataError> {
    let unreadable = |error: std::io::Error| {
        DataError::unreadable(format!("cannot list the folder {}", folder.display()))
            .detail(error.to_string())
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let is_link = entry.file_type().map_err(unreadable)?.is_symlink();
        if is_hidden(&name) || (is_link && places.allowed(&entry.path(), Access::Read).is_err()) {
            continue;
        }
        found.push((name, entry.path()));
        if found.len() > FILES_MAX {
            return Err(DataError::new(
                "54000",
                format!("the folder {} has more than {FILES_MAX} names", folder.display()),
            ));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered() {
        for stem in [
            "part-0001",
            "part-00000-9f2c-c000.snappy",
            "0001",
            "000000_0",
            "log-1",
            "log_2",
            "log.3",
        ] {
            assert!(is_numbered_part(stem, "log"), "{stem}");
        }
        for stem in ["parts", "particle-1", "q1", "log", "partition", "2024-prices"] {
            assert!(!is_numbered_part(stem, "log"), "{stem}");
        }
    }
}
