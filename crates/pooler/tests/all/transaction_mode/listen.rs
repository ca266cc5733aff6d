//! Clients that listen keep no server, and hear what they would hear on a connection of their own.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::fixture::Fixture;
use crate::common::message::{self, Message};
use crate::common::raw::{PATIENCE, Raw, Row};
use crate::common::target::{self, Kind};
use crate::common::wait::wait_until;

/// Channel and payload of a notification.
fn heard(message: &Message) -> (String, String) {
    assert_eq!(message.tag, b'A', "{message:?}");
    let text = String::from_utf8_lossy(&message.body[4..]).into_owned();
    let mut parts = text.split('\0').map(str::to_owned);
    (parts.next().expect("a channel"), parts.next().expect("a payload"))
}

/// What a client hears next, without asking.
fn hears(client: &mut Raw) -> (String, String) {
    heard(&client.read().expect("a notification"))
}

/// A client hears nothing for a while.
fn hears_nothing(client: &mut Raw) {
    client.set_patience(Duration::from_millis(200));
    let next = client.read();
    client.set_patience(PATIENCE);
    assert!(
        next.as_ref()
            .is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)),
        "{next:?}"
    );
}

fn said(channel: &str, payload: &str) -> (String, String) {
    (channel.to_owned(), payload.to_owned())
}

/// Waits until these clients have left their servers.
fn wait_until_shared(fixture: &Fixture) {
    if target::kind() == Kind::Corun {
        wait_until("clients that listen keep their servers", || {
            let clients = fixture.console().table("show clients");
            let pinned = |client: &&Row| fixture.database == client["database"] && !client["pin"].is_empty();
            clients.iter().filter(pinned).count() == 0
        });
    }
}

#[test]
fn listeners_share_a_connection_and_keep_none() {
    let fixture = Fixture::transactions(1);
    let mut clients: Vec<Raw> = (0..4).map(|_| fixture.client()).collect();
    let mut notifier = clients.pop().expect("one");
    clients[0].rows("listen news");
    clients[1].ask(&[message::statement("listen news", &[]), message::sync()].concat());
    clients[2].rows("do $$ begin listen news; listen \"Other \"\"one\"; end $$");
    wait_until_shared(&fixture);
    notifier.rows("begin; notify news, '1'; notify news, '2'; commit");
    notifier.rows("begin; notify news, 'never'; rollback");
    for client in &mut clients {
        assert_eq!(hears(client), said("news", "1"));
        assert_eq!(hears(client), said("news", "2"));
        assert_eq!(client.value("select 5"), "5");
    }
    notifier.rows("select pg_notify('Other \"one', 'x')");
    assert_eq!(hears(&mut clients[2]), said("Other \"one", "x"));
    for leave in [
        "unlisten news",
        "begin; unlisten news; commit",
        "unlisten *",
        "discard all",
    ] {
        clients[0].rows("listen news");
        clients[0].rows("begin");
        let _ = clients[0].try_rows("unlisten news; select 1 / 0");
        clients[0].rows("rollback");
        notifier.rows("notify news, 'still'");
        assert_eq!(hears(&mut clients[0]), said("news", "still"), "{leave}");
        clients[0].rows(leave);
        notifier.rows("notify news, 'gone'");
        assert_eq!(hears(&mut clients[1]), said("news", "still"));
        assert_eq!(hears(&mut clients[1]), said("news", "gone"));
        hears_nothing(&mut clients[0]);
    }
}

/// What does not take effect ends nothing.
#[test]
fn unlisten_that_is_undone_ends_nothing() {
    let fixture = Fixture::transactions(1);
    let (mut client, mut notifier) = fixture.two();
    client.rows("listen a; listen b");
    wait_until_shared(&fixture);
    let mut still = |client: &mut Raw, about: &str| {
        notifier.rows("notify a, 'still'");
        assert_eq!(hears(client), said("a", "still"), "{about}");
    };
    for texts in [
        &["begin", "unlisten a", "rollback"][..],
        &["begin", "savepoint s", "unlisten *", "rollback to s", "commit"],
        &["begin; unlisten *; rollback"],
        &["select 1; unlisten a; rollback"],
    ] {
        for text in texts {
            client.rows(text);
        }
        still(&mut client, &texts.join("; "));
    }
    // One that fails behind one that does not.
    client.send(
        &[
            message::query("select 1"),
            message::query("unlisten a; select 1 / 0"),
        ]
        .concat(),
    );
    client.until_ready();
    client.until_ready();
    still(&mut client, "behind another answer");
    // And one that takes effect behind one that fails.
    client.send(&[message::query("select 1 / 0"), message::query("unlisten a")].concat());
    client.until_ready();
    client.until_ready();
    notifier.rows("notify a, 'gone'; notify b, 'there'");
    assert_eq!(hears(&mut client), said("b", "there"));
}

/// A large result that is read slowly is no notification that waits.
#[test]
fn listeners_may_read_large_results_slowly() {
    let fixture = Fixture::transactions(2);
    let (mut client, mut notifier) = fixture.two();
    client.rows("listen news");
    wait_until_shared(&fixture);
    client.send_query("select repeat('x', 20000) from generate_series(1, 400)");
    for _ in 0..20 {
        notifier.rows("notify news, 'meanwhile'");
    }
    std::thread::sleep(Duration::from_millis(300));
    let rows = client.until_ready();
    assert_eq!(rows.iter().filter(|message| message.tag == b'D').count(), 400);
    let mut count = rows.iter().filter(|message| message.tag == b'A').count();
    while count < 20 {
        assert_eq!(hears(&mut client), said("news", "meanwhile"));
        count += 1;
    }
}

/// `PAUSE`, a restart of the server, `RESUME`: somebody who listens does not hold that up.
#[test]
fn pause_does_not_wait_for_those_that_listen() {
    if target::kind() != Kind::Corun {
        return;
    }
    let fixture = Fixture::transactions(2);
    let mut client = fixture.client();
    client.rows("listen news");
    wait_until_shared(&fixture);
    let mut console = fixture.console();
    console.rows(&format!("pause {}", fixture.database));
    console.rows(&format!("resume {}", fixture.database));
    client.rows("notify news, 'still'");
    assert_eq!(hears(&mut client), said("news", "still"));
}

#[test]
fn notifications_come_in_the_clients_encoding_or_not_at_all() {
    if target::kind() != Kind::Corun {
        return;
    }
    let fixture = Fixture::transactions(2);
    let (mut client, mut notifier) = fixture.two();
    client.rows("listen news");
    wait_until_shared(&fixture);
    client.rows("set client_encoding to latin1");
    notifier.rows("notify news, 'plain'");
    assert_eq!(hears(&mut client), said("news", "plain"));
    notifier.rows("notify news, 'Grüße'");
    let last = client.until_closed();
    assert_eq!(message::code(&last), "22P05", "{last:?}");
    // Who has it from the beginning keeps a server that converts.
    let mut client = fixture.client();
    client.rows("set client_encoding to latin1");
    client.rows("listen news");
    notifier.rows("notify news, 'Grüße'");
    let message = client.read().expect("a notification");
    assert!(message.body.ends_with(b"Gr\xfc\xdfe\0"), "{message:?}");
}

#[test]
fn a_client_sees_what_it_listens_to() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    a.rows("listen one; listen two");
    wait_until_shared(&fixture);
    let shown = |client: &mut Raw| -> Vec<String> {
        let rows = client.rows("select * from pg_listening_channels() order by 1");
        rows.into_iter().flatten().flatten().collect()
    };
    assert_eq!(shown(&mut a), ["one", "two"]);
    assert_eq!(shown(&mut b), [""; 0]);
    b.rows("notify one, 'once'");
    assert_eq!(hears(&mut a), said("one", "once"));
    hears_nothing(&mut a);
    a.rows("unlisten one");
    assert_eq!(shown(&mut a), ["two"]);
}

#[test]
fn notifications_wait_for_the_end_of_a_transaction() {
    let fixture = Fixture::transactions(2);
    let (mut a, mut b) = fixture.two();
    a.rows("listen news");
    wait_until_shared(&fixture);
    a.rows("begin");
    a.rows("select 1");
    b.rows("notify news, 'late'");
    hears_nothing(&mut a);
    a.send_query("commit");
    let messages = a.until(|seen| seen.iter().any(|message| message.tag == b'A'));
    let notification = messages.iter().find(|message| message.tag == b'A').expect("one");
    assert_eq!(heard(notification), said("news", "late"));
}

/// Somebody counts aloud while clients begin to listen and stop again: each hears every number between its first and its last.
#[test]
fn nothing_is_lost_or_doubled_while_listening_is_handed_over() {
    let fixture = Fixture::transactions(3);
    let (stop, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut notifier = fixture.direct();
            while !stop.load(Ordering::Relaxed) {
                let number = count.load(Ordering::Relaxed) + 1;
                notifier.rows(&format!("notify news, '{number}'"));
                count.store(number, Ordering::Relaxed);
            }
        });
        let listeners = (0..4).map(|number| {
            let (fixture, count) = (&fixture, &count);
            scope.spawn(move || {
                for round in 0..10 {
                    let mut client = fixture.client();
                    let mut numbers: Vec<usize> = Vec::new();
                    client.send_query("listen news");
                    let mut collect = |messages: Vec<Message>| {
                        let notifications = messages.iter().filter(|message| message.tag == b'A');
                        numbers.extend(
                            notifications.map(|message| heard(message).1.parse::<usize>().expect("a number")),
                        );
                    };
                    collect(client.until_ready());
                    let after = count.load(Ordering::Relaxed);
                    // Statements in between, so that the hand-over meets queries under way.
                    for _ in 0..number * 5 {
                        client.send_query("select 1");
                        collect(client.until_ready());
                    }
                    collect(client.until(|seen| seen.len() > 100));
                    let first = numbers[0];
                    // The number behind that may have been said before, and not been counted yet.
                    assert!(
                        first <= after + 2,
                        "round {round}: hears {first}, and had to from {after} on"
                    );
                    let expected: Vec<usize> = (first..first + numbers.len()).collect();
                    assert_eq!(numbers, expected, "round {round}");
                }
            })
        });
        let listeners: Vec<_> = listeners.collect();
        let ended: Vec<bool> = listeners
            .into_iter()
            .map(|listener| listener.join().is_ok())
            .collect();
        stop.store(true, Ordering::Relaxed);
        assert!(ended.into_iter().all(|well| well));
    });
}

/// As by a server that restarts: who listens is told, everybody else notices nothing.
#[test]
fn clients_are_told_that_their_hub_is_lost() {
    if target::kind() != Kind::Corun {
        return;
    }
    let fixture = Fixture::transactions(2);
    let mut clients: Vec<Raw> = (0..3).map(|_| fixture.client()).collect();
    let mut bystander = fixture.client();
    for client in &mut clients {
        client.rows("listen news");
    }
    wait_until_shared(&fixture);
    let states: BTreeSet<String> = fixture
        .console()
        .table("show servers")
        .into_iter()
        .map(|server| server["state"].clone())
        .collect();
    assert!(states.contains("listen"), "{states:?}");
    fixture.sql(
        "select pg_terminate_backend(pid) from pg_stat_activity \
         where datname = current_database() and query like 'LISTEN \"%' and pid <> pg_backend_pid()",
    );
    for client in &mut clients {
        let last = client.until_closed();
        assert_eq!(message::code(&last), "08006", "{last:?}");
    }
    assert_eq!(bystander.value("select 1"), "1");
    // And it can be had again.
    let mut client = fixture.client();
    client.rows("listen news");
    wait_until_shared(&fixture);
    bystander.rows("notify news, 'again'");
    assert_eq!(hears(&mut client), said("news", "again"));
}

/// A client that never reads is not kept for ever, and does not take the others' notifications.
#[test]
fn a_listener_that_never_reads_goes() {
    if target::kind() != Kind::Corun {
        return;
    }
    let fixture = Fixture::transactions(2);
    let mut deaf = fixture.client();
    let (mut client, mut notifier) = fixture.two();
    deaf.rows("listen news");
    client.rows("listen news");
    wait_until_shared(&fixture);
    deaf.rows("begin");
    let payload = "x".repeat(7000);
    for _ in 0..300 {
        notifier.rows(&format!("notify news, '{payload}'"));
        assert_eq!(hears(&mut client).1, payload);
    }
    let last = deaf.until_closed();
    assert_eq!(message::code(&last), "54000", "{last:?}");
}
