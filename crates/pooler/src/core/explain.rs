//! `EXPLAIN (CORUN) query`: what the proxy would do with a query, without running it.

use std::ops::ControlFlow;

use corun_net::reactor::Reactor;

use crate::core::classify::request::Request;
use crate::core::event_loop::EventLoop;
use crate::core::stages::{Halt, Verdict};
use crate::understand::Access;
use corun_wire::{HEADER_BYTES, TransactionStatus, build, frontend, header, read};

/// Bytes at the beginning of a query in which the option must stand to be looked for.
const LOOKED_AT: usize = 256;

/// How long the message is that `bytes` begin with, if it is a Query that may be an EXPLAIN for the proxy.
#[inline]
fn candidate(bytes: &[u8]) -> Option<usize> {
    if bytes.first() != Some(&frontend::QUERY) {
        return None;
    }
    let head = header(bytes).ok()??;
    let sql = read::query(bytes.get(HEADER_BYTES..head.total)?)?;
    let begin = sql.trim_ascii_start();
    let begin = &begin[..begin.len().min(LOOKED_AT)];
    if !begin.get(..7)?.eq_ignore_ascii_case(b"explain") {
        return None;
    }
    let named = begin.windows(5).any(|word| word.eq_ignore_ascii_case(b"corun"));
    named.then_some(head.total)
}

impl<R: Reactor> EventLoop<R> {
    /// Answers a client's EXPLAIN (CORUN), if that is what comes next.
    pub(in crate::core) fn explain(&mut self, reactor: &mut R, request: &mut Request<'_>) -> Verdict {
        let Some(used) = candidate(request.bytes) else {
            return ControlFlow::Continue(());
        };
        let index = request.client;
        let Some(client) = self.clients.get(index) else {
            return ControlFlow::Break(Halt::Gone);
        };
        let server = client.server.and_then(|server| self.servers.get(server));
        let status = match (server, &client.begun) {
            (Some(server), _) if !server.expects.settled() => return ControlFlow::Continue(()),
            (Some(server), _) => server.session.status,
            (None, Some(_)) => TransactionStatus::Open,
            (None, None) => TransactionStatus::Idle,
        };
        let understood = request
            .first
            .understood(client, &mut self.classifier, request.bytes);
        let Some(text) = understood.and_then(|understood| understood.explains.clone()) else {
            return ControlFlow::Continue(());
        };
        let lines = self.explain_text(index, &text);
        let mut out = Vec::new();
        build::row_description(&mut out, [("QUERY PLAN", build::TEXT_OID, 0)].into_iter());
        for line in &lines {
            build::data_row(&mut out, [Some(line.as_str())].into_iter());
        }
        build::command_complete(&mut out, "EXPLAIN");
        build::ready(&mut out, status);
        if let Some(client) = self.clients.get_mut(index) {
            client.transport.send(reactor, &out);
        }
        ControlFlow::Break(Halt::Done(used))
    }

    fn explain_text(&mut self, index: usize, text: &str) -> Vec<String> {
        let understood = self.classifier.understanding.of(text.as_bytes());
        let access = match understood.access {
            Access::Read => "reads only",
            Access::Write => "writes",
            Access::Unknown => "not known to only read, so it counts as a write",
        };
        let mut lines = vec![
            format!("Access: {access}"),
            format!("Shape: {:016x}", understood.shape.0),
        ];
        lines.extend(self.explanation(index, text, &understood));
        lines
    }
}
