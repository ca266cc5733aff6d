//! [`Teams`]: how the clients of a worker share its CPU, and [`TeamOptions`]: how teams are formed if they do it in teams.

use std::fmt;
use std::str::FromStr;

use corun_model::teams::NextTeam;
use thiserror::Error;

/// How the clients of a worker share its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Teams {
    /// A thread each; the operating system decides who runs.
    #[default]
    Off,
    /// User-level threads on one thread a worker, a transaction each in turns, with no switch inside of a transaction unless it waits: what
    /// teams are compared with, at the same number of clients.
    Serial,
    /// User-level threads on one thread a worker that run the same operation together and switch inside of it (STEPS).
    On,
    /// As `On` while that is measured to be faster than `Serial`, and as `Serial` otherwise.
    Auto,
}

impl Teams {
    /// All of them.
    pub const ALL: [Teams; 4] = [Teams::Off, Teams::Serial, Teams::On, Teams::Auto];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Teams::Off => "off",
            Teams::Serial => "serial",
            Teams::On => "on",
            Teams::Auto => "auto",
        }
    }
}

impl fmt::Display for Teams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text that names no way of sharing a CPU.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("teams are off, serial, on or auto, not {0:?}")]
pub struct UnknownTeams(String);

impl FromStr for Teams {
    type Err = UnknownTeams;

    fn from_str(text: &str) -> Result<Self, UnknownTeams> {
        let found = Teams::ALL.into_iter().find(|teams| teams.as_str() == text);
        found.ok_or_else(|| UnknownTeams(text.to_owned()))
    }
}

/// How teams are formed; without meaning where clients are threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TeamOptions {
    /// Members of a team at most. At least 1.
    pub size_max: usize,
    /// Clients of a worker that have a turn at once at most; the others wait for theirs, first come, first served. A turn is a millisecond
    /// of transactions. Zero: all.
    pub transactions_max: usize,
    /// How often in a row a member begins another operation of its team without waiting for the others of it.
    pub repeats_max: u32,
    /// Which team runs when one has ended.
    pub next: NextTeam,
    /// Stack of each client, in bytes.
    pub stack_bytes: usize,
}

impl Default for TeamOptions {
    /// Measured with `examples/teams.rs`. Reads of YCSB far beyond the caches gain the same from teams of 4 to 16. TPC-C does not gain: more
    /// clients at once make it slower, and of 300 clients of 30 warehouses that pay, without a limit 1 % to 20 % of all operations go
    /// astray for locks. Whether to go on with operations of the same list helps was within noise.
    fn default() -> Self {
        Self {
            size_max: 8,
            transactions_max: 8,
            repeats_max: 8,
            next: NextTeam::LastMember,
            stack_bytes: 256 << 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_read_as_they_are_shown() {
        for teams in Teams::ALL {
            assert_eq!(teams.to_string().parse(), Ok(teams));
        }
        let error = "sometimes".parse::<Teams>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "teams are off, serial, on or auto, not \"sometimes\""
        );
    }
}
