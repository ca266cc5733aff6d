//! The kernel's switch for hardware threads, and what to do where it cannot be used.
//!
//! ```text
//! Smt::state ─► Smt::switch ─► Switched ── measure ──► Switched::restore, or drop
//!                   │                                        ▲
//!                   └─► watcher: a shell that waits ─────────┘ and puts it back when this program is gone, however it went
//! ```
//!
//! Paper 001 switches hyper-threading in the BIOS (section 3.1); the kernel does the same to running machines, by
//! `/sys/devices/system/cpu/smt/control` (Documentation/admin-guide/cputopology.rst and ABI/testing/sysfs-devices-system-cpu).
//! The folder is handed in, so that tests switch files.
//!
//! The switch changes the machine for everybody, so it is put back in any case: by [`Switched`] when it is dropped, which
//! errors, panics and signals that unwind the program lead to, and by a watching process of its own where nothing unwinds
//! (SIGKILL): it is in a process group of its own, ignores the terminal's signals and acts when its input closes. Only where
//! both are killed at once the machine stays as it is, until
//! somebody writes to the file.
//!
//! Where the file may not be written, threads bound to one CPU of each core ([`one_of_each_core`]) leave the siblings idle,
//! which comes close: what the core splits statically stays split.
//!
//! Not here: whether hardware threads pay; that is measured.

mod error;
mod watcher;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use corun_model::topology::Topology;
use corun_model::units::CpuId;

pub use error::SmtError;
use watcher::Watcher;

/// How the kernel says hardware threads stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Switched on.
    On,
    /// Switched off; can be switched on again.
    Off,
    /// Switched off until the next start.
    ForceOff,
    /// The CPU has none.
    NotSupported,
    /// This architecture's kernel cannot switch.
    NotImplemented,
}

impl State {
    /// The kernel's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::ForceOff => "forceoff",
            Self::NotSupported => "notsupported",
            Self::NotImplemented => "notimplemented",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [
            Self::On,
            Self::Off,
            Self::ForceOff,
            Self::NotSupported,
            Self::NotImplemented,
        ]
        .into_iter()
        .find(|state| state.word() == word)
    }
}

/// The kernel's switch, or a folder that looks like it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Smt {
    folder: PathBuf,
}

impl Default for Smt {
    fn default() -> Self {
        Self::at(Path::new("/sys/devices/system/cpu/smt"))
    }
}

impl Smt {
    /// The switch in this folder.
    pub fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    fn control(&self) -> PathBuf {
        self.folder.join("control")
    }

    /// How it stands. A kernel without the file cannot switch.
    ///
    /// # Errors
    /// When the file cannot be read or says what no kernel says.
    pub fn state(&self) -> Result<State, SmtError> {
        let text = match fs::read_to_string(self.control()) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::NotImplemented),
            Err(error) => return Err(SmtError::unreadable(&self.control(), &error)),
        };
        // Some kernels show the number of threads a core may run instead of "on".
        let word = text.trim();
        if word.parse::<u32>().is_ok_and(|threads| threads > 1) {
            return Ok(State::On);
        }
        State::of(word).ok_or_else(|| SmtError::Unknown {
            path: self.control(),
            found: word.chars().take(40).collect(),
        })
    }

    /// Whether any core runs more than one thread now; `None` where the kernel does not say.
    pub fn active(&self) -> Option<bool> {
        let text = fs::read_to_string(self.folder.join("active")).ok()?;
        match text.trim() {
            "1" => Some(true),
            "0" => Some(false),
            _ => None,
        }
    }

    /// Switches hardware threads on or off until the answer is dropped. Where they stand so already nothing is changed.
    ///
    /// # Errors
    /// [`SmtError::Unavailable`] where there is nothing to switch, [`SmtError::NotPermitted`] where the file may not be
    /// written, [`SmtError::NoWatcher`] where nobody could put it back after a kill; then nothing was changed.
    /// [`SmtError::NotSwitched`] where the kernel took the word and did not act; it was put back.
    pub fn switch(&self, on: bool) -> Result<Switched, SmtError> {
        let before = self.state()?;
        let wanted = if on { State::On } else { State::Off };
        if !matches!(before, State::On | State::Off) {
            return Err(SmtError::Unavailable { state: before });
        }
        let mut switched = Switched {
            smt: self.clone(),
            before,
            watcher: None,
        };
        if before == wanted {
            return Ok(switched);
        }
        // Whether it may be written is found out before a watcher is started for it.
        fs::OpenOptions::new()
            .write(true)
            .open(self.control())
            .map_err(|error| SmtError::refused(&self.control(), &error))?;
        switched.watcher = Some(Watcher::start(&self.control(), before.word())?);
        self.write(wanted)?;
        // From here on dropping `switched` puts it back.
        match self.state()? {
            now if now == wanted => Ok(switched),
            now => Err(SmtError::NotSwitched { wanted, now }),
        }
    }

    fn write(&self, state: State) -> Result<(), SmtError> {
        let written = fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(self.control())
            .and_then(|mut file| file.write_all(state.word().as_bytes()));
        written.map_err(|error| SmtError::refused(&self.control(), &error))
    }
}

/// Hardware threads switched for a while; dropping it puts them back.
#[derive(Debug)]
pub struct Switched {
    smt: Smt,
    before: State,
    /// `None` where nothing was changed, and once it was put back.
    watcher: Option<Watcher>,
}

impl Switched {
    /// How they stood.
    pub fn before(&self) -> State {
        self.before
    }

    /// Whether anything was changed.
    pub fn changed(&self) -> bool {
        self.watcher.is_some()
    }

    /// Puts them back, and says so if that failed.
    ///
    /// # Errors
    /// [`SmtError::NotPermitted`] or [`SmtError::NotSwitched`], with what to do by hand.
    pub fn restore(mut self) -> Result<(), SmtError> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), SmtError> {
        let Some(watcher) = self.watcher.take() else {
            return Ok(());
        };
        // The watcher does it, as it would after a kill: one way, which is always tried. Should it be gone, this program does.
        watcher.finish();
        if self.smt.state()? != self.before {
            self.smt.write(self.before)?;
        }
        match self.smt.state()? {
            now if now == self.before => Ok(()),
            now => Err(SmtError::NotSwitched {
                wanted: self.before,
                now,
            }),
        }
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        // Nobody is left to tell; `restore` tells.
        let _ = self.put_back();
    }
}

/// The hardware threads of each core that this process may use: cores in order, the first thread of each first.
pub fn sibling_sets(topology: &Topology) -> Vec<Vec<CpuId>> {
    let usable = topology.usable_cpus();
    topology
        .cores
        .iter()
        .map(|core| {
            core.cpus
                .iter()
                .filter(|cpu| usable.contains(cpu))
                .copied()
                .collect::<Vec<CpuId>>()
        })
        .filter(|cpus| !cpus.is_empty())
        .collect()
}

/// One CPU of each core: bound to these, threads have their core to themselves.
pub fn one_of_each_core(topology: &Topology) -> Vec<CpuId> {
    sibling_sets(topology)
        .iter()
        .filter_map(|cpus| cpus.first().copied())
        .collect()
}

/// Whether any core has more than one usable hardware thread.
pub fn has_siblings(topology: &Topology) -> bool {
    sibling_sets(topology).iter().any(|cpus| cpus.len() > 1)
}
