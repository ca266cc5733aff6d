//! Prepared statements whose results change shape: outside of transaction blocks nobody notices.

use crate::common::fixture::Fixture;
use crate::common::message;
use crate::common::raw::Raw;
use crate::common::target::{self, Kind};

const STALE: &str = "0A000 cached plan must not change result type";

/// The first row of a prepared statement, described or not.
fn run(client: &mut Raw, described: bool) -> Result<String, String> {
    let bytes = match described {
        true => message::run_described("s", &[], false),
        false => message::run("s", &[]),
    };
    let rows = client.try_ask(&bytes)?;
    let row = rows.into_iter().next().unwrap_or_default();
    Ok(row.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

#[test]
fn statements_are_parsed_anew_when_their_results_change() {
    let fixture = Fixture::transactions(2);
    let (mut a, mut b) = fixture.two();
    fixture.sql("create table t (x int); insert into t values (1); grant all on t to public");
    for client in [&mut a, &mut b] {
        client.ask(&message::prepare("s", "select * from t", &[]));
        assert_eq!(run(client, true).as_deref(), Ok("1"));
    }
    if target::kind() != Kind::Corun {
        fixture.sql("alter table t add column y int default 2");
        assert_eq!(run(&mut a, true).unwrap_err(), STALE);
        return;
    }
    for (column, described) in [("b", true), ("c", false), ("d", true)] {
        fixture.sql(&format!("alter table t add column {column} int default 7"));
        for client in [&mut a, &mut b] {
            let row = run(client, described).expect("parsed anew");
            assert!(row.ends_with('7') && !row.contains("null"), "{row}");
            // A description alone, and what it says.
            client.send(&[message::describe(b'S', "s"), message::sync()].concat());
            let messages = client.until_ready();
            let tags: String = messages.iter().map(|message| char::from(message.tag)).collect();
            assert_eq!(tags, "tTZ");
            assert!(messages[1].column_names().contains(&column.to_owned()));
        }
    }
    assert_eq!(run(&mut a, true).as_deref(), Ok("1 7 7 7"));
    // A description meets the change first.
    fixture.sql("alter table t drop column d");
    let lines = a.ask(&[message::describe(b'S', "s"), message::sync()].concat());
    assert!(!lines.iter().any(|line| line.contains(STALE)), "{lines:?}");
    assert_eq!(run(&mut a, false).as_deref(), Ok("1 7 7"));
}

#[test]
fn within_a_transaction_block_the_error_is_the_clients_and_the_next_use_works() {
    let fixture = Fixture::transactions(1);
    let mut a = fixture.client();
    fixture.sql("create table t (x int); insert into t values (1); grant all on t to public");
    a.ask(&message::prepare("s", "select * from t", &[]));
    assert_eq!(run(&mut a, false).as_deref(), Ok("1"));
    fixture.sql("alter table t add column y int default 2");
    a.rows("begin");
    assert_eq!(run(&mut a, false).unwrap_err(), STALE);
    a.rows("rollback");
    if target::kind() == Kind::Corun {
        assert_eq!(run(&mut a, false).as_deref(), Ok("1 2"));
    }
}

/// Parsing anew does not mend every statement: then the client is told, once.
#[test]
fn what_is_refused_twice_is_the_clients_to_know() {
    let fixture = Fixture::transactions(1);
    let mut a = fixture.client();
    fixture.sql("create table t (x int); insert into t values (1); grant all on t to public");
    a.rows("prepare p as select * from t");
    a.ask(&message::prepare("s", "execute p", &[]));
    fixture.sql("alter table t add column y int default 2");
    let described = a.try_ask(&[message::describe(b'S', "s"), message::sync()].concat());
    assert_eq!(described.unwrap_err(), STALE);
    assert_eq!(a.value("select 5"), "5");
}

/// Messages that come while a refused batch waits for its end wait, too.
#[test]
fn what_a_client_sends_meanwhile_comes_behind() {
    let fixture = Fixture::transactions(1);
    fixture.sql("create table t (x int); insert into t values (1); grant all on t to public");
    let mut a = fixture.client();
    a.ask(&message::prepare("s", "select * from t", &[]));
    for column in 0..40 {
        assert!(run(&mut a, false).is_ok());
        fixture.sql(&format!(
            "alter table t add column c{column} int default {column}"
        ));
        a.send(&message::run("s", &[]));
        std::thread::sleep(std::time::Duration::from_micros(column * 20));
        a.send(&message::run("s", &[]));
        for _ in 0..2 {
            let answer = a.until_ready();
            if target::kind() == Kind::Corun {
                assert_eq!(
                    message::errors(&answer).len()
                        + answer.iter().filter(|message| message.tag == b'D').count(),
                    1
                );
            }
        }
    }
}

/// What stands behind a refused batch has run, or is skipped: neither may run before it or twice.
#[test]
fn pipelines_do_not_run_again() {
    let fixture = Fixture::transactions(1);
    let mut a = fixture.client();
    fixture.sql("create table t (x int); insert into t values (1); grant all on t to public");
    fixture.sql("create table log (n int); grant all on log to public");
    a.ask(&message::prepare("s", "select * from t", &[]));
    a.ask(&message::prepare("l", "insert into log values (1)", &[]));
    assert_eq!(run(&mut a, false).as_deref(), Ok("1"));
    fixture.sql("alter table t add column y int default 2");
    // In one batch: the insert is undone with the error, whoever sends it once more.
    let batch = [
        message::bind_execute("l", &[]),
        message::bind_execute("s", &[]),
        message::sync(),
    ];
    assert_eq!(a.try_ask(&batch.concat()).unwrap_err(), STALE);
    if target::kind() == Kind::Corun {
        assert_eq!(run(&mut a, false).as_deref(), Ok("1 2"));
    }
    // Two batches: the second has run.
    fixture.sql("alter table t add column z int default 3");
    a.send(&[message::run("s", &[]), message::run("l", &[])].concat());
    let first = a.until_ready();
    let second = a.until_ready();
    assert_eq!(message::errors(&second), [""; 0]);
    if target::kind() == Kind::Corun {
        assert_eq!(message::error(&first), STALE);
        assert_eq!(run(&mut a, false).as_deref(), Ok("1 2 3"));
    }
    assert_eq!(fixture.value("select count(*) from log"), "1");
}
