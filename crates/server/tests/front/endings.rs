//! How the server stops.

use std::sync::atomic::Ordering;
use std::time::Duration;

use corun_server::front::FrontConfig;
use corun_wire::backend;

use crate::hostile::Raw;
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
    front.join();
    assert_eq!(server.seen.sessions.load(Ordering::SeqCst), 0);
    let refused = std::net::TcpStream::connect(("127.0.0.1", server.port()));
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
    front.join();
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
