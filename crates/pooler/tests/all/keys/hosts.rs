//! Several `host`s without replicas: `load_balance_hosts`.

use std::collections::BTreeMap;

use super::{Lines, Scene};
use crate::common::postgres::{Options, Postgres};
use crate::common::raw::Raw;

/// A server at two addresses of this machine.
fn server() -> Postgres {
    Postgres::start_with(Options {
        settings: vec!["listen_addresses = '127.0.0.1,127.0.0.2'".to_owned()],
        ..Options::default()
    })
}

/// Connections of so many clients at once, counted by the address of the server.
fn connections(scene: &Scene, clients: usize) -> BTreeMap<String, usize> {
    let mut clients: Vec<Raw> = (0..clients).map(|_| scene.client()).collect();
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
    let scene = |hosts: &str, how: &str| {
        let place = format!(
            "host = [{hosts}]\nport = {}\nload_balance_hosts = \"{how}\"",
            server.port()
        );
        Scene::at(&place, "app", Lines::default())
    };
    let both = "\"127.0.0.1\", \"127.0.0.2\"";
    let counts = |scene: &Scene| connections(scene, 4).into_iter().collect::<Vec<_>>();
    let at = |address: &str, count: usize| (address.to_owned(), count);
    assert_eq!(
        counts(&scene(both, "round-robin")),
        [at("127.0.0.1", 2), at("127.0.0.2", 2)]
    );
    assert_eq!(counts(&scene(both, "disable")), [at("127.0.0.1", 4)]);
    // Nobody listens at the first: the client is not refused.
    let broken = "\"127.0.0.3\", \"127.0.0.2\"";
    for how in ["round-robin", "disable"] {
        assert_eq!(counts(&scene(broken, how)), [at("127.0.0.2", 4)], "{how}");
    }
    // Nobody listens at any: it is.
    let nowhere = scene("\"127.0.0.3\", \"127.0.0.4\"", "disable");
    let error = Raw::connect(&nowhere.login()).err().expect("refused");
    assert!(error.to_string().contains("could not connect"), "{error}");
}
