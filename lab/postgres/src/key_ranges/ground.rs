//! [`Ground`]: what all servers and proxies of a run share: a folder, PostgreSQL's programs, the account they run as, the program to
//! measure.

use std::path::{Path, PathBuf};

use crate::pooler::account::{Account, passable};
use crate::pooler::address::short_enough;
use crate::pooler::fixture::{Found, ours, owned};
use crate::pooler::postgres::{Postgres, Programs, Setup};
use lab_core::error::BenchError;
use lab_core::scratch::Scratch;

/// Everything but servers; it outlives all of them.
pub struct Ground {
    programs: Programs,
    account: Option<Account>,
    corun: Found<PathBuf>,
    scratch: Scratch,
}

impl Ground {
    /// A folder below the system's temporary one, named after the suite. `corun` is the program to measure; without one it is the one beside this program.
    ///
    /// # Errors
    /// When there is no account for servers, or no place for files. A program that is missing is not an error.
    pub fn new(suite: &str, programs: Programs, corun: Option<&Path>) -> Result<Ground, BenchError> {
        let account = Account::for_servers()?;
        let scratch = Scratch::named(&format!("corun-{suite}-"), None)?;
        passable(scratch.path())?;
        let kept = scratch.folder("programs")?;
        Ok(Ground {
            corun: ours(corun, &kept.join("corun"))?,
            programs,
            account,
            scratch,
        })
    }

    /// PostgreSQL's programs.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Who servers run as.
    pub fn account(&self) -> Option<Account> {
        self.account
    }

    /// The program with the proxy, or why there is none.
    pub fn corun(&self) -> &Found<PathBuf> {
        &self.corun
    }

    /// Starts a server on a new data folder.
    ///
    /// # Errors
    /// When it does not start.
    pub fn server(&self, name: &str, setup: &Setup) -> Result<Postgres, BenchError> {
        let folder = self.server_folder(name)?;
        Postgres::start_as(&self.programs, &folder, self.account, setup)
    }

    /// A new, empty folder that servers may write, whose name is short enough for sockets.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn server_folder(&self, name: &str) -> Result<PathBuf, BenchError> {
        let folder = owned(&self.scratch, name, self.account)?;
        short_enough(&folder)?;
        Ok(folder)
    }

    /// A new, empty folder that this process writes.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn folder(&self, name: &str) -> Result<PathBuf, BenchError> {
        self.scratch.folder(name)
    }
}
