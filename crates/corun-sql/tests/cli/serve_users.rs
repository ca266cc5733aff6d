//! `corun-sql serve` and its users over the wire: roles and rights from psql, limits, a thousand idle sessions, statements on workers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::program::{check_error, corun_in};
use crate::serve::{LONG, Server, folder};
use crate::workers::Worker;

fn add(folder: &std::path::Path, name: &str, superuser: bool) {
    let mut arguments = vec!["user", "add", name, "--users", "users.toml"];
    arguments.extend(superuser.then_some("--superuser"));
    let run = corun_in(folder, &arguments, "secret\n");
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn roles_and_rights_from_psql() {
    let folder = folder();
    add(folder.path(), "root", true);
    let server = Server::start(folder.path(), &["data", "--users", "users.toml", "-v"]);
    let root = "dbname=data user=root password=secret";
    server.printed(
        root,
        &[
            "create role analyst",
            "create user ann password 'a new one' connection limit 1 in role analyst",
            "grant select on all tables in schema hr to analyst",
            "create user old password 'gone' valid until '2020-01-01'",
        ],
    );
    let ann = "dbname=data user=ann password='a new one'";
    assert_eq!(server.printed(ann, &["select count(*) from hr.people"]), "2\n");
    let told = server.failed(ann, &["select count(*) from orders"]);
    assert!(told.contains("permission denied for table orders"), "{told}");
    let told = server.failed("dbname=data user=old password=gone", &["select 1"]);
    assert!(told.contains("authentication failed"), "{told}");
    let roles = server.printed(root, &["\\du"]);
    assert!(
        roles.contains("ann|1 connection") && roles.contains("analyst|Cannot login"),
        "{roles}"
    );
    let members = "select r.rolname, m.rolname from pg_auth_members a join pg_roles r on r.oid = a.roleid join pg_roles m on m.oid = a.member";
    assert_eq!(server.printed(root, &[members]), "analyst|ann\n");
    let rights = server.printed(root, &["\\dp hr.*"]);
    assert!(rights.contains("hr|people|table|analyst=r/"), "{rights}");
    // One connection and no more.
    let long = "select count(distinct x) from generate_series(1, 20000000000) t(x)";
    let mut psql = server.psql_beside(ann, long);
    let begin = Instant::now();
    while server.psql(ann, &["select 1"]).status.success() {
        assert!(begin.elapsed() < LONG, "a second one gets in");
        // It came while the one before had not left.
        if psql.try_wait().expect("a child").is_some() {
            psql = server.psql_beside(ann, long);
        }
    }
    assert!(
        server
            .failed(ann, &["select 1"])
            .contains("too many connections for role")
    );
    psql.kill().expect("it runs");
    psql.wait().expect("it ends");
    server.printed(root, &["alter role ann password null"]);
    let told = server.failed(ann, &["select 1"]);
    assert!(told.contains("authentication failed"), "{told}");
    server.printed(root, &["drop user ann", "drop user if exists nobody"]);
    let text = std::fs::read_to_string(folder.path().join("users.toml")).expect("read");
    assert!(
        text.contains("[role.analyst]") && !text.contains("user.ann") && !text.contains("a new one"),
        "{text}"
    );
    let logged = server.logged();
    assert!(
        logged.contains("CREATE ROLE") && !logged.contains("a new one"),
        "{logged}"
    );
}

/// A connection by hand.
struct Raw(TcpStream);

impl Raw {
    /// Asks to be let in without a password.
    fn log_in(port: u16, user: &str, database: &str) -> Raw {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("set");
        let mut raw = Raw(stream);
        let mut body = 196_608u32.to_be_bytes().to_vec();
        body.extend(format!("user\0{user}\0").bytes());
        body.extend(format!("database\0{database}\0").bytes());
        body.push(0);
        let length = u32::try_from(body.len() + 4).expect("short");
        raw.0
            .write_all(&[&length.to_be_bytes()[..], &body].concat())
            .expect("sent");
        raw
    }

    fn until_ready(&mut self) {
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).expect("a message");
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let mut body = vec![0; length - 4];
            self.0.read_exact(&mut body).expect("a body");
            assert_ne!(head[0], b'E', "{}", String::from_utf8_lossy(&body));
            if head[0] == b'Z' {
                return;
            }
        }
    }

    fn query(&mut self, sql: &str) {
        let length = u32::try_from(sql.len() + 5).expect("short");
        let message = [b"Q", &length.to_be_bytes()[..], sql.as_bytes(), b"\0"].concat();
        self.0.write_all(&message).expect("sent");
        self.until_ready();
    }
}

/// A number of a process's status, in kB.
fn resident_kb(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_thousand_idle_sessions() {
    let folder = folder();
    let server = Server::start(folder.path(), &["data"]);
    let ready = |count: usize| -> Vec<Raw> {
        let logged_in = (0..count).map(|_| {
            let mut raw = Raw::log_in(server.port, "ann", "data");
            raw.until_ready();
            raw.query("select count(*) from orders where o_id < 10");
            raw
        });
        logged_in.collect()
    };
    // What the first ones need is every session's: the data, plans, threads, the allocator's own.
    drop(ready(8));
    let before = resident_kb(server.process());
    let all = ready(900);
    let after = resident_kb(server.process());
    let each = after.saturating_sub(before) / 900;
    assert!(each * 1_000 < 100_000, "a session takes {each} kB");
    assert_eq!(
        server.printed("dbname=data user=ann", &["select count(*) from orders"]),
        "3000\n"
    );
    drop(all);
}

#[test]
fn statements_on_workers() {
    let folder = folder();
    let data = folder.path().join("data");
    let workers = [Worker::start(&[], &data), Worker::start(&[], &data)];
    let addresses = format!("{},{}", workers[0].address, workers[1].address);
    let arguments = [
        "data",
        "--workers",
        &addresses,
        "--set",
        "distributed.file_scan_config_bytes_per_partition=1",
    ];
    let server = Server::start(folder.path(), &arguments);
    let on = "dbname=data user=ann";
    let by_customer = "select o_customer, count(*), sum(o_id) from orders group by 1 order by 1 limit 2";
    assert_eq!(
        server.printed(on, &[by_customer]),
        "c0|428|642642\nc1|429|643071\n"
    );
    let plan = server.printed(on, &[&format!("explain {by_customer}")]);
    assert!(plan.contains("ClusterExec: workers=2"), "{plan}");
    // The system's own tables stay here, and so do rights.
    assert_eq!(
        server.printed(on, &["select count(*) from pg_class where relname = 'orders'"]),
        "1\n"
    );
    // Without its workers a statement fails as in the shell, and its session goes on.
    drop(workers);
    let told = server.failed(on, &[by_customer]);
    assert!(told.contains("worker"), "{told}");
    assert_eq!(server.printed(on, &["show client_encoding"]), "UTF8\n");
    let run = |arguments: &[&str]| corun_in(folder.path(), &[&["serve", "data"], arguments].concat(), "");
    check_error(
        &run(&["--workers", "here"]),
        2,
        "\"here\" is not the address of a worker",
        "HOST:PORT",
    );
    check_error(
        &run(&["--workers", "127.0.0.1:1"]),
        1,
        "cannot use worker 127.0.0.1:1",
        "",
    );
    check_error(
        &run(&["--workers", "127.0.0.1:1", "--policy", "fifo"]),
        2,
        "--workers has them run elsewhere",
        "leave one of them out",
    );
    check_error(
        &run(&["--workers-tls-key", "k"]),
        2,
        "a certificate, its key and their authority",
        "",
    );
}
