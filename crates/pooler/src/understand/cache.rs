//! [`Understanding`]: texts that were understood, kept within bounds.

use std::collections::HashSet;
use std::sync::Arc;

use lru::LruCache;

use super::parse::understand;
use super::{StatementKind, Understood, rough};

/// Bounds of an [`Understanding`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Texts kept at most.
    pub entries_max: usize,
    /// Bytes they take at most, roughly.
    pub bytes_max: usize,
    /// Bytes of a text beyond which it is not parsed: the event loop stands still meanwhile.
    pub text_bytes_max: usize,
}

impl Default for Limits {
    /// 10,000 texts in 16 MiB, unmeasured. Texts up to 32 KiB: a bulk INSERT of that size takes about 10 ms to parse in a build
    /// for tests; beyond, it is a write all the same.
    fn default() -> Self {
        Limits {
            entries_max: 10_000,
            bytes_max: 16 << 20,
            text_bytes_max: 32 << 10,
        }
    }
}

/// What the cache did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Texts asked for.
    pub asked: u64,
    /// Of these, found by what they look like without their literals.
    pub found_rough: u64,
    /// Of these, found by their exact text.
    pub found_exact: u64,
    /// Of these, understood anew, whether the grammar knew them or not.
    pub parsed: u64,
    /// Of the latter, those the grammar did not know or that were too long or too deep.
    pub unknown: u64,
    /// Texts let go of to keep within bounds.
    pub evicted: u64,
    /// Texts kept now.
    pub entries: usize,
    /// Bytes they take, roughly.
    pub bytes: usize,
}

/// What stands in the cache behind a key.
#[derive(Debug)]
enum Entry {
    Understood(Arc<Understood>),
    /// Behind a rough key: literals matter to what these texts do; look for the exact text.
    Exact,
}

/// The cache of one event loop.
#[derive(Debug)]
pub struct Understanding {
    limits: Limits,
    /// Behind a byte that says which kind of key it is.
    kept: LruCache<Box<[u8]>, Entry>,
    statistics: Statistics,
    /// The key that is looked for.
    key: Vec<u8>,
}

/// First byte of keys.
const ROUGH: u8 = b'r';
const EXACT: u8 = b'e';

/// What an entry takes beside its key and what it holds.
const OVERHEAD_BYTES: usize = 96;

impl Understanding {
    /// An empty cache.
    pub fn new(limits: Limits) -> Self {
        Understanding {
            limits,
            kept: LruCache::unbounded(),
            statistics: Statistics::default(),
            key: Vec::new(),
        }
    }

    /// How many different shapes the texts kept have. Looks at all of them.
    pub fn shapes(&self) -> usize {
        let shapes: HashSet<_> = self
            .kept
            .iter()
            .filter_map(|(_, entry)| match entry {
                Entry::Understood(understood) => Some(understood.shape),
                Entry::Exact => None,
            })
            .collect();
        shapes.len()
    }

    /// What a text means to a session with standard strings: where a text has a backslash, another session may read it otherwise.
    pub fn of(&mut self, text: &[u8]) -> Arc<Understood> {
        self.statistics.asked += 1;
        if text.len() > self.limits.text_bytes_max {
            return self.anew(text);
        }
        self.key.clear();
        self.key.push(ROUGH);
        let literals = rough::skeleton(text, &mut self.key);
        if literals.is_some()
            && let Some(Entry::Understood(understood)) = self.kept.get(self.key.as_slice())
        {
            self.statistics.found_rough += 1;
            return understood.clone();
        }
        let rough = literals.map(|literals| (literals, Box::from(self.key.as_slice())));
        self.key.clear();
        self.key.push(EXACT);
        self.key.extend_from_slice(text);
        if let Some(Entry::Understood(understood)) = self.kept.get(self.key.as_slice()) {
            self.statistics.found_exact += 1;
            return understood.clone();
        }
        let understood = self.anew(text);
        let exact = Box::from(self.key.as_slice());
        let entry = Entry::Understood(understood.clone());
        match rough {
            // A text that the grammar does not know says nothing about others that look like it.
            Some((literals, key)) if understood.kind != StatementKind::Unknown => {
                if literals == 0 || understood.kind.is_data() && !understood.by_literals {
                    self.keep(key, entry);
                } else {
                    self.keep(key, Entry::Exact);
                    self.keep(exact, entry);
                }
            }
            _ => self.keep(exact, entry),
        }
        understood
    }

    fn anew(&mut self, text: &[u8]) -> Arc<Understood> {
        let understood = understand(text, self.limits.text_bytes_max);
        self.statistics.parsed += 1;
        self.statistics.unknown += u64::from(understood.kind == StatementKind::Unknown);
        Arc::new(understood)
    }

    /// What the cache did so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            entries: self.kept.len(),
            ..self.statistics
        }
    }

    fn keep(&mut self, key: Box<[u8]>, entry: Entry) {
        let bytes = |key: &[u8], entry: &Entry| {
            let entry = match entry {
                Entry::Understood(understood) => understood.bytes(),
                Entry::Exact => 0,
            };
            OVERHEAD_BYTES + key.len() + entry
        };
        self.statistics.bytes += bytes(&key, &entry);
        if let Some((key, entry)) = self.kept.push(key, entry) {
            self.statistics.bytes -= bytes(&key, &entry);
        }
        while self.kept.len() > self.limits.entries_max || self.statistics.bytes > self.limits.bytes_max {
            let Some((key, entry)) = self.kept.pop_lru() else {
                break;
            };
            self.statistics.bytes -= bytes(&key, &entry);
            self.statistics.evicted += 1;
        }
    }
}
