//! From a server's bytes to its client's: the way of every answer.
//!
//! [`relay`] steps over message headers. Rows and most else go to the client as they came, in one slice; looked into are only those that
//! end something, change something, or answer what the client did not ask.

pub(in crate::core) mod again;
pub(in crate::core) mod change;
pub(in crate::core) mod expect;
pub(in crate::core) mod filter;

use std::time::Duration;

use corun_net::reactor::Reactor;

use crate::core::client::Client;
use crate::core::listen;
use crate::core::reply::expect::Step;
use crate::core::reply::filter::{AfterReply, Verdict, framed};
use crate::core::server::cancel::{BY_TIMEOUT, BY_USER};
use crate::core::server::{Deadline, Server, Task};
use crate::session::prepared::PREFIX;
use crate::understand::Pins;
use corun_wire::error::{Reported, code, with_message};
use corun_wire::{HEADER_BYTES, TransactionStatus, backend, build, header, read};

/// A small message that must be whole to be looked into is at most this long; a server that says otherwise is not one.
const LOOKED_INTO_MAX: usize = 1 << 20;
/// The same for the answers to the proxy's own queries.
const TASK_MESSAGE_MAX: usize = 16 << 20;
/// What says that a message does not belong into a copy, whatever the server's language: the name of its function.
const COPY_ROUTINE: &str = "CopyGetData";

/// What a chunk brought.
#[derive(Default)]
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
    /// What a hub was notified of.
    pub notifications: Vec<listen::Message>,
    /// The result of the client's statement with this stamp is another since it was parsed.
    pub stale: Option<u64>,
    /// The client's messages, which run again for that.
    pub again: Option<Vec<u8>>,
    /// What is left to do, in order.
    pub after: Vec<AfterReply>,
}

/// Takes a chunk of what the server sent. `client` is who it is for; without one, only the server's own news are taken.
pub(in crate::core) fn relay<R: Reactor>(
    server: &mut Server,
    client: Option<&mut Client>,
    reactor: &mut R,
    bytes: &[u8],
    now: Duration,
) -> Received {
    if server.reading.partial.is_empty() {
        return Way::new(server, client, reactor, bytes, now).go();
    }
    let mut joined = std::mem::take(&mut server.reading.partial);
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

/// A message of an answer.
#[derive(Clone, Copy)]
struct ReplyMessage<'a> {
    tag: u8,
    body: &'a [u8],
    /// Where it ends in the chunk.
    end: usize,
    /// `body` is all of it.
    whole: bool,
    /// `body` is another than the server's.
    changed: bool,
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
            if self.server.reading.passing > 0 {
                let part = self.server.reading.passing.min(rest);
                self.server.reading.passing -= part;
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
            let for_nobody = self.server.task.is_none() && self.client.is_none();
            if for_nobody && !is_news(head.tag) {
                self.received.broken = Some("the server sent something that nobody asked for");
                break;
            }
            let whole = rest >= head.total;
            if !whole && self.must_be_whole(head.tag, head.total) {
                break;
            }
            if for_nobody && head.tag == backend::ERROR {
                // Its last words: it must not serve anybody until its end is seen.
                self.received.broken = Some("server conn crashed?");
                break;
            }
            let end = self.at + head.total.min(rest);
            let bytes = self.bytes;
            let body = &bytes[self.at + HEADER_BYTES..end];
            if self.server.task.is_some() {
                self.answer_to_task(head.tag, body, end);
                continue;
            }
            let passes = self.look(ReplyMessage {
                tag: head.tag,
                body,
                end,
                whole,
                changed: false,
            });
            if !passes {
                self.flush();
                self.run = end;
            }
            self.at = end;
            self.server.reading.passing = head.total - HEADER_BYTES - body.len();
        }
        self.flush();
        let left = &self.bytes[self.at..];
        if !left.is_empty() {
            self.server.reading.partial = left.to_vec();
        }
        self.received
    }

    /// Whether a message that has not arrived whole must be waited for.
    fn must_be_whole(&mut self, tag: u8, total: usize) -> bool {
        let task = self.server.task.is_some();
        let filter = self.server.query.filter.as_ref();
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
            || (tag == backend::NOTIFICATION
                && self
                    .client
                    .as_ref()
                    .is_some_and(|client| client.listens.is_some()))
            || (tag == backend::ERROR && total <= LOOKED_INTO_MAX)
            || (tag == backend::PARAMETER_DESCRIPTION && self.server.query.again.is_kept())
            || filter.is_some_and(|filter| filter.needs_whole(tag))
                && (tag != backend::NOTICE || total <= LOOKED_INTO_MAX);
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

    /// Looks at a message for the client. Returns whether the client gets it.
    fn look(&mut self, message: ReplyMessage<'_>) -> bool {
        let timed_out = (message.tag == backend::ERROR
            && self.server.query.deadline == Deadline::Passed
            && message.whole)
            .then(|| as_timeout(message.body))
            .flatten();
        let message = match &timed_out {
            Some(body) => ReplyMessage {
                body,
                changed: true,
                ..message
            },
            None => message,
        };
        match &mut self.server.query.filter {
            None => self.usual(message, true),
            Some(filter) => {
                let verdict = filter.message(message.tag, message.body, message.whole);
                self.judged(verdict, message)
            }
        }
    }

    /// Does what a filter says of a message. Returns whether the client gets it.
    fn judged(&mut self, verdict: Verdict, message: ReplyMessage<'_>) -> bool {
        match verdict {
            Verdict::Usual => return self.usual(message, true),
            Verdict::Behind(held) => {
                self.send(&held);
                return self.usual(message, true);
            }
            Verdict::Held => {
                self.usual(message, false);
            }
            Verdict::Instead(out) => {
                self.usual(message, false);
                self.send(&out);
            }
            Verdict::Refused { parse_again } => {
                self.error(None);
                self.unsaid();
                if let Some(id) = parse_again {
                    self.server.session.statements.forget(id);
                }
            }
            Verdict::Ahead => {
                self.usual(message, false);
                // A request that came between two messages is lost there; twice is no matter.
                self.received.after.push(AfterReply::CancelAgain);
            }
            Verdict::Unanswered => self.own_ready(message.body),
            Verdict::Last => {
                self.end_filter();
                return self.usual(message, true);
            }
            Verdict::LastUnanswered => {
                self.own_ready(message.body);
                self.end_filter();
            }
            Verdict::LastOfTransaction => {
                self.own_ready(message.body);
                self.received.own = true;
                self.transaction_ended();
                if !self.end_filter() {
                    let mut out = Vec::with_capacity(6);
                    build::ready(&mut out, self.server.session.status);
                    self.send(&out);
                }
            }
        }
        false
    }

    /// The filter has seen its last message. Returns whether something is left to do.
    fn end_filter(&mut self) -> bool {
        let after = self.server.query.filter.take().and_then(|filter| filter.after());
        let left = after.is_some();
        self.received.after.extend(after);
        left
    }

    /// Takes note of a message. Returns whether the client gets it as it is; nothing goes to the client unless `passes`.
    fn usual(&mut self, message: ReplyMessage<'_>, passes: bool) -> bool {
        let ReplyMessage {
            tag,
            body,
            end,
            whole,
            changed,
        } = message;
        match tag {
            backend::DATA_ROW => true,
            backend::COMMAND_COMPLETE | backend::EMPTY_QUERY | backend::PORTAL_SUSPENDED => {
                self.answered();
                self.server.expects.step_complete(Step::Execute);
                if matches!(body, b"DEALLOCATE ALL\0" | b"DISCARD ALL\0") {
                    self.discarded();
                }
                self.server.reading.undone += u32::from(body == b"ROLLBACK\0");
                true
            }
            backend::ROW_DESCRIPTION => {
                self.answered();
                self.server.expects.step_complete(Step::Describe);
                true
            }
            backend::PARAMETER_DESCRIPTION if passes && self.server.query.again.is_kept() => {
                self.server.query.again.hold(&self.bytes[self.at..end]);
                false
            }
            backend::READY if let Some(batch) = self.server.query.again.ended() => {
                self.own_ready(body);
                self.received.own = true;
                self.received.again = Some(batch);
                false
            }
            backend::READY if self.server.expects.swallowed() => {
                self.own_ready(body);
                self.received.own = true;
                false
            }
            backend::READY => {
                self.server.reading.last_error = None;
                self.ready(body);
                true
            }
            backend::PARSE_COMPLETE => !self.server.expects.parse_complete(),
            backend::CLOSE_COMPLETE => !self.server.expects.close_complete(),
            backend::BIND_COMPLETE | backend::NO_DATA => {
                self.answered();
                let step = if tag == backend::NO_DATA {
                    Step::Describe
                } else {
                    Step::Bind
                };
                self.server.expects.step_complete(step);
                !self.server.expects.lifted()
            }
            backend::ERROR => {
                let passes = passes && !self.server.expects.swallowed();
                let stamp = self.error(whole.then(|| &self.bytes[self.at..end]));
                if stamp != 0 && passes && whole && again::is_stale(body) {
                    self.received.stale = Some(stamp);
                    if self.server.query.filter.is_none()
                        && self.server.stages.ticket.is_none()
                        && self.server.query.again.refused()
                    {
                        self.unsaid();
                        return false;
                    }
                }
                self.answered();
                if whole && self.server.session.outlives_a_broken_copy() && breaks_a_copy(body) {
                    // Which of the messages behind it are answered cannot be told.
                    self.received.broken = Some("the client sent what does not belong into a copy");
                }
                if !passes {
                    return false;
                }
                let renamed = whole.then(|| self.renamed(body, stamp)).flatten();
                match renamed.or_else(|| changed.then(|| framed(backend::ERROR, body))) {
                    None => true,
                    Some(out) => {
                        self.send(&out);
                        false
                    }
                }
            }
            backend::PARAMETER_STATUS => {
                if let Some((name, value)) = read::parameter_status(body)
                    && self.server.session.parameter(name, value)
                    && let Some(client) = &mut self.client
                {
                    client.doubt.read_back = true;
                }
                true
            }
            backend::COPY_IN | backend::COPY_BOTH => {
                self.server.expects.copy_in();
                self.received.owes_less = true;
                true
            }
            backend::NOTIFICATION => self.notified(body, end),
            // Authentication or keys in the middle of a session.
            backend::AUTHENTICATION | backend::KEY_DATA => {
                self.received.broken = Some("the server sent a message that belongs to the login");
                false
            }
            _ => true,
        }
    }

    /// A notification, for a client that has this server or for those of a hub. Returns whether the client gets it as it is.
    fn notified(&mut self, body: &[u8], end: usize) -> bool {
        if self.server.stages.hub.is_some() {
            let message = &self.bytes[end - body.len() - HEADER_BYTES..end];
            self.received.notifications.push(message.into());
        }
        let listens = self.client.as_mut().and_then(|client| client.listens.as_mut());
        match (listens, listen::notification(body)) {
            (Some(listens), Some((channel, payload))) => listens.by_server(channel, payload),
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

    /// An answer comes: what is under way does not run again.
    #[inline]
    fn answered(&mut self) {
        if self.server.query.again.is_kept() {
            let held = self.server.query.again.answered();
            self.send(&held);
        }
    }

    /// A ReadyForQuery that the client does not get.
    fn own_ready(&mut self, body: &[u8]) {
        if let Some(status) = read::ready(body) {
            self.server.session.status = status;
        }
        self.server.expects.ready();
        self.server.reading.last_error = None;
        self.answer_ended();
    }

    /// Sends this between what goes as it is.
    fn send(&mut self, out: &[u8]) {
        self.flush();
        if let Some(client) = &mut self.client {
            client.transport.send(self.reactor, out);
        }
    }

    /// The client does not get the error that just came.
    fn unsaid(&mut self) {
        let reading = &mut self.server.reading;
        reading.errors = reading.errors.saturating_sub(1);
        reading.undone = reading.undone.saturating_sub(1);
    }

    /// An error came. Returns the stamp of the statement that the refused message named.
    fn error(&mut self, message: Option<&[u8]>) -> u64 {
        self.received.owes_less = true;
        self.server.reading.errors += u32::from(!self.server.expects.swallowed());
        self.server.reading.undone += u32::from(!self.server.expects.swallowed());
        self.server.stages.failed();
        self.server.reading.last_error = message.map(<[u8]>::to_vec);
        let mut statements = None;
        if let Some(client) = &mut self.client {
            client.doubt.ask_pins = true;
            statements = Some(&mut client.statements);
        }
        let undone = self.server.expects.error();
        for change in undone.changes {
            change.take_back(statements.as_deref_mut(), &mut self.server.session.statements);
        }
        undone.stamp
    }

    /// The server has no statements with names any more, but those that come.
    fn discarded(&mut self) {
        let (names, ids) = self.server.expects.discarded();
        self.server
            .session
            .statements
            .clear_named_but(|id| ids.contains(&id));
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
        self.server.session.status = status;
        let took = self.now.saturating_sub(self.server.query.since);
        if let Some(slot) = received.latencies.get_mut(received.queries as usize) {
            *slot = took;
        }
        received.queries += 1;
        received.query_time += took;
        self.server.query.since = self.now;
        self.answer_ended();
        if status != TransactionStatus::Idle {
            return;
        }
        if let Some(client) = &mut self.client {
            if self.server.reading.errors == 0 {
                client.pins = client.pins.without(client.unpins);
            }
            client.unpins = Pins::NONE;
            client.transaction.began = self.server.expects.outstanding() > 0 && client.transaction.began;
        }
        self.transaction_ended();
    }

    /// A ReadyForQuery has come. What a client listens to no more is certain at the end of a transaction.
    fn answer_ended(&mut self) {
        if let Some(listens) = self.client.as_mut().and_then(|client| client.listens.as_mut()) {
            let idle = self.server.session.status == TransactionStatus::Idle;
            listens.answer_ended(idle, self.server.reading.undone);
        }
    }

    fn transaction_ended(&mut self) {
        self.received.transactions += 1;
        self.received.transaction_time += self.now.saturating_sub(self.server.query.transaction_since);
        self.server.query.transaction_since = self.now;
        self.server.reading.begins_anew();
    }

    /// A message of the answer to the proxy's own query. Nobody else gets it.
    fn answer_to_task(&mut self, tag: u8, body: &[u8], end: usize) {
        self.flush();
        self.at = end;
        self.run = end;
        match tag {
            backend::READY => {
                self.own_ready(body);
                self.received.task = self.server.task.take();
                self.server.reading.begins_anew();
            }
            backend::DATA_ROW
            | backend::ROW_DESCRIPTION
            | backend::PARAMETER_DESCRIPTION
            | backend::ERROR => {
                if let Some(task) = &mut self.server.task {
                    task.message(tag, body);
                }
            }
            backend::PARAMETER_STATUS => {
                if let Some((name, value)) = read::parameter_status(body) {
                    self.server.session.parameter(name, value);
                }
            }
            backend::COPY_IN | backend::COPY_BOTH => {
                self.received.broken = Some("a query of the pooler itself wants to copy in");
            }
            backend::NOTIFICATION if self.notified(body, end) => {
                self.send(&self.bytes[end - body.len() - HEADER_BYTES..end])
            }
            _ => {}
        }
    }
}

/// Whether an error says that something came within a copy that does not belong there.
fn breaks_a_copy(error: &[u8]) -> bool {
    let reported = Reported::read(error);
    reported.code == code::PROTOCOL_VIOLATION && reported.routine == COPY_ROUTINE
}

/// The error of a query that was cancelled because its statement_timeout has passed, in part while it waited, as the server
/// would have said it. `None`: it says something else.
fn as_timeout(body: &[u8]) -> Option<Vec<u8>> {
    let reported = Reported::read(body);
    let cancelled = reported.code == code::QUERY_CANCELED && reported.message == BY_USER;
    cancelled.then(|| with_message(body, BY_TIMEOUT))
}
