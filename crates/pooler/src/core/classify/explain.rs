//! `EXPLAIN (CORUN) query`: what the proxy would do with a query, without running it.

use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::core::event_loop::EventLoop;
use crate::core::ranges::dispatch::key_of;
use crate::split::plan;
use crate::understand::{Access, Dialect, Understood};
use crate::wire::{HEADER_BYTES, TransactionStatus, build, frontend, header, read};

/// Bytes at the beginning of a query in which the option must stand to be looked for.
const LOOKED_AT: usize = 256;

/// The text of a Query that may be an EXPLAIN for the proxy, and how long the message is.
fn candidate(bytes: &[u8]) -> Option<(&[u8], usize)> {
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
    named.then_some((sql, head.total))
}

impl<R: Reactor> EventLoop<R> {
    /// Answers a client's EXPLAIN (CORUN), if that is what comes next. Answers how long the message is.
    pub(in crate::core) fn explain(&mut self, reactor: &mut R, index: usize, bytes: &[u8]) -> Option<usize> {
        let (sql, used) = candidate(bytes)?;
        let text = self.classifier.understanding.of(sql).explains.clone()?;
        let server = self.clients.get(index)?.server;
        let server = server.and_then(|server| self.servers.get(server));
        if server.is_some_and(|server| !server.expects.settled()) {
            return None;
        }
        let status = server.map(|server| server.session.status);
        let lines = self.explanation(index, &text);
        let client = self.clients.get_mut(index)?;
        let status = match (status, &client.begun) {
            (Some(status), _) => status,
            (None, Some(_)) => TransactionStatus::Open,
            (None, None) => TransactionStatus::Idle,
        };
        let mut out = Vec::new();
        build::row_description(&mut out, [("QUERY PLAN", build::TEXT_OID)].into_iter());
        for line in &lines {
            build::data_row(&mut out, [Some(line.as_str())].into_iter());
        }
        build::command_complete(&mut out, "EXPLAIN");
        build::ready(&mut out, status);
        client.transport.send(reactor, &out);
        Some(used)
    }

    fn explanation(&mut self, index: usize, text: &str) -> Vec<String> {
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
        lines.extend(self.explain_key(index, text, &understood));
        lines.push(self.explain_split(index, text, &understood));
        lines.push(self.explain_heavy_queue(index, text, &understood));
        lines
    }

    /// The key, and who has it.
    fn explain_key(&mut self, index: usize, text: &str, understood: &Arc<Understood>) -> Vec<String> {
        let none = |why: &str| vec![format!("Key: none, {why}")];
        let Some(client) = self.clients.get(index) else {
            return Vec::new();
        };
        let database = Arc::clone(&client.database);
        let pool = client.pool;
        self.open_dispatcher(pool);
        let decide = self.keys_decide(pool);
        let Some(Some(dispatcher)) = self.dispatchers.get_mut(&database) else {
            return none("no [ranges.NAME] names this database");
        };
        let mut message = Vec::new();
        build::query(&mut message, text);
        let Some(client) = self.clients.get(index) else {
            return Vec::new();
        };
        let ranges = &mut dispatcher.ranges;
        let Some(key) = key_of(ranges, client, &mut self.classifier, &message, Some(understood)) else {
            return none("no column of a range is compared with a value, or with all of them");
        };
        let domain = &ranges.shared.domains[key.domain];
        let cpu = self.cpus.get(key.worker).map(|cpu| format!(" on CPU {}", cpu.0));
        let state = if decide {
            ""
        } else {
            ", which does not decide now (dispatch is off, or measured not to pay)"
        };
        vec![
            format!("Key: {} of range \"{}\"", key.span, domain.name),
            format!("Worker: {}{}{state}", key.worker, cpu.unwrap_or_default()),
        ]
    }

    /// Whether it runs in parts.
    fn explain_split(&mut self, index: usize, text: &str, understood: &Understood) -> String {
        let Some(client) = self.clients.get(index) else {
            return String::new();
        };
        let Some(rule) = self.splits.find(&client.database, understood.shape) else {
            return "Split: no [splits.NAME] names this query".to_owned();
        };
        let rule = &self.splits.rules[rule];
        let parts = match plan(text, Dialect::default(), &rule.key) {
            Err(refusal) => return format!("Split: \"{}\", but it runs whole: {refusal}", rule.name),
            Ok(_) if !rule.why.is_empty() => {
                return format!("Split: \"{}\", but it ran whole lately: {}", rule.name, rule.why);
            }
            Ok(_) => rule.history.settled(),
        };
        let took = |parts: usize| match rule.history.time_us(parts) {
            Some(time) => format!("{:.1} ms", time / 1000.0),
            None => "not measured yet".to_owned(),
        };
        let mut line = format!(
            "Split: \"{}\" by {}.{}, whole {}",
            rule.name,
            rule.key.table,
            rule.key.column,
            took(1)
        );
        if parts > 1 {
            line.push_str(&format!(", in {parts} parts {}", took(parts)));
        }
        line.push_str(&format!(
            "; ran in parts {} times, whole {} times",
            rule.split, rule.whole
        ));
        line
    }
}
