//! How the server stops.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corun_server::front::{Access, AccessFiles, Front, FrontConfig, SqlEngine};
use corun_server::session::Identity;
use corun_wire::backend;
use corun_wire::error::Refusal;

use crate::hostile::Raw;
use crate::stand_in::{OneClient, Seen, StandIn};
use crate::{Server, wait};

fn told(raw: &mut Raw) -> String {
    String::from_utf8_lossy(&raw.rest()).into_owned()
}

#[test]
fn idle_clients_hear_it_and_what_runs_is_cancelled_after_its_time() {
    let config = FrontConfig {
        shutdown_grace: Duration::from_millis(500),
        ..FrontConfig::default()
    };
    let mut server = Server::open(config);
    let mut idle = Raw::log_in(&server, "ann");
    let mut busy = Raw::log_in(&server, "bob");
    busy.query("sleep");
    wait("it runs", || server.seen.running.load(Ordering::SeqCst) == 1);
    let front = server.front.take().expect("a front");
    front.stop(false);
    assert!(told(&mut idle).contains("57P01"));
    let last = told(&mut busy);
    assert!(last.contains("57P01") && !last.contains("57014"), "{last}");
    front.join().expect("it was asked to");
    assert_eq!(server.seen.sessions.load(Ordering::SeqCst), 0);
    let refused = TcpStream::connect(("127.0.0.1", server.port()));
    assert!(refused.is_err(), "nobody listens any more");
}

#[test]
fn what_runs_is_finished_in_its_time() {
    let mut server = Server::open(FrontConfig::default());
    let mut busy = Raw::log_in(&server, "ann");
    busy.query("rows 300000");
    wait("it runs", || server.seen.rows.load(Ordering::SeqCst) > 0);
    let front = server.front.take().expect("a front");
    front.stop(false);
    let tags = busy.until(backend::READY);
    assert_eq!(tags.len(), 300_003, "T, rows, C and Z");
    assert!(told(&mut busy).contains("57P01"));
    front.join().expect("it was asked to");
}

#[test]
fn at_once() {
    let mut server = Server::open(FrontConfig::default());
    let mut busy = Raw::log_in(&server, "ann");
    busy.query("sleep");
    wait("it runs", || server.seen.running.load(Ordering::SeqCst) == 1);
    drop(server.front.take());
    assert!(told(&mut busy).contains("57P01"));
}

/// An engine that panics where the event loop uses it: when a client has logged in.
struct Fragile {
    engine: StandIn,
    breaks: Arc<AtomicBool>,
}

impl Clone for Fragile {
    fn clone(&self) -> Self {
        assert!(!self.breaks.load(Ordering::SeqCst), "an injected mistake");
        Self {
            engine: self.engine.clone(),
            breaks: Arc::clone(&self.breaks),
        }
    }
}

impl SqlEngine for Fragile {
    type Session = OneClient;

    fn session(&self, who: Identity) -> Result<OneClient, Refusal> {
        self.engine.session(who)
    }

    fn runtime(&self) -> tokio::runtime::Handle {
        self.engine.runtime()
    }
}

#[test]
fn an_event_loop_that_panics_ends_everything_with_an_error() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .expect("a runtime");
    let config = FrontConfig {
        listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        loops: 2,
        ..FrontConfig::default()
    };
    let access = Access::load(&AccessFiles::default(), &config.listen).expect("no files");
    let breaks = Arc::new(AtomicBool::new(false));
    let engine = Fragile {
        engine: StandIn {
            seen: Arc::new(Seen::default()),
            runtime: runtime.handle().clone(),
        },
        breaks: Arc::clone(&breaks),
    };
    let front = Front::start(config, access, engine).expect("a front");
    let connect = || TcpStream::connect(front.addresses()[0]).expect("connected");
    // One client of each loop; that of the second one is served.
    let mut first = connect();
    let mut other = connect();
    let startup = b"\0\0\0\x12\0\x03\0\0user\0ann\0\0";
    other.write_all(startup).expect("sent");
    let mut bytes = vec![0; 1];
    other.read_exact(&mut bytes).expect("welcomed");
    breaks.store(true, Ordering::SeqCst);
    first.write_all(startup).expect("sent");
    // The other client is told, and everything ends.
    let _ = other.read_to_end(&mut bytes);
    assert!(String::from_utf8_lossy(&bytes).contains("57P01"), "{bytes:?}");
    wait("it ends", || front.has_ended());
    let failed = front.join().expect_err("nobody asked for it");
    assert_eq!(failed.to_string(), "an event loop panicked: an injected mistake");
}
