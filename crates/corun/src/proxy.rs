//! `corun proxy`: the pooler as a program: arguments, signals, logs. What the pooler does is in the crate corun-pooler.

mod import;
mod learn;
mod password;
mod preflight;
mod serve;

use std::path::PathBuf;

/// Serve PostgreSQL clients through a pool of connections, or take over another pooler's configuration.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  corun proxy --config corun.toml                serve; SIGHUP reloads, SIGINT waits for transactions, SIGQUIT does not
  corun proxy import pgbouncer.ini userlist.txt  a corun.toml that does what PgBouncer did; names what it cannot take over
  corun config check corun.toml                  is the configuration right?
  corun proxy preflight --config corun.toml      do servers and accounts allow what the pooler needs?
  corun proxy learn --config corun.toml          which ranges of keys and which queries in parts would pay?
  psql -h 127.0.0.1 -p 6432 pgbouncer -c 'show pools'

Clients change host and port, nothing else. Signals: HUP reads the configuration again; INT ends the pooler when clients are between
transactions, TERM when they have left (shutdown_timeout bounds both), a second signal and QUIT at once; USR1 pauses, USR2 resumes.")]
pub struct ProxyArgs {
    #[command(flatten)]
    run: serve::RunArgs,

    /// What to do instead of serving.
    #[command(subcommand)]
    command: Option<ProxyCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum ProxyCommand {
    /// Turn PgBouncer's configuration into corun's.
    #[command(after_help = "\
Examples:
  corun proxy import /etc/pgbouncer/pgbouncer.ini > corun.toml
  corun proxy import pgbouncer.ini userlist.txt --output corun.toml

What has no counterpart is reported on stderr, with what to do instead; the result passes `corun config check`.")]
    Import(import::ImportArgs),
    /// See what the servers and accounts of a configuration allow; nothing is written to them.
    #[command(after_help = "\
Examples:
  corun proxy preflight --config corun.toml
  corun proxy preflight --config corun.toml --database shop --user alice
  corun proxy preflight --json | jq 'select(.level != \"ok\")'

Each line is ok, warn or fail, with what to do. Run the command as the user and on the machine that the pooler will run on. Where a server asks for
a password that no file has, for instance where auth_file has SCRAM secrets, PGPASSWORD has it, or the command asks on the terminal. Exit codes:
0 nothing failed, 1 something failed, 2 wrong usage.")]
    Preflight(preflight::PreflightArgs),
    /// Propose ranges of keys and queries in parts; nothing is written.
    #[command(after_help = "\
Examples:
  corun proxy learn --config corun.toml
  corun proxy learn --database shop --user alice
  corun proxy learn --workers 16 > proposed.toml     for a pooler on a machine with 16 cores
  corun proxy learn --json | jq 'select(.table == \"range\")'

The command asks the server of each database for its catalog, its statistics and, where it is installed, pg_stat_statements, and a running
pooler's console for what the pooler has seen. The printed tables can be added to corun.toml. Where a server asks for a password that no file has,
PGPASSWORD has it, or the command asks on the terminal. Exit codes: 0 some database responded, 1 none did, 2 wrong usage.")]
    Learn(learn::LearnArgs),
}

impl ProxyArgs {
    /// Whether the command logs in its own way, as its configuration says.
    pub fn logs_itself(&self) -> bool {
        self.command.is_none()
    }
}

/// Runs it.
///
/// # Errors
/// What the configuration or the system refuses.
pub fn run(args: ProxyArgs, verbose: u8) -> anyhow::Result<()> {
    match args.command {
        None => serve::run(&args.run, verbose),
        Some(ProxyCommand::Import(args)) => import::run(&args),
        Some(ProxyCommand::Preflight(args)) => preflight::run(args),
        Some(ProxyCommand::Learn(args)) => learn::run(args),
    }
}

/// The configuration file, where none is named.
pub fn default_config() -> PathBuf {
    PathBuf::from("corun.toml")
}
