//! Clients get exactly the answers that a server of their own would give.

use super::actor::Actor;
use super::scene::{Scene, files};
use super::seeds;

fn round(seed: u64, mode: &str, size: usize, more: &str) {
    let mut scene = Scene::new(seed, files(mode, size, more));
    scene.scripts(seed, 5, 12);
    scene.run(|_| {});
    scene.check_answers(seed, 0);
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

fn rounds(count: u64, mode: &str, size: usize, more: &str) {
    seeds(count, |seed| round(seed, mode, size, more));
}

#[test]
fn clients_of_a_session_pool_get_their_own_answers() {
    rounds(60, "session", 5, "");
}

#[test]
fn clients_of_a_session_pool_that_is_too_small_get_their_own_answers() {
    rounds(60, "session", 2, "");
}

#[test]
fn clients_of_a_transaction_pool_get_their_own_answers() {
    rounds(150, "transaction", 2, "");
}

#[test]
fn clients_of_one_server_connection_get_their_own_answers() {
    rounds(100, "transaction", 1, "max_prepared_statements = 2");
}

#[test]
fn repeated_texts_as_prepared_statements_get_their_own_answers() {
    rounds(100, "transaction", 2, "[corun]\nauto_prepare = \"exact\"");
}

#[test]
fn clients_of_several_event_loops_share_one_server_connection() {
    rounds(100, "transaction", 1, "[corun]\nevent_loops = 3");
}

#[test]
fn clients_of_several_event_loops_get_their_own_answers() {
    let more = "max_prepared_statements = 2\n[corun]\nevent_loops = 4";
    rounds(100, "transaction", 2, more);
    rounds(60, "session", 5, "[corun]\nevent_loops = 2");
}
