//! How often a text is looked up on its way: once, whatever may change that way, and however long its client waits.

use super::actor::texts;
use super::scene::{Scene, files};
use super::seeds;

/// Three clients send such texts to a pool of so many connections.
fn check(size: usize, more: &str, text: &str) {
    const CLIENTS: usize = 3;
    const TEXTS: usize = 6;
    seeds(10, |seed| {
        let mut scene = Scene::new(seed, files("transaction", size, more));
        let before = scene.proxy.look_ups();
        for client in 0..CLIENTS {
            let own = (0..TEXTS).map(|at| format!("{text} '{client}:{at}'"));
            scene.actor(texts(&own.collect::<Vec<_>>()));
        }
        scene.run(|_| {});
        for actor in &scene.actors {
            actor.check(&format!("seed {seed}"));
        }
        let looked_up = scene.proxy.look_ups() - before;
        assert_eq!(looked_up, (CLIENTS * TEXTS) as u64, "seed {seed}");
    });
}

const SPLITS: &str = "[corun]\nsplit = \"auto\"\n[splits.s]\ndatabase = \"app\"\nquery = \"select sum(v) from t where k > 1\"\n\
    key = \"t.k\"\nminimum = 1\nmaximum = 100";
const HEAVY_QUEUE: &str =
    "[corun]\nheavy_queue = \"on\"\nheavy_queue_cores = 2\nheavy_queue_cache_bytes = \"256kB\"";

#[test]
fn a_text_is_looked_up_once() {
    check(3, "", "select");
}

#[test]
fn a_text_that_waits_for_a_server_is_looked_up_once() {
    check(1, "", "select");
}

#[test]
fn a_text_is_looked_up_once_where_others_run_in_parts() {
    check(3, SPLITS, "select");
}

#[test]
fn a_text_is_looked_up_once_where_others_wait_for_cores() {
    check(1, HEAVY_QUEUE, "select");
}
