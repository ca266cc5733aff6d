//! The simulated reactor keeps the contract of the others, by whatever luck.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use corun_net::reactor::twin::{Answer, Network};
use corun_net::reactor::{Address, Event, Handler, Peer, Reactor, Twin};
use proptest::prelude::*;

use crate::reactor::support::{Log, echo, ignore, numbered};

const CLIENT: Peer = Peer::Unix {
    uid: 1000,
    gid: 1000,
    pid: Some(7),
};

#[test]
fn a_calm_network_is_exact() {
    let network = Network::calm();
    let mut reactor = network.reactor();
    let address = SocketAddr::from(([10, 0, 0, 1], 6432));
    let (listener, entrance) = network.listener(Some(address));
    assert_eq!(listener.local(), Some(address));
    reactor.listen(1, listener).unwrap();
    let client = entrance.connect(CLIENT).unwrap();
    let mut log = Log::new(echo);
    reactor.settle(&mut log);
    let token = log.accepted[0];
    assert_eq!(
        (reactor.peer(token), reactor.local(token)),
        (Some(CLIENT), Some(address))
    );
    client.send(b"hello");
    reactor.turn(None, &mut log).unwrap();
    assert_eq!(client.receive(), b"hello");
    client.finish();
    reactor.settle(&mut log);
    assert_eq!(log.events(token), ["data", "closed"]);
    assert!(client.is_closed());
    reactor.unlisten(1);
    assert!(entrance.connect(CLIENT).is_none());
    drop(client);
    assert!(reactor.is_empty());
    assert_eq!(network.connections(), 0);
}

#[test]
fn servers_accept_refuse_or_keep_silent() {
    let network = Network::random(3);
    let mut reactor = network.reactor();
    let mut log = Log::new(ignore);
    let address = Address::Unix(PathBuf::from("/run/.s.PGSQL.5432"));
    reactor.connect(1, &address).unwrap();
    reactor.settle(&mut log);
    assert_eq!(log.closed(1), Some(Some(std::io::ErrorKind::ConnectionRefused)));

    let server = network.serve(address.clone());
    server.set(Answer::Silence);
    reactor.connect(2, &address).unwrap();
    reactor.send(2, b"early");
    reactor.settle(&mut log);
    assert_eq!((log.events(2), reactor.queued(2)), (&[][..], 5));
    server.set(Answer::Accept);
    reactor.settle(&mut log);
    assert_eq!(log.events(2), ["connected", "drained"]);
    assert_eq!(server.accept().unwrap().receive(), b"early");
    assert!(server.accept().is_none());
    reactor.settle(&mut log);
    assert_eq!(log.closed(2), Some(None), "its server has dropped it");

    server.set(Answer::Refuse);
    reactor.connect(3, &address).unwrap();
    reactor.settle(&mut log);
    assert_eq!(log.closed(3), Some(Some(std::io::ErrorKind::ConnectionRefused)));
}

#[test]
fn output_waits_for_room_and_drains() {
    let network = Network::calm();
    let mut reactor = network.reactor();
    let (listener, entrance) = network.listener(None);
    reactor.listen(1, listener).unwrap();
    let client = entrance.connect(CLIENT).unwrap();
    client.set_room(10);
    let mut log = Log::new(ignore);
    reactor.settle(&mut log);
    let token = log.accepted[0];
    reactor.send(token, &numbered(25));
    assert_eq!(reactor.queued(token), 0, "gathered");
    reactor.settle(&mut log);
    assert_eq!(reactor.queued(token), 15);
    assert!(reactor.take(token).is_none());
    let mut received = client.receive_at_most(9);
    reactor.settle(&mut log);
    assert_eq!((reactor.queued(token), log.events(token).len()), (6, 0));
    received.extend(client.receive());
    reactor.settle(&mut log);
    received.extend(client.receive());
    assert_eq!(received, numbered(25));
    assert_eq!((reactor.queued(token), log.events(token)), (0, &["drained"][..]));
}

#[test]
fn goodbyes_end_by_the_clock() {
    for patience in [1, 100] {
        let network = Network::random(patience);
        let mut reactor = network.reactor();
        let (listener, entrance) = network.listener(None);
        reactor.listen(1, listener).unwrap();
        let client = entrance.connect(CLIENT).unwrap();
        client.set_room(4);
        let mut log = Log::new(ignore);
        reactor.settle(&mut log);
        reactor.send(log.accepted[0], b"goodbye");
        reactor.close_after_drain(log.accepted[0], Duration::from_secs(patience));
        reactor.settle(&mut log);
        network.advance(Duration::from_secs(50));
        reactor.settle(&mut log);
        assert_eq!(client.receive(), b"good");
        if patience < 50 {
            assert!(client.is_closed() && reactor.len() == 1);
            continue;
        }
        assert!(!client.is_finished());
        client.send(b"still talking");
        reactor.settle(&mut log);
        assert!(client.is_finished() && !client.is_closed());
        assert_eq!(client.receive(), b"bye");
        client.finish();
        reactor.settle(&mut log);
        assert!(client.is_closed());
        assert_eq!(reactor.len(), 1);
        assert!(log.seen.is_empty());
    }
}

#[test]
fn a_waker_is_an_event() {
    let mut reactor = Network::random(1).reactor();
    let mut log = Log::new(ignore);
    reactor.waker().wake();
    reactor.waker().wake();
    assert!(reactor.has_work());
    reactor.settle(&mut log);
    assert_eq!(log.woken, 1);
}

/// Passes bytes both ways between pairs of connections, with a bound on what is queued.
struct Relay {
    paused: usize,
    queued_max: usize,
    log: Vec<(usize, usize)>,
}

impl Handler<Twin> for Relay {
    fn event(&mut self, reactor: &mut Twin, event: Event<'_>) {
        match event {
            Event::Data { token, bytes } => {
                self.log.push((token, bytes.len()));
                reactor.send(token ^ 1, bytes);
                let queued = reactor.queued(token ^ 1);
                self.queued_max = self.queued_max.max(queued);
                if queued > 100 {
                    self.paused += 1;
                    reactor.pause(token);
                }
            }
            Event::Drained { token } => reactor.resume(token ^ 1),
            Event::Closed { token, .. } => reactor.close_after_drain(token ^ 1, Duration::from_secs(1)),
            Event::Accepted { .. } | Event::Connected { .. } | Event::Woken => {}
        }
    }
}

fn relay(seed: u64, steps: &[(usize, usize, usize)]) -> (Vec<(usize, usize)>, usize) {
    let network = Network::random(seed);
    let mut reactor = network.reactor();
    let (listener, entrance) = network.listener(None);
    reactor.listen(99, listener).unwrap();
    let ends: Vec<_> = (0..4).map(|_| entrance.connect(CLIENT).unwrap()).collect();
    let mut kept = Log::new(ignore);
    kept.keep_accepted = true;
    reactor.settle(&mut kept);
    for (token, stream) in kept.kept.drain(..).enumerate() {
        reactor.add(token, stream).unwrap();
    }
    for end in &ends {
        end.set_room(50);
    }
    let mut handler = Relay {
        paused: 0,
        queued_max: 0,
        log: Vec::new(),
    };
    let mut sent = [const { Vec::new() }; 4];
    let mut received = [const { Vec::new() }; 4];
    for &(end, send, receive) in steps {
        let bytes = numbered(send);
        ends[end].send(&bytes);
        sent[end].extend(bytes);
        reactor.turn(None, &mut handler).unwrap();
        received[end].extend(ends[end].receive_at_most(receive));
    }
    // To the end: everybody reads, and then those with even numbers leave.
    for last in [false, true] {
        for _ in 0..100_000 {
            for (end, received) in ends.iter().zip(&mut received) {
                received.extend(end.receive());
            }
            if !reactor.has_work() {
                break;
            }
            reactor.turn(None, &mut handler).unwrap();
        }
        if !last {
            ends[0].finish();
            ends[2].finish();
        }
    }
    for end in 0..4 {
        assert!(received[end] == sent[end ^ 1], "seed {seed}: end {end}");
        assert!(ends[end].is_finished());
    }
    assert!(handler.queued_max <= 100 + 64 * 1024);
    (handler.log, handler.paused)
}

proptest! {
    #[test]
    fn nothing_is_lost_or_swapped(
        seed in any::<u64>(),
        steps in proptest::collection::vec((0..4usize, 0..3000usize, 0..2000usize), 1..60),
    ) {
        let first = relay(seed, &steps);
        prop_assert_eq!(first, relay(seed, &steps), "the same seed does the same");
    }
}

#[test]
fn back_pressure_happens() {
    let steps: Vec<_> = (0..40).map(|step| (step % 4, 2000, 10)).collect();
    assert!((0..5).all(|seed| relay(seed, &steps).1 > 0));
    assert_ne!(relay(1, &steps).0, relay(2, &steps).0, "seeds differ");
}

#[test]
fn resets_break_both_ways() {
    let mut lost = 0;
    for seed in 0..40 {
        let network = Network::random(seed);
        let mut reactor = network.reactor();
        let (listener, entrance) = network.listener(None);
        reactor.listen(1, listener).unwrap();
        let client = entrance.connect(CLIENT).unwrap();
        let mut log = Log::new(ignore);
        reactor.settle(&mut log);
        let token = log.accepted[0];
        client.send(b"last words");
        client.reset();
        reactor.send(token, b"too late");
        reactor.settle(&mut log);
        assert_eq!(log.closed(token), Some(Some(std::io::ErrorKind::ConnectionReset)));
        assert!(client.receive().is_empty());
        match log.data(token) {
            b"" => lost += 1,
            data => assert_eq!(data, b"last words"),
        }
    }
    assert!((1..40).contains(&lost), "{lost} of 40 resets lost data");
}
