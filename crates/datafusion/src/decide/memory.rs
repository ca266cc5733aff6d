//! [`Memory`]: what earlier plans and runs of a session found out, for later ones.
//!
//! Two bounded maps: what samples of in-memory tables said, and what hash tables turned out to be. Keys name tables by the
//! addresses of their batches, so a table that changes or is replaced is another table; should a new table ever be laid out at
//! the addresses of a dropped one, it inherits an estimate, which is only ever a hint. The least recently used entry makes
//! room. Entries are numbers, no rows are kept.

use super::leaf::LeafNumbers;
use datafusion::prelude::SessionContext;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Entries of each map.
const ENTRIES_MAX: usize = 1024;

/// A hash table that was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What a session remembers. Both mutexes are held for single look-ups, never together.
#[derive(Default)]
pub struct Memory {
    leaves: Mutex<Recent<Arc<LeafNumbers>>>,
    built: Mutex<Recent<Remembered>>,
}

impl Memory {
    /// The memory of a session, made when it is first asked for.
    pub fn of(context: &SessionContext) -> Arc<Memory> {
        let state = context.state_ref();
        let found = state.read().config().get_extension::<Memory>();
        if let Some(memory) = found {
            return memory;
        }
        let mut state = state.write();
        // Somebody may have made it between the two locks.
        state.config().get_extension::<Memory>().unwrap_or_else(|| {
            let memory = Arc::new(Memory::default());
            state.config_mut().set_extension(Arc::clone(&memory));
            memory
        })
    }

    /// What a sample said, made by `take` where there is none.
    pub fn leaf(&self, key: &str, take: impl FnOnce() -> Option<LeafNumbers>) -> Option<Arc<LeafNumbers>> {
        if let Some(found) = self.leaves.lock().get(key) {
            return Some(found);
        }
        let numbers = Arc::new(take()?);
        self.leaves.lock().put(key.to_string(), Arc::clone(&numbers));
        Some(numbers)
    }

    /// A table that was built under this key.
    pub fn built(&self, key: &str) -> Option<Remembered> {
        self.built.lock().get(key)
    }

    /// Remembers a built table.
    pub fn remember(&self, key: &str, table: Remembered) {
        self.built.lock().put(key.to_string(), table);
    }
}

/// A map of at most [`ENTRIES_MAX`] entries.
struct Recent<T> {
    entries: HashMap<String, (T, u64)>,
    uses: u64,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Recent {
            entries: HashMap::new(),
            uses: 0,
        }
    }
}

impl<T: Clone> Recent<T> {
    fn get(&mut self, key: &str) -> Option<T> {
        self.uses += 1;
        let (value, used) = self.entries.get_mut(key)?;
        *used = self.uses;
        Some(value.clone())
    }

    fn put(&mut self, key: String, value: T) {
        self.uses += 1;
        if self.entries.len() >= ENTRIES_MAX && !self.entries.contains_key(&key) {
            let oldest = self.entries.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.entries.remove(&oldest);
            }
        }
        self.entries.insert(key, (value, self.uses));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_makes_room() {
        let mut map = Recent::default();
        for number in 0..ENTRIES_MAX {
            map.put(number.to_string(), number);
        }
        assert_eq!(map.get("0"), Some(0));
        map.put("new".into(), 7);
        assert_eq!(map.entries.len(), ENTRIES_MAX);
        assert_eq!(
            (map.get("0"), map.get("1"), map.get("new")),
            (Some(0), None, Some(7))
        );
        map.put("new".into(), 8);
        assert_eq!((map.entries.len(), map.get("new")), (ENTRIES_MAX, Some(8)));
    }
}
