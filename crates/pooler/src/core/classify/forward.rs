//! From a client's bytes to its server's: the way of every request.
//!
//! [`forward`] goes from message to message. What needs no change goes to the server as it came, in one slice with its neighbours;
//! bodies are looked into only where a session's state or the pool depends on them: Query and Parse (what the text does), and the names
//! of statements in Bind, Describe and Close, which are `carry`'s.
//!
//! What it is not: the choice of a server; the client has one when this is called.

use std::sync::Arc;

use corun_model::pooler::replicas::split::{Place, Rules as SplitRules, Session as Split};
use corun_net::reactor::Reactor;

use crate::config::PoolMode;
use crate::core::classify::batch;
use crate::core::classify::classifier::{Classifier, Rules, doubted, may_unpin};
use crate::core::classify::request::{First, Request};
use crate::core::client::Client;
use crate::core::reply::change::Change;
use crate::core::reply::expect::Step;
use crate::core::server::Server;
use crate::session::catalogue::Effects;
use crate::understand::{Access, Discard, Pins, TransactionEffect, Understood};
use corun_wire::error::{Refusal, code};
use corun_wire::{HEADER_BYTES, TransactionStatus, build, frontend, read};

/// Texts and Parse messages up to this many bytes are collected to be understood. Longer ones stream through.
pub(in crate::core) const COLLECTED_MAX: usize = 16 << 20;

/// Why [`forward`] stopped.
#[derive(Debug)]
pub(in crate::core) enum Stop {
    /// What is left is the beginning of a message, or nothing.
    Unfinished,
    /// What is left waits until the server has answered what is under way.
    Held,
    /// The client says goodbye.
    Goodbye,
    /// This cannot go on.
    Violation(Refusal),
}

/// Sends what it can of a request. Returns how many bytes are done with, and why it stopped.
pub(in crate::core) fn forward<R: Reactor>(
    client: &mut Client,
    server: &mut Server,
    classifier: &mut Classifier,
    reactor: &mut R,
    request: &mut Request<'_>,
) -> (usize, Stop) {
    let again = &mut server.query.again;
    if again.goes_first() {
        return (0, Stop::Held);
    }
    again.forget();
    // Once is enough: what is refused again is the client's to know.
    if !std::mem::take(&mut client.statements.comes_again)
        && server.expects.settled()
        && server.session.status == TransactionStatus::Idle
        && !client.transaction.began
        && client.passing == 0
    {
        again.keep(request.bytes);
    }
    let mut way = Way {
        client,
        server,
        classifier,
        rules: &request.rules,
        reactor,
        bytes: request.bytes,
        run: 0,
        at: 0,
        first: std::mem::take(&mut request.first),
    };
    let stop = way.go();
    way.flush();
    (way.at, stop)
}

/// The way through one chunk.
pub(in crate::core) struct Way<'a, R> {
    pub client: &'a mut Client,
    pub server: &'a mut Server,
    pub classifier: &'a mut Classifier,
    pub rules: &'a Rules,
    pub reactor: &'a mut R,
    bytes: &'a [u8],
    /// Where the bytes begin that go as they are.
    run: usize,
    /// Where the next message begins.
    pub at: usize,
    /// What is known of it.
    pub first: First,
}

impl<R: Reactor> Way<'_, R> {
    fn go(&mut self) -> Stop {
        loop {
            let rest = self.bytes.len() - self.at;
            if self.client.passing > 0 {
                let part = self.client.passing.min(rest);
                self.client.passing -= part;
                self.at += part;
                if self.client.passing > 0 || part == rest {
                    return Stop::Unfinished;
                }
                self.first = First::default();
                continue;
            }
            let head = match self.rules.header(&self.bytes[self.at..]) {
                Ok(Some(head)) => head,
                Ok(None) => return Stop::Unfinished,
                Err(refusal) => return Stop::Violation(refusal),
            };
            if self.must_leave(head.tag) || self.may_run_again() && head.tag != frontend::TERMINATE {
                return Stop::Held;
            }
            if self.server.expects.is_full() && head.tag != frontend::TERMINATE {
                return Stop::Held;
            }
            let whole = rest >= head.total;
            let before = self.at;
            let end = self.at + head.total.min(rest);
            let bytes = self.bytes;
            let body = &bytes[self.at + HEADER_BYTES..end];
            if self.must_wait(head.tag, body) {
                return Stop::Held;
            }
            let stop = match head.tag {
                // The server will not look at it.
                tag if self.server.expects.skipping() && is_skipped(tag) => None,
                frontend::QUERY | frontend::PARSE if !whole => {
                    if head.total <= COLLECTED_MAX {
                        return Stop::Unfinished;
                    }
                    self.large(head.tag, body)
                }
                frontend::QUERY => self.query(body, end),
                frontend::PARSE => self.parse(body, end),
                frontend::BIND => self.bind(body, whole, head.total),
                frontend::DESCRIBE | frontend::CLOSE => {
                    if !whole {
                        return Stop::Unfinished;
                    }
                    self.describe_or_close(head.tag, body, end)
                }
                frontend::EXECUTE => {
                    self.server.expects.step(Step::Execute, 0);
                    None
                }
                frontend::SYNC => {
                    self.server.expects.sync(false);
                    self.began();
                    None
                }
                frontend::FLUSH | frontend::COPY_DATA => None,
                frontend::COPY_DONE | frontend::COPY_FAIL => {
                    self.server.expects.copy_end();
                    None
                }
                frontend::FUNCTION_CALL => {
                    self.client.transaction.wrote = true;
                    if !is_large_object(body) {
                        self.doubtful();
                    }
                    self.server.expects.query(Change::Nothing);
                    self.began();
                    None
                }
                frontend::TERMINATE => return Stop::Goodbye,
                tag => return violation(format!("invalid frontend message type {tag}")),
            };
            if let Some(stop) = stop {
                return stop;
            }
            // `query` and its like may have sent something else in place of the message and moved on.
            if self.at == before {
                self.client.passing = head.total - (end - self.at);
                self.at = end;
            }
            self.first = First::default();
        }
    }

    /// Whether what a message means depends on statements that an earlier batch of the client's may fail to make or to close.
    fn must_wait(&self, tag: u8, body: &[u8]) -> bool {
        let expects = &self.server.expects;
        if expects.heeds_nothing() || !self.rules.carry_statements {
            return false;
        }
        let name = match tag {
            // The unnamed statement is replaced, whatever it was.
            frontend::PARSE => read::text(body)
                .map(|(name, _)| name)
                .filter(|name| !name.is_empty()),
            frontend::BIND => read::bind(body).map(|(_, name, _)| name),
            frontend::DESCRIBE | frontend::CLOSE => read::target(body)
                .filter(|&(kind, name)| kind == b'S' && (tag == frontend::DESCRIBE || !name.is_empty()))
                .map(|(_, name)| name),
            _ => None,
        };
        name.is_some_and(|name| expects.unsure(!name.is_empty()))
    }

    /// Sends the messages that go as they are.
    pub fn flush(&mut self) {
        if self.run < self.at {
            self.server
                .transport
                .send(self.reactor, &self.bytes[self.run..self.at]);
            self.run = self.at;
        }
    }

    /// Sends `out` in place of the bytes up to `end`.
    pub fn replace(&mut self, out: &[u8], end: usize) {
        self.flush();
        self.server.transport.send(self.reactor, out);
        self.at = end;
        self.run = end;
    }

    /// Sends the client what goes up to `end` in the server's place, which has answered everything before.
    pub(in crate::core) fn answer(&mut self, out: &[u8], end: usize) {
        self.flush();
        self.client.transport.send(self.reactor, out);
        self.at = end;
        self.run = end;
    }

    /// Something that ends with ReadyForQuery went out.
    pub(in crate::core) fn began(&mut self) {
        if self.server.expects.outstanding() == 1 {
            self.server.query.since = self.rules.now;
        }
    }

    /// The server shall run a statement; asked before it is sent.
    pub fn runs(&mut self, understood: &Arc<Understood>) {
        let alone = self.server.expects.outstanding() == 0;
        self.server.query.running.begins(understood, alone);
    }

    /// Whether the server is in a transaction that the client began, for all that is known now.
    pub(in crate::core) fn in_transaction(&self) -> bool {
        self.server.session.status != TransactionStatus::Idle || self.client.transaction.began
    }

    /// A text too long to be collected: nothing is known of it.
    fn large(&mut self, tag: u8, body: &[u8]) -> Option<Stop> {
        if tag == frontend::PARSE {
            match read::text(body) {
                // Until its name has ended, it may still be refused for that.
                None => return Some(Stop::Unfinished),
                Some((name, _)) if name.is_empty() || !self.rules.carry_statements => {}
                _ => {
                    let refusal = Refusal::new(
                        code::PROGRAM_LIMIT,
                        format!("a prepared statement with a name has more than {COLLECTED_MAX} bytes"),
                    );
                    return Some(Stop::Violation(refusal.hint("Use the unnamed statement.")));
                }
            }
        }
        let change = self.replace_unnamed(None, None);
        if tag == frontend::QUERY {
            self.server.expects.query(change);
            self.began();
        } else {
            self.server.expects.parse(false, change);
        }
        self.client.doubt.read_back = true;
        self.client.transaction.wrote = true;
        self.doubtful();
        None
    }

    /// Something runs that nothing is known of.
    fn doubtful(&mut self) {
        self.client.suspect(&Effects::unreadable(), self.rules.doubtful);
    }

    fn query(&mut self, body: &[u8], end: usize) -> Option<Stop> {
        let Some(sql) = read::query(body) else {
            return Some(violation("invalid message format"));
        };
        let known = self.first.take();
        let mut understood = known.unwrap_or_else(|| self.classifier.understanding.of(sql));
        if understood.ambiguous && !self.reads_alike(sql) {
            understood = doubted(&understood, sql);
        }
        if self.rules.mode == PoolMode::Statement && understood.transaction != TransactionEffect::None {
            // What it asked before is answered first.
            return Some(match self.server.expects.outstanding() {
                0 => Stop::Violation(no_blocks()),
                _ => Stop::Held,
            });
        }
        if let Discard::Named(names) = &understood.discards_prepared
            && let Some(stop) = self.deallocate(names, understood.statements, end)
        {
            return stop;
        }
        if !understood.executes.is_empty() {
            if self.server.expects.outstanding() > 0 {
                return Some(Stop::Held);
            }
            if self.server.expects.settled() {
                self.show_to_sql(&understood);
            }
        }
        self.note(&understood);
        self.runs(&understood);
        if self.prepared(sql, &understood, end) {
            self.client.statements.unnamed = None;
            return None;
        }
        // A simple query ends the unnamed statement.
        let change = self.replace_unnamed(None, None);
        self.server.expects.query(change);
        self.began();
        self.at = end;
        None
    }

    /// Whether what comes next must not run on the server the client has: that is a replica, and this is no read for one.
    /// Asked where a transaction begins; what began on a replica stays there.
    fn must_leave(&mut self, tag: u8) -> bool {
        let begins = !self.server.expects.open()
            && !self.in_transaction()
            && tag != frontend::SYNC
            && tag != frontend::TERMINATE;
        let free = self.client.pins.is_empty() && self.rules.mode != PoolMode::Session;
        if !self.server.host.replica || !begins || !free {
            return false;
        }
        let rules = SplitRules {
            split: self.rules.split,
            ..SplitRules::default()
        };
        let bytes = &self.bytes[self.at..];
        let ask = batch::ask(self.client, self.classifier, &mut self.first, bytes);
        Split::new().decide(&rules, &ask) != Place::Replica
    }

    /// DEALLOCATE of a statement the client has prepared by the protocol: the server knows it by another name. `None`: it has not.
    fn deallocate(&mut self, names: &[Box<str>], statements: u16, end: usize) -> Option<Option<Stop>> {
        let [name] = names else {
            return None;
        };
        let name = name.as_bytes();
        if statements != 1 || name.is_empty() || !self.rules.carry_statements {
            return None;
        }
        if self.server.expects.outstanding() > 0 {
            return Some(Some(Stop::Held));
        }
        if !self.server.expects.settled() || self.server.session.status == TransactionStatus::Failed {
            return None;
        }
        self.client.statements.remove(name)?;
        if self.server.session.strays.contains(name) {
            // The server has one of that name, too, and answers for both.
            return None;
        }
        let mut out = Vec::new();
        build::command_complete(&mut out, "DEALLOCATE");
        build::ready(&mut out, self.server.session.status);
        self.answer(&out, end);
        Some(None)
    }

    /// Whether the server reads a text as it is read here, for certain: its bytes beyond ASCII are UTF-8, and backslashes in its strings
    /// stand for themselves.
    pub(in crate::core) fn reads_alike(&self, text: &[u8]) -> bool {
        // A change of settings that the server has not told yet may be one of these.
        let told =
            |name, value| !self.client.doubt.read_back && self.server.session.reported(name) == Some(value);
        (text.is_ascii() || told("client_encoding", "UTF8"))
            && (!text.contains(&b'\\') || told("standard_conforming_strings", "on"))
    }

    /// Notes what a text does to the session.
    pub fn note(&mut self, understood: &Arc<Understood>) {
        if self.rules.mode != PoolMode::Session && understood.hides() {
            // What it has just made itself is not known yet.
            let recodes = self.client.doubt.recodes || understood.recodes && understood.statements > 1;
            match self
                .classifier
                .catalogue(&self.client.database)
                .filter(|_| !recodes)
            {
                Some(catalogue) => self
                    .client
                    .suspect(&catalogue.effects(understood), self.rules.doubtful),
                None => self.client.keep_unjudged(understood),
            }
        }
        let client = &mut *self.client;
        if !understood.unpins.is_empty()
            && self.server.session.status == TransactionStatus::Idle
            && !client.transaction.began
        {
            client.unpins |= understood.unpins;
        }
        client.unpins = client.unpins.without(understood.pins);
        client.pins |= understood.pins;
        client.doubt.ask_pins |= !understood.pins.is_empty() || may_unpin(understood);
        if understood.settings {
            client.doubt.read_back = true;
            client
                .doubt
                .touched
                .extend(understood.setting_names.iter().cloned());
        }
        if let Some(listens) = &mut client.listens {
            let ahead = self.server.expects.outstanding();
            let undone = self.server.reading.undone;
            if understood.unpins.contains(Pins::LISTEN) {
                listens.leaves(None, ahead, undone);
            }
            for channel in &understood.unlistens {
                listens.leaves(Some(channel), ahead, undone);
            }
        }
        client.transaction.wrote |= understood.access != Access::Read;
        if understood.defines && !(understood.statements == 1 && understood.pins.contains(Pins::TEMP_TABLE)) {
            client.transaction.defines = true;
            self.classifier.defined();
            if understood.recodes {
                client.doubt.recodes = true;
                self.classifier.catalogues.all.outdated(&client.database);
            }
        }
        client.transaction.began |= matches!(
            understood.transaction,
            TransactionEffect::Begin { .. } | TransactionEffect::Mixed
        );
        if understood.discards_prepared == Discard::All {
            self.server.expects.discards(self.classifier.statements.stamp());
        }
    }
}

/// Whether a call by number is of a function on large objects, as libpq calls them: nothing of it stays behind the transaction.
fn is_large_object(body: &[u8]) -> bool {
    const NUMBERS: [u32; 13] = [715, 764, 765, 767, 952, 953, 954, 955, 956, 957, 958, 964, 1004];
    let number = body.first_chunk().map(|number| u32::from_be_bytes(*number));
    number.is_some_and(|number| NUMBERS.contains(&number) || (3170..=3172).contains(&number))
}

/// Whether a server that skips to Sync ignores it.
fn is_skipped(tag: u8) -> bool {
    matches!(
        tag,
        frontend::QUERY
            | frontend::PARSE
            | frontend::BIND
            | frontend::DESCRIBE
            | frontend::EXECUTE
            | frontend::CLOSE
            | frontend::FLUSH
            | frontend::FUNCTION_CALL
            | frontend::COPY_DATA
            | frontend::COPY_DONE
            | frontend::COPY_FAIL
    )
}

/// The end of a client that begins a transaction block in statement mode: what it sends next would not run in one.
pub(in crate::core) fn no_blocks() -> Refusal {
    Refusal::new(
        code::PROTOCOL_VIOLATION,
        "transaction blocks not allowed in statement pooling mode",
    )
    .hint("Use pool_mode = transaction for this database or user.")
}

pub(in crate::core) fn violation(message: impl Into<String>) -> Stop {
    Stop::Violation(Refusal::new(code::PROTOCOL_VIOLATION, message))
}
