//! [`Fixture`]: everything the sides of a comparison share: the server with its data, the programs, a folder for files.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::account::{Account, passable};
use super::address::short_enough;
use super::failed;
use super::pgbouncer;
use super::postgres::{Postgres, Programs};
use super::shapes::{Literals, TABLES, write_scripts};
use corun_cli::siblings;
use lab_core::error::BenchError;
use lab_core::scratch::Scratch;

/// The name of the program whose subcommand is measured.
const CORUN: &str = "corun";

/// A program to put in front of the server, or why there is none.
pub type Found<P> = Result<P, String>;

/// The test fixture. Fields end in this order: the server before its folder.
pub struct Fixture {
    postgres: Postgres,
    programs: Programs,
    account: Option<Account>,
    packaged: Found<pgbouncer::Program>,
    current: Found<pgbouncer::Program>,
    corun: Found<PathBuf>,
    before: Option<Found<PathBuf>>,
    scale: usize,
    peers: bool,
    scratch: Scratch,
}

impl Fixture {
    /// Starts the server with 100,000 accounts for each of `scale`, and looks for what can stand in front of it. `corun` is the program
    /// to measure; without one it is the one beside this one. `before` is an earlier one to compare it with.
    ///
    /// # Errors
    /// When there is no PostgreSQL, or it cannot be started. A pooler that is missing is not an error.
    pub fn new(
        programs: Programs,
        scale: usize,
        corun: Option<&Path>,
        before: Option<&Path>,
        peers: bool,
    ) -> Result<Fixture, BenchError> {
        let account = Account::for_servers()?;
        let scratch = Scratch::named("corun-proxy-", None)?;
        passable(scratch.path())?;
        let folder = owned(&scratch, "server", account)?;
        short_enough(&folder)?;
        let postgres = Postgres::start(&programs, &folder, account)?;
        postgres.fill(&programs, scale)?;
        // One after the other: a vacuum may not be one of several statements in a message.
        let mut client = postgres.client()?;
        for statement in TABLES
            .split(";\n")
            .filter(|statement| !statement.trim().is_empty())
        {
            client.run(statement)?;
        }
        client.run("checkpoint")?;
        let kept = scratch.folder("programs")?;
        let bouncer =
            |program: Result<pgbouncer::Program, BenchError>, name: &str| -> Result<_, BenchError> {
                match program {
                    Err(error) => Ok(Err(error.in_one_line())),
                    Ok(program) => Ok(Ok(pgbouncer::Program {
                        path: copied(&program.path, &kept.join(name))?,
                        ..program
                    })),
                }
            };
        Ok(Fixture {
            packaged: bouncer(pgbouncer::Program::packaged(), "pgbouncer")?,
            current: bouncer(pgbouncer::Program::current(), "pgbouncer-current")?,
            corun: ours(corun, &kept.join(CORUN))?,
            before: before
                .map(|program| ours(Some(program), &kept.join("corun-before")))
                .transpose()?,
            postgres,
            programs,
            account,
            scale,
            peers,
            scratch,
        })
    }

    /// The server.
    pub fn postgres(&self) -> &Postgres {
        &self.postgres
    }

    /// Its programs.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Who servers run as.
    pub fn account(&self) -> Option<Account> {
        self.account
    }

    /// The system's PgBouncer.
    pub fn packaged(&self) -> &Found<pgbouncer::Program> {
        &self.packaged
    }

    /// The newer PgBouncer.
    pub fn current(&self) -> &Found<pgbouncer::Program> {
        &self.current
    }

    /// The program with the proxy.
    pub fn corun(&self) -> &Found<PathBuf> {
        &self.corun
    }

    /// An earlier one.
    pub fn before(&self) -> Option<&Found<PathBuf>> {
        self.before.as_ref()
    }

    /// Whether PgBouncer is wanted.
    pub fn peers(&self) -> bool {
        self.peers
    }

    /// pgbench's scale.
    pub fn scale(&self) -> usize {
        self.scale
    }

    /// A new, empty folder that servers may write.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn server_folder(&self, name: &str) -> Result<PathBuf, BenchError> {
        owned(&self.scratch, name, self.account)
    }

    /// A new, empty folder that this process writes.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn folder(&self, name: &str) -> Result<PathBuf, BenchError> {
        self.scratch.folder(name)
    }

    /// The scripts of the statement shapes.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn scripts(&self, literals: Literals) -> Result<Vec<PathBuf>, BenchError> {
        write_scripts(&self.folder(&format!("scripts-{}", literals.as_str()))?, literals)
    }
}

/// A new, empty folder that servers may write.
///
/// # Errors
/// When it cannot be made.
pub fn owned(scratch: &Scratch, name: &str, account: Option<Account>) -> Result<PathBuf, BenchError> {
    let folder = scratch.folder(name)?;
    if let Some(account) = account {
        account.own(&folder)?;
    }
    Ok(folder)
}

/// A copy of the pooler's program, or why there is none. Without a name it is the one beside this program, or on `PATH`.
///
/// # Errors
/// When it cannot be copied.
pub fn ours(given: Option<&Path>, to: &Path) -> Result<Found<PathBuf>, BenchError> {
    match given.map(Path::to_path_buf).or_else(|| siblings::find(CORUN)) {
        Some(path) => copied(&path, to).map(Ok),
        None => Ok(Err(format!(
            "the program {CORUN} is neither beside this one nor on PATH; `make build` builds it, the package {CORUN} has it"
        ))),
    }
}

/// A copy that every account may run: the folders above the program may be closed to others.
fn copied(from: &Path, to: &Path) -> Result<PathBuf, BenchError> {
    passable(to.parent().unwrap_or(to))?;
    // Another process writes the copy: a file that this process had open for writing may still be open in a child which another thread
    // is just starting, and such a file cannot be run.
    let done = Command::new("install")
        .args(["-m", "755"])
        .args([from, to])
        .output()
        .map_err(|source| BenchError::io("could not run install".to_owned(), source))?;
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr);
        return Err(failed(
            "files",
            format!("could not copy {}: {}", from.display(), why.trim()),
        ));
    }
    Ok(to.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_corun_is_started_as_corun() {
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("copy");
        // The pooler's program lies beside the lab's, not beside a test; it may be installed all the same.
        match ours(None, &to).expect("no failure") {
            Ok(_) => assert!(siblings::find(CORUN).is_some()),
            Err(why) => assert!(why.contains("neither beside this one nor on PATH"), "{why}"),
        }
        let program = folder.path().join("corun");
        std::fs::write(&program, "").expect("a file");
        assert_eq!(ours(Some(&program), &to).expect("copied"), Ok(to.clone()));
        assert!(to.is_file());
        assert!(ours(Some(Path::new("/no/such/corun")), &to).is_err());
    }
}
