//! Maps from what a certificate or the operating system calls somebody to the database users they may be (`pg_ident.conf`).
//!
//! Each line is `map system-name database-user`, with the quoting and comments of [`super::hba`]. Regular expressions, which
//! PostgreSQL takes here, are refused when read.

/// The lines of one map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdentMap {
    pairs: Vec<(String, String)>,
}

impl IdentMap {
    /// Adds a line.
    pub fn allow(&mut self, system_name: impl Into<String>, user: impl Into<String>) {
        self.pairs.push((system_name.into(), user.into()));
    }

    /// Whether somebody known as `system_name` may be `user`.
    pub fn allows(&self, system_name: &str, user: &str) -> bool {
        self.pairs
            .iter()
            .any(|(name, to)| name == system_name && (to == user || to == "all"))
    }
}
