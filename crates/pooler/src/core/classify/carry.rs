//! Prepared statements of the protocol on their way from a client: whatever server it has gets those it names, and gets them by names of
//! the proxy's own.
//!
//! ```text
//!  Parse a     ─► Close corun_7, Parse corun_7          an old copy goes first; the copy used longest ago goes where there are too many
//!  Bind a      ─► (Close corun_7, Parse corun_7,) Bind corun_7             what is in brackets only where the server does not have it
//!  Close a     ─► Close a                               the copy stays; a name that the server does not have is no error
//!  Parse a     ─► Close a, Parse a '', Parse a          the client has an a: PostgreSQL shall refuse it in its own words
//! ```
//!
//! The client's names are at once as they will be if all succeeds; what each message changes is noted with its answer (`change`).
//!
//! What it is not: `session::prepared`, where statements are kept.

use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::config::PoolMode;
use crate::core::classify::classifier::read_when_parsed;
use crate::core::classify::forward::{Stop, Way, no_blocks, violation};
use crate::core::client::log_client;
use crate::core::reply::change::{Change, Name, Unnamed};
use crate::core::reply::expect::Step;
use crate::session::prepared::{CLIENT_STATEMENTS_MAX, Prepared};
use crate::understand::{Pins, TransactionEffect, Understood};
use corun_wire::error::{Refusal, code};
use corun_wire::{HEADER_BYTES, build, frontend, read};

impl<R: Reactor> Way<'_, R> {
    pub(in crate::core) fn parse(&mut self, body: &[u8], end: usize) -> Option<Stop> {
        let Some(parsed) = read::parse(body) else {
            return Some(violation("invalid message format"));
        };
        self.server.query.counts.client_parses += u64::from(self.rules.counts_statements);
        let alike = self.reads_alike(parsed.sql);
        let mut under = read_when_parsed(&self.client.settings, !parsed.sql.is_ascii());
        if !alike {
            under.push(0);
        }
        let statement = self.classifier.intern(&parsed, &under, alike, self.first.take());
        if self.rules.mode == PoolMode::Statement
            && statement.understood.transaction != TransactionEffect::None
        {
            return Some(Stop::Violation(no_blocks()));
        }
        let stamp = self.classifier.statements.stamp();
        let prepared = Prepared { statement, stamp };
        if parsed.name.is_empty() {
            self.server.query.counts.server_parses += u64::from(self.rules.counts_statements);
            let owner = (self.client.id, stamp);
            let change = self.replace_unnamed(Some(prepared), Some(owner));
            self.server.expects.parse(false, change);
            self.at = end;
            return None;
        }
        if !self.rules.carry_statements {
            // Nobody knows the name when it runs.
            self.note(&prepared.statement.understood);
            self.server.query.counts.server_parses += u64::from(self.rules.counts_statements);
            self.server.expects.parse(false, Change::Nothing);
            self.at = end;
            return None;
        }
        if self.named(parsed.name).is_some() {
            self.define_again(parsed.name, end);
            return None;
        }
        if self.client.statements.len() >= CLIENT_STATEMENTS_MAX {
            return Some(Stop::Violation(Refusal::new(
                code::PROGRAM_LIMIT,
                format!("more than {CLIENT_STATEMENTS_MAX} prepared statements"),
            )));
        }
        if self.client.statements.bytes() + prepared.statement.bytes() > self.rules.statement_bytes_max {
            let limit = self.rules.statement_bytes_max;
            let refusal = Refusal::new(
                code::PROGRAM_LIMIT,
                format!("the prepared statements of this client take more than {limit} bytes"),
            );
            return Some(Stop::Violation(refusal.hint(
                "Close statements that are not used any more, or raise client_memory_max or, where all clients together exceed it, memory_max.",
            )));
        }
        if self.client.pins.contains(Pins::SQL_PREPARE) {
            // A statement of SQL may have the name; the server knows.
            let name = Some(self.define(parsed.name, prepared));
            self.server
                .expects
                .parse(false, Change::Parsed { copy: None, name });
            self.server.has_stray(parsed.name);
            self.at = end;
            return None;
        }
        let name = self.define(parsed.name, prepared.clone());
        let mut out = Vec::with_capacity(body.len() + 64);
        self.parse_on_server(&prepared, &mut out, Some(name));
        self.replace(&out, end);
        None
    }

    /// The statement the client calls so, unless this batch takes it away first.
    fn named(&self, name: &[u8]) -> Option<&Prepared> {
        let prepared = self.client.statements.get(name)?;
        (!self.server.expects.takes_away(prepared.stamp)).then_some(prepared)
    }

    fn define(&mut self, name: &[u8], prepared: Prepared) -> Name {
        Name {
            name: name.into(),
            before: self.client.statements.define(name, prepared),
        }
    }

    /// Client and server have another unnamed statement, or none. Returns how to take it back.
    pub(in crate::core) fn replace_unnamed(
        &mut self,
        client: Option<Prepared>,
        server: Option<(u64, u64)>,
    ) -> Change {
        Change::Unnamed(Unnamed {
            client: std::mem::replace(&mut self.client.statements.unnamed, client),
            server: std::mem::replace(&mut self.server.session.statements.unnamed, server),
        })
    }

    /// A text runs statements by EXECUTE that the client may have prepared by the protocol: they are put on the server under the
    /// client's names, until it has another client.
    pub(in crate::core) fn show_to_sql(&mut self, understood: &Understood) {
        let mut out = Vec::new();
        for name in &understood.executes {
            let Some(prepared) = self.client.statements.get(name.as_bytes()).cloned() else {
                continue;
            };
            build::close_statement(&mut out, &**name);
            self.server.expects.close(true, Change::Nothing);
            build::parse(
                &mut out,
                &**name,
                &prepared.statement.sql,
                &prepared.statement.types,
            );
            self.server.expects.parse(true, Change::Nothing);
            self.server.has_stray(name.as_bytes());
            self.note(&prepared.statement.understood);
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
        let shown = String::from_utf8_lossy(&name[..name.len().min(63)]);
        log_client!(
            self.client,
            "prepared statement '{}' was already prepared",
            shown.escape_debug()
        );
        let mut out = Vec::new();
        build::close_statement(&mut out, name);
        self.server.expects.close(true, Change::Nothing);
        build::parse(&mut out, name, b"", &[0, 0]);
        self.server.expects.parse(true, Change::Nothing);
        self.server.has_stray(name);
        self.flush();
        self.server.transport.send(self.reactor, &out);
        self.server.expects.parse(false, Change::Nothing);
        self.at = end;
    }

    /// Appends what makes the server parse the statement; an older copy and those used longest ago go away. `name`: what the client calls
    /// it, where the client's own Parse it is.
    pub(in crate::core) fn parse_on_server(
        &mut self,
        prepared: &Prepared,
        out: &mut Vec<u8>,
        name: Option<Name>,
    ) {
        let statement = &prepared.statement;
        self.server.query.counts.server_parses += 1;
        build::close_statement(out, &*statement.name);
        self.server.expects.close(true, Change::Nothing);
        build::parse(out, &*statement.name, &statement.sql, &statement.types);
        let stamp = self.classifier.statements.stamp();
        let before = self.server.session.statements.parse(statement.id, stamp);
        let injected = name.is_none();
        let change = Change::Parsed {
            copy: Some((statement.id, before)),
            name,
        };
        self.server.expects.parse(injected, change);
        while let Some((id, stamp)) = self.server.session.statements.evict() {
            build::close_statement(out, self.classifier.statements.name(id));
            self.server.expects.close(true, Change::Evicted { id, stamp });
        }
    }

    /// Appends what it takes that the server has the statement.
    pub(in crate::core) fn ensure(&mut self, prepared: &Prepared, out: &mut Vec<u8>) {
        if !self.server.session.statements.has(prepared) {
            self.parse_on_server(prepared, out, None);
        }
    }

    /// The same for the client's unnamed statement; where it has none, the server must have nobody else's.
    fn ensure_unnamed(&mut self) {
        let unnamed = &self.client.statements.unnamed;
        let owner = unnamed.as_ref().map(|prepared| (self.client.id, prepared.stamp));
        if self.server.session.statements.unnamed == owner {
            return;
        }
        let prepared = unnamed.clone();
        let mut out = Vec::new();
        match &prepared {
            Some(prepared) => {
                self.server.query.counts.server_parses += 1;
                build::parse(&mut out, "", &prepared.statement.sql, &prepared.statement.types);
            }
            None => build::close_statement(&mut out, ""),
        }
        let parse = prepared.is_some();
        let change = self.replace_unnamed(prepared, owner);
        if parse {
            self.server.expects.parse(true, change);
        } else {
            self.server.expects.close(true, change);
        }
        self.flush();
        self.server.transport.send(self.reactor, &out);
    }

    pub(in crate::core) fn bind(&mut self, body: &[u8], whole: bool, total: usize) -> Option<Stop> {
        let Some((portal, name, rest)) = read::bind(body) else {
            return Some(if whole {
                violation("invalid message format")
            } else {
                Stop::Unfinished
            });
        };
        self.server.query.counts.binds += u64::from(self.rules.counts_statements);
        if name.is_empty() {
            self.ensure_unnamed();
            if let Some(prepared) = &self.client.statements.unnamed {
                prepared.statement.bound();
                let understood = Arc::clone(&prepared.statement.understood);
                self.note(&understood);
                self.runs(&understood);
            }
            self.server.expects.step(Step::Bind, 0);
            return None;
        }
        let Some(prepared) = self.named(name).cloned() else {
            // One of SQL, or none: the server knows.
            self.server.expects.step(Step::Bind, 0);
            return None;
        };
        prepared.statement.bound();
        self.note(&prepared.statement.understood);
        self.runs(&prepared.statement.understood);
        let mut out = Vec::with_capacity(body.len() + 64);
        self.ensure(&prepared, &mut out);
        self.server.expects.step(Step::Bind, prepared.stamp);
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

    pub(in crate::core) fn describe_or_close(&mut self, tag: u8, body: &[u8], end: usize) -> Option<Stop> {
        match read::target(body) {
            Some(target) if tag == frontend::DESCRIBE => self.describe(target, end),
            Some(target) => self.close(target),
            None => return Some(violation("invalid message format")),
        }
        None
    }

    /// A Close goes as it is: the statement stays on the server under its own name; that the client's name is unknown there is no error.
    fn close(&mut self, target: (u8, &[u8])) {
        let change = match target {
            (b'S', b"") => self.replace_unnamed(None, None),
            (b'S', name) if self.rules.carry_statements => match self.client.statements.remove(name) {
                Some(prepared) => Change::Closed {
                    name: name.into(),
                    prepared,
                },
                None => Change::Nothing,
            },
            _ => Change::Nothing,
        };
        self.server.expects.close(false, change);
    }

    fn describe(&mut self, target: (u8, &[u8]), end: usize) {
        let prepared = match target {
            (b'S', b"") => {
                self.ensure_unnamed();
                None
            }
            (b'S', name) => self.named(name).cloned(),
            _ => None,
        };
        let Some(prepared) = prepared else {
            return self.server.expects.step(Step::Describe, 0);
        };
        let mut out = Vec::with_capacity(64);
        self.ensure(&prepared, &mut out);
        self.server.expects.step(Step::Describe, prepared.stamp);
        build::message(&mut out, frontend::DESCRIBE, |out| {
            out.push(b'S');
            out.extend(prepared.statement.name.as_bytes());
            out.push(0);
        });
        self.replace(&out, end);
    }
}
