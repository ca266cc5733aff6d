//! What transactions see of each other at each level, by the scenarios that the literature names (Adya's G0 to G2, lost updates, skew).
//!
//! A statement that has to wait runs on a thread of its own ([`later`]); what it finds does not depend on when it began to wait.

use super::harness::{Client, Failure, Row, Server, line, wait};
use std::thread::JoinHandle;

/// Two rows: 1 has 10, 2 has 20.
fn two_rows(server: &Server) -> Client {
    let client = server.client();
    client.execute("create table test (id int primary key, value int not null)");
    client.execute("insert into test values (1, 10), (2, 20)");
    client
}

/// A client in a transaction of a level.
fn begun(server: &Server, level: &str) -> Client {
    let client = server.client();
    client.execute(&format!("begin isolation level {level}"));
    client
}

fn value(client: &Client, id: u32) -> String {
    client.one(&format!("select value from test where id = {id}"))
}

fn all(client: &Client) -> Vec<String> {
    client.lines("select id, value from test order by id")
}

/// A statement that may have to wait.
struct Later(JoinHandle<(Client, Result<Vec<Row>, Failure>)>);

/// Begins a statement; returns when the server has it.
fn later(server: &Server, client: Client, sql: &str) -> Later {
    let pid = client.one("select pg_backend_pid()");
    let text = sql.to_owned();
    let thread = std::thread::spawn(move || {
        let ended = client.try_rows(&text);
        (client, ended)
    });
    let observer = server.client();
    let state = format!("select query, state from pg_stat_activity where pid = {pid}");
    let expected = [format!("{sql}|active")];
    wait(sql, || thread.is_finished() || observer.lines(&state) == expected);
    Later(thread)
}

impl Later {
    /// Waits for its end.
    fn end(self) -> (Client, Result<Vec<String>, Failure>) {
        let (client, ended) = self.0.join().expect("the thread of a client");
        (client, ended.map(|rows| rows.iter().map(line).collect()))
    }

    /// Waits for its end, which must be a good one.
    #[track_caller]
    fn ok(self) -> Client {
        let (client, ended) = self.end();
        ended.unwrap_or_else(|failure| panic!("{failure:?}"));
        client
    }
}

const CONCURRENT_UPDATE: &str = "could not serialize access due to concurrent update";

// READ COMMITTED

#[test]
fn g0_writes_are_not_interleaved() {
    for level in ["read uncommitted", "read committed"] {
        let server = Server::start();
        let observer = two_rows(&server);
        let (first, second) = (begun(&server, level), begun(&server, level));
        first.execute("update test set value = 11 where id = 1");
        let second = later(&server, second, "update test set value = 12 where id = 1");
        first.execute("update test set value = 21 where id = 2");
        first.execute("commit");
        let second = second.ok();
        assert_eq!(all(&observer), ["1|11", "2|21"], "{level}");
        second.execute("update test set value = 22 where id = 2");
        second.execute("commit");
        assert_eq!(all(&observer), ["1|12", "2|22"], "{level}");
    }
}

#[test]
fn g1_only_what_was_committed_is_read() {
    for level in ["read uncommitted", "read committed"] {
        let server = Server::start();
        two_rows(&server);
        // Aborted and intermediate reads.
        let (first, second) = (begun(&server, level), begun(&server, level));
        first.execute("update test set value = 101 where id = 1");
        assert_eq!(all(&second), ["1|10", "2|20"], "{level}");
        first.execute("rollback");
        assert_eq!(all(&second), ["1|10", "2|20"], "{level}");
        first.execute("begin; update test set value = 101 where id = 1");
        assert_eq!(all(&second), ["1|10", "2|20"], "{level}");
        first.execute("update test set value = 11 where id = 1; commit");
        assert_eq!(all(&second), ["1|11", "2|20"], "{level}");
        second.execute("commit");
        // Circular information flow.
        let (first, second) = (begun(&server, level), begun(&server, level));
        first.execute("update test set value = 12 where id = 1");
        second.execute("update test set value = 22 where id = 2");
        assert_eq!(value(&first, 2), "20", "{level}");
        assert_eq!(value(&second, 1), "11", "{level}");
        first.execute("commit");
        second.execute("commit");
    }
}

#[test]
fn an_observed_transaction_does_not_vanish() {
    let server = Server::start();
    two_rows(&server);
    let level = "read committed";
    let (first, second, third) = (
        begun(&server, level),
        begun(&server, level),
        begun(&server, level),
    );
    first.execute("update test set value = 11 where id = 1");
    first.execute("update test set value = 19 where id = 2");
    let second = later(&server, second, "update test set value = 12 where id = 1");
    first.execute("commit");
    let second = second.ok();
    assert_eq!(value(&third, 1), "11");
    second.execute("update test set value = 18 where id = 2");
    assert_eq!(value(&third, 2), "19");
    second.execute("commit");
    assert_eq!(value(&third, 2), "18");
    assert_eq!(value(&third, 1), "12");
    third.execute("commit");
}

/// PostgreSQL looks again at the rows alone that it has waited for, and deletes none here; this server runs the statement again, with one
/// snapshot for all rows.
#[test]
fn a_statement_that_has_waited_sees_one_state_of_all_rows() {
    let server = Server::start();
    let observer = two_rows(&server);
    let (first, second) = (begun(&server, "read committed"), begun(&server, "read committed"));
    first.execute("update test set value = value + 10");
    let second = later(&server, second, "delete from test where value = 20 returning id");
    first.execute("commit");
    let (second, ended) = second.end();
    assert_eq!(ended.expect("it goes on"), ["1"]);
    second.execute("commit");
    assert_eq!(all(&observer), ["2|30"]);
}

#[test]
fn updates_of_the_value_that_is_there_are_not_lost() {
    let server = Server::start();
    let observer = two_rows(&server);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let client = server.client();
                for _ in 0..30 {
                    assert_eq!(
                        client.execute("update test set value = value + 1 where id = 1"),
                        1
                    );
                }
            });
        }
    });
    assert_eq!(all(&observer), ["1|190", "2|20"]);
}

#[test]
fn each_statement_sees_what_was_committed_before_it() {
    let server = Server::start();
    let other = two_rows(&server);
    let reader = begun(&server, "read committed");
    assert_eq!(reader.one("select count(*) from test"), "2");
    other.execute("insert into test values (3, 30)");
    assert_eq!(reader.one("select count(*) from test"), "3");
    other.execute("delete from test where id < 3");
    assert_eq!(all(&reader), ["3|30"]);
    // The same after it has written itself.
    reader.execute("insert into test values (4, 40)");
    other.execute("insert into test values (5, 50)");
    assert_eq!(all(&reader), ["3|30", "4|40", "5|50"]);
    assert_eq!(all(&other), ["3|30", "5|50"]);
    reader.execute("rollback");
    assert_eq!(all(&reader), ["3|30", "5|50"]);
}

#[test]
fn a_row_that_was_deleted_meanwhile_is_not_updated() {
    let server = Server::start();
    let observer = two_rows(&server);
    let first = begun(&server, "read committed");
    first.execute("delete from test where id = 1");
    let second = later(&server, server.client(), "update test set value = 0 returning id");
    first.execute("commit");
    assert_eq!(second.end().1.expect("it goes on"), ["2"]);
    assert_eq!(all(&observer), ["2|0"]);
}

#[test]
fn a_key_that_is_being_inserted_is_waited_for() {
    let server = Server::start();
    let observer = two_rows(&server);
    let insert = "insert into test values (3, 31)";
    let first = begun(&server, "read committed");
    first.execute("insert into test values (3, 30)");
    let second = later(&server, server.client(), insert);
    first.execute("rollback");
    second.ok();
    assert_eq!(all(&observer), ["1|10", "2|20", "3|31"]);
    observer.execute("delete from test where id = 3");
    first.execute("begin; insert into test values (3, 30)");
    let second = later(&server, server.client(), insert);
    first.execute("commit");
    assert_eq!(second.end().1.expect_err("the key is taken").0, "23505");
    assert_eq!(all(&observer), ["1|10", "2|20", "3|30"]);
}

#[test]
fn no_statement_sees_what_it_writes() {
    let server = Server::start();
    let client = two_rows(&server);
    assert_eq!(
        client.execute("insert into test select id + 10, value from test"),
        2
    );
    assert_eq!(client.execute("update test set value = value + 1"), 4);
    assert_eq!(client.execute("update test set id = id + 100"), 4);
    assert_eq!(all(&client), ["101|11", "102|21", "111|11", "112|21"]);
    assert_eq!(
        client.execute("delete from test where value = (select min(value) from test)"),
        2
    );
}

// REPEATABLE READ

#[test]
fn a_snapshot_stays_as_it_is() {
    for level in ["repeatable read", "repeatable read, read only"] {
        let server = Server::start();
        let other = two_rows(&server);
        let reader = begun(&server, level);
        // The first statement takes it, not BEGIN.
        other.execute("update test set value = 11 where id = 1");
        assert_eq!(all(&reader), ["1|11", "2|20"], "{level}");
        other.execute("begin; update test set value = 12 where id = 1; insert into test values (3, 30)");
        other.execute("delete from test where id = 2; commit");
        assert_eq!(all(&reader), ["1|11", "2|20"], "{level}");
        assert_eq!(
            reader.lines("select id from test where value % 3 = 0"),
            [""; 0],
            "{level}"
        );
        other.execute("update test set id = id + 10");
        assert_eq!(
            reader.lines("select sum(value), count(*) from test"),
            ["31|2"],
            "{level}"
        );
        reader.execute("commit");
        assert_eq!(all(&reader), ["11|12", "13|30"], "{level}");
    }
}

#[test]
fn own_writes_are_seen_in_the_snapshot() {
    let server = Server::start();
    let other = two_rows(&server);
    let writer = begun(&server, "repeatable read");
    assert_eq!(all(&writer), ["1|10", "2|20"]);
    other.execute("insert into test values (3, 30)");
    writer.execute("update test set value = 11 where id = 1");
    writer.execute("insert into test values (4, 40)");
    assert_eq!(all(&writer), ["1|11", "2|20", "4|40"]);
    assert_eq!(
        writer.execute("update test set value = value + 1"),
        3,
        "the row of the other is not seen"
    );
    writer.execute("commit");
    assert_eq!(all(&other), ["1|12", "2|21", "3|30", "4|41"]);
}

#[test]
fn the_first_updater_wins() {
    let server = Server::start();
    let observer = two_rows(&server);
    let level = "repeatable read";
    // It waits for the other, which commits.
    let (first, second) = (begun(&server, level), begun(&server, level));
    assert_eq!(value(&first, 1), "10");
    assert_eq!(value(&second, 1), "10");
    first.execute("update test set value = 11 where id = 1");
    let second = later(&server, second, "update test set value = 12 where id = 1");
    first.execute("commit");
    let (second, ended) = second.end();
    let (code, message) = ended.expect_err("the other was first");
    assert_eq!((code.as_str(), message.as_str()), ("40001", CONCURRENT_UPDATE));
    assert_eq!(second.error("select 1").0, "25P02");
    second.execute("rollback");
    // It waits for the other, which goes back.
    let (first, second) = (begun(&server, level), begun(&server, level));
    assert_eq!(value(&second, 1), "11");
    first.execute("update test set value = 12 where id = 1");
    let second = later(&server, second, "update test set value = 13 where id = 1");
    first.execute("rollback");
    second.ok().execute("commit");
    assert_eq!(all(&observer), ["1|13", "2|20"]);
    // It does not wait: the other has committed before.
    for sql in [
        "update test set value = 0 where id = 2",
        "delete from test where id = 2",
        "select * from test where id = 2 for update",
    ] {
        let late = begun(&server, level);
        assert_eq!(value(&late, 1), "13");
        observer.execute("update test set value = value + 1 where id = 2");
        assert_eq!(late.error(sql).0, "40001", "{sql}");
    }
    let late = begun(&server, level);
    assert_eq!(value(&late, 1), "13");
    observer.execute("delete from test where id = 2");
    assert_eq!(late.error("update test set value = 0").0, "40001");
}

#[test]
fn a_later_key_stands_against_an_insert_that_cannot_see_it() {
    let server = Server::start();
    let other = two_rows(&server);
    let writer = begun(&server, "repeatable read");
    assert_eq!(value(&writer, 1), "10");
    other.execute("insert into test values (3, 30)");
    assert_eq!(
        writer.lines("select * from test where id = 3"),
        [""; 0],
        "it is later than the snapshot"
    );
    assert_eq!(writer.error("insert into test values (3, 31)").0, "23505");
}

#[test]
fn write_skew_is_what_repeatable_read_lets_through() {
    let server = Server::start();
    let observer = two_rows(&server);
    let (first, second) = (
        begun(&server, "repeatable read"),
        begun(&server, "repeatable read"),
    );
    assert_eq!(all(&first), ["1|10", "2|20"]);
    assert_eq!(all(&second), ["1|10", "2|20"]);
    first.execute("update test set value = 11 where id = 1");
    second.execute("update test set value = 21 where id = 2");
    first.execute("commit");
    second.execute("commit");
    assert_eq!(all(&observer), ["1|11", "2|21"]);
}

// SERIALIZABLE

/// A transaction that is tried until it is not told to try again; returns how often it was.
fn retried(client: &Client, mut work: impl FnMut(&Client) -> Result<(), Failure>) -> usize {
    for tries in 0..2000 {
        client.execute("begin isolation level serializable");
        match work(client).and_then(|()| client.try_execute("commit")) {
            Ok(_) => return tries,
            Err((code, message)) => {
                assert!(["40001", "40P01"].contains(&code.as_str()), "{code} {message}");
                client.execute("rollback");
            }
        }
    }
    panic!("a transaction does not come through");
}

#[test]
fn there_is_no_write_skew() {
    let server = Server::start();
    let observer = server.client();
    observer.execute("create table doctor (id int primary key, on_call boolean not null)");
    for _ in 0..10 {
        observer.execute("delete from doctor; insert into doctor values (1, true), (2, true)");
        std::thread::scope(|scope| {
            for id in [1, 2] {
                let server = &server;
                scope.spawn(move || {
                    let client = server.client();
                    retried(&client, |client| {
                        let on_call = client.try_rows("select count(*) from doctor where on_call")?;
                        if line(&on_call[0]) == "2" {
                            client
                                .try_execute(&format!("update doctor set on_call = false where id = {id}"))?;
                        }
                        Ok(())
                    });
                });
            }
        });
        assert_eq!(observer.one("select count(*) from doctor where on_call"), "1");
    }
}

#[test]
fn there_are_no_phantoms() {
    let server = Server::start();
    let observer = server.client();
    observer.execute("create table claim (id int primary key, what text not null)");
    for _ in 0..5 {
        observer.execute("delete from claim");
        std::thread::scope(|scope| {
            for id in 0..4 {
                let server = &server;
                scope.spawn(move || {
                    let client = server.client();
                    retried(&client, |client| {
                        let count = client.try_rows("select count(*) from claim where what = 'seat'")?;
                        if line(&count[0]) == "0" {
                            client.try_execute(&format!("insert into claim values ({id}, 'seat')"))?;
                        }
                        Ok(())
                    });
                });
            }
        });
        assert_eq!(observer.one("select count(*) from claim"), "1");
    }
}

#[test]
fn what_was_read_is_still_so_when_it_is_written() {
    let server = Server::start();
    let observer = two_rows(&server);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let client = server.client();
                for _ in 0..10 {
                    retried(&client, |client| {
                        let read = client.try_rows("select value from test where id = 1")?;
                        let value: i64 = line(&read[0]).parse().expect("a number");
                        let sql = format!("update test set value = {} where id = 1", value + 1);
                        client.try_execute(&sql).map(drop)
                    });
                }
            });
        }
    });
    assert_eq!(all(&observer), ["1|50", "2|20"]);
}

#[test]
fn a_read_only_transaction_sees_a_serial_state() {
    let server = Server::start();
    let observer = two_rows(&server);
    let reader = begun(&server, "serializable, read only");
    assert_eq!(all(&reader), ["1|10", "2|20"]);
    let writer = later(
        &server,
        server.client(),
        "update test set value = value + 1 where id = 1",
    );
    assert_eq!(all(&reader), ["1|10", "2|20"]);
    reader.execute("commit");
    writer.ok();
    assert_eq!(all(&observer), ["1|11", "2|20"]);
}

// Waiting

#[test]
fn of_two_that_wait_for_each_other_one_goes_on() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let server = Server::start();
        let observer = two_rows(&server);
        let (first, second) = (begun(&server, level), begun(&server, level));
        match level {
            // Whoever has read may be in the way of all who write.
            "serializable" => {
                assert_eq!(all(&first), ["1|10", "2|20"]);
                assert_eq!(all(&second), ["1|10", "2|20"]);
            }
            _ => {
                first.execute("update test set value = 11 where id = 1");
                second.execute("update test set value = 22 where id = 2");
            }
        }
        let first = later(&server, first, "update test set value = 12 where id = 2");
        let second = later(&server, second, "update test set value = 21 where id = 1");
        // Whoever is told of the deadlock first lets go of its locks.
        let ends = [first, second].map(|waits| {
            let (client, ended) = waits.end();
            client.execute(if ended.is_ok() { "commit" } else { "rollback" });
            ended.err().map(|(code, _)| code)
        });
        let failed: Vec<&str> = ends.iter().flatten().map(String::as_str).collect();
        assert_eq!(failed, ["40P01"], "{level}");
        let found = all(&observer);
        assert!(
            [
                ["1|11", "2|12"],
                ["1|21", "2|22"],
                ["1|10", "2|12"],
                ["1|21", "2|20"]
            ]
            .iter()
            .any(|of| found == *of),
            "{level}: {found:?}"
        );
    }
}

#[test]
fn waits_have_limits() {
    let server = Server::start();
    let observer = two_rows(&server);
    let holder = begun(&server, "read committed");
    holder.execute("update test set value = 11 where id = 1");
    let update = "update test set value = 12 where id = 1";
    let waiting = server.client();
    waiting.execute("set lock_timeout = '20ms'");
    assert_eq!(waiting.error(update).0, "55P03");
    assert_eq!(waiting.error("insert into test values (2, 0)").0, "23505");
    waiting.execute("set lock_timeout = 0; set statement_timeout = '20ms'");
    assert_eq!(waiting.error(update).0, "57014");
    waiting.execute("set statement_timeout = 0");
    let token = waiting.cancel_token();
    let cancelled = later(&server, waiting, update);
    super::harness::runtime()
        .block_on(token.cancel_query(tokio_postgres::NoTls))
        .expect("a cancel request");
    let (waiting, ended) = cancelled.end();
    assert_eq!(ended.expect_err("it was cancelled").0, "57014");
    let last = later(&server, waiting, update);
    holder.execute("commit");
    last.ok();
    assert_eq!(all(&observer), ["1|12", "2|20"]);
}

#[test]
fn whoever_leaves_lets_go_of_its_locks() {
    let server = Server::start();
    let observer = two_rows(&server);
    for (number, level) in ["read committed", "repeatable read", "serializable"]
        .iter()
        .enumerate()
    {
        let leaving = begun(&server, level);
        leaving.execute("update test set value = 99; insert into test values (3, 30)");
        let sql = format!("update test set value = {number} where id = 1");
        let waiting = later(&server, server.client(), &sql);
        drop(leaving);
        waiting.ok();
        assert_eq!(
            all(&observer),
            [format!("1|{number}"), "2|20".to_owned()],
            "{level}"
        );
    }
}
