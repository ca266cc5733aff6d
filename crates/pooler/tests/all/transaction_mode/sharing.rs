//! That the tests beside this one test something: clients do share servers, and only between transactions.

use crate::common::target::{Mode, Pooling, Scene};

#[test]
fn clients_share_a_server_between_transactions() {
    let scene = Scene::transactions(1);
    let (mut a, mut b) = scene.two();
    let (pid_a, pid_b) = (
        a.value("select pg_backend_pid()"),
        b.value("select pg_backend_pid()"),
    );
    assert_eq!(pid_a == pid_b, scene.target.shares_servers());
}

#[test]
fn a_transaction_keeps_its_server() {
    let scene = Scene::transactions(2);
    let (mut a, mut b) = scene.two();
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
    let scene = Scene::transactions(1);
    let (mut a, mut b) = scene.two();
    if !scene.target.shares_servers() {
        return;
    }
    a.rows("begin");
    b.send(&crate::common::message::query("select 'waited'"))
        .expect("sent");
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
    let scene = Scene::transactions(1);
    let (mut a, mut b) = scene.two();
    b.rows("create table t (v int)");
    a.rows("begin; insert into t values (1)");
    drop(a);
    assert_eq!(b.value("select count(*) from t"), "0");
    scene.wait_until("select count(*) = 0 from pg_stat_activity where datname = current_database() and state like 'idle in%'");
}

#[test]
fn statement_mode_knows_no_transactions() {
    let scene = Scene::start(&Pooling::new(Mode::Statement, 1));
    let mut a = scene.client();
    assert_eq!(a.value("select 1"), "1");
    if !scene.target.shares_servers() {
        return;
    }
    let mut b = scene.client();
    let answer = b.try_rows("begin");
    assert!(
        answer.is_err(),
        "statement mode cannot begin a transaction: {answer:?}"
    );
    assert_eq!(a.value("select 2"), "2");
}
