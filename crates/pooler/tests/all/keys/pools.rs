//! One pool for all event loops: its size, its limits and who may use it do not depend on which loop a client came to.

use super::{KeysFixture, Lines};
use crate::common::fixture::wait_for_waiting;
use crate::common::message::{prepare, run};
use crate::common::postgres::shared;
use crate::common::raw::Raw;
use crate::common::wait::{wait, wait_until};

/// Connections to the server of a fixture, the test's own left out.
fn backends(fixture: &KeysFixture) -> usize {
    let sql = format!(
        "select count(*) from pg_stat_activity where datname = '{}' and usename <> 'postgres'",
        fixture.database
    );
    shared().value(&sql).parse().expect("a number")
}

/// Each client in a thread of its own asks so many times.
fn all_ask(clients: Vec<Raw>, times: usize) {
    std::thread::scope(|scope| {
        for (number, mut client) in clients.into_iter().enumerate() {
            scope.spawn(move || {
                for turn in 0..times {
                    assert_eq!(
                        client.value(&format!("select {number} + {turn}")),
                        (number + turn).to_string()
                    );
                }
            });
        }
    });
}

#[test]
fn a_pool_of_one_serves_the_clients_of_every_loop() {
    let fixture = KeysFixture::with(
        "pool_mode = \"transaction\"\ndefault_pool_size = 1",
        "event_loops = 8",
    );
    let clients = fixture.clients(24);
    all_ask(clients, 50);
    assert_eq!(backends(&fixture), 1);
}

#[test]
fn whoever_keeps_a_connection_leaves_the_others_to_all() {
    let fixture = KeysFixture::with(
        "pool_mode = \"transaction\"\ndefault_pool_size = 2\nquery_wait_timeout = \"20s\"",
        "event_loops = 2",
    );
    let mut keeper = fixture.client();
    keeper.rows("create temporary table mine as select 1 as v");
    let clients = fixture.clients(12);
    all_ask(clients, 20);
    assert_eq!(keeper.value("select v from mine"), "1");
    assert_eq!(backends(&fixture), 2);
}

#[test]
fn clients_that_left_the_queue_keep_nothing_from_others() {
    let fixture = KeysFixture::with(
        "pool_mode = \"transaction\"\ndefault_pool_size = 1\nquery_wait_timeout = \"20s\"",
        "event_loops = 2",
    );
    for _ in 0..3 {
        let mut holder = fixture.client();
        holder.rows("begin");
        holder.rows("select 1");
        let mut leaving = fixture.clients(4);
        for client in &mut leaving {
            client.send_query("select 2");
        }
        wait_for_waiting(&mut fixture.console(), "app", 4);
        drop(leaving);
        holder.rows("commit");
        assert_eq!(holder.value("select 3"), "3");
        all_ask(fixture.clients(3), 5);
    }
}

#[test]
fn prepared_statements_and_settings_follow_a_client_whose_server_changes_loops() {
    let fixture = KeysFixture::with(
        "pool_mode = \"transaction\"\ndefault_pool_size = 1\nmax_prepared_statements = 3",
        "event_loops = 4",
    );
    std::thread::scope(|scope| {
        for number in 0..12 {
            let mut client = fixture.client();
            scope.spawn(move || {
                client.rows(&format!("set app.number = '{number}'"));
                // Some texts are those of others.
                let text = format!("select {} + $1::int, current_setting('app.number')", number % 5);
                client.ask(&prepare("s", &text, &[]));
                for turn in 0..30 {
                    let value = turn.to_string();
                    let answer = client.ask(&run("s", &[Some(&value)]));
                    let row = format!("row [Some(\"{}\"), Some(\"{number}\")]", number % 5 + turn);
                    assert!(answer.contains(&row), "{answer:?}");
                }
            });
        }
    });
    assert_eq!(backends(&fixture), 1);
}

#[test]
fn limits_of_clients_are_exact() {
    for limit in [
        "max_user_client_connections = 10",
        "max_db_client_connections = 10",
    ] {
        let fixture = KeysFixture::with(limit, "event_loops = 8");
        let mut inside = fixture.clients(10);
        let error = fixture.refused().expect("the eleventh is refused");
        assert!(
            error.contains(limit.split(' ').next().expect("a name")),
            "{error}"
        );
        inside.pop();
        wait(|| Raw::connect(&fixture.login()));
        all_ask(inside, 2);
    }
}

/// A proxy whose database `app` leaves the user to the client.
fn for_any_user(proxy: &str, database: &str) -> KeysFixture {
    let name = crate::common::postgres::new_database();
    let place = format!(
        "host = \"127.0.0.1\"\nport = {}\ndbname = \"{name}\"\n{database}\n\
         [users.app]\npassword = \"any\"\n[users.other]\npassword = \"any\"",
        shared().port()
    );
    let lines = Lines {
        proxy,
        corun: "event_loops = 2",
        ..Lines::default()
    };
    KeysFixture::of(&place, &name, lines)
}

fn as_user(fixture: &KeysFixture, user: &str) -> Raw {
    fixture.client_as(&fixture.login().user(user))
}

#[test]
fn free_connections_of_another_user_make_room_under_a_limit() {
    let fixture = for_any_user(
        "pool_mode = \"transaction\"\nauth_type = \"trust\"\nquery_wait_timeout = \"20s\"\nmax_db_connections = 2",
        "",
    );
    for user in ["app", "other", "app"] {
        all_ask((0..4).map(|_| as_user(&fixture, user)).collect(), 5);
        assert!(backends(&fixture) <= 2);
    }
}

#[test]
fn clients_of_every_loop_take_turns_under_a_limit_of_one_connection() {
    for limit in ["max_db_connections = 1", "max_user_connections = 1"] {
        let fixture = for_any_user(
            &format!(
                "pool_mode = \"transaction\"\nauth_type = \"trust\"\nquery_wait_timeout = \"20s\"\n{limit}"
            ),
            "",
        );
        all_ask(fixture.clients(4), 20);
        assert_eq!(backends(&fixture), 1, "{limit}");
    }
}

#[test]
fn clients_of_a_forced_user_share_one_pool_which_keeps_its_connections() {
    let fixture = for_any_user(
        "pool_mode = \"transaction\"\ndefault_pool_size = 2\nauth_type = \"any\"",
        "user = \"app\"\nmin_pool_size = 2",
    );
    wait_until("it opens its connections without clients", || {
        backends(&fixture) == 2
    });
    let users = ["a", "b", "c", "d", "e"];
    let clients = users
        .iter()
        .flat_map(|user| [user, user])
        .map(|user| as_user(&fixture, user))
        .collect();
    all_ask(clients, 20);
    assert_eq!(backends(&fixture), 2);
}
