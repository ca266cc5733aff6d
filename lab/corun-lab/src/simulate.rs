//! `corun-lab simulate`: machines one may not have.

mod llc;
#[cfg(feature = "postgres")]
mod private_caches;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Arguments of `corun-lab simulate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun-lab simulate llc                     a hash join beside an index join
  corun-lab simulate llc --help              every option, and how a mix is written
  corun-lab simulate private-caches          queries by key on 40 cores")]
pub struct SimulateArgs {
    #[command(subcommand)]
    what: What,
}

/// What can be simulated.
#[derive(Debug, Subcommand)]
enum What {
    /// Queries side by side on a shared last-level cache, undivided and divided.
    Llc(llc::LlcArgs),
    /// Queries on many cores with private caches, dispatched by the operating system, at random or by key.
    #[cfg(feature = "postgres")]
    #[command(alias = "caric")]
    PrivateCaches(private_caches::PrivateCachesArgs),
}

/// Runs `corun-lab simulate`.
///
/// # Errors
/// Arguments that describe nothing to simulate; a closed pipe.
pub fn run(args: SimulateArgs) -> Result<()> {
    match args.what {
        What::Llc(args) => llc::run(&args),
        #[cfg(feature = "postgres")]
        What::PrivateCaches(args) => private_caches::run(&args),
    }
}
