//! PostgreSQL's stand-alone backend under valgrind: [`lackey`] hands out every access of a statement, [`counted`] counts what a list of
//! statements does, by a simulated cache or by function.
//!
//! Both run on a data folder that no server runs on, with [`QUIET`] and settings of their own.

pub mod counted;
pub mod lackey;

use std::path::Path;
use std::process::Command;

use crate::fixture::account::Account;
use crate::fixture::cluster::Programs;
use crate::fixture::guarded::{Signal, command};
use crate::fixture::{DATABASE, failed};
use lab_core::error::BenchError;

/// The name of what runs, in errors.
pub const PEER: &str = "postgres under valgrind";
/// What the stand-alone backend says when it waits for a statement.
const PROMPT: &str = "backend> ";
/// What every stand-alone backend runs with: nothing that waits for a disk or works beside it.
pub const QUIET: &[&str] = &[
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "autovacuum=off",
    "jit=off",
    "max_parallel_workers_per_gather=0",
];

/// That valgrind is installed.
///
/// # Errors
/// When it is not; the text says how to get it.
pub fn valgrind() -> Result<(), BenchError> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).any(|folder| folder.join("valgrind").is_file());
    match found {
        true => Ok(()),
        false => Err(failed(
            PEER,
            "valgrind is not installed; scripts/bootstrap --peers installs it",
        )),
    }
}

/// The stand-alone backend's command with these arguments and settings: by itself, or under the tool of valgrind whose arguments are
/// `tool`.
fn stand_alone(
    programs: &Programs,
    data: &Path,
    account: Option<Account>,
    tool: &[String],
    arguments: &[&str],
    settings: &[&str],
) -> Command {
    let postgres = programs.path("postgres");
    let mut command = match tool {
        [] => command(postgres, account, Signal::Quit),
        tool => {
            let mut command = command("valgrind", account, Signal::Quit);
            command.args(tool).arg(postgres);
            command
        }
    };
    command.arg("--single").args(arguments).arg("-D").arg(data);
    for setting in QUIET.iter().chain(settings) {
        command.args(["-c", setting]);
    }
    command.arg(DATABASE);
    command
}

/// The values of a column in an answer of the stand-alone backend, which prints ` 1: name = "value"` for each column of each row.
pub fn values(answer: &str, column: &str) -> Vec<String> {
    let start = format!(": {column} = \"");
    let value = |line: &str| {
        let rest = &line[line.find(&start)? + start.len()..];
        Some(rest[..rest.find('"')?].to_owned())
    };
    answer.lines().filter_map(value).collect()
}

/// The rows of an answer of the stand-alone backend. NULLs are left out: it prints nothing for them.
pub fn rows(answer: &str) -> Vec<Vec<String>> {
    let value = |line: &str| {
        let rest = &line[line.find(" = \"")? + 4..];
        Some(rest[..rest.rfind("\"\t(typeid")?].to_owned())
    };
    // The first piece is the names of the columns.
    let pieces = answer.split("\t----\n").skip(1);
    let rows = pieces.map(|row| row.lines().filter_map(value).collect());
    rows.filter(|row: &Vec<String>| !row.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_by_column() {
        let answer = "\t 1: name\t(typeid = 25)\n\t----\n\t 1: name = \"Buffer Blocks\"\t(typeid = 25)\n\t 2: off = \"128\"\t(typeid)\n\t----\n\
                      \t 1: name = \"x\"\t(t)\n\t 2: off = \"7\"\t(t)\n";
        assert_eq!(values(answer, "name"), ["Buffer Blocks", "x"]);
        assert_eq!(values(answer, "off"), ["128", "7"]);
        assert!(values(answer, "size").is_empty());
    }
}
