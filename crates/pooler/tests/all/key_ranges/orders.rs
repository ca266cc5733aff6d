//! Commands of the console, and another configuration, while a query runs in parts.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::OnceLock;

use super::fixture::{SplitFixture, all};
use crate::common::fixture::wait_for_waiting;
use crate::common::message::{cancel_request, errors, rows};
use crate::common::raw::{Raw, Rows};
use crate::common::wait::{PATIENCE, wait_until};

/// Half a second or more, some seconds at most.
const WHILE: usize = 400;

/// The rows of what a client waits for.
fn answer(client: &mut Raw) -> Rows {
    let messages = client.until_ready();
    assert!(errors(&messages).is_empty(), "{messages:?}");
    rows(&messages)
}

/// Starts a query that takes a while. Returns what its rows will be.
fn start(fixture: &SplitFixture, client: &mut Raw) -> Rows {
    // Every fixture has the same rows.
    static EXPECTED: OnceLock<Rows> = OnceLock::new();
    let expected = EXPECTED.get_or_init(|| fixture.direct().rows(&all(WHILE)));
    client.set_patience(2 * PATIENCE);
    fixture.begin(client, &all(WHILE));
    expected.clone()
}

#[test]
fn a_pause_waits_for_all_parts() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    let expected = start(&fixture, &mut client);
    let mut console = fixture.console();
    console.set_patience(2 * PATIENCE);
    console.rows(&format!("pause {}", fixture.database));
    assert_eq!(answer(&mut client), expected);
    assert_eq!(
        fixture.value(
            "select count(*) from pg_stat_activity where datname = current_database() and usename = 'app'"
        ),
        "0"
    );
    client.send_query("select 'after'");
    wait_for_waiting(&mut console, &fixture.database, 1);
    console.rows(&format!("resume {}", fixture.database));
    assert_eq!(answer(&mut client), [[Some("after".to_owned())]]);
    fixture.all_is_well(&mut client);
}

#[test]
fn a_kill_ends_all_parts() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    fixture.start_slow(&mut client);
    fixture.console().rows(&format!("kill {}", fixture.database));
    let messages = client.until_closed();
    assert_eq!(errors(&messages).len(), 1, "{messages:?}");
    fixture.wait_for_no_server("usename = 'app'");
    fixture.console().rows(&format!("resume {}", fixture.database));
    let mut client = fixture.warm_client();
    fixture.all_is_well(&mut client);
}

/// Takes connections to a server, and loses the first cancel requests. Returns its port.
fn lossy_relay(server: u16, mut lost: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("a connection");
            let mut head = [0; 8];
            if client.read_exact(&mut head).is_err() {
                continue;
            }
            if head == cancel_request(0, &[0; 4])[..8] && lost > 0 {
                lost -= 1;
                continue;
            }
            let mut server = TcpStream::connect(("127.0.0.1", server)).expect("the server");
            server.write_all(&head).expect("written");
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (mut from, mut to) = (from.try_clone().expect("a copy"), to.try_clone().expect("a copy"));
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    port
}

/// A request may be lost on its way, and one that comes between two messages of a part is ignored by PostgreSQL.
#[test]
fn a_part_whose_cancel_request_is_lost_is_cancelled_again() {
    let fixture = SplitFixture::start();
    let server = fixture.server().port();
    let through = |lost| format!("\"127.0.0.1\"\nport = {}", lossy_relay(server, lost));
    let direct = format!("\"127.0.0.1\"\nport = {server}");
    fixture.target.reload_with(&[(&direct, &through(3))]);
    let mut client = fixture.warm_client();
    fixture.start_slow(&mut client);
    fixture.cancel(&client);
    let messages = client.until_ready();
    assert_eq!(errors(&messages).len(), 1, "{messages:?}");
    fixture.wait_for_no_server("usename = 'app' and state = 'active'");
    fixture.all_is_well(&mut client);
}

#[test]
fn a_reload_leaves_what_runs_alone() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    // The same; another cut; other parts; without the split; with it again.
    let gone = "[splits.slow]";
    for change in [
        &[][..],
        &[("parts = 2", "parts = 3")],
        &[("minimum = 1\n", "minimum = 400\n")],
        &[("key = \"spread.k\"", "key = \"spread.v\"")],
        &[(gone, "[splits.before]")],
        &[("split = \"on\"", "split = \"off\"")],
        &[],
    ] {
        let expected = start(&fixture, &mut client);
        fixture.target.reload_with(change);
        assert_eq!(answer(&mut client), expected, "{change:?}");
        assert_eq!(client.rows(&all(10)), fixture.direct().rows(&all(10)));
        fixture.quiet();
        fixture.target.reload();
        wait_until("the rule is there again", || {
            let rows = fixture.console().table("show splits");
            rows.iter().any(|row| row["name"] == "slow")
        });
        fixture.warm(&mut client);
    }
    fixture.all_is_well(&mut client);
}

#[test]
fn servers_that_are_to_be_replaced_are_when_their_part_is_done() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    let expected = start(&fixture, &mut client);
    let before = fixture.active();
    fixture.console().rows(&format!("reconnect {}", fixture.database));
    assert_eq!(answer(&mut client), expected);
    fixture.quiet();
    for (pid, _) in before {
        fixture.wait_for_no_server(&format!("pid = {pid}"));
    }
    fixture.all_is_well(&mut client);
}

#[test]
fn a_shutdown_waits_for_the_answer() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    let expected = start(&fixture, &mut client);
    fixture.console().send_query("shutdown wait_for_servers");
    assert_eq!(answer(&mut client), expected);
    client.until_closed();
    fixture.wait_for_no_server("usename = 'app'");
}

#[test]
fn a_shutdown_at_once_ends_all_parts() {
    let fixture = SplitFixture::start();
    let mut client = fixture.warm_client();
    fixture.start_slow(&mut client);
    fixture.console().send_query("shutdown");
    let messages = client.until_closed();
    assert_eq!(errors(&messages).len(), 1, "{messages:?}");
    // A server notices that its client is gone when it has something to say; the cancel request comes first.
    fixture.wait_for_no_server("usename = 'app'");
}
