//! Another configuration and the end of the proxy, while clients are at work.

use super::actor::log_in;
use super::scene::{Scene, files};
use super::seeds;

#[test]
fn another_configuration_under_load_changes_no_answer() {
    seeds(60, |seed| {
        let mut scene = Scene::new(seed, files("transaction", 2, ""));
        scene.scripts(seed, 4, 10);
        scene.run(|scene| {
            if scene.random.percent(10) {
                let size = 1 + scene.random.below(3);
                let more = ["", "server_lifetime = 0", "query_timeout = 1000"];
                let more = scene.random.pick(&more);
                scene.proxy.reload(files("transaction", size, more));
            }
        });
        scene.check_answers(seed, 0);
        scene.check_empty();
    });
}

#[test]
fn the_end_waits_for_transactions() {
    let (early, late) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let enough = seeds(60, |seed| {
        let mut scene = Scene::new(seed, files("transaction", 2, ""));
        scene.scripts(seed, 4, 10);
        let steps = 20 + scene.random.below(200);
        scene.run_and_stop(steps, false);
        // Who reads slowly has time for the last words.
        scene.pass(6.0);
        assert!(scene.proxy.has_ended(), "seed {seed}: {:?}", scene.proxy.census());
        for actor in &scene.actors {
            let (mut got, expected) = (actor.lines(), actor.expected());
            let goodbye = got.pop_if(|last| last.contains("C57P01") || last.contains("C57P03"));
            assert!(actor.remote.is_finished(), "seed {seed}: a client is still there");
            if goodbye.is_none() {
                late.set(late.get() + 1);
                actor.check(&format!("seed {seed}"));
                continue;
            }
            early.set(early.get() + 1);
            assert!(
                expected.starts_with(&got),
                "seed {seed}: another answer before the end"
            );
            let status = got.iter().rev().find(|line| line.starts_with("ready"));
            assert!(
                status.is_none_or(|status| status == "ready I"),
                "seed {seed}: ended within a transaction"
            );
        }
    });
    assert!(
        !enough || (early.get() > 0 && late.get() > 0),
        "{early:?} {late:?}"
    );
}

#[test]
fn who_comes_in_while_it_ends_does_not_keep_it() {
    let mut scene = Scene::new(1, files("transaction", 1, ""));
    scene.server.silent = true;
    let client = scene.actor(vec![log_in("app", &[])]);
    scene.run(|_| {});
    scene.proxy.stop(false);
    scene.run(|_| {});
    assert!(!scene.proxy.has_ended(), "it waits for a login that is under way");
    scene.server.silent = false;
    scene.run(|_| {});
    scene.pass(6.0);
    assert!(scene.proxy.has_ended());
    let told = scene.actors[client].lines();
    assert!(
        told.last().is_some_and(|last| last.contains("C57P01")),
        "{told:?}"
    );
}
