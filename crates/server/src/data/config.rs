//! [`DataConfig`]: what a server shows; [`TableOptions`]: what `corun.toml` in a folder says of its tables.

use super::buckets::Bucket;
use super::error::DataError;
use corun_datafusion::nearest;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Name of the file with options, in the folder of the tables that it speaks of.
pub(crate) const OPTIONS_FILE: &str = "corun.toml";
/// Longest file with options.
const OPTIONS_BYTES_MAX: u64 = 1 << 20;

/// What a server shows to its clients.
#[derive(Debug, Clone, Default)]
pub struct DataConfig {
    /// Folders, each a catalog (PostgreSQL's database) of this name. The first is what sessions are connected to.
    pub catalogs: Vec<(String, PathBuf)>,
    /// Folders whose files statements may name (`FROM 'file.parquet'`, `CREATE EXTERNAL TABLE`), beside those of the catalogs.
    pub allow_read: Vec<PathBuf>,
    /// Folders that `COPY ... TO` may write into.
    pub allow_write: Vec<PathBuf>,
    /// Buckets that statements may name.
    pub buckets: Vec<Bucket>,
    /// Most bytes that the rows of a store's tables may take; `None`: as the store decides.
    pub store_memory_max: Option<u64>,
}

/// How the text of a table is to be read, where its files do not say so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TableOptions {
    pub(crate) delimiter: Option<u8>,
    pub(crate) quote: Option<u8>,
    pub(crate) escape: Option<u8>,
    pub(crate) header: Option<bool>,
    pub(crate) null: Option<String>,
}

const KEYS: &[&str] = &["delimiter", "quote", "escape", "header", "null"];

/// The options of the tables of a folder, by table.
///
/// # Errors
/// A file that is not TOML, or has a key that is not known.
pub(crate) fn read(folder: &Path) -> Result<BTreeMap<String, TableOptions>, DataError> {
    let path = folder.join(OPTIONS_FILE);
    match path.symlink_metadata() {
        Err(_) => return Ok(BTreeMap::new()),
        Ok(found) if !found.is_file() || found.len() > OPTIONS_BYTES_MAX => {
            return Err(DataError::config(format!(
                "{} is not a file of at most {OPTIONS_BYTES_MAX} bytes",
                path.display()
            )));
        }
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(&path).map_err(|error| {
        DataError::config(format!("cannot read {}", path.display())).detail(error.to_string())
    })?;
    parse(&text).map_err(|error| DataError {
        primary: format!("{}: {}", path.display(), error.primary),
        ..error
    })
}

fn parse(text: &str) -> Result<BTreeMap<String, TableOptions>, DataError> {
    let file: Table = text
        .parse()
        .map_err(|error: toml::de::Error| DataError::config(error.to_string().trim_end().to_owned()))?;
    let mut tables = BTreeMap::new();
    for (key, value) in file {
        if key != "table" {
            return Err(unknown(&key, &["table"], "write [table.NAME] for each table"));
        }
        let Value::Table(named) = value else {
            return Err(DataError::config("\"table\" is not a section").hint("write [table.NAME]"));
        };
        for (name, options) in named {
            let Value::Table(options) = options else {
                return Err(DataError::config(format!("table.{name} is not a section"))
                    .hint(format!("write [table.{name}]")));
            };
            tables.insert(name.clone(), table(&name, options)?);
        }
    }
    Ok(tables)
}

fn table(name: &str, given: Table) -> Result<TableOptions, DataError> {
    let mut options = TableOptions::default();
    for (key, value) in given {
        let wrong = |wanted: &str| DataError::config(format!("table.{name}.{key} is not {wanted}"));
        let byte = || match &value {
            Value::String(text) if text.len() == 1 => Ok(Some(text.as_bytes()[0])),
            _ => Err(wrong("a text of one character of ASCII")),
        };
        match key.as_str() {
            "delimiter" => options.delimiter = byte()?,
            "quote" => options.quote = byte()?,
            "escape" => options.escape = byte()?,
            "header" => options.header = Some(value.as_bool().ok_or_else(|| wrong("true or false"))?),
            "null" => options.null = Some(value.as_str().ok_or_else(|| wrong("a text"))?.to_owned()),
            _ => return Err(unknown(&key, KEYS, "see the manual's page on data")),
        }
    }
    Ok(options)
}

fn unknown(key: &str, known: &[&str], else_hint: &str) -> DataError {
    let error = DataError::config(format!("unknown key \"{key}\""));
    match nearest(key, known) {
        Some(nearest) => error.hint(format!("did you mean \"{nearest}\"?")),
        None => error.hint(else_hint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options = parse("[table.t]\ndelimiter = \"|\"\nheader = false\nnull = \"\\\\N\"\n").unwrap();
        let expected = TableOptions {
            delimiter: Some(b'|'),
            header: Some(false),
            null: Some("\\N".to_owned()),
            ..TableOptions::default()
        };
        assert_eq!(options["t"], expected);
    }

    #[test]
    fn unknown_keys_name_the_nearest() {
        let hint = |text: &str| parse(text).unwrap_err().hint.unwrap();
        assert_eq!(
            hint("[table.t]\ndelimeter = \";\""),
            "did you mean \"delimiter\"?"
        );
        assert_eq!(hint("[tables.t]\ndelimiter = \";\""), "did you mean \"table\"?");
        assert!(
            parse("[table.t]\ndelimiter = \"ab\"")
                .unwrap_err()
                .primary
                .contains("one character")
        );
    }
}
