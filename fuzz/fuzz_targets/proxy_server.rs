//! Servers that answer anything. The event loop comes to rest, keeps little, serves the clients of another server as if nothing were,
//! and has nothing left when the bad ones are gone.
#![no_main]
#![allow(dead_code)]

#[path = "../../crates/pooler/tests/all/simulated/actor.rs"]
mod actor;
#[path = "../../crates/pooler/tests/all/common/configuration.rs"]
mod configuration;
#[path = "proxy/input.rs"]
mod input;
#[path = "../../crates/pooler/tests/all/common/message.rs"]
mod message;
#[path = "../../crates/pooler/tests/all/simulated/plan.rs"]
mod plan;
#[path = "../../crates/pooler/tests/all/common/random.rs"]
mod random;
#[path = "../../crates/pooler/tests/all/simulated/scene.rs"]
mod scene;
#[path = "../../crates/pooler/tests/all/simulated/script.rs"]
mod script;
#[path = "../../crates/pooler/tests/all/simulated/server.rs"]
mod server;
#[path = "../../crates/pooler/tests/all/simulated/session.rs"]
mod session;

use std::time::Duration;

use actor::Step;
use input::Input;
use libfuzzer_sys::fuzz_target;
use corun_net::reactor::twin::Remote;
use message::message;
use scene::Scene;
use session::{Ledger, Session};

/// Where the bad server is.
const FOLDER: &str = "/bad";
/// Things it does, at most.
const ACTIONS: usize = 96;
const KEPT_BYTES_MAX: usize = 64 << 20;
const TAGS: &[u8] = b"123ACDEGHIKNRSTVWZcdnstv";

/// A connection to the bad server: it can answer as it should, and otherwise.
struct Bad {
    remote: Remote,
    session: Session,
}

fn act(scene: &mut Scene, bad: &mut Vec<Bad>, input: &mut Input<'_>) {
    let action = input.below(16);
    if bad.is_empty() {
        return;
    }
    let at = input.below(bad.len());
    let Bad { remote, session } = &mut bad[at];
    match action {
        0 => remote.send(input.bytes()),
        1 | 2 => remote.send(&message(TAGS[input.below(TAGS.len())], input.bytes())),
        3 => remote.send(&message(input.byte(), input.bytes())),
        4 => {
            let length = u32::from_be_bytes([input.below(4) as u8, input.byte(), input.byte(), input.byte()]);
            remote.send(
                &[
                    &[TAGS[input.below(TAGS.len())]],
                    &length.to_be_bytes()[..],
                    input.bytes(),
                ]
                .concat(),
            );
        }
        5 => {
            // What it may ask for before it lets somebody in.
            let kind = u32::from(input.byte() % 13).to_be_bytes();
            remote.send(&message(b'R', &[&kind[..], input.bytes()].concat()));
        }
        6 => remote.send(&message(b'Z', &[b"ITEX"[input.below(4)]])),
        7 => remote.finish(),
        8 => {
            let gone = bad.remove(at);
            if input.below(2) == 0 {
                gone.remote.reset();
            }
        }
        9 => scene.network.advance(Duration::from_millis(4 << input.below(8))),
        10 => remote.set_room(1 << input.below(24)),
        11 => {
            let error = [&b"SFATAL\0VFATAL\0C"[..], input.bytes(), b"\0Mcorun_\0\0"].concat();
            remote.send(&message(b'E', &error));
        }
        _ => {
            // As it should.
            session.receive(&remote.receive());
            while session.sleeps() {
                session.wake();
            }
            remote.send(&session.take_output());
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let (seed, kind) = (u64::from(input.byte()), input.byte());
    let mode = ["transaction", "session"][usize::from(kind % 2)];
    let more = [
        "query_wait_timeout = 20",
        "query_wait_timeout = 20\nserver_check_delay = 0\nserver_check_query = \"select 1\"",
        "query_wait_timeout = 20\nserver_reset_query_always = true",
        "query_wait_timeout = 20\nserver_login_retry = 0",
    ][usize::from(kind >> 1 & 3)];
    let corun = ["", "\n[corun]\nauto_prepare = \"exact\"\n"][usize::from(kind >> 3 & 1)];
    let credentials = ["", "password = \"secret\"\n"][usize::from(kind >> 4 & 1)];
    let more = format!(
        "{more}{corun}\n[databases.bad]\nhost = \"{FOLDER}\"\nport = 5432\nuser = \"app\"\n{credentials}"
    );
    let mut scene = Scene::new(seed, scene::files(mode, 2, &more));
    let server = scene.network.serve(server::socket(FOLDER));
    scene.actor(script::script(seed, "good", 3));
    let mut victims = Vec::new();
    for client in 0..3 {
        let mut script = script::script(seed + client, "victim", 4);
        script[0] = actor::log_in("app", &[("database", "bad")]);
        let sent: Vec<Step> = script;
        victims.push(scene.actor(sent));
    }
    let mut bad: Vec<Bad> = Vec::new();
    let ledger = Ledger::default();
    for number in 0..ACTIONS {
        if input.is_empty() {
            break;
        }
        while let Some(remote) = server.accept() {
            bad.push(Bad {
                remote,
                session: Session::new(77 + number as u32, vec![7; 4], &ledger),
            });
        }
        act(&mut scene, &mut bad, &mut input);
        scene.step();
        let census = scene.proxy.census();
        assert!(census.bytes < KEPT_BYTES_MAX, "{census:?}");
    }
    scene.run(|_| {});
    assert!(
        scene.actors[0].is_done(),
        "the client of the good server is still there"
    );
    scene.actors[0].check("beside a bad server");
    drop(server);
    drop(bad);
    scene.run(|_| {});
    scene.actors.truncate(1);
    scene.check_empty();
});
