//! The extended protocol as it comes over the wire: messages go through `corun_wire`'s session, and what they ask for is done here.

use super::harness::{Collected, Server, messages, shown};
use corun_server::session::{ClientSession, Portal, Prepared, Ran};
use corun_wire::build;
use corun_wire::error::Refusal;
use corun_wire::server::{Action, Executed, Limits, Message, Session};
use std::sync::Arc;

/// A connection without a socket, as the server's front keeps one.
struct Connection<'s> {
    server: &'s Server,
    session: ClientSession,
    wire: Session<Arc<Prepared>, (Portal, corun_wire::server::ResultFormats)>,
    out: Collected,
}

impl<'s> Connection<'s> {
    fn new(server: &'s Server) -> Self {
        Connection {
            server,
            session: server.session(),
            wire: Session::new(Limits::default()),
            out: Collected::default(),
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        let (message, _) = Message::read(bytes, &Limits::default())
            .expect("well formed")
            .expect("whole");
        let action = self.wire.message(message, &mut self.out.0);
        let done = self.act(action);
        if let Err(refusal) = done {
            self.wire.set_transaction(self.session.transaction());
            self.wire.failed(&mut self.out.0, &refusal);
        }
        if !self.wire.is_busy() {
            self.wire.set_transaction(self.session.transaction());
        }
    }

    fn act(
        &mut self,
        action: Action<'_, Arc<Prepared>, (Portal, corun_wire::server::ResultFormats)>,
    ) -> Result<(), Refusal> {
        match action {
            Action::Query { sql } => {
                self.server.block_on(self.session.simple(sql, &mut self.out))?;
                self.wire.set_transaction(self.session.transaction());
                self.wire.query_done(&mut self.out.0);
            }
            Action::Parse(parse) => {
                let statement = self.session.one(parse.sql)?;
                let types: Vec<u32> = parse.types().collect();
                let prepared = self.server.block_on(self.session.prepare(statement, &types))?;
                let (parameters, columns) = (prepared.parameters.clone(), prepared.columns.clone());
                self.wire.parsed(&mut self.out.0, prepared, parameters, columns);
            }
            Action::Bind {
                statement,
                bind,
                formats,
            } => {
                let portal = self.session.bind(&statement, bind.parameters())?;
                self.wire.bound(&mut self.out.0, (portal, formats));
            }
            Action::Execute {
                portal: (mut portal, formats),
                rows_max,
            } => {
                let run = self.session.run(&mut portal, &formats, rows_max, &mut self.out);
                let ran = self.server.block_on(run)?;
                self.wire.set_transaction(self.session.transaction());
                let how = match &ran {
                    Ran::Complete(tag) => Executed::Complete(tag),
                    Ran::Suspended => Executed::Suspended,
                    Ran::Empty | Ran::CopyIn { .. } => Executed::Empty,
                };
                self.wire.executed(&mut self.out.0, (portal, formats), how);
            }
            Action::Sync { commit } => {
                self.server.block_on(self.session.end_pipeline(commit))?;
                self.wire.ended(&mut self.out.0);
            }
            Action::Nothing | Action::Flush => {}
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn message(&mut self, tag: u8, body: &[u8]) {
        let mut bytes = Vec::new();
        build::message(&mut bytes, tag, |out| out.extend(body));
        self.send(&bytes);
    }

    fn parse(&mut self, name: &str, sql: &str) {
        let mut bytes = Vec::new();
        build::parse(&mut bytes, name, sql.as_bytes(), &[0, 0]);
        self.send(&bytes);
    }

    /// Binds parameters given as text.
    fn bind(&mut self, portal: &str, statement: &str, values: &[&str]) {
        let mut body = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0\0\0"].concat();
        body.extend((values.len() as u16).to_be_bytes());
        for value in values {
            body.extend((value.len() as u32).to_be_bytes());
            body.extend(value.as_bytes());
        }
        body.extend([0, 0]);
        self.message(b'B', &body);
    }

    fn execute(&mut self, portal: &str, rows: i32) {
        self.message(b'E', &[portal.as_bytes(), b"\0", &rows.to_be_bytes()].concat());
    }

    fn told(&mut self) -> Vec<String> {
        shown(&std::mem::take(&mut self.out.0))
    }
}

#[test]
fn a_portal_is_fetched_in_parts() {
    let server = Server::new();
    let mut it = Connection::new(&server);
    it.parse("s", "SELECT n FROM t WHERE n >= $1 ORDER BY n");
    it.bind("p", "s", &["5"]);
    it.execute("p", 2);
    it.execute("p", 2);
    it.execute("p", 2);
    it.execute("p", 2);
    it.message(b'S', b"");
    assert_eq!(
        it.told(),
        [
            "1",
            "2",
            "5",
            "6",
            "s",
            "7",
            "8",
            "s",
            "9",
            "=SELECT 5",
            "=SELECT 0",
            "Z"
        ]
    );
    // The statement is still there, its portal is not.
    it.execute("p", 0);
    it.message(b'S', b"");
    it.bind("", "s", &["9"]);
    it.execute("", 0);
    it.message(b'S', b"");
    assert_eq!(it.told(), ["E", "Z", "2", "9", "=SELECT 1", "Z"]);
}

#[test]
fn statements_are_described_before_they_run() {
    let server = Server::new();
    let mut it = Connection::new(&server);
    it.parse("", "SELECT n, word FROM t WHERE word = $1");
    it.message(b'D', b"S\0");
    let found = messages(&it.out.0);
    assert_eq!(found.iter().map(|(tag, _)| *tag).collect::<String>(), "1tT");
    assert_eq!(found[1].1, [0, 1, 0, 0, 0, 25]);
    it.told();
    it.parse("", "");
    it.message(b'D', b"S\0");
    it.bind("", "", &[]);
    it.execute("", 0);
    it.message(b'S', b"");
    assert_eq!(it.told(), ["1", "t", "n", "2", "I", "Z"]);
}

#[test]
fn a_pipeline_fails_as_one() {
    let server = Server::new();
    let mut it = Connection::new(&server);
    it.parse("", "SELECT nothing FROM t");
    it.bind("", "", &[]);
    it.execute("", 0);
    it.message(b'S', b"");
    assert_eq!(it.told(), ["E", "Z"]);
    it.message(b'Q', b"BEGIN\0");
    it.parse("", "SELECT 1 / (n - n) FROM t");
    it.bind("", "", &[]);
    it.execute("", 0);
    it.message(b'S', b"");
    it.message(b'Q', b"SELECT 1\0");
    it.message(b'Q', b"ROLLBACK\0");
    let found = messages(&it.out.0);
    let ready: Vec<&[u8]> = found
        .iter()
        .filter(|(tag, _)| *tag == 'Z')
        .map(|(_, body)| body.as_slice())
        .collect();
    assert_eq!(ready, [&b"T"[..], b"E", b"E", b"I"]);
}

#[test]
fn a_copy_and_a_setting_in_a_pipeline() {
    let server = Server::new();
    let mut it = Connection::new(&server);
    for sql in [
        "SET application_name = 'pipe'",
        "COPY (SELECT 1, NULL) TO STDOUT",
        "SHOW application_name",
    ] {
        it.parse("", sql);
        it.bind("", "", &[]);
        it.execute("", 0);
    }
    it.message(b'S', b"");
    assert_eq!(
        it.told(),
        [
            "1", "2", "=SET", "1", "2", "H", ">1\t\\N", "c", "=COPY 1", "1", "2", "pipe", "=SHOW", "Z"
        ]
    );
}

#[test]
fn a_plan_of_tables_follows_settings() {
    let server = Server::new();
    std::fs::write(server.folder.path().join("sales/t.csv"), "n\n77\n").unwrap();
    let mut session = server.session();
    let rows = server.rows(
        &mut session,
        "PREPARE p AS SELECT max(n) FROM t; SET search_path = sales, public; EXECUTE p; EXECUTE p",
    );
    assert_eq!(rows, ["=PREPARE", "=SET", "77", "=SELECT 1", "77", "=SELECT 1"]);
}

#[test]
fn a_kept_plan_follows_settings_and_parameters() {
    let server = Server::new();
    let mut it = Connection::new(&server);
    it.parse(
        "s",
        "SELECT $1::integer + 1, current_setting('TimeZone'), timestamptz '2001-02-03 04:05:06+00'",
    );
    let run = |it: &mut Connection<'_>, value: &str| {
        it.bind("", "s", &[value]);
        it.execute("", 0);
        it.message(b'S', b"");
        it.told().into_iter().find(|line| line.contains('|'))
    };
    let of = |text: &str| Some(text.to_owned());
    assert_eq!(run(&mut it, "1"), of("2|UTC|2001-02-03 04:05:06+00"));
    assert_eq!(run(&mut it, "2"), of("3|UTC|2001-02-03 04:05:06+00"));
    it.parse("", "SET TimeZone = 'Asia/Tokyo'");
    it.bind("", "", &[]);
    it.execute("", 0);
    it.message(b'S', b"");
    it.told();
    assert_eq!(run(&mut it, "3"), of("4|Asia/Tokyo|2001-02-03 13:05:06+09"));
    assert_eq!(run(&mut it, "4"), of("5|Asia/Tokyo|2001-02-03 13:05:06+09"));
}
