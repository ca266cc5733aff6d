//! Servers that die: the client concerned hears of it, all others go on, and what was acknowledged is there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::fixture::Fixture;
use crate::common::message;
use crate::common::postgres::Postgres;
use crate::common::raw::{Login, Raw};
use crate::common::target::{Mode, Pooling, Target};
use crate::common::wait::{wait_at_most, wait_until};
use crate::faults::soon;

#[test]
fn a_terminated_backend_fails_its_query_only() {
    for mode in [Mode::Session, Mode::Transaction] {
        let fixture = Fixture::start(&Pooling::new(mode, 2).set("server_login_retry", "1"));
        let (mut a, mut b) = fixture.two();
        b.rows("create table t (v int)");
        a.rows("begin");
        a.rows("insert into t values (1)");
        let pid = a.value("select pg_backend_pid()");
        a.send_query("select pg_sleep(60)");
        fixture.wait_until(&format!(
            "select wait_event = 'PgSleep' from pg_stat_activity where pid = {pid}"
        ));
        fixture.sql(&format!("select pg_terminate_backend({pid})"));
        let answer = a.until_closed();
        assert_eq!(message::code(&answer), "57P01", "{mode:?}: {answer:?}");
        assert!(
            answer.iter().all(|m| m.tag != b'Z' && m.tag != b'D'),
            "{answer:?}"
        );
        assert_eq!(b.value("select count(*) from t"), "0");
        // The place of the dead server is free again.
        for _ in 0..3 {
            let mut c = fixture.client();
            c.rows("begin; insert into t values (2); rollback");
            assert_eq!(c.value("select count(*) from t"), "0");
        }
    }
}

#[test]
fn an_idle_server_that_died_is_not_given_to_anybody() {
    let fixture = Fixture::start(&Pooling::new(Mode::Transaction, 1).set("server_login_retry", "1"));
    if !fixture.target.shares_servers() {
        return;
    }
    let (mut a, mut b) = fixture.two();
    for round in 0..5 {
        let pid = a.value("select pg_backend_pid()");
        fixture.sql(&format!("select pg_terminate_backend({pid})"));
        fixture.wait_for_no_server(&format!("pid = {pid}"));
        // The end of the connection may be on its way still.
        let mut console = fixture.console();
        wait_until("the target notices the end of a server", || {
            let servers = console.table("show servers");
            servers.iter().all(|server| server["remote_pid"] != pid)
        });
        assert_eq!(b.value("select 'alive'"), "alive", "round {round}");
        assert_eq!(a.value("select 'alive'"), "alive", "round {round}");
    }
}

#[test]
fn a_crash_of_the_server_is_survived() {
    let server = Postgres::start();
    let target = Target::start(
        &server,
        &Pooling::new(Mode::Transaction, 3).set("server_login_retry", "1"),
    );
    let mut idle = target.client();
    let mut busy = target.client();
    idle.rows("create table t (v int); insert into t values (1)");
    let pid: u32 = busy.value("select pg_backend_pid()").parse().expect("a process");
    busy.rows("begin; insert into t values (2)");
    busy.send_query("select pg_sleep(60)");
    server.wait_until("select count(*) = 1 from pg_stat_activity where wait_event = 'PgSleep'");
    let sleeping: u32 = server
        .value("select pid from pg_stat_activity where wait_event = 'PgSleep'")
        .parse()
        .expect("a process");
    assert!(pid > 0);
    server.kill_backend(sleeping);
    let answer = busy.until_closed();
    assert!(
        answer.iter().all(|m| m.tag != b'Z' && m.tag != b'D'),
        "{answer:?}"
    );
    assert_eq!(soon(&target.login("app"), "select count(*) from t"), "1");
    if target.shares_servers() {
        // A client that had no server at the time may hear of it once, but keeps its connection or gets an error; it never hangs.
        let _ = idle.try_rows("select count(*) from t");
    }
    assert_eq!(soon(&target.login("app"), "select 'again'"), "again");
}

/// Inserts pairs of rows until told to stop, over any number of connections; the numbers whose commit was acknowledged, and
/// those whose fate is unknown. `commits` counts the first.
fn insert(
    login: &Login,
    client: usize,
    stop: &AtomicBool,
    commits: &AtomicUsize,
) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let (mut acknowledged, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    let mut connection: Option<Raw> = None;
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let Some(raw) = &mut connection else {
            match Raw::connect(login) {
                Ok(raw) => connection = Some(raw),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
            continue;
        };
        number += 1;
        let insert = format!("insert into log values ({client}, {number})");
        let done = match number % 3 {
            // Two rows of one transaction: both or none.
            0 => raw.try_rows("begin").and_then(|_| {
                raw.try_rows(&insert)?;
                raw.try_rows(&insert)?;
                raw.try_rows("commit")
            }),
            1 => raw.try_rows(&format!("{insert}; {insert}")),
            _ => {
                let values = [client.to_string(), number.to_string()];
                let values = values.each_ref().map(|value| Some(value.as_str()));
                let text = "insert into log values ($1::int, $2::int), ($1, $2)";
                let batch = [
                    message::parse("ins", text, &[]),
                    message::bind_execute("ins", &values),
                    message::close(b'S', "ins"),
                ];
                raw.try_ask(&[batch.concat(), message::sync()].concat())
            }
        };
        match done {
            Ok(_) => {
                acknowledged.insert(number);
                commits.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                unknown.insert(number);
                connection = None;
            }
        }
    }
    (acknowledged, unknown)
}

/// Tells the clients to stop, also where the test fails: it would wait for them for ever.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn restarts(mode: Mode, crash: bool) {
    const CLIENTS: usize = 8;
    let mut server = Postgres::start();
    let target = Target::start(
        &server,
        &Pooling::new(mode, if mode == Mode::Session { CLIENTS } else { 3 }).set("server_login_retry", "1"),
    );
    server.sql("create table log (client int, number int); grant all on log to public");
    let stop = AtomicBool::new(false);
    let commits = AtomicUsize::new(0);
    let results = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (login, stop, commits) = (target.login("app"), &stop, &commits);
                scope.spawn(move || insert(&login, client, stop, commits))
            })
            .collect();
        let ends = Ends(&stop);
        // The load is there, again and again.
        let until_more = |count: usize| {
            let before = commits.load(Ordering::Relaxed);
            wait_at_most(Duration::from_secs(60), || {
                match commits.load(Ordering::Relaxed) >= before + count {
                    true => Ok(()),
                    false => Err("the target does not come back"),
                }
            });
        };
        for _ in 0..3 {
            until_more(CLIENTS * 20);
            if crash {
                server.kill()
            } else {
                server.stop()
            }
            server.start_again();
        }
        until_more(CLIENTS * 40);
        drop(ends);
        handles
            .into_iter()
            .map(|handle| handle.join().expect("a client"))
            .collect::<Vec<_>>()
    });
    let mut seen = vec![BTreeSet::new(); CLIENTS];
    for row in server.sql("select client, number, count(*) from log group by 1, 2") {
        let number = |n: usize| -> usize { row[n].as_deref().expect("not null").parse().expect("a number") };
        assert_eq!(number(2), 2, "half a transaction, or one done twice: {row:?}");
        seen[number(0)].insert(number(1) as u32);
    }
    let mut all = 0;
    for (client, (acknowledged, unknown)) in results.iter().enumerate() {
        let lost: Vec<_> = acknowledged.difference(&seen[client]).collect();
        assert!(
            lost.is_empty(),
            "client {client}: acknowledged but not there: {lost:?}"
        );
        let invented: Vec<_> = seen[client]
            .iter()
            .filter(|n| !acknowledged.contains(n) && !unknown.contains(n))
            .collect();
        assert!(
            invented.is_empty(),
            "client {client}: there but never sent: {invented:?}"
        );
        all += acknowledged.len();
    }
    assert!(
        all > CLIENTS * 10,
        "only {all} commits: the target hardly came back"
    );
    // And it is as good as before.
    assert_eq!(soon(&target.login("app"), "select 'after'"), "after");
}

#[test]
fn no_commit_is_lost_when_the_server_restarts_under_load() {
    restarts(Mode::Transaction, false);
}

#[test]
fn no_commit_is_lost_when_the_server_crashes_under_load() {
    restarts(Mode::Transaction, true);
}

#[test]
fn no_commit_is_lost_in_session_mode() {
    restarts(Mode::Session, true);
}

#[test]
fn a_server_that_is_away_is_an_error_and_not_a_hang() {
    let mut server = Postgres::start();
    let target = Target::start(
        &server,
        &Pooling::new(Mode::Transaction, 2)
            .set("server_login_retry", "1")
            .set("query_wait_timeout", "3"),
    );
    let mut client = target.client();
    assert_eq!(client.value("select 1"), "1");
    server.stop();
    let answer = client.try_rows("select 2");
    assert!(answer.is_err(), "{answer:?}");
    let login = target.login("app").database("postgres");
    let refused =
        Raw::connect(&login).and_then(|mut raw| raw.try_rows("select 3").map_err(std::io::Error::other));
    assert!(refused.is_err(), "{:?}", refused.ok());
    server.start_again();
    assert_eq!(soon(&target.login("app"), "select 4"), "4");
}
