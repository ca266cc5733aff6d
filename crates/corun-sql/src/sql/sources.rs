//! Where tables come from: files and folders, and generated benchmark data. One name, one table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use corun_datafusion::Engine;
use corun_model::progress::Progress;
use corun_store::Store;
use corun_workloads::dataset::Dataset;
use corun_workloads::ssb::Ssb;
use corun_workloads::tpch::Tpch;

use corun_cli::failure::Usage;

/// Names taken so far, and by what.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<String, String>);

impl Names {
    /// Takes a name.
    ///
    /// # Errors
    /// It is taken: the command line named two tables alike.
    pub fn take(&mut self, name: &str, origin: &str) -> Result<()> {
        if let Some(other) = self.0.get(name) {
            bail!(Usage(format!(
                "two tables are named \"{name}\"\ndetail: one is {other}, the other {origin}\n\
                 hint: give one another name with --table NAME=PATH"
            )));
        }
        self.0.insert(name.to_owned(), origin.to_owned());
        Ok(())
    }
}

/// Parses `NAME=PATH`. Like an identifier in SQL, an unquoted name folds to lower case; `"Name"=PATH` keeps it.
pub fn named_path(text: &str) -> Result<(String, PathBuf), String> {
    let Some((name, path)) = text.split_once('=') else {
        return Err("is not of the form NAME=PATH".to_owned());
    };
    let quoted = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    let name = quoted.map_or_else(|| name.trim().to_lowercase(), str::to_owned);
    if name.is_empty() || path.is_empty() {
        return Err("is not of the form NAME=PATH".to_owned());
    }
    Ok((name, PathBuf::from(path)))
}

/// The name of a table made from `path`: its stem as a lower-case SQL identifier.
pub fn name_of(path: &Path) -> String {
    let stem = path
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().to_lowercase());
    let name: String = stem
        .chars()
        .map(|c| if c.is_alphanumeric() || c == '_' { c } else { '_' })
        .collect();
    match name.chars().next() {
        None => "data".to_owned(),
        Some(first) if first.is_numeric() => format!("_{name}"),
        Some(_) => name,
    }
}

/// Makes a file or folder a table.
///
/// # Errors
/// A taken name, or what the engine says about the path.
pub async fn register_file(engine: &Engine, names: &mut Names, name: &str, path: &Path) -> Result<()> {
    names.take(name, &path.display().to_string())?;
    engine.register_path(name, path).await?;
    // An empty file of either kind is a table without columns to the engine; to people it is a mistake.
    if engine.table_schema(name).await?.fields().is_empty() {
        bail!(
            "{} has no columns\ndetail: the file, or every file of the folder, is empty\nhint: was it written completely?",
            path.display()
        );
    }
    Ok(())
}

/// The tables of a path, by name: a file is one; a folder of numbered parts is one; any other folder has a table a file, and one for each
/// folder of parts in it.
///
/// # Errors
/// A path that cannot be read; a folder with nothing to read in it.
pub fn tables_of(path: &Path) -> Result<Vec<(String, PathBuf)>> {
    let one = || Ok(vec![(name_of(path), path.to_owned())]);
    if !path.is_dir() {
        return one();
    }
    if Store::is_in(path) {
        bail!(
            "the folder {0} is a transactional store\nhint: --store {0} opens it",
            path.display()
        );
    }
    let inside = entries(path)?;
    if is_one_table(path, &inside) {
        return one();
    }
    let mut tables = Vec::new();
    for entry in inside {
        if is_data(&entry) || (entry.is_dir() && is_one_table(&entry, &entries(&entry)?)) {
            tables.push((name_of(&entry), entry));
        }
    }
    match tables.is_empty() {
        // The engine says what is wrong with it.
        true => one(),
        false => Ok(tables),
    }
}

/// What is in a folder, by name, without hidden files.
///
/// # Errors
/// A folder that cannot be read.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = std::fs::read_dir(folder).and_then(|entries| {
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        paths.collect::<std::io::Result<Vec<PathBuf>>>()
    });
    let mut found = read.with_context(|| format!("cannot read the folder {}", folder.display()))?;
    let hidden = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(['.', '_'])
    };
    found.retain(|path| !hidden(path));
    found.sort();
    Ok(found)
}

/// Whether a file is of a kind that becomes a table.
fn is_data(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    let known = ending.is_some_and(|ending| {
        ["parquet", "parq", "pq", "csv"]
            .iter()
            .any(|known| ending == *known)
    });
    known && path.is_file()
}

/// Whether the files of a folder are one table: it is named as a file (`orders.parquet/`), or they are numbered parts, `part-1`, `1`, or
/// `NAME-1` in the folder `NAME`, as a server's folders ([`corun_server::data`]).
fn is_one_table(folder: &Path, inside: &[PathBuf]) -> bool {
    let name = folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let named = [".parquet", ".csv"].iter().any(|ending| name.ends_with(ending));
    let files: Vec<String> = inside
        .iter()
        .filter(|path| is_data(path))
        .map(|path| {
            path.file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let is_part = |stem: &String| {
        let numbered = |prefix: &str| {
            let rest = stem
                .strip_prefix(prefix)
                .map(|rest| rest.trim_start_matches(['-', '_', '.']));
            rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        stem.chars().all(|c| c.is_ascii_digit() || c == '_') || numbered("part") || numbered(&name)
    };
    !files.is_empty() && (named || files.iter().all(is_part))
}

/// Generates the Star Schema Benchmark.
///
/// # Errors
/// A scale factor out of range.
pub fn ssb(scale: f64, partitions: usize, progress: &dyn Progress) -> Result<Dataset> {
    let generator = Ssb::new(scale).map_err(|error| Usage(error.to_string().replace("--scale", "--ssb")))?;
    Ok(generator.dataset(partitions, crate::all_cores(), progress))
}

/// Generates TPC-H.
///
/// # Errors
/// A scale factor out of range.
pub fn tpch(scale: f64, partitions: usize, progress: &dyn Progress) -> Result<Dataset> {
    let generator =
        Tpch::new(scale).map_err(|error| Usage(error.to_string().replace("--scale", "--tpch")))?;
    Ok(generator.dataset(partitions, crate::all_cores(), progress))
}

/// Makes generated data tables.
///
/// # Errors
/// A taken name.
pub fn register(engine: &Engine, names: &mut Names, dataset: &Dataset, origin: &str) -> Result<()> {
    for (name, table) in dataset.named() {
        names.take(name, origin)?;
        engine.register_batches(name, table.schema.clone(), table.partitions.clone())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers() {
        for (path, name) in [
            ("a/Sales.parquet", "sales"),
            ("my-file.v2.csv", "my_file_v2"),
            ("2024.csv", "_2024"),
            ("orders/", "orders"),
            ("..", "data"),
        ] {
            assert_eq!(name_of(Path::new(path)), name, "{path}");
        }
    }

    #[test]
    fn a_folder_is_its_files_or_one_table() {
        let root = tempfile::tempdir().expect("a folder");
        let file = |path: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            std::fs::write(path, "a\n1\n").expect("written");
        };
        let tables = |path: &str| -> Vec<String> {
            let found = tables_of(&root.path().join(path)).expect("readable");
            found.into_iter().map(|(name, _)| name).collect()
        };
        for path in [
            "data/orders.csv",
            "data/lines.parquet",
            "data/.hidden.csv",
            "data/notes.txt",
            "data/log/part-0001.csv",
            "data/log/part-0002.csv",
            "data/sub/other.csv",
            "sales.csv/a.csv",
            "sales.csv/b.csv",
            "day/day_1.csv",
            "day/day_2.csv",
        ] {
            file(path);
        }
        assert_eq!(tables("data"), ["lines", "log", "orders"]);
        assert_eq!(tables("data/log"), ["log"]);
        assert_eq!(tables("data/sub"), ["other"]);
        assert_eq!(tables("sales.csv"), ["sales"]);
        assert_eq!(tables("day"), ["day"]);
        assert_eq!(tables("missing"), ["missing"]);
    }

    #[test]
    fn named_paths_fold_like_identifiers() {
        assert_eq!(
            named_path("T=x.csv"),
            Ok(("t".to_owned(), PathBuf::from("x.csv")))
        );
        assert_eq!(
            named_path("\"T\"=a=b.csv"),
            Ok(("T".to_owned(), PathBuf::from("a=b.csv")))
        );
        for wrong in ["x.csv", "=x.csv", "t="] {
            assert!(named_path(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_can_be_taken_once() {
        let mut names = Names::default();
        names.take("t", "a.csv").expect("free");
        let error = names.take("t", "b.csv").expect_err("taken");
        assert!(
            error.to_string().contains("one is a.csv, the other b.csv"),
            "{error}"
        );
    }
}
