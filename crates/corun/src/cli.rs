//! The arguments of `corun`. Subcommands own their arguments; this module only lists them.

use clap::{Parser, Subcommand};
use corun_cli::documents::Section;

/// A connection pooler for PostgreSQL, and what the caches of this machine are.
#[derive(Debug, Parser)]
#[command(
    name = "corun",
    version,
    about = "A connection pooler for PostgreSQL, and what the caches of this machine are",
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  corun proxy --config corun.toml
                              a pooler in front of PostgreSQL
  corun top --config corun.toml
                              what that pooler is doing
  corun config check corun.toml
  corun topology --measure    what this machine's caches are, and what they really give
  corun partition plan        how the shared cache could be divided between queries, and why

Commands of other packages run too where those are installed: sql (corun-sql); demo, bench, simulate, characterize and autosteps (corun-lab).

Exit codes: 0 ok, 1 failed, 2 wrong usage. `corun COMMAND --help` has more examples."
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
    /// Serve PostgreSQL clients through a pool of connections whose queues know caches.
    Proxy(crate::proxy::ProxyArgs),
    /// Watch a running pooler, or a running `corun-sql serve`: rates, pools, queues, sessions.
    Top(crate::top::TopArgs),
    /// Check a configuration file.
    Config(crate::config::ConfigArgs),
    /// Show caches, cores, SMT siblings, memory, resctrl and PMU: what this machine can and cannot do.
    Topology(crate::topology::TopologyArgs),
    /// Divide the shared cache between classes of queries: plan, apply, status, clear (needs resctrl).
    Partition(crate::partition::PartitionArgs),
    /// Write man pages and shell completions into a folder; packages are built with it.
    #[command(hide = true)]
    Documents(corun_cli::documents::DocumentsArgs),
}

/// What the man pages say beside the arguments.
pub const SECTIONS: [Section; 4] = [
    Section {
        page: "corun-proxy",
        title: "CONSOLE",
        items: &[(
            "",
            "Users in admin_users and stats_users reach the console as database pgbouncer; SHOW HELP lists its commands.",
        )],
    },
    Section {
        page: "corun-proxy",
        title: "SIGNALS",
        items: &[
            (
                "SIGHUP",
                "The proxy reads its configuration again, as RELOAD does.",
            ),
            (
                "SIGINT",
                "The proxy ends when the transactions in progress have ended, as SHUTDOWN WAIT_FOR_SERVERS does.",
            ),
            ("SIGTERM", "The same as SIGINT."),
            ("SIGQUIT", "The proxy ends at once, as SHUTDOWN does."),
        ],
    },
    Section {
        page: "corun-proxy",
        title: "FILES",
        items: &[
            ("/etc/corun/corun.toml", "The configuration."),
            ("/etc/corun/userlist.txt", "Users and their secrets."),
            (
                "/usr/share/doc/corun/",
                "The manual's pages on the configuration.",
            ),
        ],
    },
    Section {
        page: "corun",
        title: "EXIT STATUS",
        items: &[
            ("0", "The command succeeded."),
            ("1", "Something failed."),
            ("2", "The command line was wrong."),
        ],
    },
];

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
