//! [`Stopped`]: what administrators have paused or disabled, for pools that do not exist yet.

use std::collections::HashSet;

/// Databases by name. Guarded by the lock of its owner.
#[derive(Debug, Default)]
pub(crate) struct Stopped {
    /// `PAUSE` without a name.
    pub all: bool,
    /// `PAUSE` and `KILL` with one.
    pub paused: HashSet<String>,
    /// `DISABLE`.
    pub disabled: HashSet<String>,
}

impl Stopped {
    /// Whether a database's clients wait.
    pub fn is_paused(&self, database: &str) -> bool {
        self.all || self.paused.contains(database)
    }

    /// `PAUSE` or `KILL`; `false` when that was so already.
    pub fn pause(&mut self, database: Option<&str>) -> bool {
        match database {
            Some(name) => !self.all && self.paused.insert(name.to_owned()),
            None => !std::mem::replace(&mut self.all, true),
        }
    }

    /// `RESUME`; `false` when nothing was paused.
    pub fn resume(&mut self, database: Option<&str>) -> bool {
        match database {
            Some(name) => self.paused.remove(name),
            None => {
                let some = self.all || !self.paused.is_empty();
                self.all = false;
                self.paused.clear();
                some
            }
        }
    }
}
