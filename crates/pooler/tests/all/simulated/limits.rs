//! Time limits, by moving the clock of the simulated network.

use super::actor::{log_in, texts};
use super::message::{self, query};
use super::scene::{Scene, files};
use crate::common::assert_contains;

#[test]
fn who_waits_too_long_for_a_server_is_refused() {
    let more = "query_wait_timeout = 10\nquery_wait_notify = 0";
    let mut scene = Scene::new(1, files("transaction", 1, more));
    let holder = scene.actor(texts(&["begin"]));
    scene.pass(0.0);
    let waiter = scene.actor(texts(&["select 'waits'"]));
    scene.pass(0.0);
    scene.pass(9.0);
    assert_eq!(scene.last(waiter), "ready I");
    assert_eq!(scene.proxy.census().waiting, 1);
    scene.pass(1.5);
    assert_contains(&scene.last(waiter), "Mquery_wait_timeout");
    assert!(scene.actors[waiter].remote.is_finished());
    assert_eq!(scene.last(holder), "ready T");
    let census = scene.proxy.census();
    assert_eq!((census.clients, census.waiting, census.servers), (1, 0, 1));
}

#[test]
fn who_idles_in_a_transaction_loses_it() {
    let mut scene = Scene::new(2, files("transaction", 1, "idle_transaction_timeout = 10"));
    let idler = scene.actor(texts(&["begin", "insert into t values ('lost')"]));
    scene.pass(0.0);
    assert_eq!(scene.last(idler), "ready T");
    let waiter = scene.actor(texts(&["select 'waits'"]));
    scene.pass(9.0);
    assert_eq!(scene.last(idler), "ready T");
    scene.pass(1.5);
    for part in ["C25P03", "Midle transaction timeout"] {
        assert_contains(&scene.last(idler), part);
    }
    // Its server has rolled back and serves the next.
    assert_contains(&scene.actors[waiter].lines().join("\n"), "'waits'");
    assert_eq!(scene.last(waiter), "ready I");
    let written = scene.server.ledger.borrow().clone();
    assert_eq!(written, [""; 0], "a lost write was committed");
    let census = scene.proxy.census();
    assert_eq!((census.clients, census.servers, census.idle), (1, 1, 1));
}

#[test]
fn the_time_that_a_query_takes_is_not_idle() {
    let mut scene = Scene::new(8, files("transaction", 1, "idle_transaction_timeout = 10"));
    scene.server.sound = true;
    let client = scene.actor(texts(&["begin", "select 'long' sleep"]));
    scene.pass(0.0);
    scene.pass(9.0);
    scene.server.backends[0].session.wake();
    scene.pass(0.0);
    assert_eq!(scene.last(client), "ready T");
    scene.pass(9.0);
    assert_eq!(scene.last(client), "ready T");
    scene.pass(1.5);
    assert_contains(&scene.last(client), "Midle transaction timeout");
}

#[test]
fn a_query_that_waits_counts_for_its_time_limit() {
    let mut scene = Scene::new(9, files("transaction", 1, "query_timeout = 10"));
    let holder = scene.actor(texts(&["begin"]));
    scene.pass(0.0);
    let waiter = scene.actor(texts(&["select 'waits'"]));
    scene.pass(0.0);
    scene.pass(9.0);
    assert_eq!(scene.proxy.census().waiting, 1);
    scene.pass(1.5);
    assert_contains(&scene.last(waiter), "Mquery_timeout");
    assert_eq!(scene.last(holder), "ready T");
    assert_eq!(scene.proxy.census().waiting, 0);
}

#[test]
fn servers_that_are_old_are_replaced_between_transactions() {
    let mut scene = Scene::new(3, files("transaction", 1, "server_lifetime = 100"));
    let client = scene.actor(texts(&["begin"]));
    scene.pass(0.0);
    let first = scene.server.backends[0].session.pid;
    scene.pass(150.0);
    assert_eq!(scene.last(client), "ready T");
    assert_eq!(
        scene.server.backends[0].session.pid, first,
        "taken away within a transaction"
    );
    scene.actors[client].remote.send(&query("commit"));
    scene.pass(1.0);
    assert_eq!(scene.last(client), "ready I");
    assert_eq!(scene.proxy.census().servers, 0);
    scene.actors[client].remote.send(&query("select 'again'"));
    scene.pass(0.0);
    assert_eq!(scene.last(client), "ready I");
    assert_ne!(scene.server.backends[0].session.pid, first);
}

#[test]
fn who_does_not_log_in_is_closed() {
    let mut scene = Scene::new(4, files("transaction", 1, "client_login_timeout = 5"));
    let silent = scene.connect();
    let halfway = scene.connect();
    halfway.send(&message::startup(0, &[("user", "app")])[..9]);
    scene.pass(0.0);
    scene.pass(4.0);
    assert_eq!(scene.proxy.census().clients, 2);
    scene.pass(2.0);
    assert_eq!(scene.proxy.census().clients, 0);
    assert!(silent.is_finished() && halfway.is_finished());
}

#[test]
fn a_server_that_says_nothing_is_given_up_and_tried_again() {
    let mut scene = Scene::new(5, files("transaction", 1, "server_connect_timeout = 5"));
    scene.server.silent = true;
    let client = scene.actor(texts(&["select 'never'"]));
    scene.pass(0.0);
    scene.pass(4.0);
    assert_eq!(scene.last(client), "");
    scene.pass(2.0);
    assert_eq!(
        (scene.last(client).as_str(), scene.proxy.census().servers),
        ("", 0)
    );
    scene.server.silent = false;
    scene.pass(15.0);
    assert_eq!(scene.last(client), "ready I");
}

/// Without a pause for `server_login_retry`, clients that wait for a host would have it tried again and again.
#[test]
fn a_host_that_is_not_there_is_not_tried_without_a_pause() {
    let more = "server_login_retry = 0\n[databases.away]\nhost = \"/away\"\nport = 5432\nuser = \"app\"\n";
    let mut scene = Scene::new(7, files("transaction", 1, more));
    let waiter = scene.actor(vec![log_in("app", &[("database", "away")])]);
    scene.pass(0.0);
    scene.pass(1.0);
    assert_eq!(
        (scene.last(waiter).as_str(), scene.proxy.census().clients),
        ("", 1)
    );
}

#[test]
fn a_statement_that_takes_too_long_is_cancelled() {
    let mut scene = Scene::new(6, files("transaction", 1, "query_timeout = 5"));
    let client = scene.actor(texts(&["select 'quick'"]));
    scene.pass(0.0);
    scene.server.silent = true;
    let slow = query("insert into t values ('slow')");
    scene.actors[client].remote.send(&slow);
    scene.pass(0.0);
    scene.pass(4.0);
    assert_eq!(scene.proxy.census().owed, 1);
    scene.pass(2.0);
    assert_contains(&scene.last(client), "Mquery timeout");
    let census = scene.proxy.census();
    assert_eq!((census.clients, census.servers, census.cancels), (0, 0, 1));
    scene.server.silent = false;
    scene.pass(0.0);
    assert_eq!(scene.proxy.census().cancels, 0);
    assert_eq!(scene.server.backends.len(), 0);
}

#[test]
fn a_client_that_does_not_read_stops_its_server() {
    let mut scene = Scene::new(7, files("transaction", 1, ""));
    let client = scene.connect();
    client.set_room(100);
    client.send(&log_in("app", &[]).bytes);
    scene.pass(0.0);
    for _ in 0..100 {
        client.receive();
        scene.pass(0.0);
    }
    // 200 answers of 64 rows of 4,096 bytes and some: 53 MB.
    for _ in 0..200 {
        client.send(&query("select 'much rows 64 wide 4096'"));
    }
    scene.run(|_| {});
    let census = scene.proxy.census();
    assert!(census.bytes < 2 << 20, "{census:?}");
    let mut got = 0;
    client.set_room(usize::MAX);
    for _ in 0..20_000 {
        got += client.receive().len();
        scene.step();
    }
    assert!(got > 200 * 64 * 4096, "{got} bytes: it did not go on to the end");
    drop(client);
    scene.check_empty();
}
