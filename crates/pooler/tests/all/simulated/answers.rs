//! Clients get exactly the answers that a server of their own would give.

use super::actor::Actor;
use super::scene::{Scene, files};
use super::script::script;
use super::seeds;

fn round(seed: u64, mode: &str, size: usize, more: &str) {
    let mut scene = Scene::new(seed, files(mode, size, more));
    for client in 0..5 {
        let script = script(seed * 100 + client, &format!("c{client}"), 12);
        scene.actor(script);
    }
    scene.run(|_| {});
    for (number, actor) in scene.actors.iter().enumerate() {
        actor.check(&format!("seed {seed}, client {number}"));
        assert!(actor.is_done(), "seed {seed}, client {number} is still there");
    }
    let written = scene.server.ledger.borrow().clone();
    let once: std::collections::BTreeSet<&String> = written.iter().collect();
    assert_eq!(once.len(), written.len(), "a write was committed twice");
    let acknowledged: usize = scene.actors.iter().map(writes).sum();
    assert!(written.len() <= acknowledged, "more was written than was said");
    scene.check_empty();
}

/// Writes a client was told of.
fn writes(actor: &Actor) -> usize {
    let told = |line: &&String| line.as_str() == "complete INSERT 0 1";
    actor.lines().iter().filter(told).count()
}

#[test]
fn clients_of_a_session_pool_get_their_own_answers() {
    seeds(60, |seed| round(seed, "session", 5, ""));
}

#[test]
fn clients_of_a_session_pool_that_is_too_small_get_their_own_answers() {
    seeds(60, |seed| round(seed, "session", 2, ""));
}

#[test]
fn clients_of_a_transaction_pool_get_their_own_answers() {
    seeds(150, |seed| round(seed, "transaction", 2, ""));
}

#[test]
fn clients_of_one_server_connection_get_their_own_answers() {
    seeds(100, |seed| {
        round(seed, "transaction", 1, "max_prepared_statements = 2")
    });
}

#[test]
fn repeated_texts_as_prepared_statements_get_their_own_answers() {
    seeds(100, |seed| {
        round(seed, "transaction", 2, "\n[corun]\nauto_prepare = \"exact\"\n")
    });
}

#[test]
fn clients_of_several_event_loops_share_one_server_connection() {
    seeds(100, |seed| {
        round(seed, "transaction", 1, "\n[corun]\nevent_loops = 3\n")
    });
}

#[test]
fn clients_of_several_event_loops_get_their_own_answers() {
    seeds(100, |seed| {
        round(
            seed,
            "transaction",
            2,
            "max_prepared_statements = 2\n[corun]\nevent_loops = 4\n",
        )
    });
    seeds(60, |seed| {
        round(seed, "session", 5, "\n[corun]\nevent_loops = 2\n")
    });
}
