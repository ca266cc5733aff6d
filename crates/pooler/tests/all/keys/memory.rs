//! `memory_max`: what buffers hold altogether.

use super::{KeysFixture, held, rows_until_ready};
use crate::common::assert_contains;
use crate::common::raw::{Login, Raw, Row};
use crate::common::wait::{wait, wait_until};

/// A client that asks for `rows` rows of 1,000 bytes and reads none.
fn slow(fixture: &KeysFixture, login: &Login, rows: usize) -> Raw {
    let mut client = fixture.client_as(login);
    let sql = format!("select repeat('x', 1000) from generate_series(1, {rows})");
    client.send_query(&sql);
    client
}

#[test]
fn above_it_new_clients_are_refused_until_there_is_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = KeysFixture::with(
        &format!("unix_socket_dir = {:?}", folder.path()),
        "memory_max = \"256kB\"",
    );
    let mut console = fixture.console();
    assert_eq!(held(&mut console, "server_buffer"), 0);
    // Of a Unix socket the kernel takes no more once it is full; of a TCP connection it takes more now and then, and there is room.
    let mut at_the_socket = fixture.login();
    at_the_socket.socket = Some(folder.path().to_owned());
    let mut client = slow(&fixture, &at_the_socket, 30_000);
    let error = wait(|| fixture.refused());
    assert_contains(&error, "53200");
    assert_contains(&error, "memory_max");
    // Who holds it, and who is not read for it.
    wait_until("the client that does not read holds it all", || {
        // What servers owe counts a little, too.
        let all = held(&mut console, "client_buffer") > 240 << 10;
        let sockets = console.table("show sockets");
        // A socket that is gone has no number.
        let queued = |row: &&Row| {
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
        all && holders == ["C"] && is_paused
    });
    // An administrator gets in.
    fixture.console();
    assert_eq!(rows_until_ready(&mut client), 30_000);
    wait(|| Raw::connect(&fixture.login()));
    assert!(held(&mut console, "client_buffer") < 64 << 10);
}

#[test]
fn what_makes_the_largest_buffers_grow_is_paused_and_goes_on_later() {
    let fixture = KeysFixture::with("", "memory_max = \"4MB\"\nconnection_buffer_max = \"256MB\"");
    let mut console = fixture.console();
    let mut clients = [(); 2].map(|()| slow(&fixture, &fixture.login(), 60_000));
    // Both servers can send no more: what they sent is in the kernel's buffers and in the proxy's.
    let stuck = format!(
        "select count(*) = 2 from pg_stat_activity where datname = '{}' and wait_event = 'ClientWrite'",
        fixture.database
    );
    let mut times = 0;
    wait_until("both servers are paused", || {
        let yes = super::postgres::shared().value(&stuck) == "t";
        times = if yes { times + 1 } else { 0 };
        times == 10
    });
    let held = held(&mut console, "client_buffer");
    assert!(held < 6 << 20, "{held} bytes are held");
    for client in &mut clients {
        assert_eq!(rows_until_ready(client), 60_000);
    }
}
