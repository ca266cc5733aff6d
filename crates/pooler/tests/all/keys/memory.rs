//! `memory_max`: what buffers hold altogether.

use std::collections::BTreeMap;

use super::{Lines, Scene, held, rows_until_ready, wait};
use crate::common::message;
use crate::common::raw::Raw;

/// A client that asks for `rows` rows of 1,000 bytes and reads none.
fn slow(scene: &Scene, rows: usize) -> Raw {
    let mut client = scene.client();
    let sql = format!("select repeat('x', 1000) from generate_series(1, {rows})");
    client.send(&message::query(&sql)).expect("sent");
    client
}

#[test]
fn above_it_new_clients_are_refused_until_there_is_room() {
    let scene = Scene::start(Lines {
        corun: "memory_max = \"256kB\"",
        ..Lines::default()
    });
    let mut console = scene.console();
    assert_eq!(held(&mut console, "server_buffer"), 0);
    let mut client = slow(&scene, 30_000);
    let error = wait("a client is refused", || Raw::connect(&scene.login()).err());
    assert!(error.to_string().contains("53200"), "{error}");
    assert!(error.to_string().contains("memory_max"), "{error}");
    // Who holds it, and who is not read for it. The kernel's buffers take a little of it now and then, and the server is read again.
    wait("the client that does not read holds it all", || {
        // What servers owe counts a little, too.
        let all = held(&mut console, "client_buffer") > 240 << 10;
        let sockets = console.table("show sockets");
        let queued = |row: &&BTreeMap<String, String>| {
            row["send_avail"]
                .parse::<usize>()
                .is_ok_and(|bytes| bytes > 240 << 10)
        };
        let holders: Vec<&str> = sockets
            .iter()
            .filter(queued)
            .map(|row| row["type"].as_str())
            .collect();
        let is_paused = sockets
            .iter()
            .any(|row| row["type"] == "S" && row["paused"] == "1");
        (all && holders == ["C"] && is_paused).then_some(())
    });
    // An administrator gets in.
    scene.console();
    assert_eq!(rows_until_ready(&mut client), 30_000);
    wait("clients are let in again", || Raw::connect(&scene.login()).ok());
    assert!(held(&mut console, "client_buffer") < 64 << 10);
}

#[test]
fn what_makes_the_largest_buffers_grow_is_paused_and_goes_on_later() {
    let scene = Scene::start(Lines {
        corun: "memory_max = \"4MB\"\nconnection_buffer_max = \"256MB\"",
        ..Lines::default()
    });
    let mut console = scene.console();
    let mut clients = [slow(&scene, 60_000), slow(&scene, 60_000)];
    // Both servers can send no more: what they sent is in the kernel's buffers and in the proxy's.
    let stuck = format!(
        "select count(*) = 2 from pg_stat_activity where datname = '{}' and wait_event = 'ClientWrite'",
        scene.database
    );
    let mut times = 0;
    wait("both servers are paused", || {
        let yes = super::postgres::shared().value(&stuck) == "t";
        times = if yes { times + 1 } else { 0 };
        (times == 10).then_some(())
    });
    let held = held(&mut console, "client_buffer");
    assert!(held < 6 << 20, "{held} bytes are held");
    for client in &mut clients {
        assert_eq!(rows_until_ready(client), 60_000);
    }
}
