//! `corun-sql serve` as its operators have it: logs, metrics, signals, the service manager.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use serde_json::Value;

use crate::program::{check_error, corun_in};
use crate::serve::{Server, folder};

/// How long anything here may take before it counts as hanging.
const LONG: Duration = Duration::from_secs(120);

/// The address behind "metrics and status at".
fn metrics(server: &mut Server) -> String {
    let line = server.next_line();
    let address = line
        .strip_prefix("metrics and status at http://")
        .unwrap_or_else(|| panic!("{line}"));
    address.trim_end().trim_end_matches('/').to_owned()
}

fn get(address: &str, path: &str) -> (u16, String) {
    let (status, body) = corun_net::metrics::http::get(address, path, LONG, 16 << 20).expect("an answer");
    (status, String::from_utf8(body).expect("UTF-8"))
}

/// The objects of a log whose message is this.
fn logged(log: &str, message: &str) -> Vec<Value> {
    let lines = log.lines().filter(|line| line.starts_with('{'));
    let objects = lines.map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    objects.filter(|object| object["message"] == message).collect()
}

#[test]
fn one_line_for_each_connection_and_each_slow_statement() {
    let folder = folder();
    let arguments = ["data", "--json", "--log-connections", "--log-min-duration", "0"];
    let server = Server::start_with(folder.path(), &arguments, |_| {});
    let on = "dbname=data user=ann";
    server.printed(on, &["select count(*)\nfrom orders"]);
    server.failed(on, &["select nothing from orders"]);
    let long = format!("select '{}'", "x".repeat(5000));
    server.printed(on, &[&long, "select 1 as password, 'hidden'"]);
    let (code, log) = server.end_with_log("TERM");
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("hidden"), "{log}");
    for (message, count) in [("connection", 3), ("disconnection", 3), ("slow statement", 4)] {
        let objects = logged(&log, message);
        assert_eq!(objects.len(), count, "{message}: {log}");
        for object in &objects {
            assert_eq!(
                (&object["user"], &object["database"]),
                (&"ann".into(), &"data".into())
            );
            assert!(
                object["pid"].is_number() && object["from"] == "127.0.0.1",
                "{object}"
            );
        }
    }
    let slow = logged(&log, "slow statement");
    assert_eq!(slow[0]["statement"], "select count(*)\nfrom orders");
    assert_eq!(
        (&slow[0]["rows"], &slow[0]["sqlstate"]),
        (&1.into(), &Value::Null)
    );
    for number in ["duration_ms", "waited_ms", "bytes"] {
        assert!(slow[0][number].is_number(), "{number} in {}", slow[0]);
    }
    assert!(slow[0]["class"].is_string(), "{}", slow[0]);
    assert_eq!(slow[1]["sqlstate"], "42703");
    let shown = slow[2]["statement"].as_str().expect("a text");
    assert!(shown.len() <= 2048 && shown.len() > 2000, "{}", shown.len());
    assert_eq!(slow[3]["statement"], "select 1 as password, '***'");
}

#[test]
fn parameters_are_logged_only_where_that_is_asked_for() {
    let folder = folder();
    for asked in [false, true] {
        let mut arguments = vec!["data", "--json", "--log-min-duration", "0"];
        arguments.extend(asked.then_some("--log-parameters"));
        let server = Server::start_with(folder.path(), &arguments, |_| {});
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let target = format!("host=127.0.0.1 port={} dbname=data user=ann", server.port);
        runtime.block_on(async {
            let connected = tokio_postgres::connect(&target, tokio_postgres::NoTls).await;
            let (client, connection) = connected.expect("let in");
            tokio::spawn(connection);
            let statement = "select count(*) from orders where o_customer = $1";
            client.query(statement, &[&"c3"]).await.expect("a row");
        });
        let (_, log) = server.end_with_log("TERM");
        let slow = logged(&log, "slow statement");
        assert_eq!(slow.len(), 1, "{log}");
        match asked {
            true => assert_eq!(slow[0]["parameters"], "c3", "{log}"),
            false => assert!(slow[0].get("parameters").is_none(), "{log}"),
        }
    }
}

#[test]
fn numbers_over_http_and_corun_top_s_source() {
    let folder = folder();
    let mut server = Server::start_with(folder.path(), &["data", "--metrics", "127.0.0.1:0"], |_| {});
    let address = metrics(&mut server);
    server.printed("dbname=data user=ann", &["select '<script>alert(1)</script>'"]);
    assert_eq!(get(&address, "/health"), (200, "ok\n".to_owned()));
    let (_, text) = get(&address, "/metrics");
    assert!(
        text.contains("corun_sql_statements_total{result=\"completed\"} 1\n"),
        "{text}"
    );
    let (_, text) = get(&address, "/status.json");
    let status: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(status["program"], "corun-sql");
    assert!(status["queue"]["policy"].is_string(), "{text}");
    assert_eq!(get(&address, "/other").0, 404);
    assert_eq!(server.end_with_log("TERM").0, Some(0));
    let run = |arguments: &[&str]| corun_in(folder.path(), &[&["serve", "data"], arguments].concat(), "");
    check_error(
        &run(&["--listen", "127.0.0.1:0", "--metrics", "0.0.0.0:0"]),
        2,
        "others reach 0.0.0.0:0",
        "--metrics-host",
    );
}

#[test]
fn a_supervisor_hears_of_it_and_its_signal_reads_users_again() {
    let folder = folder();
    let add = |name: &str, password: &str| {
        let run = corun_in(
            folder.path(),
            &["user", "add", name, "--users", "users.toml", "--superuser"],
            password,
        );
        assert_eq!(run.code, 0, "{run:?}");
    };
    add("ann", "secret");
    let path = folder.path().join("notify");
    let supervisor = UnixDatagram::bind(&path).expect("bound");
    supervisor.set_read_timeout(Some(LONG)).expect("set");
    let heard = || {
        let mut bytes = [0; 100];
        let length = supervisor.recv(&mut bytes).expect("a datagram");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let server = Server::start_with(folder.path(), &["data", "--users", "users.toml"], |command| {
        command.env("NOTIFY_SOCKET", &path);
    });
    assert_eq!(heard(), "READY=1");
    let bob = "dbname=data user=bob password=other";
    server.failed(bob, &["select 1"]);
    add("bob", "other");
    server.signal("HUP");
    assert_eq!([heard(), heard()], ["RELOADING=1", "READY=1"]);
    assert_eq!(server.printed(bob, &["select 1"]), "1\n");
    // A user that is gone may not come in, and a file with a mistake changes nothing.
    let users = folder.path().join("users.toml");
    let text = std::fs::read_to_string(&users).expect("read");
    std::fs::write(&users, text.replacen("[user.bob]", "[users.bob]", 1)).expect("written");
    server.signal("HUP");
    assert_eq!([heard(), heard()], ["RELOADING=1", "READY=1"]);
    assert_eq!(server.printed(bob, &["select 1"]), "1\n");
    std::fs::write(&users, text.split("[user.bob]").next().expect("ann's part")).expect("written");
    server.signal("HUP");
    assert_eq!([heard(), heard()], ["RELOADING=1", "READY=1"]);
    server.failed(bob, &["select 1"]);
    let (code, log) = server.end_with_log("TERM");
    assert_eq!((code, heard().as_str()), (Some(0), "STOPPING=1"));
    assert!(
        log.contains("stay as they were: ") && log.contains("unknown key \"users\""),
        "{log}"
    );
}
