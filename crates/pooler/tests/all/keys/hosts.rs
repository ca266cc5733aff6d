//! Several `host`s without replicas: `load_balance_hosts`.

use std::collections::BTreeMap;

use super::{KeysFixture, Lines};
use crate::common::assert_contains;
use crate::common::postgres::{Options, Postgres};

/// A server at two addresses of this machine.
fn server() -> Postgres {
    Postgres::start_with(Options {
        settings: vec!["listen_addresses = '127.0.0.1,127.0.0.2'".to_owned()],
        ..Options::default()
    })
}

/// Connections of so many clients at once, counted by the address of the server.
fn connections(fixture: &KeysFixture, clients: usize) -> BTreeMap<String, usize> {
    let mut clients = fixture.clients(clients);
    let mut counts = BTreeMap::new();
    for client in &mut clients {
        *counts
            .entry(client.value("select host(inet_server_addr())"))
            .or_default() += 1;
    }
    counts
}

#[test]
fn hosts_are_used_in_turn_or_the_first_until_it_fails() {
    let server = server();
    let fixture = |hosts: &str, how: &str| {
        let place = format!(
            "host = [{hosts}]\nport = {}\nload_balance_hosts = \"{how}\"",
            server.port()
        );
        KeysFixture::at(&place, "app", Lines::default())
    };
    let both = "\"127.0.0.1\", \"127.0.0.2\"";
    let counts = |fixture: &KeysFixture| connections(fixture, 4).into_iter().collect::<Vec<_>>();
    let at = |address: &str, count: usize| (address.to_owned(), count);
    assert_eq!(
        counts(&fixture(both, "round-robin")),
        [at("127.0.0.1", 2), at("127.0.0.2", 2)]
    );
    assert_eq!(counts(&fixture(both, "disable")), [at("127.0.0.1", 4)]);
    // Nobody listens at the first: the client is not refused.
    let broken = "\"127.0.0.3\", \"127.0.0.2\"";
    for how in ["round-robin", "disable"] {
        assert_eq!(counts(&fixture(broken, how)), [at("127.0.0.2", 4)], "{how}");
    }
    // Nobody listens at any: it waits, and who comes later is told at once.
    let nowhere = fixture("\"127.0.0.3\", \"127.0.0.4\"", "disable");
    nowhere.console().rows("set query_wait_timeout = 1");
    for expected in [
        "query_wait_timeout",
        "server login has been failing, cached error: could not connect",
    ] {
        assert_contains(&nowhere.refused().expect("refused"), expected);
    }
}
