//! [`Catalogues`]: what is known of databases' own code, of all event loops, and how it gets known.
//!
//! ```text
//!  the first connection, and the end of a transaction that changed definitions: the question, before anybody else is served there
//!
//!  a text whose names matter ─► View::of ─► known: what it may do to the session is noted with its client
//!                                   └─ not: kept with its client ─► the transaction ends ─► wants() ─► question on that very server
//!  its rows ─► Catalogue::new ─► Message::Catalogue to every loop ─► the texts that were kept are judged
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::core::shared::{Message, Shared};
use crate::session::catalogue::{Catalogue, Trusted};

/// Age at which definitions are looked at again: they may have changed past the pooler. Unmeasured.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// A question is asked again if nothing has become of it for so long.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// A database that refuses the question so often in a row tells nothing.
const REFUSALS_MAX: u32 = 3;
/// Bytes of an answer beyond which it is read aside: an event loop stands still for about a millisecond.
const READ_AT_ONCE_MAX: usize = 128 << 10;
/// Databases known at which those that nobody asked about lately are forgotten.
const DATABASES_MAX: usize = 4096;

/// Of one database.
#[derive(Default)]
struct Entry {
    known: Option<Arc<Catalogue>>,
    /// Definitions have changed since the question was asked that is awaited.
    outdated: bool,
    looked: Option<Instant>,
    asked: Option<Instant>,
    /// Times in a row that the question was refused.
    refused: u32,
}

/// Of all databases, as clients name them.
#[derive(Default)]
pub(crate) struct Catalogues {
    entries: Mutex<HashMap<Arc<str>, Entry>>,
    /// Changes with every entry.
    version: AtomicU64,
}

impl Catalogues {
    /// Whether the caller shall ask a server about a database now. `needed`: somebody waits for the answer.
    pub fn wants(&self, database: &Arc<str>, needed: bool) -> bool {
        let now = Instant::now();
        let mut entries = self.entries.lock();
        if entries.len() >= DATABASES_MAX && !entries.contains_key(database) {
            entries.retain(|_, entry| entry.looked.is_some_and(|at| now - at < 2 * LOOK_AGAIN));
        }
        let entry = entries.entry(Arc::clone(database)).or_default();
        if entry.asked.is_some_and(|at| now - at < ASK_AGAIN) {
            return false;
        }
        let old = entry.looked.is_none_or(|at| now - at >= LOOK_AGAIN);
        if !(old || needed && entry.known.is_none()) {
            return false;
        }
        entry.asked = Some(now);
        entry.outdated = false;
        true
    }

    /// A text that changes definitions goes to a database, or has run there.
    pub fn outdated(&self, database: &str) {
        if let Some(entry) = self.entries.lock().get_mut(database) {
            entry.outdated = true;
            entry.known = None;
        }
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Everything is to be asked anew: the configuration has changed.
    pub fn forget(&self) {
        self.entries.lock().clear();
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The answer to the question; `None`: there is none. Every event loop is told; a long answer is read on a thread of its own.
    pub fn learn(
        &self,
        shared: &Arc<Shared>,
        database: &Arc<str>,
        rows: Option<Vec<Vec<Option<String>>>>,
        trusted: Trusted,
    ) {
        let length = |row: &Vec<Option<String>>| row.iter().flatten().map(String::len).sum::<usize>();
        let long = rows.iter().flatten().map(length).sum::<usize>() > READ_AT_ONCE_MAX;
        let shared = Arc::clone(shared);
        let database = Arc::clone(database);
        let work = move || {
            let found = rows.as_ref().map(|rows| Catalogue::new(rows, &trusted));
            shared.catalogues.keep(&database, found);
            shared.tell_all(|| Message::Catalogue(Arc::clone(&database)));
        };
        if !long {
            return work();
        }
        let name = "corun-catalogue".to_owned();
        if let Err(error) = std::thread::Builder::new().name(name).spawn(work) {
            tracing::warn!(%error, "what the code of a database does cannot be looked at");
        }
    }

    /// The server that was asked is gone.
    pub fn unasked(&self, database: &str) {
        if let Some(entry) = self.entries.lock().get_mut(database) {
            entry.asked = None;
        }
    }

    fn keep(&self, database: &Arc<str>, found: Option<Catalogue>) {
        if let Some(entry) = self.entries.lock().get_mut(database) {
            entry.asked = None;
            entry.refused = if found.is_none() { entry.refused + 1 } else { 0 };
            let found = match found {
                Some(found) => found,
                None if entry.refused >= REFUSALS_MAX => Catalogue::unreadable(),
                None => return,
            };
            entry.looked = Some(Instant::now());
            // Otherwise it is of before the change.
            if !entry.outdated {
                entry.known = Some(Arc::new(found));
            }
        }
        self.version.fetch_add(1, Ordering::Release);
    }

    fn of(&self, database: &str) -> Option<Arc<Catalogue>> {
        self.entries.lock().get(database)?.known.clone()
    }
}

/// What one event loop has seen of them.
pub(in crate::core) struct View {
    pub all: Arc<Catalogues>,
    seen: HashMap<Arc<str>, Option<Arc<Catalogue>>>,
    version: u64,
}

impl View {
    pub fn new(all: Arc<Catalogues>) -> Self {
        Self {
            all,
            seen: HashMap::new(),
            version: 0,
        }
    }

    /// What is known of a database's own code now.
    pub fn of(&mut self, database: &Arc<str>) -> Option<&Arc<Catalogue>> {
        let version = self.all.version.load(Ordering::Acquire);
        if version != self.version {
            self.seen.clear();
            self.version = version;
        }
        if !self.seen.contains_key(database) {
            self.seen.insert(Arc::clone(database), self.all.of(database));
        }
        self.seen.get(database)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_that_change_are_asked_about_again() {
        let all = Arc::new(Catalogues::default());
        let mut view = View::new(Arc::clone(&all));
        let database: Arc<str> = "a".into();
        assert!(view.of(&database).is_none());
        assert!(
            all.wants(&database, true) && !all.wants(&database, true),
            "it is being asked"
        );
        all.keep(&database, Some(Catalogue::default()));
        assert!(view.of(&database).is_some());
        assert!(!all.wants(&database, true) && !all.wants(&database, false));
        all.outdated("a");
        assert!(view.of(&database).is_none());
        assert!(!all.wants(&database, false), "nobody waits for it");
        assert!(all.wants(&database, true));
        all.outdated("a");
        all.keep(&database, Some(Catalogue::default()));
        assert!(view.of(&database).is_none(), "it changed while it was asked");
        assert!(all.wants(&database, true));
        all.keep(&database, Some(Catalogue::default()));
        assert!(view.of(&database).is_some());
        all.outdated("a");
        for _ in 0..REFUSALS_MAX {
            assert!(view.of(&database).is_none() && all.wants(&database, true));
            all.keep(&database, None);
        }
        assert_eq!(
            view.of(&database).map(|known| &**known),
            Some(&Catalogue::unreadable())
        );
    }
}
