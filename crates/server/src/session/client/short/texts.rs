//! [`ShortTexts`]: texts that a session remembers, and what became of each.

use super::super::Prepared;
use crate::session::statement::Kind;
use crate::short::Lifted;
use std::collections::HashMap;
use std::sync::Arc;

/// Texts that a session remembers. Unmeasured.
const TEXTS_MAX: usize = 256;
/// Spellings of `BEGIN` and `COMMIT` that are remembered.
const FRAMES_MAX: usize = 8;
/// What a compiled statement depends on: settings, rights, definitions, and the planner's own settings.
pub(super) type Versions = ((u64, u64, u64), u64);

/// Texts and what they are, in a session.
#[derive(Debug, Default)]
pub(in crate::session) struct ShortTexts {
    pub(super) entries: HashMap<String, Text>,
    pub(super) of: Versions,
    /// Statements that begin or end a transaction, by their words.
    frames: Vec<Arc<Prepared>>,
    /// The simple query that runs next, lifted.
    pub(super) next: Option<(Arc<str>, Lifted)>,
    /// Raised when the planner's own settings change.
    pub(super) planner: u64,
    /// They were changed in the transaction.
    planner_moved: bool,
    /// The transaction, or the pipeline, has run what is not short: its end may take a while.
    pub(super) long: bool,
}

#[derive(Debug)]
pub(super) enum Text {
    /// One like it has run.
    Seen,
    /// It is not short, or not like its lifted text.
    Never,
    Known(Arc<Prepared>),
}

impl ShortTexts {
    /// The planner's own settings are others now.
    pub(in crate::session) fn planner_changed(&mut self) {
        self.planner += 1;
        self.planner_moved = true;
    }

    /// A transaction has ended.
    pub(in crate::session) fn transaction_ended(&mut self, committed: bool) {
        if std::mem::take(&mut self.planner_moved) && !committed {
            self.planner += 1;
        }
        self.long = false;
    }

    /// What statements have written outside of a transaction block has ended.
    pub(in crate::session) fn implicit_ended(&mut self) {
        self.long = false;
    }

    /// A statement that has run in a simple query.
    pub(in crate::session) fn keep_frame(&mut self, prepared: &Arc<Prepared>) {
        let statement = &prepared.statement;
        let is_plain = matches!(&statement.kind, Kind::Begin(..) | Kind::Commit) && is_frame(&statement.text);
        if is_plain && self.frames.len() < FRAMES_MAX && self.frame(&statement.text).is_none() {
            self.frames.push(Arc::clone(prepared));
        }
    }

    /// One that begins or ends a transaction, with its text.
    pub(super) fn frame(&self, sql: &str) -> Option<(Arc<str>, Arc<Prepared>)> {
        let sql = without_end(sql);
        let frame = self.frames.iter().find(|frame| *frame.statement.text == *sql)?;
        Some((Arc::clone(&frame.statement.text), Arc::clone(frame)))
    }

    pub(super) fn put(&mut self, key: String, text: Text) {
        if self.entries.len() >= TEXTS_MAX && !self.entries.contains_key(&key) {
            self.entries.retain(|_, text| matches!(text, Text::Known(_)));
            if self.entries.len() >= TEXTS_MAX {
                self.entries.clear();
            }
        }
        self.entries.insert(key, text);
    }
}

/// The key of a Parse: no lifted text begins so.
pub(super) fn parse_key(sql: &str, types: &[u32]) -> String {
    let types: Vec<String> = types.iter().map(u32::to_string).collect();
    format!("\0{}\0{sql}", types.join(","))
}

fn without_end(sql: &str) -> &str {
    sql.trim_ascii().trim_end_matches(';').trim_ascii_end()
}

/// Statements of the protocol that begin or end a transaction.
pub(super) fn is_frame(sql: &str) -> bool {
    let sql = without_end(sql);
    ["begin", "commit", "end", "start transaction"]
        .iter()
        .any(|frame| sql.eq_ignore_ascii_case(frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_and_ends_transactions_is_known_by_its_words() {
        for sql in ["BEGIN", "begin;", " Commit ; ", "END", "START TRANSACTION"] {
            assert!(is_frame(sql), "{sql}");
        }
        for sql in [
            "",
            "rollback",
            "begin work; select 1",
            "commit prepared 'x'",
            "begin isolation level serializable",
        ] {
            assert!(!is_frame(sql), "{sql}");
        }
    }

    #[test]
    fn texts_are_bounded() {
        let mut texts = ShortTexts::default();
        for at in 0..10 * TEXTS_MAX {
            texts.put(format!("select {at}"), Text::Seen);
            assert!(texts.entries.len() <= TEXTS_MAX);
        }
        texts.put("last".to_owned(), Text::Never);
        assert!(texts.entries.contains_key("last"));
    }
}
