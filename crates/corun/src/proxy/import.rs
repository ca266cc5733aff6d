//! `corun proxy import`: PgBouncer's configuration as one of corun's.

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

    /// Where to write; otherwise stdout.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Imports.
///
/// # Errors
/// When a file cannot be read or written, or something in it is wrong.
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
        Some(file) => std::fs::write(file, &imported.toml)
            .with_context(|| format!("cannot write {}", file.display()))?,
        None => out::line(imported.toml.trim_end())?,
    }
    Ok(())
}
