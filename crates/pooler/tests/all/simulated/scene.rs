//! One event loop, the stand-in for its server, and clients, all in a network in memory; everything follows from a seed.

use std::time::Duration;

use corun_net::reactor::Peer;
use corun_net::reactor::twin::{Network, Remote};
use corun_pooler::{Census, ConfigFiles, Simulated};

use super::actor::{Actor, Step};
use super::configuration;
use super::message::cancel_request;
use super::random::Random;
use super::script::script;
use super::server::{FOLDER, SimulatedServer};

/// Turns after which an event loop that still has something to do does it for ever.
const TURNS_MAX: usize = 200_000;
/// Steps of a scene after which it hangs.
const STEPS_MAX: usize = 60_000;

/// Steps in which nothing happens, by luck or for good. After so many nothing is left to luck.
const QUIET_STEPS: usize = 8;

/// All of it.
pub struct Scene {
    pub network: Network,
    pub proxy: Simulated,
    pub server: SimulatedServer,
    pub actors: Vec<Actor>,
    pub random: Random,
}

/// A configuration of `pool_mode`, so many connections, and more keys of `[proxy]`.
pub fn files(pool_mode: &str, size: usize, more: &str) -> ConfigFiles {
    let text = format!(
        "[proxy]\nunix_socket_dir = \"/simulated\"\nauth_type = \"any\"\nserver_tls_sslmode = \"disable\"\npool_mode = \"{pool_mode}\"\n\
         default_pool_size = {size}\nadmin_users = [\"admin\"]\n{more}\n[databases.app]\nhost = \"{FOLDER}\"\nport = 5432\nuser = \"app\"\n"
    );
    configuration::files(&text)
}

/// A local process.
pub fn peer() -> Peer {
    Peer::Unix {
        uid: u32::MAX - 1,
        gid: 0,
        pid: None,
    }
}

impl Scene {
    pub fn new(seed: u64, files: ConfigFiles) -> Scene {
        let network = Network::random(seed);
        let server = SimulatedServer::new(&network, FOLDER, seed ^ 0x5eed);
        let proxy = Simulated::new(&network, files).unwrap_or_else(|error| panic!("{error}"));
        Scene {
            network,
            proxy,
            server,
            actors: Vec::new(),
            random: Random::new(seed.wrapping_mul(31)),
        }
    }

    /// A connection to the proxy.
    pub fn connect(&self) -> Remote {
        let entrance = self.proxy.entrance();
        entrance
            .connect(peer())
            .unwrap_or_else(|| panic!("nobody listens"))
    }

    /// Sends a cancel request with this key.
    pub fn cancel(&self, (pid, secret): (u32, Vec<u8>)) {
        let remote = self.connect();
        remote.send(&cancel_request(pid, &secret));
        remote.finish();
    }

    /// A client with a script.
    pub fn actor(&mut self, script: Vec<Step>) -> usize {
        let seed = self.random.bits();
        self.actors.push(Actor::new(self.connect(), script, seed));
        self.actors.len() - 1
    }

    /// So many clients with random scripts of so many steps.
    pub fn scripts(&mut self, seed: u64, clients: u64, steps: usize) {
        for client in 0..clients {
            self.actor(script(seed * 100 + client, &format!("c{client}"), steps));
        }
    }

    /// Clients from this number on have sent all and got the answers of a server of their own.
    pub fn check_answers(&self, seed: u64, first: usize) {
        for (number, actor) in self.actors.iter().enumerate().skip(first) {
            actor.check(&format!("seed {seed}, client {number}"));
            assert!(actor.is_done(), "seed {seed}, client {number} is still there");
        }
    }

    /// Clients that have sent all they want leave, half of them in an orderly way, within whatever they were. Returns how many.
    pub fn leave(&mut self) -> usize {
        let mut left = 0;
        while let Some(at) = self.actors.iter().position(Actor::leaves) {
            let actor = self.actors.remove(at);
            if self.random.percent(50) {
                actor.remote.reset();
            }
            left += 1;
        }
        left
    }

    /// Runs to the end and tells the proxy to end after so many steps, or when nothing is left to do.
    pub fn run_and_stop(&mut self, mut steps: usize, at_once: bool) {
        self.run(|scene| {
            steps = steps.saturating_sub(1);
            if steps == 1 {
                scene.proxy.stop(at_once);
            }
        });
        if steps > 1 {
            self.proxy.stop(at_once);
        }
    }

    /// The last line that a client was sent.
    pub fn last(&self, actor: usize) -> String {
        self.actors[actor].lines().pop().unwrap_or_default()
    }

    /// Lets the event loop do what it can.
    pub fn settle(&mut self) {
        assert!(
            self.proxy.settle(TURNS_MAX),
            "an event loop that does not come to rest: {:?}",
            self.proxy.census()
        );
    }

    /// A part of everything there is to do; all of it, where `eager`. `false`: there is nothing, or it was left lying by luck.
    fn part(&mut self, eager: bool) -> bool {
        let mut moved = false;
        for actor in &mut self.actors {
            moved |= (eager || self.random.percent(70)) && actor.step(eager);
        }
        moved |= (eager || self.random.percent(70)) && self.server.step(eager);
        if !eager && self.random.percent(30) {
            self.proxy.settle(1 + self.random.below(3));
        } else {
            self.settle();
        }
        moved
    }

    /// A part of everything there is to do.
    pub fn step(&mut self) {
        self.part(false);
    }

    /// Steps until nothing is left to do. `each` is called after each step.
    pub fn run(&mut self, mut each: impl FnMut(&mut Scene)) {
        let mut quiet = 0;
        for _ in 0..STEPS_MAX {
            let eager = quiet >= QUIET_STEPS;
            quiet = if self.part(eager) { 0 } else { quiet + 1 };
            each(self);
            // The event loop may have had something for the others in the last one.
            if quiet > QUIET_STEPS + 2 {
                return;
            }
        }
        panic!("the scene does not come to rest: {:?}", self.proxy.census());
    }

    /// Lets time pass, and what comes with it happen.
    pub fn pass(&mut self, seconds: f64) {
        self.network.advance(Duration::from_secs_f64(seconds));
        self.run(|_| {});
    }

    /// All clients have gone and nothing of them is left: every server connection is free, or closed.
    pub fn check_empty(&mut self) {
        // Last words may take a while.
        self.pass(6.0);
        let census = self.proxy.census();
        let expected = Census {
            servers: census.servers,
            idle: census.servers,
            ..Census::default()
        };
        assert_eq!(census, expected, "something is left");
        assert!(self.server.is_settled(), "a server is left within something");
        assert_eq!(self.server.backends.len(), census.servers, "a connection is lost");
        let seen = self.network.connections();
        assert_eq!(
            seen,
            census.servers + self.actors.len(),
            "connections that nobody uses"
        );
    }
}
