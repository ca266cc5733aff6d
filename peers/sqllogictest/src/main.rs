//! DataFusion's own sqllogictest files through a server of PostgreSQL's protocol.
//!
//! ```text
//! serve-sqllogictest CONNECTION FOLDER [NAME...]      for example 'host=127.0.0.1 port=5432 user=me' test_files string/
//! ```
//!
//! Reads all files below FOLDER whose paths contain one of the NAMEs, but not those of Spark's functions, each on connections of its own, and prints a line of JSON for each
//! file, then one for all; what failed goes to standard error. A record passes if its rows are those of the file, or if it fails where the
//! file says so, whatever the words. Exit code 0 whatever failed; 1 if nothing could be run.

mod cells;
mod file;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use file::{Counts, Run};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [connection, folder, names @ ..] = arguments.as_slice() else {
        anyhow::bail!("a connection and a folder are needed");
    };
    let config = connection.parse().context("the connection")?;
    let mut paths = Vec::new();
    find(Path::new(folder), &mut paths)?;
    paths.sort();
    let (mut all, mut files) = (Counts::default(), 0);
    for path in paths {
        let name = path.strip_prefix(folder)?.display().to_string();
        // Functions of another crate, which the server does not have.
        let is_of_spark = name.starts_with("spark/");
        if is_of_spark || !names.is_empty() && !names.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let mut run = Run::new(&config, &name);
        run.file(&path).with_context(|| name.clone())?;
        println!("{}", run.counts.line(&name));
        all.add(&run.counts);
        files += 1;
    }
    ensure!(files > 0, "no file was found below {folder}");
    println!("{}", all.line("all"));
    Ok(())
}

/// Files of tests below a folder.
fn find(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            paths.push(path);
        }
    }
    Ok(())
}
