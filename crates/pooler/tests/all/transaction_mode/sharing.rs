//! That the tests beside this one test something: clients do share servers, and only between transactions.

use crate::common::assert_contains;
use crate::common::fixture::Fixture;
use crate::common::message::parse;
use crate::common::target::{Mode, Pooling};

#[test]
fn clients_share_a_server_between_transactions() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    let (pid_a, pid_b) = (
        a.value("select pg_backend_pid()"),
        b.value("select pg_backend_pid()"),
    );
    assert_eq!(pid_a == pid_b, fixture.target.shares_servers());
}

#[test]
fn a_transaction_keeps_its_server() {
    let fixture = Fixture::transactions(2);
    let (mut a, mut b) = fixture.two();
    b.rows("create table t (v int)");
    a.rows("begin");
    a.rows("insert into t values (1)");
    let pid = a.value("select pg_backend_pid()");
    for _ in 0..5 {
        assert_eq!(b.value("select count(*) from t"), "0");
        assert_eq!(a.value("select count(*) from t"), "1");
        assert_eq!(a.value("select pg_backend_pid()"), pid);
        assert_ne!(b.value("select pg_backend_pid()"), pid);
    }
    a.rows("commit");
    assert_eq!(b.value("select count(*) from t"), "1");
}

#[test]
fn a_client_that_waits_for_a_server_gets_it() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    if !fixture.target.shares_servers() {
        return;
    }
    a.rows("begin");
    b.send(&crate::common::message::query("select 'waited'"));
    b.set_patience(std::time::Duration::from_millis(300));
    assert!(b.read().is_err(), "there is only one server, and it is taken");
    b.set_patience(crate::common::raw::PATIENCE);
    a.rows("commit");
    assert!(
        b.until_ready()
            .iter()
            .any(|message| format!("{message:?}").contains("waited"))
    );
}

#[test]
fn a_transaction_open_when_its_client_goes_is_rolled_back() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    b.rows("create table t (v int)");
    a.rows("begin; insert into t values (1)");
    drop(a);
    assert_eq!(b.value("select count(*) from t"), "0");
    fixture.wait_for_no_server("state like 'idle in%'");
}

#[test]
fn statement_mode_knows_no_transactions() {
    let fixture = Fixture::start(&Pooling::new(Mode::Statement, 1));
    let mut a = fixture.client();
    assert_eq!(a.value("select 1"), "1");
    if !fixture.target.shares_servers() {
        return;
    }
    let mut b = fixture.client();
    // Nothing after it may run as if there were a block: the connection ends.
    b.send_query("select 1");
    b.send_query("begin");
    b.send_query("select 3");
    let tags: Vec<u8> = b.until_closed().iter().map(|message| message.tag).collect();
    assert_eq!(tags, b"TDCZE");
    let mut b = fixture.client();
    b.send(&parse("", "begin", &[]));
    let answer = b.until_closed();
    assert_contains(&answer[0].error(), "08P01");
    assert_eq!(a.value("select 2"), "2");
}
