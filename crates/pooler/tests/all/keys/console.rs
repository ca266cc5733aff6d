//! What the console and the metrics tell, and how the proxy ends and changes at their orders.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{KeysFixture, Lines};
use crate::common::assert_contains;
use crate::common::message::{self, shown};
use crate::common::raw::{Raw, Row, number};
use crate::common::wait::{wait, wait_until};

/// The only row of this table whose column has this value.
fn row(console: &mut Raw, command: &str, column: &str, value: &str) -> Row {
    let mut rows = console.table(command);
    rows.retain(|row| row[column] == value);
    assert_eq!(rows.len(), 1, "{command}: {column} {value}");
    rows.remove(0)
}

fn transactions(more: &str) -> KeysFixture {
    KeysFixture::with_proxy(&format!("pool_mode = \"transaction\"\n{more}"))
}

#[test]
fn prepared_statements_are_listed_and_counted() {
    let fixture = transactions("default_pool_size = 2");
    let (mut one, mut two) = (fixture.client(), fixture.client());
    let mut console = fixture.console();
    let prepare = |name: &str| message::prepare(name, "select $1::int", &[]);
    let run = |name: &str| message::run(name, &[Some("7")]);
    one.ask(&prepare("a"));
    two.ask(&prepare("b"));
    for _ in 0..3 {
        one.ask(&run("a"));
    }
    // On another server it is prepared once more.
    two.rows("begin");
    one.ask(&run("a"));
    two.rows("commit");
    let found = row(&mut console, "show prepared", "statement", "select $1::int");
    assert_eq!(
        (found["clients"].as_str(), found["bind_count"].as_str()),
        ("2", "4")
    );
    assert_eq!(found["automatic"], "0");
    let servers: u32 = number(&found, "servers");
    assert!((1..=2).contains(&servers));
    let stats = row(&mut console, "show stats", "database", "app");
    assert_eq!(stats["total_client_parse_count"], "2");
    assert_eq!(stats["total_bind_count"], "4");
    // Each client's own Parse reaches a server, and the second server gets it when it is needed there.
    let parses: u32 = number(&stats, "total_server_parse_count");
    assert!((2..=3).contains(&parses), "{parses}");
}

#[test]
fn names_of_hosts_queries_and_work_are_shown() {
    let database = super::postgres::new_database();
    let place = format!(
        "host = \"localhost\"\nport = {}\ndbname = \"{database}\"",
        super::postgres::shared().port()
    );
    let fixture = KeysFixture::at(&place, &database, Lines::default());
    let mut client = fixture.client();
    let mut console = fixture.console();
    let queries = |console: &mut Raw| -> u64 {
        number(&row(console, "show hosts", "host", "localhost"), "query_count")
    };
    let before = queries(&mut console);
    for _ in 0..5 {
        client.rows("select 1");
    }
    assert_eq!(queries(&mut console), before + 5);
    let name = row(&mut console, "show dns_hosts", "hostname", "localhost");
    assert!(
        name["addrs"].contains("127.0.0.1") || name["addrs"].contains("::1"),
        "{name:?}"
    );
    assert!(number::<u64>(&name, "ttl") <= 15);
    assert_eq!(row(&mut console, "show lists", "list", "dns_names")["items"], "1");
    let core = row(&mut console, "show cores", "core", "0");
    assert_ne!(core["busy_us"], "0");
    assert_ne!(core["shapes"], "0");
}

#[test]
fn a_database_that_comes_back_serves_again() {
    let fixture = transactions("");
    let mut client = fixture.client();
    assert_eq!(client.value("select 1"), "1");
    let other = fixture.text.replace("[databases.app]", "[databases.other]");
    fixture.reload(&other);
    let error = wait(|| fixture.refused());
    assert!(error.starts_with("3D000"), "{error}");
    client.assert_fails("select 2", "3D000");
    fixture.reload(&fixture.text);
    let mut client = wait(|| Raw::connect(&fixture.login()));
    assert_eq!(client.value("select 3"), "3");
    // A disabled one stays disabled over a reload, and its clients stay.
    let mut console = fixture.console();
    console.rows("disable app");
    fixture.reload(&fixture.text);
    for _ in 0..5 {
        console.rows("show pools");
        let error = fixture.refused().expect("refused");
        assert_contains(&error, "disabled");
        assert_eq!(client.value("select 4"), "4");
    }
}

#[test]
fn shutdown_waits_for_clients_to_leave() {
    // Of three loops one has no clients; the console asks it as before.
    let fixture = KeysFixture::with("pool_mode = \"transaction\"", "event_loops = 3");
    let (mut client, mut console) = (fixture.client(), fixture.console());
    console.rows("shutdown wait_for_clients");
    wait(|| fixture.refused());
    for n in 0..5 {
        assert_eq!(client.value(&format!("select {n}")), n.to_string());
        assert_eq!(
            row(&mut console, "show pools", "database", "app")["cl_active"],
            "1"
        );
    }
    assert!(!fixture.has_ended());
    drop(client);
    wait_until("it ends", || fixture.has_ended());
    console.until_closed();
}

#[test]
fn shutdown_waits_for_servers_and_sends_away_who_waits_for_one() {
    let fixture = transactions("default_pool_size = 1");
    let (mut busy, mut waiting, mut idle) = (fixture.client(), fixture.client(), fixture.client());
    let mut console = fixture.console();
    busy.rows("begin");
    waiting.send_query("select 1");
    wait_until("it waits", || {
        row(&mut console, "show pools", "database", "app")["cl_waiting"] == "1"
    });
    console.send_query("shutdown wait_for_servers");
    for client in [&mut waiting, &mut idle] {
        let words = client.until_closed();
        assert!(
            words.last().is_some_and(|last| last.error().starts_with("57P01")),
            "{words:?}"
        );
    }
    assert_eq!(busy.value("select 2"), "2");
    assert!(!fixture.has_ended());
    busy.send_query("commit");
    let answer = shown(&busy.until_closed());
    assert!(answer.contains(&"complete COMMIT".to_owned()), "{answer:?}");
    wait_until("it ends", || fixture.has_ended());
}

#[test]
fn metrics_have_errors_by_code_and_the_limits_of_databases() {
    let port = super::free_port();
    let fixture = KeysFixture::start(Lines {
        corun: &format!("prometheus_listen = \"127.0.0.1:{port}\""),
        database: "max_db_client_connections = 2\nmax_db_connections = 7",
        ..Lines::default()
    });
    let clients = [fixture.client(), fixture.client()];
    assert!(Raw::connect(&fixture.login()).is_err(), "one too many");
    let wrong = fixture.login().database("nosuch");
    assert!(Raw::connect(&wrong).is_err() && Raw::connect(&wrong).is_err());
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("metrics");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    for line in [
        "corun_errors_total{sqlstate=\"53300\"} 1",
        "corun_errors_total{sqlstate=\"3D000\"} 2",
        "corun_database_clients{database=\"app\"} 2",
        "corun_database_clients_max{database=\"app\"} 2",
        "corun_database_servers_max{database=\"app\"} 7",
        "corun_core_shapes{core=\"0\"} ",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    drop(clients);
}
