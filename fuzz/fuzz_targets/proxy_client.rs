//! Clients that send anything: well-formed or not, whole or cut off, in any order, with any timing. The event loop comes to rest,
//! keeps little, answers a well-behaved client beside them, and has nothing left when they are gone.
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

use input::Input;
use libfuzzer_sys::fuzz_target;
use corun_net::reactor::twin::Remote;
use scene::Scene;

/// Clients that send anything, at most.
const CLIENTS: usize = 4;
/// Things they do, at most.
const ACTIONS: usize = 96;
/// Times that many large answers are asked for at once, at most: the simulated network takes its time over each byte.
const FLOODS: usize = 4;
/// Bytes kept for all of them: each has an inbox, what it does not read, and what its server does not.
const KEPT_BYTES_MAX: usize = 16 << 20;

const NAMES: [&str; 4] = ["", "s1", "s2", "p1"];
const TEXTS: [&str; 16] = [
    "select 1",
    "select 'much rows 64 wide 4096'",
    "select $1",
    "begin",
    "commit",
    "rollback",
    "set timezone to 'x'",
    "create temp table t (a int)",
    "copy t from stdin",
    "copy t to stdout",
    "discard all",
    "deallocate s1",
    "execute s1",
    "select fail",
    "listen a; select set_config('a.b', 'c', false)",
    "",
];
const CONSOLE: [&str; 12] = [
    "show pools",
    "show clients",
    "show config",
    "show help",
    "pause",
    "resume app",
    "kill app",
    "reconnect",
    "set query_timeout = 5",
    "disable app",
    "wait_close",
    "shutdown",
];

/// A message that is shaped as the protocol says.
fn well_formed(input: &mut Input<'_>) -> Vec<u8> {
    let name = input.pick(&NAMES);
    let other = input.pick(&NAMES);
    match input.below(16) {
        0 | 1 => message::query(input.pick(&TEXTS)),
        2 => message::query(&input.text()),
        3 => message::query(input.pick(&CONSOLE)),
        4 => message::parse(name, input.pick(&TEXTS), &[]),
        5 => message::parse(name, &input.text(), &[25]),
        6 => message::bind(other, name, &[], false),
        7 => message::bind(other, name, &[Some("v")], true),
        8 => message::describe(b"SP"[input.below(2)], name),
        9 => message::execute(name, u32::from(input.byte())),
        10 => message::close(b"SP"[input.below(2)], name),
        11 => message::sync(),
        12 => message::flush(),
        13 => message::copy_data(input.bytes()),
        14 => message::copy_done(),
        _ => message::copy_fail("f"),
    }
}

fn startup(input: &mut Input<'_>, admin: bool) -> Vec<u8> {
    let minor = [0, 2, 9][input.below(3)];
    let options = input.text();
    let user = match input.below(8) {
        0 => ("stats", "pgbouncer"),
        1 if admin => ("admin", "pgbouncer"),
        2 => ("mallory", "app"),
        3 => ("mallory", "none"),
        _ => ("eve", "app"),
    };
    let mut parameters = vec![("user", user.0), ("database", user.1)];
    match input.below(6) {
        0 => parameters.push(("options", &options)),
        1 => parameters.push(("application_name", &options)),
        2 => parameters.push(("_pq_.x", &options)),
        3 => parameters.push(("timezone", "y")),
        _ => {}
    }
    message::startup(minor, &parameters)
}

fn act(scene: &mut Scene, clients: &mut Vec<Remote>, input: &mut Input<'_>, admin: bool, floods: &mut usize) {
    let action = input.below(20);
    if action == 0 || clients.is_empty() {
        // After a shutdown nobody listens.
        if clients.len() < CLIENTS
            && let Some(client) = scene.proxy.entrance().connect(scene::peer())
        {
            if input.below(8) > 0 {
                client.send(&startup(input, admin));
            }
            clients.push(client);
        }
        return;
    }
    let at = input.below(clients.len());
    let client = &clients[at];
    match action {
        1 => client.send(input.bytes()),
        2 => client.send(&message::message(input.byte(), input.bytes())),
        3 => {
            // The length is not that of what follows.
            let length = u32::from_be_bytes([input.below(4) as u8, input.byte(), input.byte(), input.byte()]);
            client.send(&[&[input.byte()], &length.to_be_bytes()[..], input.bytes()].concat());
        }
        4 => client.send(&startup(input, admin)),
        5 => client.send(&message::ssl_request()),
        6 => client.send(&message::cancel_request(u32::from(input.byte()), input.bytes())),
        7 => {
            let whole = well_formed(input);
            client.send(&whole[..input.below(256).min(whole.len())]);
        }
        8 => client.finish(),
        9 => {
            let gone = clients.remove(at);
            if input.below(2) == 0 {
                gone.reset();
            }
        }
        10 => client.set_room(1 << input.below(24)),
        11 => {
            // Its own key, from what it was told.
            let told = client.receive();
            let key = told.windows(5).position(|part| part == [b'K', 0, 0, 0, 12]);
            if let Some(key) = key.and_then(|at| told.get(at + 5..at + 13)) {
                let pid = u32::from_be_bytes([key[0], key[1], key[2], key[3]]);
                if let Some(canceller) = scene.proxy.entrance().connect(scene::peer()) {
                    canceller.send(&message::cancel_request(pid, &key[4..]));
                }
            }
        }
        12 => scene.network.advance(Duration::from_millis(4 << input.below(8))),
        13 => {
            client.receive();
        }
        14 if *floods < FLOODS => {
            *floods += 1;
            for _ in 0..input.below(8) {
                client.send(&message::query(TEXTS[1]));
            }
        }
        _ => client.send(&well_formed(input)),
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let (seed, kind) = (u64::from(input.byte()), input.byte());
    let mode = ["transaction", "session", "statement", "transaction"][usize::from(kind % 4)];
    let admin = kind & 4 > 0;
    let more = [
        "stats_users = [\"stats\"]\nmax_packet_size = 100000",
        "stats_users = [\"stats\"]\nmax_prepared_statements = 2\n[corun]\nauto_prepare = \"exact\"",
        "stats_users = [\"stats\"]\nmax_prepared_statements = 0",
        "stats_users = [\"stats\"]\napplication_name_add_host = true\n[corun]\ncohorts = \"on\"",
    ][usize::from(kind >> 3 & 3)];
    // A client that waits is told nothing of it: it must get what a server of its own would have sent.
    let more = format!("query_wait_notify = 0\n{more}");
    let mut scene = Scene::new(seed, scene::files(mode, 2, &more));
    let statement_mode = mode == "statement";
    let carries = !(kind >> 3 & 3 == 2 && mode != "session");
    // What a statement pool, or one that carries no statements, answers is not what a server of its own would.
    let good = !admin && !statement_mode && carries;
    if good {
        let script = script::script(seed, "good", 3);
        scene.actor(script);
    }
    let (mut clients, mut floods) = (Vec::new(), 0);
    for _ in 0..ACTIONS {
        if input.is_empty() {
            break;
        }
        act(&mut scene, &mut clients, &mut input, admin, &mut floods);
        scene.step();
        let census = scene.proxy.census();
        assert!(census.bytes < KEPT_BYTES_MAX, "{census:?}");
    }
    scene.run(|_| {});
    if scene.proxy.census().waiting > 0 {
        // Sessions and transactions that do not end may keep others waiting, but not once they have gone.
        clients.clear();
        scene.pass(6.0);
    }
    for actor in &scene.actors {
        actor.check("beside others");
        assert!(actor.is_done(), "the well-behaved client is still there");
    }
    drop(clients);
    scene.pass(6.0);
    if !scene.proxy.has_ended() {
        scene.check_empty();
    }
});
