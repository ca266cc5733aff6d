//! `corun config check`: is a configuration right, before anything is started with it?

use std::path::PathBuf;

use corun_pooler::ConfigFiles;

use crate::proxy::default_config;
use corun_cli::out;

/// Check a configuration file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  corun config check corun.toml     every mistake with its line, and what to do
  corun config check --json corun.toml")]
pub struct ConfigArgs {
    /// What to do.
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ConfigCommand {
    /// Read a file and all files it names, as the pooler would; change nothing.
    #[command(after_help = "\
Examples:
  corun config check corun.toml
  corun config check --json corun.toml | jq .what")]
    Check {
        /// The file.
        #[arg(value_name = "FILE", default_value_os_t = default_config())]
        file: PathBuf,

        /// One JSON object per line.
        #[arg(long)]
        json: bool,
    },
}

/// Runs it.
///
/// # Errors
/// What is wrong in the file.
pub fn run(args: ConfigArgs) -> anyhow::Result<()> {
    let ConfigCommand::Check { file, json } = args.command;
    let (files, findings) = match ConfigFiles::load(&file) {
        Ok(loaded) => loaded,
        Err(corun_pooler::ConfigFilesError::Config(corun_pooler::config::ConfigError::Wrong {
            findings,
        })) if json => {
            for finding in &findings {
                out::json_line(finding)?;
            }
            return Err(corun_cli::failure::Failed(format!("{} is not right", file.display())).into());
        }
        Err(error) => return Err(error.into()),
    };
    for finding in &findings {
        if json {
            out::json_line(finding)?;
        } else {
            out::note(&finding.to_string());
        }
    }
    for warning in &files.warnings {
        out::note(&format!("warning: {warning}"));
    }
    if !json {
        out::line(&format!("{} is right", file.display()))?;
    }
    Ok(())
}
