//! Cancel requests, on time and late, right and wrong: none reaches a statement of another client.

use super::actor::sleeper;
use super::message::shown;
use super::scene::{Scene, files};
use super::seeds;

#[test]
fn cancels_strike_their_own_client_or_nobody() {
    let (struck, late) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let enough = seeds(150, |seed| {
        let mode = ["session", "transaction"][(seed % 2) as usize];
        let mut scene = Scene::new(seed, files(mode, 2, ""));
        let sleepers = 2;
        for client in 0..sleepers {
            scene.actor(sleeper("", &format!("sleeper{client}"), 12));
        }
        scene.scripts(seed, 3, 10);
        scene.run(|scene| {
            if scene.random.percent(96) {
                return;
            }
            let who = scene.random.below(sleepers);
            let Some((pid, mut secret)) = scene.actors[who].key() else {
                return;
            };
            // Most are the client's own; some have a wrong secret.
            if scene.random.percent(20) {
                secret[0] ^= 1;
            }
            scene.cancel((pid, secret));
        });
        for client in 0..sleepers {
            let actor = &scene.actors[client];
            assert!(actor.is_done(), "seed {seed}: a sleeper is still there");
            let mut at = 0;
            for line in shown(&actor.messages) {
                if line.starts_with("ready") {
                    at += 1;
                } else if line.starts_with("row") {
                    let own = format!("sleeper{client}:{}", at - 1);
                    assert!(line.contains(&own), "seed {seed}: {line} is not {own}");
                } else if line.starts_with("error") {
                    assert!(line.contains("C57014"), "seed {seed}: {line}");
                }
            }
            assert_eq!(at, 13, "seed {seed}: statements without an answer");
        }
        scene.check_answers(seed, sleepers);
        struck.set(struck.get() + scene.server.cancelled);
        late.set(late.get() + scene.server.late);
        scene.check_empty();
    });
    assert!(!enough || struck.get() > 0, "no cancel request struck");
    assert!(!enough || late.get() > 0, "no cancel request came too late");
}
