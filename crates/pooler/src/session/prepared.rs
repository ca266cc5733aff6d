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
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use lru::LruCache;

use crate::understand::Understood;

/// Statements one client may have at most; the next Parse is refused.
pub const CLIENT_STATEMENTS_MAX: usize = 100_000;

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
}

impl Statement {
    /// It is bound once more.
    pub fn bound(&self) {
        // Only a count: nothing is read by it.
        self.binds.fetch_add(1, Ordering::Relaxed);
    }
}

/// All statements of the clients of one event loop, each once.
#[derive(Debug)]
pub struct Statements {
    /// Begins the names on servers; random, so that no client can name a statement that is not its own.
    prefix: String,
    known: HashMap<Box<[u8]>, Weak<Statement>>,
    /// Entries at which those that nobody uses any more are dropped.
    sweep_at: usize,
    next: u64,
    stamp: u64,
}

impl Statements {
    /// None yet. `nonce` should be random: it is part of the names on servers.
    pub fn new(nonce: u64) -> Self {
        Self {
            prefix: format!("corun_{nonce:016x}_"),
            known: HashMap::new(),
            sweep_at: 1024,
            next: 0,
            stamp: 0,
        }
    }

    /// The name on servers of the statement with this number.
    pub fn name(&self, id: u64) -> String {
        format!("{}{id}", self.prefix)
    }

    /// The statement of this text and these types, parsed under these settings where its meaning depends on them: they are part of what it
    /// is known by. `understood` is asked only for new ones.
    pub fn intern(
        &mut self,
        sql: &[u8],
        types: &[u8],
        under: &[u8],
        understood: impl FnOnce() -> Arc<Understood>,
    ) -> Arc<Statement> {
        let mut key = Vec::with_capacity(sql.len() + types.len() + 1);
        key.extend(sql);
        // A text has no zero byte, so text and types cannot run into each other.
        key.push(0);
        key.extend(types);
        key.extend(under);
        if let Some(found) = self.known.get(key.as_slice()).and_then(Weak::upgrade) {
            return found;
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, statement| statement.strong_count() > 0);
            self.sweep_at = (2 * self.known.len()).max(1024);
        }
        self.next += 1;
        let statement = Arc::new(Statement {
            id: self.next,
            name: self.name(self.next).into(),
            sql: sql.into(),
            types: types.into(),
            understood: understood(),
            binds: AtomicU64::new(0),
        });
        self.known.insert(key.into(), Arc::downgrade(&statement));
        statement
    }

    /// Those that somebody has, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Arc<Statement>> {
        self.known.values().filter_map(Weak::upgrade)
    }

    /// A number higher than all before.
    pub fn stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// How many are known, unused ones not yet dropped included.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
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
    /// The unnamed one, until the next Parse without a name or simple query.
    pub unnamed: Option<Prepared>,
}

impl ClientStatements {
    /// The statement the client calls so; the empty name is the unnamed one.
    pub fn get(&self, name: &[u8]) -> Option<&Prepared> {
        match name {
            b"" => self.unnamed.as_ref(),
            name => self.named.get(name),
        }
    }

    /// Notes a named one. Answers the one that had the name.
    pub fn define(&mut self, name: impl Into<Box<[u8]>>, prepared: Prepared) -> Option<Prepared> {
        self.named.insert(name.into(), prepared)
    }

    /// Forgets a named one, whichever it is.
    pub fn remove(&mut self, name: &[u8]) -> Option<Prepared> {
        self.named.remove(name)
    }

    /// Forgets those with names, but for some.
    pub fn clear_named_but(&mut self, kept: impl Fn(&[u8]) -> bool) {
        self.named.retain(|name, _| kept(name));
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

    /// Whether the server has `prepared`, at least as fresh as its client's Parse; counts as a use.
    pub fn has(&mut self, prepared: &Prepared) -> bool {
        self.parsed
            .get(&prepared.statement.id)
            .is_some_and(|&stamp| stamp >= prepared.stamp)
    }

    /// Notes that the server is told to parse it at `stamp`. Answers the stamp of the copy it had.
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

    /// The limit, never 0.
    pub fn limit(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.limit).unwrap_or(NonZeroUsize::MIN)
    }
}
