//! Session mode: a client has a server of its own from login to goodbye, and that server is as the client's start-up packet wants it.

use std::io::{Read, Write};

use crate::common::message::cancel_request;
use crate::common::raw::{Login, Raw};
use crate::common::target::{Kind, Mode, Pooling, Scene, kind};

fn scene(pool_size: usize) -> Scene {
    Scene::start(&Pooling::new(Mode::Session, pool_size))
}

fn german(scene: &Scene) -> Raw {
    let login = scene
        .login()
        .parameter("DateStyle", "German")
        .parameter("options", "-c work_mem=2MB -c app.mine=me");
    scene.target.client_as(&login)
}

fn cancel(login: &Login, pid: u32, secret: &[u8]) {
    let mut socket = std::net::TcpStream::connect((login.host.as_str(), login.port)).expect("connected");
    socket.write_all(&cancel_request(pid, secret)).expect("sent");
    let mut rest = Vec::new();
    let _ = socket.read_to_end(&mut rest);
}

/// Process of the server that answers.
fn server(client: &mut Raw) -> u32 {
    client
        .value("select pg_backend_pid()")
        .parse()
        .expect("a process number")
}

#[test]
fn what_is_reset_is_what_the_client_began_with() {
    let scene = scene(3);
    for round in 0..3 {
        let mut plain = scene.client();
        let mut client = german(&scene);
        for undo in [
            "reset datestyle; reset work_mem; reset app.mine",
            "discard all",
            "reset all",
        ] {
            assert_eq!(client.parameters["DateStyle"], "German, DMY", "{round} {undo}");
            client.rows("set datestyle to 'SQL, MDY'; set work_mem to '3MB'; set app.mine to 'you'");
            assert_eq!(client.value("show datestyle"), "SQL, MDY", "{round} {undo}");
            for part in undo.split("; ") {
                client.rows(part);
            }
            assert_eq!(client.value("show datestyle"), "German, DMY", "{round} {undo}");
            assert_eq!(client.value("show work_mem"), "2MB", "{round} {undo}");
            assert_eq!(client.value("show app.mine"), "me", "{round} {undo}");
        }
        assert_eq!(plain.value("show work_mem"), "4MB");
        plain.rows("set work_mem to '3MB'");
        plain.rows("reset work_mem");
        assert_eq!(plain.value("show work_mem"), "4MB");
        assert_eq!(
            plain.value("select coalesce(current_setting('app.mine', true), '')"),
            ""
        );
    }
}

#[test]
fn clients_that_begin_otherwise_make_room_for_each_other() {
    // One server only: it goes when somebody comes whom it does not fit.
    let scene = scene(1);
    for _ in 0..3 {
        let mut client = german(&scene);
        client.rows("reset all");
        assert_eq!(client.value("show datestyle"), "German, DMY");
        drop(client);
        let mut plain = scene.client();
        plain.rows("reset all");
        assert_eq!(plain.value("show datestyle"), "ISO, MDY");
        drop(plain);
    }
    // And while somebody waits.
    let mut plain = scene.client();
    assert_eq!(plain.value("select 1"), "1");
    std::thread::scope(|threads| {
        let waits = threads.spawn(|| {
            let mut client = german(&scene);
            (client.value("show datestyle"), client.value("show work_mem"))
        });
        if kind() == Kind::Corun {
            scene.wait_for_waiting(1);
            assert!(!waits.is_finished(), "there is one server only, and it is in use");
        }
        drop(plain);
        assert_eq!(
            waits.join().expect("the client that waited"),
            ("German, DMY".to_owned(), "2MB".to_owned())
        );
    });
}

#[test]
fn a_setting_the_server_does_not_take_is_refused_and_spoils_nothing() {
    let scene = scene(1);
    let login = scene.login().parameter("datestyle", "Klingon");
    let error = Raw::connect(&login)
        .err()
        .expect("it must be refused")
        .to_string();
    assert!(
        error.contains("invalid value for parameter \"DateStyle\""),
        "{error}"
    );
    assert_eq!(scene.client().value("show datestyle"), "ISO, MDY");
}

#[test]
fn servers_are_used_again_by_clients_of_any_application() {
    let scene = scene(1);
    let pids: Vec<u32> = ["one", "two", "three"]
        .map(|name| {
            let login = scene.login().parameter("application_name", name);
            let mut client = scene.target.client_as(&login);
            assert_eq!(client.value("show application_name"), name);
            let pid = server(&mut client);
            drop(client);
            pid
        })
        .into();
    if kind() == Kind::Corun {
        assert!(pids.windows(2).all(|pair| pair[0] == pair[1]), "{pids:?}");
    }
}

#[test]
fn without_a_lifetime_every_session_has_a_server_that_nobody_had() {
    let scene = Scene::start(&Pooling::new(Mode::Session, 2).set("server_lifetime", "0"));
    let mut seen = Vec::new();
    for name in ["one", "two", "three", "four"] {
        let login = scene.login().parameter("application_name", name);
        let mut client = scene.target.client_as(&login);
        let pid = server(&mut client);
        assert!(!seen.contains(&pid), "{seen:?} {pid}");
        seen.push(pid);
        client.rows("set application_name to 'else'");
        client.rows("discard all");
        assert_eq!(client.value("show application_name"), name);
        client.rows("create temp table t (a int)");
        drop(client);
    }
}

#[test]
fn a_client_is_told_the_process_that_serves_it() {
    let scene = scene(2);
    let (mut a, mut b) = scene.two();
    for client in [&mut a, &mut b] {
        assert_eq!(server(client), client.key.0);
    }
    // So it can be ended by that number, and cancelled by it and the secret.
    let (pid, secret) = a.key.clone();
    std::thread::scope(|threads| {
        let sleeps = threads.spawn(|| a.try_rows("select pg_sleep(20)"));
        scene.wait_until(&format!(
            "select count(*) = 1 from pg_stat_activity where pid = {pid} and query like '%pg_sleep(20)%' and state = 'active'"
        ));
        cancel(&scene.login(), pid, b"xxxx");
        cancel(&scene.login(), pid, &secret);
        let error = sleeps.join().expect("the sleeper").expect_err("it was cancelled");
        assert!(
            error
                .to_string()
                .contains("canceling statement due to user request"),
            "{error}"
        );
    });
    assert_eq!(b.value("select 1"), "1");
    let pid = b.key.0;
    a.rows(&format!("select pg_terminate_backend({pid})"));
    let error = b.try_rows("select 2").expect_err("its server was ended");
    assert!(
        error
            .to_string()
            .contains("terminating connection due to administrator command"),
        "{error}"
    );
}
