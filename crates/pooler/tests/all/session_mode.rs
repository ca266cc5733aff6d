//! Session mode: a client has a server of its own from login to goodbye, and that server is as the client's start-up packet wants it.

use crate::common::assert_contains;
use crate::common::fixture::{Fixture, cancel};
use crate::common::raw::Raw;
use crate::common::target::{Kind, Mode, Pooling, kind};

fn fixture(pool_size: usize) -> Fixture {
    Fixture::start(&Pooling::new(Mode::Session, pool_size))
}

fn german(fixture: &Fixture) -> Raw {
    let login = fixture
        .login()
        .parameter("DateStyle", "German")
        .parameter("options", "-c work_mem=2MB -c app.mine=me");
    fixture.target.client_as(&login)
}

/// Process of the server that answers.
fn server(client: &mut Raw) -> u32 {
    client.number("select pg_backend_pid()")
}

#[test]
fn sockets_are_driven_as_the_configuration_says() {
    if kind() != Kind::Corun {
        return;
    }
    let auto = match corun_net::reactor::Uring::new() {
        Ok(uring) if uring.waits_idly() => "io_uring",
        _ => "epoll",
    };
    for (io, driven) in [("epoll", "epoll"), ("auto", auto)] {
        let pooling = Pooling::new(Mode::Session, 2).corun(&format!("io = \"{io}\""));
        let fixture = Fixture::start(&pooling);
        let cores = fixture.console().table("show cores");
        assert!(cores.iter().all(|core| core["io"] == driven), "{io}: {cores:?}");
        let mut client = fixture.client();
        let long = client.value("select repeat('x', 3000000)");
        assert_eq!(long.len(), 3_000_000, "{io}");
    }
}

#[test]
fn what_is_reset_is_what_the_client_began_with() {
    let fixture = fixture(3);
    for round in 0..3 {
        let mut plain = fixture.client();
        let mut client = german(&fixture);
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
fn a_client_begins_on_the_first_connection_made_for_it() {
    let fixture = fixture(3);
    if kind() != Kind::Corun {
        return;
    }
    let mut client = german(&fixture);
    assert_eq!(client.parameters["DateStyle"], "German, DMY");
    assert_eq!(client.value("show app.mine"), "me");
    assert_eq!(fixture.console().table("show servers").len(), 1);
    // What a server does not take is that client's matter alone.
    let login = fixture.login().parameter("DateStyle", "nonsense");
    let refused = Raw::connect(&login).err().expect("no such style").to_string();
    assert_contains(
        &refused,
        "invalid value for parameter \"DateStyle\": \"nonsense\"",
    );
    assert_eq!(fixture.client().value("show datestyle"), "ISO, MDY");
}

#[test]
fn clients_that_begin_otherwise_make_room_for_each_other() {
    // One server only: it goes when somebody comes whom it does not fit.
    let fixture = fixture(1);
    for _ in 0..3 {
        let mut client = german(&fixture);
        client.rows("reset all");
        assert_eq!(client.value("show datestyle"), "German, DMY");
        drop(client);
        let mut plain = fixture.client();
        plain.rows("reset all");
        assert_eq!(plain.value("show datestyle"), "ISO, MDY");
        drop(plain);
    }
    // And while somebody waits.
    let mut plain = fixture.client();
    assert_eq!(plain.value("select 1"), "1");
    std::thread::scope(|threads| {
        let waits = threads.spawn(|| {
            let mut client = german(&fixture);
            (client.value("show datestyle"), client.value("show work_mem"))
        });
        if kind() == Kind::Corun {
            fixture.wait_for_waiting(1);
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
    let fixture = fixture(1);
    let login = fixture.login().parameter("datestyle", "Klingon");
    let error = Raw::connect(&login)
        .err()
        .expect("it must be refused")
        .to_string();
    assert_contains(&error, "invalid value for parameter \"DateStyle\"");
    assert_eq!(fixture.client().value("show datestyle"), "ISO, MDY");
}

#[test]
fn servers_are_used_again_by_clients_of_any_application() {
    let fixture = fixture(1);
    let pids: Vec<u32> = ["one", "two", "three"]
        .map(|name| {
            let login = fixture.login().parameter("application_name", name);
            let mut client = fixture.target.client_as(&login);
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
    let fixture = Fixture::start(&Pooling::new(Mode::Session, 2).set("server_lifetime", "0"));
    let mut seen = Vec::new();
    for name in ["one", "two", "three", "four"] {
        let login = fixture.login().parameter("application_name", name);
        let mut client = fixture.target.client_as(&login);
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
    let fixture = fixture(2);
    let (mut a, mut b) = fixture.two();
    for client in [&mut a, &mut b] {
        assert_eq!(server(client), client.key.0);
    }
    // So it can be ended by that number, and cancelled by it and the secret.
    let (pid, secret) = a.key.clone();
    std::thread::scope(|threads| {
        let sleeps = threads.spawn(|| a.try_rows("select pg_sleep(20)"));
        fixture.wait_until(&format!(
            "select count(*) = 1 from pg_stat_activity where pid = {pid} and query like '%pg_sleep(20)%' and state = 'active'"
        ));
        cancel(&fixture.login(), &(pid, b"xxxx".to_vec()));
        cancel(&fixture.login(), &(pid, secret));
        let error = sleeps.join().expect("the sleeper").expect_err("it was cancelled");
        assert_contains(&error, "canceling statement due to user request");
    });
    assert_eq!(b.value("select 1"), "1");
    let pid = b.key.0;
    a.rows(&format!("select pg_terminate_backend({pid})"));
    let error = b.try_rows("select 2").expect_err("its server was ended");
    assert_contains(&error, "terminating connection due to administrator command");
}
