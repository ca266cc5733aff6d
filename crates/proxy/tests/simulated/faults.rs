//! Clients that vanish and servers that die, in the middle of anything: nobody else notices, and nothing is left behind.

use super::actor::{Actor, shown};
use super::answers::check_answers;
use super::scene::{Scene, world};
use super::script::script;
use super::seeds;

#[test]
fn clients_that_vanish_are_noticed_by_nobody() {
    seeds(120, |seed| {
        let mode = ["session", "transaction"][(seed % 2) as usize];
        let mut scene = Scene::new(seed, world(mode, 2, ""));
        for client in 0..6 {
            let script = script(seed * 100 + client, &format!("c{client}"), 10);
            let bytes: usize = script.iter().map(|step| step.bytes.len()).sum();
            let actor = scene.actor(script);
            if client % 2 == 1 {
                let after = 1 + scene.random.below(bytes);
                scene.actors[actor].leaves_after = Some(after);
            }
        }
        let mut vanished = Vec::new();
        scene.run(|scene| {
            while let Some(at) = scene.actors.iter().position(Actor::leaves) {
                let actor = scene.actors.remove(at);
                if scene.random.percent(50) {
                    actor.remote.reset();
                }
                // The others leave in an orderly way, within whatever they were.
                vanished.push(actor.lines());
            }
        });
        assert!(!vanished.is_empty(), "seed {seed}: nobody has left");
        for actor in &scene.actors {
            check_answers(actor, &format!("seed {seed}"));
            assert!(actor.is_done(), "seed {seed}: a client is still there");
        }
        scene.check_empty();
    });
}

#[test]
fn clients_of_servers_that_die_get_the_truth_up_to_then() {
    let mut lost_ones = 0;
    let lost_by_now = std::cell::Cell::new(0);
    seeds(120, |seed| {
        let mode = ["session", "transaction"][(seed % 2) as usize];
        let mut scene = Scene::new(seed, world(mode, 2, "server_login_retry = 0"));
        scene.house.deaths = 8;
        for client in 0..5 {
            let script = script(seed * 100 + client, &format!("c{client}"), 10);
            scene.actor(script);
        }
        scene.run(|_| {});
        for (number, actor) in scene.actors.iter().enumerate() {
            let about = format!("seed {seed}, client {number}");
            if actor.is_done() && actor.lines() == actor.expected() {
                continue;
            }
            lost_by_now.set(lost_by_now.get() + 1);
            check_lost(actor, &about);
        }
        scene.house.deaths = 0;
        // A server that died while nobody had it takes nobody along.
        scene.check_empty();
    });
    lost_ones += lost_by_now.get();
    assert!(lost_ones > 0, "no client has lost its server");
}

/// A client that lost its server got a true part of its answers, then why, then the end.
fn check_lost(actor: &Actor, about: &str) {
    assert!(actor.remote.is_finished(), "{about}: not told that its server is gone");
    let (expected, mut got) = (actor.expected(), shown(&actor.messages));
    let why = got.pop_if(|last| last.starts_with("error SFATAL"));
    let whole = actor.lines().len() == actor.messages.iter().filter_map(super::message::Message::show).count();
    assert!(
        why.is_some() || !whole,
        "{about}: it ended without a word: {:?}",
        got.last()
    );
    if let Some(why) = why {
        assert!(whole, "{about}: something behind the last words");
        assert!(why.contains("C08"), "{about}: {why}");
    }
    let at = got.iter().zip(&expected).position(|(got, expected)| {
        got != expected && !(expected.starts_with("error ") && got.contains(" C25P02 "))
    });
    assert_eq!(
        at.map(|at| (&got[at], &expected[at])),
        None,
        "{about}: another answer"
    );
    assert!(got.len() <= expected.len(), "{about}: more than was asked for");
}
