//! The arguments of `corun-sql`. Subcommands own their arguments; this module only lists them.

use clap::{Parser, Subcommand};

/// SQL over files and a transactional store, with joins that keep many cache lines in flight.
#[derive(Debug, Parser)]
#[command(
    name = "corun-sql",
    version,
    about = "SQL over files and a transactional store, with joins that keep many cache lines in flight",
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  corun-sql sql --ssb 1       a SQL shell over generated Star Schema Benchmark data
  corun-sql sql sales.parquet -c 'select count(*) from sales'
  corun-sql serve data        a server of the files in data, for psql and drivers

Exit codes: 0 ok, 1 failed, 2 wrong usage. `corun-sql COMMAND --help` has more examples."
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
    /// SQL shell, or one-shot with -c or -f, over files and generated data.
    Sql(Box<crate::sql::SqlArgs>),
    /// Serve folders of files and stores to psql, drivers and BI tools, by PostgreSQL's protocol.
    Serve(Box<crate::serve::ServeArgs>),
    /// Users of `serve`.
    User(crate::serve::user::UserArgs),
    /// Run stages of other machines' statements.
    Worker(crate::cluster::WorkerArgs),
    /// Copy a store's folder into a new one, after every byte was checked.
    Backup(crate::copies::BackupArgs),
    /// Make a store's folder of a backup, after every byte was checked.
    Restore(crate::copies::RestoreArgs),
    /// Read all of a store's folder and say what is in it, or what is damaged.
    Verify(crate::copies::VerifyArgs),
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

    #[test]
    fn argument_errors_have_one_primary_line() {
        let error = Arguments::try_parse_from(["corun-sql", "sql", "--partitions", "0"])
            .expect_err("zero partitions");
        let report = corun_cli::arguments::usage_report(&error.render().to_string());
        assert_eq!(
            report.primary,
            "invalid value '0' for '--partitions <N>': must be 1 or more"
        );
        assert!(report.hint.is_some());
    }
}
