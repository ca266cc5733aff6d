//! From a server's bytes to its client's: the way of every answer.
//!
//! [`relay`] steps over message headers. Rows and most else go to the client as they came, in one slice; looked into are only those that
//! end something, change something, or answer what the client did not ask.

pub(in crate::core) mod change;
pub(in crate::core) mod expect;

use std::time::Duration;

use corun_net::reactor::Reactor;

use crate::core::auto_prepare::lifted::Said;
use crate::core::auto_prepare::literal_check::LiteralCheck;
use crate::core::client::Client;
use crate::core::heavy_queue;
use crate::core::reply::expect::Step;
use crate::core::server::cancel::{BY_TIMEOUT, BY_USER};
use crate::core::server::{Server, Task};
use crate::session::prepared::PREFIX;
use crate::understand::Pins;
use crate::wire::error::{Reported, code, with_message};
use crate::wire::{HEADER_BYTES, TransactionStatus, backend, build, header, read};

/// A small message that must be whole to be looked into is at most this long; a server that says otherwise is not one.
const LOOKED_INTO_MAX: usize = 1 << 20;
/// The same for the answers to the proxy's own queries.
const TASK_MESSAGE_MAX: usize = 16 << 20;

/// What a chunk brought.
#[derive(Debug, Default)]
pub(in crate::core) struct Received {
    /// ReadyForQuery messages of the client's queries.
    pub queries: u32,
    /// Transactions that ended.
    pub transactions: u32,
    /// Time of those queries and transactions, added up.
    pub query_time: Duration,
    pub transaction_time: Duration,
    /// Time of each query, where latencies are counted.
    pub latencies: [Duration; 4],
    /// The server cannot be used any more: it says what does not fit.
    pub broken: Option<&'static str>,
    /// Messages of the proxy's own have been answered.
    pub own: bool,
    /// An error or a copy: what was sent since owes less than it seemed.
    pub owes_less: bool,
    /// The proxy's own query has been answered.
    pub task: Option<Task>,
    /// A question about a text was answered.
    pub check: Option<Box<LiteralCheck>>,
    /// A cancel request may have struck what came before the client's statement.
    pub cancel_again: bool,
    /// These messages ran with settings that the server refused, and are to be served again.
    pub form_again: Option<Vec<u8>>,
    /// A simple query that was run as a prepared statement must be run as it came.
    pub again: Option<Vec<u8>>,
}

/// Takes a chunk of what the server sent. `client` is who it is for; without one, only the server's own news are taken.
pub(in crate::core) fn relay<R: Reactor>(
    server: &mut Server,
    client: Option<&mut Client>,
    reactor: &mut R,
    bytes: &[u8],
    now: Duration,
) -> Received {
    if server.partial.is_empty() {
        return Way::new(server, client, reactor, bytes, now).go();
    }
    let mut joined = std::mem::take(&mut server.partial);
    joined.extend(bytes);
    Way::new(server, client, reactor, &joined, now).go()
}

/// Whether a server may say this without being asked.
fn is_news(tag: u8) -> bool {
    matches!(
        tag,
        backend::PARAMETER_STATUS | backend::NOTICE | backend::NOTIFICATION | backend::ERROR
    )
}

struct Way<'a, R> {
    server: &'a mut Server,
    client: Option<&'a mut Client>,
    reactor: &'a mut R,
    bytes: &'a [u8],
    now: Duration,
    /// Where the bytes begin that go as they are.
    run: usize,
    at: usize,
    received: Received,
}

impl<'a, R: Reactor> Way<'a, R> {
    fn new(
        server: &'a mut Server,
        client: Option<&'a mut Client>,
        reactor: &'a mut R,
        bytes: &'a [u8],
        now: Duration,
    ) -> Self {
        Self {
            server,
            client,
            reactor,
            bytes,
            now,
            run: 0,
            at: 0,
            received: Received::default(),
        }
    }

    fn go(mut self) -> Received {
        while self.received.broken.is_none() {
            let rest = self.bytes.len() - self.at;
            if self.server.passing > 0 {
                let part = self.server.passing.min(rest);
                self.server.passing -= part;
                self.at += part;
            }
            let rest = self.bytes.len() - self.at;
            let head = match header(&self.bytes[self.at..]) {
                Ok(Some(head)) => head,
                Ok(None) => break,
                Err(_) => {
                    self.received.broken = Some("the server sent a message of an invalid length");
                    break;
                }
            };
            if self.server.task.is_none() && self.client.is_none() && !is_news(head.tag) {
                self.received.broken = Some("the server sent something that nobody asked for");
                break;
            }
            let whole = rest >= head.total;
            if !whole && self.must_be_whole(head.tag, head.total) {
                break;
            }
            let end = self.at + head.total.min(rest);
            let bytes = self.bytes;
            let body = &bytes[self.at + HEADER_BYTES..end];
            if self.server.task.is_some() {
                self.answer_to_task(head.tag, body, end);
                continue;
            }
            let passes = self.look(head.tag, body, end, whole);
            if !passes {
                self.flush();
                self.run = end;
            }
            self.at = end;
            self.server.passing = head.total - HEADER_BYTES - body.len();
        }
        self.flush();
        let left = &self.bytes[self.at..];
        if !left.is_empty() {
            self.server.partial = left.to_vec();
        }
        self.received
    }

    /// Whether a message that has not arrived whole must be waited for.
    fn must_be_whole(&mut self, tag: u8, total: usize) -> bool {
        let task = self.server.task.is_some();
        // Without a client nothing passes: the rest would go to the next one.
        let wanted = task
            || self.client.is_none()
            || matches!(
                tag,
                backend::READY
                    | backend::PARAMETER_STATUS
                    | backend::PARSE_COMPLETE
                    | backend::CLOSE_COMPLETE
                    | backend::BIND_COMPLETE
                    | backend::NO_DATA
                    | backend::COMMAND_COMPLETE
                    | backend::COPY_IN
            )
            || (matches!(tag, backend::ROW_DESCRIPTION | backend::PARAMETER_DESCRIPTION)
                && (self.server.lifted.is_some() || self.server.check.is_some()))
            || (tag == backend::ERROR && total <= LOOKED_INTO_MAX)
            || (tag == backend::NOTICE
                && (self.server.lifted.is_some() || self.server.hints > 0)
                && total <= LOOKED_INTO_MAX);
        let limit = if task { TASK_MESSAGE_MAX } else { LOOKED_INTO_MAX };
        if wanted && total > limit {
            self.received.broken = Some("the server sent a message that is too long");
        }
        wanted
    }

    /// Sends what goes as it is.
    fn flush(&mut self) {
        if self.run < self.at {
            if let Some(client) = &mut self.client {
                client
                    .transport
                    .send(self.reactor, &self.bytes[self.run..self.at]);
            }
            self.run = self.at;
        }
    }

    /// Looks at a message for the client. Answers whether it gets it.
    fn look(&mut self, tag: u8, body: &[u8], end: usize, whole: bool) -> bool {
        let timed_out = (tag == backend::ERROR && self.server.late && whole)
            .then(|| as_timeout(body))
            .flatten();
        let body = timed_out.as_deref().unwrap_or(body);
        if self.server.form.is_some()
            && let Some(passes) = self.look_at_form(tag, body, end, whole)
        {
            return passes;
        }
        if self.server.hints > 0
            && let Some(passes) = self.look_at_hinted(tag, body, whole)
        {
            return passes;
        }
        if self.server.lifted.is_some()
            && let Some(passes) = self.look_at_lifted(tag, body, whole)
        {
            return passes;
        }
        if self.server.check.is_some()
            && let Some(passes) = self.look_at_check(tag, body)
        {
            return passes;
        }
        match tag {
            backend::DATA_ROW => true,
            backend::COMMAND_COMPLETE | backend::EMPTY_QUERY | backend::PORTAL_SUSPENDED => {
                self.server.expects.step_complete(Step::Execute);
                if matches!(body, b"DEALLOCATE ALL\0" | b"DISCARD ALL\0") {
                    self.discarded();
                }
                true
            }
            backend::ROW_DESCRIPTION => {
                self.server.expects.step_complete(Step::Describe);
                true
            }
            backend::READY if self.server.expects.swallowed() => {
                self.server.expects.ready();
                self.server.last_error = None;
                self.received.own = true;
                false
            }
            backend::READY => {
                self.server.last_error = None;
                self.ready(body);
                true
            }
            backend::PARSE_COMPLETE => !self.server.expects.parse_complete(),
            backend::CLOSE_COMPLETE => !self.server.expects.close_complete(),
            backend::BIND_COMPLETE | backend::NO_DATA => {
                let step = if tag == backend::NO_DATA {
                    Step::Describe
                } else {
                    Step::Bind
                };
                self.server.expects.step_complete(step);
                !self.server.expects.lifted()
            }
            backend::ERROR => {
                let swallowed = self.server.expects.swallowed();
                let stamp = self.error(whole.then(|| &self.bytes[self.at..end]));
                let renamed = whole.then(|| self.renamed(body, stamp)).flatten();
                match renamed.or_else(|| Some(framed(backend::ERROR, timed_out.as_deref()?))) {
                    _ if swallowed => false,
                    None => true,
                    Some(renamed) => {
                        self.flush();
                        if let Some(client) = &mut self.client {
                            client.transport.send(self.reactor, &renamed);
                        }
                        false
                    }
                }
            }
            backend::PARAMETER_STATUS => {
                if let Some((name, value)) = read::parameter_status(body)
                    && self.server.parameter(name, value)
                    && let Some(client) = &mut self.client
                {
                    client.doubt.read_back = true;
                }
                true
            }
            backend::COPY_IN => {
                self.server.expects.copy_in();
                self.received.owes_less = true;
                true
            }
            // Authentication or keys in the middle of a session.
            backend::AUTHENTICATION | backend::KEY_DATA => {
                self.received.broken = Some("the server sent a message that belongs to the login");
                false
            }
            _ => true,
        }
    }

    /// An error that calls the client's statement of this stamp by its name on servers, with the client's own name for it.
    fn renamed(&self, body: &[u8], stamp: u64) -> Option<Vec<u8>> {
        let client = self.client.as_ref()?;
        // Most errors name none: looking for the common part of the names first spares looking for the statement.
        if stamp == 0 || !body.windows(PREFIX.len()).any(|part| part == PREFIX) {
            return None;
        }
        let (name, called) = client
            .statements
            .named()
            .find(|(_, prepared)| prepared.stamp == stamp)
            .map(|(name, prepared)| (name, &*prepared.statement.name))
            .or_else(|| self.server.expects.closing(stamp))?;
        let called = called.as_bytes();
        let mut out = Vec::with_capacity(body.len() + HEADER_BYTES);
        build::message(&mut out, backend::ERROR, |out| {
            let mut rest = body;
            while let Some(at) = rest.windows(called.len()).position(|part| part == called) {
                out.extend(&rest[..at]);
                out.extend(name);
                rest = &rest[at + called.len()..];
            }
            out.extend(rest);
        });
        Some(out)
    }

    /// A message of the answer to a simple query that runs as a prepared statement. `None`: as usual.
    fn look_at_lifted(&mut self, tag: u8, body: &[u8], whole: bool) -> Option<bool> {
        let lifted = self.server.lifted.as_mut()?;
        if tag == backend::READY {
            let lifted = self.server.lifted.take()?;
            if !lifted.state.refused {
                return None;
            }
            if let Some(status) = read::ready(body) {
                self.server.status = status;
            }
            self.server.expects.ready();
            self.server.last_error = None;
            self.received.again = Some(lifted.sql);
            return Some(false);
        }
        let (said, id) = (lifted.hear(tag, body, whole), lifted.id);
        match said {
            Said::Usual => None,
            Said::Held => Some(false),
            Said::After(held) => {
                self.send(&held);
                None
            }
            Said::Error(out) => {
                let end = self.at + HEADER_BYTES + body.len();
                self.error(Some(&self.bytes[self.at..end]));
                self.send(&out);
                Some(false)
            }
            Said::Refused { parse_again } => {
                self.error(None);
                self.server.errors = self.server.errors.saturating_sub(1);
                if parse_again {
                    self.server.statements.forget(id);
                }
                Some(false)
            }
        }
    }

    /// A message of the answer to a query with a comment before it. `None`: as usual.
    fn look_at_hinted(&mut self, tag: u8, body: &[u8], whole: bool) -> Option<bool> {
        match tag {
            backend::READY => self.server.hints = 0,
            backend::ERROR | backend::NOTICE if whole => {
                let moved = heavy_queue::moved_back(body, self.server.hints)?;
                let out = framed(tag, &moved);
                if tag == backend::ERROR {
                    self.error(Some(&out));
                }
                self.send(&out);
                return Some(false);
            }
            _ => {}
        }
        None
    }

    /// A message of the answer to a query with settings of its own. `None`: as usual.
    fn look_at_form(&mut self, tag: u8, body: &[u8], end: usize, whole: bool) -> Option<bool> {
        let said = self.server.form.as_mut()?.hear(tag, body);
        match said {
            heavy_queue::Said::Usual => return None,
            heavy_queue::Said::Nothing => {}
            heavy_queue::Said::Error => {
                self.error(whole.then(|| &self.bytes[self.at..end]));
            }
            heavy_queue::Said::Instead(error) => {
                self.error(whole.then(|| &self.bytes[self.at..end]));
                self.send(&framed(backend::ERROR, &error));
            }
            heavy_queue::Said::Prepared => {
                self.own_ready(body);
                // A request that came between two messages is lost there; twice is no matter.
                self.received.cancel_again = self.server.struck;
            }
            heavy_queue::Said::Unanswered => self.own_ready(body),
            heavy_queue::Said::Answered => {
                self.server.last_error = None;
                self.ready(body);
            }
            heavy_queue::Said::Over(again) => {
                self.own_ready(body);
                self.server.form = None;
                self.received.own = true;
                self.received.transactions += 1;
                self.received.transaction_time += self.now.saturating_sub(self.server.transaction_since);
                self.server.transaction_since = self.now;
                self.server.errors = 0;
                if again.is_some() {
                    self.received.form_again = again;
                } else {
                    let mut out = Vec::with_capacity(6);
                    build::ready(&mut out, self.server.status);
                    self.send(&out);
                }
            }
        }
        Some(false)
    }

    /// A ReadyForQuery that the client does not get.
    fn own_ready(&mut self, body: &[u8]) {
        if let Some(status) = read::ready(body) {
            self.server.status = status;
        }
        self.server.expects.ready();
        self.server.last_error = None;
    }

    /// A message of the answer to a question of the proxy's own ahead of the client's.
    fn look_at_check(&mut self, tag: u8, body: &[u8]) -> Option<bool> {
        let check = self
            .server
            .check
            .as_mut()
            .filter(|_| self.server.expects.swallowed())?;
        match tag {
            backend::PARAMETER_DESCRIPTION => check.hear(tag, body),
            backend::ROW_DESCRIPTION | backend::NO_DATA => {
                check.hear(tag, body);
                self.server.expects.step_complete(Step::Describe);
            }
            backend::ERROR => {
                check.fail(&Reported::read(body).code);
                let end = self.at + HEADER_BYTES + body.len();
                self.error(Some(&self.bytes[self.at..end]));
                self.server.errors = self.server.errors.saturating_sub(1);
            }
            backend::BIND_COMPLETE => self.server.expects.step_complete(Step::Bind),
            backend::COMMAND_COMPLETE => self.server.expects.step_complete(Step::Execute),
            backend::DATA_ROW | backend::NOTICE => {}
            backend::READY => {
                self.received.check = self.server.check.take();
                return None;
            }
            _ => return None,
        }
        Some(false)
    }

    /// Sends this between what goes as it is.
    fn send(&mut self, out: &[u8]) {
        self.flush();
        if let Some(client) = &mut self.client {
            client.transport.send(self.reactor, out);
        }
    }

    /// An error came. Answers the stamp of the statement that the refused message named.
    fn error(&mut self, message: Option<&[u8]>) -> u64 {
        self.received.owes_less = true;
        self.server.errors += 1;
        if let Some(ticket) = &mut self.server.ticket {
            ticket.failed = true;
        }
        self.server.last_error = message.map(<[u8]>::to_vec);
        let mut statements = None;
        if let Some(client) = &mut self.client {
            client.doubt.ask_pins = true;
            statements = Some(&mut client.statements);
        }
        let undone = self.server.expects.error();
        for change in undone.changes {
            change.take_back(statements.as_deref_mut(), &mut self.server.statements);
        }
        undone.stamp
    }

    /// The server has no statements with names any more, but those that come.
    fn discarded(&mut self) {
        let (names, ids) = self.server.expects.discarded();
        self.server.statements.clear_named_but(|id| ids.contains(&id));
        if let Some(client) = &mut self.client {
            client.statements.clear_named_but(|name| names.contains(name));
        }
    }

    fn ready(&mut self, body: &[u8]) {
        let Some(status) = read::ready(body) else {
            self.received.broken = Some("the server sent an unknown transaction status");
            return;
        };
        if self.server.expects.ready().is_none() {
            self.received.broken = Some("the server sent something that nobody asked for");
            return;
        }
        let received = &mut self.received;
        self.server.status = status;
        let took = self.now.saturating_sub(self.server.query_since);
        if let Some(slot) = received.latencies.get_mut(received.queries as usize) {
            *slot = took;
        }
        received.queries += 1;
        received.query_time += took;
        self.server.query_since = self.now;
        if status != TransactionStatus::Idle {
            return;
        }
        received.transactions += 1;
        received.transaction_time += self.now.saturating_sub(self.server.transaction_since);
        self.server.transaction_since = self.now;
        if let Some(client) = &mut self.client {
            if self.server.errors == 0 {
                client.pins = client.pins.without(client.unpins);
            }
            client.unpins = Pins::NONE;
            client.transaction.began = self.server.expects.outstanding() > 0 && client.transaction.began;
        }
        self.server.errors = 0;
    }

    /// A message of the answer to the proxy's own query. Nobody else gets it.
    fn answer_to_task(&mut self, tag: u8, body: &[u8], end: usize) {
        self.flush();
        self.at = end;
        self.run = end;
        match tag {
            backend::READY => {
                if let Some(status) = read::ready(body) {
                    self.server.status = status;
                }
                self.server.expects.ready();
                self.received.task = self.server.task.take();
                self.server.errors = 0;
                self.server.last_error = None;
            }
            backend::DATA_ROW => match &mut self.server.task {
                Some(Task {
                    reply: Some(reply), ..
                }) => reply.row(body),
                Some(task) => task.row(read::data_row(body)),
                None => {}
            },
            backend::ROW_DESCRIPTION | backend::PARAMETER_DESCRIPTION => {
                if let Some(Task {
                    reply: Some(reply), ..
                }) = &mut self.server.task
                {
                    reply.describe(tag, body);
                }
            }
            backend::ERROR => {
                let reported = Reported::read(body);
                if let Some(task) = &mut self.server.task {
                    if let Some(reply) = &mut task.reply {
                        reply.error.get_or_insert_with(|| body.to_vec());
                    }
                    task.error.get_or_insert(reported);
                }
            }
            backend::PARAMETER_STATUS => {
                if let Some((name, value)) = read::parameter_status(body) {
                    self.server.parameter(name, value);
                }
            }
            backend::COPY_IN | backend::COPY_BOTH => {
                self.received.broken = Some("a query of the pooler itself wants to copy in");
            }
            // A notification for a client that listens; it keeps this server.
            backend::NOTIFICATION | backend::NOTICE if self.client.is_some() => {
                if let Some(client) = &mut self.client
                    && tag == backend::NOTIFICATION
                {
                    let start = end - body.len() - HEADER_BYTES;
                    client.transport.send(self.reactor, &self.bytes[start..end]);
                }
            }
            _ => {}
        }
    }
}

/// The error of a query that was cancelled because its statement_timeout has passed, in part while it waited, as the server
/// would have said it. `None`: it says something else.
fn as_timeout(body: &[u8]) -> Option<Vec<u8>> {
    let reported = Reported::read(body);
    let cancelled = reported.code == code::QUERY_CANCELED && reported.message == BY_USER;
    cancelled.then(|| with_message(body, BY_TIMEOUT))
}

/// A message with this body.
fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + HEADER_BYTES);
    build::message(&mut out, tag, |out| out.extend(body));
    out
}
