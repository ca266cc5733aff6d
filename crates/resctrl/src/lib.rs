//! A client of the kernel's resctrl file system: partitions the shared cache between corun's classes of queries.
//!
//! ```text
//! capabilities ─► plan (pure, model) ─► steps (dry run) ─► apply ─► assign tasks ... ─► clear
//!                                                             └──── status ────┘
//!
//! /sys/fs/resctrl            root group: keeps its schemata, always
//! ├── info/                  what the machine can do; last_cmd_status says why a write failed
//! ├── corun-weak/            schemata, tasks
//! ├── corun-default/         schemata, tasks
//! └── runc-1/                another tool's group: never written to, its tasks never moved
//! /run/corun/partition.json  the journal: which groups are corun's, what was, what was planned
//! ```
//!
//! What a run leaves behind can always be undone: the journal is on disk before the first change, and lies where it
//! vanishes with the partition itself when the machine starts anew. [`Client::clear`] removes the groups the journal
//! names; the kernel gives their tasks back to the root group, where all of them came from, because tasks of other
//! tools' groups are left alone. A client that was killed between any two writes left nothing `clear` cannot remove.
//!
//! Every change is made under the advisory lock on the root folder that resctrl's documentation asks for, is read back,
//! and is explained by error number and `info/last_cmd_status` when refused. Schemata are written before any task may
//! enter, because a new group starts with all ways. The client neither mounts nor unmounts resctrl.
//!
//! Files are reached through the small trait [`Files`]: [`SystemFiles`] is the real thing, [`twin::Twin`] a kernel in
//! memory that behaves.
//!
//! Not here: deciding on masks, see [`corun_model::cache::partition`]; the command line.

mod apply;
mod capabilities;
mod error;
mod files;
mod journal;
pub mod partition;
mod status;
mod tasks;
pub mod twin;

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use corun_model::cache::partition::{Class, Plan, Schemata, Wishes};

pub use apply::{Cleared, Step};
pub use error::ResctrlError;
pub use files::{Files, SystemFiles};
pub use status::{ClassState, ClassStatus, Status};
pub use tasks::{Assigned, Who};

use journal::Journal;

/// How often a lock somebody holds is tried again.
const LOCK_RETRY: Duration = Duration::from_millis(10);

/// Where things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where resctrl is mounted.
    pub root: PathBuf,
    /// Where processes are shown.
    pub proc: PathBuf,
    /// The journal. It belongs on a file system that does not outlive a restart of the machine, as resctrl does not.
    pub journal: PathBuf,
    /// How long to wait for another tool to let go of its lock.
    pub lock_wait: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            root: "/sys/fs/resctrl".into(),
            proc: "/proc".into(),
            journal: "/run/corun/partition.json".into(),
            lock_wait: Duration::from_secs(5),
        }
    }
}

/// A client of one mounted resctrl. Holds no state of its own: any two clients with the same settings see the same.
#[derive(Clone, Debug)]
pub struct Client<F: Files> {
    files: F,
    settings: Settings,
}

impl Client<SystemFiles> {
    /// A client of this machine, everything where it usually is.
    pub fn of_this_machine() -> Self {
        Self::new(SystemFiles, Settings::default())
    }
}

impl<F: Files> Client<F> {
    /// A client of the resctrl these files hold.
    pub fn new(files: F, settings: Settings) -> Self {
        Self { files, settings }
    }

    /// The same client, but one that gives up at once where another tool holds the lock.
    #[must_use]
    pub fn without_waiting(mut self) -> Self {
        self.settings.lock_wait = Duration::ZERO;
        self
    }

    /// What the last complete plan gave a class; `None` if there is none.
    pub fn planned(&self, class: Class) -> Option<Schemata> {
        let journal = self.journal().ok()??;
        let entry = journal.entry(class).filter(|_| journal.complete)?;
        Some(entry.planned())
    }

    /// Makes a plan for this machine as it is now. Changes nothing.
    ///
    /// # Errors
    /// When resctrl is unavailable or a wish cannot be had here.
    pub fn plan(&self, wishes: &Wishes) -> Result<Plan, ResctrlError> {
        Ok(corun_model::cache::partition::plan(
            &self.capabilities()?,
            wishes,
        )?)
    }

    /// The folder of a class's group.
    fn folder(&self, class: Class) -> PathBuf {
        self.settings.root.join(class.group())
    }

    /// Waits for the lock on the root folder.
    fn lock(&self, exclusive: bool) -> Result<F::Lock, ResctrlError> {
        let root = &self.settings.root;
        let deadline = Instant::now() + self.settings.lock_wait;
        loop {
            match self.files.try_lock(root, exclusive) {
                Ok(Some(lock)) => return Ok(lock),
                Ok(None) if Instant::now() >= deadline => {
                    return Err(ResctrlError::Locked {
                        root: root.clone(),
                        waited: self.settings.lock_wait,
                    });
                }
                Ok(None) => thread::sleep(LOCK_RETRY),
                Err(error) => return Err(ResctrlError::system("lock", root, &error)),
            }
        }
    }

    /// Reads a file that should be there.
    fn read(&self, path: &Path) -> Result<String, ResctrlError> {
        self.files
            .read(path)
            .map_err(|error| ResctrlError::system("read", path, &error))
    }

    /// Reads a file that kernels may lack.
    fn read_if_there(&self, path: &Path) -> Result<Option<String>, ResctrlError> {
        match self.files.read(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(ResctrlError::system("read", path, &error)),
        }
    }

    /// Names of the folders in one; `None` if there is no such folder.
    fn folders(&self, path: &Path) -> Result<Option<Vec<String>>, ResctrlError> {
        match self.files.folders(path) {
            Ok(names) => Ok(Some(names)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(ResctrlError::system("list", path, &error)),
        }
    }

    /// Whether a class's group is there.
    fn exists(&self, class: Class) -> Result<bool, ResctrlError> {
        Ok(self.folders(&self.folder(class))?.is_some())
    }

    /// What the kernel has to say about the last failed change, in one line.
    fn last_status(&self) -> Option<String> {
        let text = self
            .files
            .read(&self.settings.root.join("info/last_cmd_status"))
            .ok()?;
        let text = text.trim().replace('\n', "; ");
        (!text.is_empty() && text != "ok").then_some(text)
    }

    /// The journal, if there is one.
    fn journal(&self) -> Result<Option<Journal>, ResctrlError> {
        let path = &self.settings.journal;
        let text = self.read_if_there(path)?;
        text.map(|text| Journal::read(&text, path, &self.settings.root))
            .transpose()
    }
}

/// Whether there was nothing at a path. A task's files answer ESRCH while it ends.
fn is_missing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
        || matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        )
}

// The Rust block of this crate's README runs as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
