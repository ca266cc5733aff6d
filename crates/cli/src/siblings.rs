//! Which of corun's programs has a command, and running it in this one's place, as `git` does with its own.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow};

/// A program of corun's, and the package that has it under the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name, and its package's.
    pub name: &'static str,
    /// Its commands.
    pub commands: &'static [&'static str],
}

/// Every program, in the order of the documentation.
pub const PROGRAMS: [Program; 3] = [
    Program {
        name: "corun",
        commands: &["proxy", "top", "config", "topology", "partition"],
    },
    Program {
        name: "corun-sql",
        commands: &["sql", "serve", "user", "worker"],
    },
    Program {
        name: "corun-lab",
        commands: &[
            "demo",
            "bench",
            "simulate",
            "characterize",
            "autosteps",
            "results",
        ],
    },
];

/// The program other than `this` that has a command.
pub fn owner(this: &str, command: &OsStr) -> Option<Program> {
    let has = |program: &Program| program.commands.iter().any(|name| *name == command);
    PROGRAMS
        .into_iter()
        .find(|program| program.name != this && has(program))
}

/// Where a program is: beside this one, or the first on `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let beside = env::current_exe()
        .ok()
        .and_then(|own| own.parent().map(|folder| folder.join(name)));
    let path = env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(env::split_paths(&path).map(|folder| folder.join(name)))
        .find(|candidate| is_program(candidate))
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

/// Runs the sibling that has the command which `arguments` (the program's own name first) name, in this program's place. `None` when the
/// command is this program's, or nobody's.
pub fn run_instead(this: &str, arguments: &[OsString]) -> Option<anyhow::Result<ExitCode>> {
    let command = arguments.iter().skip(1).find(|word| !is_flag(word))?;
    let program = owner(this, command)?;
    Some(run(program, command, arguments.get(1..).unwrap_or_default()))
}

/// Flags before the command that programs share, such as `-v`; those with a value would hide the command.
fn is_flag(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-")
}

fn run(program: Program, command: &OsStr, arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let Some(path) = find(program.name) else {
        let command = command.to_string_lossy();
        let name = program.name;
        return Err(anyhow!(
            "`{command}` is a command of {name}, which is not installed\ndetail: {name} is neither beside this program nor on PATH\n\
             hint: install the package {name} (`cargo install {name}`, or its .deb), then run `{name} {command}`"
        ));
    };
    let context = || format!("cannot run {}", path.display());
    replace(Command::new(&path).args(arguments)).with_context(context)
}

/// Becomes another program, so that signals and the exit code are its own.
#[cfg(unix)]
fn replace(command: &mut Command) -> io::Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

#[cfg(not(unix))]
fn replace(command: &mut Command) -> io::Result<ExitCode> {
    let status = command.status()?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_one_program() {
        let mut commands: Vec<&str> = PROGRAMS
            .iter()
            .flat_map(|program| program.commands)
            .copied()
            .collect();
        let count = commands.len();
        commands.sort_unstable();
        commands.dedup();
        assert_eq!(commands.len(), count);
    }

    #[test]
    fn a_program_does_not_look_for_its_own_commands() {
        let owner = |this, command: &str| owner(this, OsStr::new(command)).map(|program| program.name);
        assert_eq!(owner("corun", "demo"), Some("corun-lab"));
        assert_eq!(owner("corun", "proxy"), None);
        assert_eq!(owner("corun-lab", "proxy"), Some("corun"));
        assert_eq!(owner("corun", "prxy"), None);
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let program = Program {
            name: "corun-none",
            commands: &["nothing"],
        };
        let error = run(program, OsStr::new("nothing"), &[]).expect_err("there is no such program");
        let text = error.to_string();
        assert!(
            text.contains("`nothing` is a command of corun-none")
                && text.contains("hint: install the package corun-none")
        );
    }

    #[test]
    fn flags_before_the_command_are_passed_over() {
        let arguments = ["corun", "-v", "proxy"].map(OsString::from);
        assert!(run_instead("corun", &arguments).is_none());
    }
}
