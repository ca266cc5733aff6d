//! A stand-in for a PostgreSQL backend: bytes in, bytes out, by rules so simple that the answer to a script is known.
//!
//! It has what the proxy relies on: statuses of transactions, settings that a rollback takes back, statements and portals by name,
//! skipping to Sync after an error, COPY both ways, cancel. Rows tell the text that was run, its values and a setting, so that an answer
//! that reaches somebody else, or was made on a session that is not like the client's, is another one.

#[path = "session/extended.rs"]
mod extended;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::message::{self, message};
use super::plan::{Plan, plan, statements};

/// Writes that were committed, in their order, of all sessions.
pub type Ledger = Rc<RefCell<Vec<String>>>;

/// An error: its code and its text.
type Failed = (&'static str, String);

#[derive(Debug)]
struct Portal {
    sql: String,
    values: Vec<String>,
    /// Rows that are left, once it has run.
    rows: Option<VecDeque<Vec<u8>>>,
}

/// What keeps a session from its next message.
#[derive(Debug, Default, PartialEq, Eq)]
enum Busy {
    #[default]
    No,
    /// Copies in: bytes so far.
    Copy(usize),
    /// Runs this until it is woken.
    Sleep(String),
}

/// One backend.
#[derive(Debug, Default)]
pub struct Session {
    pub pid: u32,
    pub secret: Vec<u8>,
    /// The connection is to be closed once the output is out.
    pub closed: bool,
    /// It was no session but a request to cancel this one.
    pub cancels: Option<(u32, Vec<u8>)>,
    /// A cancel request that came late: the next statement is struck.
    pub struck: bool,
    ledger: Ledger,
    input: Vec<u8>,
    output: Vec<u8>,
    started: bool,
    status: u8,
    busy: Busy,
    /// Statements of a simple query still to run; `None`: no simple query runs.
    simple: Option<VecDeque<String>>,
    skipping: bool,
    defaults: BTreeMap<String, String>,
    settings: BTreeMap<String, String>,
    /// Settings when the transaction began.
    before: Option<BTreeMap<String, String>>,
    written: Vec<String>,
    reported: String,
    temporary: bool,
    /// Settings of the transaction.
    local: BTreeMap<String, String>,
    /// It does not know a setting that it is told.
    refuses: bool,
    /// Where in its text the statement failed.
    place: Option<usize>,
    /// Statements it ran with hints.
    pub hinted: usize,
    prepared: BTreeMap<String, String>,
    portals: BTreeMap<String, Portal>,
}

fn text(body: &mut &[u8]) -> String {
    let end = body.iter().position(|byte| *byte == 0).unwrap_or(body.len());
    let found = String::from_utf8_lossy(&body[..end]).into_owned();
    *body = body.get(end + 1..).unwrap_or_default();
    found
}

fn number(body: &mut &[u8], bytes: usize) -> usize {
    let (head, rest) = body.split_at(bytes.min(body.len()));
    *body = rest;
    head.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

fn row(columns: &[Option<String>]) -> Vec<u8> {
    message(b'D', &message::row(columns))
}

/// How many values a text takes.
fn parameters(sql: &str) -> usize {
    (1..=9)
        .rev()
        .find(|n| sql.contains(&format!("${n}")))
        .unwrap_or(0)
}

impl Session {
    pub fn new(pid: u32, secret: Vec<u8>, ledger: &Ledger) -> Session {
        Session {
            pid,
            secret,
            ledger: Rc::clone(ledger),
            status: b'I',
            refuses: pid.is_multiple_of(3),
            ..Session::default()
        }
    }

    /// Whether it has pg_hint_plan.
    fn reads_hints(&self) -> bool {
        self.pid.is_multiple_of(2)
    }

    /// Takes bytes and does what they ask.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.extend(bytes);
        while !self.closed && !self.sleeps() && self.next() {}
    }

    /// What there is to send.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    pub fn sleeps(&self) -> bool {
        matches!(self.busy, Busy::Sleep(_))
    }

    /// Ends a sleep as if its time had come.
    pub fn wake(&mut self) {
        if let Busy::Sleep(sql) = std::mem::replace(&mut self.busy, Busy::No) {
            self.output.extend(row(&[Some(sql)]));
            self.complete("SELECT 1");
            self.go_on();
            self.receive(&[]);
        }
    }

    /// A cancel request has come. Answers whether it struck.
    pub fn cancel(&mut self) -> bool {
        if self.busy == Busy::No {
            return false;
        }
        self.busy = Busy::No;
        self.fail(&cancelled());
        self.receive(&[]);
        true
    }

    /// Whether it is between transactions and nothing is owed to it.
    pub fn is_settled(&self) -> bool {
        self.status == b'I' && self.busy == Busy::No && self.input.is_empty() && !self.skipping
    }

    fn next(&mut self) -> bool {
        let header = if self.started { 5 } else { 4 };
        let Some(head) = self.input.get(header - 4..header) else {
            return false;
        };
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if !(4..1 << 30).contains(&length) {
            self.last_words("08P01", "invalid message length");
            return false;
        }
        let total = length + header - 4;
        if self.input.len() < total {
            return false;
        }
        let whole: Vec<u8> = self.input.drain(..total).collect();
        if self.started {
            self.message(whole[0], &whole[header..]);
        } else {
            self.start(&whole[header..]);
        }
        true
    }

    fn start(&mut self, mut body: &[u8]) {
        match number(&mut body, 4) {
            80_877_103 | 80_877_104 => return self.output.push(b'N'),
            80_877_102 => {
                self.cancels = Some((number(&mut body, 4) as u32, body.to_vec()));
                self.closed = true;
                return;
            }
            code if code >> 16 != 3 => return self.last_words("0A000", "unsupported protocol"),
            _ => {}
        }
        while !body.is_empty() {
            let (name, value) = (text(&mut body), text(&mut body));
            if !name.is_empty() && name != "user" && name != "database" {
                self.defaults.insert(name.to_ascii_lowercase(), value);
            }
        }
        self.started = true;
        self.output.extend(message(b'R', &[0; 4]));
        self.report("server_version", "15.0");
        self.report("client_encoding", "UTF8");
        self.report("standard_conforming_strings", "on");
        let key = [&self.pid.to_be_bytes()[..], &self.secret].concat();
        let zone = self.zone();
        self.report("TimeZone", &zone);
        self.reported = zone;
        self.output.extend(message(b'K', &key));
        self.ready();
    }

    fn report(&mut self, name: &str, value: &str) {
        let body = [name.as_bytes(), &[0], value.as_bytes(), &[0]].concat();
        self.output.extend(message(b'S', &body));
    }

    fn zone(&self) -> String {
        self.value("timezone").unwrap_or_else(|| "UTC".to_owned())
    }

    fn value(&self, name: &str) -> Option<String> {
        let set = self.settings.get(name).or_else(|| self.defaults.get(name));
        set.cloned()
    }

    /// A plan for a text, another where hash joins are off; or an error, or nothing that can be read.
    /// Hints count where it has what reads them.
    fn explain(&self, text: &str, hints: &str) -> Result<String, Failed> {
        let kind = text.bytes().map(usize::from).sum::<usize>() % 8;
        let rows = match kind {
            0 => return Err(("42501", "permission denied".to_owned())),
            1 => return Ok("[{}]".to_owned()),
            kind => 10_usize.pow(kind as u32),
        };
        let hash = self
            .local
            .get("enable_hashjoin")
            .is_none_or(|value| value != "off")
            && !(self.reads_hints() && hints.contains("NestLoop("));
        if !hash && kind == 2 {
            return Err(("57014", "canceling statement due to statement timeout".to_owned()));
        }
        let scan = |name: &str, of: &str, side: &str| {
            format!(
                r#"{{"Node Type": "{name}", "Parent Relationship": "{side}", "Relation Name": "{of}", "Schema": "public",
                    "Alias": "{of}", "Index Cond": "({of}.x = a.x)", "Total Cost": 50.0, "Plan Rows": {rows}, "Plan Width": 8}}"#
            )
        };
        let (join, inner) = if hash {
            let below = scan("Seq Scan", "b", "Outer");
            let table = format!(
                r#"{{"Node Type": "Hash", "Parent Relationship": "Inner", "Total Cost": 50.0, "Plan Rows": {rows}, "Plan Width": 8,
                    "Plans": [{below}]}}"#
            );
            ("Hash Join", table)
        } else {
            ("Nested Loop", scan("Index Scan", "b", "Inner"))
        };
        let outer = scan("Seq Scan", "a", "Outer");
        Ok(format!(
            r#"[{{"Plan": {{"Node Type": "{join}", "Join Type": "Inner", "Hash Cond": "(a.x = b.x)", "Total Cost": 100.0,
                "Plan Rows": {rows}, "Plan Width": 8, "Plans": [{outer}, {inner}]}}}}]"#
        ))
    }

    fn ready(&mut self) {
        if self.status == b'I' {
            self.commit();
            self.local.clear();
        }
        let zone = self.zone();
        if zone != self.reported {
            self.report("TimeZone", &zone);
            self.reported = zone;
        }
        self.output.extend(message(b'Z', &[self.status]));
    }

    fn complete(&mut self, tag: &str) {
        self.output
            .extend(message(b'C', &[tag.as_bytes(), &[0]].concat()));
    }

    fn error(&mut self, severity: &str, code: &str, what: &str) {
        let place = self.place.take().map(|at| format!("P{at}\0"));
        let place = place.unwrap_or_default();
        let body = format!("S{severity}\0V{severity}\0C{code}\0M{what}\0{place}\0");
        self.output.extend(message(b'E', body.as_bytes()));
    }

    fn last_words(&mut self, code: &str, what: &str) {
        self.error("FATAL", code, what);
        self.closed = true;
    }

    /// A statement failed: the rest of a simple query is dropped, messages up to Sync are.
    fn fail(&mut self, (code, what): &Failed) {
        self.error("ERROR", code, what);
        if let Some(before) = self.before.take() {
            self.settings = before;
        }
        self.written.clear();
        self.portals.clear();
        if self.status == b'T' {
            self.status = b'E';
        }
        if self.simple.take().is_some() {
            self.ready();
        } else {
            self.skipping = true;
        }
    }

    fn commit(&mut self) {
        self.before = None;
        self.portals.clear();
        self.ledger.borrow_mut().append(&mut self.written);
    }

    fn message(&mut self, tag: u8, body: &[u8]) {
        if let Busy::Copy(bytes) = self.busy {
            return self.copy(tag, body, bytes);
        }
        if self.skipping && !matches!(tag, b'S' | b'X') {
            return;
        }
        let done = match tag {
            b'Q' => {
                let sql = text(&mut &body[..]);
                self.prepared.remove("");
                self.portals.remove("");
                self.simple = Some(statements(&sql).into());
                self.go_on();
                Ok(())
            }
            b'P' => self.parse(body),
            b'B' => self.bind(body),
            b'D' => self.describe(body),
            b'E' => self.execute(body),
            b'C' => {
                let name = text(&mut body.get(1..).unwrap_or_default());
                if body.first() == Some(&b'S') {
                    self.prepared.remove(&name);
                } else {
                    self.portals.remove(&name);
                }
                self.output.extend(message(b'3', &[]));
                Ok(())
            }
            b'S' => {
                self.skipping = false;
                self.ready();
                Ok(())
            }
            b'H' | b'd' | b'c' | b'f' => Ok(()),
            b'F' => {
                self.simple = Some(VecDeque::new());
                Err(("0A000", "no functions here".to_owned()))
            }
            b'X' => {
                self.closed = true;
                Ok(())
            }
            _ => {
                self.last_words("08P01", "invalid frontend message type");
                Ok(())
            }
        };
        if let Err(failed) = done {
            self.fail(&failed);
        }
    }

    fn copy(&mut self, tag: u8, body: &[u8], bytes: usize) {
        match tag {
            b'd' => self.busy = Busy::Copy(bytes + body.len()),
            b'S' | b'H' => {}
            b'c' => {
                self.busy = Busy::No;
                self.complete(&format!("COPY {bytes}"));
                self.go_on();
            }
            _ => {
                self.busy = Busy::No;
                self.fail(&("57014", format!("COPY ended after {bytes} bytes")));
            }
        }
    }

    /// Runs what is left of a simple query.
    fn go_on(&mut self) {
        while self.busy == Busy::No
            && let Some(left) = &mut self.simple
        {
            let Some(sql) = left.pop_front() else {
                self.simple = None;
                return self.ready();
            };
            if let Err(failed) = self.run_whole(&sql) {
                return self.fail(&failed);
            }
        }
    }

    fn run_whole(&mut self, sql: &str) -> Result<(), Failed> {
        let columns = plan(sql).columns();
        if plan(sql) == Plan::Wrong {
            return Err(wrong());
        }
        if self.status != b'E' && columns > 0 {
            self.describe_rows(columns);
        }
        let rows = self.run(sql, &[])?;
        if let Some(rows) = rows {
            self.output.extend(rows.iter().flatten());
            self.complete_rows(sql, rows.len());
        }
        Ok(())
    }

    fn complete_rows(&mut self, sql: &str, rows: usize) {
        match (plan(sql), plan(sql).tag()) {
            (Plan::Empty, _) => self.output.extend(message(b'I', &[])),
            (Plan::Commit, _) if self.status == b'E' => {
                self.status = b'I';
                self.complete("ROLLBACK");
            }
            (Plan::Commit | Plan::Rollback, tag) => {
                self.status = b'I';
                self.complete(tag);
            }
            (Plan::CopyOut, _) => self.complete(&format!("COPY {rows}")),
            (Plan::Set(_, _, true), _) | (_, "") => self.complete(&format!("SELECT {rows}")),
            (_, tag) => self.complete(tag),
        }
    }

    fn describe_rows(&mut self, columns: usize) {
        let mut body = (columns as u16).to_be_bytes().to_vec();
        for _ in 0..columns {
            body.extend(b"c\0");
            body.extend([
                0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0,
            ]);
        }
        self.output.extend(message(b'T', &body));
    }

    /// Runs a statement: its rows; `None`: it goes on by itself.
    fn run(&mut self, sql: &str, values: &[String]) -> Result<Option<VecDeque<Vec<u8>>>, Failed> {
        let plan = plan(sql);
        // No answer tells of hints.
        let end = sql.find("*/ ").filter(|_| sql.starts_with("/*+"));
        let (hints, sql) = sql.split_at(end.map_or(0, |end| end + 3));
        self.hinted += usize::from(!hints.is_empty() && !matches!(plan, Plan::Explain(_)));
        if std::mem::take(&mut self.struck) {
            return Err(cancelled());
        }
        if self.status == b'E' && !plan.ends_transaction() {
            return Err(aborted());
        }
        if self.before.is_none() && self.status != b'E' {
            self.before = Some(self.settings.clone());
        }
        let mut rows: Vec<Vec<Option<String>>> = Vec::new();
        match plan {
            Plan::Begin => self.status = b'T',
            Plan::Commit if self.status != b'E' => self.commit(),
            Plan::Commit | Plan::Rollback => {
                if let Some(before) = self.before.take() {
                    self.settings = before;
                }
                self.written.clear();
                self.portals.clear();
            }
            Plan::Set(name, value, shown) => {
                if shown {
                    rows.push(vec![Some(value.clone())]);
                }
                if let Some(name) = name.strip_prefix("local ") {
                    if sql.contains("plan_cache_mode") && self.refuses {
                        return Err(("42704", "unrecognized configuration parameter".to_owned()));
                    }
                    self.local.insert(name.to_owned(), value);
                } else {
                    self.settings.insert(name.to_ascii_lowercase(), value);
                }
            }
            Plan::Current => rows.push(vec![
                Some("0".to_owned()),
                Some("read committed".to_owned()),
                self.reads_hints().then(|| "on".to_owned()),
            ]),
            Plan::Explain(text) => rows.push(vec![Some(self.explain(&text, hints)?)]),
            Plan::Reset(Some(name)) => {
                self.settings.remove(&name);
            }
            Plan::Reset(None) => self.settings.clear(),
            Plan::Show(name) => rows.push(vec![Some(match name.as_str() {
                "timezone" => self.zone(),
                name => self.value(name).unwrap_or_default(),
            })]),
            Plan::ReadBack(names) => {
                let digits = |value: &str| value.bytes().map(|byte| format!("{byte:02x}")).collect();
                for (name, value) in &self.settings {
                    if !name.contains('.') && name != "role" {
                        rows.push(vec![Some(name.clone()), Some(digits(value))]);
                    }
                }
                for name in names {
                    let value = self.value(&name).map(|value| digits(&value));
                    rows.push(vec![Some(name), value]);
                }
            }
            Plan::Pins => {
                let mut answers = vec![Some("f".to_owned()); 6];
                answers[0] = Some(if self.temporary { "t" } else { "f" }.to_owned());
                rows.push(answers);
            }
            Plan::Discard => {
                self.settings.clear();
                self.before = None;
                self.prepared.clear();
                self.temporary = false;
            }
            Plan::Deallocate(name) => {
                if name == "all" {
                    self.prepared.clear();
                } else if self.prepared.remove(&name).is_none() {
                    return Err(missing("prepared statement", &name, "26000"));
                }
            }
            Plan::Temporary(there) => self.temporary = there,
            Plan::Select { rows: count, width } => {
                let zone = self.zone();
                let table = if self.temporary { "temporary" } else { "" };
                for at in 0..count {
                    let filler = "x".repeat(width);
                    rows.push(vec![Some(format!(
                        "{sql}|{values:?}|{zone}|{table}|{at}|{filler}"
                    ))]);
                }
            }
            Plan::Write => self.written.push(sql.to_owned()),
            Plan::CopyOut => {
                self.output.extend(message(b'H', &[0, 0, 0]));
                for at in 0..3 {
                    let line = format!("{sql}\t{at}\n");
                    self.output.extend(message(b'd', line.as_bytes()));
                }
                self.output.extend(message(b'c', &[]));
            }
            Plan::CopyIn => {
                self.output.extend(message(b'G', &[0, 0, 0]));
                self.busy = Busy::Copy(0);
                return Ok(None);
            }
            Plan::Sleep => {
                self.busy = Busy::Sleep(sql.to_owned());
                return Ok(None);
            }
            Plan::Fail => {
                // Where in the text as it came.
                let whole = format!("{hints}{sql}");
                self.place = whole.find("fail").map(|at| whole[..at].chars().count() + 1);
                return Err(("22012", format!("failed: {sql}")));
            }
            Plan::Wrong => return Err(wrong()),
            Plan::Empty => {}
        }
        Ok(Some(rows.iter().map(|columns| row(columns)).collect()))
    }
}

fn cancelled() -> Failed {
    ("57014", "canceling statement due to user request".to_owned())
}

fn aborted() -> Failed {
    ("25P02", "current transaction is aborted".to_owned())
}

fn wrong() -> Failed {
    ("42601", "syntax error".to_owned())
}

fn missing(what: &str, name: &str, code: &'static str) -> Failed {
    (code, format!("{what} \"{name}\" does not exist"))
}
