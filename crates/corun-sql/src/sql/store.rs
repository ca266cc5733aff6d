//! `--store DIR`: the tables of a transactional store beside the others, and files loaded into them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Result, bail};
use clap::Args;
use corun_datafusion::Engine;
use corun_datafusion::store::LoadOptions;
use corun_model::progress::Progress as _;
use corun_store::{OnProgress, Options, PUBLIC, Store};

use super::sources::{Names, named_path};
use corun_cli::failure::Usage;
use corun_cli::out;
use corun_cli::progress::Bars;

/// Arguments about a store.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// Open the transactional store in this folder, or make one; its tables can be queried beside all others.
    #[arg(long = "store", value_name = "DIR", id = "store")]
    folder: Option<PathBuf>,

    /// Load a Parquet or CSV file, or a folder of either, into a table of the store; may be repeated.
    #[arg(long = "load", value_name = "TABLE=PATH", value_parser = named_path, requires = "store", id = "load")]
    loads: Vec<(String, PathBuf)>,

    /// Primary key of a table that --load makes; where --load names several tables, TABLE=COLUMN,... for each.
    #[arg(long = "primary-key", value_name = "COLUMN,...", value_parser = primary_key, requires = "load")]
    primary_keys: Vec<PrimaryKey>,
}

/// The primary key of a table, or of the only one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PrimaryKey {
    table: Option<String>,
    columns: Vec<String>,
}

/// Parses `COLUMN,...` or `TABLE=COLUMN,...`. Columns are named as in the file.
fn primary_key(text: &str) -> Result<PrimaryKey, String> {
    let (table, columns) = match text.split_once('=') {
        None => (None, text.to_owned()),
        Some(_) => {
            let (table, columns) = named_path(text).map_err(|_| "is not of the form TABLE=COLUMN,...")?;
            (Some(table), columns.to_string_lossy().into_owned())
        }
    };
    let columns: Vec<String> = columns
        .split(',')
        .map(|column| column.trim().to_owned())
        .collect();
    if columns.iter().any(String::is_empty) {
        return Err("is not of the form COLUMN,... or TABLE=COLUMN,...".to_owned());
    }
    Ok(PrimaryKey { table, columns })
}

impl StoreArgs {
    /// Opens the store, if one is asked for, loads the files, and takes the names of its tables.
    ///
    /// # Errors
    /// Primary keys of tables that are not loaded; what the store or the files report; a name that is taken.
    pub async fn open(&self, engine: &Engine, names: &mut Names) -> Result<Option<Store>> {
        let Some(folder) = &self.folder else {
            return Ok(None);
        };
        self.check()?;
        let bars = Arc::new(Bars::new());
        let options = Options {
            on_progress: Some(on_progress(&bars)),
            ..Options::default()
        };
        let opened = engine.open_store(folder, options);
        bars.end();
        let store = opened?;
        if let Some(damage) = store.damage() {
            out::note(&format!("note: {damage}"));
        }
        for (table, path) in &self.loads {
            let options = LoadOptions {
                primary_key: self.key_of(table),
                ..LoadOptions::default()
            };
            bars.begin(&format!("loading {table}"), 0);
            let loaded = engine.load_path(&store, table, path, &options).await;
            bars.end();
            out::note(&format!("{} rows loaded into {table}", loaded?));
        }
        for table in store.tables().iter().filter(|table| table.schema() == PUBLIC) {
            names.take(table.name(), &format!("in the store {}", folder.display()))?;
        }
        Ok(Some(store))
    }

    /// Whether every primary key is of one table that is loaded.
    fn check(&self) -> Result<()> {
        let loaded: BTreeSet<&String> = self.loads.iter().map(|(table, _)| table).collect();
        let mut known = BTreeSet::new();
        for key in &self.primary_keys {
            match &key.table {
                Some(table) if !loaded.contains(table) => bail!(Usage(format!(
                    "--primary-key names table \"{table}\", which is not loaded\nhint: --load {table}=PATH loads it"
                ))),
                None if loaded.len() > 1 => bail!(Usage(
                    "--primary-key does not say of which table\nhint: with several tables to load, write TABLE=COLUMN,..."
                        .to_owned()
                )),
                table => {
                    if !known.insert(table) {
                        bail!(Usage("--primary-key is given twice for one table".to_owned()));
                    }
                }
            }
        }
        Ok(())
    }

    fn key_of(&self, table: &str) -> Vec<String> {
        let of_table = |key: &&PrimaryKey| key.table.as_deref().is_none_or(|name| name == table);
        let key = self.primary_keys.iter().find(of_table);
        key.map_or_else(Vec::new, |key| key.columns.clone())
    }
}

/// Shows how far opening has come.
fn on_progress(bars: &Arc<Bars>) -> OnProgress {
    let bars = Arc::clone(bars);
    let shown = Mutex::new(("", 0));
    Arc::new(move |progress| {
        // A bar is only decoration: a poisoned lock is ignored.
        let Ok(mut shown) = shown.lock() else {
            return;
        };
        if shown.0 != progress.phase {
            *shown = (progress.phase, 0);
            bars.begin(&format!("opening the store: {}", progress.phase), progress.of);
        }
        bars.advance(progress.done.saturating_sub(shown.1));
        shown.1 = progress.done;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primary_keys_name_columns_and_maybe_a_table() {
        let key = |table: Option<&str>, columns: &[&str]| PrimaryKey {
            table: table.map(str::to_owned),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
        };
        assert_eq!(primary_key("a, B"), Ok(key(None, &["a", "B"])));
        assert_eq!(primary_key("T=a"), Ok(key(Some("t"), &["a"])));
        for wrong in ["", "a,", "t=", "=a"] {
            assert!(primary_key(wrong).is_err(), "{wrong}");
        }
    }
}
