//! The HTML file that `corun-lab demo` and `corun-lab bench` write their reports to.
//!
//! [`ReportFile::open`] before the work, [`ReportFile::finish`] after it. Not here: what is on the page.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// The report's file: opened before the work, so that a wrong path fails at once, and renamed into place at the end,
/// so that a failing run leaves an older report alone.
pub struct ReportFile {
    path: PathBuf,
    partial: PathBuf,
    file: Option<File>,
}

impl ReportFile {
    /// Opens a file beside `path`.
    ///
    /// # Errors
    /// When the folder cannot be written, or `path` is a folder itself.
    pub fn open(path: PathBuf) -> Result<ReportFile> {
        let mut partial = path.clone().into_os_string();
        partial.push(format!(".{}.partial", std::process::id()));
        let partial = PathBuf::from(partial);
        let context = || format!("cannot write the report {}", path.display());
        if path.is_dir() {
            bail!(
                "{}\ndetail: it is a folder\nhint: name a file, such as {}/report.html",
                context(),
                path.display()
            );
        }
        let file = File::create(&partial).with_context(context)?;
        Ok(ReportFile {
            path,
            partial,
            file: Some(file),
        })
    }

    /// Writes the page and puts it in its place.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self, html: &str) -> Result<()> {
        let context = || format!("cannot write the report {}", self.path.display());
        if let Some(mut file) = self.file.take() {
            file.write_all(html.as_bytes()).with_context(context)?;
        }
        fs::rename(&self.partial, &self.path).with_context(context)
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        // After a successful rename there is nothing left to remove.
        let _ = fs::remove_file(&self.partial);
    }
}
