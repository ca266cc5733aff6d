//! [`Folder`]: where a run's rows and report are.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use lab_core::row::Row;
use lab_postgres::characterize::rows::FILE;

/// The rows of the run before in the same folder.
const BEFORE: &str = "rows.before.jsonl";
const REPORT: &str = "report.html";

/// An open folder.
pub struct Folder {
    path: PathBuf,
    file: File,
}

impl Folder {
    /// Makes the folder, if there is none; an earlier run's rows in it get another name.
    ///
    /// # Errors
    /// When it cannot be made or written.
    pub fn open(path: &Path) -> Result<Folder> {
        let context = || format!("cannot write into {}", path.display());
        fs::create_dir_all(path).with_context(context)?;
        let rows = path.join(FILE);
        if rows.exists() {
            fs::rename(&rows, path.join(BEFORE)).with_context(context)?;
        }
        let file = File::create(&rows).with_context(context)?;
        Ok(Folder {
            path: path.to_path_buf(),
            file,
        })
    }

    /// Keeps a row, at once: the run may be killed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&mut self, row: &Row) -> Result<()> {
        let line = format!("{}\n", row.to_json());
        self.file
            .write_all(line.as_bytes())
            .with_context(|| format!("cannot write {}", self.rows().display()))
    }

    /// The file of rows.
    pub fn rows(&self) -> PathBuf {
        self.path.join(FILE)
    }

    /// Writes the report; where it is.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn report(&self, html: &str) -> Result<PathBuf> {
        let path = self.path.join(REPORT);
        fs::write(&path, html).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}
