//! `corun-sql backup`, `restore` and `verify`: folders of stores that no process has open. A program that has one open calls
//! `Store::backup` itself.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use corun_cli::out;
use corun_store::Verified;

/// Arguments of `corun-sql backup`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun-sql backup shop shop-2026-11-29       copy the store in shop into a new folder
  corun-sql verify shop-2026-11-29            check the copy

No process may have the store open meanwhile; one that has it calls Store::backup itself.")]
pub struct BackupArgs {
    /// The store's folder.
    #[arg(value_name = "STORE")]
    store: PathBuf,

    /// Where the copy goes: a new folder, or an empty one.
    #[arg(value_name = "TO")]
    to: PathBuf,
}

/// Arguments of `corun-sql restore`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun-sql restore shop-2026-11-29 shop      a store again; the backup stays as it is
  corun-sql sql --store shop -c 'select 1'")]
pub struct RestoreArgs {
    /// The backup's folder.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// Where the store goes: a new folder, or an empty one.
    #[arg(value_name = "STORE")]
    to: PathBuf,
}

/// Arguments of `corun-sql verify`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun-sql verify shop                       what is in it; exit code 1 if it is damaged

It reads the checksums of all that counts, all rows and the log, and compares unique indexes with the rows. It changes nothing.")]
pub struct VerifyArgs {
    /// The store's or backup's folder.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Runs `corun-sql backup`.
///
/// # Errors
/// A folder without a store, or that a process has open; damage; a folder with files to copy to.
pub fn backup(args: &BackupArgs) -> Result<()> {
    copy(&args.store, &args.to, "back up")
}

/// Runs `corun-sql restore`.
///
/// # Errors
/// As [`backup`].
pub fn restore(args: &RestoreArgs) -> Result<()> {
    copy(&args.backup, &args.to, "restore")
}

fn copy(from: &Path, to: &Path, what: &str) -> Result<()> {
    let verified =
        corun_store::restore(from, to).with_context(|| format!("cannot {what} {}", from.display()))?;
    print(to, &verified)
}

/// Runs `corun-sql verify`.
///
/// # Errors
/// A folder without a store, or that a process has open; damage.
pub fn verify(args: &VerifyArgs) -> Result<()> {
    let folder = &args.folder;
    let verified =
        corun_store::verify(folder).with_context(|| format!("cannot verify {}", folder.display()))?;
    print(folder, &verified)
}

fn print(folder: &Path, verified: &Verified) -> Result<()> {
    let (files, bytes) = verified.checkpoint;
    let counted =
        |count: u64, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
    out::line(&format!(
        "{}: commit {}; checkpoint of {} ({bytes} bytes), {} behind it",
        folder.display(),
        verified.last,
        counted(files as u64, "file", "files"),
        counted(verified.log_commits, "commit", "commits"),
    ))?;
    if let Some(torn) = &verified.torn {
        out::line(&format!(
            "the end that a crash left is cut off when it is opened: {torn}"
        ))?;
    }
    for table in &verified.tables {
        let rows = counted(table.rows, "row", "rows");
        let indexes = counted(table.indexes as u64, "index", "indexes");
        out::line(&format!("  {}: {rows}, {indexes}", table.name))?;
    }
    Ok(())
}
