//! What the console and the metrics tell, and how the proxy ends and changes at their orders.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use super::{Lines, Scene, files, wait};
use crate::common::message;
use crate::common::raw::Raw;

/// The only row of this table whose column has this value.
fn row(console: &mut Raw, command: &str, column: &str, value: &str) -> BTreeMap<String, String> {
    let mut rows = console.table(command);
    rows.retain(|row| row[column] == value);
    assert_eq!(rows.len(), 1, "{command}: {column} {value}");
    rows.remove(0)
}

fn transactions(more: &str) -> Scene {
    Scene::start(Lines {
        proxy: &format!("pool_mode = \"transaction\"\n{more}"),
        ..Lines::default()
    })
}

#[test]
fn prepared_statements_are_listed_and_counted() {
    let scene = transactions("default_pool_size = 2");
    let (mut one, mut two) = (scene.client(), scene.client());
    let mut console = scene.console();
    let prepare = |name: &str| [message::parse(name, "select $1::int", &[]), message::sync()].concat();
    let run = |name: &str| {
        [
            message::bind("", name, &[Some("7")], false),
            message::execute("", 0),
            message::sync(),
        ]
        .concat()
    };
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
    let servers: u32 = found["servers"].parse().expect("a number");
    assert!((1..=2).contains(&servers));
    let stats = row(&mut console, "show stats", "database", "app");
    assert_eq!(stats["total_client_parse_count"], "2");
    assert_eq!(stats["total_bind_count"], "4");
    // Each client's own Parse reaches a server, and the second server gets it when it is needed there.
    let parses: u32 = stats["total_server_parse_count"].parse().expect("a number");
    assert!((2..=3).contains(&parses), "{parses}");
}

#[test]
fn names_of_hosts_queries_and_work_are_shown() {
    let database = super::postgres::new_database();
    let place = format!(
        "host = \"localhost\"\nport = {}\ndbname = \"{database}\"",
        super::postgres::shared().port()
    );
    let scene = Scene::at(&place, &database, Lines::default());
    let mut client = scene.client();
    let mut console = scene.console();
    let queries = |console: &mut Raw| -> u64 {
        row(console, "show hosts", "host", "localhost")["query_count"]
            .parse()
            .expect("a number")
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
    assert!(name["ttl"].parse::<u64>().expect("a number") <= 15);
    assert_eq!(row(&mut console, "show lists", "list", "dns_names")["items"], "1");
    let core = row(&mut console, "show cores", "core", "0");
    assert_ne!(core["busy_us"], "0");
    assert_ne!(core["shapes"], "0");
}

#[test]
fn a_database_that_comes_back_serves_again() {
    let scene = transactions("");
    let mut client = scene.client();
    assert_eq!(client.value("select 1"), "1");
    let other = scene.text.replace("[databases.app]", "[databases.other]");
    scene.proxy.reload(files(&other));
    let error = wait("the database is gone", || Raw::connect(&scene.login()).err());
    assert!(error.to_string().starts_with("3D000"), "{error}");
    let error = client
        .try_rows("select 2")
        .expect_err("its client learns it, too");
    assert!(error.starts_with("3D000"), "{error}");
    scene.proxy.reload(files(&scene.text));
    let mut client = wait("it is back", || Raw::connect(&scene.login()).ok());
    assert_eq!(client.value("select 3"), "3");
    // A disabled one stays disabled over a reload, and its clients stay.
    let mut console = scene.console();
    console.rows("disable app");
    scene.proxy.reload(files(&scene.text));
    for _ in 0..5 {
        console.rows("show pools");
        let error = Raw::connect(&scene.login()).err().expect("refused");
        assert!(error.to_string().contains("disabled"), "{error}");
        assert_eq!(client.value("select 4"), "4");
    }
}

#[test]
fn shutdown_waits_for_clients_to_leave() {
    let scene = transactions("");
    let (mut client, mut console) = (scene.client(), scene.console());
    console.rows("shutdown wait_for_clients");
    wait("nobody gets in any more", || Raw::connect(&scene.login()).err());
    for n in 0..5 {
        assert_eq!(client.value(&format!("select {n}")), n.to_string());
        assert_eq!(
            row(&mut console, "show pools", "database", "app")["cl_active"],
            "1"
        );
    }
    assert!(!scene.proxy.has_ended());
    drop(client);
    wait("it ends", || scene.proxy.has_ended().then_some(()));
    console.until_closed();
}

#[test]
fn shutdown_waits_for_servers_and_sends_away_who_waits_for_one() {
    let scene = transactions("default_pool_size = 1");
    let (mut busy, mut waiting, mut idle) = (scene.client(), scene.client(), scene.client());
    let mut console = scene.console();
    busy.rows("begin");
    waiting.send(&message::query("select 1")).expect("sent");
    wait("it waits", || {
        (row(&mut console, "show pools", "database", "app")["cl_waiting"] == "1").then_some(())
    });
    console
        .send(&message::query("shutdown wait_for_servers"))
        .expect("sent");
    for client in [&mut waiting, &mut idle] {
        let words = client.until_closed();
        assert_eq!(
            words.last().and_then(|error| error.field(b'C')).as_deref(),
            Some("57P01")
        );
    }
    assert_eq!(busy.value("select 2"), "2");
    assert!(!scene.proxy.has_ended());
    busy.send(&message::query("commit")).expect("sent");
    let answer: Vec<String> = busy
        .until_closed()
        .iter()
        .filter_map(message::Message::show)
        .collect();
    assert!(answer.contains(&"complete COMMIT".to_owned()), "{answer:?}");
    wait("it ends", || scene.proxy.has_ended().then_some(()));
}

#[test]
fn metrics_have_errors_by_code_and_the_limits_of_databases() {
    let port = super::free_port();
    let scene = Scene::start(Lines {
        corun: &format!("prometheus_listen = \"127.0.0.1:{port}\""),
        database: "max_db_client_connections = 2\nmax_db_connections = 7",
        ..Lines::default()
    });
    let clients = [scene.client(), scene.client()];
    assert!(Raw::connect(&scene.login()).is_err(), "one too many");
    let wrong = scene.login().database("nosuch");
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
