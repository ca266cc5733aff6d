//! `corun.toml`: the pooler's configuration, read once at the start and again at each `RELOAD`.
//!
//! Order of calls: [`Config::load`] (or [`Config::parse`] without touching any file) gives a [`Config`] with everything
//! doubtful about it, or everything that is wrong at once; [`Config::effective_database`] then returns what holds for one
//! database and user. [`import`] makes such a file out of PgBouncer's. Every key stands in one table, see [`keys`]. Not
//! here: what the settings do, and the contents of the files they name.

mod check;
mod choices;
mod corun;
mod database;
mod docs;
mod effective;
mod finding;
mod host;
pub mod import;
mod nearest;
mod peer;
mod proxy;
mod range;
mod read;
mod renamed;
mod settings;
mod user;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use choices::{
    AuthType, AutoPrepare, Dispatch, Doubtful, HeavyQueuePolicy, Io, KeyType, LoadBalance, LogFormat,
    LogLevel, PoolMode, ReplicaDispatch, SplitPlacement, Switch,
};
pub use corun::Corun;
use database::CONSOLE_HINT;
pub use database::{CONSOLE, CONSOLES, Database, WILDCARD};
pub use docs::{documentation, keys};
pub use effective::Effective;
use finding::Findings;
pub use finding::{Finding, Severity};
pub use host::{Endpoint, Host, HostPort, socket_in};
pub(crate) use import::until_quote;
pub use nearest::nearest;
pub use peer::Peer;
pub use proxy::{AUTH_QUERY, Proxy};
pub use range::{Range, Split};
pub use renamed::{RENAMED_KEYS, RENAMED_TABLES, renamed_table};
use settings::Settings;
pub use settings::{Effect, Key, Section, Setting};
pub(crate) use settings::{quote, quote_list, quote_name};
pub use user::User;
pub use values::{AutoCount, Bytes, FileMode, KeyValue, Raw, Secret};

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// All settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// `[proxy]`
    pub proxy: Proxy,
    /// `[databases.NAME]`; [`WILDCARD`] stands for all others.
    pub databases: BTreeMap<String, Database>,
    /// `[users.NAME]`
    pub users: BTreeMap<String, User>,
    /// `[corun]`
    pub corun: Corun,
    /// `[ranges.NAME]`
    pub ranges: BTreeMap<String, Range>,
    /// `[splits.NAME]`
    pub splits: BTreeMap<String, Split>,
    /// `[peers.ID]`
    pub peers: BTreeMap<String, Peer>,
}

/// A usable configuration with what is doubtful about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// Warnings only.
    pub warnings: Vec<Finding>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}\nhint: name the file with --config, or make one with `corun proxy import`", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file says something wrong.
    #[error("{}", lines(findings))]
    Wrong {
        /// Every error, and the warnings, in the order of the file.
        findings: Vec<Finding>,
    },
}

fn lines(findings: &[Finding]) -> String {
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    lines.join("\n")
}

impl Config {
    /// Reads and checks a file; paths in it become relative to its folder, and the files they name are looked at. A file whose name
    /// ends in `.ini` is one of PgBouncer's and is read as [`import::import_pgbouncer`] does.
    ///
    /// # Errors
    /// When the file cannot be read, or with everything that is wrong in it.
    pub fn load(file: &Path) -> Result<Loaded, ConfigError> {
        let unreadable = |error| ConfigError::Unreadable {
            file: file.to_owned(),
            error,
        };
        let length = std::fs::metadata(file).map_err(unreadable)?.len();
        if length > FILE_BYTES_MAX {
            return Err(unreadable(std::io::Error::other(format!(
                "larger than {FILE_BYTES_MAX} bytes"
            ))));
        }
        let mut text = std::fs::read_to_string(file).map_err(unreadable)?;
        let name = file.display().to_string();
        let folder = file.parent().unwrap_or(Path::new(""));
        let mut imported = None;
        if file.extension().is_some_and(|extension| extension == "ini") {
            let ini = import::convert(&text, &name, folder, None);
            text = ini.toml;
            imported = Some(ini.findings);
        }
        let (mut config, mut findings) = read::read(&text, &name);
        check::check(&config, &mut findings);
        if imported.is_none() {
            check::resolve_paths(&mut config, folder);
        }
        check::check_files(&config, file, &mut findings);
        if let Some(imported) = imported {
            findings.came_from(imported);
        }
        let warnings = findings.finish()?;
        Ok(Loaded { config, warnings })
    }

    /// Reads and checks a text; `file` is its name in findings. Touches no file.
    ///
    /// # Errors
    /// With everything that is wrong in it.
    pub fn parse(text: &str, file: &str) -> Result<Loaded, ConfigError> {
        let (config, mut findings) = read::read(text, file);
        check::check(&config, &mut findings);
        let warnings = findings.finish()?;
        Ok(Loaded { config, warnings })
    }

    /// The table of a section; where there is one for each name, an empty one is made if there is none of this name.
    fn table(&mut self, section: Section, name: &str) -> &mut dyn Settings {
        match section {
            Section::Proxy => &mut self.proxy,
            Section::Corun => &mut self.corun,
            Section::Database => self.databases.entry(name.to_owned()).or_default(),
            Section::User => self.users.entry(name.to_owned()).or_default(),
            Section::Range => self.ranges.entry(name.to_owned()).or_default(),
            Section::Split => self.splits.entry(name.to_owned()).or_default(),
            Section::Peer => self.peers.entry(name.to_owned()).or_default(),
        }
    }

    /// The keys of `[proxy]` and `[corun]` with their values as text, in the order of the documentation.
    pub(crate) fn global_settings(&self) -> impl Iterator<Item = (Key, String)> {
        let proxy = Proxy::keys().into_iter().zip(self.proxy.show());
        let corun = Corun::keys().into_iter().zip(self.corun.show());
        proxy.chain(corun).map(|(key, (_, value))| (key, value))
    }

    /// Those of them whose names begin so, as text.
    pub(crate) fn settings_of(&self, beginning: &str) -> Vec<String> {
        let settings = self.global_settings();
        let found = settings.filter(|(key, _)| key.name.starts_with(beginning));
        found.map(|(_, value)| value).collect()
    }

    /// Sets a key of `[proxy]` or `[corun]` as the console's `SET` does.
    ///
    /// # Errors
    /// Says which key was probably meant, that it needs a restart, or which values it takes. Nothing changes then. A key of PgBouncer's
    /// without counterpart changes nothing, either.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let names: Vec<Key> = self.global_settings().map(|(known, _)| known).collect();
        let Some(found) = names.iter().find(|known| known.name == key) else {
            if let Some(new) = renamed::renamed_key(key) {
                return Err(format!("{key} is now called {new}"));
            }
            // PgBouncer has it, and programs that talk to its console may set it.
            if import::advice(key).is_some() {
                return Ok(());
            }
            let near = nearest(key, names.iter().map(|known| known.name));
            return Err(match near {
                Some(near) => format!("no setting is called {key}; did you mean {near}?"),
                None => format!("no setting is called {key}"),
            });
        };
        if found.effect == Effect::Restart {
            return Err(format!(
                "{key} is read at the start only: change the file and restart"
            ));
        }
        let raw = Raw::Text(value.to_owned());
        let mut changed = self.clone();
        if let Some(Err(expected)) = changed.table(found.section, "").set(key, &raw) {
            return Err(format!("{key} takes {expected}"));
        }
        // Together with the other settings it must still be a configuration.
        let mut findings = Findings::of("SET");
        check::check(&changed, &mut findings);
        findings.errors()?;
        *self = changed;
        Ok(())
    }

    /// Keys that a restart would be needed for to go from these settings to `other`.
    pub fn restart_needed(&self, other: &Config) -> Vec<&'static str> {
        let both = self.global_settings().zip(other.global_settings());
        both.filter(|((key, old), (_, new))| key.effect == Effect::Restart && old != new)
            .map(|((key, _), _)| key.name)
            .collect()
    }
}
