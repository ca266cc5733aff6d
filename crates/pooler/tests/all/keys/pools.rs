//! One pool for all event loops: its size, its limits and who may use it do not depend on which loop a client came to.

use super::{Lines, Scene, wait};
use crate::common::postgres::shared;
use crate::common::raw::{Login, Raw};
use crate::common::target::wait_for_waiting;

/// Connections to the server of a scene, the test's own left out.
fn backends(scene: &Scene) -> usize {
    let sql = format!(
        "select count(*) from pg_stat_activity where datname = '{}' and usename <> 'postgres'",
        scene.database
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
    let scene = Scene::start(Lines {
        proxy: "pool_mode = \"transaction\"\ndefault_pool_size = 1",
        corun: "event_loops = 8",
        ..Lines::default()
    });
    let clients = (0..24).map(|_| scene.client()).collect();
    all_ask(clients, 50);
    assert_eq!(backends(&scene), 1);
}

#[test]
fn whoever_keeps_a_connection_leaves_the_others_to_all() {
    let scene = Scene::start(Lines {
        proxy: "pool_mode = \"transaction\"\ndefault_pool_size = 2\nquery_wait_timeout = \"20s\"",
        corun: "event_loops = 2",
        ..Lines::default()
    });
    let mut keeper = scene.client();
    keeper.rows("create temporary table mine as select 1 as v");
    let clients = (0..12).map(|_| scene.client()).collect();
    all_ask(clients, 20);
    assert_eq!(keeper.value("select v from mine"), "1");
    assert_eq!(backends(&scene), 2);
}

#[test]
fn clients_that_left_the_queue_keep_nothing_from_others() {
    use crate::common::message::query;
    let scene = Scene::start(Lines {
        proxy: "pool_mode = \"transaction\"\ndefault_pool_size = 1\nquery_wait_timeout = \"20s\"",
        corun: "event_loops = 2",
        ..Lines::default()
    });
    for _ in 0..3 {
        let mut holder = scene.client();
        holder.rows("begin");
        holder.rows("select 1");
        let mut leaving: Vec<Raw> = (0..4).map(|_| scene.client()).collect();
        for client in &mut leaving {
            client.send(&query("select 2")).expect("sent");
        }
        wait_for_waiting(&mut scene.console(), "app", 4);
        drop(leaving);
        holder.rows("commit");
        assert_eq!(holder.value("select 3"), "3");
        all_ask((0..3).map(|_| scene.client()).collect(), 5);
    }
}

#[test]
fn prepared_statements_and_settings_follow_a_client_whose_server_changes_loops() {
    let scene = Scene::start(Lines {
        proxy: "pool_mode = \"transaction\"\ndefault_pool_size = 1\nmax_prepared_statements = 3",
        corun: "event_loops = 4",
        ..Lines::default()
    });
    std::thread::scope(|scope| {
        for number in 0..12 {
            let mut client = scene.client();
            scope.spawn(move || {
                use crate::common::message::{bind, execute, parse, sync};
                client.rows(&format!("set app.number = '{number}'"));
                // Some texts are those of others.
                let text = format!("select {} + $1::int, current_setting('app.number')", number % 5);
                client.ask(&[parse("s", &text, &[]), sync()].concat());
                for turn in 0..30 {
                    let value = turn.to_string();
                    let answer =
                        client.ask(&[bind("", "s", &[Some(&value)], false), execute("", 0), sync()].concat());
                    let row = format!("row [Some(\"{}\"), Some(\"{number}\")]", number % 5 + turn);
                    assert!(answer.contains(&row), "{answer:?}");
                }
            });
        }
    });
    assert_eq!(backends(&scene), 1);
}

#[test]
fn limits_of_clients_are_exact() {
    for limit in [
        "max_user_client_connections = 10",
        "max_db_client_connections = 10",
    ] {
        let scene = Scene::start(Lines {
            proxy: limit,
            corun: "event_loops = 8",
            ..Lines::default()
        });
        let mut inside: Vec<Raw> = Vec::new();
        for _ in 0..10 {
            inside.push(scene.client());
        }
        let error = Raw::connect(&scene.login())
            .err()
            .expect("the eleventh is refused")
            .to_string();
        assert!(
            error.contains(limit.split(' ').next().expect("a name")),
            "{error}"
        );
        inside.pop();
        wait("its place is free", || Raw::connect(&scene.login()).ok());
        all_ask(inside, 2);
    }
}

/// A proxy whose database `app` leaves the user to the client.
fn for_any_user(proxy: &str, database: &str) -> Scene {
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
    Scene::of(&place, &name, lines)
}

fn as_user(scene: &Scene, user: &str) -> Login {
    scene.login().user(user)
}

#[test]
fn free_connections_of_another_user_make_room_under_a_limit() {
    let scene = for_any_user(
        "pool_mode = \"transaction\"\nauth_type = \"trust\"\nquery_wait_timeout = \"20s\"\nmax_db_connections = 2",
        "",
    );
    for user in ["app", "other", "app"] {
        let clients: Vec<Raw> = (0..4)
            .map(|_| Raw::connect(&as_user(&scene, user)).expect("a client"))
            .collect();
        all_ask(clients, 5);
        assert!(backends(&scene) <= 2);
    }
}

#[test]
fn clients_of_every_loop_take_turns_under_a_limit_of_one_connection() {
    for limit in ["max_db_connections = 1", "max_user_connections = 1"] {
        let scene = for_any_user(
            &format!(
                "pool_mode = \"transaction\"\nauth_type = \"trust\"\nquery_wait_timeout = \"20s\"\n{limit}"
            ),
            "",
        );
        let login = as_user(&scene, "app");
        all_ask(
            (0..4).map(|_| Raw::connect(&login).expect("a client")).collect(),
            20,
        );
        assert_eq!(backends(&scene), 1, "{limit}");
    }
}

#[test]
fn clients_of_a_forced_user_share_one_pool_which_keeps_its_connections() {
    let scene = for_any_user(
        "pool_mode = \"transaction\"\ndefault_pool_size = 2\nauth_type = \"any\"",
        "user = \"app\"\nmin_pool_size = 2",
    );
    wait("it opens its connections without clients", || {
        (backends(&scene) == 2).then_some(())
    });
    let users = ["a", "b", "c", "d", "e"];
    let clients = users
        .iter()
        .flat_map(|user| [user, user])
        .map(|user| Raw::connect(&as_user(&scene, user)).expect("a client"))
        .collect();
    all_ask(clients, 20);
    assert_eq!(backends(&scene), 2);
}
