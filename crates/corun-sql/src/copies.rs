//! `corun-sql backup`, `restore` and `verify`: folders of stores that no process has open. A program that has one open calls
//! `Store::backup` itself.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result};
use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use clap::Args;
use corun_cli::out;
use corun_store::{Ts, Until, Verified};

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
  corun-sql sql --store shop -c 'select 1'
  corun-sql restore shop-2026-11-29 shop --archive shop-log --until 2026-11-30T14:05:00Z
                                              as it was at that time
  corun-sql restore shop-2026-11-29 shop --archive shop-log --until 81734
                                              with that commit as the last

An archive is the folder that the program which has the store open names in Options::archive.")]
pub struct RestoreArgs {
    /// The backup's folder.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// Where the store goes: a new folder, or an empty one.
    #[arg(value_name = "STORE")]
    to: PathBuf,

    /// The archive of the store's log: what was committed after the backup.
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,

    /// The moment to go to: a time (UTC, unless it says otherwise) or the number of a commit; all that the archive has by default.
    #[arg(long, value_name = "TIME|TS", requires = "archive", value_parser = until)]
    until: Option<Until>,
}

/// The moment that a text says.
fn until(text: &str) -> Result<Until, String> {
    if let Ok(ts) = text.parse() {
        return Ok(Until::Ts(Ts(ts)));
    }
    let time = string_to_timestamp_nanos(text)
        .ok()
        .and_then(|nanos| u64::try_from(nanos).ok())
        .and_then(|nanos| UNIX_EPOCH.checked_add(Duration::from_nanos(nanos)));
    time.map(Until::Time)
        .ok_or_else(|| "neither the number of a commit nor a time like 2026-11-30T14:05:00Z".to_owned())
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
/// As [`backup`]; an archive that has a hole, is damaged, or does not reach that far.
pub fn restore(args: &RestoreArgs) -> Result<()> {
    let Some(archive) = &args.archive else {
        return copy(&args.backup, &args.to, "restore");
    };
    let until = args.until.unwrap_or(Until::Newest);
    let verified = corun_store::restore_to(&args.backup, archive, until, &args.to)
        .with_context(|| format!("cannot restore {}", args.backup.display()))?;
    print(&args.to, &verified)
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
