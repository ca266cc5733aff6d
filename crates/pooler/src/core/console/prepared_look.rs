//! What an event loop tells of its prepared statements.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use corun_net::reactor::Reactor;

use crate::admin::PreparedRow;
use crate::core::event_loop::EventLoop;

/// Statements told at most, those bound most often first.
const ROWS_MAX: usize = 10_000;
/// Letters of a text that are shown.
const TEXT_LETTERS_MAX: usize = 200;

impl<R: Reactor> EventLoop<R> {
    /// The statements this loop has for clients or by itself.
    pub(in crate::core) fn look_at_statements(&self) -> Vec<PreparedRow> {
        let mut clients: HashMap<u64, u64> = HashMap::new();
        for (_, client) in &self.clients {
            let unnamed = client.statements.unnamed.iter();
            for prepared in client
                .statements
                .named()
                .map(|(_, prepared)| prepared)
                .chain(unnamed)
            {
                *clients.entry(prepared.statement.id).or_default() += 1;
            }
        }
        let mut servers: HashMap<u64, u64> = HashMap::new();
        for (_, server) in &self.servers {
            for id in server.session.statements.ids() {
                *servers.entry(id).or_default() += 1;
            }
        }
        let mut rows: Vec<PreparedRow> = self
            .classifier
            .statements
            .all()
            .into_iter()
            .map(|statement| PreparedRow {
                name: statement.name.to_string(),
                statement: shortened(&statement.sql),
                clients: clients.get(&statement.id).copied().unwrap_or(0),
                servers: servers.get(&statement.id).copied().unwrap_or(0),
                bind_count: statement.binds.load(Ordering::Relaxed),
                automatic: self.classifier.auto.lifted.contains(&statement.id),
            })
            .collect();
        rows.sort_by(|a, b| b.bind_count.cmp(&a.bind_count).then_with(|| a.name.cmp(&b.name)));
        rows.truncate(ROWS_MAX);
        rows
    }
}

/// The beginning of a text.
fn shortened(sql: &[u8]) -> String {
    let text = String::from_utf8_lossy(&sql[..sql.len().min(4 * TEXT_LETTERS_MAX)]);
    match text.char_indices().nth(TEXT_LETTERS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_shortened_between_letters() {
        assert_eq!(shortened(b"select 1"), "select 1");
        let long = "ä".repeat(TEXT_LETTERS_MAX + 1);
        let short = shortened(long.as_bytes());
        assert_eq!(short, format!("{}...", "ä".repeat(TEXT_LETTERS_MAX)));
        let exact = "ä".repeat(TEXT_LETTERS_MAX);
        assert_eq!(shortened(exact.as_bytes()), exact);
    }
}
