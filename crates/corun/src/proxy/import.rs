//! `corun proxy import`: PgBouncer's configuration as one of corun's.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use corun_pooler::config::{Severity, import};

use corun_cli::failure::Failed;
use corun_cli::out;

/// Turn PgBouncer's configuration into corun's.
#[derive(Debug, clap::Args)]
pub struct ImportArgs {
    /// PgBouncer's configuration file.
    #[arg(value_name = "PGBOUNCER.INI")]
    ini: PathBuf,

    /// PgBouncer's file of users, if it is not where the configuration says.
    #[arg(value_name = "USERLIST.TXT")]
    userlist: Option<PathBuf>,

    /// Where to write a new file, which only you may read: passwords are in it. Otherwise stdout.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Imports.
///
/// # Errors
/// When a file cannot be read or written, is there already, or something in it is wrong.
pub fn run(args: &ImportArgs) -> anyhow::Result<()> {
    let text =
        std::fs::read_to_string(&args.ini).with_context(|| format!("cannot read {}", args.ini.display()))?;
    let folder = args.ini.parent().unwrap_or(Path::new(""));
    let imported = import::import_pgbouncer(
        &text,
        &args.ini.display().to_string(),
        folder,
        args.userlist.as_deref(),
    );
    for finding in &imported.findings {
        out::note(&finding.to_string());
    }
    if imported
        .findings
        .iter()
        .any(|finding| finding.severity == Severity::Error)
    {
        return Err(Failed(format!("{} could not be imported as a whole", args.ini.display())).into());
    }
    match &args.output {
        Some(file) => write(file, &imported.toml)?,
        None => out::line(imported.toml.trim_end())?,
    }
    Ok(())
}

/// Writes a new file that only its owner may read.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let mut new = std::fs::OpenOptions::new();
    new.write(true).create_new(true).mode(0o600);
    match new
        .open(file)
        .and_then(|mut opened| opened.write_all(text.as_bytes()))
    {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let text = format!(
                "{} is there already\nhint: name another file, or remove it",
                file.display()
            );
            Err(Failed(text).into())
        }
        other => other.with_context(|| format!("cannot write {}", file.display())),
    }
}
