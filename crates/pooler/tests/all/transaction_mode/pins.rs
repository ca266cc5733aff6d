//! What lives in one server and cannot be carried to another: its owner keeps the server for as long as it exists.

use std::time::Duration;

use crate::common::fixture::Fixture;
use crate::common::message;

/// Three clients on two servers come to their turn only if no server is kept by one of them for nothing.
fn nobody_keeps_a_server(fixture: &Fixture) {
    let mut first = fixture.client();
    let mut second = fixture.client();
    first.rows("begin");
    second.rows("begin");
    first.rows("commit");
    second.rows("commit");
}

#[test]
fn a_temporary_table_stays_with_its_client() {
    let fixture = Fixture::transactions(2);
    let (mut a, mut b) = fixture.two();
    for create in [
        "create temp table mine (v int)",
        "create temporary table mine as select 0 as v",
        "select 0 as v into temp mine",
        "create table pg_temp.mine (v int)",
    ] {
        a.rows(create);
        a.rows("insert into mine values (5)");
        for _ in 0..3 {
            assert!(b.try_rows("select * from mine").is_err(), "{create}");
            assert_eq!(a.value("select max(v) from mine"), "5", "{create}");
        }
        a.rows("drop table mine");
        nobody_keeps_a_server(&fixture);
    }
    a.rows("create temp table mine (v int); create temp sequence counted");
    a.rows("discard temp");
    nobody_keeps_a_server(&fixture);
    assert!(a.try_rows("select * from mine").is_err());
}

#[test]
fn a_temporary_table_that_is_rolled_back_keeps_nothing() {
    let fixture = Fixture::transactions(2);
    let (mut a, _b) = fixture.two();
    a.rows("begin; create temp table mine (v int); rollback");
    nobody_keeps_a_server(&fixture);
    a.rows("begin; create temp table mine (v int) on commit drop; insert into mine values (1); commit");
    nobody_keeps_a_server(&fixture);
}

#[test]
fn what_a_client_leaves_behind_is_not_found_by_the_next() {
    let fixture = Fixture::transactions(1);
    for n in 0..3 {
        let mut a = fixture.client();
        assert_eq!(a.value("select pg_try_advisory_lock(77)"), "t", "round {n}");
        a.rows("create temp table mine (v int); listen here; prepare p as select 1; set app.mine to 'left'");
        a.rows("begin; declare c cursor with hold for select 1; commit");
        if n == 1 {
            a.send(&message::terminate());
        }
        drop(a);
        let mut b = fixture.client();
        fixture.wait_until("select count(*) = 0 from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())");
        assert!(b.try_rows("select * from mine").is_err());
        assert!(b.try_rows("execute p").is_err());
        assert!(b.try_rows("fetch 1 from c").is_err());
        assert_eq!(b.rows("select * from pg_listening_channels()").len(), 0);
        assert_eq!(
            b.value("select nullif(current_setting('app.mine', true), '')"),
            "null"
        );
        assert_eq!(
            b.value("select count(*) from pg_prepared_statements where from_sql"),
            "0"
        );
    }
}

#[test]
fn advisory_locks_are_the_clients() {
    let fixture = Fixture::transactions(2);
    let (mut a, mut b) = fixture.two();
    a.rows("select pg_advisory_lock(1)");
    for _ in 0..3 {
        assert_eq!(b.value("select pg_try_advisory_lock(1)"), "f");
    }
    // Locks count: it takes as many unlocks.
    a.rows("select pg_advisory_lock(1)");
    assert_eq!(a.value("select pg_advisory_unlock(1)"), "t");
    assert_eq!(b.value("select pg_try_advisory_lock(1)"), "f");
    assert_eq!(a.value("select pg_advisory_unlock(1)"), "t");
    nobody_keeps_a_server(&fixture);
    assert_eq!(b.value("select pg_try_advisory_lock(1)"), "t");
    b.rows("select pg_advisory_unlock_all()");
    nobody_keeps_a_server(&fixture);
    a.rows("begin; select pg_advisory_xact_lock(2); commit");
    nobody_keeps_a_server(&fixture);
    assert_eq!(b.value("select pg_try_advisory_xact_lock(2)"), "t");
    // Nobody gets a lock that another client of the same server has.
    a.rows("begin; select pg_advisory_lock(3); rollback");
    assert_eq!(
        b.value("select pg_try_advisory_lock(3)"),
        "f",
        "session locks survive a rollback"
    );
}

#[test]
fn a_listener_hears() {
    let fixture = Fixture::transactions(2);
    let (mut a, mut b) = fixture.two();
    a.rows("listen news");
    for n in 0..3 {
        b.rows(&format!("notify news, 'number {n}'"));
        let heard = a.read().expect("a notification without asking");
        assert_eq!(heard.tag, b'A');
        assert_eq!(&heard.body[4..], format!("news\0number {n}\0").as_bytes());
    }
    a.rows("unlisten news");
    b.rows("notify news, 'nobody listens'");
    a.set_patience(Duration::from_millis(200));
    let heard = a.read();
    assert!(heard.is_err(), "{heard:?}");
    a.set_patience(crate::common::raw::PATIENCE);
    nobody_keeps_a_server(&fixture);
    a.rows("begin; listen news; rollback");
    nobody_keeps_a_server(&fixture);
}

#[test]
fn who_stops_listening_during_the_hand_over_has_lost_nothing() {
    let fixture = Fixture::transactions(2);
    let (mut a, mut b) = fixture.two();
    for n in 0..42 {
        a.rows("listen news");
        // UNLISTEN meets the hand-over at another step each time.
        for _ in 0..n % 7 {
            b.rows("notify news");
            assert_eq!(a.read().expect("a notification").tag, b'A');
        }
        a.rows("unlisten news");
        std::thread::sleep(Duration::from_millis(3));
        assert_eq!(a.value("select 1"), "1");
    }
    nobody_keeps_a_server(&fixture);
}

#[test]
fn a_held_cursor_goes_on_after_its_transaction() {
    let fixture = Fixture::transactions(2);
    let (mut a, mut b) = fixture.two();
    a.rows("begin; declare held cursor with hold for select generate_series(1, 5); commit");
    for n in 1..=5 {
        assert!(b.try_rows("fetch 1 from held").is_err());
        assert_eq!(a.value("fetch 1 from held"), n.to_string());
    }
    a.rows("close held");
    nobody_keeps_a_server(&fixture);
    assert!(a.try_rows("fetch 1 from held").is_err());
}

#[test]
fn statements_prepared_by_sql_are_the_clients() {
    let fixture = Fixture::transactions(2);
    let (mut a, mut b) = fixture.two();
    a.rows("prepare p (int) as select $1 + 1");
    b.rows("prepare p (text) as select $1 || '!'");
    for _ in 0..3 {
        assert_eq!(a.value("execute p(1)"), "2");
        assert_eq!(b.value("execute p('x')"), "x!");
    }
    a.rows("deallocate p");
    a.assert_fails("execute p(1)", "26000");
    assert_eq!(b.value("execute p('y')"), "y!");
    b.rows("deallocate all");
    assert!(b.try_rows("execute p('x')").is_err());
    nobody_keeps_a_server(&fixture);
    // What is prepared in a transaction that is rolled back stays prepared.
    a.rows("begin; prepare q as select 'kept'; rollback");
    b.rows("select 1");
    assert_eq!(a.value("execute q"), "kept");
}
