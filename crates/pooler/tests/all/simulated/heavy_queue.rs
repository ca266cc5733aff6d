//! The queue of heavy queries: whatever happens to those in it, clients get the answers of a server of their own, and in the end nobody
//! waits, nobody runs and no core is taken.

use std::cell::Cell;

use corun_pooler::ConfigFiles;

use super::actor::{self, Step, log_in};
use super::scene::{Scene, files};
use super::script::heavy_script;
use super::seeds;
use super::server::FOLDER;
use crate::common::assert_contains;
use crate::common::configuration;

/// A configuration whose queue has so many cores.
fn heavy(size: usize, cores: usize, more: &str) -> ConfigFiles {
    let more = format!(
        "query_wait_timeout = 1000\n{more}\n[corun]\nheavy_queue = \"on\"\nheavy_queue_cores = {cores}\nheavy_queue_min = \"0ms\"\nheavy_queue_cache_bytes = \"256kB\"\n"
    );
    files("transaction", size, &more)
}

fn scene(seed: u64) -> Scene {
    let size = 1 + (seed % 3) as usize;
    let cores = 1 + (seed / 3 % 2) as usize;
    Scene::new(seed, heavy(size, cores, "server_login_retry = 0"))
}

/// A client with heavy statements that last until somebody ends them.
fn sleeper(name: &str, statements: usize) -> Vec<Step> {
    actor::sleeper("/* corun: heavy_queue=analytic */ ", name, statements)
}

/// How much went on in the queue.
#[derive(Debug, Default)]
struct Seen {
    waited: Cell<usize>,
    ran: Cell<usize>,
    hinted: Cell<usize>,
}

impl Seen {
    fn look(&self, scene: &Scene, cores: usize) {
        let (waiting, running) = scene.proxy.census().queued;
        assert!(running <= cores, "{running} run on {cores} cores");
        self.waited.set(self.waited.get().max(waiting));
        self.ran.set(self.ran.get().max(running));
        let backends = scene.server.backends.iter();
        let hinted = backends.map(|backend| backend.session.hinted).sum();
        self.hinted.set(self.hinted.get().max(hinted));
    }
}

#[test]
fn clients_with_heavy_queries_get_their_own_answers() {
    let seen = Seen::default();
    let enough = seeds(200, |seed| {
        let mut scene = scene(seed);
        for client in 0..6 {
            let script = heavy_script(seed * 100 + client, &format!("c{client}"), 12);
            scene.actor(script);
        }
        scene.run(|scene| seen.look(scene, 2));
        scene.check_answers(seed, 0);
        scene.check_empty();
    });
    assert!(
        !enough || seen.waited.get() > 1 && seen.ran.get() > 1 && seen.hinted.get() > 0,
        "nobody queued, or had hints: {seen:?}"
    );
}

#[test]
fn whatever_happens_nobody_stays_in_the_queue() {
    let (seen, cancelled) = (Seen::default(), Cell::new(0));
    let enough = seeds(300, |seed| {
        let mut scene = scene(seed);
        scene.server.deaths = 4;
        let mut sizes = Vec::new();
        for client in 0..6 {
            let script = match client {
                0 => sleeper(&format!("c{client}"), 8),
                _ => heavy_script(seed * 100 + client, &format!("c{client}"), 10),
            };
            sizes.push(script.iter().map(|step| step.bytes.len()).sum::<usize>());
            scene.actor(script);
        }
        for (at, size) in sizes.into_iter().enumerate().skip(3) {
            let after = 1 + scene.random.below(size);
            scene.actors[at].leaves_after = Some(after);
        }
        scene.run(|scene| {
            seen.look(scene, 2);
            scene.leave();
            match scene.random.below(400) {
                0..8 => {
                    let who = scene.random.below(scene.actors.len());
                    if let Some(key) = scene.actors[who].key() {
                        scene.cancel(key);
                    }
                }
                8 => {
                    // Time for the server to be missed by those that were started.
                    scene.network.advance(std::time::Duration::from_millis(400));
                }
                9 => {
                    let size = 1 + scene.random.below(3);
                    let more = scene.random.pick(&["", "server_lifetime = 0"]);
                    scene.proxy.reload(heavy(size, 2, &format!("server_login_retry = 0\n{more}")));
                }
                10 => {
                    // Its database is gone; it comes back.
                    let text = format!(
                        "[proxy]\nunix_socket_dir = \"/simulated\"\nauth_type = \"any\"\n[corun]\nheavy_queue = \"on\"\n[databases.other]\nhost = \"{FOLDER}\"\nuser = \"app\"\n"
                    );
                    if scene.random.percent(20) {
                        scene.proxy.reload(configuration::files(&text));
                    }
                }
                _ => {}
            }
        });
        cancelled.set(cancelled.get() + scene.server.cancelled);
        scene.server.deaths = 0;
        // Last words, and servers that nobody waits for any more.
        scene.pass(6.0);
        let census = scene.proxy.census();
        assert_eq!(census.queued, (0, 0), "seed {seed}: {census:?}");
        assert_eq!(
            (census.clients, census.waiting),
            (0, 0),
            "seed {seed}: {census:?}"
        );
    });
    assert!(
        !enough || seen.waited.get() > 1 && cancelled.get() > 0,
        "nothing happened"
    );
}

#[test]
fn the_end_of_the_proxy_ends_the_queue() {
    seeds(60, |seed| {
        let mut scene = scene(seed);
        for client in 0..5 {
            scene.actor(heavy_script(seed * 100 + client, &format!("c{client}"), 10));
        }
        let (steps, at_once) = (20 + scene.random.below(200), scene.random.percent(50));
        scene.run_and_stop(steps, at_once);
        scene.pass(6.0);
        assert!(scene.proxy.has_ended(), "seed {seed}: {:?}", scene.proxy.census());
        assert_eq!(scene.proxy.census().queued, (0, 0), "seed {seed}");
    });
}

/// One core, a query that holds it, and one that waits for it.
/// `None`: the query has ended already.
fn queue_of_one(seed: u64, more: &str) -> Option<(Scene, usize, usize)> {
    let mut scene = Scene::new(seed, heavy(4, 1, more));
    let holder = scene.actor(sleeper("holder", 1));
    // A silent server keeps the query from ending.
    let sleeps = |scene: &Scene| {
        scene
            .server
            .backends
            .iter()
            .any(|backend| backend.session.sleeps())
    };
    for _ in 0..1000 {
        if sleeps(&scene) {
            break;
        }
        scene.step();
    }
    if !sleeps(&scene) {
        return None;
    }
    scene.server.silent = true;
    let waiter = scene.actor(sleeper("holder", 1));
    scene.run(|_| {});
    Some((scene, holder, waiter))
}

/// What a client was told last, before it was told that all is idle.
fn told(scene: &Scene, actor: usize) -> String {
    let lines = scene.actors[actor].lines();
    let error = lines.len().checked_sub(2).and_then(|at| lines.get(at));
    error.cloned().unwrap_or_default()
}

#[test]
fn a_statement_timeout_counts_what_was_waited() {
    let mut scene = Scene::new(7, heavy(4, 1, ""));
    let sleeper = |limit: &str| {
        let mut steps = sleeper("holder", 1);
        steps[0] = log_in("app", &[("statement_timeout", limit)]);
        steps
    };
    scene.server.sound = true;
    let holder = scene.actor(sleeper("0"));
    scene.run(|_| {});
    let waiters = [scene.actor(sleeper("10s")), scene.actor(sleeper("30s"))];
    scene.run(|_| {});
    assert_eq!(scene.proxy.census().queued, (2, 1));
    scene.pass(9.0);
    assert_eq!(scene.proxy.census().queued, (2, 1));
    // One while it waits, the other after it has waited for 20 seconds and has run for ten.
    scene.pass(2.0);
    let timeout = "Mcanceling statement due to statement timeout";
    assert_contains(&told(&scene, waiters[0]), timeout);
    scene.pass(9.0);
    scene.cancel(scene.actors[holder].key().expect("a key"));
    scene.run(|_| {});
    assert_contains(&told(&scene, holder), "Mcanceling statement due to user request");
    assert_eq!(scene.proxy.census().queued, (0, 1));
    scene.pass(8.0);
    assert_eq!(scene.proxy.census().queued, (0, 1), "it still runs");
    scene.pass(4.0);
    scene.run(|_| {});
    assert_contains(&told(&scene, waiters[1]), timeout);
    scene.pass(6.0);
    let census = scene.proxy.census();
    assert_eq!((census.queued, census.clients), ((0, 0), 0), "{census:?}");
}

#[test]
fn one_waits_without_a_server_until_the_other_has_ended() {
    let tried = Cell::new(0);
    let enough = seeds(20, |seed| {
        let Some((mut scene, holder, waiter)) = queue_of_one(seed, "") else {
            return;
        };
        tried.set(tried.get() + 1);
        let census = scene.proxy.census();
        assert_eq!(
            census.queued,
            (1, 1),
            "seed {seed}: {census:?} {:?} {:?}",
            scene.actors[holder].lines(),
            scene.actors[waiter].lines()
        );
        assert_eq!(census.servers - census.idle, 1, "only one server works");
        scene.server.silent = false;
        scene.run(|_| {});
        for actor in [holder, waiter] {
            scene.actors[actor].check(&format!("seed {seed}"));
        }
        scene.check_empty();
    });
    assert!(!enough || tried.get() > 5, "{tried:?}");
}

#[test]
fn who_waits_too_long_in_the_queue_is_refused() {
    let (mut scene, _, waiter) = queue_of_one(1, "query_wait_notify = 0").expect("a queue");
    assert_eq!(scene.proxy.census().queued, (1, 1));
    scene.pass(999.0);
    assert_eq!(scene.last(waiter), "ready I");
    scene.pass(2.0);
    assert_contains(&scene.last(waiter), "Mquery_wait_timeout");
    assert_eq!(scene.proxy.census().queued, (0, 1));
}

#[test]
fn a_query_that_waits_can_be_cancelled_at_once() {
    let (mut scene, _, waiter) = queue_of_one(1, "").expect("a queue");
    assert_eq!(scene.proxy.census().queued, (1, 1));
    scene.cancel(scene.actors[waiter].key().expect("a key"));
    scene.run(|_| {});
    let error = told(&scene, waiter);
    assert_contains(&error, "C57014");
    assert_contains(&error, "Mcanceling statement due to user request");
    assert_eq!(scene.last(waiter), "ready I");
    assert_eq!(scene.proxy.census().queued, (0, 1), "the other still runs");
}
