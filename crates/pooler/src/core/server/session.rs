//! [`ServerSession`]: what the proxy knows of the session behind a server connection.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::session::prepared::ServerStatements;
use crate::session::settings::Settings;
use corun_wire::TransactionStatus;

/// Statements of clients' own names that are closed when the client leaves; a connection with more is closed itself.
const STRAY_STATEMENTS_MAX: usize = 1024;

/// The session behind a server connection.
pub(in crate::core) struct ServerSession {
    pub status: TransactionStatus,
    /// What its start-up packet asked for: its defaults.
    pub start: Arc<Settings>,
    pub settings: Arc<Settings>,
    /// ParameterStatus by name.
    pub parameters: Vec<(String, String)>,
    pub statements: ServerStatements,
    /// Statements of clients' own names that stand on the server by accident.
    pub strays: BTreeSet<Box<[u8]>>,
    /// Who may have drawn numbers from sequences here.
    pub sequences: Sequences,
}

impl ServerSession {
    /// One that begins with these settings and keeps so many statements.
    pub fn new(start: Arc<Settings>, statements_max: usize) -> Self {
        Self {
            status: TransactionStatus::Idle,
            settings: Arc::clone(&start),
            start,
            parameters: Vec::new(),
            statements: ServerStatements::new(statements_max),
            strays: BTreeSet::new(),
            sequences: Sequences::Nobodys,
        }
    }

    /// What the server has last said of a parameter.
    pub fn reported(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether the server goes on after a message that does not belong into a copy. Since version 14 it ends the connection.
    pub fn outlives_a_broken_copy(&self) -> bool {
        let version = self.reported("server_version").unwrap_or_default();
        let major = version.split(['.', ' ']).next().unwrap_or_default();
        major.parse::<u32>().is_ok_and(|major| major < 14)
    }

    /// A ParameterStatus came. Returns whether the value is new.
    pub fn parameter(&mut self, name: &str, value: &str) -> bool {
        if let Some((_, old)) = self.parameters.iter_mut().find(|(known, _)| known == name) {
            let new = old != value;
            value.clone_into(old);
            return new;
        }
        // Servers report some fifteen; one that reports thousands is no PostgreSQL.
        if self.parameters.len() < 256 {
            self.parameters.push((name.to_owned(), value.to_owned()));
        }
        true
    }

    /// A statement stands here under its client's own name, until the server goes to another client. `false`: there are too many.
    pub(super) fn has_stray(&mut self, name: &[u8]) -> bool {
        if self.strays.len() < STRAY_STATEMENTS_MAX {
            self.strays.insert(name.into());
            return true;
        }
        self.strays.contains(name)
    }

    /// `DISCARD ALL` has run.
    pub(super) fn discarded(&mut self) {
        self.settings = Arc::clone(&self.start);
        self.statements.clear();
        self.sequences = Sequences::Nobodys;
    }
}

/// Whose are the last numbers of sequences that a session tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Sequences {
    /// There are none.
    Nobodys,
    /// Those of this client (number).
    Of(u64),
    /// Nobody knows.
    Mixed,
}

impl Sequences {
    /// A client gets the server. `reads`: it asks for such numbers. `true`: what there is must go first.
    pub fn pair(&mut self, client: u64, reads: bool) -> bool {
        let others = *self != Sequences::Nobodys && *self != Sequences::Of(client);
        *self = match others && !reads {
            true => Sequences::Mixed,
            false => Sequences::Of(client),
        };
        others && reads
    }
}

#[cfg(test)]
mod tests {
    use super::Sequences;

    #[test]
    fn numbers_of_others_go_before_somebody_asks_for_his_own() {
        let mut of = Sequences::Nobodys;
        assert!(!of.pair(1, true) && !of.pair(1, true));
        assert!(!of.pair(2, false) && of == Sequences::Mixed);
        assert!(!of.pair(2, false), "it does not ask");
        assert!(of.pair(2, true) && of == Sequences::Of(2));
        assert!(!of.pair(2, true));
        assert!(of.pair(1, true));
    }
}
