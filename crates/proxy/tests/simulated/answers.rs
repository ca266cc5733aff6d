//! Clients get exactly the answers that a server of their own would give.

use super::actor::Actor;
use super::scene::{Scene, world};
use super::script::script;
use super::seeds;

/// Panics where a client was told something else than a server of its own would have told it.
pub fn check_answers(actor: &Actor, about: &str) {
    let (expected, lines) = (actor.expected(), actor.lines());
    let same = |(expected, line): (&String, &String)| expected == line || excepted(expected, line);
    if expected.len() != lines.len() || !expected.iter().zip(&lines).all(same) {
        let at = expected
            .iter()
            .zip(&lines)
            .position(|pair| !same(pair))
            .unwrap_or(expected.len().min(lines.len()));
        let from = at.saturating_sub(6);
        let readies = lines[..at].iter().filter(|line| line.starts_with("ready")).count();
        panic!(
            "{about}: another answer, from message {at}\nexpected: {:?}\ngot:      {:?}\nbefore: {:#?}\nsent: {:#?}",
            expected.get(at),
            lines.get(at),
            &lines[from..at],
            actor.sent_around(readies)
        );
    }
}

/// In a transaction that has failed, a statement that was prepared on another server connection cannot be parsed on this one: the server
/// says that the transaction has failed, and not what else is wrong.
fn excepted(expected: &str, line: &str) -> bool {
    expected.starts_with("error ") && line.starts_with("error ") && line.contains(" C25P02 ")
}

fn round(seed: u64, mode: &str, size: usize, more: &str) {
    let mut scene = Scene::new(seed, world(mode, size, more));
    for client in 0..5 {
        let script = script(seed * 100 + client, &format!("c{client}"), 12);
        scene.actor(script);
    }
    scene.run(|_| {});
    for (number, actor) in scene.actors.iter().enumerate() {
        check_answers(actor, &format!("seed {seed}, client {number}"));
        assert!(actor.is_done(), "seed {seed}, client {number} is still there");
    }
    let written = scene.house.ledger.borrow().clone();
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
    seeds(100, |seed| round(seed, "transaction", 1, "max_prepared_statements = 2"));
}

#[test]
fn repeated_texts_as_prepared_statements_get_their_own_answers() {
    seeds(100, |seed| round(seed, "transaction", 2, "\n[corun]\nauto_prepare = \"exact\"\n"));
}
