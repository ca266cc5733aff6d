//! What may go wrong while a query runs in parts: one error as PostgreSQL has it, or the answer; then everything is as before.

use std::time::Duration;

use super::fixture::{RATIO, SplitFixture, WIDE, all, slow};
use super::{splits, until_split};
use crate::common::message::{Message, errors, parse, prepare, rows, run_described};
use crate::common::postgres::Postgres;
use crate::common::raw::Raw;
use crate::common::wait::{wait, wait_until};

/// The error of what a client waits for, which must be the only one.
fn the_error(client: &mut Raw) -> String {
    only_error(&client.until_ready())
}

fn only_error(messages: &[Message]) -> String {
    let codes = errors(messages);
    assert_eq!(codes.len(), 1, "{messages:?}");
    assert_eq!(messages.len(), 2, "an error and the end: {messages:?}");
    codes.into_iter().next().unwrap_or_default()
}

#[test]
fn a_part_that_fails_is_the_error_of_the_whole() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    let mut direct = fixture.direct();
    let batch = |binary| {
        [
            parse("", &RATIO.replace("k > 0", "k > $1"), &[]),
            run_described("", &[Some("0")], binary),
        ]
        .concat()
    };
    for _ in 0..3 {
        // How many rows come before the error is not certain.
        let [lines, expected] = [&mut client, &mut direct].map(|client| {
            let mut lines = client.lines(RATIO);
            lines.retain(|line| !line.starts_with("row"));
            lines
        });
        assert_eq!(lines, expected);
        assert_eq!(client.ask(&batch(true)).last(), direct.ask(&batch(true)).last());
        assert_eq!(client.value("select 1"), "1");
    }
    // Where nothing fails it runs in parts.
    fixture.sql("update ratio set v = 1 where v = 0");
    until_split(&fixture, "ratio", 2, || {
        assert_eq!(client.rows(RATIO), direct.rows(RATIO));
        assert_eq!(client.ask(&batch(false)), direct.ask(&batch(false)));
    });
    fixture.all_is_well(&mut client);
}

#[test]
fn a_time_limit_strikes_once() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    for sql in [all(6000), slow(6000, 1, 500), slow(6000, 501, 1000)] {
        client.rows("set statement_timeout = '400ms'");
        let mut seen = Vec::new();
        // Where no other server is free at the moment it begins, it runs whole, with PostgreSQL's own messages: then it begins again.
        wait(|| {
            fixture.quiet();
            let (_, whole, _) = splits(&fixture, "slow");
            client.send_query(&sql);
            seen = client.until_ready();
            match splits(&fixture, "slow") {
                (_, now, _) if now == whole => Ok(()),
                (_, _, why) => Err(format!("it did not run in parts: {why}")),
            }
        });
        assert_eq!(only_error(&seen), "57014");
        client.rows("reset statement_timeout");
        fixture.all_is_well(&mut client);
    }
}

#[test]
fn cancelling_ends_all_parts() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    for _ in 0..3 {
        fixture.start_slow(&mut client);
        fixture.cancel(&client);
        assert_eq!(the_error(&mut client), "57014");
        assert_eq!(client.value("select 1"), "1");
        fixture.all_is_well(&mut client);
    }
    // What it has sent meanwhile is answered.
    fixture.start_slow(&mut client);
    client.send_query("select 'next'");
    fixture.cancel(&client);
    assert_eq!(the_error(&mut client), "57014");
    let next = client.until_ready();
    assert!(format!("{next:?}").contains("next"), "{next:?}");
    fixture.all_is_well(&mut client);
}

#[test]
fn cancelling_at_any_moment_is_answered_once() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    let expected = fixture.direct().rows(&all(10));
    for round in 0..60u64 {
        client.send_query(&all(10));
        std::thread::sleep(Duration::from_micros(round % 12 * 150));
        fixture.cancel(&client);
        let messages = client.until_ready();
        match errors(&messages).as_slice() {
            [] => {}
            [code] => assert_eq!(code, "57014", "{messages:?}"),
            _ => panic!("{messages:?}"),
        }
        // A cancel request that came late strikes nothing else of the client's: it was answered before it was sent on.
        let again = client.try_rows(&all(10));
        match &again {
            Ok(rows) => assert_eq!(rows, &expected),
            Err(error) => assert!(error.starts_with("57014"), "{error}"),
        }
    }
    fixture.all_is_well(&mut client);
}

#[test]
fn a_client_that_leaves_ends_all_parts() {
    let fixture = SplitFixture::start();
    let mut other = fixture.warm_client();
    for _ in 0..3 {
        let mut client = fixture.client();
        client.rows("set datestyle to 'SQL'");
        fixture.start_slow(&mut client);
        drop(client);
        fixture.quiet();
    }
    fixture.all_is_well(&mut other);
}

#[test]
fn a_part_whose_server_ends_is_one_error() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    fixture.start_slow(&mut client);
    fixture.sql(&format!("select pg_terminate_backend({})", fixture.member(false)));
    assert_eq!(the_error(&mut client), "08006");
    fixture.all_is_well(&mut client);
}

#[test]
fn a_leader_that_ends_is_one_error() {
    let fixture = SplitFixture::start();
    let mut other = fixture.warm_client();
    let mut client = fixture.warm_client();
    fixture.start_slow(&mut client);
    fixture.sql(&format!("select pg_terminate_backend({})", fixture.member(true)));
    // As wherever a client's server ends within a query.
    let messages = client.until_closed();
    assert_eq!(errors(&messages).len(), 1, "{messages:?}");
    fixture.all_is_well(&mut other);
}

#[test]
fn a_server_that_crashes_takes_nothing_along_but_its_queries() {
    let fixture = SplitFixture::with(Some(Postgres::start()), |pooling| pooling);
    for (crashes, leads) in [false, true].into_iter().enumerate() {
        let mut client = fixture.warm_client();
        fixture.start_slow(&mut client);
        fixture.server().kill_backend(fixture.member(leads));
        let mut seen = Vec::new();
        while let Ok(message) = client.read() {
            seen.push(message);
            if seen.last().is_some_and(|message| message.tag == b'Z') {
                break;
            }
        }
        assert_eq!(errors(&seen).len(), 1, "{seen:?}");
        drop(client);
        // Before, it answers as if nothing had happened.
        let restarts = |log: String| log.matches("all server processes terminated").count();
        wait_until("the server notices the crash", || {
            restarts(fixture.server().log()) > crashes
        });
        fixture.server().wait_until_ready();
        let login = fixture.login();
        wait(|| {
            let mut client = Raw::connect(&login).map_err(|error| error.to_string())?;
            client.try_rows("select 1")
        });
        let mut client = fixture.warm_client();
        fixture.all_is_well(&mut client);
    }
}

#[test]
fn an_answered_part_whose_server_ends_is_no_loss() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    // No key above 500: the second part has answered at once, the leader works on.
    let sql = slow(500, 1, 500);
    let expected = fixture.direct().rows(&sql);
    client.send_query(&sql);
    // The other part ends with its transaction, after the leader's has begun.
    fixture.wait_until(
        "select count(*) >= 1 from pg_stat_activity leader, pg_stat_activity member where leader.datname = current_database() \
         and member.datname = leader.datname and leader.usename = 'app' and member.usename = 'app' and leader.state = 'active' \
         and leader.query like '%b.n <= 500 %' and member.state = 'idle' and member.query = 'COMMIT' \
         and member.state_change >= leader.xact_start",
    );
    fixture.sql("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and usename = 'app' and state = 'idle'");
    let messages = client.until_ready();
    assert!(errors(&messages).is_empty(), "{messages:?}");
    assert_eq!(rows(&messages), expected);
    fixture.all_is_well(&mut client);
}

#[test]
fn a_leader_that_waits_for_others_is_not_idle() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    client.rows("set idle_in_transaction_session_timeout = '50ms'");
    // No key up to 500: the leader has nothing to do but wait.
    let sql = slow(400, 501, 1000);
    let expected = fixture.direct().rows(&sql);
    assert_eq!(client.rows(&sql), expected);
    // It is the client's own again.
    client.rows("begin");
    fixture.wait_for_no_server("usename = 'app' and state = 'idle in transaction'");
    assert!(client.try_rows("select 1").is_err());
    let mut client = fixture.warm_client();
    fixture.all_is_well(&mut client);
}

#[test]
fn a_lock_between_leader_and_parts_is_no_deadlock() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    let mut first = fixture.direct();
    first.rows("begin");
    first.rows("lock table spread in access exclusive mode");
    client.send_query(&all(10));
    fixture
        .wait_until("select count(*) >= 1 from pg_locks where not granted and relation = 'spread'::regclass");
    // Behind whoever has `tick` already, before whoever comes for it later.
    let mut second = fixture.direct();
    second.send_query("begin; lock table tick in access exclusive mode; commit");
    fixture.wait_until("select count(*) = 1 from pg_stat_activity where datname = current_database() and query like 'begin; lock table tick%' and (state <> 'active' or wait_event_type = 'Lock')");
    first.rows("commit");
    assert_eq!(rows(&client.until_ready()).len(), 1);
    second.until_ready();
    fixture.all_is_well(&mut client);
}

#[test]
fn definitions_while_queries_run_in_parts_stop_nobody() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    let expected = fixture.direct().rows(&all(20));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stopped = &stop;
        let fixture = &fixture;
        let definer = scope.spawn(move || {
            let mut direct = fixture.direct();
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                for table in ["spread", "tick"] {
                    direct.rows(&format!(
                        "begin; lock table {table} in access exclusive mode; commit"
                    ));
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        for _ in 0..100 {
            assert_eq!(client.rows(&all(20)), expected);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        definer.join().expect("it went on");
    });
    fixture.all_is_well(&mut client);
}

#[test]
fn a_table_that_somebody_else_changed_is_described_as_it_is() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    fixture.sql("update ratio set v = 1 where v = 0");
    let mut direct = fixture.direct();
    until_split(&fixture, "ratio", 1, || {
        assert_eq!(client.rows(RATIO), direct.rows(RATIO))
    });
    for kind in ["bigint", "numeric", "int"] {
        fixture.sql(&format!("alter table ratio alter v type {kind}"));
        for binary in [false, true] {
            let out = [parse("", RATIO, &[]), run_described("", &[], binary)].concat();
            let expected = direct.ask(&out);
            for _ in 0..3 {
                assert_eq!(client.ask(&out), expected, "{kind}, {binary}");
            }
        }
    }
    fixture.all_is_well(&mut client);
}

#[test]
fn the_limit_of_the_proxy_ends_all_parts() {
    let fixture = SplitFixture::with(None, |pooling| pooling.set("query_timeout", "2"));
    let mut client = fixture.warm_client();
    fixture.start_slow(&mut client);
    let messages = client.until_closed();
    assert_eq!(errors(&messages), ["57014"], "{messages:?}");
    let mut client = fixture.warm_client();
    fixture.all_is_well(&mut client);
}

#[test]
fn more_rows_than_memory_is_whole() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    let expected = fixture.direct().rows(WIDE);
    fixture.console().rows("set split_memory_max = 65536");
    wait(|| {
        assert_eq!(client.rows(WIDE), expected);
        match splits(&fixture, "wide") {
            (0, _, why) if why.contains("split_memory_max") => Ok(()),
            (count, _, why) => Err(format!("{count}: {why}")),
        }
    });
    fixture.console().rows("set split_memory_max = 1048576");
    fixture.all_is_well(&mut client);
}

#[test]
fn an_unnamed_statement_can_be_bound_again() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    let mut direct = fixture.direct();
    let parsed = parse("", &all(10).replace("a.k >= 1 ", "a.k >= $1 "), &[23]);
    let asked = |key: &str| run_described("", &[Some(key)], false);
    until_split(&fixture, "slow", 4, || {
        for client in [&mut client, &mut direct] {
            client.ask(&prepare("", "select 'another one'", &[]));
        }
        let first = [parsed.clone(), asked("1")].concat();
        assert_eq!(client.ask(&first), direct.ask(&first));
        for key in ["5", "700"] {
            assert_eq!(client.ask(&asked(key)), direct.ask(&asked(key)));
        }
        // A simple query ends it.
        client.rows(&all(10));
        direct.rows(&all(10));
        assert_eq!(client.ask(&asked("1")), direct.ask(&asked("1")));
    });
    fixture.all_is_well(&mut client);
}
