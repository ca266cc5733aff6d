//! From a client's bytes to its server's: the way of every request.
//!
//! [`forward`] goes from message to message. What needs no change goes to the server as it came, in one slice with its neighbours;
//! bodies are looked into only where a session's state or the pool depends on them: Query and Parse (what the text does), and the names
//! of statements in Bind, Describe and Close.
//!
//! What it is not: the choice of a server; the client has one when this is called.

use std::sync::Arc;

use machine::reactor::Reactor;
use model::replicas::split::{Place, Rules as SplitRules, Session as Split};

use super::client::Client;
use super::desk::{Desk, LIFTED_MAX, Rules, may_unpin, read_when_parsed};
use super::expect::{ParseSent, Step};
use super::server::{Lifted, Server};
use crate::auto_prepare;
use crate::config::{AutoPrepare, PoolMode};
use crate::session::prepared::{CLIENT_STATEMENTS_MAX, Prepared};
use crate::understand::{Access, Discard, Pins, StatementKind, TransactionEffect, Understood};
use crate::wire::error::{Refusal, code};
use crate::wire::{HEADER_BYTES, TransactionStatus, build, frontend, read};

/// Texts and Parse messages up to this many bytes are collected to be understood. Longer ones stream through.
pub(super) const COLLECTED_MAX: usize = 16 << 20;

/// Why [`forward`] stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// What is left is the beginning of a message, or nothing.
    Unfinished,
    /// What is left waits until the server has answered what is under way.
    Held,
    /// The client says goodbye.
    Goodbye,
    /// This cannot go on.
    Violation(Refusal),
}

/// Sends what it can of `bytes`. Answers how many bytes are done with, and why it stopped.
pub(super) fn forward<R: Reactor>(
    client: &mut Client,
    server: &mut Server,
    desk: &mut Desk,
    rules: &Rules,
    reactor: &mut R,
    bytes: &[u8],
) -> (usize, Stop) {
    let mut way = Way {
        client,
        server,
        desk,
        rules,
        reactor,
        bytes,
        run: 0,
        at: 0,
    };
    let stop = way.go();
    way.flush();
    (way.at, stop)
}

/// The way through one chunk.
struct Way<'a, R> {
    client: &'a mut Client,
    server: &'a mut Server,
    desk: &'a mut Desk,
    rules: &'a Rules,
    reactor: &'a mut R,
    bytes: &'a [u8],
    /// Where the bytes begin that go as they are.
    run: usize,
    /// Where the next message begins.
    at: usize,
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
                continue;
            }
            let head = match self.rules.header(&self.bytes[self.at..]) {
                Ok(Some(head)) => head,
                Ok(None) => return Stop::Unfinished,
                Err(refusal) => return Stop::Violation(refusal),
            };
            if self.must_leave(head.tag) {
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
                frontend::QUERY | frontend::PARSE if !whole => {
                    if head.total <= COLLECTED_MAX {
                        return Stop::Unfinished;
                    }
                    self.large(head.tag)
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
                    self.server.expects.step(Step::Execute);
                    None
                }
                frontend::FLUSH => {
                    self.server.expects.flush();
                    None
                }
                frontend::SYNC => {
                    self.server.expects.sync(false);
                    self.began();
                    None
                }
                frontend::COPY_DATA => None,
                frontend::COPY_DONE | frontend::COPY_FAIL => {
                    self.server.expects.copy_end();
                    None
                }
                frontend::FUNCTION_CALL => {
                    self.client.wrote = true;
                    self.server.expects.query();
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
        }
    }

    /// Whether what a message means depends on statements that an earlier batch of the client's may fail to make or to close.
    ///
    /// A batch waits as a whole, whatever it begins with: once some of it is sent it cannot wait any more, and what comes later in it
    /// may name a statement.
    fn must_wait(&self, tag: u8, body: &[u8]) -> bool {
        if self.server.expects.outstanding() == 0 || !self.rules.carry_statements {
            return false;
        }
        let unnamed = match tag {
            frontend::BIND => read::bind(body).is_some_and(|(_, name, _)| name.is_empty()),
            frontend::DESCRIBE => matches!(read::target(body), Some((b'S', b""))),
            frontend::PARSE | frontend::CLOSE | frontend::EXECUTE | frontend::FLUSH => false,
            _ => return false,
        };
        self.server.expects.unsure(true) || (unnamed && self.server.expects.unsure(false))
    }

    /// Sends the messages that go as they are.
    fn flush(&mut self) {
        if self.run < self.at {
            self.server
                .transport
                .send(self.reactor, &self.bytes[self.run..self.at]);
            self.run = self.at;
        }
    }

    /// Sends `out` in place of the bytes up to `end`.
    fn replace(&mut self, out: &[u8], end: usize) {
        self.flush();
        self.server.transport.send(self.reactor, out);
        self.at = end;
        self.run = end;
    }

    /// Answers what goes up to `end` in the server's place, which has answered everything before.
    fn answer(&mut self, out: &[u8], end: usize) {
        self.flush();
        self.client.transport.send(self.reactor, out);
        self.at = end;
        self.run = end;
    }

    /// Something that ends with ReadyForQuery went out.
    fn began(&mut self) {
        if self.server.expects.outstanding() == 1 {
            self.server.query_since = self.rules.now;
        }
    }

    /// Whether the server is in a transaction that the client began, for all that is known now.
    fn in_transaction(&self) -> bool {
        self.server.status != TransactionStatus::Idle || self.client.began
    }

    /// A text too long to be collected: nothing is known of it.
    fn large(&mut self, tag: u8) -> Option<Stop> {
        if tag == frontend::QUERY {
            self.server.expects.query();
            self.began();
        } else {
            // Only the unnamed statement can be that long: a named one would have to be kept.
            self.client.statements.unnamed = None;
            self.server.expects.parse(ParseSent::of_nobody(false));
        }
        self.server.statements.unnamed = None;
        self.client.read_back = true;
        self.client.wrote = true;
        None
    }

    fn query(&mut self, body: &[u8], end: usize) -> Option<Stop> {
        let Some(sql) = read::query(body) else {
            return Some(violation("invalid message format"));
        };
        let understood = self.desk.understanding.of(sql);
        if self.rules.mode == PoolMode::Statement && understood.transaction != TransactionEffect::None {
            return self.refuse_block(end);
        }
        if let Discard::Named(names) = &understood.discards_prepared
            && let Some(stop) = self.deallocate(names, understood.statements, end)
        {
            return stop;
        }
        if !understood.executes.is_empty() {
            if !self.server.expects.settled() {
                return Some(Stop::Held);
            }
            self.show_to_sql(&understood);
        }
        self.note(&understood);
        // A simple query ends the unnamed statement.
        self.client.statements.unnamed = None;
        if self.rules.auto_prepare != AutoPrepare::Off
            && understood.plain
            && self.prepared(sql, &understood, end)
        {
            return None;
        }
        self.server.statements.unnamed = None;
        self.server.expects.query();
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
        if !self.server.replica || !begins || !free {
            return false;
        }
        let rules = SplitRules {
            split: self.rules.split,
            ..SplitRules::default()
        };
        let ask = super::batch::ask(self.client, self.desk, &self.bytes[self.at..]);
        Split::new().decide(&rules, &ask) != Place::Replica
    }

    /// A transaction block in statement mode.
    fn refuse_block(&mut self, end: usize) -> Option<Stop> {
        if !self.server.expects.settled() {
            return Some(Stop::Held);
        }
        let mut out = Vec::new();
        build::error(
            &mut out,
            &Refusal::new(
                code::NOT_SUPPORTED,
                "transaction blocks are not allowed in statement pooling mode",
            )
            .hint("Use pool_mode = transaction for this database or user."),
        );
        build::ready(&mut out, TransactionStatus::Idle);
        self.answer(&out, end);
        None
    }

    /// DEALLOCATE of a statement the client has prepared by the protocol: the server knows it by another name. `None`: it has not.
    fn deallocate(&mut self, names: &[Box<str>], statements: u16, end: usize) -> Option<Option<Stop>> {
        let [name] = names else {
            return None;
        };
        if statements != 1 || self.client.statements.get(name.as_bytes()).is_none() || name.is_empty() {
            return None;
        }
        if !self.server.expects.settled() {
            return Some(Some(Stop::Held));
        }
        if self.server.status == TransactionStatus::Failed {
            return None;
        }
        self.client.statements.remove(name.as_bytes());
        let mut out = Vec::new();
        build::command_complete(&mut out, "DEALLOCATE");
        build::ready(&mut out, self.server.status);
        self.answer(&out, end);
        Some(None)
    }

    /// Runs a simple query as a prepared statement, where that is known to give the same. `false`: it is not.
    ///
    /// Only where nothing else is under way: should the server refuse, the text runs as it came.
    fn prepared(&mut self, sql: &[u8], understood: &Arc<Understood>, end: usize) -> bool {
        if !self.server.expects.settled()
            || !self.client.pins.is_empty()
            || !self.desk.repeats.again(sql)
            || !auto_prepare::runs_alike(sql, understood)
        {
            return false;
        }
        let statement =
            self.desk
                .statements
                .intern(sql, &[0, 0], &read_when_parsed(&self.client.settings), || {
                    Arc::clone(understood)
                });
        if self
            .desk
            .lifted
            .put(statement.id, Arc::clone(&statement))
            .is_none()
            && self.desk.lifted.len() > LIFTED_MAX
        {
            self.desk.lifted.pop_lru();
        }
        let prepared = Prepared { statement, stamp: 0 };
        let mut out = Vec::with_capacity(64);
        self.ensure(&prepared, &mut out);
        build::message(&mut out, frontend::BIND, |out| {
            out.push(0);
            out.extend(prepared.statement.name.as_bytes());
            out.extend([0; 7]);
        });
        build::message(&mut out, frontend::DESCRIBE, |out| out.extend(b"P\0"));
        build::message(&mut out, frontend::EXECUTE, |out| out.extend([0; 5]));
        build::bare(&mut out, frontend::SYNC);
        self.server.expects.sync(true);
        self.server.lifted = Some(Lifted {
            sql: sql.to_vec(),
            head: Vec::new(),
            relayed: false,
            refused: false,
            in_block: self.server.status != TransactionStatus::Idle,
        });
        self.began();
        self.replace(&out, end);
        true
    }

    /// Notes what a text does to the session.
    fn note(&mut self, understood: &Understood) {
        let client = &mut *self.client;
        client.asked = true;
        if !understood.unpins.is_empty() && self.server.status == TransactionStatus::Idle && !client.began {
            client.unpins |= understood.unpins;
        }
        client.unpins = client.unpins.without(understood.pins);
        client.pins |= understood.pins;
        client.ask_pins |= !understood.pins.is_empty() || may_unpin(understood);
        if understood.settings || (understood.opaque && understood.kind == StatementKind::Call) {
            client.read_back = true;
            client.touched.extend(understood.setting_names.iter().cloned());
        }
        client.wrote |= understood.access != Access::Read;
        client.began |= matches!(
            understood.transaction,
            TransactionEffect::Begin { .. } | TransactionEffect::Mixed
        );
        match &understood.discards_prepared {
            Discard::None => {}
            Discard::All => {
                client.discard_all = true;
                self.server.statements.clear();
            }
            Discard::Named(_) => {}
        }
    }

    fn parse(&mut self, body: &[u8], end: usize) -> Option<Stop> {
        let Some(parsed) = read::parse(body) else {
            return Some(violation("invalid message format"));
        };
        let under = read_when_parsed(&self.client.settings);
        let statement = self.desk.intern(&parsed, &under);
        if self.rules.mode == PoolMode::Statement
            && statement.understood.transaction != TransactionEffect::None
        {
            return Some(Stop::Violation(Refusal::new(
                code::NOT_SUPPORTED,
                "transaction blocks are not allowed in statement pooling mode",
            )));
        }
        self.client.asked = true;
        let stamp = self.desk.statements.stamp();
        let prepared = Prepared { statement, stamp };
        if parsed.name.is_empty() || !self.rules.carry_statements {
            let noted = self.server.expects.parse(ParseSent::of_nobody(false));
            if parsed.name.is_empty() && noted {
                self.server.statements.unnamed = Some((self.client.id, stamp));
                self.client.statements.unnamed = Some(prepared);
            }
            self.at = end;
            return None;
        }
        if self.client.statements.get(parsed.name).is_some() {
            self.define_again(parsed.name, end);
            return None;
        }
        if self.client.statements.len() >= CLIENT_STATEMENTS_MAX {
            return Some(Stop::Violation(Refusal::new(
                code::PROGRAM_LIMIT,
                format!("more than {CLIENT_STATEMENTS_MAX} prepared statements"),
            )));
        }
        if self.client.pins.contains(Pins::SQL_PREPARE) {
            // A statement of SQL may have the name; the server knows.
            let noted = self.server.expects.parse(ParseSent {
                swallow: false,
                id: None,
                defines: Some((parsed.name.into(), stamp)),
            });
            if noted {
                self.server.stray_statements.push(parsed.name.to_vec());
                self.client.statements.define(parsed.name, prepared);
            }
            self.at = end;
            return None;
        }
        let mut out = Vec::with_capacity(body.len() + 64);
        if self.parse_on_server(&prepared, &mut out, Some((parsed.name.into(), stamp))) {
            self.client.statements.define(parsed.name, prepared);
        }
        self.replace(&out, end);
        None
    }

    /// A text runs statements by EXECUTE that the client may have prepared by the protocol: they are put on the server under the
    /// client's names, until it has another client.
    fn show_to_sql(&mut self, understood: &Understood) {
        let mut out = Vec::new();
        for name in &understood.executes {
            let Some(prepared) = self.client.statements.get(name.as_bytes()).cloned() else {
                continue;
            };
            build::close_statement(&mut out, name);
            self.server.expects.close(true);
            build::parse(&mut out, name, &prepared.statement.sql, &prepared.statement.types);
            self.server.expects.parse(ParseSent::of_nobody(true));
            self.server.stray_statements.push(name.as_bytes().to_vec());
        }
        if !out.is_empty() {
            build::bare(&mut out, frontend::SYNC);
            self.server.expects.own_sync();
            self.flush();
            self.server.transport.send(self.reactor, &out);
        }
    }

    /// A Parse of a name the client has: PostgreSQL refuses it, and shall say so itself. So the name is taken on the server first.
    fn define_again(&mut self, name: &[u8], end: usize) {
        let mut out = Vec::new();
        let taken = String::from_utf8_lossy(name).into_owned();
        build::close_statement(&mut out, &taken);
        self.server.expects.close(true);
        build::parse(&mut out, &taken, b"", &[0, 0]);
        self.server.expects.parse(ParseSent::of_nobody(true));
        self.server.stray_statements.push(name.to_vec());
        self.flush();
        self.server.transport.send(self.reactor, &out);
        self.server.expects.parse(ParseSent::of_nobody(false));
        self.at = end;
    }

    /// Appends what makes the server parse the statement; an older copy and those used longest ago go away. `false`: the server skips
    /// it, because of an error before.
    fn parse_on_server(
        &mut self,
        prepared: &Prepared,
        out: &mut Vec<u8>,
        defines: Option<(Box<[u8]>, u64)>,
    ) -> bool {
        let statement = &prepared.statement;
        build::close_statement(out, &statement.name);
        self.server.expects.close(true);
        build::parse(out, &statement.name, &statement.sql, &statement.types);
        let noted = self.server.expects.parse(ParseSent {
            swallow: defines.is_none(),
            id: Some(statement.id),
            defines,
        });
        if !noted {
            // The server skips it.
            self.server.statements.forget(statement.id);
            return false;
        }
        let stamp = self.desk.statements.stamp();
        for closed in self.server.statements.parse(statement.id, stamp) {
            build::close_statement(out, &self.desk.statements.name(closed));
            self.server.expects.close(true);
        }
        true
    }

    /// Appends what it takes that the server has the statement.
    fn ensure(&mut self, prepared: &Prepared, out: &mut Vec<u8>) {
        if !self.server.statements.has(prepared) {
            self.parse_on_server(prepared, out, None);
        }
    }

    /// The same for the client's unnamed statement.
    fn ensure_unnamed(&mut self) {
        let Some(prepared) = &self.client.statements.unnamed else {
            return;
        };
        let owner = Some((self.client.id, prepared.stamp));
        if self.server.statements.unnamed == owner {
            return;
        }
        let mut out = Vec::new();
        build::parse(&mut out, "", &prepared.statement.sql, &prepared.statement.types);
        self.server.expects.parse(ParseSent::of_nobody(true));
        self.server.statements.unnamed = owner;
        self.flush();
        self.server.transport.send(self.reactor, &out);
    }

    fn bind(&mut self, body: &[u8], whole: bool, total: usize) -> Option<Stop> {
        let Some((portal, name, rest)) = read::bind(body) else {
            return Some(if whole {
                violation("invalid message format")
            } else {
                Stop::Unfinished
            });
        };
        if name.is_empty() {
            if let Some(prepared) = &self.client.statements.unnamed {
                let understood = Arc::clone(&prepared.statement.understood);
                self.note(&understood);
                self.ensure_unnamed();
            }
            self.server.expects.step(Step::Bind);
            return None;
        }
        let Some(prepared) = self.client.statements.get(name).cloned() else {
            // One of SQL, or none: the server knows.
            self.server.expects.step(Step::Bind);
            return None;
        };
        self.note(&prepared.statement.understood);
        let mut out = Vec::with_capacity(body.len() + 64);
        self.ensure(&prepared, &mut out);
        self.server.expects.step(Step::Bind);
        let target = prepared.statement.name.as_bytes();
        out.push(frontend::BIND);
        let length = total - 1 - name.len() + target.len();
        out.extend((length as u32).to_be_bytes());
        out.extend(portal);
        out.push(0);
        out.extend(target);
        out.push(0);
        // What follows the names, and what has not arrived of it, goes as it is.
        let names = HEADER_BYTES + body.len() - rest.len();
        self.replace(&out, self.at + names);
        self.client.passing = total - names;
        None
    }

    fn describe_or_close(&mut self, tag: u8, body: &[u8], end: usize) -> Option<Stop> {
        let Some((kind, name)) = read::target(body) else {
            return Some(violation("invalid message format"));
        };
        if tag == frontend::CLOSE {
            // The statement stays on the server under its own name; that the client's name is unknown there is no error.
            if kind == b'S' && self.rules.carry_statements {
                match name {
                    b"" => {
                        self.client.statements.unnamed = None;
                        self.server.statements.unnamed = None;
                    }
                    name => {
                        let removed = self.client.statements.remove(name);
                        let removed = removed.map(|prepared| (Box::from(name), prepared));
                        if !self.server.expects.close_of(false, removed.clone())
                            && let Some((name, prepared)) = removed
                        {
                            self.client.statements.restore(name, prepared);
                        }
                        return None;
                    }
                }
            }
            self.server.expects.close(false);
            return None;
        }
        let prepared = match (kind, name) {
            (b'S', b"") => {
                self.ensure_unnamed();
                None
            }
            (b'S', name) => self.client.statements.get(name).cloned(),
            _ => None,
        };
        let Some(prepared) = prepared else {
            self.server.expects.step(Step::Describe);
            return None;
        };
        let mut out = Vec::with_capacity(64);
        self.ensure(&prepared, &mut out);
        self.server.expects.step(Step::Describe);
        build::message(&mut out, frontend::DESCRIBE, |out| {
            out.push(b'S');
            out.extend(prepared.statement.name.as_bytes());
            out.push(0);
        });
        self.replace(&out, end);
        None
    }
}

fn violation(message: impl Into<String>) -> Stop {
    Stop::Violation(Refusal::new(code::PROTOCOL_VIOLATION, message))
}
