//! Commands of the console under load: clients notice nothing but, at most, a moment of waiting.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::fixture::Fixture;
use crate::common::random::Random;
use crate::common::raw::Raw;

/// The console, or the server itself where there is none.
fn console(fixture: &Fixture) -> Raw {
    let database = if fixture.target.shares_servers() {
        "pgbouncer"
    } else {
        "app"
    };
    fixture
        .target
        .client_as(&fixture.target.login("postgres").database(database))
}

/// Clients that check every answer while commands run.
fn under_load(fixture: &Fixture, commands: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|client| {
                let stop = &stop;
                scope.spawn(move || {
                    let mut random = Random::new(client);
                    let mut connection = fixture.client();
                    connection.rows(&format!("set app.mine to '{client}'"));
                    let mut count = 0;
                    // However soon the commands are done.
                    while !stop.load(Ordering::Relaxed) || count <= 10 {
                        let n = random.below(1000);
                        let row = connection.rows(&format!("select {n}, current_setting('app.mine')"));
                        assert_eq!(row, [[Some(n.to_string()), Some(client.to_string())]]);
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        commands();
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            assert!(client.join().expect("a client") > 10);
        }
    });
}

#[test]
fn reload_under_load() {
    let fixture = Fixture::transactions(3);
    under_load(&fixture, || {
        for _ in 0..100 {
            fixture.target.reload();
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

#[test]
fn pause_and_resume_under_load() {
    let fixture = Fixture::transactions(3);
    if !fixture.target.shares_servers() {
        return;
    }
    under_load(&fixture, || {
        let mut console = console(&fixture);
        for _ in 0..10 {
            console.rows("pause");
            let busy = fixture.sql("select count(*) from pg_stat_activity where datname = current_database() and usename = 'app' and state <> 'idle'");
            assert_eq!(
                busy,
                [[Some("0".to_owned())]],
                "paused means that no server works"
            );
            console.rows("resume");
            std::thread::sleep(Duration::from_millis(30));
        }
    });
}

#[test]
fn reconnect_under_load() {
    let fixture = Fixture::transactions(3);
    if !fixture.target.shares_servers() {
        return;
    }
    let before = fixture.client().value("select pg_backend_pid()");
    under_load(&fixture, || {
        let mut console = console(&fixture);
        for _ in 0..5 {
            console.rows("reconnect");
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    fixture.wait_for_no_server(&format!("pid = {before}"));
}

#[test]
fn only_those_named_may_use_the_console() {
    let fixture = Fixture::transactions(1);
    if !fixture.target.shares_servers() {
        return;
    }
    for command in ["show users", "show config", "pause", "shutdown", "reload"] {
        let login = fixture.target.login("app").database("pgbouncer");
        let answer = Raw::connect(&login)
            .map_err(|error| error.to_string())
            .and_then(|mut raw| raw.try_rows(command));
        assert!(answer.is_err(), "{command}: {answer:?}");
    }
    assert_eq!(fixture.client().value("select 1"), "1");
}
