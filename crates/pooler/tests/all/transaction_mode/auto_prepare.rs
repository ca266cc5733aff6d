//! Simple queries that come again run as prepared statements, and nobody can tell but by looking for them.

use crate::common::fixture::Fixture;
use crate::common::raw::Raw;
use crate::common::target::{Kind, Mode, Pooling, kind};

fn fixture() -> Option<Fixture> {
    let pooling = Pooling::new(Mode::Transaction, 1).ours("auto_prepare = \"exact\"");
    (kind() == Kind::Corun).then(|| Fixture::start(&pooling))
}

/// What the one server connection has prepared.
fn prepared(client: &mut Raw) -> String {
    client.value("select string_agg(statement, ', ' order by statement) from pg_prepared_statements")
}

#[test]
fn a_text_that_comes_again_is_prepared_once_for_all_clients() {
    let Some(fixture) = fixture() else {
        return;
    };
    let (mut a, mut b) = fixture.two();
    a.rows("create table t (v int); insert into t values (1), (2)");
    for _ in 0..3 {
        assert_eq!(a.value("select sum(v) from t"), "3");
        assert_eq!(b.value("select sum(v) from t"), "3");
    }
    a.value("select 'only once'");
    assert_eq!(prepared(&mut b), "select sum(v) from t");
}

#[test]
fn what_the_server_refuses_runs_as_it_came() {
    let Some(fixture) = fixture() else {
        return;
    };
    let (mut a, mut b) = fixture.two();
    a.rows("create table t (v int); insert into t values (1)");
    for _ in 0..3 {
        a.assert_fails("select 1 / (v - 1) from t", "22012");
        assert_eq!(a.rows("select * from t").len(), 1);
    }
    // The plan does not fit the table any more.
    b.rows("alter table t add w text default 'new'");
    for _ in 0..3 {
        let rows = a.rows("select * from t");
        assert_eq!(rows[0][1].as_deref(), Some("new"));
    }
    a.rows("begin");
    for _ in 0..2 {
        assert_eq!(a.value("select v from t"), "1");
    }
    assert!(a.try_rows("select 1 / (v - 1) from t").is_err());
    assert!(
        a.try_rows("select v from t").is_err(),
        "the transaction has failed"
    );
    a.rows("rollback");
    assert_eq!(a.value("select v from t"), "1");
}
