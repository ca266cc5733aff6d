//! The console as a real driver sees it, in both query protocols, and as one that misbehaves.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use crate::common::driver::{block_on, connect};
use crate::common::raw::Login;
use corun_pooler::admin::{Answer, Command, Console, PoolRow, Show, Step, Table, greeting};
use corun_wire::error::Refusal;
use corun_wire::startup::Packet;
use corun_wire::{TransactionStatus, backend, build, frontend, header};
use proptest::prelude::*;

/// What a proxy would answer.
fn run(command: &Command) -> Result<Answer, Refusal> {
    match command {
        Command::Show(Show::Pools) => Ok(Answer::Table(Table::of(&[
            PoolRow {
                database: "shop".to_owned(),
                cl_waiting: 258,
                ..PoolRow::default()
            },
            PoolRow {
                database: "other".to_owned(),
                load_balance_hosts: Some("disable".to_owned()),
                ..PoolRow::default()
            },
        ]))),
        Command::Pause(Some(name)) if name == "nosuch" => {
            Err(Refusal::new("3D000", "no such database: nosuch"))
        }
        _ => Ok(Answer::Done),
    }
}

/// Serves one client until it leaves.
fn serve(mut stream: TcpStream, may_change: bool) {
    stream
        .set_read_timeout(Some(crate::common::raw::PATIENCE))
        .expect("set");
    let (mut bytes, mut out, mut chunk) = (Vec::new(), Vec::new(), [0; 4096]);
    let mut console = None::<Console>;
    loop {
        let got = stream.read(&mut chunk).unwrap_or(0);
        if got == 0 {
            return;
        }
        bytes.extend(&chunk[..got]);
        if console.is_none() {
            let Some((Packet::Startup(_), used)) = Packet::read(&bytes).expect("a startup packet") else {
                continue;
            };
            bytes.drain(..used);
            build::authentication_ok(&mut out);
            for (name, value) in greeting("0.1.0") {
                build::parameter_status(&mut out, name, &value);
            }
            build::key_data(&mut out, 1, &[0; 4]);
            build::ready(&mut out, TransactionStatus::Idle);
            console = Some(Console::new(may_change, "0.1.0"));
        }
        let Some(console) = &mut console else { continue };
        while let Some(found) = header(&bytes)
            .expect("a header")
            .filter(|found| found.total <= bytes.len())
        {
            let message: Vec<u8> = bytes.drain(..found.total).collect();
            match console.message(found.tag, &message[5..], &mut out) {
                Step::Next => {}
                Step::Run(command) => console.answer(run(&command), &mut out),
                Step::End => return,
            }
        }
        stream.write_all(&out).expect("sent");
        out.clear();
    }
}

/// A listening console for one client.
fn listen(may_change: bool) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address");
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        serve(stream, may_change);
    });
    (address, thread)
}

async fn client_of(address: SocketAddr) -> tokio_postgres::Client {
    let login = Login::new("127.0.0.1", address.port(), "a").database("pgbouncer");
    connect(&login).await.expect("connected")
}

#[test]
fn a_driver_reads_tables_in_both_protocols() {
    let (address, thread) = listen(true);
    block_on(async {
        let client = client_of(address).await;
        // The extended protocol, numbers in binary.
        let rows = client.query("SHOW POOLS", &[]).await.expect("rows");
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].get::<_, String>("database"), "shop");
        assert_eq!(rows[0].get::<_, i64>("cl_waiting"), 258);
        assert_eq!(rows[0].get::<_, Option<String>>("load_balance_hosts"), None);
        assert_eq!(rows[1].get::<_, String>("load_balance_hosts"), "disable");
        assert_eq!(client.query("SHOW DNS_ZONES", &[]).await.expect("rows").len(), 0);
        assert_eq!(client.execute("RELOAD", &[]).await.expect("done"), 0);

        // The simple one.
        let messages = client.simple_query("show pools;").await.expect("rows");
        let rows: Vec<_> = messages
            .iter()
            .filter_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => {
                    Some((row.get("database"), row.get("cl_waiting")))
                }
                _ => None,
            })
            .collect();
        assert_eq!(rows, [(Some("shop"), Some("258")), (Some("other"), Some("0"))]);
        client.simple_query("SHOW HELP").await.expect("a notice");
        client.simple_query("").await.expect("nothing");
        let version = client.query_one("SHOW VERSION", &[]).await.expect("a row");
        assert_eq!(version.get::<_, String>(0), "corun 0.1.0");
        client
            .simple_query("SET extra_float_digits = 3")
            .await
            .expect("ignored");

        // Errors, after which it goes on.
        for text in ["SELECT 1", "PAUSE nosuch", "SHOW POLS"] {
            let simple = client.simple_query(text).await.expect_err(text);
            let extended = client.query(text, &[]).await.expect_err(text);
            assert_eq!(simple.code(), extended.code());
            assert!(simple.code().is_some(), "{simple}");
        }
        let error = client.simple_query("SHOW POLS").await.expect_err("no such table");
        let error = error.as_db_error().expect("of the console");
        assert_eq!(error.message(), "invalid command 'SHOW POLS', use SHOW HELP;");
        assert_eq!(error.hint(), Some("Did you mean POOLS?"));
        assert_eq!(client.query("SHOW POOLS", &[]).await.expect("rows").len(), 2);
    });
    thread.join().expect("served");
}

#[test]
fn who_may_only_look_changes_nothing() {
    let (address, thread) = listen(false);
    block_on(async {
        let client = client_of(address).await;
        assert_eq!(client.query("SHOW POOLS", &[]).await.expect("rows").len(), 2);
        for text in [
            "RELOAD",
            "PAUSE",
            "KILL shop",
            "SHUTDOWN",
            "SET query_timeout = 1",
            "KILL_CLIENT 1",
        ] {
            for error in [
                client.simple_query(text).await.expect_err(text),
                client.execute(text, &[]).await.expect_err(text),
            ] {
                assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{text}");
            }
        }
        client
            .simple_query("SET application_name = 'x'")
            .await
            .expect("a session's own");
    });
    thread.join().expect("served");
}

/// Tags of the messages in some bytes.
fn tags(mut bytes: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    while let Some(header) = header(bytes).expect("a header") {
        found.push(header.tag);
        bytes = &bytes[header.total..];
    }
    assert!(bytes.is_empty());
    found
}

#[test]
fn after_an_error_nothing_runs_until_sync() {
    let mut console = Console::new(true, "0");
    let mut out = Vec::new();
    // Bind of a statement that does not exist, then an Execute that must not run.
    for (tag, body) in [
        (frontend::BIND, &b"\0nosuch\0\0\0\0\0\0\0"[..]),
        (frontend::EXECUTE, b"\0\0\0\0\0"),
        (frontend::QUERY, b"RELOAD\0"),
        (frontend::SYNC, b""),
    ] {
        assert_eq!(console.message(tag, body, &mut out), Step::Next, "{tag}");
    }
    assert_eq!(tags(&out), [backend::ERROR, backend::READY]);
    out.clear();
    let step = console.message(frontend::QUERY, b"RELOAD\0", &mut out);
    assert_eq!(step, Step::Run(Command::Reload));
    console.answer(Ok(Answer::Done), &mut out);
    assert_eq!(tags(&out), [backend::COMMAND_COMPLETE, backend::READY]);
    // An answer nobody waits for says nothing.
    out.clear();
    console.answer(Ok(Answer::Done), &mut out);
    assert!(out.is_empty());
    let step = console.message(frontend::PARSE, b"a\0RELOAD", &mut out);
    assert_eq!(step, Step::End);
    assert_eq!(tags(&out), [backend::ERROR]);
}

#[test]
fn names_are_bounded() {
    let mut console = Console::new(true, "0");
    let mut refused = 0;
    for number in 0..1000 {
        let mut out = Vec::new();
        let body = format!("s{number}\0SHOW POOLS\0\0\0");
        let step = console.message(frontend::PARSE, body.as_bytes(), &mut out);
        assert_eq!(step, Step::Next);
        refused += usize::from(tags(&out) == [backend::ERROR]);
        console.message(frontend::SYNC, b"", &mut out);
    }
    assert_eq!(refused, 900);
}

proptest! {
    #[test]
    fn no_message_makes_it_panic_and_every_answer_is_whole(
        messages in prop::collection::vec(
            (
                prop_oneof![Just(b'Q'), Just(b'P'), Just(b'B'), Just(b'D'), Just(b'E'), Just(b'C'), Just(b'S'), any::<u8>()],
                prop_oneof![
                    Just(b"SHOW POOLS\0".to_vec()), Just(b"\0SHOW VERSION\0\0\0".to_vec()),
                    Just(b"\0\0\0\0\0\0\0\x01\0\x01".to_vec()), Just(b"S\0".to_vec()), Just(b"P\0".to_vec()),
                    Just(b"\0\0\0\0\0".to_vec()), prop::collection::vec(any::<u8>(), 0..20),
                ],
            ),
            0..30,
        ),
    ) {
        let mut console = Console::new(true, "0");
        for (tag, body) in messages {
            let mut out = Vec::new();
            match console.message(tag, &body, &mut out) {
                Step::Next => {}
                Step::Run(command) => console.answer(run(&command), &mut out),
                Step::End => { tags(&out); break }
            }
            tags(&out);
        }
    }
}
