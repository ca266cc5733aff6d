//! Prepared statements of the protocol, which follow their client from server to server.
//!
//! ```text
//!  client's name ──► Statement (text and types, one for all clients) ──► name on the servers: corun_N
//!  "stmt1"             interned by Statements                              each server: which N it has, and how fresh
//! ```
//!
//! A client's Parse always reaches the server it has then, so it learns of errors as it would without a proxy. On other servers the
//! statement is parsed again before its first use. Freshness: each Parse of a client draws a number ([`Statements::stamp`]); a server
//! whose copy is older than the client's own Parse parses again, so that a client which prepared after a table had changed never gets
//! the old plan of another client.
//!
//! What it is not: prepared statements of SQL (`PREPARE`), which pin the client to its server.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use lru::LruCache;
use parking_lot::Mutex;

use crate::understand::Understood;

/// Statements one client may have at most; the next Parse is refused.
pub const CLIENT_STATEMENTS_MAX: usize = 100_000;

/// What a statement takes beside its text, its types and its name at a client. Measured: 100,000 of 2 kB took 452 MB when each text was
/// kept twice, one time in what is understood of it.
const STATEMENT_BYTES: usize = 512;

/// How all names on servers begin.
pub(crate) const PREFIX: &[u8] = b"corun_";

/// A text with the types given for its parameters.
#[derive(Debug)]
pub struct Statement {
    /// Its number.
    pub id: u64,
    /// Its name on servers.
    pub name: Box<str>,
    /// Its text.
    pub sql: Box<[u8]>,
    /// Count and types, as on the wire.
    pub types: Box<[u8]>,
    /// What it does.
    pub understood: Arc<Understood>,
    /// How often it was bound.
    pub binds: AtomicU64,
    /// The settings it was parsed under, as far as its meaning depends on them.
    under: Box<[u8]>,
    /// The bytes of all statements that somebody has.
    all_bytes: Arc<AtomicUsize>,
}

impl Drop for Statement {
    fn drop(&mut self) {
        self.all_bytes.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}

impl Statement {
    /// Bytes it takes, roughly: its text stands here and in what is understood of it.
    pub fn bytes(&self) -> usize {
        STATEMENT_BYTES + 2 * self.sql.len() + self.types.len() + self.under.len()
    }

    fn is(&self, sql: &[u8], types: &[u8], under: &[u8]) -> bool {
        *self.sql == *sql && *self.types == *types && *self.under == *under
    }

    /// It is bound once more.
    pub fn bound(&self) {
        // Only a count: nothing is read by it.
        self.binds.fetch_add(1, Ordering::Relaxed);
    }
}

/// All statements of the clients of one process, each once: server connections go from one event loop to another.
#[derive(Debug)]
pub struct Statements {
    /// Begins the names on servers; random, so that no client can name a statement that is not its own.
    prefix: String,
    hasher: RandomState,
    bytes: Arc<AtomicUsize>,
    stamp: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    /// By a hash of text, types and settings.
    statements: HashMap<u64, Vec<Weak<Statement>>>,
    /// Entries at which those that nobody uses any more are dropped.
    sweep_at: usize,
    next: u64,
}

impl Known {
    fn find(&self, key: u64, sql: &[u8], types: &[u8], under: &[u8]) -> Option<Arc<Statement>> {
        let mut alike = self.statements.get(&key)?.iter().filter_map(Weak::upgrade);
        alike.find(|statement| statement.is(sql, types, under))
    }

    fn keep(&mut self, key: u64, statement: &Arc<Statement>) {
        if self.statements.len() >= self.sweep_at {
            self.statements.retain(|_, alike| {
                alike.retain(|statement| statement.strong_count() > 0);
                !alike.is_empty()
            });
            self.sweep_at = (2 * self.statements.len()).max(1024);
        }
        self.statements
            .entry(key)
            .or_default()
            .push(Arc::downgrade(statement));
    }
}

impl Statements {
    /// None yet. `nonce` should be random: it is part of the names on servers.
    pub fn new(nonce: u64) -> Self {
        Self {
            prefix: format!("corun_{nonce:016x}_"),
            hasher: RandomState::new(),
            bytes: Arc::default(),
            stamp: AtomicU64::new(0),
            known: Mutex::new(Known {
                statements: HashMap::new(),
                sweep_at: 1024,
                next: 0,
            }),
        }
    }

    /// The name on servers of the statement with this number.
    pub fn name(&self, id: u64) -> String {
        format!("{}{id}", self.prefix)
    }

    /// The statement of this text and these types, parsed under these settings where its meaning depends on them: they are part of what it
    /// is known by. `understood` is asked only for new ones.
    pub fn intern(
        &self,
        sql: &[u8],
        types: &[u8],
        under: &[u8],
        understood: impl FnOnce() -> Arc<Understood>,
    ) -> Arc<Statement> {
        let key = self.hasher.hash_one((sql, types, under));
        let found = self.known.lock().find(key, sql, types, under);
        if let Some(found) = found {
            return found;
        }
        // Without the lock: it may take a while.
        let understood = understood();
        let mut known = self.known.lock();
        if let Some(found) = known.find(key, sql, types, under) {
            return found;
        }
        known.next += 1;
        let id = known.next;
        let statement = Arc::new(Statement {
            id,
            name: self.name(id).into(),
            sql: sql.into(),
            types: types.into(),
            understood,
            binds: AtomicU64::new(0),
            under: under.into(),
            all_bytes: Arc::clone(&self.bytes),
        });
        self.bytes.fetch_add(statement.bytes(), Ordering::Relaxed);
        known.keep(key, &statement);
        statement
    }

    /// Those that somebody has, in no order.
    pub fn all(&self) -> Vec<Arc<Statement>> {
        let known = self.known.lock();
        known
            .statements
            .values()
            .flatten()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Bytes of all that somebody has, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A number higher than all before.
    pub fn stamp(&self) -> u64 {
        self.stamp.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A statement as one client prepared it.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The statement.
    pub statement: Arc<Statement>,
    /// When the client parsed it.
    pub stamp: u64,
}

/// One Parse of one client is the same as itself only.
impl PartialEq for Prepared {
    fn eq(&self, other: &Self) -> bool {
        self.stamp == other.stamp && self.statement.id == other.statement.id
    }
}

impl Eq for Prepared {}

/// The statements of one client. Takes no memory on the heap until the first.
#[derive(Debug, Default)]
pub struct ClientStatements {
    named: HashMap<Box<[u8]>, Prepared>,
    /// Bytes that those with names take, as if nobody else had them.
    bytes: usize,
    /// The unnamed one, until the next Parse without a name or simple query.
    pub unnamed: Option<Prepared>,
    /// What the client sends next has been refused once, for a statement that is parsed anew now.
    pub comes_again: bool,
}

impl ClientStatements {
    /// The statement the client calls so; the empty name is the unnamed one.
    pub fn get(&self, name: &[u8]) -> Option<&Prepared> {
        match name {
            b"" => self.unnamed.as_ref(),
            name => self.named.get(name),
        }
    }

    /// Notes a named one. Returns the one that had the name.
    pub fn define(&mut self, name: impl Into<Box<[u8]>>, prepared: Prepared) -> Option<Prepared> {
        let name = name.into();
        self.bytes += taken(&name, &prepared);
        let before = self.named.insert(name.clone(), prepared);
        if let Some(before) = &before {
            self.bytes -= taken(&name, before);
        }
        before
    }

    /// Bytes that those with names take, as if nobody else had them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets a named one, whichever it is.
    pub fn remove(&mut self, name: &[u8]) -> Option<Prepared> {
        let gone = self.named.remove(name)?;
        self.bytes -= taken(name, &gone);
        Some(gone)
    }

    /// Forgets those with names, but for some.
    pub fn clear_named_but(&mut self, kept: impl Fn(&[u8]) -> bool) {
        let bytes = &mut self.bytes;
        self.named.retain(|name, prepared| {
            let stays = kept(name);
            *bytes -= if stays { 0 } else { taken(name, prepared) };
            stays
        });
    }

    /// No copy that a server has of the one parsed at `stamp` will do any more; it counts as parsed at `new`.
    pub fn parse_anew(&mut self, stamp: u64, new: u64) {
        let mut all = self.named.values_mut();
        if let Some(prepared) = all.find(|prepared| prepared.stamp == stamp) {
            prepared.stamp = new;
        }
    }

    /// Those with names.
    pub fn named(&self) -> impl Iterator<Item = (&[u8], &Prepared)> {
        self.named.iter().map(|(name, prepared)| (&**name, prepared))
    }

    /// How many have names.
    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// Whether none has a name.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }
}

/// What a statement with a name counts.
fn taken(name: &[u8], prepared: &Prepared) -> usize {
    name.len() + prepared.statement.bytes()
}

/// The statements one server connection has.
#[derive(Debug)]
pub struct ServerStatements {
    /// By number; the value is the stamp of the Parse that made it there.
    parsed: LruCache<u64, u64>,
    limit: usize,
    /// Which client's unnamed statement the server has: client and stamp.
    pub unnamed: Option<(u64, u64)>,
}

impl ServerStatements {
    /// For at most `limit` statements.
    pub fn new(limit: usize) -> Self {
        Self {
            parsed: LruCache::unbounded(),
            limit: limit.max(1),
            unnamed: None,
        }
    }

    /// Another limit from now on; what is above it goes with the next Parse.
    pub fn keep_at_most(&mut self, limit: usize) {
        self.limit = limit.max(1);
    }

    /// Whether the server has `prepared`, at least as fresh as its client's Parse; counts as a use.
    pub fn has(&mut self, prepared: &Prepared) -> bool {
        self.parsed
            .get(&prepared.statement.id)
            .is_some_and(|&stamp| stamp >= prepared.stamp)
    }

    /// Notes that the server is told to parse it at `stamp`. Returns the stamp of the copy it had.
    pub fn parse(&mut self, id: u64, stamp: u64) -> Option<u64> {
        self.parsed.put(id, stamp)
    }

    /// The number and the stamp of one that must be closed to keep the limit: the one used longest ago. It is forgotten.
    pub fn evict(&mut self) -> Option<(u64, u64)> {
        if self.parsed.len() > self.limit {
            self.parsed.pop_lru()
        } else {
            None
        }
    }

    /// The server still has the copy that was parsed at `stamp`.
    pub fn put_back(&mut self, id: u64, stamp: u64) {
        self.parsed.put(id, stamp);
    }

    /// The server does not have it after all.
    pub fn forget(&mut self, id: u64) {
        self.parsed.pop(&id);
    }

    /// Forgets those with names, but for some.
    pub fn clear_named_but(&mut self, kept: impl Fn(u64) -> bool) {
        let gone: Vec<u64> = self
            .parsed
            .iter()
            .map(|(&id, _)| id)
            .filter(|&id| !kept(id))
            .collect();
        for id in gone {
            self.parsed.pop(&id);
        }
    }

    /// The server has none any more.
    pub fn clear(&mut self) {
        self.parsed.clear();
        self.unnamed = None;
    }

    /// The numbers of those it has.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.parsed.iter().map(|(id, _)| *id)
    }

    /// How many it has.
    pub fn len(&self) -> usize {
        self.parsed.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.parsed.is_empty()
    }
}
