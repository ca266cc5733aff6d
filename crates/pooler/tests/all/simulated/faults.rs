//! Clients that vanish and servers that die, in the middle of anything: nobody else notices, and nothing is left behind.

use super::actor::{Actor, same, texts};
use super::message::{message, shown};
use super::scene::{Scene, files};
use super::script::script;
use super::seeds;
use crate::common::assert_contains;

#[test]
fn clients_that_vanish_are_noticed_by_nobody() {
    seeds(120, |seed| {
        let mode = ["session", "transaction"][(seed % 2) as usize];
        let mut scene = Scene::new(seed, files(mode, 2, ""));
        for client in 0..6 {
            let script = script(seed * 100 + client, &format!("c{client}"), 10);
            let bytes: usize = script.iter().map(|step| step.bytes.len()).sum();
            let actor = scene.actor(script);
            if client % 2 == 1 {
                let after = 1 + scene.random.below(bytes);
                scene.actors[actor].leaves_after = Some(after);
            }
        }
        let mut vanished = 0;
        scene.run(|scene| {
            vanished += scene.leave();
        });
        assert!(vanished > 0, "seed {seed}: nobody has left");
        scene.check_answers(seed, 0);
        scene.check_empty();
    });
}

#[test]
fn clients_of_servers_that_die_get_the_truth_up_to_then() {
    let lost = std::cell::Cell::new(0);
    let enough = seeds(120, |seed| {
        let mode = ["session", "transaction"][(seed % 2) as usize];
        let mut scene = Scene::new(seed, files(mode, 2, "server_login_retry = 0"));
        scene.server.deaths = 8;
        scene.scripts(seed, 5, 10);
        // Whoever waits for a server that dies during the login waits for the next attempt.
        for _ in 0..=8 {
            scene.pass(0.3);
        }
        for (number, actor) in scene.actors.iter().enumerate() {
            let about = format!("seed {seed}, client {number}");
            if actor.is_done() && actor.is_right() {
                continue;
            }
            lost.set(lost.get() + 1);
            check_lost(actor, &about);
        }
        scene.server.deaths = 0;
        // A server that died while nobody had it takes nobody along.
        scene.check_empty();
    });
    assert!(!enough || lost.get() > 0, "no client has lost its server");
}

/// A client that lost its server got a true part of its answers, then why, then the end.
fn check_lost(actor: &Actor, about: &str) {
    assert!(
        actor.remote.is_finished(),
        "{about}: not told that its server is gone"
    );
    let (expected, mut got) = (actor.expected(), shown(&actor.messages));
    let whole = actor.lines().len() == got.len();
    let why = got.pop_if(|last| last.starts_with("error SFATAL"));
    assert!(
        why.is_some() || !whole,
        "{about}: it ended without a word, with {} of {} messages: {:?}, {:?}",
        got.len(),
        expected.len(),
        got.last(),
        expected.get(got.len())
    );
    if let Some(why) = why {
        assert!(whole, "{about}: something behind the last words");
        assert!(why.contains("C08"), "{about}: {why}");
    }
    let mut pairs = got.iter().zip(&expected);
    let at = pairs.position(|(got, expected)| !same(expected, got));
    assert_eq!(
        at.map(|at| (&got[at], &expected[at])),
        None,
        "{about}: another answer"
    );
    assert!(got.len() <= expected.len(), "{about}: more than was asked for");
}

#[test]
fn what_an_idle_server_says_does_not_get_into_the_next_answer() {
    seeds(20, |seed| {
        let mut scene = Scene::new(seed, files("transaction", 1, ""));
        let first = scene.actor(script(seed, "first", 3));
        scene.run(|_| {});
        scene.actors[first].check("before");
        if scene.server.backends.is_empty() {
            // The client left something that closes its server.
            return;
        }
        let notice = message(
            b'N',
            format!("SNOTICE\0C00000\0M{}\0\0", "n".repeat(500)).as_bytes(),
        );
        let (half, rest) = notice.split_at(200);
        scene.server.backends[0].say(half);
        scene.run(|_| {});
        let second = scene.actor(script(seed + 1, "second", 3));
        scene.server.silent = true;
        scene.run(|_| {});
        scene.server.backends[0].say(rest);
        scene.server.silent = false;
        scene.run(|_| {});
        // It may get a notice, but a whole one.
        let mut got = scene.actors[second].lines();
        got.retain(|line| !line.starts_with("notice SNOTICE | C00000 | Mnnnn"));
        assert_eq!(got, scene.actors[second].expected());
        scene.check_empty();
    });
}

#[test]
fn a_server_that_says_goodbye_to_nobody_serves_nobody() {
    let mut scene = Scene::new(1, files("transaction", 1, ""));
    let first = scene.actor(script(1, "first", 3));
    scene.run(|_| {});
    scene.actors[first].check("before");
    let goodbye = message(b'E', b"SFATAL\0VFATAL\0C57P01\0Mgoodbye\0\0");
    scene.server.backends[0].say(&goodbye);
    // Its socket is still open.
    scene.run(|_| {});
    assert_eq!(scene.server.backends.len(), 0);
    let second = scene.actor(script(2, "second", 3));
    scene.run(|_| {});
    scene.actors[second].check("after");
    scene.check_empty();
}

#[test]
fn a_server_that_answers_what_was_not_asked_is_closed() {
    let row = message(b'D', &[0, 1, 0, 0, 0, 1, b'x']);
    let ready = message(b'Z', b"T");
    for unasked in [&row[..], &row[..6], &ready, &message(b'T', &[0; 100])[..50]] {
        let mut scene = Scene::new(1, files("transaction", 1, ""));
        let first = scene.actor(script(1, "first", 3));
        scene.run(|_| {});
        scene.actors[first].check("before");
        scene.server.backends[0].say(unasked);
        scene.run(|_| {});
        let second = scene.actor(script(2, "second", 3));
        scene.run(|_| {});
        scene.actors[second].check("after");
        scene.check_empty();
    }
}

#[test]
fn what_a_client_did_wrong_is_told_to_no_other() {
    seeds(20, |seed| {
        let mut scene = Scene::new(seed, files("transaction", 1, ""));
        let first = scene.actor(texts(&["select 'fail of the first'"]));
        scene.run(|_| {});
        assert_contains(&scene.actors[first].lines().join("\n"), "fail of the first");
        let second = scene.actor(texts(&["select 'second'"]));
        scene.run(|scene| {
            // The server dies within the answer to the second.
            let begun = scene.actors[second].messages.len() > 3;
            scene.server.deaths = if begun { 1000 } else { 0 };
        });
        let told = scene.actors[second].lines();
        assert!(!told.iter().any(|line| line.contains("first")), "{told:?}");
    });
}
