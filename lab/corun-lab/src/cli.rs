//! The arguments of `corun-lab`. Subcommands own their arguments; this module only lists them.

use clap::{Parser, Subcommand};

/// The demo, the benchmarks, simulations and characterisations of corun.
#[derive(Debug, Parser)]
#[command(
    name = "corun-lab",
    version,
    about = "The demo, the benchmarks, simulations and characterisations of corun",
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  corun-lab demo              the main job: a concurrent workload, stock against corun
  corun-lab bench join --quick
                              a benchmark suite, small
  corun-lab simulate llc      a mix of queries on a shared cache, undivided and divided
  corun-lab simulate private-caches
                              queries dispatched by key to many cores' private caches
  corun-lab characterize      where a PostgreSQL server's time goes under concurrency, and what to do about it
  corun-lab autosteps --function fetch -- ./client
                              where a team of threads that run `fetch` should switch, by tracing it

Exit codes: 0 ok, 1 failed, 2 wrong usage. `corun-lab COMMAND --help` has more examples."
)]
pub struct Arguments {
    /// Log to stderr: -v what happens, -vv in detail, -vvv everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a mixed concurrent workload on the embedded engine, stock against corun, and write a report.
    #[cfg(feature = "engine")]
    Demo(crate::demo::DemoArgs),
    /// Run a benchmark suite: every published number comes from here.
    Bench(crate::bench::BenchArgs),
    /// Write the manual's page of published results from the records.
    Results(crate::results::ResultsArgs),
    /// Predict what queries do to each other on a cache this machine may not have.
    #[cfg(feature = "engine")]
    Simulate(crate::simulate::SimulateArgs),
    /// Show where a PostgreSQL server's time goes under concurrency, and what could be done about it.
    #[cfg(feature = "postgres")]
    Characterize(crate::characterize::CharacterizeArgs),
    /// Find the points where threads that run the same operation should take turns, in any program.
    #[cfg(feature = "cpu")]
    Autosteps(crate::autosteps::AutostepsArgs),
    /// What `corun-lab bench instruction-cache` traces.
    #[cfg(feature = "cpu")]
    #[command(name = lab_cpu::instruction_cache::SUBCOMMAND, hide = true)]
    InstructionCacheSubject(crate::instruction_cache_subject::SubjectArgs),
    /// Write man pages and shell completions into a folder; packages are built with it.
    #[command(hide = true)]
    Documents(corun_cli::documents::DocumentsArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_subcommand_has_examples() {
        let arguments = Arguments::command();
        let without = corun_cli::documents::without_examples(&arguments);
        assert!(without.is_empty(), "no examples: {without:?}");
    }
}
