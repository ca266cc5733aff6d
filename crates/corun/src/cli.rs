//! The arguments of `corun`: parsing, help texts, and argument errors in the program's own error format.
//!
//! Subcommands own their arguments (`sql::SqlArgs` and so on); this module only lists them and holds the value parsers
//! several of them share.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::failure::{EXIT_USAGE, Report};
use crate::out;

/// Concurrent queries that share a multicore machine's caches instead of fighting over them.
#[derive(Debug, Parser)]
#[command(
    name = "corun",
    version,
    about = "Concurrent SQL that shares a multicore machine's caches instead of fighting over them",
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  corun demo                  the main job: a concurrent workload, stock against corun
  corun sql --ssb 1           a SQL shell over generated Star Schema Benchmark data
  corun sql sales.parquet -c 'select count(*) from sales'
  corun topology --measure    what this machine's caches are, and what they really give
  corun simulate llc          a mix of queries on a shared cache, undivided and divided
  corun simulate caric        queries dispatched by key to many cores' private caches
  corun characterize          where a PostgreSQL server's time goes under concurrency, and what to do about it
  corun autosteps --function fetch -- ./client
                              where a team of threads that run `fetch` should switch, by tracing it
  corun partition plan        how the shared cache could be divided between queries, and why
  corun proxy --config corun.toml
                              a pooler in front of PostgreSQL
  corun top --config corun.toml
                              what that pooler is doing
  corun bench join --quick    a benchmark suite, small

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
    /// Run a mixed concurrent workload on the embedded engine, stock against corun, and write a report.
    Demo(crate::demo::DemoArgs),
    /// SQL shell, or one-shot with -c or -f, over files and generated data.
    Sql(crate::sql::SqlArgs),
    /// Show caches, cores, SMT siblings, memory, resctrl and PMU: what this machine can and cannot do.
    Topology(crate::topology::TopologyArgs),
    /// Predict what queries do to each other on a cache this machine may not have.
    Simulate(crate::simulate::SimulateArgs),
    /// Show where a PostgreSQL server's time goes under concurrency, and what could be done about it.
    Characterize(crate::characterize::CharacterizeArgs),
    /// Find the points where threads that run the same operation should take turns, in any program.
    Autosteps(crate::autosteps::AutostepsArgs),
    /// Divide the shared cache between classes of queries: plan, apply, status, clear (needs resctrl).
    Partition(crate::partition::PartitionArgs),
    /// Serve PostgreSQL clients through a pool of connections whose queues know caches.
    Proxy(crate::proxy::ProxyArgs),
    /// Watch a running proxy: rates, pools, event loops, cohorts, hosts.
    Top(crate::top::TopArgs),
    /// Check a configuration file.
    Config(crate::config::ConfigArgs),
    /// Run a benchmark suite: every published number comes from here.
    Bench(crate::bench::BenchArgs),
    /// What `corun bench steps` traces.
    #[command(name = ::bench::steps::SUBCOMMAND, hide = true)]
    StepsSubject(crate::steps_subject::SubjectArgs),
}

/// Why the program ends before it began: help was asked for, or the arguments are wrong.
pub struct Stop(clap::Error);

/// Parses the command line.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Arguments, Stop> {
    Arguments::try_parse_from(arguments).map_err(Stop)
}

impl Stop {
    /// Prints help to stdout, or the argument error to stderr, and says which exit code follows.
    pub fn finish(self) -> ExitCode {
        match self.0.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                // A reader that closed the pipe early has seen what it wanted.
                let _ = self.0.print();
                ExitCode::SUCCESS
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let _ = self.0.print();
                ExitCode::from(EXIT_USAGE)
            }
            _ => {
                out::error(&usage_report(&self.0.render().to_string()));
                ExitCode::from(EXIT_USAGE)
            }
        }
    }
}

/// Turns clap's paragraphs into one primary line, a detail (the usage) and a hint (the tip, or where help is).
fn usage_report(text: &str) -> Report {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let primary = lines
        .next()
        .unwrap_or("wrong arguments")
        .trim_start_matches("error: ")
        .to_owned();
    let mut missing = Vec::new();
    let mut detail = None;
    let mut hint = None;
    for line in lines {
        if let Some(usage) = line.strip_prefix("Usage: ") {
            detail = Some(format!("usage: {usage}"));
        } else if let Some(tip) = line.strip_prefix("tip: ") {
            hint.get_or_insert(tip.to_owned());
        } else if let Some(values) = line.strip_prefix("[possible values: ") {
            hint.get_or_insert(format!("possible values: {}", values.trim_end_matches(']')));
        } else if line.starts_with("For more information") {
            hint.get_or_insert("`--help` lists every option, with examples".to_owned());
        } else {
            missing.push(line.to_owned());
        }
    }
    let primary = match missing.is_empty() {
        true => primary,
        false => format!("{} {}", primary, missing.join(", ")),
    };
    Report {
        primary,
        detail,
        hint,
    }
}

/// Parses a count of at least one.
pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse::<i128>() {
        Ok(number) if number < 1 => Err("must be 1 or more".to_owned()),
        Ok(number) => usize::try_from(number).map_err(|_| "is too large".to_owned()),
        Err(_) => Err("is not a whole number".to_owned()),
    }
}

/// Parses a positive, finite number such as a scale factor or seconds.
pub fn positive_number(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        Ok(_) => Err("must be above 0".to_owned()),
        Err(_) => Err("is not a number".to_owned()),
    }
}

/// Parses an amount of memory: `2GiB`, `512M`, `1.5g`, `1000000`. Decimal and binary prefixes both mean powers of 1024.
pub fn byte_size(text: &str) -> Result<usize, String> {
    const USAGE: &str = "is not an amount of memory such as 2GiB or 512MiB";
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.trim().parse().map_err(|_| USAGE.to_owned())?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(USAGE.to_owned()),
    };
    let bytes = number * (1u64 << shift) as f64;
    if !bytes.is_finite() || bytes < 1.0 {
        return Err("must be above 0".to_owned());
    }
    if bytes >= usize::MAX as f64 {
        return Err("is too large".to_owned());
    }
    Ok(bytes as usize)
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
        for command in arguments
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
        {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(
                help.contains("Examples:"),
                "{} has no examples",
                command.get_name()
            );
        }
    }

    #[test]
    fn amounts_of_memory() {
        assert_eq!(byte_size("2GiB"), Ok(2 << 30));
        assert_eq!(byte_size("512m"), Ok(512 << 20));
        assert_eq!(byte_size("1.5 kib"), Ok(1536));
        assert_eq!(byte_size("1000"), Ok(1000));
        for wrong in ["", "GiB", "2 gallons", "0", "-1GiB", "nan", "1e40"] {
            assert!(byte_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_and_numbers() {
        assert_eq!(positive("3"), Ok(3));
        assert!(positive("0").is_err() && positive("-2").is_err() && positive("x").is_err());
        assert_eq!(positive_number("0.5"), Ok(0.5));
        assert!(positive_number("0").is_err() && positive_number("inf").is_err());
    }

    #[test]
    fn argument_errors_have_one_primary_line() {
        let error =
            Arguments::try_parse_from(["corun", "sql", "--partitions", "0"]).expect_err("zero partitions");
        let report = usage_report(&error.render().to_string());
        assert_eq!(
            report.primary,
            "invalid value '0' for '--partitions <N>': must be 1 or more"
        );
        assert!(report.hint.is_some());
    }
}
