//! `corun-lab results`: the manual's page of published results, made from the records.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use corun_cli::out;
use lab_core::results;

/// Arguments of `corun-lab results`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun-lab results                   in a checkout: writes docs/src/research/results.md from records/published.toml
  corun-lab results ../corun          the same in another one")]
pub struct ResultsArgs {
    /// The checkout.
    #[arg(value_name = "DIR", default_value = ".")]
    checkout: PathBuf,
}

/// Writes the page.
///
/// # Errors
/// A record that is missing, or an entry of the list that matches no row or several.
pub fn run(args: ResultsArgs) -> Result<()> {
    results::write(&args.checkout)?;
    out::note(&format!(
        "written: {}",
        args.checkout.join(results::PAGE).display()
    ));
    Ok(())
}
